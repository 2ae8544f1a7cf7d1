"""The lines of the README run and show a road."""

import re
from pathlib import Path

import numpy as np
import pytest


@pytest.mark.slow
def test_the_readme_renders_a_town(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[1] / "README.md").read_text()
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL).group(1)
    exec(compile(code, "README.md", "exec"), {})
    data = (tmp_path / "view.ppm").read_bytes()
    head = b"P6 160 96 255\n"
    assert data.startswith(head)
    image = np.frombuffer(data[len(head) :], dtype=np.uint8).reshape(96, 160, 3).astype(int)
    sky, ground = image[:20].mean((0, 1)), image[-20:].mean((0, 1))
    assert sky[2] > sky[0] + 20  # blue above
    assert abs(ground[2] - ground[0]) < 40  # grey below
