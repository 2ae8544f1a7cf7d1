"""The one place that imports Taichi and starts it.

Set `TERAPIXEL_TAICHI=quadrants` to run on Quadrants, Taichi's maintained fork, and `TERAPIXEL_THREADS` to limit the CPU threads.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import math
import os
from types import ModuleType

import torch

os.environ.setdefault("ENABLE_TAICHI_HEADER_PRINT", "0")
ti: ModuleType = importlib.import_module(os.environ.get("TERAPIXEL_TAICHI", "taichi"))

_started: tuple[str, int] | None = None  # (arch, process id)


def start(device: str) -> None:
    """Start Taichi for `device`, once a process; later calls with the same device do nothing.

    Args:
        device: "cpu" or "cuda".

    Raises:
        ValueError: `device` is neither.
        RuntimeError: no GPU, another device is already in use in this process, or the process was forked after the start.
    """
    global _started
    if device not in ("cpu", "cuda"):
        raise ValueError(f"device: expected cpu or cuda, got {device!r}")
    if device == "cuda" and not torch.cuda.is_available():
        raise RuntimeError("device: cuda was asked for, but torch finds no GPU; use device=cpu")
    if _started is not None:
        arch, pid = _started
        if pid != os.getpid():
            raise RuntimeError(
                "the process was forked after the simulator started, where Taichi would hang; "
                "start workers with the multiprocessing method 'spawn' or 'forkserver'"
            )
        if arch != device:
            raise RuntimeError(f"device: {device} was asked for, but this process already runs on {arch}")
        return
    threads = os.environ.get("TERAPIXEL_THREADS")
    options = {"cpu_max_num_threads": int(threads)} if threads else {}
    # fast_math may reorder float sums, and then a lone world could differ in the last bit from the same world among many
    # Taichi's own flow analysis takes time quadratic in a kernel's size and gains nothing that LLVM does not find
    options |= {"fast_math": False, "cfg_optimization": False}
    with contextlib.redirect_stdout(io.StringIO()):  # Taichi greets on stdout whatever the log level
        ti.init(arch=getattr(ti, device), log_level=ti.WARN, offline_cache=True, **options)
    _started = (device, os.getpid())


def padding(iterations: int) -> int:
    """How many times a CPU loop's iterations are multiplied, the others idle, so that few are spread over all threads.

    Taichi gives a CPU thread at least 512 iterations.
    """
    return max(1, math.ceil(512 * (os.cpu_count() or 1) / iterations))
