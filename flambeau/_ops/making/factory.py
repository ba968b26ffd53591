"""What all functions that make tensors share: their options, and memory that fails with PyTorch's errors."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..._backend import placement
from ..._backend.placement import as_device, bits, cuda_problem
from ..._core import allocation
from ..._core.config import OutOfMemoryError, config
from ..._core.devices import _local
from ..._core.devices import device as torch_device
from ..._core.dtypes import COMPLEX, FLOATING, PYTHON_TYPES, QUANTIZED, bool_, default, dtype, uint8
from ..._core.layouts import channel_order, channels_last, channels_last_3d, check_format, strided, strides_in_order
from ..._core.sizes import overflow_error, size_argument
from ..._core.state import CAPTURE, CUDA, GRAD, META, local, modes
from ..._core.steps import tell
from ..._dispatch import backend_of
from ..._tensor import Tensor, wrap
from ..layout.striding import strided as strided_array
from ..plans.making import makes_the_same
from ..plans.sites import planned_call
from ..records.casting import checked_array
from ..registry import ops, put_before, quick


def as_dtype(d: Any, name: str) -> dtype | None:
    """The `dtype=` argument: a dtype, one of Python's number types, or None."""
    if d is None or (d.__class__ is dtype and d.code):
        return d
    if d.__class__ is dtype:
        if d in QUANTIZED:
            raise RuntimeError(f"{name}: {d} tensors are made by quantize_per_tensor or quantize_per_channel")
        return d
    found = PYTHON_TYPES.get(d) if isinstance(d, type) else None
    if found is None:
        raise TypeError(f"{name}(): argument 'dtype' must be torch.dtype, not {type(d).__name__}")
    return found


def device_bits(device: Any) -> tuple[int, int | None]:
    """The bits of tensors on a device and its number; raises if this machine or build has no such device."""
    if device is None and _local.device is None:
        return 0, None
    device = as_device(device)
    return bits(device), device.index


def check_layout(layout: Any, pin_memory: Any) -> None:
    """Only dense tensors are made here, and pinned memory exists only beside a GPU."""
    if layout is not None and layout is not strided:
        if type(layout) is not type(strided):
            raise TypeError(f"argument 'layout' must be torch.layout, not {type(layout).__name__}")
        raise RuntimeError(f"this function makes dense tensors only, not layout={layout}")
    if pin_memory and cuda_problem() is not None:
        raise RuntimeError("pin_memory=True requires a CUDA device, and there is none")


def shape_argument(name: str, args: tuple[Any, ...], named: dict[str, Any] | None = None) -> tuple[int, ...]:
    """The size of a new tensor, given as numbers, as one sequence, or by the name `size`."""
    if not args:
        if named and "size" in named:
            args = (named.pop("size"),)
        else:
            raise TypeError(f'{name}() missing 1 required positional arguments: "size"')
    first = args[0]
    if len(args) == 1 and (first.__class__ is str or not (isinstance(first, Iterable) or hasattr(first, "__index__"))):
        raise TypeError(f"{name}(): argument 'size' (position 1) must be tuple of ints, not {type(first).__name__}")
    if len(args) == 1 and isinstance(first, Tensor) and not first._array.ndim:
        tell("elements_read", first)
        first = first._array.item()
        args = (first,)
    shape = size_argument(args)
    if any(n.__class__ is bool for n in args):
        raise TypeError(f"{name}(): argument 'size' (position 1) must be tuple of ints, not bool")
    for n in shape:
        if n >= 1 << 63:
            raise TypeError(f"{name}(): argument 'size' holds {n}, which does not fit into 64 bits")
        if n < 0:
            raise RuntimeError(
                f"{name}: Dimension size must be non-negative. Trying to create tensor with negative dimension {n}: {list(shape)}"
            )
    return shape


def memory(shape: tuple[int, ...], d: dtype, k: int = 0, index: int | None = None, zeros: bool = False) -> Any:
    """Fresh memory on a device; RuntimeError if there is not enough."""
    if k & META:
        from ..._backend.meta import empty_meta  # meta tensors are rare

        return empty_meta(shape, d)
    backend = backend_of(k)
    try:
        with placed(k, index):
            return (backend.zeros if zeros else backend.empty)(shape, d.numpy)
    except (MemoryError, ValueError, OverflowError) as error:
        if k & CUDA and isinstance(error, MemoryError):
            raise OutOfMemoryError(f"CUDA out of memory. {error}") from error
        raise memory_error(shape, d) from error


