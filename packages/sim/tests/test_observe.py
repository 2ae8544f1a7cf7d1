import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from terapixel_sim.config import CONDITION_BOUNDS, ObservationConfig, RouteConfig, SimConfig
from terapixel_sim.kernels.observe import ObserveParams
from terapixel_sim.kernels.observe_rows import ObserveCol
from terapixel_sim.layout import AgentCol, SlotCol, Status, WorldCol
from terapixel_sim.observation import (
    COLUMNS,
    SENSOR_KEYS,
    EgoObs,
    LaneObs,
    PartnerObs,
    RouteObs,
    describe,
    sensors,
)
from terapixel_sim.observation_buffers import Leaf, ObservationBuffers
from terapixel_sim.reference.lane import Bank
from terapixel_sim.reference.observe import observe_agent
from town_worlds import CONFIG, Worlds

STEP_ONLY = {"reward", "terminated", "truncated"}


def stirred(seed, *, config=CONFIG, agents=24):
    """Two worlds in states such as a run leads to: moved cars, all kinds of status, some goals reached."""
    worlds = Worlds.started([seed % 1000, seed % 1000 + 1], agents, config=config, seed=seed)
    rng = np.random.default_rng(seed)
    a, s = worlds.agents.numpy(), worlds.slots.numpy()
    n = a.shape[:2]
    a[..., AgentCol.X] += rng.normal(0, 3, n)
    a[..., AgentCol.Y] += rng.normal(0, 3, n)
    a[..., AgentCol.Z] += rng.normal(0, 1, n)
    a[..., AgentCol.YAW] = rng.uniform(-np.pi, np.pi, n)
    for column, scale in (("SPEED", 8), ("ACCEL", 2), ("LAT_ACCEL", 2), ("STEER", 0.3), ("YAW_RATE", 0.5)):
        a[..., AgentCol[column]] = rng.normal(0, scale, n)
    for column, scale in (("LANE_OFFSET", 4), ("LANE_HEADING", 1), ("ROUTE_OFFSET", 6), ("ROUTE_HEADING", 1)):
        a[..., AgentCol[column]] = rng.normal(0, scale, n)
    a[..., AgentCol.JERK_LONG] = rng.choice([-15, -4, 0, 4], n)
    a[..., AgentCol.JERK_LAT] = rng.choice([-4, 0, 4], n)
    a[..., AgentCol.STOPPED] = rng.uniform(0, 90, n)
    a[..., AgentCol.ROUTE_S] = rng.uniform(0, 1, n) * a[..., AgentCol.ROUTE_LENGTH]
    s[..., SlotCol.GOAL] = rng.integers(0, config.route.num_goals + 1, n)
    s[..., SlotCol.STATUS] = rng.choice(list(Status), n, p=[0.05, 0.6, 0.15, 0.05, 0.05, 0.1])
    worlds.world[:, WorldCol.STEP] = int(rng.integers(0, 160))
    return worlds


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**31 - 1))
def test_every_leaf_equals_the_twin(seed):
    worlds = stirred(seed)
    buffers = worlds.observe()
    agents, slots, world, ints, floats = worlds.numpy()
    for w, a in ((0, 0), (0, 11), (0, 23), (1, 5), (1, 17)):
        want = observe_agent(agents[w], slots[w], world[w], Bank(ints, floats), CONFIG, seed, a)
        assert set(want) == set(buffers.leaves) - STEP_ONLY - {"perturbed"}  # which is not of this kernel
        for leaf, value in want.items():
            got = buffers.leaves[leaf][w, a].numpy()
            np.testing.assert_allclose(got, value, atol=1e-4, err_msg=f"{leaf} of agent {w}, {a}")


@pytest.mark.parametrize(
    "observation",
    [
        ObservationConfig(partners=1, lanes=1, edges=1, route_points_m=(0.0,)),
        ObservationConfig(partners=40, lanes=70, edges=50, partner_radius_m=30.0, manoeuvre_m=5.0),
    ],
)
def test_other_sizes_equal_the_twin(observation):
    config = SimConfig(observation=observation, route=RouteConfig(num_goals=5))
    worlds = stirred(1, config=config)
    buffers = worlds.observe()
    agents, slots, world, ints, floats = worlds.numpy()
    for a in range(0, 24, 5):
        for leaf, value in observe_agent(agents[0], slots[0], world[0], Bank(ints, floats), config, 1, a).items():
            np.testing.assert_allclose(buffers.leaves[leaf][0, a].numpy(), value, atol=1e-4, err_msg=leaf)


