"""Numbers in order: arange, linspace, logspace, and tables made of them."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from ..._backend.cpu import cpu
from ..._core.allocation import empty
from ..._core.dtypes import BOOL, COMPLEX, FLOATING, INTEGER, default, dtype, float32, float64, int64, promote_types
from ..._core.state import CUDA, META
from ..._dispatch import backend_of
from ..._errors.frames import warn_user
from ..._kernel.loops.lang import independent, kernel
from ..._tensor import Tensor
from ..records.casting import cast_array, checked_number
from ..records.declare import pointwise
from ..records.out import write_out
from ..records.rules import not_implemented, real_floating_only
from ..registry import ops, public
from .creation import check_out_dtype
from .factory import as_dtype, check_layout, device_bits, finished, memory, number_of, placed, remembered


@remembered
@public(method=False)
def arange(
    *bounds: Any, start: Any = None, end: Any = None, step: Any = None, out: Any = None, dtype: Any = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: Any = False,
) -> Tensor:  # fmt: skip
    """The numbers start, start + step, … before end.

    >>> import flambeau as torch
    >>> torch.arange(1, 2, 0.5)
    tensor([1.0000, 1.5000])
    """
    if bounds:
        if len(bounds) > 3:
            raise TypeError(f"arange() takes at most 3 positional arguments ({len(bounds)} given)")
        if len(bounds) == 1 and end is None:
            end = bounds[0]
        else:
            start = bounds[0]
            end = bounds[1] if len(bounds) > 1 else end
            step = bounds[2] if len(bounds) > 2 else step
    if end is None:
        raise TypeError('arange() missing 1 required positional arguments: "end"')
    start, end, step = (
        number_of(v, "arange", n) if v is not None else e
        for v, n, e in ((start, "start", 0), (end, "end", None), (step, "step", 1))
    )
    d = as_dtype(dtype, "arange")
    if out is not None:
        check_out_dtype(out, d)
        d = out.dtype
    if d is None:
        whole = all(isinstance(v, (int, np.integer)) for v in (start, end, step))
        d = int64 if whole else default.float
    if d.category in (BOOL, COMPLEX):
        raise not_implemented("arange_cpu", d)
    check_layout(layout, pin_memory)
    k, index = device_bits(device)
    with placed(k, index):
        array = _range(start, end, step, d, k)
    if out is not None:
        return _into(out, finished(array, d, k), "arange")
    return finished(array, d, k, requires_grad)


def _into(out: Any, made: Tensor, name: str) -> Tensor:
    """Numbers into `out`, in the order of its elements; one with as many elements keeps its shape."""
    if isinstance(out, Tensor) and out._array.size == made._array.size:
        made = ops.reshape(made, out._array.shape)
    return write_out(out, made, name)


def _settled(start: Any, end: Any, step: Any, d: dtype) -> tuple[Any, Any, Any]:
    """Real bounds and step that the type in which they are computed holds; the end counts as a double."""
    try:
        if -2e9 < start < 2e9 and -2e9 < end < 2e9 and -2e9 < step < 2e9:
            return start, end, step
    except TypeError:  # complex
        pass
    for v in (start, end):
        if isinstance(v, float) and not math.isfinite(v):
            raise RuntimeError(f"unsupported range: {start} -> {end}")
    if step != step:
        raise RuntimeError("step must be a number, got nan")
    held = int64 if d.category == INTEGER else float64 if d.itemsize >= 4 else float32
    for v in (start, step):
        checked_number(v, held)
    checked_number(end, int64 if d is int64 else float64)
    if d.category == INTEGER:
        return start.real, end.real, step.real
    return float(start.real), float(end.real), float(step.real)


def _range(start: Any, end: Any, step: Any, d: dtype, k: int) -> Any:
    whole = d.category == INTEGER
    start, end, step = _settled(start, end, step, d)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (step > 0 and start > end) or (step < 0 and start < end):
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if d is int64 and int(step) == 0:
        raise ValueError("step must be nonzero")
    if all(isinstance(v, (int, np.integer)) for v in (start, end, step)):
        start, end, step = int(start), int(end), int(step)
        count = -((start - end) // step)
    elif whole:
        count = (
            math.ceil((float(int(end)) - float(int(start))) / float(int(step)))
            if d is int64
            else math.ceil((end - start) / step)
        )
    else:
        count = math.ceil((end - start) / step)
    if whole:
        start, step = int(start), int(step)
    if k & META:
        return memory((count,), d, k)
    xp = backend_of(k).xp
    if whole:
        if step and -(1 << 62) < start + count * step < 1 << 62:
            return xp.arange(start, start + count * step, step, dtype=np.int64).astype(d.numpy, copy=False)
        return (xp.arange(count, dtype=np.int64) * step + start).astype(d.numpy, copy=False)
    if (
        float(step).is_integer()
        and float(start).is_integer()
        and abs(start) + count * abs(step) < 1 << 24
        and d.itemsize >= 4
    ):
        return xp.arange(start, start + count * step, step, dtype=d.numpy)  # all of them are exact
    made = xp.arange(count, dtype=np.float64)
    made *= float(step)
    made += float(start)
    if d.itemsize < 4 or abs(start) + count * abs(step) > 1e38:
        return cast_array(made, d)
    return made.astype(d.numpy, copy=False)


@public(method=False)
def range(
    start: Any = 0, end: Any = None, step: Any = 1, *, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The numbers from start to end, both included; `arange` is what one wants."""
    warn_user("torch.range is deprecated; use torch.arange, which leaves its end out")
    if end is None:
        start, end = 0, start
    d = as_dtype(dtype, "range") or (out.dtype if out is not None else default.float)
    if d.category in (BOOL, COMPLEX):
        raise not_implemented("range_cpu", d)
    start, end = number_of(start, "range", "start"), number_of(end, "range", "end")
    start, end, step = _settled(start, end, number_of(step, "range", "step"), d)
    if d.category == INTEGER:
        start, end, step = int(start), int(end), int(step)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    count = int((end - start) / step) + 1
    k, index = device_bits(device)
    with placed(k, index), np.errstate(all="ignore"):
        array = cast_array(backend_of(k).xp.arange(count) * step + start, d)
    made = finished(array, d, k, requires_grad)
    return made if out is None else _into(out, made, "range")


