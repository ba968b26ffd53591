"""Tensors from data: lists, numbers, NumPy arrays, buffers, other tensors."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._backend.copies import duplicate
from ..._backend.placement import pinned
from ..._core.devices import _local as current
from ..._core.dtypes import FLOATING, INTEGER, default, dtype, from_numpy_dtype, int64, promote_types, scalar_dtype
from ..._core.state import CAPTURE, CUDA, META, local, modes
from ..._dispatch import backend_of
from ..._errors.frames import warn_user
from ..._tensor import Borrowed, Tensor, wrap
from ..plans.making import makes_of_numbers
from ..records.casting import cast_array
from ..registry import ops, public, quick
from .conversion import host_array
from .factory import as_dtype, check_layout, device_bits, finished


@public(method=False)
def from_numpy(ndarray: Any) -> Tensor:
    """A tensor over the memory of a NumPy array: writing to one changes the other.

    >>> import flambeau as torch, numpy
    >>> torch.from_numpy(numpy.array([1, 2]))
    tensor([1, 2])
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    if not ndarray.flags.writeable:
        warn_user(
            "The given NumPy array is not writable, and there are no non-writable tensors: writing to the tensor would "
            "fail or change what others hold. Copy the array first if the tensor is to be written to."
        )
    dtype = from_numpy_dtype(ndarray.dtype)
    array = _checked(ndarray)
    if array.dtype is not dtype.numpy:  # unpickled arrays have a copy of it, which kernels do not know
        array = array.view(dtype.numpy)
    made = wrap(array, dtype)
    return _over(ndarray, made)


def _over(array: Any, made: Tensor) -> Tensor:
    """A tensor over an array's memory."""
    made._storage = Borrowed(array)
    if modes.on & CAPTURE and local.captures:
        local.captures[-1].borrowed_from(made)
    return made


def _checked(array: Any) -> Any:
    """A NumPy array of a dtype that tensors have; raises if they cannot share its memory."""
    size = array.itemsize
    for s in array.strides:
        if s < 0:
            raise ValueError("At least one stride in the given numpy array is negative; copy it first (array.copy())")
        if s % size:
            raise ValueError(
                "given numpy array strides not a multiple of the element byte size; copy it first (array.copy())"
            )
    return array


_DEEPEST = 128  # how deep lists may be nested


def first_leaf(data: Any) -> Any:
    """The first number (or whatever stands there) of nested sequences."""
    for _ in range(_DEEPEST):
        if not (isinstance(data, (list, tuple)) and data):
            return data
        data = data[0]
    raise ValueError(f"too many dimensions '{type(data).__name__}'")


_NUMBERS = frozenset((bool, int, float, complex))


def _is_plain(data: Any) -> bool:
    """Whether nested sequences hold only Python's own numbers, which say nothing about the dtype but its category."""
    if data and (data[0].__class__ is list or data[0].__class__ is tuple):
        return all([(d.__class__ is list or d.__class__ is tuple) and _is_plain(d) for d in data])
    return _NUMBERS.issuperset(map(type, data))


def _inferred(data: Any) -> dtype:
    """The dtype that holds everything in nested sequences: arrays, NumPy's numbers and tensors keep theirs."""
    if isinstance(data, Tensor):
        return data.dtype
    if isinstance(data, (np.ndarray, np.generic)):
        return from_numpy_dtype(data.dtype)
    if _is_sequence(data):
        return functools.reduce(promote_types, map(_inferred, data)) if data else default.float
    return scalar_dtype(data)


def _is_sequence(data: Any) -> bool:
    return isinstance(data, Sequence) and not isinstance(data, (str, bytes))


def _depth(data: Any) -> int:
    """How many dimensions nested sequences have, by their first elements."""
    if isinstance(data, np.ndarray):
        return data.ndim
    return 1 + (_depth(data[0]) if data else 0) if _is_sequence(data) else 0


def _without_tensors(data: Any, depth: int) -> Any:
    """Nested lists of `depth` dimensions for nested sequences, their tensors made numbers or lists."""
    if isinstance(data, Tensor):
        array = host_array(data)
        if depth:
            return array.tolist()
        if array.size != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        return array.reshape(()).item()
    if _is_sequence(data):
        return [_without_tensors(d, depth - 1) for d in data]
    return data


