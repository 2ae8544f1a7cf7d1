"""Parts that a YAML names as `class: package.module:Name` or `class: path/to/file.py:Name`, plus options."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _structure import ConfigError, structure, unknown_key


@dataclass(frozen=True, kw_only=True)
class Part:
    """A class or function with options, not built yet."""

    target: Callable[..., Any]
    options: Mapping[str, Any]
    where: str
    """Its key in the YAML, for messages."""

    @classmethod
    def from_node(cls, node: Any, where: str) -> Part:
        """Find what `node` names.

        Raises:
            ConfigError: `class` is missing, or names nothing that can be imported and called.
        """
        if not isinstance(node, Mapping) or not isinstance(node.get("class"), str):
            raise ConfigError(
                f"{where}: expected a mapping with class: package.module:Name or file.py:Name, and options"
            )
        options = {str(k): v for k, v in node.items() if k != "class"}
        return cls(target=find(node["class"], f"{where}.class"), options=options, where=where)

    def build(self, *args: Any, needs: Iterable[str] = (), **runtime: Any) -> Any:
        """Call the part with its options and what the tool adds at run time.

        Options are checked by the type hints of the parameter of that name, so a parameter that is a dataclass takes a
        mapping.

        Args:
            *args: Leading positional arguments.
            needs: Attributes that the result must have.
            **runtime: Keyword arguments of the tool; an option of the same name is an error.

        Raises:
            ConfigError: An option is unknown, missing or of the wrong type, or the result lacks an attribute.
        """
        built = self.target(*args, **self._options(len(args), runtime, build=True), **runtime)
        lacking = [name for name in needs if not hasattr(built, name)]
        if lacking:
            raise ConfigError(
                f"{self.where}: {type(built).__name__} has no {', '.join(lacking)}; needed: {', '.join(needs)}"
            )
        return built

    def check(self, positional: int = 0, passed: Collection[str] = ()) -> None:
        """Check the options without building anything, so that a typo in a late stage shows at the start.

        Args:
            positional: Number of positional arguments that the tool will pass to `build`.
            passed: Names of the keyword arguments that it will pass.

        Raises:
            ConfigError: As `build`.
        """
        self._options(positional, passed, build=False)

    def _options(self, positional: int, passed: Collection[str], *, build: bool) -> dict[str, Any]:
        parameters = list(inspect.signature(self.target).parameters.values())
        function = self.target.__init__ if isinstance(self.target, type) else self.target  # type: ignore[misc]
        try:
            hints = typing.get_type_hints(function)
        except NameError:  # hints of a user's file may name what only a type checker imports
            hints = {}
        named = [p for p in parameters[positional:] if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters)
        allowed = {p.name: p for p in named if p.name not in passed}
        for key in self.options:
            if key in passed or (key not in allowed and not open_ended):
                raise unknown_key(f"{self.where}.{key}", key, allowed)
        for key in passed:
            if not open_ended and all(p.name != key for p in named):
                name = getattr(self.target, "__name__", str(self.target))
                raise ConfigError(f"{self.where}.class: {name} takes no argument {key!r}, which this tool passes to it")
        for key, parameter in allowed.items():
            if parameter.default is parameter.empty and key not in self.options:
                raise ConfigError(f"{self.where}.{key}: is required")
        return {k: _option(hints.get(k, Any), v, f"{self.where}.{k}", build) for k, v in self.options.items()}


def _option(hint: Any, value: Any, where: str, build: bool) -> Any:
    if not (isinstance(value, Mapping) and "class" in value):
        return structure(hint, value, where)
    part = Part.from_node(value, where)  # a part within a part
    return part.build() if build else part.check()


def find(name: str, where: str) -> Callable[..., Any]:
    """Import what `package.module:Name` or `file.py:Name` names; a relative file is looked for in the current folder.

    Raises:
        ConfigError: It cannot be found or is not callable.
    """
    module_name, _, attribute = name.rpartition(":")
    if not module_name or not attribute:
        raise ConfigError(f"{where}: expected package.module:Name or file.py:Name, got {name!r}")
    module = _module_from_file(Path(module_name), where) if module_name.endswith(".py") else _module(module_name, where)
    target: Any = getattr(module, attribute, None)
    if not callable(target):
        here = [n for n, v in vars(module).items() if callable(v) and v.__module__.startswith(module.__name__)]
        choices = ", ".join(sorted(n for n in here if not n.startswith("_")))
        raise ConfigError(f"{where}: {module_name} has no class or function {attribute}; it has: {choices}")
    found: Callable[..., Any] = target
    return found


def _module(name: str, where: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigError(f"{where}: no module named {error.name!r}") from error


def _module_from_file(path: Path, where: str) -> Any:
    if not path.is_file():
        raise ConfigError(f"{where}: no such file: {path}")
    name = f"_part_{path.resolve().as_posix().replace('/', '_').removesuffix('.py')}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except SyntaxError as error:
            del sys.modules[name]
            raise ConfigError(f"{where}: {path}, line {error.lineno}: {error.msg}") from error
    return sys.modules[name]