def _ends(name: str, start: Any, end: Any, steps: Any, dtype: Any, out: Any) -> tuple[Any, Any, int, Any]:
    """The checked arguments of linspace and logspace: start, end, steps and dtype."""
    for key, v in (("start", start), ("end", end)):
        if isinstance(v, Tensor) and v._array.ndim:
            raise RuntimeError(
                f"{name} only supports 0-dimensional start and end tensors, got {key} with {v._array.ndim} dimension(s)"
            )
    if steps is None or not hasattr(steps, "__index__") or isinstance(steps, bool):
        raise TypeError(f"{name}(): argument 'steps' must be int, not {type(steps).__name__}")
    steps = steps.__index__()
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    start, end = number_of(start, name, "start"), number_of(end, name, "end")
    d = as_dtype(dtype, name)
    complex_ends = isinstance(start, builtins.complex) or isinstance(end, builtins.complex)
    if out is not None:
        check_out_dtype(out, d)
        d = out.dtype
    if complex_ends:
        if d is not None and d.category != COMPLEX:
            raise RuntimeError(
                f"torch.{name}(): inferred dtype {default.complex} can't be safely cast to passed dtype {d}"
            )
        d = d or default.complex
    d = d or default.float
    if d.category == BOOL:
        raise not_implemented(f"{name}_cpu", d)
    return checked_number(start, d), checked_number(end, d), steps, d


_points_op = pointwise(
    "linspace_points", lambda m, i, first, last, step, half, end: m.where(
        i < half, m.fma(step, i, first), m.fma(-step, end - i, last)
    ),
    real_floating_only, public=False,
)  # fmt: skip


@kernel("(k)->(n)")
def _points(m: Any, ends: Any, out: Any, whole: str) -> None:
    """The same of all places, which are `whole` numbers; `ends` has the first and the last point, the step, how many points make half, the
    last place."""
    first, last, step, half, end = ends[0], ends[1], ends[2], ends[3], ends[4]
    for i in independent(out.n):
        number = m.cast(m.cast(i, whole), out.type)
        out[i] = m.where(number < half, m.fma(step, number, first), m.fma(-step, end - number, last))


