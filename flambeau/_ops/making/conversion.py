"""Between dtypes, devices and Python: casts, moves, copies into tensors, numbers, lists and NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._backend.copies import duplicate, row_major
from ..._backend.placement import as_device, bits
from ..._core.allocation import SHARED
from ..._core.config import memory_problem
from ..._core.devices import CPU, device
from ..._core.dtypes import (
    BY_NAME,
    PYTHON_TYPES,
    bfloat16,
    bool_,
    complex32,
    complex64,
    complex128,
    default,
    dtype,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    scalar_dtype,
    uint8,
)  # fmt: skip
from ..._core.layouts import (
    channel_order,
    contiguous_format,
    memory_format,
    preserve_format,
    strides_in_order,
    suggested_format,
)
from ..._core.state import CAPTURE, CONJ, CUDA, DISPATCH, DUAL, GRAD, META, POSTPONED, QUANTIZED, SPARSE, local, modes
from ..._core.steps import elements_are_read, tell
from ..._dispatch import backend_of
from ..._tensor import Borrowed, Storage, Tensor, detached, read_as, storage_of, wrap
from ..._tensor import is_inference as tensor_is_inference
from .. import basic, registry
from ..records.batching import in_format, leading
from ..records.casting import cast_array, combine, tell_of_lost_parts
from ..records.primitive import Primitive, primitive
from ..records.rules import SCALAR_NAMES, type_name
from ..records.shape_rules import dense, dtype_of, same
from ..records.tangents import linear
from ..registry import expose, frequent, ops, public, relabel


def dtype_argument(d: Any) -> dtype:
    """A dtype given as itself or as a Python type."""
    if d.__class__ is dtype:
        return d
    found = PYTHON_TYPES.get(d)
    if found is None:
        raise TypeError(f"dtype must be torch.dtype, not {type(d).__name__}")
    return found


# -- casts and moves ---------------------------------------------------------------------------------------------


def _ordered_shape(x: Any, format: memory_format) -> Any:
    if format is contiguous_format:
        return same(x)
    return x.shape, dtype_of(x), strides_in_order(x.shape, channel_order(format, x.ndim))


@primitive(
    batch=in_format,
    meta=_ordered_shape,
    grad={"x": lambda g: g},
    backward_name="CloneBackward0",
    name="clone_format",
    tangent=linear("x"),
)
def clone_format(backend: Any, x: Any, format: memory_format) -> Any:
    """A copy of an array whose dimensions lie in memory as a format says."""
    if format is contiguous_format:
        return row_major(x)
    order = channel_order(format, x.ndim)
    return row_major(x.transpose(order)).transpose(sorted(range(x.ndim), key=order.__getitem__))


class Move(Primitive):
    """A copy on another device: the only operation whose result is not where its operand is."""

    def compute(self, args: tuple[Any, ...], k: int) -> Tensor:
        x, d, target, _ = args
        return wrap(move_array(x._array, k, d, target), d, bits(target))


def move_array(array: Any, k: int, d: dtype, target: device) -> Any:
    there = bits(target)
    if k & META and not there & META:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    if there & META:
        from ..._backend.meta import empty_meta  # meta tensors are rare

        return empty_meta(*dense(array, d=d))
    if not there & CUDA:
        array = backend_of(k).asnumpy(array)
        return array if array.dtype == d.numpy else cast_array(array, d)
    if array.dtype != d.numpy and d.itemsize < array.dtype.itemsize:  # the smaller form travels
        array = cast_array(array, d)
    array = backend_of(CUDA).from_numpy(array, target.index)
    return array if array.dtype == d.numpy else cast_array(array, d)


def _move(backend: Any, x: Any, d: dtype, target: device, home: device) -> Any:
    raise NotImplementedError  # `Move.compute` does it


move = Move(
    _move, grad={"x": lambda g, x_dtype, home: ops.to_device(g, x_dtype, home)}, name="to_copy",
    backward_name="ToCopyBackward0", batch=leading, tangent=linear("x"), meta=lambda x, d, target, home: dense(x, d=d),
)  # fmt: skip


def to_device(input: Tensor, d: dtype, target: device) -> Tensor:
    """A copy on another device, perhaps in another dtype."""
    return move(input, d, target, input.device)


expose("to_device", to_device, None, None)


def _cast_name(t: Tensor) -> Tensor:
    return relabel(t, "ToCopyBackward0")


def convert(
    input: Tensor, d: dtype | None, where: Any, copy: bool = False, format: memory_format | None = None
) -> Tensor:
    """What all casts and moves are: the tensor itself if nothing changes, otherwise a copy in the graph."""
    d = input.dtype if d is None else d
    tell_of_lost_parts(input.dtype, d)
    if where is not None:
        where = as_device(where)
        here = input.device
        if where.type != here.type or (where.index is not None and where.index != here.index and here.type == "cuda"):
            moved = to_device(input, d, where)
            return moved if format in (None, preserve_format) else _cast_name(clone_format(moved, format))
    changed = input if d is input.dtype else basic.to_dtype(input, d)
    if format is not None and format is not preserve_format:
        if copy or changed is not input or suggested_format(input._array) is not format:
            return _cast_name(clone_format(changed, format))
    elif copy and changed is input:
        return _cast_name(basic.clone(input))
    return changed


@frequent(function=False)
def to(input: Tensor, *args: Any, **named: Any) -> Tensor:
    """The tensor in another dtype, on another device or like another tensor; itself if it is so already.

    >>> import flambeau as torch
    >>> torch.tensor([1, 2]).to(torch.float64)
    tensor([1., 2.], dtype=torch.float64)
    """
    if modes.overrides and (taken := registry.overridden(to, (input, *args), named)) is not NotImplemented:
        return taken
    d = args[0] if len(args) == 1 and not named and args[0].__class__ is dtype else None
    if d is None and not input._k & (CUDA | META):
        d = _dtype_on_cpu(input.dtype, *args, **named)
    if d is not None:
        if d is input.dtype:
            return input
        tell_of_lost_parts(input.dtype, d)
        return basic.to_dtype(input, d)
    d, where, copy, format = to_arguments(args, named)
    return convert(input, d, where, copy, format)


def _dtype_on_cpu(own: dtype, where: Any = None, d: Any = None, *rest: Any, **named: Any) -> dtype | None:
    """The dtype that arguments of `to` ask for if they ask for nothing else but the CPU, as most do where there is no GPU."""
    if named:
        where = named.pop("device", where)
        d = named.pop("dtype", d)
        if named and (len(named) > 1 or named.get("non_blocking").__class__ is not bool):
            return None
    if where.__class__ is Tensor and d is None and not where._k & (CUDA | META):
        d, cpu = where.dtype, True
    else:
        cpu = where == "cpu" if where.__class__ is str else where.__class__ is device and where.type == "cpu"
    d = own if d is None else d
    return d if cpu and not rest and d.__class__ is dtype else None


def to_arguments(args: tuple[Any, ...], named: dict[str, Any]) -> tuple[dtype | None, Any, bool, Any]:
    """(dtype, device, copy, memory_format) from the arguments of `to`, in any of its forms."""
    rest = list(args)
    d, where = named.pop("dtype", None), named.pop("device", None)
    format = named.pop("memory_format", None)
    other = named.pop("other", None)
    if rest and isinstance(rest[0], Tensor):
        other = rest.pop(0)
    elif rest and isinstance(rest[0], (dtype, type)):
        d = rest.pop(0)
    elif rest and (rest[0] is None or (isinstance(rest[0], (str, device, int)) and not isinstance(rest[0], bool))):
        first = rest.pop(0)
        where = where if first is None else first
        if rest and (rest[0] is None or isinstance(rest[0], (dtype, type))):
            d = rest.pop(0)
        elif rest:
            rest.append("")  # behind a device comes a dtype: no form has this
    if other is not None:
        d, where = other.dtype, other.device
    flags = {"non_blocking": False, "copy": False}
    wrong = any(not isinstance(v, bool) for v in rest)
    flags.update(zip(flags, rest))
    for name in flags:
        flags[name] = named.pop(name, flags[name])
    if wrong or len(rest) > 2 or named or any(not isinstance(v, bool) for v in flags.values()):
        kinds = ", ".join(type(a).__name__ for a in args)
        raise TypeError(
            f"to() received an invalid combination of arguments - got ({kinds}); expected (device, dtype, non_blocking, "
            "copy), (dtype, non_blocking, copy) or (other, non_blocking, copy)"
        )
    if format is not None and not isinstance(format, memory_format):
        raise TypeError(f"to(): argument 'memory_format' must be torch.memory_format, not {type(format).__name__}")
    return None if d is None else dtype_argument(d), where, flags["copy"], format


def _cast_method(name: str, d: dtype) -> None:
    def cast(input: Tensor, memory_format: Any = None) -> Tensor:
        if modes.overrides and (taken := registry.overridden(cast, (input, memory_format), {})) is not NotImplemented:
            return taken
        if d is input.dtype and memory_format is None:
            return input
        return convert(input, d, None, False, memory_format)

    cast.__name__ = cast.__qualname__ = name
    cast.__doc__ = f"The tensor as {d.name}; itself if it is so already."
    frequent(function=False)(cast)


# Methods that cast.
CASTS = {
    "float": float32, "double": float64, "half": float16, "bfloat16": bfloat16, "int": int32, "long": int64,
    "short": int16, "char": int8, "byte": uint8, "bool": bool_, "cfloat": complex64, "cdouble": complex128,
    "chalf": complex32,
}  # fmt: skip
for _name, _d in CASTS.items():
    _cast_method(_name, _d)


@public("Tensor.cpu")
def cpu(input: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor in the computer's main memory; itself if it is there."""
    return convert(input, None, CPU, False, memory_format)


