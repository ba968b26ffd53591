"""The few operations that the engine and all families stand on: copies, casts, zeros, gradients fitted to inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._autograd import engine
from .._backend.copies import duplicate, place, row_major
from .._core.allocation import empty_like
from .._core.allocation import zeros as zeroed
from .._core.config import memory_problem
from .._core.dtypes import COMPLEX, QUANTIZED, dtype, from_numpy_dtype
from .._core.state import CAPTURE, CUDA, GRAD, META, local, modes
from .._core.steps import chosen_by_elements, elements_are_read
from .._dispatch import backend_of
from .._tensor import Tensor, bump, detached, wrap
from .layout.striding import strided
from .records.batching import leading
from .records.casting import cast_array
from .records.primitive import primitive
from .records.rewriting import rewrite_history
from .records.shape_rules import dense, same
from .records.tangents import linear
from .records.writable import check_writable
from .registry import expose, ops


def _cast_shape(x: Any, d: dtype) -> Any:
    if d in QUANTIZED:
        raise RuntimeError(f"to {d}: tensors are not cast to quantized types; use quantize_per_tensor")
    if (x.dtype.names or (not d.code and d.numpy.names)) and x.dtype != d.numpy:
        raise NotImplementedError(f'"copy_" not implemented for packed bits ({d}); view() them as bytes')
    return dense(x, d=d)


@primitive(
    meta=_cast_shape,
    grad={"x": lambda g, x_dtype: to_dtype(g, x_dtype)}, backward_name="ToCopyBackward0", name="to_dtype", batch=leading,
    tangent=linear("x"), planned=True,
)  # fmt: skip
def to_dtype(backend: Any, x: Any, d: dtype) -> Any:
    """A copy in another dtype; strides are kept."""
    _, _, strides = _cast_shape(x, d)
    made, steps = cast_array(x, d), tuple([s * d.itemsize for s in strides])
    if made.strides == steps or not isinstance(made, np.ndarray):
        return made
    if all([n < 2 or s == t for n, s, t in zip(made.shape, made.strides, steps)]):
        return strided(made, made.shape, steps)
    out = empty_like(x, made.dtype)  # NumPy has put dimensions that share elements in another order
    place(out, made)
    return out


def in_dtype(t: Tensor, d: dtype) -> Tensor:
    """The tensor itself, or a copy if it has another dtype."""
    return t if t.dtype is d else to_dtype(t, d)


@primitive(
    batch=leading,
    meta=lambda x, order="K": dense(x) if order == "K" else same(x),
    grad={"x": lambda g: g},
    backward_name="CloneBackward0",
    name="clone",
    tangent=linear("x"),
    planned=True,
)
def clone(backend: Any, x: Any, order: str = "K") -> Any:
    """A copy that keeps dense strides ('K') or is row-major ('C')."""
    return duplicate(x) if order == "K" else row_major(x)


def empty_array(shape: Any, d: dtype, k: int) -> Any:
    """Fresh memory on the device that the bits in `k` name."""
    if k & META:
        from .._backend.meta import empty_meta

        return empty_meta(shape, d)
    try:
        return backend_of(k).empty(tuple(shape), d.numpy)
    except (MemoryError, ValueError) as error:
        raise (memory_problem(error) or error) from None


def zeros(shape: Any, d: dtype, k: int = 0) -> Tensor:
    device = k & (CUDA | META)
    if not device:
        return wrap(zeroed(shape, d.numpy), d)
    array = empty_array(shape, d, device)
    if device & CUDA:
        array.fill(0)
    return wrap(array, d, device)


def answer(question: Tensor, unknown: bool, of_shape: bool = False) -> bool:
    """What a tensor of one element says; a meta tensor does not know, and `unknown` stands for it. Recordings are told: other elements
    may say something else, on which errors depend, or the shape of a result."""
    if question._k & META:
        return unknown
    elements_are_read(of_shape)
    return bool(question)


def either(question: Tensor, yes: Callable[[], Tensor], no: Callable[[], Tensor], general: bool = False) -> Tensor:
    """What `yes` gives if a tensor of one element says so, else what `no` gives. In a recorded program each run asks again.

    `general`: `yes` is right in any case, if not as fast; it is what programs do inside of transforms, where one step would have to
    be differentiated in all directions.
    """
    if modes.on & CAPTURE:
        if general and (local.batches or local.duals is not None):
            return yes()
        if local.grad:  # a step has a derivative, but not a derivative of that: here the recording ends
            elements_are_read(of_shape=True)
    return chosen_by_elements(_one_of, (yes, no), (question,))


def _one_of(yes: Callable[[], Tensor], no: Callable[[], Tensor], question: Tensor) -> Tensor:
    return no() if question._k & META or not question else yes()  # a meta tensor does not know


def fit_gradient(g: Tensor, shape: Any, d: dtype) -> Tensor:
    """A gradient brought to the shape and dtype of the input it belongs to: broadcast dimensions are summed."""
    if g._array.shape != tuple(shape):
        g = sum_to(g, shape)
    if g.dtype is not d:
        if g.dtype.category == COMPLEX and d.category != COMPLEX:
            g = ops.real(g)
        if g.dtype is not d:
            g = to_dtype(g, d)
    return g


def sum_to(g: Tensor, shape: Any) -> Tensor:
    """Sums the dimensions along which a tensor of `shape` was broadcast."""
    shape = tuple(shape)
    have = g._array.shape
    lead = len(have) - len(shape)
    dims = tuple(range(lead)) + tuple(i + lead for i, n in enumerate(shape) if n == 1 and have[i + lead] != 1)
    if dims:
        g = ops.sum(g, dims, True)
    return ops.reshape(g, shape) if lead else g


def clone_strided(g: Tensor, shape: Any, strides: Any) -> Tensor:
    """A copy of `g` that lies in memory as an array with these strides (in bytes) does, where those are dense."""
    if g._array.strides == tuple(strides) and 0 not in strides:
        return clone(g)
    order = sorted(range(len(shape)), key=lambda i: -abs(strides[i]))
    back = [order.index(i) for i in range(len(shape))]
    return ops.permute(clone(ops.permute(g, order), "C"), back)


@primitive(
    meta=dense,
    tensors=2,
    grad={"x": lambda g: ops.zeros_like(g), "source": lambda g, source_shape: sum_to(g, source_shape)},
    name="copy",
    backward_name="torch::autograd::CopyBackwards",
    batch=leading,
    tangent=linear("x", "source"),
)
def copied(backend: Any, x: Any, source: Any) -> Any:
    """The functional form of `copy_`: `source` in the shape and dtype of `x`."""
    made = backend.xp.empty_like(x)
    made[...] = cast_array(source, _dtype_of(x)) if source.dtype != x.dtype else source
    return made


def _dtype_of(array: Any) -> dtype:
    return from_numpy_dtype(array.dtype)


def zero_(input: Tensor) -> Tensor:
    """Fills a tensor with zeros in place."""
    return ops.fill_(input, 0)


def add_in_place(held: Tensor, g: Tensor) -> None:
    ops.add_(held, g)


def clone_like(g: Tensor, leaf: Tensor) -> Tensor:
    """A first gradient of a leaf: a copy in the leaf's memory layout."""
    array = g._array
    if not (g._k or modes.on) and leaf._array.flags.c_contiguous:
        return wrap(row_major(array), g.dtype)
    if local.grad and (g._k | leaf._k) & ~CUDA == GRAD and g._k & GRAD and g.dtype is leaf.dtype:
        return copied(detached(leaf), g)
    made = clone_strided(g, leaf._array.shape, leaf._array.strides)
    if made._edge is None:
        made._view = None  # nobody else holds its memory
    return made


expose("to_dtype", to_dtype, None, None)
for _function in (fit_gradient, sum_to, clone_strided, zero_):
    setattr(ops, _function.__name__, _function)
engine.clone_like = clone_like
engine.add_in_place = add_in_place
engine.zeros = zeros

__all__ = ["bump", "check_writable", "clone", "in_dtype", "rewrite_history", "to_dtype", "zeros"]


SCHEMAS = """
to_dtype  # record=_to_copy
copy  # record=copy_
"""
