"""Norms over dimensions, distances, and scaling to a norm."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..._backend.copies import rows_of
from ..._core.dtypes import BY_NUMPY, COMPLEX, FLOATING, complex64, dtype, promote_types
from ..._core.sizes import wrap_dim, wrap_dims
from ..._kernel.folds.rows import Rows
from ..._tensor import Tensor, wrap
from ..records.batched_places import renormed
from ..records.batching import along
from ..records.primitive import primitive
from ..records.rules import not_implemented, type_name
from ..registry import labelled, older_forms, ops, public
from .folding import fold_array, reduced_shape
from .reduction import restore_dims
from .row_gradients import along_rows


def _power_norm(backend: Any, x: Any, p: float, dims: Any, keepdim: bool, d: dtype) -> Any:
    """(sum |x| ** p) ** (1 / p) for a general p."""
    own = BY_NUMPY[x.dtype]
    if own.wide is not own:
        x, own = x.astype(own.wide.numpy), own.wide
    powers = ops.pow(ops.abs(wrap(x, own, backend.bits)), p)
    total = wrap(fold_array(backend, powers._array, dims, keepdim, "sum", powers.dtype), powers.dtype, backend.bits)
    return ops.pow(total, 1.0 / p)._array.astype(d.numpy)


_FOLDS = {2.0: ("squares", "root"), 1.0: ("absolute", None), 0.0: ("count", None)}


# the gradient of a row's length, zero at the origin
_LENGTH = Rows((), lambda m, x, g, size, count: m.where(size == 0.0, 0.0, x / size) * g, fixed=2)


def _norm_grad(g: Tensor, x: Tensor, out: Tensor, p: float, dims: Any, keepdim: bool) -> Tensor | None:
    """Zero where the norm has a corner: at the origin, and for elements that are zero if p < 2."""
    made = along_rows("length_backward", _LENGTH, g, x, out, dims) if p == 2.0 else None
    if made is not None:
        return made
    g, out = restore_dims(g, dims, keepdim), restore_dims(out, dims, keepdim)
    if p == 0.0:
        return None
    if p == 1.0:
        return g * ops.sgn(x)
    if p == 2.0:
        return g * ops.masked_fill(x / out, ops.eq(out, 0), 0)
    size = ops.abs(x)
    if math.isinf(p):
        out = (ops.amax if p > 0 else ops.amin)(ops.detach(size), dims, True)
        same = ops.logical_or(ops.eq(size, out), ops.logical_and(ops.isnan(size), ops.isnan(out)))
        return ops.sgn(x) * same * (g / ops.sum(same, dims, True))
    if p < 1.0:
        return ops.masked_fill(ops.sgn(x) * ops.pow(size, p - 1), ops.eq(x, 0), 0) * g * ops.pow(out, 1 - p)
    none = ops.eq(out, 0)
    scale = ops.masked_fill(g / ops.pow(ops.masked_fill(out, none, 1), p - 1), none, 0)
    if p < 2.0:
        return ops.sgn(x) * ops.pow(size, p - 1) * scale
    return x * ops.pow(size, p - 2) * scale


@primitive(
    grad={"x": _norm_grad}, name="linalg_vector_norm",
    meta=lambda x, p, dims, keepdim: (reduced_shape(x.shape, dims, keepdim), BY_NUMPY[x.dtype].to_real()),
    batch=along,
)  # fmt: skip
def norm_op(backend: Any, x: Any, p: float, dims: tuple[int, ...], keepdim: bool) -> Any:
    d = BY_NUMPY[x.dtype].to_real()
    if p in _FOLDS:
        fold, how = _FOLDS[p]
        return fold_array(backend, x, dims, keepdim, fold, d, how)
    if math.isinf(p):
        return fold_array(backend, backend.xp.abs(x), dims, keepdim, "max" if p > 0 else "min", d)
    return _power_norm(backend, x, p, dims, keepdim, d)


def _order_name(p: float) -> str:
    return "inf" if p == math.inf else "-inf" if p == -math.inf else f"{p:g}"


@public("linalg.vector_norm", method=False, out="exact", planned=True)
def vector_norm(
    x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: dtype | None = None
) -> Tensor:
    """The p-norm of all elements, or over dimensions: (sum |x| ** p) ** (1 / p).

    >>> import flambeau as torch
    >>> torch.linalg.vector_norm(torch.tensor([3.0, 4.0]))
    tensor(5.)
    """
    d = x.dtype
    if d.category < FLOATING:
        raise RuntimeError(f"linalg.vector_norm: Expected a floating point or complex tensor, got {type_name(d)}")
    if dtype is not None:
        _check_norm_dtype(d, dtype)
        x = x if dtype is d else ops.to_dtype(x, dtype)
    elif not d.code:
        if d.category != COMPLEX:
            raise not_implemented("linalg_vector_norm", d)
        return ops.to_dtype(vector_norm(ops.to_dtype(x, complex64), ord, dim, keepdim), d.to_real())
    p = float(ord)
    shape = x._array.shape
    dims = wrap_dims(dim, len(shape))
    if x._array.size == 0 and (p < 0 or p == math.inf):
        if dim is None or (not hasattr(dim, "__index__") and not len(dim)):
            raise RuntimeError(
                f"linalg.vector_norm cannot compute the {_order_name(p)} norm on an empty tensor: it has no identity"
            )
        for i in dims:
            if shape[i] == 0:
                raise RuntimeError(
                    f"linalg.vector_norm cannot compute the {_order_name(p)} norm on the dimension {i}: it is empty, "
                    "and the norm has no identity"
                )
    return norm_op(x, p, dims, keepdim)


def _check_norm_dtype(own: dtype, wanted: dtype) -> None:
    if wanted.category < FLOATING:
        raise RuntimeError(f"linalg.vector_norm: dtype should be floating point or complex. Got {type_name(wanted)}")
    if (own.category == COMPLEX) != (wanted.category == COMPLEX):
        kinds = ("complex", "complex") if own.category == COMPLEX else ("real", "real")
        raise RuntimeError(
            f"linalg.vector_norm: dtype should be {kinds[0]} for {kinds[1]} inputs, but got {type_name(wanted)}"
        )
    if promote_types(own, wanted) is not wanted:
        raise RuntimeError(
            f"linalg.vector_norm: {type_name(own)} cannot be converted without narrowing to {type_name(wanted)}"
        )


@public(out="exact", planned=True)
def norm(input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: dtype | None = None) -> Tensor:
    """A vector norm of all elements or over dimensions; "fro" and "nuc" are norms of matrices.

    >>> import flambeau as torch
    >>> torch.norm(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), dim=1)
    tensor([5., 0.])
    """
    if isinstance(p, str):
        count = 1 if dim is None or hasattr(dim, "__index__") else len(dim)
        if p == "fro" and count <= 2:
            return vector_norm(input, 2, dim, keepdim, dtype=dtype)
        if dim is None:
            dim = (0, 1) if input._array.ndim == 2 else tuple(range(input._array.ndim))
        return ops.matrix_norm(input, p, dim, keepdim, dtype=dtype)
    return vector_norm(input, 2 if p is None else p, dim, keepdim, dtype=dtype)


def _out_by_place(args: tuple[Any, ...]) -> Any:
    """`torch.norm(input, p, dim, keepdim, out, dtype)`; the method has no place for `out`."""
    if len(args) > 4 and (args[4] is None or isinstance(args[4], Tensor)):
        return (*args[:4], *args[5:]), {"out": args[4]}
    return None


older_forms["norm"] = _out_by_place


@public(out=True, planned=True)
@labelled("DistBackward0")
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of the difference of two tensors.

    >>> import flambeau as torch
    >>> torch.dist(torch.tensor([1.0, 2.0]), torch.tensor([4.0, 6.0]))
    tensor(5.)
    """
    return vector_norm(input - other, p)


