"""`torch.cuda.nvtx`: named ranges and marks on the time line of NVIDIA's profilers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from . import _cupy, is_available

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def _functions() -> Any:
    if not is_available():
        raise RuntimeError("NVTX functions need a GPU: torch.cuda.is_available() is False")
    return _cupy().cuda.nvtx


def mark(msg: str) -> None:
    """A mark at this moment."""
    _functions().Mark(msg)


def range_push(msg: str) -> None:
    """Opens a range."""
    _functions().RangePush(msg)


def range_pop() -> None:
    """Closes the range that was opened last."""
    _functions().RangePop()


def range_start(msg: str) -> int:
    """Opens a range that may end in another thread; gives its number. CuPy has no such ranges."""
    _functions()
    raise NotImplementedError("nvtx.range_start: only ranges that end in their own thread are there; use range_push")


def range_end(range_id: int) -> None:
    """Closes the range of a number that `range_start` gave."""
    _functions()
    raise NotImplementedError("nvtx.range_end: only ranges that end in their own thread are there; use range_pop")


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A range for the time of a `with` block or of a decorated function."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
