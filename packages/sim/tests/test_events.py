"""Events of a step: off-road, wrong way, goals, collisions."""

import math

import numpy as np
import pytest
import torch
from shapely import Polygon, affinity
from shapely import box as rectangle
from step_bank import Stage, Town, loop_edges, plain_town, straight
from terapixel_sim.layout import AgentCol, Event, SlotCol, Status
from terapixel_sim.reference.events import off_road
from terapixel_sim.reference.lane import Bank

OUTER = [(-60, -60), (60, -60), (60, 60), (-60, 60)]
ISLAND = [(-30, -30), (-30, 30), (30, 30), (30, -30)]
ROAD = Polygon(OUTER, [ISLAND])
RING = Town(
    [straight(-50, -95, -49, -95)],
    np.concatenate([loop_edges(OUTER), loop_edges(ISLAND)]),
    lambda x, y: ROAD.contains(Polygon([(x, y), (x + 1e-6, y), (x, y + 1e-6)])),
)


def events(s, a=0):
    return Event(s.slot("EVENT", a))


def footprint(x, y, yaw, length=4.5, width=2.0):
    r = affinity.rotate(rectangle(-length / 2, -width / 2, length / 2, width / 2), yaw, origin=(0, 0), use_radians=True)
    return affinity.translate(r, x, y)


def test_offroad_on_a_ring_with_an_island():
    """A standing box is on the road iff the ring with its island contains all of it."""
    s = Stage(RING, 1, 400, infraction="ignore")
    rng = np.random.default_rng(5)
    poses = np.column_stack([rng.uniform(-75, 75, (400, 2)), rng.uniform(-3, 3, 400)])
    poses[:40, :2] = rng.choice([-60, -30, 30, 60, -28, 4], (40, 2))  # corners, edges, cell centres
    for a, (x, y, yaw) in enumerate(poses):
        s.put(a, x, y, yaw)
    s.step()
    bank = Bank(s.bank_i.tolist(), s.bank_f.tolist())
    inside = 0
    for a, (x, y, yaw) in enumerate(poses):
        body = footprint(x, y, yaw)
        want = not ROAD.contains(body)
        inside += not want
        if body.boundary.distance(ROAD.boundary) > 1e-3 or want:
            assert bool(events(s, a) & Event.OFFROAD) == want, (x, y, yaw)
            box = (x, y, yaw, 2.25, 1.0)
            assert off_road(bank, 0, box, box, 0.0, False) == want
    assert 60 < inside < 340


def test_offroad_sees_what_the_corners_crossed():
    """A short kerb that lies between two poses and meets neither box."""
    kerb = Town([straight(-90, 0, 90, 0)], np.array([[3.6, 1.1, 3.6, 0.9, 0.0]]))
    s = Stage(kerb, 1, 2, infraction="ignore", dt_s=0.5)
    s.put(0, 0.0, 0.0, speed=20.0)
    s.put(1, 0.0, -3.0, speed=20.0)
    s.step()
    assert s.col("X") - 2.25 > 3.6
    assert events(s, 0) & Event.OFFROAD
    assert not events(s, 1) & Event.OFFROAD


def test_edges_of_another_level_do_not_count():
    bridge = Town([straight(-90, 0, 90, 0)], np.array([[0.0, -3.0, 0.0, 3.0, 6.0]]))
    s = Stage(bridge, 1, 1, infraction="ignore")
    s.put(0, 0.0, 0.0)
    assert not events(s.step()) & Event.OFFROAD


def test_outside_the_grid_is_off_road():
    s = Stage(plain_town(), 1, 3, infraction="ignore")
    for a, x in enumerate((101.0, -1e30, math.nan)):
        s.put(a, x, 0.0)
    s.step()
    assert all(events(s, a) & Event.OFFROAD for a in range(3))


@pytest.mark.parametrize(
    ("y", "yaw", "speed", "wrong"),
    [
        (0, math.pi, 5, True),
        (0, 0, 5, False),
        (0, math.pi, 0.3, False),
        (0, math.pi, -1, False),
        (2.5, math.pi, 5, False),
        (-6, 0, 5, True),
    ],
)
def test_wrong_way(y, yaw, speed, wrong):
    """Within half a width of lanes of which none leads its way, and driving; it ends nobody's episode."""
    s = Stage(Town([straight(-90, 0, 90, 0), straight(90, -6, -90, -6)]), 1, 1, infraction="stop")
    s.put(0, 0.0, y, yaw, speed)
    s.step()
    assert bool(events(s) & Event.WRONG_WAY) == wrong
    assert s.col("WRONG_WAY_DRIVEN") == pytest.approx(0.25 * abs(speed) if wrong else 0.0)
    assert s.slot("STATUS") == Status.LIVE