def _renorm_parts(x: Tensor, p: float, dim: int, limit: float) -> tuple[Any, ...]:
    """The norms of slices, where they are too large, and their factors; the dimensions that the norms go over."""
    others = tuple(i for i in range(x._array.ndim) if i != dim)
    size = norm_op(x, p, others, True)
    above = size > limit
    return size, above, ops.where(above, limit / (size + 1e-7), 1.0), others


def _renorm_grad(g: Tensor, x: Tensor, p: float, dim: int, limit: float) -> Tensor:
    size, above, factor, others = _renorm_parts(x, p, dim, limit)
    inner = ops.sum(ops.real(g * ops.conj(x)), others, True)
    return g * factor + _norm_grad(ops.where(above, -inner * factor / (size + 1e-7), 0.0), x, size, p, others, True)


@primitive(
    grad={"x": _renorm_grad}, name="renorm", meta=lambda x, p, dim, limit: (x.shape, BY_NUMPY[x.dtype]), batch=renormed
)
def renorm_op(backend: Any, x: Any, p: float, dim: int, limit: float) -> Any:
    xp = backend.xp
    others = tuple([i for i in range(x.ndim) if i != dim])
    wide = x.astype(xp.float32) if x.dtype.itemsize == 2 else x
    size = norm_op.forward(backend, wide, p, others, True)
    made = _limited(backend, wide.dtype, size.dtype)(wide, size, np.asarray(limit, size.dtype))
    return rows_of(made if made.dtype == x.dtype else made.astype(x.dtype))


@functools.cache
def _limited(backend: Any, d: Any, real: Any) -> Any:
    """x where its norm is within a limit, scaled down to it elsewhere."""

    def body(m: Any, x: Any, size: Any, limit: Any) -> Any:
        return x * m.where(size > limit, limit / (size + 1e-7), 1.0)

    types = BY_NUMPY[d].code, BY_NUMPY[real].code, BY_NUMPY[real].code
    return backend.pointwise("renorm", body, types, types[:1], types)


@public(out="exact", inplace=True, planned=True)
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """The tensor with every slice along `dim` scaled down to a p-norm of at most `maxnorm`.

    >>> import flambeau as torch
    >>> torch.renorm(torch.tensor([[3.0, 4.0], [0.6, 0.8]]), 2, 0, 1.0)
    tensor([[0.6000, 0.8000],
            [0.6000, 0.8000]])
    """
    if isinstance(p, complex) or p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    ndim = input._array.ndim
    if ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {ndim} dimensions")
    dim = wrap_dim(dim, ndim)
    if input.dtype.category < FLOATING:
        raise RuntimeError(f"renorm: expected a floating point or complex tensor, got {input.dtype}")
    return renorm_op(input, float(p), dim, float(maxnorm))


SCHEMAS = """
linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
norm.Scalar(Tensor self, Scalar p=2) -> Tensor  # python, autocast=cuda:single
norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor
norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) -> Tensor
norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor
norm.dtype_out(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype, Tensor(a!) out) -> Tensor(a!)
norm.out(Tensor self, Scalar? p, int[1] dim, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)
dist(Tensor self, Tensor other, Scalar p=2) -> Tensor  # autocast=cuda:single
renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor  # autocast=cuda:single
"""
