import math
from itertools import pairwise

import numpy as np
import pytest
import shapely
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from shapely.affinity import rotate, translate
from terapixel_sim.config import CONDITION_BOUNDS, ConditionConfig, RouteConfig, SimConfig, SpawnConfig
from terapixel_sim.kernels.route import route_point
from terapixel_sim.layout import AgentCol, Condition, Head, LaneInt, MapInt, SlotCol, Status, WorldCol
from terapixel_sim.maps.edges import drivable_area
from terapixel_sim.reference import spawn as twin
from terapixel_sim.reference.lane import Bank
from terapixel_sim.reference.observe import route_entries
from terapixel_sim.runtime import ti
from town_worlds import CONFIG, Worlds

CHANGING = SimConfig(route=RouteConfig(lane_change=0.6))
NAN = float("nan")
ALL = slice(AgentCol.CONDITION, AgentCol.CONDITION + len(Condition))


def boxes(worlds, w):
    """Every agent's box as a polygon."""
    out = []
    for row in worlds.agents[w].numpy().astype(float):
        half_length, half_width = row[AgentCol.LENGTH] / 2, row[AgentCol.WIDTH] / 2
        box = rotate(shapely.box(-half_length, -half_width, half_length, half_width), row[AgentCol.YAW], (0, 0), True)
        out.append(translate(box, row[AgentCol.X], row[AgentCol.Y]))
    return out


@ti.kernel
def _points(
    agents: ti.types.ndarray(ti.f32, 2),
    slots: ti.types.ndarray(ti.i32, 2),
    flat_agents: ti.types.ndarray(ti.f32, 1),
    flat_slots: ti.types.ndarray(ti.i32, 1),
    bank_i: ti.types.ndarray(ti.i32, 1),
    bank_f: ti.types.ndarray(ti.f32, 1),
    step: ti.f32,
    out: ti.types.ndarray(ti.f32, 3),
):
    for a in range(out.shape[0]):
        for k in range(out.shape[1]):
            row = a * agents.shape[1]
            slot = a * slots.shape[1]
            p = route_point(flat_agents, flat_slots, bank_i, bank_f, row, slot, step * ti.cast(k, ti.f32))
            for c in ti.static(range(7)):
                out[a, k, c] = p[c]


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**31 - 1), world=st.integers(0, 10_000))
def test_start_equals_the_twin(seed, world):
    config = CHANGING
    worlds = Worlds.started([world], 24, config=config, seed=seed)
    agents, _, _, ints, floats = worlds.numpy()
    for a in (0, 7, 23):
        start = twin.start(
            Bank(ints, floats),
            config,
            seed=seed,
            world_id=world,
            episode=0,
            num_agents=24,
            agent=a,
            given=np.full(18, np.nan),
        )
        row = agents[0, a]
        got = row[[AgentCol.X, AgentCol.Y, AgentCol.Z, AgentCol.YAW, AgentCol.LENGTH, AgentCol.WIDTH, AgentCol.HEIGHT]]
        want = [start.x, start.y, start.z, start.yaw, start.length, start.width, start.height]
        np.testing.assert_allclose(got, want, atol=1e-4)
        np.testing.assert_allclose(row[ALL], start.condition, rtol=1e-5, atol=1e-6)
        others = np.delete(agents[0], a, axis=0)[:, [AgentCol.X, AgentCol.Y, AgentCol.LENGTH]].astype(float)
        pose = np.array([start.x, start.y, start.yaw])
        cap = twin.speed_cap(pose, start.length, others, config.spawn.brake_mps2, config.spawn.clearance_m)
        # near a standstill the root magnifies the rounding of the gap
        np.testing.assert_allclose(row[AgentCol.SPEED] ** 2, min(start.raw_speed, cap) ** 2, atol=2e-3)
        route = route_entries(worlds.agents[0, a].numpy(), worlds.slots[0, a].numpy())
        assert [(e.lane_a, e.lane_b) for e in route] == [(e.lane_a, e.lane_b) for e in start.route]
        for got_entry, want_entry in zip(route, start.route, strict=True):
            np.testing.assert_allclose(
                [got_entry.start_a, got_entry.start_b, got_entry.length],
                [want_entry.start_a, want_entry.start_b, want_entry.length],
                atol=2e-3,
            )


