import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDict
from terapixel_teacher import NetworkConfig, TeacherPolicy
from terapixel_teacher.networks import SetEncoder, sample


def make_batch(*lead, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def rand(*shape):
        return torch.rand(*lead, *shape, generator=generator)

    leaves = {
        "ego": rand(4), "route": rand(5, 3), "route_mask": rand(5) > 0.3, "partners": rand(6, 10),
        "partners_mask": rand(6) > 0.3, "draw": rand(2), "secret": rand(3),
    }  # fmt: skip
    return TensorDict(leaves, batch_size=lead)


CONFIG = NetworkConfig(vectors=("ego", "route"), width=16, set_width=8)


def outputs(policy, batch):
    with torch.no_grad():
        return policy.head(policy.encode(batch))


def test_sampling_inverts_the_cumulative_distribution():
    logits = torch.tensor([0.2, 0.5, 0.3]).log().expand(6, 3)
    draws = torch.tensor([0.0, 0.19, 0.21, 0.69, 0.71, 1 - 2**-24])
    assert sample(logits, draws).tolist() == [0, 0, 1, 1, 2, 2]
    assert sample(torch.tensor([-torch.inf, 0.0]), torch.tensor(0.0)) == 1  # never an action of no probability


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.1, 20))
def test_sampling_follows_the_probabilities(seed, scale):
    logits = torch.randn(12, generator=torch.Generator().manual_seed(seed)) * scale
    draws = (torch.arange(4096) + 0.5) / 4096
    shares = torch.bincount(sample(logits.expand(4096, 12), draws), minlength=12) / 4096
    torch.testing.assert_close(shares, logits.softmax(-1), atol=1 / 4096, rtol=1e-4)


@pytest.mark.parametrize("critic", ["shared", "trunk", "separate"])
def test_leading_shape_does_not_matter(critic):
    batch = make_batch(3, 4)
    config = NetworkConfig(vectors=("ego", "route"), width=16, set_width=8, critic=critic)
    policy = TeacherPolicy(batch, config, num_actions=5)
    out, flat = outputs(policy, batch), outputs(policy, batch.reshape(-1))
    assert out["action_logits"].shape == (3, 4, 5)
    assert out["value"].shape == (3, 4)
    for name, leaf in out.items():
        torch.testing.assert_close(leaf.reshape(flat[name].shape), flat[name])
    assert policy.act(batch).shape == (3, 4)
    assert policy.act(batch).dtype == torch.int64
    torch.testing.assert_close(policy.act(batch, greedy=True), out["action_logits"].argmax(-1))


@pytest.mark.parametrize("critic", ["trunk", "separate"])
def test_the_value_owns_its_trunk(critic):
    batch = make_batch(7)
    config = NetworkConfig(vectors=("ego", "route"), width=16, set_width=8, critic=critic)
    policy = TeacherPolicy(batch, config)
    policy.head(policy.encode(batch))["value"].sum().backward()
    reached = {name.rsplit(".", 2)[0] for name, p in policy.named_parameters() if p.grad is not None and p.grad.any()}
    assert not any(name.startswith(("trunks.0", "policy_head")) for name in reached)
    # the gradient reaches the actor's set encoder only where they share it
    assert ("encoders.actor_partners" in reached) == (critic == "trunk")


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_order_and_padding_of_a_set_do_not_matter(seed):
    batch = make_batch(5, seed=seed)
    policy = TeacherPolicy(batch, CONFIG)
    other = batch.clone()
    order = torch.randperm(6, generator=torch.Generator().manual_seed(seed))
    for key in ("partners", "partners_mask"):
        other[key] = other[key][:, order]
    other["partners"][~other["partners_mask"]] = 1e9
    other["route"][~other["route_mask"]] = torch.nan
    other["secret"] += 1.0
    for name, leaf in outputs(policy, batch).items():
        torch.testing.assert_close(leaf, outputs(policy, other)[name])


def test_a_row_of_a_set_does_matter():
    batch = make_batch(5)
    batch["partners_mask"][:] = True
    policy, other = TeacherPolicy(batch, CONFIG), batch.clone()
    other["partners"][:, 0] += 3.0
    assert (outputs(policy, batch)["value"] != outputs(policy, other)["value"]).all()


def test_set_limit_reads_the_first_rows_only():
    batch = make_batch(5)
    config = NetworkConfig(vectors=("ego",), set_limit={"partners": 2}, width=16, set_width=8)
    policy, other = TeacherPolicy(batch, config), batch.clone()
    other["partners"][:, 2:] += 3.0
    assert torch.equal(outputs(policy, batch)["value"], outputs(policy, other)["value"])


def test_set_encoder_and_its_gradient_equal_relu_before_maximum():
    torch.manual_seed(1)
    encoder, rows, mask = SetEncoder(10, 8), torch.randn(9, 6, 10), torch.rand(9, 6) > 0.4
    mask[0], mask[1] = False, True
    weight = torch.randn(9, 8)
    got = encoder(rows, mask)
    (got * weight).sum().backward()
    grads = [p.grad.clone() for p in encoder.parameters()]
    encoder.zero_grad()
    wanted = (encoder.features(encoder.rows(rows).relu()).relu() * mask.unsqueeze(-1)).amax(-2)
    (wanted * weight).sum().backward()
    torch.testing.assert_close(got, wanted)
    for grad, parameter in zip(grads, encoder.parameters(), strict=True):
        torch.testing.assert_close(grad, parameter.grad)
    assert not got[0].any()  # an empty set


def test_the_first_policy_follows_the_initial_logits():
    batch, wanted = make_batch(64), [-3.0, 0.0, 0.0, 1.0]
    config = NetworkConfig(vectors=("ego", "route"), width=16, set_width=8, initial_logits=wanted)
    given = outputs(TeacherPolicy(batch, config, num_actions=4), batch)["action_logits"].softmax(-1)
    torch.testing.assert_close(given, torch.tensor(wanted).softmax(-1).expand(64, 4), atol=0.02, rtol=0.0)
    with pytest.raises(ValueError, match="initial_logits: expected 5 numbers, one an action, got 4"):
        TeacherPolicy(batch, config, num_actions=5)


def test_absent_keys_are_named_with_those_present():
    with pytest.raises(ValueError, match=r"lacks \['proprio'\]; it has \['draw', 'ego', 'partners'"):
        TeacherPolicy(make_batch(2), NetworkConfig(vectors=("ego", "proprio")))


def test_a_set_must_have_rows():
    batch = make_batch(2).update({"ego_mask": torch.ones(2, dtype=torch.bool)})
    with pytest.raises(ValueError, match=r"network\.sets: ego: expected"):
        TeacherPolicy(batch, NetworkConfig(vectors=("route",), sets=("ego",)))