def test_where_two_ways_overlap_neither_is_wrong():
    s = Stage(Town([straight(-90, 0, 90, 0), straight(90, 0, -90, 0)]), 1, 2)
    s.put(0, 0.0, 0.0, 0.0, 5.0)
    s.put(1, 40.0, 0.0, math.pi, 5.0)
    s.step()
    assert not any(events(s, a) & Event.WRONG_WAY for a in range(2))


def test_goals_come_in_order_and_one_a_step():
    s = Stage(plain_town(), 1, 1, time_limit_s=1e3)
    s.put(0, -90.0, 0.0, speed=0.0, goal_radius=12.0, ROUTE_LENGTH=15.0)  # goals at 5, 10 and 15 m: all within reach
    reached = []
    for _ in range(3):
        s.step()
        reached.append((s.slot("GOAL"), s.col("GOAL_DISTANCE"), s.slot("STATUS")))
    assert [r[0] for r in reached] == [1, 2, 2], "the goal 15 m off is out of reach"
    assert [r[1] for r in reached] == pytest.approx([10.0, 15.0, 15.0])
    assert events(s) == 0


def test_a_goal_passed_between_two_poses_counts():
    s = Stage(plain_town(), 1, 2, dt_s=1.0)
    for a, y in enumerate((0.0, 1.0)):
        s.put(a, -80.0 + 30 * a, y, speed=14.0, goal_radius=0.5, ROUTE_LENGTH=45.0 + 90 * a)  # first goal at -75 or -45
    s.step()
    assert s.slot("GOAL", 0) == 1
    assert s.slot("GOAL", 1) == 0, "passed at 1 m"


def test_lost_agents_make_no_progress():
    s = Stage(plain_town(), 1, 2, infraction="ignore")
    for a, y in enumerate((9.0, 11.0)):
        s.put(a, -80.0, y, speed=8.0, ROUTE_S=8.0, PROGRESS=8.0)
    s.step()
    assert s.agents[0, :, AgentCol.PROGRESS_STEP].tolist() == pytest.approx([4.0, 0.0])
    assert s.agents[0, :, AgentCol.ROUTE_S].tolist() == pytest.approx([12.0, 12.0])


def test_collision_needs_overlapping_heights():
    s = Stage(Town([straight(-90, 0, 90, 0), straight(0, -90, 0, 90, z0=6, z1=6)]), 1, 2)
    s.put(0, 0.0, 0.0)
    s.put(1, 0.0, 0.0, math.pi / 2, z=6.0)
    s.step()
    assert not events(s, 0) & Event.COLLISION
    assert s.col("Z", 1) == 6.0


def test_hitting_a_wreck_is_the_driver_s_alone():
    s = Stage(plain_town(), 1, 4, infraction="stop", early_reset=1.0)
    s.put(0, 0.0, 0.0, status=Status.STOPPED)
    s.put(1, -5.0, 0.0, speed=8.0)
    s.put(2, 30.0, 0.0, status=Status.REMOVED)
    s.put(3, 30.0, 0.0)
    s.step()
    assert [s.slot("EVENT", a) for a in range(4)] == [0, Event.COLLISION, 0, 0]
    assert s.slots[0, :, SlotCol.STATUS].tolist() == [Status.STOPPED, Status.STOPPED, Status.REMOVED, Status.LIVE]


@pytest.mark.parametrize("count", [3, 64, 65, 150])
def test_every_pair_is_found(count):
    """All slots beyond and between the chunks of 64; collisions against shapely for standing boxes."""
    s = Stage(plain_town(), 1, count, infraction="ignore")
    rng = np.random.default_rng(count)
    poses = np.column_stack([rng.uniform(-5, 5, (count, 2)) * math.sqrt(count), rng.uniform(-3, 3, count)])
    for a, pose in enumerate(poses):
        s.put(a, *pose)
    s.step()
    bodies = [footprint(*p) for p in poses]
    for a in range(count):
        distance = min(bodies[a].distance(b) for k, b in enumerate(bodies) if k != a)
        if distance == 0 or distance > 0.01:
            assert bool(events(s, a) & Event.COLLISION) == (distance == 0)
    hit = (s.slots[0, :, SlotCol.EVENT] & int(Event.COLLISION)) > 0
    assert count < 10 or 0 < int(hit.sum()) < count


def test_swapping_slots_swaps_events():
    poses = [(0.0, 0.0, 0.3, 6.0), (4.0, 2.5, -2.0, 5.0), (30.0, 0.0, 0.0, 0.0)]
    results = []
    for order in ([0, 1, 2], [2, 1, 0]):
        s = Stage(plain_town(), 1, 3, infraction="ignore")
        for slot, k in enumerate(order):
            x, y, yaw, speed = poses[k]
            s.put(slot, x, y, yaw, speed)
        s.step(torch.full((1, 3), 7))
        results.append([s.slot("EVENT", order.index(k)) for k in range(3)])
    assert results[0] == results[1]
