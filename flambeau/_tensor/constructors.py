"""Classes called to make tensors: `Tensor(...)`, the typed ones such as `FloatTensor(...)`, and subclasses."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np

from .._backend.placement import as_device, bits, cuda_problem
from .._core.devices import CPU, device, set_default_device
from .._core.dtypes import BY_NAME, COMPLEX, default, dtype, set_default_dtype
from .._core.layouts import sparse_coo, strided
from .._core.sizes import Size
from .._core.state import GRAD, META, local, modes
from .._ops.basic import empty_array
from .._ops.making.conversion import tensor_type_name, type_argument
from .._ops.making.factory import finished
from .._ops.records.batching import leading
from .._ops.records.primitive import primitive
from .._ops.records.rules import SCALAR_NAMES
from .._ops.registry import functions, methods, ops, public
from . import Tensor, detached, inherited, storage_of, wrap
from .typed_storage import is_storage, tensor_of_storage

_new = object.__new__


def construct(d: dtype, where: Any, args: tuple[Any, ...], any_dtype: bool = False) -> Tensor:
    """The old constructors: sizes as numbers, or one argument that is data, a size, a storage or a tensor."""
    k = bits(where)
    if len(args) > 1 and isinstance(args[0], (tuple, list)):
        raise TypeError(
            f"new() received an invalid combination of arguments - got ({', '.join(type(a).__name__ for a in args)}): "
            "expected one sequence, or sizes"
        )
    if len(args) != 1:
        return finished(empty_array(_sizes(args) if args else (0,), d, k), d, k)
    data = args[0]
    if isinstance(data, Tensor):
        if data.dtype is not d and not any_dtype:
            raise TypeError(f"expected a tensor of dtype {d} (got {data.dtype}); use .to() to convert it")
        return detached(data)
    if is_storage(data):
        return tensor_of_storage(data, d)
    if isinstance(data, Size) or (isinstance(data, (int, np.integer)) and not isinstance(data, bool)):
        return finished(empty_array(_sizes(data if isinstance(data, Size) else args), d, k), d, k)
    if isinstance(data, str):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    if isinstance(data, (bool, np.generic)) or not hasattr(data, "__len__"):
        raise TypeError(f"new(): data must be a sequence (got {type(data).__name__})")
    if d.category < COMPLEX and np.iscomplexobj(data):
        raise TypeError("must be real number, not complex")
    return ops.tensor(data, dtype=d, device=where)


def construct_sparse(d: dtype, where: Any, args: tuple[Any, ...]) -> Tensor:
    """The same for COO tensors: sizes, or indices, values and perhaps a size."""
    if len(args) > 1 and isinstance(args[0], Tensor):
        return ops.sparse_coo_tensor(*args, device=where)
    size = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args or (0,)
    return ops.sparse_coo_tensor(Size(size), dtype=d, device=where)


def _sizes(args: Any) -> tuple[int, ...]:
    sizes = []
    for n in args:
        if isinstance(n, bool) or not hasattr(n, "__index__"):
            raise TypeError(
                f"new() received an invalid combination of arguments - got a size of type {type(n).__name__}"
            )
        n = n.__index__()
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(args)}")
        sizes.append(n)
    return tuple(sizes)


def _new_tensor(cls: Any, *args: Any, device: Any = None, size: Any = None, **named: Any) -> Tensor:
    """`Tensor(2, 3)` is an uninitialised tensor of that shape, `Tensor([2, 3])` has those values."""
    if size is not None:
        args = (Size(size),)
    if named and cls is Tensor:
        raise TypeError(f"new() received an invalid combination of arguments: unexpected {', '.join(named)}")
    made = construct(default.float, device, args, any_dtype=True)
    return made if cls is Tensor else become(made, cls)


_set_dtype = Tensor.dtype.__set__  # type: ignore[attr-defined]


def become(t: Tensor, cls: type) -> Any:
    """A tensor of a subclass over the same memory, without history."""
    modes.overrides |= cls._class_k  # type: ignore[attr-defined]
    other = _new(cls)
    other._array, other._k = t._array, t._k & ~(GRAD | t._class_k) | cls._class_k  # type: ignore[attr-defined]
    _set_dtype(other, t.dtype)  # past a property of the subclass
    other._edge = other._view = None
    other._storage, other._autograd_meta = storage_of(t), inherited(t)
    return other


@primitive(view=True, grad={"x": lambda g: g}, name="as_subclass", backward_name="AliasBackward0", batch=leading)
def alias_op(backend: Any, x: Any) -> Any:
    return x.view()


def as_subclass(input: Tensor, cls: type) -> Any:
    """The same tensor, with its history, as an instance of a subclass of Tensor. No class or mode is asked."""
    if not isinstance(cls, type) or not issubclass(cls, Tensor):
        raise TypeError("Creating a Tensor subclass from a class that does not inherit from Tensor is not possible")
    outer = local.overrides_off, local.function_modes
    local.overrides_off, local.function_modes = True, ()
    try:
        made = alias_op(input)
    finally:
        local.overrides_off, local.function_modes = outer
    return recast(made, cls)


ops.as_subclass = methods["as_subclass"] = functions["Tensor.as_subclass"] = as_subclass


def recast(t: Tensor, cls: Any) -> Any:
    """A tensor that nobody else holds, turned into an instance of a subclass."""
    modes.overrides |= cls._class_k
    try:
        t.__class__ = cls
    except TypeError:  # a class with slots of its own
        other = become(t, cls)
        other._edge, other._view = t._edge, t._view
        other._k |= t._k & GRAD
        return other
    t._k |= cls._class_k
    return t


def _make_subclass(cls: type, data: Tensor, require_grad: bool = False, **named: Any) -> Any:
    """An instance of a subclass over the memory of `data`, without its history."""
    made = become(data, cls)
    if require_grad:
        if data.dtype.category < 2:
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        made._k |= GRAD
    return made


def _make_wrapper_subclass(
    cls: type, size: Any, strides: Any = None, storage_offset: Any = None, memory_format: Any = None, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    dispatch_sizes_strides_policy: str | None = None, *rest: Any, **named: Any,
) -> Any:  # fmt: skip
    """An instance of a subclass that has a shape but no memory of its own; it never asks the class for its size."""
    from .._backend.meta import empty_meta  # rare

    d = default.float if dtype is None else dtype
    shape = tuple(size)
    steps = None if strides is None else tuple(strides)
    offset = int(storage_offset or 0)
    like = wrap(empty_meta(shape, d, steps), d, META)
    if offset:  # a piece of something larger
        strides, reach = like.stride(), offset + 1 + sum((n - 1) * s for n, s in zip(shape, like.stride()))
        like = ops.as_strided(wrap(empty_meta((reach,), d), d, META), shape, strides, offset)
    made = _make_subclass(cls, like, requires_grad)
    made.__dict__["_wrapper_device"] = CPU if device is None else as_device(device)
    return made


# -- typed classes -----------------------------------------------------------------------------------------------


class _TypedMeta(type):
    """Classes such as FloatTensor: calling one makes a plain Tensor, `isinstance` looks at dtype and device."""

    dtype: dtype
    _placed: device

    def __new__(mcs, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> Any:
        if bases:
            raise TypeError(
                f"type 'torch.{bases[0].__name__}' is not an acceptable base type; inherit from torch.Tensor"
            )
        return super().__new__(mcs, name, bases, space)

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        if cls._placed.type == "cuda" and cuda_problem() is not None:
            raise TypeError(f"type torch.cuda.{cls.__name__} not available. {cuda_problem()}")
        return construct(cls.dtype, cls._placed if device is None else device, args)

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, Tensor) and instance.dtype is cls.dtype
            and instance.device.type == cls._placed.type and instance.layout is strided
        )  # fmt: skip


@functools.cache
def typed_classes(kind: str = "cpu") -> dict[str, type]:
    """FloatTensor and the like, by name, for one kind of device."""
    place = CPU if kind == "cpu" else device(kind)
    module = "torch" if kind == "cpu" else f"torch.{kind}"
    space = {
        "_placed": place,
        "layout": strided,
        "is_cuda": kind == "cuda",
        "is_xpu": False,
        "is_sparse": False,
        "__module__": module,
    }
    return {
        word + "Tensor": _TypedMeta(word + "Tensor", (), {
            **space, "dtype": BY_NAME[d], "__doc__": f"The older way to make tensors of dtype {d}, from data or sizes.",
        })
        for d, word in SCALAR_NAMES.items() if not word.startswith(("UInt", "Complex"))
    }  # fmt: skip


@public("Tensor.new")
def new(input: Tensor, *args: Any, device: Any = None, size: Any = None) -> Tensor:
    """A tensor of the same dtype, made as the typed constructors do."""
    where = input.device if device is None else as_device(device)
    make = construct_sparse if input.layout is sparse_coo else construct
    return make(input.dtype, where, args if size is None else (Size(size),))


def set_default_tensor_type(t: Any, /) -> None:
    """Sets the default dtype (and device) by a typed class or its name; `set_default_dtype` is the newer way."""
    warnings.warn(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
        "torch.set_default_device() instead",
        stacklevel=2,
    )
    d, where = type_argument(t)
    if where is not None and where.type == "cuda" and cuda_problem() is not None:
        raise TypeError(f"type {t} not available. {cuda_problem()}")
    set_default_dtype(d)
    set_default_device(None if where is None or where.type == "cpu" else where)


def typename(obj: Any, /) -> str:
    """The name of an object's type; of a tensor, its old typed name.

    >>> import flambeau as torch
    >>> torch.typename(torch.tensor([1.0]))
    'torch.FloatTensor'
    """
    if isinstance(obj, Tensor):
        return tensor_type_name(obj)
    kind = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(kind, "__module__", "") or ""
    return kind.__qualname__ if module in ("", "builtins", "__builtin__") else f"{module}.{kind.__qualname__}"


def attach() -> None:
    Tensor.__new__ = _new_tensor  # type: ignore[method-assign, assignment]
    Tensor._make_subclass = staticmethod(_make_subclass)
    Tensor._make_wrapper_subclass = staticmethod(_make_wrapper_subclass)