@public("Tensor.cuda")
def cuda(input: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
    """The tensor on a GPU; itself if it is there."""
    target = as_device("cuda" if device is None else device)
    bits(target)
    return convert(input, None, target, False, memory_format)


def _absent_device(name: str) -> None:
    def move_there(input: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
        target = as_device(name if device is None else device)
        bits(target)
        return convert(input, None, target, False, memory_format)

    move_there.__name__ = move_there.__qualname__ = name
    move_there.__doc__ = f"The tensor on a device of kind {name}, which raises: there is none."
    public("Tensor." + name)(move_there)


for _name in ("xpu", "ipu", "hpu", "mtia"):
    _absent_device(_name)


def tensor_type_name(input: Tensor) -> str:
    """PyTorch's old name of a tensor's type, such as torch.FloatTensor."""
    kind = ("cuda." if input._k & CUDA else "") + ("sparse." if input._k & SPARSE else "")
    return f"torch.{kind}{type_name(input.dtype)}Tensor"


@public("Tensor.type", method="type")
def type_(input: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of the tensor's type, or the tensor as another type (a dtype, a typed class or its name)."""
    if dtype is None:
        return tensor_type_name(input)
    d, where = type_argument(dtype)
    return convert(input, d, where)


def type_argument(given: Any) -> tuple[dtype, device | None]:
    """The dtype and device that a dtype, a typed class (FloatTensor) or its name stands for."""
    if isinstance(given, dtype):
        return given, None
    if given is Tensor:
        return default.float, None
    if isinstance(given, type) and hasattr(given, "_placed"):
        return given.dtype, given._placed  # type: ignore[attr-defined]
    name = given if isinstance(given, str) else getattr(given, "__name__", str(given))
    kind, _, tail = name.rpartition(".")
    for d, word in SCALAR_NAMES.items():
        if tail == word + "Tensor" and kind in ("torch", "torch.cuda"):
            return BY_NAME[d], device("cuda") if kind.endswith("cuda") else CPU
    raise ValueError(f"invalid type: '{name}'")


@public("Tensor.type_as")
def type_as(input: Tensor, other: Tensor) -> Tensor:
    """The tensor in the dtype and on the device of another."""
    return convert(input, other.dtype, other.device)


@frequent()
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy with its own memory, still in the graph.

    >>> import flambeau as torch
    >>> x = torch.tensor([1.0, 2.0]); y = x.clone(); y[0] = 5; x
    tensor([1., 2.])
    """
    if (
        modes.overrides
        and (taken := registry.overridden(clone, (input,), {"memory_format": memory_format})) is not NotImplemented
    ):
        return taken
    if memory_format is None or memory_format is preserve_format:
        if input._k | modes.on:
            return basic.clone(input, "K")
        array = input._array
        try:
            if array.nbytes >= SHARED or 0 in array.strides or 1 in array.shape:
                return wrap(duplicate(array), input.dtype)
            return wrap(array.copy("K"), input.dtype)
        except (MemoryError, ValueError) as error:
            raise (memory_problem(error) or error) from None
    return clone_format(input, memory_format)


@frequent()
def detach(input: Tensor) -> Tensor:
    """The same memory without history."""
    if modes.overrides and (taken := registry.overridden(detach, (input,), {})) is not NotImplemented:
        return taken
    return detached(input)


@public()
def detach_(input: Tensor) -> Tensor:
    """Forgets the tensor's history, in place."""
    if input._view is not None and not tensor_is_inference(input):
        raise RuntimeError("Can't detach views in-place. Use detach() instead.")
    input._edge = None
    if input._k & DUAL:
        input._autograd_meta.tangent = None  # type: ignore[union-attr]
    input._k &= ~(GRAD | DUAL)
    return input


@public("Tensor._lazy_clone", "_lazy_clone")
def _lazy_clone(input: Tensor) -> Tensor:
    """A copy; that of PyTorch shares memory until one of the two is written, which nobody can tell by their values."""
    return clone(input)


@public("Tensor._fix_weakref")
def _fix_weakref(self: Tensor) -> None:
    """Nothing: a weak reference here never outlives its tensor."""


# -- to Python and NumPy -----------------------------------------------------------------------------------------


def host_array(t: Tensor) -> Any:
    """The elements as a NumPy array, copied from a GPU if need be."""
    elements_are_read(of=t)
    if t._k & META:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    if t._k & QUANTIZED:
        return t._array.dequantized()
    return read_as(backend_of(t._k).asnumpy(t._array), t._k)


def python_array(t: Tensor) -> Any:
    """The elements as an array of a type that Python has numbers for."""
    array = host_array(t)
    if array.dtype.isbuiltin == 1:
        return array
    return array.astype(np.complex64 if t.dtype.is_complex else np.float32)


@frequent(function=False)
def tolist(input: Tensor) -> Any:
    """The elements as nested lists of Python numbers.

    >>> import flambeau as torch
    >>> torch.tensor([[1, 2], [3, 4]]).tolist()
    [[1, 2], [3, 4]]
    """
    if modes.overrides and (taken := registry.overridden(tolist, (input,), {})) is not NotImplemented:
        return taken
    if input._k <= 1 and input._array.dtype.isbuiltin == 1 and not modes.on & (CAPTURE | DISPATCH):
        return input._array.tolist()
    if input._k & DISPATCH and input._k & META:
        raise RuntimeError(f".tolist() is not supported for tensor subclasses, got {type(input).__name__}")
    return python_array(input).tolist()


@frequent(function=False)
def numpy(input: Tensor, *, force: bool = False) -> Any:
    """The tensor's memory as a NumPy array: writing to one changes the other. `force` detaches and copies if need be."""
    if modes.overrides and (taken := registry.overridden(numpy, (input,), {"force": force})) is not NotImplemented:
        return taken
    if input._k & SPARSE:
        raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")
    if input._k & GRAD and not force and local.grad:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    if input._k & POSTPONED:
        if force:
            return host_array(input)
        bit, call = ("conjugate", "conj") if input._k & CONJ else ("negative", "neg")
        raise RuntimeError(
            f"Can't call numpy() on Tensor that has {bit} bit set. Use tensor.resolve_{call}().numpy() instead."
        )
    if input._k & (CUDA | META):
        if not force:
            kind = input.device
            if input._k & DISPATCH:
                raise RuntimeError(".numpy() is not supported for tensor subclasses: take the tensors that it wraps")
            raise TypeError(
                f"can't convert {kind} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
            )
        return host_array(input)
    tell("elements_read", input)
    array = input._array
    if array.dtype.isbuiltin != 1 or input._k & QUANTIZED:
        raise TypeError(f"Got unsupported ScalarType {type_name(input.dtype)}")
    storage = storage_of(input)
    if storage.__class__ is Storage:  # memory that NumPy knows too cannot move
        storage.__class__ = Borrowed
    return array.view()


# -- what dtype -------------------------------------------------------------------------------------------------


def _operand_dtype(value: Any) -> tuple[dtype | None, dtype | None, dtype | None]:
    """A place among (dimensioned tensor, 0-d tensor, number)."""
    if isinstance(value, Tensor):
        return (value.dtype, None, None) if value._array.ndim else (None, value.dtype, None)
    return None, None, scalar_dtype(value)


@public(method=False)
def result_type(tensor: Any, other: Any) -> dtype:
    """The dtype that arithmetic between two tensors or numbers gives.

    >>> import flambeau as torch
    >>> torch.result_type(torch.tensor([1, 2]), 1.0)
    torch.float32
    """
    merged = [
        a if b is None else b if a is None else promote_types(a, b)
        for a, b in zip(_operand_dtype(tensor), _operand_dtype(other))
    ]
    return combine(*merged)


@public()
def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are real floating-point numbers."""
    return input.dtype.is_floating_point


@public()
def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex numbers."""
    return input.dtype.is_complex


@public()
def is_signed(input: Tensor) -> bool:
    """Whether the elements may be negative."""
    return input.dtype.is_signed


@public()
def is_nonzero(input: Tensor) -> bool:
    """The truth of a tensor of one element."""
    if not isinstance(input, Tensor):
        raise TypeError(f"is_nonzero(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return bool(input)


@public()
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape."""
    return input._array.shape == other._array.shape


@public()
def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made in inference mode."""
    return tensor_is_inference(input)


@public()
def get_device(input: Tensor) -> int:
    """The number of the GPU that the tensor is on; -1 on the CPU."""
    if input._k & CUDA:
        return int(input._array.device.id)
    return -1


@public(method=False)
def numel(input: Tensor) -> int:
    """The number of elements."""
    return int(input._array.size)


SCHEMAS = """
to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)  # parsed
to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)
to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)
to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)
chalf|clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor
cpu|cuda(Tensor(a) self) -> Tensor(b|a)
type_as(Tensor self, Tensor other) -> Tensor
detach(Tensor(a) self) -> Tensor(a)
_lazy_clone(Tensor self) -> Tensor
result_type.Tensor(Tensor tensor, Tensor other) -> ScalarType  # silent
result_type.Scalar(Tensor tensor, Scalar other) -> ScalarType
result_type.Scalar_Tensor(Scalar scalar, Tensor tensor) -> ScalarType
is_floating_point|is_complex|is_signed|is_inference(Tensor self) -> bool  # silent
is_nonzero(Tensor self) -> bool
is_same_size(Tensor self, Tensor other) -> bool  # silent
get_device|numel(Tensor self) -> int  # silent
to_copy  # record=_to_copy
tolist|numpy|is_tensor|is_storage|can_cast|typename|storage|untyped_storage|data_ptr|type|is_set_to  # silent
"""