def array_from(data: Any, d: dtype | None) -> tuple[Any, dtype]:
    """A fresh NumPy array of Python data and the dtype PyTorch infers for it."""
    kind = data.__class__
    if kind is float:
        d = d or default.float
    elif kind is str or kind is bytes:
        raise TypeError(f"new(): invalid data type '{kind.__name__}'")
    elif isinstance(data, np.ndarray):
        found = from_numpy_dtype(data.dtype)
        _checked(data)
        if d is None or d is found:  # in the order that it has
            return duplicate(np.asarray(data).astype(found.numpy, copy=False)), found
        return cast_array(data, d), d
    elif isinstance(data, (bytearray, memoryview)):
        data = list(data)
    elif kind not in (list, tuple, int, bool, complex):
        return _unusual(data, d)
    try:
        if kind in (list, tuple) and not _is_plain(data):
            if isinstance(first_leaf(data), np.ndarray):
                warn_user(
                    "Creating a tensor from a list of numpy.ndarrays is extremely slow. Please join them with numpy.array() first"
                )
            try:
                d = d or _inferred(data)
            except TypeError:
                raise _bad_data(data, d, None) from None
            data = _without_tensors(data, _depth(data))
        return _converted(data, d)
    except RecursionError:
        first_leaf(data)  # raises if the first elements go on without end
        raise TypeError("new(): self-referential lists are incompatible with tensors") from None


def _converted(data: Any, d: dtype | None) -> tuple[Any, dtype]:
    try:
        if d is not None:
            return _as_given(data, d), d
        array = np.array(data)
    except (ValueError, OverflowError, TypeError) as error:
        raise _bad_data(data, d, error) from None
    code = array.dtype.kind
    if code == "f":
        huge = array.size and float(np.abs(array).max()) >= 2.0**63
        if huge and _has_big_int(data) and not any(isinstance(v, (float, np.floating)) for v in _leaves(data)):
            raise _bad_data(data, d, None)
        return cast_array(array, default.float), default.float
    if code == "c":
        return cast_array(array, default.complex), default.complex
    if code in "OUSMmu":
        raise _bad_data(data, d, None)
    return array, from_numpy_dtype(array.dtype)


def _as_given(data: Any, d: dtype) -> Any:
    if d.category == INTEGER:
        try:
            return np.array(data, d.numpy)
        except OverflowError:  # PyTorch lets negative numbers wrap in unsigned dtypes
            wide = np.array(data)
            if (
                wide.dtype.kind == "i"
                and not d.is_signed
                and wide.min() > -(1 << 8 * d.itemsize)
                and wide.max() < 1 << 8 * d.itemsize
            ):
                return wide.astype(d.numpy)
            raise
    with np.errstate(all="ignore"):
        if d.category == FLOATING and d.itemsize <= 2:
            return cast_array(np.array(data, np.float64), d)
        return np.array(data, d.numpy)


def _bad_data(data: Any, d: dtype | None, error: Exception | None) -> Exception:
    """PyTorch's complaint about data that no tensor can hold."""
    problem = _shape_problem(data, _sizes(data))
    if problem is not None:
        return problem
    leaf = first_leaf(data)
    if (
        (isinstance(leaf, int) and not isinstance(data, (list, tuple)))
        or isinstance(error, OverflowError)
        or _has_big_int(data)
    ):
        if d is None or (d.name != "uint64" and _has_big_int(data)):
            return ValueError("Overflow when unpacking long long")
        return RuntimeError(f"value cannot be converted to type {d.name} without overflow")
    if isinstance(error, TypeError):
        return TypeError(str(error))
    if isinstance(error, ValueError) and d is not None:
        return RuntimeError(f"value cannot be converted to type {d.name} without overflow")
    for value in _leaves(data):
        if isinstance(value, str):
            return (
                ValueError("too many dimensions 'str'")
                if value is leaf
                else TypeError("new(): invalid data type 'str'")
            )
        if not isinstance(value, (int, float, complex, np.generic, Tensor)):
            return RuntimeError(f"Could not infer dtype of {type(value).__name__}")
    return RuntimeError(f"Could not infer dtype of {type(data).__name__}")


def _leaves(data: Any) -> list[Any]:
    if isinstance(data, (list, tuple)):
        return [leaf for part in data for leaf in _leaves(part)]
    return [data]


def _has_big_int(data: Any) -> bool:
    return any(isinstance(v, int) and not -(1 << 63) <= v < 1 << 63 for v in _leaves(data))


def _sizes(data: Any) -> tuple[int, ...]:
    """The sizes of nested sequences, by their first elements."""
    if isinstance(data, np.ndarray):
        return data.shape
    if isinstance(data, (list, tuple)):
        return (len(data), *(_sizes(data[0]) if data else ()))
    return ()


