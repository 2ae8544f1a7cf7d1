"""Columns of every packed array. `W` worlds, `A` agent slots a world; SI units, frames ISO 8855.

The whole mutable state of a simulator is three tensors:

- `agents` f32 [W, A, AgentCol.ROUTE + 3 R]: one row an agent; after the named columns come the 18 conditioning coefficients
  (`Condition`, physical values) and the route's R entries of (start on lane a, start on lane b, length) [m];
- `slots` i32 [W, A, SlotCol.ROUTE + 2 R]: status, events, counters; then the route's R entries of (lane a, lane b);
- `world` i32 [W, len(WorldCol)].

A route entry with a == b follows one lane; with a != b it is a lane change that blends from a to b over its length.
R is `SimConfig.route_entries`.
"""

from enum import IntEnum, IntFlag


class Condition(IntEnum):
    """The conditioning coefficients an agent is given for an episode (`reset` draws them, the policy sees them)."""

    GOAL_RADIUS = 0
    GOAL_SPEED = 1
    COLLISION = 2
    OFFROAD = 3
    COMFORT = 4
    LANE_ALIGN = 5
    VEL_ALIGN = 6
    LANE_CENTER = 7
    CENTER_BIAS = 8
    VELOCITY = 9
    REVERSE = 10
    STOP_LINE = 11
    TIMESTEP = 12
    OVERSPEED = 13
    GAIN_THROTTLE = 14
    GAIN_STEER = 15
    GAIN_ACCEL = 16
    GAIN_SPEED = 17


class AgentCol(IntEnum):
    """Float columns of an agent."""

    X = 0  # box centre projected to road height [m]
    Y = 1
    Z = 2
    YAW = 3  # (-pi, pi] [rad]
    SPEED = 4  # signed, of the rear axle [m/s]
    ACCEL = 5  # longitudinal [m/s2]
    LAT_ACCEL = 6  # [m/s2], positive left
    STEER = 7  # front wheel angle [rad], positive left
    YAW_RATE = 8  # mean over the last step [rad/s]
    LENGTH = 9
    WIDTH = 10
    HEIGHT = 11
    PREV_X = 12  # the pose one step ago; equal to the pose after a reset
    PREV_Y = 13
    PREV_Z = 14
    PREV_YAW = 15
    JERK_LONG = 16  # the last commanded jerk, before gains [m/s3]
    JERK_LAT = 17
    LANE_OFFSET = 18  # lateral offset from the current lane's centre line, positive left [m]
    LANE_HEADING = 19  # yaw minus the lane's heading, (-pi, pi]
    LANE_WIDTH = 20
    LANE_LIMIT = 21  # speed limit of the current lane [m/s]
    ROUTE_S = 22  # arc length on the route of the nearest route point [m]
    ROUTE_OFFSET = 23  # lateral offset from the route, positive left [m]
    ROUTE_HEADING = 24  # yaw minus the route's heading
    PROGRESS = 25  # the largest ROUTE_S reached [m]
    PROGRESS_STEP = 26  # its increase in the last step [m]
    ROUTE_LENGTH = 27  # [m]
    DRIVEN = 28  # path length since the reset [m]
    WRONG_WAY_DRIVEN = 29  # path length driven against the lanes [m]
    GOAL_DISTANCE = 30  # straight distance to the next goal [m]
    STOPPED = 31  # time since it last moved faster than 0.1 m/s [s]
    GRADE = 32  # dz/ds of the current lane along the agent's heading
    GOAL_X = 33  # the next goal; stays at the last one [m]
    GOAL_Y = 34
    CONDITION = 35  # 18 columns, see Condition
    ROUTE = 53  # R x (start on lane a, start on lane b, length) [m]


class SlotCol(IntEnum):
    """Integer columns of an agent."""

    STATUS = 0  # Status
    PREV_STATUS = 1  # one step ago; equal to STATUS after a reset
    EVENT = 2  # Event bits of the last step
    EVER = 3  # Event bits since the reset
    GOAL = 4  # index of the next goal; num_goals when all are reached
    LANE = 5  # current lane (index in the bank) or -1
    ENTRY = 6  # route entry of ROUTE_S
    ENTRIES = 7  # how many route entries are in use
    STEPS = 8  # steps taken while live
    ROUTE = 9  # R x (lane a, lane b), indices in the bank