def _between(start: Any, end: Any, steps: int, d: dtype, k: int) -> Any:
    """Evenly spaced numbers, counted from both ends so that both are hit exactly."""
    xp = backend_of(k).xp
    work = np.dtype(np.float64) if d.category == INTEGER else d.numpy
    first, last = np.array(start, work)[()], np.array(end, work)[()]
    if steps < 2:
        return xp.full(steps, first, work)
    part = work.type(0).real.dtype
    with np.errstate(over="ignore", invalid="ignore"):
        step = (last - first) / part.type(steps - 1)
        if d.category == FLOATING and d.itemsize >= 4 and not k:
            made, ends = empty(steps, work), np.array([first, last, step, steps // 2, steps - 1], work)
            cpu.small(_points, (d.code, d.code), whole="i32" if steps < 1 << 31 else "i64")(ends, made)
            return made
        if d.category == FLOATING and d.itemsize >= 4:
            number = finished(xp.arange(steps, dtype=work), d, k & CUDA)
            return _points_op.call(
                number, *[v.item() for v in (first, last, step)], float(steps // 2), steps - 1.0
            )._array
        number = xp.arange(steps)
        low = first + step * number.astype(part)
        high = last - step * (steps - 1 - number).astype(part)
    return xp.where(number < steps // 2, low, high).astype(work, copy=False)


@remembered
@public(method=False)
def linspace(
    start: Any, end: Any, steps: Any = None, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: Any = False,
) -> Tensor:  # fmt: skip
    """`steps` evenly spaced numbers from start to end, both included.

    >>> import flambeau as torch
    >>> torch.linspace(0, 1, 3)
    tensor([0.0000, 0.5000, 1.0000])
    """
    check_layout(layout, pin_memory)
    start, end, steps, d = _ends("linspace", start, end, steps, dtype, out)
    k, index = device_bits(device)
    with placed(k, index):
        array = memory((steps,), d, k) if k & META else _between(start, end, steps, d, k)
        array = array if array.dtype == d.numpy else cast_array(array, d)
    made = finished(array, d, k, requires_grad and out is None)
    return made if out is None else _into(out, made, "linspace")


@remembered
@public(method=False)
def logspace(
    start: Any, end: Any, steps: Any = None, base: float = 10.0, *, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, pin_memory: Any = False,
) -> Tensor:  # fmt: skip
    """`base` raised to `steps` evenly spaced exponents.

    >>> import flambeau as torch
    >>> torch.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    check_layout(layout, pin_memory)
    start, end, steps, d = _ends("logspace", start, end, steps, dtype, out)
    k, index = device_bits(device)
    if k & META:
        array = memory((steps,), d, k)
    else:
        work = d
        if steps == 1 and d.category != COMPLEX:
            work = float64
        elif d.category == FLOATING and d.itemsize == 2:  # the ends are rounded, what lies between them is not
            start, end, work = float(np.array(start, d.numpy)), float(np.array(end, d.numpy)), float32
        with placed(k, index), np.errstate(all="ignore"):
            exponents = _between(start, end, steps, work, k)
            base = base.item() if hasattr(base, "item") else base  # a 0-d tensor
            array = cast_array(backend_of(k).xp.power(base, exponents), d)
    made = finished(array, d, k, requires_grad and out is None)
    return made if out is None else _into(out, made, "logspace")


# -- index tables ------------------------------------------------------------------------------------------------


def _below(row: int, col: int, offset: int) -> int:
    """How many elements of a matrix are on a diagonal or below it."""

    def rows(n: int) -> int:  # the first row has one element, the next two, up to `col`
        full = max(0, n - col)
        return (max(0, n) - full) * (max(0, n) - full + 1) // 2 + full * col

    return rows(row + offset) - rows(offset)


def _triangle(
    name: str, lower: bool, row: int, col: int, offset: int, dtype: Any, device: Any, layout: Any, requires_grad: bool,
    pin_memory: Any,
) -> Tensor:  # fmt: skip
    if row < 0:
        raise RuntimeError(f"row must be non-negative, got{row}")
    if col < 0:
        raise RuntimeError(f"col must be non-negative, got{col}")
    if requires_grad:
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    check_layout(layout, pin_memory)
    d = as_dtype(dtype, name) or int64
    if d.name not in ("int64", "int32"):
        raise RuntimeError(f"\"{name}\" not implemented for '{d.name}'")
    k, index = device_bits(device)
    below = _below(row, col, offset if lower else offset - 1)
    total = below if lower else row * col - below
    steps = memory((2, total), d, k, index)
    if k & META or not total:
        return finished(steps, d, k)
    with placed(k, index):
        xp = backend_of(k).xp
        # Rows without elements come first in a lower triangle, last in an upper one. Each other row is one step down and some back.
        rows = xp.arange(max(0, -offset), row) if lower else xp.arange(min(row, col - offset))
        first, last = (
            (0 * rows, xp.minimum(rows + offset, col - 1))
            if lower
            else (xp.maximum(rows + offset, 0), 0 * rows + col - 1)
        )
        starts = xp.cumsum(last - first + 1)[:-1]
        steps[0], steps[1] = 0, 1
        steps[0, starts] = 1
        steps[1, starts] = first[1:] - last[:-1]
        steps[0, 0], steps[1, 0] = rows[0], first[0]  # one by one: CuPy makes no array of a pair of its numbers
    return ops.cumsum(finished(steps, d, k), 1, dtype=d)


@remembered
@public(method=False)
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None,
    requires_grad: bool = False, pin_memory: Any = False,
) -> Tensor:  # fmt: skip
    """The row and column numbers of the lower triangle of a matrix."""
    return _triangle("tril_indices", True, row, col, offset, dtype, device, layout, requires_grad, pin_memory)


@remembered
@public(method=False)
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None,
    requires_grad: bool = False, pin_memory: Any = False,
) -> Tensor:  # fmt: skip
    """The row and column numbers of the upper triangle of a matrix."""
    return _triangle("triu_indices", False, row, col, offset, dtype, device, layout, requires_grad, pin_memory)


@public(method=False, planned=True)
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The matrix of powers of a vector's elements.

    >>> import flambeau as torch
    >>> torch.vander(torch.tensor([1, 2, 3]), increasing=True)
    tensor([[1, 1, 1],
            [1, 2, 4],
            [1, 3, 9]])
    """
    if x._array.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    count = x._array.shape[0] if N is None else N
    if count < 0:
        raise RuntimeError("N must be non-negative.")
    d = promote_types(x.dtype, int64)
    first = ops.ones((*x._array.shape, 1), dtype=d, device=x.device)
    if count == 0:
        return first[:, :0]
    again = ops.expand(ops.unsqueeze(x if x.dtype is d else ops.to_dtype(x, d), 1), (-1, count - 1))
    powers = ops.cat([first, ops.cumprod(again, 1)], 1)
    return powers if increasing else ops.flip(powers, (1,))


SCHEMAS = """
arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
arange.start_out(Scalar start, Scalar end, Scalar step=1, *, Tensor(a!) out) -> Tensor(a!)
range.step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
range(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
range.out(Scalar start, Scalar end, Scalar step=1, *, Tensor(a!) out) -> Tensor(a!)
range.out_(Scalar start, Scalar end, *, Tensor(a!) out) -> Tensor(a!)
linspace.Tensor_Tensor(Tensor start, Tensor end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
linspace.Tensor_Scalar(Tensor start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
linspace.Scalar_Tensor(Scalar start, Tensor end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
logspace.Tensor_Tensor(Tensor start, Tensor end, int steps, float base=10., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
logspace.Tensor_Scalar(Tensor start, Scalar end, int steps, float base=10., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
logspace.Scalar_Tensor(Scalar start, Tensor end, int steps, float base=10., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
logspace(Scalar start, Scalar end, int steps, float base=10., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
tril_indices|triu_indices(int row, int col, int offset=0, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
vander(Tensor x, int? N=None, bool increasing=False) -> Tensor
"""