def memory_error(shape: tuple[int, ...], d: dtype) -> RuntimeError:
    count = math.prod(shape) * d.itemsize
    if count >= 1 << 63:
        return overflow_error(shape)
    if not count:
        return RuntimeError(f"Stride calculation overflowed with sizes={list(shape)}")
    if len(shape) > 64:
        return RuntimeError(f"tensors of more than 64 dimensions are not supported, got {len(shape)}")
    return RuntimeError(
        f"DefaultCPUAllocator: can't allocate memory: you tried to allocate {count} bytes. Error code 12 (not enough memory)"
    )


def is_cpu(device: Any) -> bool:
    """Whether an argument says that a new tensor is the CPU's, or nothing."""
    return device is None or getattr(device, "type", device) == "cpu"


def placed(k: int, index: int | None) -> Any:
    """A context in which array functions of the device's backend work on the device with that number."""
    return contextlib.nullcontext() if index is None or not k & CUDA else backend_of(k).xp.cuda.Device(index)


def strided_memory(
    shape: tuple[int, ...], strides: tuple[int, ...], d: dtype, k: int, index: Any, zeros: bool = False
) -> Any:
    """Fresh memory that is addressed with the given strides (in elements)."""
    reach = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides))
    return strided_array(memory((reach,), d, k, index, zeros), shape, tuple([s * d.itemsize for s in strides]))


def formatted_memory(shape: tuple[int, ...], d: dtype, k: int, index: Any, form: Any, zeros: bool = False) -> Any:
    """Fresh memory in a memory format."""
    if form is None or form not in (channels_last, channels_last_3d):
        if form is not None:
            check_format(form)
        return memory(shape, d, k, index, zeros)
    order = channel_order(form, len(shape))
    return strided_memory(shape, strides_in_order(shape, order), d, k, index, zeros)


def finished(array: Any, d: dtype, k: int, requires_grad: bool = False) -> Tensor:
    """The new tensor; a leaf that records if asked to."""
    t = wrap(array, d, k)
    if requires_grad:
        if d.category < FLOATING:
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        t._k |= GRAD
    if modes.on & CAPTURE and local.captures:
        local.captures[-1].born(t)
    return t


_SETTINGS = {int, float, bool, str, tuple, dtype, type(None), torch_device}
_CALLS = 1024  # of one function that have numbers
_REMEMBERED, _TOGETHER, _RESULTS = (
    1 << 16,
    1 << 21,
    256,
)  # bytes of a result that is kept, and of all of one function; how many these are


