"""Perturbations: off by default, as often and as large as they say, the same for a world alone and among many."""

import pytest
import torch
from terapixel_sim import PerturbConfig, SimConfig, Simulator
from terapixel_sim.layout import AgentCol
from terapixel_sim.observation import COLUMNS, PartnerObs

COAST = 7


def simulator(worlds=64, agents=12, action="jerk", first_world=0, **perturb):
    config = SimConfig(perturb=PerturbConfig(**perturb), action=action, infraction="ignore", early_reset=1.0)
    return Simulator(config, ["grid:0"], num_worlds=worlds, num_agents=agents, seed=4, first_world=first_world)


def test_nothing_is_perturbed_by_default():
    batch = simulator().reset()
    assert not batch["perturbed"].any()
    assert not SimConfig().perturb.active


@pytest.mark.parametrize("leaf", ["partners", "lanes", "edges", "lights"])
def test_dropout_takes_its_share_of_one_leaf(leaf):
    clean, gaps = simulator().reset(), simulator(**{f"dropout_{leaf}": 0.3}).reset()
    for other in ("partners", "lanes", "edges", "lights"):
        before, after = clean[f"{other}_mask"], gaps[f"{other}_mask"]
        if other != leaf or leaf == "lights":  # this town has none
            assert torch.equal(before, after)
            assert torch.equal(clean[other], gaps[other])
            continue
        assert not (after & ~before).any()
        missing = (before & ~after).sum() / before.sum()
        assert missing == pytest.approx(0.3, abs=0.02)
        assert not gaps[leaf][~after].any(), "a row that is missing is zero"
        assert torch.equal(gaps[leaf][after], clean[leaf][after])


def test_noise_has_its_size_and_spares_what_it_does_not_name():
    clean, noisy = simulator().reset(), simulator(noise_m=0.5, noise_mps=1.5).reset()
    mask = clean["partners_mask"]
    scales = torch.tensor([scale for _, scale, _ in COLUMNS["partners"].values()])
    error = ((noisy["partners"] - clean["partners"]) * scales)[mask]
    assert error.mean(0).abs().max() < 0.06
    for column in PartnerObs:
        place = column in (PartnerObs.X, PartnerObs.Y)
        speed = column in (PartnerObs.SPEED, PartnerObs.VX, PartnerObs.VY)
        want = 0.5 if place else 1.5 if speed else 0.0
        assert float(error[:, column].std()) == pytest.approx(want, rel=0.05, abs=1e-6)
    assert not noisy["partners"][~mask].any()
    assert torch.equal(noisy["lanes"], clean["lanes"])


def test_the_blind_see_nobody_for_the_spell_and_are_marked():
    sim = simulator(blind=0.5, spell_s=2.0)
    batch = sim.reset()
    spells = []
    for _ in range(160):
        assert torch.equal(batch["perturbed"], batch["perturbed"] & batch["live"])
        assert not batch["partners_mask"][batch["perturbed"]].any()
        spells.append(batch["perturbed"].clone())
        batch = sim.step(torch.full((64, 12), COAST))
        if bool(sim.world_done.any()):
            break
    spells = torch.stack(spells)
    ever = spells.any(0)
    assert ever.float().mean() == pytest.approx(0.5, abs=0.06)
    assert (spells.sum(0)[ever] == 8).float().mean() > 0.95  # 2 s of 0.25 s, but for those that end first
    starts = spells.float().argmax(0)[ever].float()
    assert starts.std() > 20, "they begin anywhere in the episode"


@pytest.mark.parametrize("action", ["jerk", "jerk_continuous"])
def test_phantoms_brake_whatever_they_are_told(action):
    sim = simulator(action=action, phantom_brake=1.0, spell_s=1.0)
    batch = sim.reset()
    told = torch.full((64, 12), 10) if action == "jerk" else torch.tensor([1.0, 0.0]).expand(64, 12, 2).contiguous()
    mine = told.clone()
    seen = 0
    for _ in range(100):
        phantom = batch["perturbed"].clone()
        batch = sim.step(told)
        jerk = sim.state["agents"][..., AgentCol.JERK_LONG]
        assert (jerk[phantom & batch["live"]] == -15.0).all()
        assert (jerk[~phantom & batch["live"]] == 4.0).all()
        seen += int(phantom.sum())
    assert seen > 1000
    assert torch.equal(told, mine), "the caller's tensor is its own"


def test_a_fork_is_perturbed_as_the_original_goes_on_to_be():
    sim = simulator(phantom_brake=1.0, blind=0.5, noise_m=0.3)
    sim.reset()
    for _ in range(40):
        sim.step(torch.full((64, 12), 10))
    fork = sim.fork(time_limit=sim.config.time_limit_s)
    for _ in range(3):
        a, b = sim.step(torch.full((64, 12), 10)), fork.step(torch.full((64, 12), 10))
        for key in a.keys():  # noqa: SIM118 - a TensorDict
            assert torch.equal(a[key], b[key]), key
    assert (a["perturbed"] & (sim.state["agents"][..., AgentCol.JERK_LONG] == -15.0)).any()


def test_a_world_alone_is_perturbed_as_it_is_among_many():
    options = {"noise_m": 0.3, "dropout_lanes": 0.2, "blind": 0.5, "phantom_brake": 0.3}
    many, alone = simulator(worlds=9, **options), simulator(worlds=1, first_world=5, **options)
    many.reset()
    alone.reset()
    for _ in range(30):
        a, b = many.step(torch.full((9, 12), 10)), alone.step(torch.full((1, 12), 10))
    for key in a.keys():  # noqa: SIM118 - a TensorDict
        assert torch.equal(a[key][5], b[key][0]), key


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"blind": 1.5}, "perturb.blind: expected a number from 0 to 1"),
        ({"dropout_lanes": -0.1}, "perturb.dropout_lanes"),
        ({"noise_m": float("nan")}, "perturb.noise_m"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        PerturbConfig(**options)
