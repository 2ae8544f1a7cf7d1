"""Terapixel's simulator: many agents, each with its own cameras, in batched bounding-box worlds.

Nothing is started at import; Taichi starts with the first `Simulator`.
"""

from .camera import Appearance, Camera, CameraRig
from .config import (
    ConditionConfig,
    LightConfig,
    ObservationConfig,
    PerturbConfig,
    RewardConfig,
    RouteConfig,
    SimConfig,
    SpawnConfig,
)
from .layout import AgentCol, AgentKind, Condition, Event, LightColour, SlotCol, Status, WorldCol
from .maps.road_map import Crosswalk, Lane, LaneKind, Marking, Obstacle, RoadMap, Signal, StopLine, Turn
from .maps.sources import load_map
from .observation import describe
from .rigs import get_rig
from .scenario import Scenario, Tracks
from .simulator import INTERFACE, Simulator

__version__ = "0.1.0"

__all__ = [
    "INTERFACE",
    "AgentCol",
    "AgentKind",
    "Appearance",
    "Camera",
    "CameraRig",
    "Condition",
    "ConditionConfig",
    "Crosswalk",
    "Event",
    "Lane",
    "LaneKind",
    "LightColour",
    "LightConfig",
    "Marking",
    "ObservationConfig",
    "Obstacle",
    "PerturbConfig",
    "RewardConfig",
    "RoadMap",
    "RouteConfig",
    "Scenario",
    "Signal",
    "SimConfig",
    "Simulator",
    "SlotCol",
    "SpawnConfig",
    "Status",
    "StopLine",
    "Tracks",
    "Turn",
    "WorldCol",
    "describe",
    "get_rig",
    "load_map",
]
