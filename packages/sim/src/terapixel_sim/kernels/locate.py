"""Where moved agents are: their lane, their place on the route, their next goal.

Each function does one stage for a block of agents: it reads what it needs of all of them, computes in a loop that a CPU's
compiler pipelines or vectorises, and writes. On a GPU a block is one agent.
"""

from ..layout import AgentCol, CellInt, Condition, Head, LaneFloat, SlotCol
from ..runtime import ti
from .geometry import arctan2, cosine_sine, path_distance
from .lane import LANE_FLOATS, best_segment, cell_at, segment_point
from .rewards import FAR_M
from .route import entry_point, route_point, route_search
from .rows import At, row_of, slot_of, some_agents

OFF_ROUTE_M = 10.0
"""Farther from the route than this, an agent makes no progress on it."""


@ti.func
def find_lane(
    agents: ti.template(),
    slots: ti.template(),
    bank_i: ti.template(),
    bank_f: ti.template(),
    live: ti.template(),
    map_id: ti.i32,
    at: some_agents,
    block: ti.template(),
):
    """Find the lanes of a block's live agents.

    Returns:
        For each agent (where its cell's row begins in `bank_i`, or -1 outside the grid; 1 if it is within half a width
        of a lane; 1 if such a lane leads its way).
    """
    x = ti.Vector.zero(ti.f32, block)
    y = ti.Vector.zero(ti.f32, block)
    yaw = ti.Vector.zero(ti.f32, block)
    for k in range(block):
        row = row_of(at, ti.min(k, at[At.COUNT] - 1))
        x[k] = agents[row + AgentCol.X]
        y[k] = agents[row + AgentCol.Y]
        yaw[k] = agents[row + AgentCol.YAW]
    cosine = ti.Vector.zero(ti.f32, block)
    sine = ti.Vector.zero(ti.f32, block)
    for k in range(block):
        cosine[k], sine[k] = cosine_sine(yaw[k])
    # loops of their own, in which the processor waits for many rows at a time
    cells = ti.Vector.zero(ti.i32, block)
    for k in range(block):
        cell = cell_at(bank_i, bank_f, map_id, x[k], y[k])
        first_row = bank_i[bank_i[Head.CELLS] + ti.select(cell >= 0, cell, 0)]
        cells[k] = ti.select(cell >= 0, bank_i[Head.CELL_ROWS] + first_row, -1)
    total = ti.Vector.zero(ti.i32, block)
    for k in range(block):
        count = bank_i[ti.select(cells[k] >= 0, cells[k], 0) + CellInt.NUM_LANES]
        total[k] = ti.select(cells[k] >= 0, count, 0)
    point = ti.Vector.zero(ti.i32, block)
    place = ti.Vector.zero(ti.f32, block)
    inside = ti.Vector.zero(ti.i32, block)
    aligned = ti.Vector.zero(ti.i32, block)
    for k in range(block):
        if live[k] == 1:
            point[k], place[k], inside[k], aligned[k] = best_segment(
                bank_i,
                bank_f,
                cells[k] + CellInt.ITEMS,
                total[k],
                x[k],
                y[k],
                agents[row_of(at, k) + AgentCol.Z],
                cosine[k],
                sine[k],
                slots[slot_of(at, k) + SlotCol.LANE],
                block,
            )
    # the point of the lane, then the pose relative to it, which takes the place of the position
    c = ti.Vector.zero(ti.f32, block)
    n = ti.Vector.zero(ti.f32, block)
    grade = ti.Vector.zero(ti.f32, block)
    for k in range(block):
        if live[k] == 1:
            row = row_of(at, k)
            lane = -1
            if point[k] >= 0:
                lane = bank_i[bank_i[Head.POINT_LANE] + point[k]]
                record = bank_i[Head.F_LANES] + lane * LANE_FLOATS
                p = segment_point(bank_i, bank_f, point[k], place[k], bank_f[record + LaneFloat.SPACING])
                x[k] -= p[0]
                y[k] -= p[1]
                c[k] = p[3]
                n[k] = p[4]
                grade[k] = p[6]
                agents[row + AgentCol.Z] = p[2]
                agents[row + AgentCol.LANE_WIDTH] = p[5]
                agents[row + AgentCol.LANE_LIMIT] = bank_f[record + LaneFloat.LIMIT]
            slots[slot_of(at, k) + SlotCol.LANE] = lane
    for k in range(block):
        dot = c[k] * cosine[k] + n[k] * sine[k]
        y[k] = c[k] * y[k] - n[k] * x[k]
        x[k] = arctan2(c[k] * sine[k] - n[k] * cosine[k], dot)
        grade[k] *= dot
    for k in range(block):
        if live[k] == 1:
            row = row_of(at, k)
            # height, width and limit stay those of the last lane where there is none
            agents[row + AgentCol.LANE_OFFSET] = ti.select(point[k] >= 0, y[k], FAR_M)
            agents[row + AgentCol.LANE_HEADING] = x[k]
            agents[row + AgentCol.GRADE] = grade[k]
    return cells, inside, aligned


