"""Self-play DAgger from camera pixels on tensor batches."""

from .aggregate import Aggregate
from .checkpoint import load_policy
from .config import LossConfig, NetworkConfig, StudentConfig
from .dagger import DAgger
from .labels import label
from .networks import StudentPolicy
from .protocols import INTERFACE, Env, Expert
from .train import train

__all__ = [
    "INTERFACE",
    "Aggregate",
    "DAgger",
    "Env",
    "Expert",
    "LossConfig",
    "NetworkConfig",
    "StudentConfig",
    "StudentPolicy",
    "label",
    "load_policy",
    "train",
]
