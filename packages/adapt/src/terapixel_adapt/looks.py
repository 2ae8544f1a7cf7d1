"""Changes of appearance that act on finished images.

Palettes, haze and moved cameras are made by rendering with another rig.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from torch.nn import functional

from .config import check_number, check_whole


@dataclass(frozen=True, kw_only=True)
class Look:
    """Another look of the same scene, for all camera images of a batch. The defaults change nothing.

    Applied in this order: blur, contrast about mid grey, tint and brightness (factors), texture, noise; then clipped to
    0..255.
    """

    brightness: float = 1.0
    """Factor on all channels."""
    contrast: float = 1.0
    """Factor on the distance from mid grey."""
    tint: tuple[float, float, float] = (1.0, 1.0, 1.0)
    """Factors on red, green and blue."""
    blur: float = 0.0
    """Standard deviation of a Gaussian blur [px]."""
    texture: float = 0.0
    """Standard deviation of smooth stains [grey levels]; they stay where they are on a camera, as dirt would."""
    texture_cell: int = 8
    """Size of a stain [px]."""
    noise: float = 0.0
    """Standard deviation of white noise [grey levels], new in each call with another `step`."""
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "tint", tuple(self.tint))
        if len(self.tint) != 3:
            raise ValueError(f"tint: expected factors for red, green and blue, got {self.tint!r}")
        check_number("brightness", self.brightness, 0.0, 10.0)
        check_number("contrast", self.contrast, 0.0, 10.0)
        for factor in self.tint:
            check_number("tint", factor, 0.0, 10.0)
        check_number("blur", self.blur, 0.0, 20.0)
        check_number("texture", self.texture, 0.0, 255.0)
        check_number("noise", self.noise, 0.0, 255.0)
        check_whole("texture_cell", self.texture_cell, 1, 1024)
        check_whole("seed", self.seed, 0, 2**31 - 1)

    def __call__(self, batch: TensorDict, step: int = 0) -> TensorDict:
        """Return the batch with other images; the batch given stays as it is, and other leaves are shared.

        Args:
            batch: With ("camera", name) leaves u8 [..., 3 F, h, w].
            step: Chooses the white noise; the same step gives the same images.

        Raises:
            ValueError: There is no camera, or an image is not u8 with a multiple of three channels.
        """
        if "camera" not in batch.keys():  # noqa: SIM118 (iterating a TensorDict goes over rows)
            keys = ", ".join(sorted(str(key) for key in batch.keys()))  # noqa: SIM118
            raise ValueError(f"batch: expected (camera, name) leaves, its keys are {keys}")
        images = {name: self._image(str(name), leaf, step) for name, leaf in batch["camera"].items()}
        return batch.clone(recurse=False).update({"camera": TensorDict(images, batch_size=batch.batch_size)})

    def _image(self, name: str, image: Tensor, step: int) -> Tensor:
        if image.dtype != torch.uint8 or image.ndim < 3 or image.shape[-3] % 3:
            raise ValueError(f"camera {name}: expected u8 [..., 3 F, h, w], got {image.dtype} {list(image.shape)}")
        value = image.float()
        frames = image.shape[-3] // 3
        if self.blur > 0:
            value = _blur(value, self.blur)
        tint = torch.tensor(self.tint, device=image.device).repeat(frames).reshape(-1, 1, 1)
        value = ((value - 127.5) * self.contrast + 127.5) * (tint * self.brightness)
        if self.texture > 0:
            value = value + self.texture * self._stains(name, image).repeat(frames, 1, 1)
        if self.noise > 0:
            value = value + self.noise * _normal(image.shape, image.device, self.seed, name, 1 + step)
        return value.round().clamp(0, 255).to(torch.uint8)

    def _stains(self, name: str, image: Tensor) -> Tensor:
        """Smooth noise [3, h, w] of standard deviation about 1, the same in every call."""
        height, width = image.shape[-2:]
        cells = (1, 3, -(-height // self.texture_cell) + 1, -(-width // self.texture_cell) + 1)
        coarse = _normal(cells, image.device, self.seed, name, 0)
        smooth = functional.interpolate(coarse, size=(height, width), mode="bilinear", align_corners=True)[0]
        return smooth * 1.5  # what the interpolation between independent cells takes from the deviation, 1 / (2 / 3)


def _normal(shape: Any, device: torch.device, seed: int, name: str, step: int) -> Tensor:
    # the camera's name enters the seed, so that cameras differ; Python's own hash of a string changes from run to run
    mixed = (seed * 1_000_003 + step) * 1_000_003 + int.from_bytes(name.encode(), "little")
    generator = torch.Generator(device).manual_seed(mixed % 2**63)
    return torch.randn(shape, generator=generator, device=device)


def _blur(image: Tensor, sigma: float) -> Tensor:
    # two small matrix products: on a CPU several times faster than convolutions of one channel each
    height, width = image.shape[-2:]
    across = _blur_matrix(width, sigma, image.device)
    return _blur_matrix(height, sigma, image.device) @ (image @ across.T)


def _blur_matrix(size: int, sigma: float, device: torch.device) -> Tensor:
    """[size, size]: row i holds the Gaussian's weights around i; what falls outside is read from the border."""
    radius = max(1, round(3 * sigma))
    offset = torch.arange(-radius, radius + 1)
    weight = torch.exp(-offset.square() / (2 * sigma**2))
    columns = (torch.arange(size).unsqueeze(1) + offset).clamp(0, size - 1)
    rows = torch.zeros(size, size).scatter_add_(1, columns, (weight / weight.sum()).expand(size, -1))
    return rows.to(device)
