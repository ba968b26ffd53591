"""New tensors filled with values: constants, ranges, like another tensor."""

from __future__ import annotations

import builtins
import math
import warnings
from typing import Any

import numpy as np

from .._core.dtypes import BOOL, COMPLEX, FLOATING, INTEGER, default, dtype, float32, float64, int64, promote_types, scalar_dtype
from .._core.layouts import preserve_format, strides_in_order
from .._core.sizes import broadcast_shapes, size_argument
from .._core.state import CUDA, META
from .._dispatch import backend_of
from .._tensor import Tensor
from .declare import pointwise
from .factory import (
    as_dtype, check_layout, device_bits, fill, finished, formatted_memory, memory, number_of, shape_argument, strided_memory,
)  # fmt: skip
from .inplace import into_out, write_out
from .pointwise_op import _NAMES, cast_array, not_implemented, real_floating_only
from .primitive import primitive
from .registry import ops, public

# -- constants ---------------------------------------------------------------------------------------------------


def _filled(
    name: str, size: tuple[Any, ...], value: Any, out: Any, dtype: Any, layout: Any, device: Any, requires_grad: bool,
    pin_memory: Any, memory_format: Any, named: dict[str, Any],
) -> Tensor:  # fmt: skip
    shape = shape_argument(name, size, named)
    if named:
        raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(named))}'")
    d = as_dtype(dtype, name)
    if layout is not None or pin_memory:
        check_layout(layout, pin_memory)
    if out is not None:
        _check_out_dtype(out, d)
        d = d or out.dtype
    d = d or default.float
    k, index = device_bits(device) if device is not None or out is None else (out._k & (CUDA | META), None)
    array = formatted_memory(shape, d, k, index, memory_format, value is not None)
    if value:
        if not k & META:
            array.fill(value)
    if out is not None:
        return write_out(out, finished(array, d, k), name)
    return finished(array, d, k, requires_grad)


def _check_out_dtype(out: Tensor, d: dtype | None) -> None:
    if d is not None and out.dtype is not d:
        raise RuntimeError(f"dtype {d} does not match dtype of out parameter ({out.dtype})")


@public(method=False)
def zeros(
    *size: Any, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: Any = False, memory_format: Any = None, **named: Any,
) -> Tensor:  # fmt: skip
    """A tensor of zeros.

    >>> import flambeau as torch
    >>> torch.zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """
    return _filled("zeros", size, 0, out, dtype, layout, device, requires_grad, pin_memory, memory_format, named)


@public(method=False)
def ones(
    *size: Any, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: Any = False, memory_format: Any = None, **named: Any,
) -> Tensor:  # fmt: skip
    """A tensor of ones.

    >>> import flambeau as torch
    >>> torch.ones(2)
    tensor([1., 1.])
    """
    return _filled("ones", size, 1, out, dtype, layout, device, requires_grad, pin_memory, memory_format, named)


@public(method=False)
def empty(
    *size: Any, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: Any = False, memory_format: Any = None, **named: Any,
) -> Tensor:  # fmt: skip
    """A tensor whose memory is not filled."""
    if memory_format is preserve_format:
        raise RuntimeError("preserve memory format is unsupported by empty: there is no tensor to take it from")
    return _filled("empty", size, None, out, dtype, layout, device, requires_grad, pin_memory, memory_format, named)


@public(method=False)
def full(
    size: Any, fill_value: Any, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: Any = False,
) -> Tensor:  # fmt: skip
    """A tensor filled with one number.

    >>> import flambeau as torch
    >>> torch.full((2,), 7)
    tensor([7, 7])
    """
    if isinstance(size, (int, float, str)):
        raise TypeError(f"full(): argument 'size' (position 1) must be tuple of ints, not {type(size).__name__}")
    shape = shape_argument("full", (size,))
    check_layout(layout, pin_memory)
    d = as_dtype(dtype, "full")
    if isinstance(fill_value, Tensor) and not fill_value._array.ndim:
        d = d or (fill_value.dtype if out is None else out.dtype)
    value = number_of(fill_value, "full", "fill_value")
    if out is not None:
        _check_out_dtype(out, d)
        d = d or out.dtype
    d = d or scalar_dtype(value)
    k, index = device_bits(device)
    array = memory(shape, d, k, index)
    if not k & META:
        fill(array, value, d)
    if out is not None:
        return write_out(out, finished(array, d, k), "full")
    return finished(array, d, k, requires_grad)