def _shape_problem(data: Any, sizes: tuple[int, ...], dim: int = 0) -> Exception | None:
    """What is wrong with nested sequences of other lengths or depths than these."""
    nested = isinstance(data, (list, tuple)) or (isinstance(data, np.ndarray) and data.ndim > 0)
    if dim == len(sizes):
        name = type(data).__name__
        return TypeError(f"'{name}' object cannot be interpreted as an integer") if nested else None
    if not nested:
        return TypeError("not a sequence")
    if len(data) != sizes[dim]:
        return ValueError(f"expected sequence of length {sizes[dim]} at dim {dim} (got {len(data)})")
    return next((problem for part in data if (problem := _shape_problem(part, sizes, dim + 1)) is not None), None)


def _unusual(data: Any, d: dtype | None) -> tuple[Any, dtype]:
    """Data that is neither a number nor a list: arrays of other libraries, sequences, NumPy scalars."""
    if isinstance(data, np.generic):
        found = from_numpy_dtype(data.dtype)
        array = np.array(data)
        return (array if d is None or d is found else cast_array(array, d)), d or found
    if isinstance(data, (int, float, complex)):
        kinds: Any = (int, float, complex)
        return array_from(next(p(data) for p in kinds if isinstance(data, p)), d)
    if hasattr(data, "__dlpack__") and hasattr(data, "__dlpack_device__"):
        made = ops.from_dlpack(data)
        return cast_array(host_array(made), d or made.dtype).copy(), d or made.dtype
    if hasattr(data, "__array_interface__") or hasattr(data, "__array__"):
        return array_from(np.asarray(data), d)
    if isinstance(data, (dict, set, frozenset)) or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")
    try:
        parts = [data[i] for i in range(len(data))]
    except Exception as error:
        raise ValueError(f"could not determine the shape of object type '{type(data).__name__}'") from error
    return array_from(parts, d)


def _on_device(array: Any, k: int, index: int | None) -> Any:
    if k & CUDA:
        backend = backend_of(k)
        if index is None:
            return backend.from_numpy(array)
        with backend.xp.cuda.Device(index):
            return backend.from_numpy(array)
    return array


def _quick_tensor(data: Any = None) -> Any:
    kind = data.__class__
    if kind is list:
        kind = data[0].__class__ if data else None
        if kind is list:
            first = data[0]
            kind = first[0].__class__ if first else None
    if (kind is float or kind is int) and current.device is None and not local.inference:
        if data.__class__ is list and not _is_plain(data):
            return NotImplemented
        try:
            array = np.array(data)
        except (ValueError, TypeError, OverflowError):
            return NotImplemented
        code = array.dtype.char
        if code == "d":
            if kind is int and np.abs(array).max() >= 2.0**63:  # NumPy's way with integers of 65 bits
                return NotImplemented
            d = default.float
            with np.errstate(over="ignore"):
                return wrap(array.astype(d.numpy), d)
        if code == "l" or code == "q":
            return wrap(array, int64)
    return NotImplemented


@makes_of_numbers
@quick(_quick_tensor)
@public(method=False)
def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: Any = False
) -> Tensor:
    """A new tensor with a copy of the data: numbers, nested lists, arrays.

    >>> import flambeau as torch
    >>> torch.tensor([[1, 2], [3, 4]], dtype=torch.float32)
    tensor([[1., 2.],
            [3., 4.]])
    """
    d = as_dtype(dtype, "tensor") if dtype is not None else None
    if pin_memory:
        check_layout(None, pin_memory)
    if isinstance(data, Tensor):
        warn_user(
            "To copy construct from a tensor, it is recommended to use t.detach().clone(), with .requires_grad_() where "
            "it is wanted, rather than torch.tensor(t)."
        )
        return _copied(data, d, device, requires_grad)
    if hasattr(data, "_tensor_of"):
        return _over_storage(data, d, device, requires_grad)
    k, index = device_bits(device)
    array, found = array_from(data, d)
    if pin_memory and not k:
        array = pinned(array)
    if k:
        if k & META:
            from ..._backend.meta import empty_meta  # meta tensors are rare

            array = empty_meta(array.shape, found)
        else:
            array = _on_device(array, k, index)
    return finished(array, found, k, requires_grad)


def _over_storage(storage: Any, d: dtype | None, device: Any, requires_grad: bool) -> Tensor:
    """A flat tensor over all of a storage: the only data whose memory `tensor` shares."""
    made = storage._tensor_of(d)
    if device is not None:
        made = ops.to(made, device)
    return ops.requires_grad_(made) if requires_grad else made


def _copied(source: Tensor, d: dtype | None, device: Any, requires_grad: bool) -> Tensor:
    made = ops.clone(ops.detach(source))
    if device is not None:
        made = ops.to(made, device)
    if d is not None and made.dtype is not d:
        made = ops.to_dtype(made, d)
    return finished(made._array, made.dtype, made._k & (CUDA | META), requires_grad)