def test_a_car_ahead_on_the_left_by_hand():
    worlds = Worlds.started([0], 2)
    a = worlds.agents[0]
    a[0, [AgentCol.X, AgentCol.Y, AgentCol.Z, AgentCol.YAW]] = torch.tensor([10.0, 20.0, 1.0, math.pi / 2])
    a[1, [AgentCol.X, AgentCol.Y, AgentCol.Z, AgentCol.YAW]] = torch.tensor([7.0, 25.0, 3.0, math.pi])
    a[0, AgentCol.SPEED], a[1, AgentCol.SPEED] = 4.0, 2.0
    a[1, [AgentCol.LENGTH, AgentCol.WIDTH]] = torch.tensor([5.0, 2.0])
    leaves = worlds.observe().leaves
    want = torch.zeros(len(PartnerObs))
    want[PartnerObs.X], want[PartnerObs.Y], want[PartnerObs.Z] = 5 / 50, 3 / 50, 2 / 10
    want[PartnerObs.LENGTH], want[PartnerObs.WIDTH] = 0.5, 0.4
    want[PartnerObs.COS], want[PartnerObs.SIN] = 0.0, 1.0
    want[PartnerObs.SPEED], want[PartnerObs.VX], want[PartnerObs.VY] = 0.1, -0.2, 0.1
    torch.testing.assert_close(leaves["partners"][0, 0, 0], want, atol=1e-6, rtol=0)
    assert leaves["partners_mask"][0, 0].tolist() == [True] + [False] * 15


def test_a_fresh_agent_sees_its_lane_and_route_ahead():
    leaves = Worlds.started(range(8), 24).observe().leaves
    nearest = leaves["lanes"][..., 0, :]
    assert (nearest[..., [LaneObs.X, LaneObs.Y]].norm(dim=-1) * 50 < 8).all()
    first = leaves["route"][..., 0, :]  # 2 m ahead
    assert leaves["route_mask"].all()
    torch.testing.assert_close(first[..., RouteObs.X] * 50, torch.full((8, 24), 2.0), atol=0.15, rtol=0)
    assert (first[..., RouteObs.COS] > 0.9).all()
    distance = leaves["command"].norm(dim=-1) * 100
    assert ((distance[..., 0] > 5) & (distance[..., 0] < 61)).all()
    assert (leaves["ego"][..., EgoObs.ROUTE_COS] > 0.99).all()
    assert (leaves["manoeuvre"].sum(-1) == 1).all()


def test_partners_come_nearest_first_and_equals_by_index():
    worlds = Worlds.started([0], 6)
    a = worlds.agents[0]
    a[:, AgentCol.X] = torch.tensor([0.0, 30.0, 10.0, -10.0, 500.0, 20.0])
    a[:, AgentCol.Y] = 0.0
    a[0, AgentCol.YAW] = 0.0
    a[:, AgentCol.LENGTH] = torch.arange(6.0)  # tells them apart
    worlds.slots[0, 5, SlotCol.STATUS] = Status.REMOVED
    leaves = worlds.observe().leaves
    assert (leaves["partners"][0, 0, :4, PartnerObs.LENGTH] * 10).tolist() == pytest.approx([2, 3, 1, 0])
    assert leaves["partners_mask"][0, 0].sum() == 3


def test_rows_of_agents_that_left_are_zero_and_a_timed_out_agent_still_sees():
    worlds = Worlds.started([0], 6)
    fresh = worlds.observe()
    before = {key: value.clone() for key, value in fresh.leaves.items()}
    for agent, status in enumerate(Status):
        worlds.slots[0, agent, SlotCol.STATUS] = status
    leaves = worlds.observe(buffers=fresh).leaves
    for status in Status:
        rows = {key: value[0, status] for key, value in leaves.items() if key not in STEP_ONLY}
        assert bool(rows.pop("live")) == (status == Status.LIVE)
        if status in (Status.LIVE, Status.TIMED_OUT):
            assert torch.equal(rows["ego"], before["ego"][0, status])
            assert rows["lanes_mask"].all()
        else:
            assert not any(value.any() for value in rows.values()), status


def test_masked_worlds_only_are_written_and_a_world_alone_sees_the_same():
    worlds = Worlds.started(range(4), 8)
    buffers = worlds.observe()
    before = {key: value.clone() for key, value in buffers.leaves.items()}
    worlds.reset(mask=[0, 1, 0, 1])
    worlds.agents[[0, 2], :, AgentCol.SPEED] += 1.0  # would show if they were observed again
    worlds.observe(mask=[0, 1, 0, 1], buffers=buffers)
    for key, value in buffers.leaves.items():
        assert torch.equal(value[[0, 2]], before[key][[0, 2]]), key
    assert not torch.equal(buffers.leaves["ego"][1], before["ego"][1])
    alone = Worlds.started([3], 8)
    alone.reset()
    for key, value in alone.observe().leaves.items():
        assert torch.equal(value[0], buffers.leaves[key][3]), key


def test_observing_changes_no_state_and_far_off_the_map_is_finite():
    worlds = stirred(2)
    worlds.agents[0, :, AgentCol.X] += 1e6
    before = [t.clone() for t in (worlds.agents, worlds.slots, worlds.world)]
    buffers = worlds.observe()
    assert buffers.floats.isfinite().all()
    assert all(
        torch.equal(old, new) for old, new in zip(before, (worlds.agents, worlds.slots, worlds.world), strict=True)
    )


