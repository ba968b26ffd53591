"""Embedding: rows of a table by number, with a dense gradient that adds up the rows in order."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..._backend.cpu import cpu
from ..._backend.threads import parts_of
from ..._core.allocation import empty, not_planned
from ..._core.dtypes import BY_NUMPY, float64, from_numpy_dtype, int32, int64
from ..._core.layouts import is_flat
from ..._core.state import CUDA, DUAL, local
from ..._dispatch import backend_of
from ..._kernel.places.embedding import sum_rows, sum_rows_flat
from ..._tensor import Tensor, detached, wrap
from ..records.batched_places import looked_up, looked_up_backward
from ..records.casting import cast_array
from ..records.primitive import primitive
from ..records.shape_rules import dtype_of
from ..records.tangents import linear
from ..records.writable import check_writable
from ..registry import ops, public
from . import device_places
from . import index_kernels as kernels

_OUT_OF_RANGE = "index out of range in self"


# -- arrays --------------------------------------------------------------------------------------------------------


@functools.cache
def _sum_kernel(index: Any, g: Any, flat: bool) -> Any:
    code = BY_NUMPY[g].code
    return cpu.kernel(sum_rows_flat if flat else sum_rows, (BY_NUMPY[index].code, code, "i64", "i64", code))


def _summed(g: Any, index: Any, count: int, padding: int) -> Any:
    """Rows of gradients added up for each row of the table; every thread fills a part of the table."""
    names = index.reshape(-1)
    width = g.shape[-1]
    flat = is_flat(g) and g.size > 0
    rows = g.reshape(-1)[:1].reshape(()) if flat else g.reshape(names.size, width)
    out = empty((count, width), g.dtype)
    call = _sum_kernel(index.dtype, g.dtype, flat)
    skipped = np.asarray(padding, np.int64)
    parts = parts_of(count, out.size + g.size)
    cpu.side_by_side(call, [
        [names, rows, np.asarray(low, np.int64), skipped, out[low:high]] for low, high in parts
    ])  # fmt: skip
    return out


# -- records -------------------------------------------------------------------------------------------------------


@primitive(
    tensors=2, name="embedding",
    meta=lambda x, index, padding, scale, sparse: ((*index.shape, x.shape[1]), from_numpy_dtype(x.dtype)),
    grad={"x": lambda g, x_shape, index, padding, scale, sparse: _back(g, index, x_shape[0], padding, scale, sparse)},
    batch=looked_up,
    tangent=linear("x"),
)  # fmt: skip
def embedding_op(backend: Any, x: Any, index: Any, padding: int, scale: bool, sparse: bool) -> Any:
    made = kernels.take_rows(backend, x, index.reshape(-1), 0)
    if made is None:
        raise IndexError(_OUT_OF_RANGE)
    return made.reshape(*index.shape, x.shape[1])


def _back(g: Tensor, index: Tensor, count: int, padding: int, scale: bool, sparse: bool) -> Tensor:
    if sparse and scale:
        raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients")
    if sparse:
        return _sparse_gradient(g, index, count, padding)
    return embedding_backward(g, index, count, padding, scale)


def _sparse_gradient(g: Tensor, index: Tensor, count: int, padding: int) -> Tensor:
    """The rows of the gradient with their numbers, as a sparse tensor."""
    width = g._array.shape[-1]
    names = ops.reshape(index, (-1,))
    rows = ops.reshape(g, (names._array.size, width))
    if padding >= 0:
        kept = ops.squeeze(ops.nonzero(ops.ne(names, padding)), 1)
        names, rows = ops.index_select(names, 0, kept), ops.index_select(rows, 0, kept)
    names = ops.unsqueeze(ops.to_dtype(names, int64), 0)
    return ops.sparse_coo_tensor(names, rows, (count, width))


def _of_backward(g: Tensor, index: Tensor, padding: int, scale: bool) -> Tensor:
    rows = embedding_op(g, index, padding, scale, False)
    if padding >= 0:
        rows = ops.masked_fill(rows, ops.unsqueeze(ops.eq(index, padding), -1), 0)
    if scale:
        counts = backend_of(g._k).xp.bincount(index._array.reshape(-1), minlength=1)[index._array][..., None]
        rows = rows / wrap(counts.astype(g.dtype.numpy), g.dtype, index._k & CUDA)
    return rows


@primitive(
    meta=lambda x, index, count, *rest: ((count, x.shape[-1]), dtype_of(x)),
    tensors=2, name="embedding_backward", backward_name="EmbeddingBackwardBackward0",
    grad={"x": lambda g, index, padding, scale: _of_backward(g, index, padding, scale)},
    batch=looked_up_backward,
    tangent=linear("x"),
)  # fmt: skip
def embedding_backward(backend: Any, x: Any, index: Any, count: int, padding: int, scale: bool) -> Any:
    """Rows of gradients added to the rows of the table they came from; those of `padding` are left out."""
    if kernels.first_outside(backend, index, 0, count, noted=True) is not None:
        raise IndexError(_OUT_OF_RANGE)  # a program that wants the gradient alone does not look up anything
    if scale:
        often = backend.xp.bincount(index.reshape(-1), minlength=1)[index]
        x = x / often.astype(x.dtype)[..., None]
    if backend is cpu:
        return _summed(x, index, count, padding)
    halves = x.dtype.itemsize == 2  # which are added in single precision
    out = backend.zeros((count, x.shape[-1]), np.dtype(np.float32) if halves else x.dtype)
    places = device_places.fancy(backend, out, [index], [0], index.shape, 0)
    device_places.write(backend, out, places._replace(from_end=False), x, "add")
    if padding >= 0:
        out[padding].fill(0)
    return cast_array(out, from_numpy_dtype(x.dtype)) if halves else out


def _renormalise(weight: Tensor, index: Tensor, max_norm: float, norm_type: float) -> None:
    """Shortens, in place, the rows in use that are longer than `max_norm`; tangents stay as they are."""
    not_planned()
    check_writable(ops.detach(weight))
    outer, local.grad = local.grad, False
    try:
        if weight._k & DUAL:
            weight = detached(weight)
        named = ops.unique(ops.reshape(index, (-1,)))
        rows = ops.index_select(weight, 0, named)
        norms = ops.to_dtype(ops.norm(rows, norm_type, 1, True), float64)  # in single precision the 1e-7 would be lost
        scale = ops.to_dtype(max_norm / (norms + 1e-7), rows.dtype)
        shorter = ops.where(norms > max_norm, rows * scale, rows)
        ops.index_copy_(weight, 0, ops.to_dtype(named, int64), shorter)
    finally:
        local.grad = outer


@public("embedding", method=False, planned=True)
def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """Rows of `weight` by number: `nn.functional.embedding` with the arguments the other way round."""
    if weight._array.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    if indices.dtype is not int64 and indices.dtype is not int32:
        raise RuntimeError(
            "embedding: Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; "
            f"but got {indices.type()} instead"
        )
    return embedding_op(weight, indices, padding_idx, scale_grad_by_freq, sparse)


@public("nn.functional.embedding", method=False, planned=True)
def functional_embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """The rows of a table `weight` that `input` names by number.

    The row `padding_idx` gets no gradient; rows longer than `max_norm` are shortened in place first; with
    `scale_grad_by_freq` gradients are divided by how often their row occurs.

    >>> import flambeau as torch
    >>> torch.nn.functional.embedding(torch.tensor([1, 0]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[3., 4.],
            [1., 2.]])
    """
    if padding_idx is None:
        padding_idx = -1
    else:
        count = weight._array.shape[0]
        if not -count <= padding_idx < count:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= count
    if max_norm is not None:
        _renormalise(weight, input, max_norm, norm_type)
    return embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


@public(method=False)
def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Rows that `indices` name and whose norm is above max_norm are made that long, in place."""
    _renormalise(input, indices, max_norm, norm_type)
    return input


SCHEMAS = """
embedding_renorm_(Tensor(a!) self, Tensor indices, float max_norm, float norm_type) -> Tensor(a!)
embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor  # autocast=whole
embedding_backward  # record=embedding_dense_backward
"""
