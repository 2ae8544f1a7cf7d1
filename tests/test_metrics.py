"""The judge: geometry against shapely, intervals by hand, and drives whose outcome is known."""

import math

import numpy as np
import pytest
import shapely
import torch
from _geometry import about_to_hit, separated
from _metrics import evaluate, interval, row
from _policies import COAST, ConstantVelocity, Random
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDict
from terapixel_sim import AgentCol, Event, SimConfig, Simulator, SlotCol, Status


def boxes(draw_list):
    return [torch.tensor([[float(b[k]) for b in draw_list]]) for k in range(5)]


BOX = st.tuples(
    st.floats(-6, 6), st.floats(-6, 6), st.floats(-math.pi, math.pi), st.floats(1.0, 6.0), st.floats(0.5, 2.5)
)


@settings(max_examples=100, deadline=None)
@given(st.lists(BOX, min_size=2, max_size=4))
def test_boxes_overlap_as_shapely_says(cars):
    gap = separated(*boxes(cars))[0]
    polygons = []
    for x, y, yaw, length, width in cars:
        corners = np.array([[1, 1], [1, -1], [-1, -1], [-1, 1]]) * [length / 2, width / 2]
        turn = np.array([[math.cos(yaw), math.sin(yaw)], [-math.sin(yaw), math.cos(yaw)]])
        polygons.append(shapely.Polygon(corners @ turn + [x, y]))
    for i, a in enumerate(polygons):
        for j, b in enumerate(polygons):
            if i != j and abs(gap[i, j]) > 1e-3:
                assert bool(gap[i, j] < 0) == a.intersects(b)
                assert max(0.0, float(gap[i, j])) <= a.distance(b) + 1e-3
            assert gap[i, j] == gap[j, i]


def test_time_to_collision_by_hand():
    def hits(distance, speed):
        x, zero = torch.tensor([[0.0, distance]]), torch.zeros(1, 2)
        size = [torch.full((1, 2), v) for v in (4.0, 2.0)]
        return bool(about_to_hit(x, zero, zero, torch.tensor([[speed, 0.0]]), *size)[0, 0, 1])

    assert hits(4.0 + 9.0, 10.0)  # 0.9 s away
    assert not hits(4.0 + 10.0, 10.0)  # 1.0 s away
    assert not hits(3.0, 10.0)  # they touch already: a collision, not a warning


def test_interval_by_hand():
    """Two worlds with means 1 and 0: the standard error of their mean is sqrt(1/2) / sqrt(2) = 1/2."""
    assert interval(torch.tensor([[1.0, 1.0], [0.0, 0.0]]).double()) == {"mean": 0.5, "low": 0.0, "high": 1.0}
    values = torch.rand(40, 8, generator=torch.Generator().manual_seed(0)).double()
    got = interval(values)
    error = 1.96 * float(values.mean(1).std()) / math.sqrt(40)
    assert got["mean"] == pytest.approx(float(values.mean()))
    assert got["high"] - got["mean"] == pytest.approx(error)
    values[0, 1:] = math.nan  # a world with one agent counts as one agent
    assert interval(values)["mean"] == pytest.approx(float(values.nanmean()))


def test_agents_of_a_world_are_one_witness():
    """Copies of an agent in the same world add no certainty."""
    one = torch.randint(0, 2, (30, 1), generator=torch.Generator().manual_seed(0)).double()
    assert interval(one.repeat(1, 16)) == pytest.approx(interval(one))


def test_row_counts_per_km():
    outcome = {k: torch.tensor([[1.0, math.nan], [0.0, 0.0]]).double() for k in ("success", "completion", "score")}
    outcome |= {k: torch.tensor([[1.0, math.nan], [1.0, 0.0]]).double() for k in ("collision", "offroad")}
    outcome |= {k: torch.zeros(2, 2).double() for k in ("red_light", "wrong_way")}
    got = row({**outcome, "km": torch.tensor([[0.5, math.nan], [0.25, 0.25]]).double()})
    assert (got["km"], got["n_agents"], got["n_worlds"]) == (1.0, 3, 2)
    assert got["per_km"] == {"collision": 2.0, "offroad": 2.0, "red_light": 0.0, "wrong_way": 0.0}
    assert got["success"]["mean"] == pytest.approx(1 / 3)


def simulator(**options):
    config = SimConfig(infraction="stop", early_reset=1.0, time_limit_s=10.0, **options)
    return Simulator(config, ["grid:5"], num_worlds=4, num_agents=8, seed=2)


