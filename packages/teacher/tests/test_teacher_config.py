import pytest
from terapixel_teacher import NetworkConfig, PPOConfig, TeacherConfig


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (PPOConfig, {"gamma": 1.5}, "ppo.gamma: expected a number from 0 to 1, got 1.5"),
        (PPOConfig, {"lam": float("nan")}, "ppo.lam: expected a number"),
        (PPOConfig, {"lr": "1e-3"}, "ppo.lr: expected a number from 0 to 1, got '1e-3'"),
        (PPOConfig, {"horizon": 0}, "ppo.horizon: expected a whole number >= 1, got 0"),
        (PPOConfig, {"epochs": True}, "ppo.epochs: expected a whole number"),
        (PPOConfig, {"minibatch": 4.0}, "ppo.minibatch: expected a whole number"),
        (PPOConfig, {"lr_schedule": "step"}, "ppo.lr_schedule: expected linear or cosine, got 'step'"),
        (PPOConfig, {"target_kl": -1.0}, "ppo.target_kl"),
        (NetworkConfig, {"vectors": "ego"}, "network.vectors: expected a list of different key names"),
        (NetworkConfig, {"vectors": (), "sets": ()}, "network.vectors: expected at least one key"),
        (
            NetworkConfig,
            {"set_limit": {"lanes": 4}},
            "network.set_limit: expected keys of network.sets",
        ),
        (NetworkConfig, {"set_limit": {"partners": 0}}, "network.set_limit.partners: expected a whole number >= 1"),
        (NetworkConfig, {"critic": "own"}, "network.critic: expected one of shared, trunk, separate, got 'own'"),
        (NetworkConfig, {"initial_logits": 0.0}, "network.initial_logits: expected a list of numbers, one an action"),
        (
            NetworkConfig,
            {"initial_logits": (0.0, "1")},
            r"network.initial_logits\[1\]: expected a number from -20 to 20",
        ),
        (TeacherConfig, {"total_steps": 0}, "total_steps: expected a whole number >= 1"),
        (TeacherConfig, {"ppo": {}}, "ppo: expected a PPOConfig, got {}"),
    ],
)
def test_values_out_of_range_are_named(kind, options, message):
    with pytest.raises(ValueError, match=message):
        kind(**options)


def test_a_typo_is_an_error():
    with pytest.raises(TypeError, match="epoch"):
        PPOConfig(epoch=3)


def test_a_list_of_keys_becomes_a_tuple():
    assert NetworkConfig(vectors=["ego"]).vectors == ("ego",)
    assert NetworkConfig(initial_logits=[1.0, -1.0]).initial_logits == (1.0, -1.0)
