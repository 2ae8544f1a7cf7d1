"""Checkpoints: written atomically, read without running code, refused in one line when they do not fit."""

from __future__ import annotations

import os
import pickle
from dataclasses import asdict, fields, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from torch import nn

from .config import LossConfig, NetworkConfig, StudentConfig
from .networks import StudentPolicy
from .protocols import INTERFACE

FORMAT = 1
PACKAGE = "terapixel-student"


def _version() -> str:
    try:
        return version(PACKAGE)
    except PackageNotFoundError:  # run from the source tree
        return "unknown"


def save(path: Path, policy: nn.Module, config: StudentConfig, training: dict[str, Any]) -> None:
    """Write a checkpoint; a crash leaves either the old file or the new one.

    Args:
        path: Where to.
        policy: The network; its `layout`, if it has one, lets `load_policy` build it again.
        config: What it was trained with.
        training: `DAgger.state_dict()`.
    """
    payload = {
        "format": FORMAT,
        "package": PACKAGE,
        "version": _version(),
        "interface": INTERFACE,
        "config": asdict(config),
        "layout": getattr(policy, "layout", None),
        "num_actions": policy.action.out_features if isinstance(policy, StudentPolicy) else None,
        "model": policy.state_dict(),
        "training": training,
    }
    temporary = path.with_name(path.name + ".tmp")
    torch.save(payload, temporary)
    os.replace(temporary, path)


def read(path: Path) -> dict[str, Any]:
    """Read a checkpoint of this package.

    Raises:
        FileNotFoundError: There is none.
        ValueError: It is damaged, of another package, format or interface.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such checkpoint")
    try:
        payload = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError, KeyError) as error:
        raise ValueError(f"{path}: not a readable checkpoint of {PACKAGE}") from error
    if not isinstance(payload, dict) or payload.get("package") != PACKAGE:
        found = payload.get("package") if isinstance(payload, dict) else type(payload).__name__
        raise ValueError(f"{path}: expected a checkpoint of {PACKAGE}, got one of {found}")
    for key, here in (("format", FORMAT), ("interface", INTERFACE)):
        if payload[key] != here:
            raise ValueError(f"{path}: {key} {payload[key]}, but this version of {PACKAGE} reads {key} {here}")
    return payload


def restore(path: Path, policy: nn.Module, config: StudentConfig) -> dict[str, Any]:
    """Load the network of a checkpoint into `policy` and return the training state to resume from.

    Raises:
        FileNotFoundError: There is no checkpoint.
        ValueError: It was made with another configuration or another network.
    """
    payload = read(path)
    differing = _differences(payload["config"], asdict(config))
    if differing:
        raise ValueError(f"{path}: cannot resume with another configuration: {'; '.join(differing)}")
    layout, there = getattr(policy, "layout", None), payload["layout"]
    if layout != there:
        raise ValueError(
            f"{path}: cannot resume with other observations: {'; '.join(_differences(there or {}, layout or {}))}"
        )
    _load(path, policy, payload["model"])
    return payload["training"]


def load_policy(path: str | os.PathLike[str]) -> StudentPolicy:
    """Build the student of a checkpoint, on the CPU, from the checkpoint alone.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no checkpoint of a `StudentPolicy`.
    """
    path = Path(path)
    payload = read(path)
    if payload["num_actions"] is None:
        raise ValueError(f"{path}: holds a network of another class; build it and load its 'model' entry yourself")
    example: dict[Any, torch.Tensor] = {}
    for name, (shape, dtype) in payload["layout"].items():
        key = tuple(name.split("/", 1)) if name.startswith("camera/") else name
        example[key] = torch.zeros(1, *shape, dtype=getattr(torch, dtype))
    config = _build(StudentConfig, payload["config"])
    policy = StudentPolicy(TensorDict(example, batch_size=[1]), config.network, payload["num_actions"])
    _load(path, policy, payload["model"])
    return policy


def _load(path: Path, policy: nn.Module, model: dict[str, torch.Tensor]) -> None:
    here = {name: tuple(value.shape) for name, value in policy.state_dict().items()}
    there = {name: tuple(value.shape) for name, value in model.items()}
    if here != there:
        raise ValueError(
            f"{path}: holds another network than {type(policy).__name__}: {'; '.join(_differences(there, here)[:3])}"
        )
    policy.load_state_dict(model)


def _differences(there: dict[str, Any], here: dict[str, Any], prefix: str = "") -> list[str]:
    found = []
    for key in [*there, *(k for k in here if k not in there)]:
        old, new = there.get(key), here.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            found += _differences(old, new, f"{prefix}{key}.")
        elif old != new:
            found.append(f"{prefix}{key} was {old}, is {new}")
    return found


def _build(cls: type, values: dict[str, Any]) -> Any:
    nested = {"network": NetworkConfig, "loss": LossConfig}
    known = {f.name for f in fields(cls)} if is_dataclass(cls) else set()
    return cls(**{k: nested[k](**v) if k in nested else v for k, v in values.items() if k in known})
