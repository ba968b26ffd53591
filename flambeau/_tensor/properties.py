"""What can be read off any tensor: shape, device, history."""

from __future__ import annotations

import warnings
from typing import Any

from .._autograd.node import NOWHERE, gradient_function, is_leaf
from .._core.devices import CPU, device
from .._core.devices import META as META_DEVICE
from .._core.dtypes import FLOATING, dtype
from .._core.layouts import (
    channel_order,
    contiguous_format,
    element_strides,
    memory_format,
    sparse_coo,
    sparse_csr,
    strided,
)
from .._core.sizes import Size, wrap_dim
from .._core.state import BATCHED, CUDA, GRAD, META, QUANTIZED, SPARSE, local
from .._ops.layout.views import is_contiguous
from .._ops.records.rewriting import Stale
from .._ops.records.rules import type_name
from .._ops.records.writable import stale
from .._ops.registry import ops
from . import MADE_IN_INFERENCE, MADE_WITHOUT_GRAD, Tensor, is_inference, meta_of, version_of
from .memory import read_data, write_data

_new_tuple = tuple.__new__  # a shape needs no check


def _shape(self: Tensor) -> Size:
    return _new_tuple(Size, self._array.shape)


def size(self: Tensor, dim: int | None = None) -> Any:
    """The shape, or the extent of one dimension."""
    if dim is None:
        return _new_tuple(Size, self._array.shape)
    shape = self._array.shape
    if not shape:
        wrap_dim(dim, 0)
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return shape[wrap_dim(dim, len(shape))]


def stride(self: Tensor, dim: int | None = None) -> Any:
    """Steps between neighbouring elements of each dimension, counted in elements."""
    strides = element_strides(self._array)
    return strides if dim is None else strides[wrap_dim(dim, len(strides))]


def _device(self: Tensor) -> device:
    k = self._k
    if not k & (CUDA | META):
        return CPU
    if k & BATCHED:
        return _device(self.value)  # type: ignore[attr-defined]
    if k & META:
        return self.__dict__.get("_wrapper_device", META_DEVICE)
    return device("cuda", int(self._array.device.id))


def _requires_grad(self: Tensor) -> bool:
    view = self._view
    if view is not None and view[5] in (MADE_WITHOUT_GRAD, MADE_IN_INFERENCE) and self.dtype.category >= FLOATING:
        own = 0 if self._edge is NOWHERE else self._k
        return bool((own | _base(self)._k) & GRAD)  # type: ignore[union-attr]
    return bool(self._k & GRAD)


def _set_requires_grad(self: Tensor, value: bool) -> None:
    if not isinstance(value, bool):
        raise RuntimeError("requires_grad must be a bool")
    if not is_leaf(self) and not value:
        raise RuntimeError(
            "you can only change requires_grad flags of leaf variables; detach() takes this one out of the graph"
        )
    if value:
        if self.dtype.category < FLOATING:
            raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
        if is_inference(self) and not local.inference:
            raise RuntimeError(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed; clone() it first"
            )
        self._k |= GRAD
        if self._edge is NOWHERE:
            self._edge = None
    elif self._edge is None:
        self._k &= ~GRAD


def refuse_in_transforms() -> None:
    """Raises inside `vmap`, `grad` and the like, which record for themselves."""
    if local.transforms or local.batches:
        raise RuntimeError(
            "You are attempting to call Tensor.requires_grad_() (or perhaps using torch.autograd.functional.* APIs) inside "
            "of a function being transformed by a functorch transform: use transforms inside, or call it outside."
        )


