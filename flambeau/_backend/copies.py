"""Row-major copies of arrays that lie in memory in another order, in blocks that fit the cache, over all cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.allocation import empty
from . import threads

LARGE = 1 << 16  # elements from which blocks and threads pay
_BLOCK = 64
_BITS = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}


def row_major(x: Any) -> Any:
    """A copy whose last dimension is the innermost in memory."""
    if x.size < LARGE or x.flags.c_contiguous or not isinstance(x, np.ndarray):
        return x.copy("C")
    out = empty(x.shape, x.dtype)
    fill(out, x)
    return out


def fill(out: Any, x: Any) -> None:
    """Writes an array of the same shape and dtype into a row-major one."""
    bits = _BITS.get(x.itemsize)
    if bits is not None:  # NumPy copies its own integers faster than foreign types
        out, x = out.view(bits), x.view(bits)
    width = x.shape[-1]
    steps = [(abs(s), d) for d, (s, n) in enumerate(zip(x.strides, x.shape)) if n > 1 and s]
    turned = bool(steps) and min(steps)[1] != x.ndim - 1
    step = _BLOCK if turned and x.strides[-1] and width > _BLOCK else max(width, 1)
    axis = max(range(x.ndim), key=lambda d: (x.shape[d] >= 8, -d))

    def job(start: int, stop: int) -> Callable[[], None]:
        part = (slice(None),) * axis + (slice(start, stop),)
        source, target = x[part], out[part]

        def run() -> None:
            for j in range(0, source.shape[-1], step):
                target[..., j : j + step] = source[..., j : j + step]

        return run

    threads.run([job(*bounds) for bounds in threads.ranges(x.shape[axis])])
