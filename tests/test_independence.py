"""No package knows another, and only the simulator knows Taichi."""

import ast
import re
from pathlib import Path

import pytest

PACKAGES = Path(__file__).resolve().parent.parent / "packages"
NAMES = ("sim", "teacher", "student", "adapt")


def sources(package):
    return sorted((PACKAGES / package / "src").rglob("*.py"))


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module":
            yield from (a.value for a in node.args if isinstance(a, ast.Constant))


@pytest.mark.parametrize("package", NAMES)
def test_no_package_imports_another(package):
    others = {f"terapixel_{n}" for n in NAMES if n != package} | {"tools"}
    for path in sources(package):
        assert not {name.split(".")[0] for name in imported(path)} & others, path


@pytest.mark.parametrize("package", ["teacher", "student", "adapt"])
def test_learners_import_no_simulator_library(package):
    allowed = {"torch", "tensordict", "numpy", "tensorboard", f"terapixel_{package}"}
    import sys

    for path in sources(package):
        outside = {name.split(".")[0] for name in imported(path)} - set(sys.stdlib_module_names) - allowed
        assert not outside, f"{path}: {outside}"


def test_taichi_is_named_in_one_file_only():
    naming = [
        p.name
        for n in NAMES
        for p in sources(n)
        if re.search(r"^\s*(import|from) taichi|\"taichi\"", p.read_text(), re.M)
    ]
    assert naming == ["runtime.py"]


def test_kernels_keep_their_annotations_alive():
    """Taichi reads annotations as objects; postponed ones break a kernel at its first call."""
    for path in (PACKAGES / "sim" / "src" / "terapixel_sim" / "kernels").glob("*.py"):
        assert "from __future__ import annotations" not in path.read_text(), path


@pytest.mark.parametrize("package", NAMES)
def test_dependencies_are_published_and_none_is_a_sibling(package):
    text = (PACKAGES / package / "pyproject.toml").read_text()
    dependencies = re.search(r"^dependencies = \[(.*?)\]", text, re.M | re.S).group(1)
    assert "terapixel" not in dependencies
    assert "@" not in dependencies