def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Starts (or ends) the recording of operations on this tensor."""
    if requires_grad:
        refuse_in_transforms()
    return _start_recording(self, requires_grad)


def _start_recording(self: Tensor, requires_grad: bool = True) -> Tensor:
    if not isinstance(requires_grad, bool):
        raise TypeError(f"requires_grad_(): argument 'requires_grad' must be bool, not {type(requires_grad).__name__}")
    if requires_grad and self.dtype.category < FLOATING:
        raise RuntimeError("only Tensors of floating point dtype can require gradients")
    _set_requires_grad(self, requires_grad)
    return self


def _grad(self: Tensor) -> Tensor | None:
    meta = self._autograd_meta
    if meta is not None and (meta.grad is not None or meta.retains):
        return meta.grad
    if not is_leaf(self):
        warnings.warn(
            "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed; backward() fills it only "
            "after retain_grad()",
            stacklevel=2,
        )
    return None


def _set_grad(self: Tensor, value: Tensor | None) -> None:
    if value is not None:
        if not isinstance(value, Tensor):
            raise TypeError(
                f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}"
            )
        if value is self:
            raise RuntimeError("can't assign Variable as its own grad")
        if value._array.shape != self._array.shape:
            raise RuntimeError(
                f"assigned grad has data of a different size: {list(value._array.shape)} for a tensor of {list(self._array.shape)}"
            )
        wanted = _grad_dtype(self) if is_leaf(self) else self.dtype
        if wanted is not None and wanted is not self.dtype and value.dtype is not wanted:
            raise RuntimeError(
                f"attempting to assign a gradient with dtype '{type_name(value.dtype).lower()}' to a tensor with grad_dtype "
                f"'{type_name(wanted)}'; the gradient must match it"
            )
        if wanted is self.dtype and value.dtype is not wanted:
            raise RuntimeError(
                f"assigned grad has data of a different type: {value.dtype} for a tensor of {self.dtype}"
            )
        if (value._k ^ self._k) & (CUDA | META):
            raise RuntimeError("assigned grad has data located on a different device")
        meta_of(self).grad = value
    elif self._autograd_meta is not None:
        self._autograd_meta.grad = None


def _grad_fn(self: Tensor) -> Any:
    reason = stale(self)
    if reason is not None:
        raise RuntimeError(reason)
    edge = self._edge
    if edge is None or edge is NOWHERE:
        return None
    if edge[0].op.__class__ is Stale:
        raise RuntimeError(edge[0].op.reason)
    if edge[0].outputs is None:
        edge[0].__dict__["shapes"] = {0: (self.shape, self.dtype)}
    return gradient_function(*edge)


def _hooks(self: Tensor) -> Any:
    """The hooks of a leaf by number, or None; a tensor with a history has them on its node."""
    meta = self._autograd_meta
    return None if meta is None or is_inference(self) else meta.hooks


def _set_hooks(self: Tensor, hooks: Any) -> None:
    if hooks is not None or _hooks(self):
        if hooks or (self._k & GRAD and not is_leaf(self)):
            raise RuntimeError(
                "_backward_hooks can only be set to none or to an empty dict: register_hook() adds one, its handle removes it"
            )
        meta_of(self).hooks = hooks


def _grad_dtype(self: Tensor) -> Any:
    """The dtype that the gradient of a leaf has: its own unless told otherwise; None where any is kept as it comes."""
    if not is_leaf(self):
        raise RuntimeError("grad_dtype can only be accessed on leaf tensors.")
    return self.dtype if self._autograd_meta is None else self._autograd_meta.__dict__.get("grad_dtype", self.dtype)


def _set_grad_dtype(self: Tensor, value: Any) -> None:
    if not is_leaf(self):
        raise RuntimeError("grad_dtype can only be set on leaf tensors.")
    if value is not None and not isinstance(value, dtype):
        raise RuntimeError(f"grad_dtype must be a torch.dtype or None, but got {type(value).__name__}")
    meta = meta_of(self)
    if value is not None and meta.grad is not None and meta.grad.dtype is not value:
        raise RuntimeError(
            f"Cannot set grad_dtype to {value} because there is already a gradient of dtype {meta.grad.dtype}; set .grad to "
            "None first"
        )
    meta.__dict__["grad_dtype"] = value
    meta.hooks = {} if meta.hooks is None else meta.hooks
    if value is None or value is self.dtype:
        meta.hooks.pop("dtype", None)
    else:  # the first of its hooks
        rest = dict(meta.hooks)
        meta.hooks.clear()
        meta.hooks.update({"dtype": lambda g: g if g.dtype is value else ops.to_dtype(g, value), **rest})


def _is_leaf(self: Tensor) -> bool:
    reason = stale(self)
    if reason is not None:
        raise RuntimeError(reason)
    return is_leaf(self)


def _base(self: Tensor) -> Tensor | None:
    """The tensor whose memory this one was taken from as a view."""
    t = self
    while t._view is not None:
        t = t._view[0]
    return None if t is self else t


def _version(self: Tensor) -> int:
    """How often the tensor's memory was written to."""
    if is_inference(self):
        raise RuntimeError("Inference tensors do not track version counter.")
    return version_of(self)


def _retains_grad(self: Tensor) -> bool:
    return self._autograd_meta is not None and bool(self._autograd_meta.retains) and not is_leaf(self)


def _type_check(name: str) -> Any:
    return property(lambda self: _device(self).type == name)


def dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dimensions from the outermost in memory to the innermost.

    With `ambiguity_check`, RuntimeError if another order would fit as well; a list of memory formats says which orders
    are meant: then exactly one of them must fit.
    """
    if self._k & SPARSE:
        raise AttributeError("Can't get dim order on sparse tensors; to_dense() gives a tensor that has one")
    formats = ambiguity_check if isinstance(ambiguity_check, list) else None
    if formats is None and not isinstance(ambiguity_check, bool):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    if formats is not None and not all(isinstance(each, memory_format) for each in formats):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    shape, strides = self._array.shape, stride(self)
    if len([n for n in shape if n != 1]) < len(shape) or len(set(strides)) < len(strides):
        fitting = [each for each in formats or () if is_contiguous(self, each)]
        if ambiguity_check and len(fitting) != 1:
            raise RuntimeError(
                "The tensor does not have unique dim order, or cannot map to exact one of the given memory formats."
            )
        if fitting:
            return (
                tuple(range(len(shape))) if fitting[0] is contiguous_format else channel_order(fitting[0], len(shape))
            )
    return tuple(sorted(range(len(strides)), key=lambda d: (-strides[d], -shape[d])))


def dim(self: Tensor) -> int:
    """The number of dimensions.

    >>> import flambeau as torch
    >>> torch.zeros(2, 3).dim()
    2
    """
    return self._array.ndim


def ndimension(self: Tensor) -> int:
    """The number of dimensions, as `dim` gives it."""
    return self._array.ndim


def numel(self: Tensor) -> int:
    """The number of elements.

    >>> import flambeau as torch
    >>> torch.zeros(2, 3).numel()
    6
    """
    return self._array.size


def nelement(self: Tensor) -> int:
    """The number of elements, as `numel` gives it."""
    return self._array.size


def element_size(self: Tensor) -> int:
    """The bytes of one element.

    >>> import flambeau as torch
    >>> torch.zeros(2, dtype=torch.float64).element_size()
    8
    """
    return self.dtype.itemsize


def is_distributed(self: Tensor) -> bool:
    """Whether the tensor is spread over processes: never."""
    return False


def dense_dim(self: Tensor) -> int:
    """The number of dense dimensions."""
    return self._array.dense_dim if self._k & SPARSE else self._array.ndim


def sparse_dim(self: Tensor) -> int:
    """The number of sparse dimensions; a dense tensor has none."""
    return self._array.sparse_dim if self._k & SPARSE else 0


def is_coalesced(self: Tensor) -> bool:
    """Whether the entries of a COO tensor are sorted, each coordinate once."""
    if self._k & SPARSE and self._array.layout is sparse_coo:
        return bool(self._array.coalesced)
    raise RuntimeError("is_coalesced expected sparse coordinate tensor layout but got Strided")


def _cannot_delete(name: str) -> Any:
    def refuse(self: Tensor) -> None:
        raise RuntimeError(
            f"Deleting tensor attribute {name!r} is not allowed; detach() or a new tensor may do instead"
        )

    return refuse


PROPERTIES: dict[str, Any] = {
    "shape": property(_shape),
    "device": property(_device),
    "requires_grad": property(_requires_grad, _set_requires_grad, _cannot_delete("requires_grad")),
    "grad": property(_grad, _set_grad, lambda self: _set_grad(self, None)),
    "grad_fn": property(_grad_fn),
    "_grad_fn": property(_grad_fn, None, _cannot_delete("_grad_fn")),
    "_backward_hooks": property(_hooks, _set_hooks, _cannot_delete("_backward_hooks")),
    "is_leaf": property(_is_leaf),
    "ndim": property(lambda self: self._array.ndim),
    "_version": property(_version),
    "_cdata": property(id),
    "is_cuda": property(lambda self: bool(self._k & CUDA or (self._k & META and _device(self).type == "cuda"))),
    "is_meta": property(lambda self: _device(self).type == "meta"),
    "itemsize": property(lambda self: self.dtype.itemsize),
    "nbytes": property(lambda self: self._array.size * self.dtype.itemsize),
    "output_nr": property(lambda self: 0 if self._edge is None else self._edge[1]),
    "data": property(lambda self: read_data(self), lambda self, value: write_data(self, value), _cannot_delete("data")),
    "layout": property(lambda self: self._array.layout if self._k & SPARSE else strided),
    "_base": property(_base),
    "_grad": property(_grad, _set_grad),
    "retains_grad": property(_retains_grad),
    "volatile": property(lambda self: False),
    "name": property(lambda self: None),
    "is_sparse": property(lambda self: bool(self._k & SPARSE) and self._array.layout is sparse_coo),
    "is_sparse_csr": property(lambda self: bool(self._k & SPARSE) and self._array.layout is sparse_csr),
    "is_mkldnn": property(lambda self: False),
    "is_quantized": property(lambda self: bool(self._k & QUANTIZED)),
    "is_nested": property(lambda self: False),
    "is_cpu": property(lambda self: _device(self).type == "cpu"),
    "is_mps": _type_check("mps"),
    "is_xpu": _type_check("xpu"),
    "is_xla": _type_check("xla"),
    "is_ipu": _type_check("ipu"),
    "is_hpu": _type_check("hpu"),
    "is_mtia": _type_check("mtia"),
    "is_vulkan": _type_check("vulkan"),
    "is_maia": _type_check("maia"),
    "grad_dtype": property(_grad_dtype, _set_grad_dtype),
    "_is_view": lambda self: self._view is not None,
    "dim_order": dim_order,
    "is_distributed": is_distributed,
    "dense_dim": dense_dim,
    "sparse_dim": sparse_dim,
    "is_coalesced": is_coalesced,
    "size": size,
    "stride": stride,
    "dim": dim,
    "ndimension": ndimension,
    "numel": numel,
    "nelement": nelement,
    "element_size": element_size,
    "requires_grad_": requires_grad_,
}


def attach() -> None:
    ops.requires_grad_ = _start_recording
    for name, value in PROPERTIES.items():
        setattr(Tensor, name, value)


SCHEMAS = """
requires_grad_(Tensor(a!) self, bool requires_grad=True) -> Tensor(a!)
"""
