"""The student: a GroupNorm CNN with camera tokens, a vector MLP, and a head for actions and a trajectory."""

from __future__ import annotations

import math

import torch
from tensordict import TensorDict
from torch import Tensor, nn

from .config import GROUPS, NetworkConfig
from .trajectory import compose

NUM_POINTS = 8
"""Points of a trajectory."""
EVERY_S = 0.5
"""Time between two of its points [s]."""
_INCREMENT_SCALE = (5.0, 1.0, 0.5)  # metres and radians between two points that an output of 1 stands for


class CameraEncoder(nn.Module):
    """A convolution stack; a normalisation after each keeps the feature scale from growing unseen."""

    def __init__(self, in_channels: int, channels: tuple[int, ...]) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for i, width in enumerate(channels):
            # a coarse first layer costs a third of a fine one on CPU, since its output is the largest
            kernel, stride = (5, 4) if i == 0 else (3, 2)
            layers += [
                nn.Conv2d(in_channels, width, kernel, stride, padding=kernel // 2),
                nn.GroupNorm(GROUPS, width),
                nn.ReLU(),
            ]
            in_channels = width
        self.layers = nn.Sequential(*layers)

    def forward(self, image: Tensor) -> Tensor:
        """Map images u8 [N, C, h, w] to features f32 [N, channels[-1], h', w']."""
        return self.layers(image.float() / 127.5 - 1.0)


class CameraTokens(nn.Module):
    """Learned queries that attend once over a camera's feature map (after Alberti's camera tokens).

    Keys and values are the features plus a learned embedding of their place. The projections of keys and values are
    left out: the queries and the linear layer that follows can take up any such matrix.
    """

    def __init__(self, num_queries: int, num_places: int, width: int) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.randn(num_queries, width))
        self.places = nn.Parameter(torch.randn(num_places, width))

    def forward(self, features: Tensor) -> Tensor:
        """Map features f32 [N, C, h', w'] to tokens f32 [N, num_queries * C]."""
        values = features.flatten(2).transpose(1, 2) + self.places  # [N, L, C]
        scores = values @ self.queries.t() / math.sqrt(self.queries.shape[1])  # [N, L, Q]
        return (scores.softmax(1).transpose(1, 2) @ values).flatten(1)