@public("Tensor.new_tensor")
def new_tensor(
    input: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None,
    pin_memory: Any = False,
) -> Tensor:  # fmt: skip
    """A new tensor of the data, in the dtype and on the device of `input`."""
    check_layout(layout, pin_memory)
    made_device = device if device is not None else input.device
    if isinstance(data, Tensor):
        warn_user(
            "To copy construct from a tensor, it is recommended to use t.detach().clone(), with .requires_grad_() where "
            "it is wanted, rather than tensor.new_tensor(t)."
        )
        return _copied(data, as_dtype(dtype, "new_tensor") or input.dtype, made_device, requires_grad)
    return tensor(data, dtype=dtype or input.dtype, device=made_device, requires_grad=requires_grad)


@public(method=False)
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of the data, without a copy where the data is a tensor or array of the right kind.

    >>> import flambeau as torch
    >>> torch.as_tensor([1, 2])
    tensor([1, 2])
    """
    d = as_dtype(dtype, "as_tensor")
    if isinstance(data, Tensor):
        if device is not None:
            data = ops.to(data, device)
        return data if d is None or data.dtype is d else ops.to_dtype(data, d)
    if isinstance(data, np.ndarray) and (device is None or str(device) == "cpu"):
        made = from_numpy(data)
        return made if d is None or made.dtype is d else ops.to_dtype(made, d)
    return tensor(data, dtype=d, device=device)


@public(method=False)
def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool | None = None
) -> Tensor:
    """A tensor of an object: sharing memory where it can (`copy=None` or False), or always a copy (`copy=True`).

    A tensor that needs no change is returned itself, with `requires_grad` set if that is given.

    >>> import flambeau as torch
    >>> torch.asarray([1.0, 2.0])
    tensor([1., 2.])
    """
    d = as_dtype(dtype, "asarray")
    if isinstance(obj, Tensor):
        made = obj
    elif isinstance(obj, np.ndarray):
        made = from_numpy(obj)
    elif hasattr(obj, "__dlpack__") or type(obj).__name__ == "PyCapsule":
        made = ops.from_dlpack(obj)
    elif isinstance(obj, np.generic):
        if copy is False:
            raise RuntimeError("can't alias NumPy scalars. Leave out copy=False, or make an array of the number.")
        made = from_numpy(np.array(obj))
    elif not isinstance(obj, (list, tuple)) and _is_buffer(obj):
        made = frombuffer(obj, dtype=d or default.float)
    else:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        return tensor(obj, dtype=d, device=device, requires_grad=bool(requires_grad))
    wanted = d or made.dtype
    moved = device is not None and str(made.device) != str(device)
    if copy is False and wanted is not made.dtype:
        raise ValueError(f"can't alias tensor with dtype '{made.dtype}' into dtype '{wanted}'.")
    if copy is False and moved:
        raise ValueError(f"can't alias tensor from device '{made.device}' to '{device}'.")
    if moved:
        made = ops.to(made, device)
    if wanted is not made.dtype:
        made = ops.to_dtype(made, wanted)
    elif copy and not moved:
        made = ops.clone(made)
    if requires_grad is None or requires_grad is made.requires_grad:
        return made
    return ops.requires_grad_(made, requires_grad) if made._edge is None else ops.detach(made)


def _is_buffer(obj: Any) -> bool:
    try:
        memoryview(obj)
    except TypeError:
        return False
    return True


@public(method=False)
def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A 1-d tensor over the memory of a Python buffer.

    >>> import flambeau as torch
    >>> torch.frombuffer(bytearray(4), dtype=torch.int16)
    tensor([0, 0], dtype=torch.int16)
    """
    d = as_dtype(dtype, "frombuffer")
    if d is None:
        raise TypeError("frombuffer(): argument 'dtype' must be torch.dtype, not NoneType")
    try:
        view = memoryview(buffer)
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    length, size = view.nbytes, d.itemsize
    if length == 0 or count == 0:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} bytes) minus 1"
        )
    if count < 0:
        if (length - offset) % size:
            raise ValueError(
                f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a multiple of element size ({size})"
            )
        count = (length - offset) // size
    if count * size > length - offset:
        raise ValueError(
            f"requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must not be greater than "
            f"actual buffer length ({length} bytes)"
        )
    if view.readonly:
        warn_user(
            "The given buffer is not writable, and flambeau does not support non-writable tensors: writing to this tensor "
            "raises. Copy the buffer first if it is to be changed."
        )
    array = np.frombuffer(buffer, np.uint8, count * size, offset).view(d.numpy)
    return _over(array, finished(array, d, 0, requires_grad))