def test_draws_change_with_the_step_and_are_uniform():
    worlds = Worlds.started(range(40), 24)
    first = worlds.observe().leaves["draw"].clone()
    worlds.world[:, WorldCol.STEP] += 1
    second = worlds.observe().leaves["draw"]
    assert not (first == second).any()
    counts = torch.cat([first, second]).histc(20, 0, 1)
    expected = counts.sum() / 20
    assert ((counts - expected) ** 2 / expected).sum() < 43.8  # 99.9 % quantile, 19 degrees of freedom


def test_conditions_are_seen_from_minus_one_to_one():
    worlds = Worlds.empty(range(3), 4)
    given_ = torch.linspace(-1, 1, 3 * 4 * 18).view(3, 4, 18)
    worlds.reset(condition=given_)
    torch.testing.assert_close(worlds.observe().leaves["condition"], given_, atol=1e-5, rtol=0)


def test_buffers_hand_out_contiguous_views_of_two_tensors():
    buffers = ObservationBuffers(3, 5, CONFIG.observation, 3, "cpu")
    batch = buffers.batch(stepped=True)
    assert batch.batch_size == (3, 5)
    assert set(batch.keys()) == {leaf.name.lower() for leaf in Leaf}
    assert set(buffers.batch().keys()) == set(batch.keys()) - STEP_ONLY
    for key, value in batch.items():
        assert value.is_contiguous()
        flat = buffers.floats if value.dtype == torch.float32 else buffers.bytes
        assert value.untyped_storage().data_ptr() == flat.untyped_storage().data_ptr(), key
        is_float = key == "reward" or (value.dim() > 2 and "mask" not in key)
        assert value.dtype == (torch.float32 if is_float else torch.bool)
        value.fill_(1)
    # the views tile their buffers without overlap: each element was set once
    assert int(buffers.bytes.sum()) == sum(v.numel() for v in batch.values() if v.dtype == torch.bool)
    assert int(buffers.floats.sum()) == sum(v.numel() for v in batch.values() if v.dtype == torch.float32)
    begins = buffers.offsets.view(-1, 2)
    for leaf in Leaf:
        value = buffers.leaves[leaf.name.lower()]
        assert begins[leaf].tolist() == [value.storage_offset(), value[0, 0].numel()]


@pytest.mark.parametrize(
    ("sizes", "name"), [((0, 5, 3), "num_worlds"), ((3, 0, 3), "num_agents"), ((3, 5, 0), "num_goals")]
)
def test_empty_buffers_are_refused(sizes, name):
    with pytest.raises(ValueError, match=name):
        ObservationBuffers(sizes[0], sizes[1], CONFIG.observation, sizes[2], "cpu")


def test_buffers_beyond_32_bit_indices_are_refused():
    with pytest.raises(ValueError, match="use fewer worlds"):
        ObservationBuffers(100_000, 64, CONFIG.observation, 3, "meta")


def test_sensors_hold_nothing_privileged():
    batch = ObservationBuffers(2, 3, CONFIG.observation, 3, "cpu").batch(stepped=True)
    assert set(sensors(batch).keys()) == set(SENSOR_KEYS)
    batch["camera", "front"] = torch.zeros(2, 3, 3, 8, 8, dtype=torch.uint8)
    assert set(sensors(batch).keys()) == {*SENSOR_KEYS, "camera"}
    assert sensors(batch)["proprio"].data_ptr() == batch["proprio"].data_ptr()


def test_describe_names_every_column_once_and_observations_lie_in_range():
    rows = describe()
    names = [(row.leaf, row.name) for row in rows]
    assert len(set(names)) == len(names)
    buffers = Worlds.started(range(4), 16).observe()
    for leaf in {row.leaf for row in rows}:
        values = buffers.leaves[leaf]
        columns = [row for row in rows if row.leaf == leaf]
        assert len(columns) == values.shape[-1], leaf
        for c, row in enumerate(columns):
            assert row.meaning
            low, high = (-1.0, 1.0) if row.scale == 0 else (row.low / row.scale, row.high / row.scale)
            column = values[..., c]
            if leaf in COLUMNS and f"{leaf}_mask" in buffers.leaves:
                column = column[buffers.leaves[f"{leaf}_mask"]]
            assert ((column >= low - 1e-6) & (column <= high + 1e-6)).all(), row


def test_params_scale_the_bounds_of_each_coefficient_to_one():
    values = ObserveParams.from_config(CONFIG, "cpu").values
    for c, (name, (low, high)) in enumerate(CONDITION_BOUNDS.items()):
        factor, summand = values[ObserveCol.CONDITION + 2 * c :][:2].tolist()
        low, high = (math.log(low), math.log(high)) if name.startswith("gain") else (low, high)
        assert low * factor + summand == pytest.approx(-1, abs=1e-5)
        assert high * factor + summand == pytest.approx(1, abs=1e-5)