def test_every_slot_is_live_and_every_column_set():
    worlds = Worlds.empty(range(6), 40)
    worlds.agents.fill_(NAN)
    worlds.slots.fill_(-77)
    worlds.reset()
    assert worlds.agents.isfinite().all()
    assert (worlds.slots != -77).all()
    s, a = worlds.slots, worlds.agents
    assert (s[..., SlotCol.STATUS] == Status.LIVE).all()
    assert (s[..., SlotCol.PREV_STATUS] == Status.LIVE).all()
    assert not s[..., [SlotCol.EVENT, SlotCol.EVER, SlotCol.GOAL, SlotCol.ENTRY, SlotCol.STEPS]].any()
    assert (worlds.world[:, [WorldCol.EPISODE, WorldCol.STEP, WorldCol.DONE]] == 0).all()
    assert worlds.world[:, WorldCol.MAP].tolist() == [0, 1, 0, 1, 0, 1]
    assert (a[..., AgentCol.PREV_X : AgentCol.PREV_YAW + 1] == a[..., AgentCol.X : AgentCol.YAW + 1]).all()
    assert (a[..., AgentCol.ROUTE_OFFSET].abs() < 0.3).all()
    assert (a[..., AgentCol.LANE_HEADING].abs() < 0.2).all()
    assert (s[..., SlotCol.LANE] == s[..., SlotCol.ROUTE]).all()


@pytest.mark.parametrize("seed", range(3))
def test_nobody_overlaps_or_stands_off_the_road_at_half_capacity(seed):
    worlds = Worlds.empty([0, 1], 1)
    agents = min(worlds.bank.capacity) // 2
    worlds = Worlds.started([0, 1], agents, seed=seed)
    for w in range(2):
        found = boxes(worlds, w)
        tree = shapely.STRtree(found)
        pairs = tree.query(found, predicate="intersects").T
        assert all(i == j for i, j in pairs)
        road = drivable_area(worlds.bank.maps[int(worlds.world[w, WorldCol.MAP])].lanes)
        shapely.prepare(road)
        assert shapely.covers(road, found).all()


def test_full_capacity_takes_every_slot_once():
    worlds = Worlds.empty([0], 1)
    ints = worlds.bank.ints
    capacity = int(ints[int(ints[Head.MAPS]) + MapInt.NUM_SLOTS])
    assert capacity == worlds.bank.capacity[0]
    worlds = Worlds.started([0], capacity)
    used = worlds.slots[0, :, SlotCol.LANE].bincount()
    slots = ints[int(ints[Head.SLOT_LANE]) :][:capacity].bincount(minlength=len(used))
    assert used.tolist() == slots.tolist()


def test_slots_are_picked_evenly():
    worlds = Worlds.started(range(0, 400, 2), 20)
    lanes = worlds.slots[..., SlotCol.LANE].flatten().bincount()
    ints = worlds.bank.ints
    slots = ints[int(ints[Head.SLOT_LANE]) :][: worlds.bank.capacity[0]].bincount(minlength=len(lanes))
    expected = slots * (lanes.sum() / slots.sum())
    kept = expected > 5
    chi2 = ((lanes[kept] - expected[kept]) ** 2 / expected[kept]).sum()
    degrees = int(kept.sum()) - 1
    assert chi2 < degrees + 5 * math.sqrt(2 * degrees)


def test_same_seed_same_start_and_other_seed_another():
    first, same, other = (Worlds.started([4, 5], 16, seed=s) for s in (9, 9, 10))
    assert torch.equal(first.agents, same.agents)
    assert torch.equal(first.slots, same.slots)
    assert not torch.equal(first.agents[..., :2], other.agents[..., :2])
    again = Worlds.started([4, 5], 16, seed=9)
    again.reset()
    assert (again.world[:, WorldCol.EPISODE] == 1).all()
    assert not torch.equal(first.agents[..., :2], again.agents[..., :2])


