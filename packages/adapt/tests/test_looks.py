import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDict
from terapixel_adapt import Look


def batch_of(*lead, frames=1, value=None):
    g = torch.Generator().manual_seed(3)
    image = torch.randint(0, 256, (*lead, 3 * frames, 12, 20), generator=g, dtype=torch.uint8)
    if value is not None:
        image.fill_(value)
    leaves = {"camera": {"front": image, "back": image[..., :8].clone()}, "speed": torch.rand(*lead, generator=g)}
    return TensorDict(leaves, batch_size=lead)


DUSK = Look(brightness=0.6, contrast=0.8, tint=(1.0, 0.9, 0.7), blur=0.8, texture=15.0, noise=5.0, seed=4)


def test_defaults_change_nothing():
    batch = batch_of(2, 3)
    assert torch.equal(Look()(batch)["camera", "front"], batch["camera", "front"])


@pytest.mark.parametrize("frames", [1, 2])
@pytest.mark.parametrize("lead", [(5,), (2, 3)])
def test_shapes_and_other_leaves_stay(lead, frames):
    batch = batch_of(*lead, frames=frames)
    before = batch.clone()
    changed = DUSK(batch)
    assert changed.batch_size == batch.batch_size
    assert torch.equal(changed["speed"], batch["speed"])
    for name in ("front", "back"):
        assert changed["camera", name].dtype == torch.uint8
        assert changed["camera", name].shape == batch["camera", name].shape
        assert not torch.equal(changed["camera", name], batch["camera", name])
        assert torch.equal(batch["camera", name], before["camera", name])  # the given batch is left alone


def test_same_seed_and_step_give_the_same_images():
    batch = batch_of(4)
    first = DUSK(batch, step=7)["camera", "front"]
    assert torch.equal(DUSK(batch, step=7)["camera", "front"], first)
    assert not torch.equal(DUSK(batch, step=8)["camera", "front"], first)
    assert not torch.equal(Look(**{**vars(DUSK), "seed": 5})(batch, step=7)["camera", "front"], first)


def test_hand_values():
    assert Look(brightness=0.5)(batch_of(1, value=100))["camera", "front"].unique().tolist() == [50]
    assert Look(contrast=0.5)(batch_of(1, value=27))["camera", "front"].unique().tolist() == [77]  # 127.5 - 100.5 / 2
    tinted = Look(tint=(1.0, 0.5, 3.0))(batch_of(1, value=100, frames=2))["camera", "front"]
    assert tinted[0, :, 0, 0].tolist() == [100, 50, 255, 100, 50, 255]


def test_stains_stay_and_noise_moves():
    grey = batch_of(2, frames=2, value=128)
    stained = Look(texture=20.0)(grey)["camera", "front"]
    assert torch.equal(stained, Look(texture=20.0)(grey, step=9)["camera", "front"])
    assert torch.equal(stained[0], stained[1])
    assert torch.equal(stained[:, :3], stained[:, 3:])
    assert 8 < stained[0].float().std() < 40
    assert (stained[..., 1:].float() - stained[..., :-1].float()).abs().max() < 25  # smooth
    noisy = Look(noise=10.0)(grey)["camera", "front"].float()
    assert noisy.std().item() == pytest.approx(10.0, rel=0.1)
    assert not torch.equal(noisy[0], noisy[1])


@settings(max_examples=20, deadline=None)
@given(st.floats(0.3, 1.5))
def test_blur_keeps_flat_pictures_and_the_place_of_a_spot(sigma):
    flat = Look(blur=sigma)(batch_of(1, value=93))["camera", "front"]
    assert flat.unique().tolist() == [93]
    spot = batch_of(1, value=0)
    spot["camera", "front"][..., 6, 10] = 255
    blurred = Look(blur=sigma)(spot)["camera", "front"][0, 0].float()
    assert blurred.argmax() == 6 * 20 + 10
    assert torch.equal(blurred[6, 5:10], blurred[6, 11:16].flip(0))
    assert torch.equal(blurred[1:6, 10], blurred[7:12, 10].flip(0))


def test_values_and_batches_are_checked():
    with pytest.raises(ValueError, match="brightness: expected a number from 0 to 10, got -1"):
        Look(brightness=-1)
    with pytest.raises(ValueError, match="tint: expected factors for red, green and blue"):
        Look(tint=(1.0, 1.0))
    with pytest.raises(TypeError, match="brightnes"):
        Look(brightnes=1.0)
    with pytest.raises(ValueError, match=r"expected \(camera, name\) leaves, its keys are speed"):
        DUSK(batch_of(2).exclude("camera"))
    with pytest.raises(ValueError, match=r"camera front: expected u8 \[..., 3 F, h, w\], got torch.float32"):
        DUSK(TensorDict({"camera": {"front": torch.zeros(2, 3, 4, 4)}}, batch_size=[2]))