@public(method=False)
def empty_strided(
    size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: Any = False,
) -> Tensor:  # fmt: skip
    """A tensor with given strides whose memory is not filled."""
    check_layout(layout, pin_memory)
    d = as_dtype(dtype, "empty_strided") or default.float
    k, index = device_bits(device)
    return finished(_strided("empty_strided", size, stride, d, k, index), d, k, requires_grad)


def _strided(name: str, size: Any, stride: Any, d: dtype, k: int, index: Any) -> Any:
    shape, strides = shape_argument(name, (size,)), size_argument((stride,), "stride")
    if len(shape) != len(strides):
        raise RuntimeError(f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides ({len(strides)})")
    if any(s < 0 for s in strides):
        raise RuntimeError(f"{name}: strides must not be negative, got {list(strides)}")
    return strided_memory(shape, strides, d, k, index)


@public(method=False)
def empty_permuted(
    size: Any, physical_layout: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: Any = False,
) -> Tensor:  # fmt: skip
    """A dense tensor whose dimensions lie in memory in the order given, outermost first."""
    check_layout(layout, pin_memory)
    shape, order = shape_argument("empty_permuted", (size,)), size_argument((physical_layout,), "physical_layout")
    if len(order) != len(shape):
        raise RuntimeError(f"Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = {len(shape)} is not equal to len(physical_layout) = {len(order)}")
    for d_ in order:
        if not 0 <= d_ < len(shape):
            raise RuntimeError(f"Dimension out of range (expected to be between 0 and {len(shape) - 1}, but got {d_})")
    if len(set(order)) != len(order):
        raise RuntimeError("Duplicate dim not allowed")
    d = as_dtype(dtype, "empty_permuted") or default.float
    k, index = device_bits(device)
    return finished(strided_memory(shape, strides_in_order(shape, order), d, k, index), d, k, requires_grad)


# -- like another tensor -----------------------------------------------------------------------------------------


def like(
    input: Tensor, dtype: Any = None, device: Any = None, memory_format: Any = None, name: str = "empty_like",
    zeros: bool = False, layout: Any = None, pin_memory: Any = False,
) -> tuple[Any, dtype, int]:  # fmt: skip
    """Memory like a tensor's: the array, its dtype, and the bits of its device."""
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    x = input._array
    d = input.dtype if dtype is None else as_dtype(dtype, name)
    if layout is not None or pin_memory:
        check_layout(layout, pin_memory)
    if device is None and not input._k & (CUDA | META) and memory_format is None:
        if x.flags.c_contiguous:
            return (np.zeros if zeros else np.empty)(x.shape, d.numpy), d, 0
        return (np.zeros_like if zeros else np.empty_like)(x, d.numpy), d, 0
    k, index = (input._k & (CUDA | META), int(x.device.id) if input._k & CUDA else None) if device is None else device_bits(device)
    if memory_format is not None and memory_format is not preserve_format:
        return formatted_memory(x.shape, d, k, index, memory_format, zeros), d, k
    if x.flags.c_contiguous:
        return memory(x.shape, d, k, index, zeros), d, k
    order = sorted(builtins.range(x.ndim), key=lambda i: -x.strides[i])
    return strided_memory(x.shape, strides_in_order(x.shape, order), d, k, index, zeros), d, k


@public(method=False)
def zeros_like(
    input: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: Any = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Zeros in the shape, dtype and memory order of `input`."""
    return finished(*like(input, dtype, device, memory_format, "zeros_like", True, layout, pin_memory), requires_grad)


@public(method=False)
def empty_like(
    input: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: Any = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Memory that is not filled, in the shape, dtype and memory order of `input`."""
    return finished(*like(input, dtype, device, memory_format, "empty_like", False, layout, pin_memory), requires_grad)


@public(method=False)
def ones_like(
    input: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: Any = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Ones in the shape, dtype and memory order of `input`."""
    array, d, k = like(input, dtype, device, memory_format, "ones_like", False, layout, pin_memory)
    if not k & META:
        array.fill(1)
    return finished(array, d, k, requires_grad)


@public(method=False)
def full_like(
    input: Tensor, fill_value: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: Any = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """One number in the shape, dtype and memory order of `input`.

    >>> import flambeau as torch
    >>> torch.full_like(torch.zeros(2), 3)
    tensor([3., 3.])
    """
    array, d, k = like(input, dtype, device, memory_format, "full_like", False, layout, pin_memory)
    value = number_of(fill_value, "full_like", "fill_value")
    if not k & META:
        fill(array, value, d)
    return finished(array, d, k, requires_grad)


def _device_for(input: Tensor, device: Any) -> tuple[int, int | None]:
    if device is not None:
        return device_bits(device)
    k = input._k & (CUDA | META)
    return k, int(input._array.device.id) if k & CUDA else None


def _new(name: str, input: Tensor, size: Any, value: Any, options: dict[str, Any]) -> Tensor:
    shape = shape_argument(name, size, options)
    d = as_dtype(options.pop("dtype", None), name) or input.dtype
    k, index = _device_for(input, options.pop("device", None))
    check_layout(options.pop("layout", None), options.pop("pin_memory", False))
    requires_grad = options.pop("requires_grad", False)
    if options:
        raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(options))}'")
    array = memory(shape, d, k, index, value == 0)
    if value and not k & META:
        fill(array, value, d)
    return finished(array, d, k, requires_grad)


@public("Tensor.new_zeros")
def new_zeros(input: Tensor, *size: Any, **options: Any) -> Tensor:
    """Zeros of a shape, in the dtype and on the device of `input`."""
    return _new("new_zeros", input, size, 0, options)


@public("Tensor.new_ones")
def new_ones(input: Tensor, *size: Any, **options: Any) -> Tensor:
    """Ones of a shape, in the dtype and on the device of `input`."""
    return _new("new_ones", input, size, 1, options)


@public("Tensor.new_empty")
def new_empty(input: Tensor, *size: Any, **options: Any) -> Tensor:
    """Memory of a shape that is not filled, in the dtype and on the device of `input`."""
    return _new("new_empty", input, size, None, options)


@public("Tensor.new_full")
def new_full(input: Tensor, size: Any, fill_value: Any, **options: Any) -> Tensor:
    """One number in a shape, in the dtype and on the device of `input`."""
    value = number_of(fill_value, "new_full", "fill_value")
    made = _new("new_full", input, (size,), None, {**options, "requires_grad": False})
    if not made._k & META:
        fill(made._array, value, made.dtype)
    return ops.requires_grad_(made) if options.get("requires_grad") else made


@public("Tensor.new_empty_strided")
def new_empty_strided(
    input: Tensor, size: Any, stride: Any, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Memory with given strides that is not filled, in the dtype and on the device of `input`."""
    check_layout(layout, pin_memory)
    d = as_dtype(dtype, "new_empty_strided") or input.dtype
    k, index = _device_for(input, device)
    return finished(_strided("new_empty_strided", size, stride, d, k, index), d, k, requires_grad)


# -- ranges ------------------------------------------------------------------------------------------------------


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
        _check_out_dtype(out, d)
        d = out.dtype
    if d is None:
        whole = all(isinstance(v, (int, np.integer)) for v in (start, end, step))
        d = int64 if whole else default.float
    if d.category in (BOOL, COMPLEX):
        raise not_implemented("arange_cpu", d)
    check_layout(layout, pin_memory)
    k, index = device_bits(device)
    array = _range(start, end, step, d, k, index)
    if out is not None:
        return write_out(out, finished(array, d, k), "arange")
    return finished(array, d, k, requires_grad)


def _range(start: Any, end: Any, step: Any, d: dtype, k: int, index: Any) -> Any:
    whole = d.category == INTEGER
    for v in (start, end):
        if isinstance(v, float) and not math.isfinite(v):
            raise RuntimeError(f"unsupported range: {start} -> {end}")
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (step > 0 and start > end) or (step < 0 and start < end):
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if whole and int(step) == 0:
        raise ValueError("step must be nonzero")
    if all(isinstance(v, (int, np.integer)) for v in (start, end, step)):
        start, end, step = int(start), int(end), int(step)
        count = -((start - end) // step)
    elif whole:
        count = math.ceil((float(int(end)) - float(int(start))) / float(int(step))) if d is int64 else math.ceil((end - start) / step)
    else:
        count = math.ceil((end - start) / step)
    if whole:
        start, step = int(start), int(step)
    if k & META:
        return memory((count,), d, k)
    xp = backend_of(k).xp
    if whole:
        if start == 0 and step == 1 and d is int64:
            return xp.arange(count)
        return (xp.arange(count, dtype=np.int64) * step + start).astype(d.numpy, copy=False)
    return (xp.arange(count, dtype=np.float64) * float(step) + float(start)).astype(d.numpy)


@public(method=False)
def range(
    start: Any = 0, end: Any = None, step: Any = 1, *, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The numbers from start to end, both included; `arange` is what one wants."""
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with "
        "Python's range builtin. Instead, use torch.arange, which produces values in [start, end).",
        stacklevel=3,
    )
    if end is None:
        start, end = 0, start
    d = as_dtype(dtype, "range") or (out.dtype if out is not None else default.float)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    count = int((end - start) / step) + 1
    k, index = device_bits(device)
    array = cast_array(backend_of(k).xp.arange(count) * step + start, d)
    made = finished(array, d, k, requires_grad)
    return made if out is None else write_out(out, made, "range")


def _ends(name: str, start: Any, end: Any, steps: Any, dtype: Any, out: Any) -> tuple[Any, Any, int, Any]:
    """The checked arguments of linspace and logspace: start, end, steps and dtype."""
    for key, v in (("start", start), ("end", end)):
        if isinstance(v, Tensor) and v._array.ndim:
            raise RuntimeError(f"{name} only supports 0-dimensional start and end tensors, but got {key} with {v._array.ndim} dimension(s).")
    if steps is None or not hasattr(steps, "__index__") or isinstance(steps, bool):
        raise TypeError(f"{name}(): argument 'steps' must be int, not {type(steps).__name__}")
    steps = steps.__index__()
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    start, end = number_of(start, name, "start"), number_of(end, name, "end")
    d = as_dtype(dtype, name)
    complex_ends = isinstance(start, builtins.complex) or isinstance(end, builtins.complex)
    if out is not None:
        _check_out_dtype(out, d)
        d = out.dtype
    if complex_ends:
        if d is not None and d.category != COMPLEX:
            raise RuntimeError(f"torch.{name}(): inferred dtype ComplexFloat can't be safely cast to passed dtype {d}")
        d = d or default.complex
    return start, end, steps, d or default.float


_points_op = pointwise(
    "linspace_points", lambda m, i, first, last, step, half, end: m.where(
        i < half, m.fma(step, i, first), m.fma(-step, end - i, last)
    ),
    real_floating_only, public=False,
)  # fmt: skip


def _between(start: Any, end: Any, steps: int, d: dtype, k: int) -> Any:
    """Evenly spaced numbers, counted from both ends so that both are hit exactly."""
    xp = backend_of(k).xp
    work = np.dtype(np.float64) if d.category == INTEGER else d.numpy
    if d.category == INTEGER:
        start, end = int(start), int(end)
    first, last = np.array(start, work), np.array(end, work)
    if steps < 2:
        return xp.full(steps, first[()], work)
    part = work.type(0).real.dtype
    with np.errstate(over="ignore", invalid="ignore"):
        step = (last - first) / np.array(steps - 1, part)
        if d.category == FLOATING and d.itemsize >= 4:
            number = finished(xp.arange(steps, dtype=work), d, k & CUDA)
            return _points_op.call(number, *[v.item() for v in (first, last, step)], float(steps // 2), steps - 1.0)._array
        number = xp.arange(steps)
        low = first + step * number.astype(part)
        high = last - step * (steps - 1 - number).astype(part)
    return xp.where(number < steps // 2, low, high).astype(work, copy=False)


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
    array = memory((steps,), d, k) if k & META else cast_array(_between(start, end, steps, d, k), d)
    made = finished(array, d, k, requires_grad and out is None)
    return made if out is None else write_out(out, made, "linspace")


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
        exponents = _between(start, end, steps, work, k)
        with np.errstate(all="ignore"):
            array = cast_array(backend_of(k).xp.power(np.array(base, exponents.dtype), exponents), d)
    made = finished(array, d, k, requires_grad and out is None)
    return made if out is None else write_out(out, made, "logspace")


@public(method=False)
def eye(
    n: int, m: int | None = None, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: Any = False,
) -> Tensor:  # fmt: skip
    """A matrix with ones on the diagonal.

    >>> import flambeau as torch
    >>> torch.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    check_layout(layout, pin_memory)
    m = n if m is None else m
    for name, value in (("n", n), ("m", m)):
        if not isinstance(value, int):
            raise TypeError(f"eye(): argument '{name}' must be int, not {type(value).__name__}")
        if value < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {value}")
    d = as_dtype(dtype, "eye") or (out.dtype if out is not None else default.float)
    k, index = device_bits(device)
    array = memory((n, m), d, k, index, True)
    if not k & META and min(n, m):
        array.reshape(-1)[:: m + 1][: min(n, m)] = 1
    made = finished(array, d, k, requires_grad and out is None)
    return made if out is None else write_out(out, made, "eye")


@public(method=False)
def scalar_tensor(
    s: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: Any = False
) -> Tensor:
    """A 0-d tensor of one number, in the default dtype unless another is given."""
    return full((), s, dtype=dtype or default.float, layout=layout, device=device, requires_grad=requires_grad)


# -- index tables ------------------------------------------------------------------------------------------------


def _triangle(name: str, lower: bool, row: int, col: int, offset: int, dtype: Any, device: Any, layout: Any) -> Tensor:
    if row < 0:
        raise RuntimeError(f"row must be non-negative, got{row}")
    if col < 0:
        raise RuntimeError(f"col must be non-negative, got{col}")
    check_layout(layout, False)
    d = as_dtype(dtype, name) or int64
    if d.name not in ("int64", "int32"):
        raise RuntimeError(f"\"{name}\" not implemented for '{d.name}'")
    k, index = device_bits(device)
    xp = backend_of(k).xp
    rows, cols = (xp.tril_indices if lower else xp.triu_indices)(row, offset, col)
    return finished(xp.stack([rows, cols]).astype(d.numpy), d, k)


@public(method=False)
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None) -> Tensor:
    """The row and column numbers of the lower triangle of a matrix."""
    return _triangle("tril_indices", True, row, col, offset, dtype, device, layout)


@public(method=False)
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None) -> Tensor:
    """The row and column numbers of the upper triangle of a matrix."""
    return _triangle("triu_indices", False, row, col, offset, dtype, device, layout)


@public(method=False)
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
    first = ones((*x._array.shape, 1), dtype=d, device=x.device)  # type: ignore[attr-defined]
    if count == 0:
        return first[:, :0]
    again = ops.expand(ops.unsqueeze(x if x.dtype is d else ops.to_dtype(x, d), 1), (-1, count - 1))
    powers = ops.cat([first, ops.cumprod(again, 1)], 1)
    return powers if increasing else ops.flip(powers, (1,))


# -- complex numbers ---------------------------------------------------------------------------------------------


@primitive(
    tensors=2, name="complex",
    grad={
        "re": lambda g, re_shape: ops.sum_to(ops.real(g), re_shape),
        "im": lambda g, im_shape: ops.sum_to(ops.imag(g), im_shape),
    },
)  # fmt: skip
def complex_op(backend: Any, re: Any, im: Any) -> Any:
    shape = broadcast_shapes(re.shape, im.shape)
    made = backend.xp.empty(tuple(shape), np.complex64 if re.itemsize <= 4 else np.complex128)
    made.real = re
    made.imag = im
    return made


def _check_parts(name: str, real: Tensor, imag: Tensor) -> None:
    for i, (key, t) in enumerate(zip(("real", "imag") if name == "complex" else ("abs", "angle"), (real, imag)), 1):
        if not isinstance(t, Tensor):
            raise TypeError(f"{name}(): argument '{key}' (position {i}) must be Tensor, not {type(t).__name__}")
    a, b = (_NAMES.get(t.dtype.name, t.dtype.name) for t in (real, imag))
    if any(t.dtype.name not in ("float16", "float32", "float64") for t in (real, imag)):
        raise RuntimeError(f"Expected both inputs to be Half, Float or Double tensors but got {a} and {b}")
    if real.dtype is not imag.dtype:
        raise RuntimeError(f"Expected object of scalar type {a} but got scalar type {b} for second argument")


def _complex_out(out: Tensor, real: Tensor) -> None:
    wanted = real.dtype.to_complex()
    if out.dtype is not wanted:
        raise RuntimeError(f"Expected object of scalar type {wanted} but got scalar type {out.dtype} for argument 'out'")


@public(method=False)
def complex(real: Tensor, imag: Tensor, *, out: Any = None) -> Tensor:
    """Complex numbers of their real and imaginary parts.

    >>> import flambeau as torch
    >>> torch.complex(torch.tensor([1.0]), torch.tensor([2.0]))
    tensor([1.+2.j])
    """
    _check_parts("complex", real, imag)
    if out is None:
        return complex_op(real, imag)
    _complex_out(out, real)
    return into_out(out, complex, (real, imag), {})


@public(method=False)
def polar(abs: Tensor, angle: Tensor, *, out: Any = None) -> Tensor:
    """Complex numbers of their absolute values and angles."""
    _check_parts("polar", abs, angle)
    if out is not None:
        _complex_out(out, abs)
        return into_out(out, polar, (abs, angle), {})
    return complex_op(abs * ops.cos(angle), abs * ops.sin(angle))