def test_a_world_alone_equals_itself_among_many():
    many = Worlds.started(range(7), 16, seed=3)
    for w in range(7):
        alone = Worlds.started([w], 16, seed=3)
        assert torch.equal(alone.agents[0], many.agents[w])
        assert torch.equal(alone.slots[0], many.slots[w])
        assert torch.equal(alone.world[0], many.world[w])


def test_a_masked_reset_leaves_the_others_bitwise_alone():
    worlds = Worlds.started(range(5), 8)
    before = [t.clone() for t in (worlds.agents, worlds.slots, worlds.world)]
    worlds.reset(mask=[0, 1, 0, 0, 1])
    for old, new in zip(before, (worlds.agents, worlds.slots, worlds.world), strict=True):
        assert torch.equal(old[[0, 2, 3]], new[[0, 2, 3]])
        assert not torch.equal(old[1], new[1])
        assert not torch.equal(old[4], new[4])
    assert worlds.world[:, WorldCol.EPISODE].tolist() == [0, 1, 0, 0, 1]
    assert worlds.world[:, WorldCol.MAP].tolist() == [0, 0, 0, 1, 1]


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**31 - 1), brake=st.floats(0.5, 8.0))
def test_everyone_can_stop_behind_the_car_in_front(seed, brake):
    config = SimConfig(spawn=SpawnConfig(speed_mps=(5.0, 20.0), brake_mps2=brake))
    worlds = Worlds.started([0], 32, config=config, seed=seed)
    rows = worlds.agents[0].numpy().astype(float)
    swept = []
    for row in rows:
        ahead = np.array([math.cos(row[AgentCol.YAW]), math.sin(row[AgentCol.YAW])])
        nose = row[:2] + ahead * row[AgentCol.LENGTH] / 2
        reach = row[AgentCol.SPEED] ** 2 / (2 * brake)
        # a car's width of road straight ahead that braking takes
        swept.append(shapely.LineString([nose, nose + ahead * max(reach, 1e-3)]).buffer(0.9, cap_style="flat"))
    hits = shapely.STRtree(boxes(worlds, 0)).query(swept, predicate="intersects").T
    assert all(i == j for i, j in hits)
    assert (rows[:, AgentCol.SPEED] <= rows[:, AgentCol.LANE_LIMIT]).all()
    assert rows[:, AgentCol.SPEED].max() > 5.0


def test_routes_are_smooth_and_follow_links():
    config = SimConfig(route=RouteConfig(num_goals=3, goal_spacing_m=(40.0, 90.0), lane_change=0.7))
    worlds = Worlds.started([0], 48, config=config, seed=5)
    length = worlds.agents[0, :, AgentCol.ROUTE_LENGTH]
    out = torch.zeros(48, int(float(length.max()) / 0.1), 7)
    bank = worlds.bank
    agents, slots = worlds.agents[0], worlds.slots[0]
    _points(agents, slots, agents.view(-1), slots.view(-1), bank.ints, bank.floats, 0.1, out)
    jump = out[:, 1:, :2].sub(out[:, :-1, :2]).norm(dim=-1)
    assert jump.max() < 0.3
    turn = (out[:, 1:, 3:5] * out[:, :-1, 3:5]).sum(-1).clamp(-1, 1).acos()
    assert turn.max() < math.radians(15)
    ints = bank.ints.numpy()
    changes = 0
    for a in range(48):
        route = route_entries(worlds.agents[0, a].numpy(), worlds.slots[0, a].numpy())
        np.testing.assert_allclose(sum(e.length for e in route), float(length[a]), rtol=1e-5)
        assert 120 - 1e-2 < float(length[a]) < 270 + 1e-2
        for before, after in pairwise(route):
            row = ints[Head.LANES] + before.lane_b * len(LaneInt)
            first = ints[Head.SUCCESSORS] + ints[row + LaneInt.SUCC0]
            successors = ints[first : first + ints[row + LaneInt.NUM_SUCC]]
            if after.lane_a == before.lane_b:
                assert after.start_a == pytest.approx(before.start_b + before.length, abs=1e-3)
            else:
                assert after.lane_a in successors
                assert after.start_a == 0.0
        for e in route:
            if e.lane_a != e.lane_b:
                changes += 1
                row = ints[Head.LANES] + e.lane_a * len(LaneInt)
                assert e.lane_b in (ints[row + LaneInt.LEFT], ints[row + LaneInt.RIGHT])
                assert e.length == config.route.lane_change_m
    assert changes > 5