@ti.func
def find_route(
    agents: ti.template(),
    slots: ti.template(),
    bank_i: ti.template(),
    bank_f: ti.template(),
    live: ti.template(),
    distance: ti.template(),
    at: some_agents,
    block: ti.template(),
):
    """Find the places on the route of a block's live agents, who drove a distance, and what they gained on it."""
    entry = ti.Vector.zero(ti.i32, block)
    place = ti.Vector.zero(ti.f32, block)
    for k in range(block):
        if live[k] == 1:
            row = row_of(at, k)
            slot = slot_of(at, k)
            s, e, u, away = route_search(agents, slots, bank_i, bank_f, row, slot, ti.abs(distance[k]), block)
            entry[k] = e
            place[k] = u
            agents[row + AgentCol.ROUTE_S] = s
            slots[slot + SlotCol.ENTRY] = e
            gained = s - agents[row + AgentCol.PROGRESS]
            if away <= OFF_ROUTE_M and gained > 0.0:
                agents[row + AgentCol.PROGRESS] = s
                agents[row + AgentCol.PROGRESS_STEP] = gained
    x = ti.Vector.zero(ti.f32, block)
    y = ti.Vector.zero(ti.f32, block)
    yaw = ti.Vector.zero(ti.f32, block)
    c = ti.Vector.zero(ti.f32, block)
    n = ti.Vector.zero(ti.f32, block)
    for k in range(block):
        if live[k] == 1:
            row = row_of(at, k)
            p = entry_point(agents, slots, bank_i, bank_f, row, slot_of(at, k), entry[k], place[k])
            x[k] = agents[row + AgentCol.X] - p[0]
            y[k] = agents[row + AgentCol.Y] - p[1]
            yaw[k] = agents[row + AgentCol.YAW]
            c[k] = p[3]
            n[k] = p[4]
    for k in range(block):
        cosine, sine = cosine_sine(yaw[k])
        y[k] = c[k] * y[k] - n[k] * x[k]
        x[k] = arctan2(c[k] * sine - n[k] * cosine, c[k] * cosine + n[k] * sine)
    for k in range(block):
        if live[k] == 1:
            row = row_of(at, k)
            agents[row + AgentCol.ROUTE_OFFSET] = y[k]
            agents[row + AgentCol.ROUTE_HEADING] = x[k]


@ti.func
def set_goal(
    agents: ti.template(),
    slots: ti.template(),
    bank_i: ti.template(),
    bank_f: ti.template(),
    row: ti.i32,
    slot: ti.i32,
    num_goals: ti.i32,
):
    """Keep where the next goal lies: goal k on the route at ROUTE_LENGTH (k + 1) / num_goals; 0 m away if none is left."""
    goal = slots[slot + SlotCol.GOAL]
    distance = 0.0
    if goal < num_goals:
        s = agents[row + AgentCol.ROUTE_LENGTH] / ti.cast(num_goals, ti.f32) * ti.cast(goal + 1, ti.f32)
        p = route_point(agents, slots, bank_i, bank_f, row, slot, s)
        agents[row + AgentCol.GOAL_X] = p[0]
        agents[row + AgentCol.GOAL_Y] = p[1]
        dx = p[0] - agents[row + AgentCol.X]
        dy = p[1] - agents[row + AgentCol.Y]
        distance = ti.sqrt(dx * dx + dy * dy)
    agents[row + AgentCol.GOAL_DISTANCE] = distance


@ti.func
def reach_goals(
    agents: ti.template(),
    slots: ti.template(),
    bank_i: ti.template(),
    bank_f: ti.template(),
    live: ti.template(),
    num_goals: ti.i32,
    at: some_agents,
    block: ti.template(),
):
    """Judge the next goals of a block's live agents and keep GOAL and GOAL_DISTANCE; for each 1 if it was reached.

    A goal is reached when the centre's path passes within the agent's goal radius, in plan, in order, and at most one a
    step.
    """
    reached = ti.Vector.zero(ti.i32, block)
    for k in range(block):
        slot = slot_of(at, ti.min(k, at[At.COUNT] - 1))
        if live[k] == 1 and slots[slot + SlotCol.GOAL] < num_goals:
            row = row_of(at, k)
            x = agents[row + AgentCol.X]
            y = agents[row + AgentCol.Y]
            goal_x = agents[row + AgentCol.GOAL_X]
            goal_y = agents[row + AgentCol.GOAL_Y]
            agents[row + AgentCol.GOAL_DISTANCE] = ti.sqrt((goal_x - x) * (goal_x - x) + (goal_y - y) * (goal_y - y))
            away = path_distance(agents[row + AgentCol.PREV_X], agents[row + AgentCol.PREV_Y], x, y, goal_x, goal_y)
            if away <= agents[row + AgentCol.CONDITION + Condition.GOAL_RADIUS]:
                reached[k] = 1
                slots[slot + SlotCol.GOAL] = slots[slot + SlotCol.GOAL] + 1
                set_goal(agents, slots, bank_i, bank_f, row, slot, num_goals)
    return reached
