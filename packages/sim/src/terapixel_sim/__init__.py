"""Terapixel's simulator: many agents, each with its own cameras, in batched bounding-box worlds.

Nothing is started at import; Taichi starts with the first `Simulator`.
"""

from .camera import Appearance, Camera, CameraRig
from .config import ConditionConfig, ObservationConfig, RewardConfig, RouteConfig, SimConfig, SpawnConfig
from .layout import AgentCol, Condition, Event, SlotCol, Status, WorldCol
from .maps.road_map import Lane, Marking, RoadMap, Turn, load_map
from .observation import describe
from .rigs import get_rig
from .simulator import INTERFACE, Simulator

__version__ = "0.1.0"

__all__ = [
    "INTERFACE",
    "AgentCol",
    "Appearance",
    "Camera",
    "CameraRig",
    "Condition",
    "ConditionConfig",
    "Event",
    "Lane",
    "Marking",
    "ObservationConfig",
    "RewardConfig",
    "RoadMap",
    "RouteConfig",
    "SimConfig",
    "Simulator",
    "SlotCol",
    "SpawnConfig",
    "Status",
    "Turn",
    "WorldCol",
    "describe",
    "get_rig",
    "load_map",
]
