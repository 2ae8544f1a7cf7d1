"""Lanes and routes: kernels against the float64 twins, and what must hold of any of them."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from step_bank import Lane, Stage, Town, straight
from terapixel_sim.kernels import lane as lanes
from terapixel_sim.kernels import locate
from terapixel_sim.kernels import route as routes
from terapixel_sim.kernels.rows import some_agents
from terapixel_sim.layout import AgentCol, SlotCol
from terapixel_sim.reference import lane as lane_twin
from terapixel_sim.reference import route as route_twin
from terapixel_sim.runtime import ti


def arc(radius, turn, n=24):
    angle = np.linspace(0, turn, n)
    return Lane(
        np.column_stack([radius * np.sin(angle), 10 + radius * (1 - np.cos(angle)), 0.05 * radius * angle]),
        width=3.5,
        limit=9.0,
    )


TOWN = Town(
    [straight(-80, 0, 80, 0), straight(-80, 3.5, 80, 3.5, limit=10.0), straight(80, -3.5, -80, -3.5), arc(30.0, 1.5)]
)
STAGE = Stage(TOWN, 1, 1)
BANK = lane_twin.Bank(STAGE.bank_i.tolist(), STAGE.bank_f.tolist())
ROUTE = [route_twin.Entry(0, 0, 10, 10, 30), route_twin.Entry(0, 1, 40, 40, 25), route_twin.Entry(1, 1, 65, 65, 40)]
floats = lambda low, high: st.floats(low, high, width=32)  # noqa: E731


@ti.kernel
def probe(
    agents: ti.types.ndarray(dtype=ti.f32, ndim=1),
    slots: ti.types.ndarray(dtype=ti.i32, ndim=1),
    bank_i: ti.types.ndarray(dtype=ti.i32, ndim=1),
    bank_f: ti.types.ndarray(dtype=ti.f32, ndim=1),
    d: ti.types.ndarray(dtype=ti.f32, ndim=1),
    out: ti.types.ndarray(dtype=ti.f32, ndim=1),
    block: ti.template(),
):
    """d: lane, s, travelled."""
    for _ in range(1):
        p = lanes.lane_point(bank_i, bank_f, ti.cast(d[0], ti.i32), d[1])
        q = routes.route_point(agents, slots, bank_i, bank_f, 0, 0, d[1])
        for k in ti.static(range(7)):
            out[k] = p[k]
            out[7 + k] = q[k]
        at = some_agents(0, 1, 0, 0)  # the row of the only one begins at 0
        live = ti.Vector.zero(ti.i32, block)
        live[0] = 1
        distance = ti.Vector.zero(ti.f32, block)
        distance[0] = d[2]
        _row, inside, aligned = locate.find_lane(agents, slots, bank_i, bank_f, live, 0, at, block)
        locate.find_route(agents, slots, bank_i, bank_f, live, distance, at, block)
        out[14] = ti.cast(slots[SlotCol.LANE], ti.f32)
        out[15] = agents[AgentCol.LANE_OFFSET]
        out[16] = agents[AgentCol.LANE_HEADING]
        out[17] = ti.cast(inside[0], ti.f32)
        out[18] = ti.cast(aligned[0], ti.f32)
        out[19] = agents[AgentCol.ROUTE_S]
        out[20] = ti.cast(slots[SlotCol.ENTRY], ti.f32)
        out[21] = agents[AgentCol.ROUTE_OFFSET]
        out[22] = agents[AgentCol.ROUTE_HEADING]


def kernel(x=0.0, y=0.0, yaw=0.0, z=0.0, lane=0, s=0.0, previous=-1, route_s=0.0, travelled=0.0):
    """What the probe says; the same for one agent alone, as on a GPU, as for a block of them."""
    outs = []
    for block in (1, 16):
        STAGE.put(0, x, y, yaw, z=z, ROUTE_S=route_s)
        for k, e in enumerate(ROUTE):
            base = AgentCol.ROUTE + 3 * k
            STAGE.agents[0, 0, base : base + 3] = torch.tensor([e.start_a, e.start_b, e.length], dtype=torch.float32)
            base = SlotCol.ROUTE + 2 * k
            STAGE.slots[0, 0, base : base + 2] = torch.tensor([e.lane_a, e.lane_b])
        STAGE.slots[0, 0, SlotCol.ENTRIES] = len(ROUTE)
        STAGE.slots[0, 0, SlotCol.LANE] = previous
        out = torch.zeros(23)
        given = torch.tensor([lane, s, travelled], dtype=torch.float32)
        probe(STAGE.agents.view(-1), STAGE.slots.view(-1), STAGE.bank_i, STAGE.bank_f, given, out, block)
        outs.append(out.tolist())
    assert outs[0] == outs[1]
    return outs[0]


def same_angle(a, b, tolerance=2e-4):
    return abs(math.remainder(a - b, 2 * math.pi)) < tolerance


@settings(max_examples=60, deadline=None)
@given(lane=st.integers(0, 3), s=floats(-5, 200))
def test_lane_point_equals_the_twin(lane, s):
    x, y, z, c, n, width, grade = kernel(lane=lane, s=s)[:7]
    p = lane_twin.lane_point(BANK, lane, s)
    assert (x, y, z, width, grade) == pytest.approx((p.x, p.y, p.z, p.width, p.grade), abs=1e-3)
    assert same_angle(math.atan2(n, c), p.heading)
    assert math.hypot(c, n) == pytest.approx(1, abs=1e-6)


def test_lane_point_is_clamped_to_the_lane():
    assert kernel(lane=2, s=-3.0)[:2] == [80.0, -3.5]
    assert kernel(lane=2, s=999.0)[:2] == [-80.0, -3.5]


@settings(max_examples=120, deadline=None)
@given(x=floats(-90, 90), y=floats(-20, 45), yaw=floats(-3, 3), previous=st.integers(-1, 3))
def test_nearest_lane_equals_the_twin(x, y, yaw, previous):
    lane, offset, heading, inside, aligned = kernel(x, y, yaw, previous=previous)[14:19]
    p = lane_twin.nearest_lane(BANK, 0, x, y, 0.0, yaw, previous)
    if lane != p.lane:  # equally good but for rounding
        return
    assert offset == pytest.approx(p.offset if lane >= 0 else 6.0, abs=2e-3)
    assert same_angle(heading, p.heading)
    assert (bool(inside), bool(aligned)) == (p.inside, p.aligned) or abs(abs(p.offset) - 2.0) < 0.3


def test_nearest_lane_prefers_its_own_direction_and_its_last_choice():
    assert kernel(0.0, -1.75, yaw=0.0)[14] == 0
    assert kernel(0.0, -1.75, yaw=math.pi)[14] == 2
    assert kernel(0.0, 1.8, previous=-1)[14] == 1
    assert kernel(0.0, 1.8, previous=0)[14] == 0, "0.05 in favour of the last lane keeps it past the middle"
    assert kernel(0.0, 2.2, previous=0)[14] == 1
    assert kernel(0.0, 0.0, z=5.0)[14] == -1, "another level"
    assert kernel(0.0, -90.0)[14] == -1


@settings(max_examples=80, deadline=None)
@given(s=floats(-10, 120))
def test_route_point_equals_the_twin(s):
    x, y, z, c, n, width, limit = kernel(s=s)[7:14]
    p = route_twin.route_point(BANK, ROUTE, s)
    assert (x, y, z, width, limit) == pytest.approx((p.x, p.y, p.z, p.width, p.limit), abs=1e-3)
    assert same_angle(math.atan2(n, c), p.heading)


def test_lane_change_is_smooth():
    """Continuous in position and heading, from lane to lane, halfway in the middle; straight on beyond both ends."""
    points = np.array([kernel(s=s)[7:12] for s in np.linspace(25, 60, 71)])
    assert np.abs(np.diff(points[:, 1])).max() < 0.12
    assert np.abs(np.diff(np.arctan2(points[:, 4], points[:, 3]))).max() < 0.02
    assert kernel(s=30.0)[8] == 0.0
    assert kernel(s=42.5)[8] == pytest.approx(1.75, abs=1e-3)
    assert kernel(s=55.0)[8] == pytest.approx(3.5, abs=1e-3)
    assert kernel(s=-4.0)[7:9] == pytest.approx([-74.0, 0.0])
    assert kernel(s=105.0)[7:9] == pytest.approx([35.0, 3.5])


@settings(max_examples=25, deadline=None)
@given(s=floats(0, 94), side=floats(-3, 3), yaw=floats(-3, 3), lag=floats(-4, 8))
def test_route_project_equals_dense_sampling(s, side, yaw, lag):
    p = route_twin.route_point(BANK, ROUTE, s)
    x, y = p.x - side * math.sin(p.heading), p.y + side * math.cos(p.heading)
    last = min(max(s - lag, 0.0), 95.0)
    got_s, entry, offset, heading = kernel(x, y, yaw, route_s=last)[19:23]
    want = route_twin.route_project(BANK, ROUTE, (x, y, yaw), last, 0.0, samples=200)
    assert got_s == pytest.approx(want[0], abs=0.11)
    there = route_twin.route_point(BANK, ROUTE, got_s)
    assert math.hypot(there.x - x, there.y - y) < want[1] + 5e-3, "no sample is nearer"
    assert offset == pytest.approx(want[2], abs=0.03)
    assert same_angle(heading, want[3], 0.02)
    assert entry == (got_s >= 30) + (got_s >= 55) or min(abs(got_s - 30), abs(got_s - 55)) < 1e-3


def test_route_project_stays_in_its_window():
    assert kernel(x=20.0, y=3.5, route_s=10.0)[19] == pytest.approx(20.0), "no farther than 10 m ahead"
    assert kernel(x=20.0, y=3.5, route_s=10.0, travelled=5.0)[19] == pytest.approx(25.0)
    assert kernel(x=-70.0, y=0.0, route_s=20.0)[19] == pytest.approx(15.0), "no farther than 5 m back"