def _key(args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """What tells a call of numbers alone, and sizes of them, from others; None if it is none."""
    values = (*args, *named.values()) if named else args
    kinds = [v.__class__ for v in values]
    if tuple in kinds:
        sizes = [n.__class__ for v in values if v.__class__ is tuple for n in v]
        if sizes.count(int) < len(sizes):
            return None
    if not _SETTINGS.issuperset(kinds):
        return None
    # zeros have signs
    return repr(values) if float in kinds and 0.0 in values else values, *kinds, *named, default.float


@functools.cache
def _anchor() -> Tensor:
    """A tensor on the GPU: calls that are given one have plans there."""
    return wrap(backend_of(CUDA).empty((1,), np.dtype(np.uint8)), uint8, CUDA)


def made_there(slow: Any) -> Any:
    """Gives calls of a function that makes tensors of numbers alone plans on a GPU: what comes again has a number, which its plan is for."""
    seen: set[Any] = set()
    numbers: dict[Any, int] = {}
    calls: dict[int, Any] = {}
    fresh = itertools.count()

    def again(anchor: Tensor, number: int) -> Any:
        args, named = calls[number]
        return slow(*args, **named)

    planned = planned_call(again, ("anchor", "number"))

    def fast(args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        device = named.get("device")
        if (device if device.__class__ is str else getattr(device, "type", ""))[:4] != "cuda" or named.get(
            "requires_grad"
        ):
            return NotImplemented
        described = None if local.batches else _key(args, named)
        if described is None:
            return NotImplemented
        key = config.deterministic, described
        number = numbers.get(key)
        if number is None:
            if key not in seen or len(calls) >= _CALLS or not backend_of(CUDA).ready():
                if len(seen) >= _CALLS:
                    seen.clear()
                seen.add(key)
                return NotImplemented
            number = next(fresh)
            calls[number], numbers[key] = (args, named), number
        return planned(_anchor(), number)

    def call(*args: Any, **named: Any) -> Any:
        if named and not modes.on and allocation.watcher is None:
            made = fast(args, named)
            if made is not NotImplemented:
                return made
        return slow(*args, **named)

    return put_before(slow, functools.wraps(slow)(call))


def remembered(slow: Any) -> Any:
    """Puts before a function of numbers alone what it made of them before: a call that comes again gets a copy. Those who watch a call
    get what nobody writes to, and take it for a constant."""
    kept: dict[Any, Tensor] = {}
    size = 0  # of what is kept, in bytes

    def fast(*args: Any, **named: Any) -> Any:
        nonlocal size
        if _local.device is not None or modes.inferring is not None:
            return NotImplemented
        key = _key(args, named)
        if key is None:
            return NotImplemented
        found = kept.get(key)
        watching = allocation.watcher is not None and allocation.watcher.here()
        if found is None:
            found = slow(*args, **named)
            if found._k & ~CUDA or found._array.nbytes > _REMEMBERED or (found._k and placement.gpu_count() > 1):
                return found
            size += found._array.nbytes
            if len(kept) >= _RESULTS or size > _TOGETHER:
                kept.clear()
                size = found._array.nbytes
            array = found._array.copy() if found._k else allocation.unchanging(found._array.copy())
            if found._k:
                backend_of(CUDA).xp.cuda.get_current_stream().synchronize()  # other streams copy it
            found = kept[key] = wrap(array, found.dtype, found._k)
        if found._k and not watching and not modes.on:
            return ops.clone(found)  # by its plan
        return wrap(found._array if watching else found._array.copy(), found.dtype, found._k)

    return makes_the_same(quick(fast, named_too=True)(slow))


def number_of(value: Any, name: str, argument: str) -> Any:
    """A Python number; 0-d tensors count as one."""
    if isinstance(value, Tensor):
        if value._array.ndim:
            raise TypeError(f"{name}() received an invalid combination of arguments: '{argument}' must be a number")
        tell("elements_read", value)
        return value._array.item() if value.dtype.name != "bfloat16" else float(value._array)
    if isinstance(value, (int, float, complex, np.generic)):
        return value
    raise TypeError(f"{name}(): argument '{argument}' must be Number, not {type(value).__name__}")


def float_of(value: Any, name: str, argument: str) -> float:
    """A real number, as arguments take it that are floats whatever the dtype of the tensor is."""
    if isinstance(value, Tensor) and value._k & GRAD:
        raise TypeError(f"{name}(): argument '{argument}' must be float, not a Tensor that requires a gradient")
    value = number_of(value, name, argument)
    if isinstance(value, (complex, np.complexfloating)):
        raise TypeError(f"{name}(): argument '{argument}' must be float, not complex")
    return float(value)


def unwritten(array: Any, d: dtype, k: int) -> Any:
    """Memory that nobody wrote: NaN or the largest number while deterministic algorithms are demanded."""
    if config.deterministic and config.fill_uninitialized_memory and not k & META:
        if d.category in (FLOATING, COMPLEX):
            fill(array, math.nan, d)
        elif d is bool_:
            array[...] = True
        elif array.dtype.kind in "iu":
            array[...] = np.iinfo(array.dtype).max
    return array


def fill(array: Any, value: Any, d: dtype) -> None:
    """Writes one number everywhere, rounded or checked as PyTorch does it."""
    number = checked_array(value, d, array.size == 1)
    if not isinstance(array, np.ndarray) and value.__class__ is float and not value:
        allocation.fill(array, value)  # with its sign
    else:
        array[...] = number