def test_everyone_is_driven_to_the_end_and_counted_once():
    sim = simulator()
    got = evaluate(sim, ConstantVelocity(), num_agents_total=40)
    assert (got["n_agents"], got["n_worlds"]) == (64, 8)  # two whole rounds
    assert got["km"] > 0
    assert got["success"]["mean"] <= got["completion"]["mean"]
    assert got["offroad"]["mean"] > 0.3
    assert evaluate(simulator(), ConstantVelocity(), num_agents_total=40) == got


def test_random_driving_scores_near_nothing():
    got = evaluate(simulator(), Random(), num_agents_total=32)
    assert got["success"]["mean"] <= 0.05
    assert got["score"]["mean"] <= 0.2


class Judged:
    """A simulator in which a test writes the state: two cars on a line, one step an episode."""

    num_worlds, num_agents, dt_s = 1, 2, 0.25

    class config:
        time_limit_s = 10.0

    def __init__(self, before, after, statuses, events):
        self.frames, self.statuses, self.events, self.time = (before, after), statuses, events, 0

    @property
    def state(self):
        agents = torch.zeros(1, 2, AgentCol.CONDITION)
        agents[..., AgentCol.LENGTH], agents[..., AgentCol.WIDTH], agents[..., AgentCol.LANE_LIMIT] = 4.0, 2.0, 15.0
        agents[..., AgentCol.ROUTE_LENGTH], agents[..., AgentCol.PROGRESS] = 100.0, 2.5
        for i, (x, yaw, speed) in enumerate(self.frames[self.time]):
            agents[0, i, AgentCol.X], agents[0, i, AgentCol.YAW], agents[0, i, AgentCol.SPEED] = x, yaw, speed
        slots = torch.zeros(1, 2, SlotCol.ROUTE, dtype=torch.int32)
        slots[0, :, SlotCol.STATUS] = torch.tensor(self.statuses[self.time]).int()
        if self.time:
            slots[0, :, SlotCol.EVENT] = slots[0, :, SlotCol.EVER] = torch.tensor(self.events).int()
        return TensorDict({"agents": agents, "slots": slots}, batch_size=[1])

    def reset(self):
        return TensorDict({"draw": torch.zeros(1, 2, 2), "live": torch.ones(1, 2, dtype=torch.bool)}, batch_size=[1, 2])

    @property
    def world_done(self):
        return torch.tensor([self.time == 1])

    def step(self, action):
        assert (action == COAST).all()
        self.time = 1
        return self.reset()


def score(before, after, statuses=(Status.STOPPED, Status.STOPPED), events=(Event.COLLISION, Event.COLLISION)):
    from _metrics import _episode

    sim = Judged(before, after, ((Status.LIVE, Status.LIVE), statuses), events)
    return _episode(sim, ConstantVelocity(), True)["score"][0].tolist()


def test_who_drives_into_a_car_ahead_is_at_fault_and_who_is_hit_from_behind_is_not():
    behind, hit = score([(0.0, 0.0, 10.0), (7.0, 0.0, 5.0)], [(2.5, 0.0, 10.0), (6.0, 0.0, 5.0)])
    assert behind == 0
    assert hit > 0.5


def test_driving_into_a_standing_car_is_at_fault_even_backwards():
    backwards, standing = score([(0.0, 0.0, -2.0), (-4.2, 0.0, 0.0)], [(-0.5, 0.0, -2.0), (-4.2, 0.0, 0.0)])
    assert backwards == 0
    assert standing > 0


def test_a_drive_by_hand():
    """Alone at 10 m/s for 0.25 s: all parts but the warning for the car ahead are 1."""
    finished, reached = (Status.FINISHED, Status.FINISHED), (Event.FINISH, Event.FINISH)
    before, after = [(0.0, 0.0, 10.0), (-12.0, 0.0, 10.0)], [(2.5, 0.0, 10.0), (-9.5, 0.0, 10.0)]
    assert score(before, after, finished, reached) == pytest.approx([1.0, 1.0])  # equal speeds never meet
    before, after = [(0.0, 0.0, 2.0), (-8.0, 0.0, 10.0)], [(0.5, 0.0, 2.0), (-5.5, 0.0, 10.0)]
    assert score(before, after, finished, reached) == pytest.approx([1.0, 14 / 19])


def test_random_uses_every_action_equally():
    draw = torch.linspace(0, 1, 12001)[:-1].reshape(1, -1, 1).repeat(1, 1, 2)
    action = Random().act(TensorDict({"draw": draw}, batch_size=[1, 12000]))
    assert torch.bincount(action[0], minlength=12).tolist() == [1000] * 12