class StudentPolicy(nn.Module):
    """A policy from camera images and what a car knows of itself.

    Args:
        example: A batch of sensors, from which the sizes are taken; all ("camera", name) leaves are used.
        config: Widths and the vector keys to read.
        num_actions: Number of discrete actions K.

    Raises:
        ValueError: `example` lacks a key of `config.vectors` or has no camera, or its cameras differ in channels.
    """

    def __init__(self, example: TensorDict, config: NetworkConfig, num_actions: int = 12) -> None:
        super().__init__()
        self.config = config
        present = sorted(str(key) for key in example.keys())  # noqa: SIM118 (iterating a TensorDict goes over rows)
        missing = [key for key in config.vectors if key not in present]
        if missing:
            raise ValueError(
                f"network.vectors: the batch has no {', '.join(missing)}; its keys are {', '.join(present)}"
            )
        if "camera" not in present:
            raise ValueError(f"example: the batch has no (camera, name) leaf; its keys are {', '.join(present)}")
        lead = len(example.batch_size)
        shapes = {str(name): tuple(leaf.shape[lead:]) for name, leaf in sorted(example["camera"].items())}
        if any(len(shape) != 3 for shape in shapes.values()) or len({shape[0] for shape in shapes.values()}) != 1:
            raise ValueError(f"camera: expected images [3 F, h, w] with the same number of frames F, got {shapes}")
        self.cameras = tuple(shapes)
        self.layout = sensor_layout(example, config)

        width = config.channels[-1]
        self.camera_encoder = CameraEncoder(next(iter(shapes.values()))[0], config.channels)
        tokens = {}
        for name, shape in shapes.items():
            with torch.no_grad():
                places = self.camera_encoder(torch.zeros(1, *shape, dtype=torch.uint8))[0, 0].numel()
            tokens[name] = CameraTokens(config.queries, places, width)
        self.camera_tokens = nn.ModuleDict(tokens)
        self.scene = nn.Linear(len(shapes) * config.queries * width, config.scene)
        inputs = sum(example[key].shape[lead:].numel() for key in config.vectors)
        self.vector = nn.Sequential(
            nn.Linear(inputs, config.vector), nn.ReLU(), nn.Linear(config.vector, config.vector)
        )
        latent = config.scene + config.vector
        self.trunk = nn.Sequential(
            nn.Linear(latent, config.hidden), nn.ReLU(), nn.Linear(config.hidden, config.hidden), nn.ReLU()
        )
        self.action = nn.Linear(config.hidden, num_actions)
        self.increments = nn.Linear(config.hidden, NUM_POINTS * 3)
        self.register_buffer("increment_scale", torch.tensor(_INCREMENT_SCALE), persistent=False)

    def encode(self, batch: TensorDict) -> Tensor:
        """Return the latent f32 [..., scene + vector] of a batch of any batch size, image features first."""
        lead = batch.batch_size
        tokens = []
        for name in self.cameras:
            image: Tensor = batch["camera", name]
            features = self.camera_encoder(image.reshape(-1, *image.shape[len(lead) :]))
            tokens.append(self.camera_tokens[name](features))
        scene = self.scene(torch.cat(tokens, dim=1))
        vectors = [_flat(batch, key) for key in self.config.vectors]
        latent = torch.cat([scene, self.vector(torch.cat(vectors, dim=1))], dim=1)
        return latent.reshape(*lead, -1)

    def head(self, latent: Tensor) -> dict[str, Tensor]:
        """Plan from a latent f32 [..., D].

        Returns:
            `action_logits` f32 [..., K] and `trajectory` f32 [..., 8, 3]: x, y [m], yaw [rad] of the rear axle in its
            own frame, one point each half second.
        """
        hidden = self.trunk(latent)
        increments = self.increments(hidden).unflatten(-1, (NUM_POINTS, 3)) * self.increment_scale
        return {"action_logits": self.action(hidden), "trajectory": compose(increments)}

    def act(self, batch: TensorDict, greedy: bool = False) -> Tensor:
        """Choose actions int64 [...]: the most likely if `greedy`, else drawn by inverse CDF from `draw`."""
        with torch.no_grad():
            logits = self.head(self.encode(batch))["action_logits"]
            if greedy:
                return logits.argmax(-1)
            return sample(logits, batch["draw"][..., 0])


def sample(logits: Tensor, draw: Tensor) -> Tensor:
    """Draw from categorical distributions by inverse CDF.

    Args:
        logits: Unnormalised log probabilities f32 [..., K].
        draw: Uniform numbers in [0, 1), f32 [...].

    Returns:
        Indices int64 [...]: the first whose cumulative probability exceeds `draw`.
    """
    cdf = logits.softmax(-1).cumsum(-1)
    level = draw.unsqueeze(-1) * cdf[..., -1:]  # a sum rounded below 1 must not leave a gap at the end
    return (cdf[..., :-1] <= level).sum(-1)


def sensor_layout(example: TensorDict, config: NetworkConfig) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and dtype of each leaf that the network reads, without the batch dimensions; a checkpoint carries it."""
    lead = len(example.batch_size)
    leaves = {f"camera/{name}": leaf for name, leaf in sorted(example["camera"].items())}
    for key in (*config.vectors, *(f"{key}_mask" for key in config.vectors), "draw"):
        if key in example.keys():  # noqa: SIM118
            leaves[key] = example[key]
    return {name: (tuple(leaf.shape[lead:]), str(leaf.dtype).removeprefix("torch.")) for name, leaf in leaves.items()}


def _flat(batch: TensorDict, key: str) -> Tensor:
    value: Tensor = batch[key]
    mask: Tensor | None = batch.get(f"{key}_mask", None)
    if mask is not None:
        value = value * mask.unsqueeze(-1)
    return value.reshape(batch.batch_size.numel(), -1)