class WorldCol(IntEnum):
    """Integer columns of a world."""

    ID = 0  # first_world + index: what the random counters use
    MAP = 1  # index of its map in the bank
    EPISODE = 2  # counts resets, from 0
    STEP = 3  # steps since the reset
    DONE = 4  # 1 when the episode is over


class Status(IntEnum):
    """What a slot holds. Only LIVE acts; LIVE and STOPPED are solid and drawn."""

    EMPTY = 0
    LIVE = 1
    STOPPED = 2  # ended by an infraction, left standing
    REMOVED = 3  # ended by an infraction, taken away
    FINISHED = 4  # reached its last goal, taken away
    TIMED_OUT = 5  # still driving when its world ended; solid and drawn until the reset


class AgentKind(IntEnum):
    """What an agent is; each has its own size, limits and dynamics."""

    CAR = 0
    TRUCK = 1  # and buses
    CYCLIST = 2  # and motorcyclists
    PEDESTRIAN = 3


class LightColour(IntEnum):
    """What a signal shows."""

    UNKNOWN = 0
    RED = 1
    YELLOW = 2
    GREEN = 3


class Event(IntFlag):
    """What happened to an agent in a step."""

    COLLISION = 1
    OFFROAD = 2
    RED_LIGHT = 4
    WRONG_WAY = 8
    GOAL = 16
    FINISH = 32


class Stream(IntEnum):
    """Names of the random streams; see `kernels/random.py`."""

    SPAWN = 0
    SIZE = 1
    SPEED = 2
    ROUTE = 3
    GOALS = 4
    CONDITION = 5
    DRAW = 6
    MAP = 7
    LIGHTS = 8
    NOISE = 9
    SPELLS = 10


class Head(IntEnum):
    """Header of a map bank: `bank_i[Head.X]` is where table X begins, in `bank_i` or (F_*) in `bank_f`.

    A bank is two flat tensors, `bank_i` i32 and `bank_f` f32, that hold all maps one after another. Lane, point, edge and
    slot numbers in the tables count over all maps; "point p" with p+1 on the same lane names the segment between them.
    """

    NUM_MAPS = 0
    MAPS = 1  # [M, len(MapInt)]
    LANES = 2  # [L, len(LaneInt)]
    POINT_LANE = 3  # [P] lane of each centre-line point
    SUCCESSORS = 4  # [..] lanes, by LaneInt.SUCC0 and NUM_SUCC
    CELLS = 5  # [C] where each cell's row begins in CELL_ROWS
    CELL_ROWS = 6  # [..] for each cell CellInt, its lane points, and its edges as pairs (edge, bits of the distance)
    NEAR_LANES = 7  # [N, NUM_NEAR_LANES] rows of F_OBS_LANES nearest to the near cell's centre, in order, -1 padded
    NEAR_EDGES = 8  # [N, NUM_NEAR_EDGES] rows of F_OBS_EDGES likewise
    NUM_NEAR_LANES = 9
    NUM_NEAR_EDGES = 10
    SLOT_LANE = 11  # [S] lane of each spawn slot
    STOPS = 12  # [K, len(StopInt)] stop lines that a signal governs
    STOP_LANES = 13  # [..] lanes, by StopInt.LANE0 and NUM_LANES
    LANE_STOPS = 14  # [..] stop lines in the order of their arc length, by LaneInt.STOP0 and NUM_STOPS
    NEAR_STOPS = (
        15  # [N + M] where each near cell's list begins in STOP_ITEMS, then, for each map, where its last one ends
    )
    STOP_ITEMS = 16  # [..] stop lines that a centre in the cell may just have crossed
    F_MAPS = 17  # [M, len(MapFloat)]
    F_LANES = 18  # [L, len(LaneFloat)]
    F_POINTS = 19  # [P, len(PointCol)]
    F_SEGMENTS = 20  # [P, len(SegmentCol)] the segment from each point to the next of its lane; the last ones are void
    F_EDGES = 21  # [E, len(EdgeCol)]
    F_OBS_LANES = 22  # [.., len(ObsSegment)]
    F_OBS_EDGES = 23  # [.., len(ObsSegment)]
    F_SLOT_S = 24  # [S] arc length of each spawn slot on its lane [m]
    F_STOPS = 25  # [K, len(StopFloat)]
    F_LANE_STOPS = 26  # [..] arc length of each LANE_STOPS on its lane [m]
    SIZE = 27