def test_a_route_ends_at_its_entry_limit():
    config = SimConfig(route=RouteConfig(entries=4, goal_spacing_m=(200.0, 200.0), num_goals=8))
    worlds = Worlds.started([0, 1], 16, config=config)
    assert (worlds.slots[..., SlotCol.ENTRIES] <= 4).all()
    lengths = worlds.agents[..., AgentCol.ROUTE + 2 :: 3]
    torch.testing.assert_close(lengths.sum(-1), worlds.agents[..., AgentCol.ROUTE_LENGTH])
    assert (worlds.agents[..., AgentCol.ROUTE_LENGTH] >= config.route.min_length_m).all()


def test_sizes_lie_in_range_and_long_cars_are_wide():
    worlds = Worlds.started(range(20), 40)
    a = worlds.agents.flatten(0, 1)
    for column, (low, high) in (
        (AgentCol.LENGTH, CONFIG.spawn.length_m),
        (AgentCol.WIDTH, CONFIG.spawn.width_m),
        (AgentCol.HEIGHT, CONFIG.spawn.height_m),
    ):
        assert low - 1e-6 <= a[:, column].min() < low + 0.1 * (high - low)
        assert high - 0.1 * (high - low) < a[:, column].max() <= high + 1e-6
    size = a[:, [AgentCol.LENGTH, AgentCol.WIDTH, AgentCol.HEIGHT]].T
    correlation = torch.corrcoef(size)
    assert correlation[0, 1] > 0.9
    assert abs(correlation[0, 2]) < 0.2


def test_given_coefficients_are_honoured_and_the_others_drawn():
    condition = torch.full((4, 8, 18), NAN)
    condition[0, 0] = -1.0
    condition[1, 1] = 1.0
    condition[2, 2] = 0.0
    condition[3, 3, Condition.COLLISION] = 0.5
    worlds = Worlds.empty(range(4), 8)
    worlds.reset(condition=condition)
    got = worlds.agents[..., ALL]
    low, high = torch.tensor(list(CONDITION_BOUNDS.values())).T
    torch.testing.assert_close(got[0, 0], low)
    torch.testing.assert_close(got[1, 1], high)
    middle = (low + high) / 2
    middle[Condition.GAIN_THROTTLE :] = 1.0
    torch.testing.assert_close(got[2, 2], middle)
    assert got[3, 3, Condition.COLLISION] == pytest.approx(2.25)
    drawn = Worlds.started(range(4), 8)
    free = condition.isnan()
    assert torch.equal(got[free], drawn.agents[..., ALL][free])


def test_drawn_coefficients_fill_their_ranges_and_fixed_ones_are_exact():
    config = SimConfig(condition=ConditionConfig(collision=1.5, gain_steer=(1.1, 1.2), gain_speed=1.0))
    worlds = Worlds.started(range(30), 40, config=config)
    got = worlds.agents[..., ALL].flatten(0, 1)
    for c, (low, high) in enumerate(config.condition.ranges()):
        column = got[:, c]
        if low == high:
            assert (column == torch.tensor(low)).all(), Condition(c).name
            continue
        assert low * (1 - 1e-6) <= column.min() < low + 0.02 * (high - low), Condition(c).name
        assert high - 0.02 * (high - low) < column.max() <= high * (1 + 1e-6), Condition(c).name
    below = (got[:, Condition.GAIN_ACCEL] < 1).float().mean()
    assert abs(below - 0.5) < 4 * 0.5 / math.sqrt(len(got))
