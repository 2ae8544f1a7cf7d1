"""Turn the plain containers of a YAML file into frozen dataclasses, checking every key and every type on the way."""

from __future__ import annotations

import collections.abc
import dataclasses
import difflib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class ConfigError(ValueError):
    """A configuration that cannot be used; the message says which key, what was found and what is allowed."""


def structure(kind: Any, value: Any, where: str) -> Any:
    """Turn plain containers into `kind`: a dataclass, or a type as a dataclass field declares it.

    Args:
        kind: The wanted type.
        value: Mappings, lists and scalars, as a YAML file gives them.
        where: Full key of `value`, for messages.

    Raises:
        ConfigError: A key is unknown or missing, or a value has the wrong type or is refused by the dataclass.
    """
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any or kind is object:
        return value
    if origin in (typing.Union, types.UnionType):
        return _union(args, value, where)
    if origin is typing.Literal:
        return value if value in args else _refuse(where, " | ".join(map(str, args)), value)
    if hasattr(kind, "from_node"):  # it reads its own form, as a Part does
        return kind.from_node(value, where)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return value if isinstance(value, kind) else _dataclass(kind, value, where)
    if origin in (tuple, list, collections.abc.Sequence):
        return _sequence(kind, value, where)
    if origin in (dict, collections.abc.Mapping):
        if not isinstance(value, Mapping):
            _refuse(where, "a mapping", value)
        return {k: structure(args[1], v, _join(where, k)) for k, v in value.items()}
    return _scalar(kind, value, where)


def _dataclass(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        _refuse(where, f"a mapping of {kind.__name__}", value)
    fields = {f.name: f for f in dataclasses.fields(kind) if f.init}
    for key in value:
        if key not in fields:
            raise unknown_key(_join(where, key), key, fields)
    hints = typing.get_type_hints(kind)
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in value:
            raise ConfigError(f"{_join(where, name)}: is required")
    built = {k: structure(hints[k], v, _join(where, k)) for k, v in value.items()}
    try:
        return kind(**built)
    except ConfigError:  # it names its key already
        raise
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{where}: {error}" if where else str(error)) from error


def _union(args: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in args:
        return None
    candidates = [a for a in args if a is not type(None)]
    errors = []
    for candidate in candidates:
        try:
            return structure(candidate, value, where)
        except ConfigError as error:  # noqa: PERF203 - one alternative after the other
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    return _refuse(where, " or ".join(getattr(c, "__name__", str(c)) for c in candidates), value)


def _sequence(kind: Any, value: Any, where: str) -> Any:
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if not isinstance(value, (list, tuple)):
        _refuse(where, "a list", value)
    if origin is tuple and args[-1] is not Ellipsis:
        if len(value) != len(args):
            _refuse(where, f"a list of {len(args)}", value)
        return tuple(structure(a, v, f"{where}[{i}]") for i, (a, v) in enumerate(zip(args, value, strict=True)))
    items = [structure(args[0], v, f"{where}[{i}]") for i, v in enumerate(value)]
    return tuple(items) if origin is tuple else items


def _scalar(kind: Any, value: Any, where: str) -> Any:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is float:
        return float(value) if number else _refuse(where, "a number", value)
    if kind is int:
        # 8e6 is a convenient way to write a budget, and YAML reads it as a float
        return int(value) if number and float(value).is_integer() else _refuse(where, "a whole number", value)
    if kind is Path:
        return Path(value) if isinstance(value, str) else _refuse(where, "a path", value)
    if isinstance(kind, type) and not isinstance(value, kind):
        _refuse(where, {"bool": "true or false", "str": "text"}.get(kind.__name__, f"a {kind.__name__}"), value)
    return value


def unknown_key(where: str, key: object, allowed: Mapping[str, object]) -> ConfigError:
    """The error for a key that is not among `allowed`, naming the nearest right one."""
    near = difflib.get_close_matches(str(key), list(allowed), n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return ConfigError(f"{where}: unknown key; {hint}allowed: {', '.join(sorted(allowed))}")


def _refuse(where: str, allowed: str, value: Any) -> Any:
    raise ConfigError(f"{where or 'configuration'}: expected {allowed}, got {value!r}")


def _join(where: str, key: object) -> str:
    return f"{where}.{key}" if where else str(key)