class CellInt(IntEnum):
    """How the row of a grid cell begins."""

    INSIDE = 0  # 1 where the cell's centre is drivable
    NUM_LANES = 1  # points p whose segment may be the lane of a pose in the cell, or hold a point of it
    NUM_EDGES = 2  # edge segments within reach of the cell, nearest to its centre first
    ITEMS = 3  # the points; then an edge and its distance from the centre [m], the bits of a float32, and so on


class MapInt(IntEnum):
    """Integers of a map."""

    NX = 0  # grid cells along x and y; row-major, cell = CELL0 + iy * NX + ix
    NY = 1
    CELL0 = 2
    LANE0 = 3
    NUM_LANES = 4
    SLOT0 = 5
    NUM_SLOTS = 6
    NEAR_NX = 7  # the coarser grid of NEAR_LANES and NEAR_EDGES, from the same corner
    NEAR_NY = 8
    NEAR0 = 9
    NUM_STOPS = 10


class MapFloat(IntEnum):
    """Floats of a map."""

    ORIGIN_X = 0  # lower left corner of the grid [m]; the grid covers the map with a margin, outside it all is off-road
    ORIGIN_Y = 1
    CELL = 2  # side of a cell [m]
    NEAR_CELL = 3  # side of a cell of NEAR_LANES and NEAR_EDGES [m]
    GREEN_LOW = 4  # range of a green phase [s], as configured; so are the next two
    GREEN_HIGH = 5
    YELLOW = 6
    ALL_RED = 7
    DT = 8  # of a step [s]


class LaneInt(IntEnum):
    """Integers of a lane."""

    POINT0 = 0  # first centre-line point
    NUM_POINTS = 1  # at least 2, evenly spaced
    SUCC0 = 2
    NUM_SUCC = 3
    LEFT = 4  # neighbour that may be changed into, or -1
    RIGHT = 5
    TURN = 6  # maps.road_map.Turn
    STOP0 = 7  # in LANE_STOPS
    NUM_STOPS = 8


class LaneFloat(IntEnum):
    """Floats of a lane."""

    LENGTH = 0  # (NUM_POINTS - 1) * SPACING [m]
    SPACING = 1  # [m]
    LIMIT = 2  # speed limit [m/s]
    REACH = 3  # longest way on from this lane's end over successors, capped at 1000 [m]


class StopInt(IntEnum):
    """Integers of a stop line that a signal governs."""

    CONTROLLER = 0  # number of the signal's controller within the map
    GROUP = 1  # its group, from 0
    NUM_GROUPS = 2  # of the controller, at least 2: while the last one is green all signals of a lone group are red
    LANE0 = 3  # in STOP_LANES
    NUM_LANES = 4


class StopFloat(IntEnum):
    """A stop line that a signal governs."""

    X = 0  # its middle [m]
    Y = 1
    Z = 2
    COS = 3  # of the traffic's heading, at right angles to the line
    SIN = 4
    HALF = 5  # half its length [m]


class PointCol(IntEnum):
    """A centre-line point."""

    X = 0
    Y = 1
    Z = 2
    COS = 3  # unit tangent
    SIN = 4
    WIDTH = 5


class SegmentCol(IntEnum):
    """A centre-line segment, as searches read it."""

    X = 0  # its first point [m]
    Y = 1
    DX = 2  # to its second point [m]
    DY = 3
    BEND = 4  # by how much the lane's tangent turns along it, in (-pi, pi] [rad]
    HALF_WIDTH_2 = 5  # square of half the lane's width at the first point [m2]
    Z = 6  # of the first point [m]
    LANE = 7  # as a float, exact for the first 2^24 lanes


class EdgeCol(IntEnum):
    """An edge segment, drivable on its left."""

    X0 = 0
    Y0 = 1
    X1 = 2
    Y1 = 3
    Z = 4  # of its middle


class ObsSegment(IntEnum):
    """A lane or edge piece as observed (world frame)."""

    X = 0  # middle
    Y = 1
    Z = 2
    HALF_LENGTH = 3
    COS = 4  # direction of travel (lanes), drivable on the left (edges)
    SIN = 5
    WIDTH = 6  # lanes; 0 for edges
    LIMIT = 7  # lanes [m/s]; 0 for edges
