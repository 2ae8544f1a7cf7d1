"""Read a YAML file with `key.sub=value` overrides into frozen dataclasses.

OmegaConf parses, so `${seed}` interpolates, duplicate keys are refused and `1e-3` is a number. `structure` checks every
key and type against the dataclass, so that an error names the full key, what is allowed and the nearest right name.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from _structure import ConfigError, structure
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

T = TypeVar("T")


def load(kind: type[T], argv: Sequence[str]) -> tuple[T, dict[str, Any]]:
    """Read `CONFIG.yaml key.sub=value ...` into `kind`.

    Returns:
        The configuration, and the same as plain containers with everything resolved, to be written down.

    Raises:
        ConfigError: The file is missing or malformed, or a key or value is not allowed.
    """
    if not argv or "=" in argv[0] or argv[0].startswith("-"):
        raise ConfigError("expected CONFIG.yaml, then any number of key.sub=value")
    for override in argv[1:]:
        if "=" not in override:
            raise ConfigError(f"{override}: expected key.sub=value")
    path = Path(argv[0])
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; expected a YAML configuration such as tools/configs/demo.yaml")
    try:
        node = OmegaConf.load(path)
        if not isinstance(node, DictConfig):
            raise ConfigError(f"{path}: expected a mapping of keys to values")
        plain: Any = OmegaConf.to_container(OmegaConf.merge(node, OmegaConf.from_dotlist(list(argv[1:]))), resolve=True)
    except (yaml.YAMLError, OmegaConfBaseException) as error:
        raise ConfigError(f"{path}: {error}") from error
    resolved: dict[str, Any] = {str(k): v for k, v in plain.items()}
    return structure(kind, resolved, ""), resolved
