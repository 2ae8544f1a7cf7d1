"""What every tool does around its work: run folders, versions, progress, one-line errors and interruption."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _structure import ConfigError
from omegaconf import OmegaConf

RUNS = Path("runs")
RECORDS = ("config.yaml", "versions.json")
"""What a run folder holds before the tool has begun its work."""
PACKAGES = (
    "terapixel-sim",
    "terapixel-teacher",
    "terapixel-student",
    "terapixel-adapt",
    "torch",
    "taichi",
    "tensordict",
    "numpy",
)


@dataclass(frozen=True, kw_only=True)
class Named:
    """What the YAML of every tool that makes a run says."""

    name: str
    """The run's folder is `runs/NAME`."""
    seed: int = 0
    """For `${seed}` elsewhere in the YAML."""
    resume: bool = False
    """Go on where the run of this name stopped."""


def cli(
    tool: Callable[[Sequence[str]], None],
    argv: Sequence[str] | None,
    *,
    resumes: bool = False,
    usage: str | None = None,
) -> int:
    """Run a tool on the command line's words and return the exit status.

    A mistake of the user's is one line on stderr and status 2; Ctrl-C is status 130 and, for a tool that `resumes`, the
    command that goes on; `--help` prints `usage`, if there is one. Set `TERAPIXEL_TRACEBACK=1` to see where an error came from.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if usage is not None and not {"-h", "--help"}.isdisjoint(words):
        print(f"{usage.strip()}\n\nEvery key of the YAML can be set so; a wrong one is answered with what is allowed.")
        return 0
    try:
        tool(words)
    except KeyboardInterrupt:
        command = " ".join(["python", sys.argv[0], *(w for w in words if not w.startswith("resume="))])
        hint = f"; go on with: {command} resume=true" if resumes else ""
        print(f"\ninterrupted{hint}", file=sys.stderr)
        return 130
    except (ValueError, TypeError, OSError, RuntimeError) as error:
        if os.environ.get("TERAPIXEL_TRACEBACK"):
            raise
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


def open_run(name: str, resolved: Mapping[str, Any], *, resume: bool = False, replace: bool = False) -> Path:
    """Make the folder `runs/NAME` and write `config.yaml` and `versions.json` into it.

    A folder that holds nothing else is of a run that failed before it began, and is written anew.

    Args:
        name: Of the run; a plain folder name.
        resolved: The configuration with every override in it.
        resume: Go on in the folder that is there.
        replace: Delete the folder that is there.

    Raises:
        ConfigError: The name is not a plain one, the run exists, or there is nothing to resume.
    """
    if not name or Path(name).name != name or name in (".", ".."):
        raise ConfigError(f"name: expected a plain folder name, got {name!r}")
    folder = RUNS / name
    if resume:
        if not folder.is_dir():
            raise ConfigError(f"resume: there is no run {folder}; start it with resume=false")
        return folder
    if folder.exists():
        begun = not folder.is_dir() or {entry.name for entry in folder.iterdir()} != set(RECORDS)
        if begun and not replace:
            raise ConfigError(f"name: {folder} exists; choose another name, or resume=true to go on with it")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    config, version = (folder / name for name in RECORDS)
    OmegaConf.save(OmegaConf.create(dict(resolved)), config)
    version.write_text(json.dumps(versions(resolved.get("seed")), indent=2) + "\n")
    return folder


def versions(seed: Any = None) -> dict[str, Any]:
    """Versions of what computes, the commit if this is a clone, and the seed."""
    found = {d.name: d.version for d in importlib.metadata.distributions()}
    packages = {name: found.get(name) for name in PACKAGES}
    return {"python": platform.python_version(), "packages": packages, "git": git_hash(), "seed": seed}


def git_hash() -> str | None:
    """Commit of the clone that this file lies in, with `+` when files were changed; None outside a clone."""
    here = Path(__file__).resolve().parent
    command = ["git", "-C", str(here), "describe", "--always", "--abbrev=40", "--dirty=+"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
