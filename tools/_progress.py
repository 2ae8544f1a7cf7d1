"""Progress with the time that is left, for people at a terminal and for log files."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tqdm import tqdm

QUIET_PERIOD_S = 20.0
"""How often progress is written where nobody watches a terminal."""


class ProgressBar:
    """A callback for the trainers: shows how much of the budget is spent, the time left, and a few other numbers.

    On a terminal it is one moving line; elsewhere a line every 20 seconds, so that a log file stays short.
    """

    def __init__(self, label: str, done: str, total: str, show: Sequence[str] = ()) -> None:
        """Say which entries of the trainer's report to read.

        Args:
            label: What is going on.
            done: Key of what is spent of the budget.
            total: Key of the budget.
            show: Keys of other numbers, shown where they are present.
        """
        self._label, self._keys, self._show = label, (done, total), show
        self._bar: tqdm[Any] | None = None
        self._start = (0.0, 0.0)  # time, done
        self._written = 0.0

    def __call__(self, info: Mapping[str, Any]) -> None:
        """Show a report, numbers by name."""
        done, total = (float(info[key]) for key in self._keys)
        done = min(done, total)  # the last round may go a little beyond the budget
        numbers = {k: f"{v:.3g}" if isinstance(v, float) else v for k, v in info.items() if k in self._show}
        if sys.stderr.isatty():
            self._move(done, total, numbers)
        else:
            self._write(done, total, numbers)

    def _move(self, done: float, total: float, numbers: Mapping[str, Any]) -> None:
        if self._bar is None:
            self._bar = tqdm(total=total, desc=self._label, initial=done, unit_scale=True, dynamic_ncols=True)
        self._bar.set_postfix(numbers, refresh=False)
        self._bar.update(done - self._bar.n)
        if done >= total:
            self._bar.close()

    def _write(self, done: float, total: float, numbers: Mapping[str, Any]) -> None:
        now = time.monotonic()
        if self._written == 0.0:
            self._start = (now, done)
        if done < total and now - self._written < QUIET_PERIOD_S:
            return
        self._written = now
        rate = (done - self._start[1]) / max(now - self._start[0], 1e-9)
        left = f"{max(total - done, 0) / rate:.0f} s left" if rate > 0 else "starting"
        words = " ".join(f"{k}={v}" for k, v in numbers.items())
        print(f"{self._label}: {100 * done / total:3.0f} %, {left} {words}".rstrip(), file=sys.stderr, flush=True)
