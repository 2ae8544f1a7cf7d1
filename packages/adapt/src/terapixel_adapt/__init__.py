"""Aligns a new perception encoder to a frozen planner."""

from .adapted import AdaptedPolicy
from .align import align
from .checkpoint import load_adapted
from .config import AdaptConfig
from .looks import Look
from .losses import r2
from .protocols import INTERFACE, Pairs, Policy

__all__ = ["INTERFACE", "AdaptConfig", "AdaptedPolicy", "Look", "Pairs", "Policy", "align", "load_adapted", "r2"]
