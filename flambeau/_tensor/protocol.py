"""Tensors as Python objects: numbers, sequences, text, NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._autograd.hooks import register_hook, register_post_accumulate_grad_hook, retain_grad
from .._autograd.node import gradient_function, is_leaf
from .._core.devices import CPU
from .._core.dtypes import INTEGER, default, from_numpy_dtype
from .._core.printing import tensor_repr
from .._core.state import BATCHED, CAPTURE, CUDA, DISPATCH, DUAL, GRAD, META, QUANTIZED, SPARSE, local, modes
from .._dispatch import backend_of
from .._errors import taught
from .._errors.frames import warn_user
from .._interception.torch_dispatch import take_function
from .._ops import registry
from .._ops.making.conversion import host_array, numpy, python_array
from .._ops.records.writable import stale
from .._ops.registry import ops
from . import Tensor, detached, wrap
from .dlpack import dlpack, dlpack_device

# -- numbers -----------------------------------------------------------------------------------------------------


_TOLD = CAPTURE | DISPATCH  # who wants to know that elements are read


def item(self: Tensor) -> Any:
    """The value of a tensor of one element, as a Python number.

    >>> import flambeau as torch
    >>> torch.tensor([2.5]).item()
    2.5
    """
    array = self._array
    if array.size != 1:
        raise taught(RuntimeError(f"a Tensor with {array.size} elements cannot be converted to Scalar"))
    if self._k & ~GRAD or modes.on & _TOLD:
        if (self._k | modes.on) & DISPATCH and (taken := take_function(item, (self,), {})) is not NotImplemented:
            return taken
        array = host_array(self)
    value = array.item()
    return value if value.__class__ in _NUMBERS else python_array(self).item()


_NUMBERS = frozenset((float, int, bool, complex))


def _bool(self: Tensor) -> bool:
    array = self._array
    if array.size != 1:
        many = "more than one value" if array.size else "no values"
        raise taught(RuntimeError(f"Boolean value of Tensor with {many} is ambiguous"))
    if not (self._k & ~GRAD or modes.on & _TOLD):
        return bool(array)
    if self._k & SPARSE:
        return bool(ops.any(self))
    return bool(self.item() if (self._k | modes.on) & DISPATCH else host_array(self))


def _scalar(self: Tensor) -> Any:
    if self._array.size != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    if self._k & GRAD and local.grad:
        warn_user(
            "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\n"
            "Consider using tensor.detach() first: the number has no history."
        )
    return item(self)


def _real(value: Any) -> Any:
    """A number without an imaginary part."""
    if value.__class__ is complex:
        if value.imag != 0:
            raise RuntimeError("value cannot be converted to type double without overflow")
        return value.real
    return value


def _float(self: Tensor) -> float:
    value = _scalar(self)
    return value if value.__class__ is float else float(_real(value))


def _int(self: Tensor) -> int:
    value = _scalar(self)
    return value if value.__class__ is int else int(_real(value))


def _complex(self: Tensor) -> complex:
    return complex(_scalar(self))


def _index(self: Tensor) -> int:
    if self._array.size != 1 or self.dtype.category > INTEGER:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(item(self))


def _format(self: Tensor, spec: str) -> str:
    if self._array.ndim == 0 and not self._k & META and type(self) is Tensor:
        return format(item(self), spec)
    return object.__format__(self, spec)


# -- sequences ---------------------------------------------------------------------------------------------------


def _len(self: Tensor) -> int:
    shape = self._array.shape
    if not shape:
        raise TypeError("len() of a 0-d tensor")
    return shape[0]


def _iter(self: Tensor) -> Iterator[Tensor]:
    """Asks classes and modes by what it calls: these make of the parts what they make of others."""
    if not self.dim():
        raise TypeError("iteration over a 0-d tensor")
    return iter(ops.unbind(self, 0))


def _reversed(self: Tensor) -> Tensor:
    return self if not self._array.ndim else ops.flip(self, (0,))


def _contains(self: Tensor, element: Any) -> bool:
    if isinstance(element, (Tensor, int, float, complex, np.generic)):
        return bool((element == self).any())  # type: ignore[union-attr]
    raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")


# -- text --------------------------------------------------------------------------------------------------------


transformed_text: Any = None  # set by `func`: how a tensor reads inside a transform; None for one that is not of it


def _in_notebooks(self: Tensor) -> str:
    """What notebooks show: shape, dtype, device, and a heat map of a matrix."""
    from ..drawing.html import tensor_html  # only notebooks need it

    return tensor_html(self)


def _repr(self: Tensor, *, tensor_contents: str | None = None) -> str:
    text = _text(self, tensor_contents)
    # A parameter of another class is one by a mark; `Parameter` itself has a text of its own.
    return f"Parameter({text})" if type(self)._class_k and getattr(self, "_is_param", False) else text


def _text(self: Tensor, contents: str | None) -> str:
    if self._k & BATCHED or local.transforms:
        text = transformed_text(self)
        if text is not None:
            return text
    kind = type(self).__name__
    prefix = "tensor(" if type(self) is Tensor or not type(self)._class_k else kind + "("
    meta = bool(self._k & META)
    edge, lost = None if is_leaf(self) else self._edge, stale(self) is not None
    # A wrapper that says what stands for its values reads like a tensor that has them.
    wraps, place = contents is not None and "_wrapper_device" in self.__dict__, self.device
    if self._k & SPARSE:
        return ops.sparse_text(self, type(gradient_function(*edge)).__name__ if edge is not None else None)
    if self._k & QUANTIZED:
        return ops.quantized_text(self)
    if self._k & DUAL:
        plain, tangent = detached(self), self._autograd_meta.tangent  # type: ignore[union-attr]
        return repr(plain)[:-1] + f", tangent={tangent!r})"
    return tensor_repr(
        None if meta else python_array(self),
        dtype_name=self.dtype.name,
        default_float=default.float.name,
        prefix=prefix,
        device=str(place) if self._k & CUDA or (wraps and place != CPU) else None,
        requires_grad=self.requires_grad,
        grad_fn="Invalid" if lost else type(gradient_function(*edge)).__name__ if edge and self._k & GRAD else None,
        is_meta=meta and not wraps,
        shape=self._array.shape,
        contents=contents,
    )


def _dir(self: Tensor) -> list[str]:
    hidden = {"_array", "_edge", "_k", "_autograd_meta", "_storage", "_view", "_class_k"}
    return sorted(({*dir(type(self)), *self.__dict__}) - hidden)


# -- NumPy ------------------------------------------------------------------------------------------


def _array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    array = numpy(self)
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise ValueError("Unable to avoid copy while creating an array as requested.")
        return array.astype(dtype)
    return array.copy() if copy else array


def _array_wrap(self: Tensor, array: Any, context: Any = None, return_scalar: bool = False) -> Tensor:
    """What a NumPy function of a tensor gives: a tensor again."""
    array = np.asarray(array)
    if array.dtype == np.bool_:  # in PyTorch, too
        array = array.view(np.uint8)
    return wrap(array, from_numpy_dtype(array.dtype))


def _reinforce(self: Tensor, reward: Any) -> None:
    """Was removed from PyTorch; raises an error that says what to use."""
    raise RuntimeError("reinforce() was removed. Use torch.distributions instead.")


def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What `load_state_dict` puts in the place of this tensor: `other`, or this tensor with its values."""
    if modes.overrides:
        taken = registry.overridden(module_load, (self, other), {"assign": assign})
        if taken is not NotImplemented:
            return taken
    if assign:
        return detached(other)
    return ops.copy_(detached(self), other)


