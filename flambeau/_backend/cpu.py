"""The CPU: NumPy arrays, ufuncs made by the kernel generator, large ones split over the cores."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.dtypes import bfloat16
from .._kernel import loops
from . import threads
from .heap import keep_freed_memory

# Elements from which a pointwise operation is worth a second thread (a hand-over costs about 10 µs).
PARALLEL = 1 << 17
_ROW = 1 << 14  # elements after which the cost of calling an inner loop no longer shows


class Cpu:
    name = "cpu"
    xp = np

    def pointwise(
        self, name: str, body: Any, inputs: tuple[str, ...], outputs: tuple[str, ...], compute: tuple[str, ...]
    ) -> Callable[..., Any]:
        ufunc = loops.pointwise_ufunc(name, body, inputs, outputs, compute)
        if "bf16" not in inputs and "bf16" not in outputs:
            return ufunc
        return _through_bits(ufunc, inputs, outputs)

    def kernel(self, kernel: Any, types: tuple[str, ...], **options: Any) -> Callable[..., Any]:
        ufunc = kernel(types, **options)
        if "bf16" not in types:
            return ufunc
        count = len(kernel.inputs)
        return _through_bits(ufunc, types[:count], types[count:])

    def parallel(self, call: Callable[..., Any], arrays: list[Any], out: Any) -> Any:
        """A pointwise callable over large operands, split along the outermost dimension of `out`."""
        shape = out.shape
        if all(a.flags.c_contiguous and a.shape == shape for a in arrays) and out.flags.c_contiguous:
            arrays, out_view = [a.reshape(-1) for a in arrays], out.reshape(-1)
        else:
            arrays, out_view = _with_longer_rows(arrays, out) or (arrays, out)
            arrays = [a if a.ndim == 0 else np.broadcast_to(a, out_view.shape) for a in arrays]
        axis = max(range(out_view.ndim), key=lambda d: abs(out_view.strides[d]) * (out_view.shape[d] > 1))
        parts = threads.ranges(out_view.shape[axis])
        if len(parts) < 2:
            call(*arrays, out=out)
            return out
        lead = (slice(None),) * axis

        def job(start: int, stop: int) -> Callable[[], Any]:
            cut = (*lead, slice(start, stop))
            operands = [a if a.ndim == 0 else a[cut] for a in arrays]
            return lambda: call(*operands, out=out_view[cut])

        threads.run([job(*part) for part in parts])
        return out

    def rows(self, call: Callable[..., Any], arrays: list[Any], outs: list[Any], work: int) -> None:
        """A generalized ufunc split along the first loop dimension of its operands, if `work` elements pay for it."""
        length = outs[0].shape[0] if outs[0].ndim else 1
        parts = threads.ranges(length) if work >= PARALLEL else [(0, length)]
        if len(parts) < 2:
            call(*arrays, *outs)
            return

        def job(start: int, stop: int) -> Callable[[], Any]:
            cut = slice(start, stop)
            given = [a[cut] if a.ndim and a.shape[0] == length else a for a in arrays]
            return lambda: call(*given, *[o[cut] for o in outs])

        threads.run([job(*part) for part in parts])

    def empty(self, shape: Any, dtype: Any) -> Any:
        return np.empty(shape, dtype)

    def asnumpy(self, array: Any) -> Any:
        return array


def _with_longer_rows(arrays: list[Any], out: Any) -> tuple[list[Any], Any] | None:
    """Operands of which one is a row that is repeated, seen as a matrix with fewer and longer rows.

    NumPy calls the inner loop once a row; a short row is copied a few times, so that each call has more to do.
    """
    shape = out.shape
    short = {a.shape for a in arrays if a.ndim and a.shape != shape}
    if len(short) != 1 or not all(a.flags.c_contiguous for a in (*arrays, out)):
        return None
    (row,) = short
    width = math.prod(row)
    if row != shape[len(shape) - len(row) :] or not 0 < width <= _ROW // 2:
        return None
    count = out.size // width
    times = next(k for k in range(_ROW // width, 0, -1) if count % k == 0)
    if times == 1:
        return None
    wide = (count // times, times * width)
    rows = [
        a if a.ndim == 0 else a.reshape(wide) if a.shape == shape else np.tile(a.reshape(-1), times) for a in arrays
    ]
    return rows, out.reshape(wide)


def _through_bits(ufunc: Any, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Callable[..., Any]:
    """NumPy knows bfloat16 only as a foreign type: the ufunc gets its bits."""
    half, bits = bfloat16.numpy, np.dtype(np.uint16)
    is_half = [t == "bf16" for t in inputs]
    out_half = [t == "bf16" for t in outputs]

    def call(*arrays: Any, out: Any = None) -> Any:
        given = [a.view(bits) if h else a for a, h in zip(arrays, is_half)]
        targets = list(arrays[len(inputs) :]) or ([out] if out is not None and not isinstance(out, tuple) else list(out or ()))
        if targets:
            ufunc(*given, *[t.view(bits) if h else t for t, h in zip(targets, out_half)])
            return targets[0] if len(targets) == 1 else tuple(targets)
        result = ufunc(*given)
        if len(outputs) == 1:
            return result.view(half) if out_half[0] else result
        return tuple(r.view(half) if h else r for r, h in zip(result, out_half))

    return call


cpu = Cpu()
keep_freed_memory()
