"""Adapter checkpoints: only the new encoder, tied to the policy it was made for."""

from __future__ import annotations

import hashlib
import os
import pickle
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .adapted import AdaptedPolicy
from .config import AdaptConfig
from .protocols import INTERFACE

FORMAT = 1
PACKAGE = "terapixel-adapt"


def _version() -> str:
    try:
        return version(PACKAGE)
    except PackageNotFoundError:  # run from the source tree
        return "unknown"


def fingerprint(module: nn.Module) -> str:
    """SHA-256 over the names, shapes and bytes of a module's weights and buffers."""
    digest = hashlib.sha256()
    for name, value in module.state_dict().items():
        digest.update(f"{name} {value.dtype} {list(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def save(
    path: Path, adapted: AdaptedPolicy, config: AdaptConfig, training: dict[str, Any], metrics: dict[str, float]
) -> None:
    """Write a checkpoint; a crash leaves either the old file or the new one.

    Args:
        path: Where to.
        adapted: Its encoder is stored, of its frozen policy only the fingerprint.
        config: What it was trained with.
        training: What a resumed run needs.
        metrics: The latest measurements, for readers.
    """
    payload = {
        "format": FORMAT,
        "package": PACKAGE,
        "version": _version(),
        "interface": INTERFACE,
        "config": asdict(config),
        "policy": fingerprint(adapted.frozen),
        "encoder": adapted.encoder.state_dict(),
        "training": training,
        "metrics": metrics,
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


def load_encoder(path: Path, adapted: AdaptedPolicy) -> dict[str, Any]:
    """Load the stored encoder into `adapted` and return the whole checkpoint.

    Raises:
        FileNotFoundError: There is no checkpoint.
        ValueError: It was made for another policy.
    """
    payload = read(path)
    if payload["policy"] != fingerprint(adapted.frozen):
        raise ValueError(f"{path}: made for another policy than the {type(adapted.frozen).__name__} given")
    adapted.encoder.load_state_dict(payload["encoder"])
    return payload


def load_adapted(path: str | os.PathLike[str], policy: nn.Module) -> AdaptedPolicy:
    """Put a stored encoder before the policy it was made for.

    Args:
        path: An `adapter.pt`.
        policy: The policy that was given to `align`, with the same weights; it is copied.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no adapter of this policy.
        TypeError: `policy` lacks `encode` or `head`.
    """
    adapted = AdaptedPolicy(policy)
    load_encoder(Path(path), adapted)
    return adapted
