"""`torch.cuda.profiler`: tells NVIDIA's profilers when to look."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from . import _cupy

__all__ = ["profile", "start", "stop"]


def start() -> None:
    """Lets a profiler that watches this process begin."""
    _cupy().cuda.runtime.profilerStart()


def stop() -> None:
    """Lets it end."""
    _cupy().cuda.runtime.profilerStop()


@contextlib.contextmanager
def profile() -> Iterator[None]:
    """`start` and `stop` around a `with` block."""
    start()
    try:
        yield
    finally:
        stop()