def record_stream(self: Tensor, stream: Any) -> None:
    """Tells that a stream uses the tensor: its memory is nobody else's until the stream has done what it is told before the tensor goes."""
    if not self._k & CUDA:
        raise NotImplementedError("record_stream is only for tensors on a GPU")
    backend_of(CUDA).lent(self._array.data.mem, stream._stream)


def _torch_dispatch(cls: type, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """What tensors do by themselves: an operator on their own memory, which nobody takes over again."""
    off, local.dispatch_off = local.dispatch_off, True
    try:
        return func(*args, **(kwargs or {}))
    finally:
        local.dispatch_off = off


PROTOCOL: dict[str, Any] = {
    "item": item, "__bool__": _bool, "__float__": _float, "__int__": _int, "__complex__": _complex, "__index__": _index,
    "__format__": _format, "__len__": _len, "__reversed__": _reversed, "__contains__": _contains,
    "__repr__": _repr, "_repr_html_": _in_notebooks, "__dir__": _dir, "__array__": _array, "__array_wrap__": _array_wrap, "__dlpack__": dlpack,
    "__dlpack_device__": dlpack_device, "register_hook": register_hook, "retain_grad": retain_grad,
    "register_post_accumulate_grad_hook": register_post_accumulate_grad_hook, "reinforce": _reinforce,
    "module_load": module_load, "record_stream": record_stream, "__long__": _int, "__nonzero__": _bool,
}  # fmt: skip


def attach() -> None:
    """Gives tensors their protocol."""
    for name, value in PROTOCOL.items():
        if not name.startswith("__"):
            value.__name__ = name
        setattr(Tensor, name, value)
    Tensor.__iter__ = _iter  # type: ignore[method-assign]
    Tensor.__torch_dispatch__ = classmethod(_torch_dispatch)
    Tensor.__array_priority__ = 1000  # type: ignore[attr-defined]  # tensors decide what array ∘ tensor is
