"""Checkpoints: one file that says what it holds, written whole or not at all, read without running code."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict

from .config import NetworkConfig
from .networks import TeacherPolicy
from .protocols import INTERFACE, Key

FORMAT = 1
PACKAGE = "terapixel-teacher"
Layout = dict[Key, tuple[tuple[int, ...], str]]


def package_version() -> str:
    """Version of this package, `unknown` where it runs from a source tree that is not installed."""
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return "unknown"


def layout_of(batch: TensorDict, keys: Iterable[Key]) -> Layout:
    """Shape without the leading dimensions, and type, of each leaf of `batch` in `keys`."""
    lead = len(batch.batch_size)
    return {key: (tuple(batch[key].shape[lead:]), str(batch[key].dtype).removeprefix("torch.")) for key in keys}


def check_layout(stored: Layout, given: Layout, where: str) -> None:
    """Raise unless two layouts agree.

    Raises:
        ValueError: Names the first leaf that differs, with both.
    """
    for key in sorted(stored.keys() | given.keys(), key=str):
        if stored.get(key) != given.get(key):
            raise ValueError(f"{where}: {key}: the checkpoint has {stored.get(key)}, the batch has {given.get(key)}")


def save_checkpoint(path: str | Path, content: dict[str, Any]) -> None:
    """Write `content` (tensors, numbers, text and containers of them) with this package's stamps, atomically."""
    path = Path(path)
    stamps = {"format": FORMAT, "package": PACKAGE, "version": package_version(), "interface": INTERFACE}
    partial = path.with_name(path.name + ".tmp")
    torch.save({**stamps, **content}, partial)
    os.replace(partial, path)  # readers see the old file or the new one, never a part


def load_checkpoint(path: str | Path, device: str | torch.device = "cpu") -> dict[str, Any]:
    """Read what `save_checkpoint` wrote.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no checkpoint of this package, or of another format or interface.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such checkpoint")
    try:
        content = torch.load(path, map_location=device, weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError, KeyError) as error:
        raise ValueError(f"{path}: not a readable checkpoint ({type(error).__name__})") from error
    package = content.get("package") if isinstance(content, dict) else None
    if package != PACKAGE:
        raise ValueError(f"{path}: expected a checkpoint of {PACKAGE}, got one of {package or 'something else'}")
    for name, own in (("format", FORMAT), ("interface", INTERFACE)):
        if content[name] != own:
            raise ValueError(f"{path}: {name} {content[name]}, this version reads {own}")
    return content


def load_policy(
    path: str | Path, example: TensorDict | None = None, device: str | torch.device = "cpu"
) -> TeacherPolicy:
    """Rebuild the teacher from a checkpoint alone.

    Args:
        path: A file that `train` wrote.
        example: A batch that the policy shall work on; its layout is checked. None checks nothing.
        device: Where the policy shall live.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It holds another network, or `example` has another layout.
    """
    content = load_checkpoint(path, device)
    if content["network"] != network_name(TeacherPolicy):
        raise ValueError(
            f"{path}: holds a {content['network']}, not a {network_name(TeacherPolicy)}; build it yourself and load "
            "load_checkpoint(path)['policy'] into it"
        )
    layout: Layout = content["layout"]
    if example is not None:
        present = [key for key in layout if key in example.keys(include_nested=True)]
        check_layout(layout, layout_of(example, present), str(path))
    like = TensorDict(
        {key: torch.zeros(1, *shape, dtype=getattr(torch, dtype)) for key, (shape, dtype) in layout.items()},
        batch_size=[1],
    )
    policy = TeacherPolicy(like, NetworkConfig(**content["config"]["network"]), content["num_actions"]).to(device)
    load_weights(policy, content, path)
    return policy.eval()


def network_name(network: type) -> str:
    """How a checkpoint names a class of networks."""
    return f"{network.__module__}:{network.__qualname__}"


def load_weights(policy: Any, content: dict[str, Any], path: str | Path) -> None:
    """Load the checkpoint's weights into `policy`.

    Raises:
        ValueError: They belong to another network; names the first tensor that differs.
    """
    if content["network"] != network_name(type(policy)):
        raise ValueError(f"{path}: holds a {content['network']}, not a {network_name(type(policy))}")
    own, stored = policy.state_dict(), content["policy"]
    for name in sorted(own.keys() | stored.keys()):
        shapes = [list(state[name].shape) if name in state else None for state in (stored, own)]
        if shapes[0] != shapes[1]:
            raise ValueError(f"{path}: another network: {name} is {shapes[0]} in the checkpoint, {shapes[1]} here")
    policy.load_state_dict(stored)
