"""Shared by the tests that join packages and tools."""

import os
import sys
from pathlib import Path

os.environ.setdefault("TERAPIXEL_THREADS", "1")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))  # as Python does for `python tools/x.py`

import pytest  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture
def run_tool(tmp_path, monkeypatch, capsys):
    """Call a tool's `main` in an empty folder; returns (exit status, stdout, stderr)."""
    import importlib

    monkeypatch.chdir(tmp_path)

    def call(name, *argv):
        status = importlib.import_module(name).main([str(a) for a in argv])
        out, err = capsys.readouterr()
        return status, out, err

    return call
