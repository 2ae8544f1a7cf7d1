"""PPO self-play on tensor batches of many agents (docs/interface.md)."""

from .checkpoint import load_checkpoint, load_policy, package_version
from .config import NetworkConfig, PPOConfig, TeacherConfig
from .gae import gae
from .networks import TeacherPolicy
from .ppo import PPO
from .protocols import INTERFACE, ActorCritic, Env
from .train import train

__version__ = package_version()
__all__ = [
    "INTERFACE",
    "PPO",
    "ActorCritic",
    "Env",
    "NetworkConfig",
    "PPOConfig",
    "TeacherConfig",
    "TeacherPolicy",
    "gae",
    "load_checkpoint",
    "load_policy",
    "train",
]
