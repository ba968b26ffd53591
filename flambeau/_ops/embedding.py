"""Embedding: rows of a table by number, with a dense gradient that adds up the rows in order."""

from __future__ import annotations

from typing import Any

from .._core.dtypes import from_numpy_dtype, int32, int64
from .._core.state import CUDA, local
from .._dispatch import backend_of
from .._tensor import Tensor, wrap
from . import index_kernels as kernels
from .inplace import check_writable
from .primitive import primitive
from .registry import ops, public


@primitive(
    tensors=2, name="embedding",
    meta=lambda x, index, padding, scale: ((*index.shape, x.shape[1]), from_numpy_dtype(x.dtype)),
    grad={"x": lambda g, x_shape, index, padding, scale: embedding_backward(g, index, x_shape[0], padding, scale)},
)  # fmt: skip
def embedding_op(backend: Any, x: Any, index: Any, padding: int, scale: bool) -> Any:
    made = kernels.take_rows(backend, x, index.reshape(-1), 0)
    if made is None:
        raise IndexError("index out of range in self")
    return made.reshape(*index.shape, x.shape[1])


def _of_backward(g: Tensor, index: Tensor, padding: int, scale: bool) -> Tensor:
    rows = embedding_op(g, index, padding, scale)
    if padding >= 0:
        rows = ops.masked_fill(rows, ops.unsqueeze(ops.eq(index, padding), -1), 0)
    if scale:
        counts = backend_of(g._k).xp.bincount(index._array.reshape(-1), minlength=1)[index._array][..., None]
        rows = rows / wrap(counts.astype(g.dtype.numpy), g.dtype, index._k & CUDA)
    return rows


@primitive(
    tensors=2, name="embedding_backward", backward_name="EmbeddingBackwardBackward0",
    grad={"x": lambda g, index, padding, scale: _of_backward(g, index, padding, scale)},
)  # fmt: skip
def embedding_backward(backend: Any, x: Any, index: Any, count: int, padding: int, scale: bool) -> Any:
    """Rows of gradients added to the rows of the table they came from; those of `padding` are left out."""
    index = index.reshape(-1)
    rows = x.reshape(index.size, x.shape[-1])
    if scale:
        often = backend.xp.bincount(index, minlength=1)[index]
        rows = rows / often.astype(rows.dtype)[:, None]
    out = backend.xp.zeros((count, x.shape[-1]), x.dtype)
    kernels.update_rows(backend, out, 0, index, rows, "add")
    if padding >= 0:
        out[padding] = 0
    return out


def _renormalise(weight: Tensor, index: Tensor, max_norm: float, norm_type: float) -> None:
    """Shortens, in place, the rows in use that are longer than `max_norm`."""
    check_writable(ops.detach(weight))
    outer, local.grad = local.grad, False
    try:
        named = ops.unique(ops.reshape(index, (-1,)))
        rows = ops.index_select(weight, 0, named)
        norms = ops.norm(rows, norm_type, 1, True)
        shorter = ops.where(norms > max_norm, rows * (max_norm / (norms + 1e-7)), rows)
        ops.index_copy_(weight, 0, ops.to_dtype(named, int64), shorter)
    finally:
        local.grad = outer


@public("embedding", method=False)
def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """Rows of `weight` by number: `nn.functional.embedding` with the arguments the other way round."""
    if not isinstance(indices, Tensor):
        raise TypeError(f"embedding(): argument 'indices' (position 2) must be Tensor, not {type(indices).__name__}")
    if weight._array.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    if indices.dtype is not int64 and indices.dtype is not int32:
        raise RuntimeError(
            f"embedding: Expected tensor for argument #1 'indices' to be int32 or int64, got {indices.dtype}"
        )
    return embedding_op(weight, indices, padding_idx, scale_grad_by_freq)  # type: ignore[no-any-return]


@public("nn.functional.embedding", method=False)
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
