"""Other sizes for sparse tensors, copies in other sizes, and methods that PyTorch has taken away."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.layouts import sparse_coo
from ..._core.sizes import size_argument
from ..._core.state import SPARSE
from ..._errors.frames import warn_user
from ..._tensor import Tensor, bump
from ..registry import functions, methods, ops, public
from ..sparse.array import SparseArray
from ..sparse.tensors import to_sparse

# -- copies in another size --------------------------------------------------------------------------------------


@public("Tensor.resize")
def resize(self: Tensor, *sizes: Any) -> Tensor:
    """`resize_` of a copy."""
    warn_user("non-inplace resize is deprecated")
    return ops.resize_(ops.clone(self), *sizes)


@public("Tensor.resize_as")
def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """`resize_as_` of a copy."""
    warn_user("non-inplace resize_as is deprecated")
    return ops.resize_as_(ops.clone(self), tensor)


# -- sparse tensors ----------------------------------------------------------------------------------------------


@public("Tensor.to_sparse_coo")
def _to_sparse_coo(self: Tensor) -> Tensor:
    """The tensor in the layout of coordinates.

    >>> import flambeau as torch
    >>> torch.eye(2).to_sparse_coo().values()
    tensor([1., 1.])
    """
    return to_sparse(self, layout=sparse_coo)


methods["to_sparse_coo"] = methods.pop("_to_sparse_coo", _to_sparse_coo)


def _coordinates(name: str, t: Tensor) -> SparseArray:
    if not t._k & SPARSE or t._array.layout is not sparse_coo:
        raise NotImplementedError(f"{name}: expected a tensor of layout torch.sparse_coo, got {t.layout}")
    return t._array


def _check_dims(name: str, shape: tuple[int, ...], sparse_dim: int, dense_dim: int) -> None:
    if sparse_dim + dense_dim != len(shape):
        raise RuntimeError(
            f"{name}: number of dimensions must be sparse_dim ({sparse_dim}) + dense_dim ({dense_dim}), but got {len(shape)}"
        )


@public("Tensor.sparse_resize_")
def sparse_resize_(input: Tensor, size: Any, sparse_dim: int, dense_dim: int) -> Tensor:
    """Changes the size of a sparse tensor that has entries: it can only grow then."""
    array, shape = _coordinates("sparse_resize_", input), size_argument((size,))
    _check_dims("sparse_resize_", shape, sparse_dim, dense_dim)
    if not array.count:
        return sparse_resize_and_clear_(input, shape, sparse_dim, dense_dim)
    if sparse_dim != array.sparse_dim or dense_dim != array.dense_dim:
        raise RuntimeError(
            f"sparse_resize_: changing the number of sparse ({array.sparse_dim}) or dense ({array.dense_dim}) dimensions "
            "of a tensor with entries is not supported"
        )
    if any(new < old for new, old in zip(shape, array.shape)):
        raise RuntimeError(
            f"sparse_resize_: shrinking {array.shape} to {shape} is not supported, the tensor has entries"
        )
    dense = shape[sparse_dim:]
    if dense != array.values.shape[1:]:
        grown = np.zeros((array.count, *dense), array.values.dtype)
        grown[tuple(slice(n) for n in array.values.shape)] = array.values
        array.values = grown
    array.shape = shape
    bump(input)
    return input


@public("Tensor.sparse_resize_and_clear_")
def sparse_resize_and_clear_(input: Tensor, size: Any, sparse_dim: int, dense_dim: int) -> Tensor:
    """Changes the size of a sparse tensor and takes all its entries away."""
    array, shape = _coordinates("sparse_resize_and_clear_", input), size_argument((size,))
    _check_dims("sparse_resize_and_clear_", shape, sparse_dim, dense_dim)
    array.index = np.zeros((sparse_dim, 0), np.int64)
    array.values = np.zeros((0, *shape[sparse_dim:]), array.values.dtype)
    array.shape, array.coalesced = shape, True
    bump(input)
    return input


@public("resize_as_sparse_")
def resize_as_sparse_(input: Tensor, the_template: Tensor) -> Tensor:
    """Gives a sparse tensor the size of another one."""
    like = _coordinates("resize_as_sparse_", the_template)
    return sparse_resize_(input, like.shape, like.sparse_dim, like.dense_dim)


@public("Tensor.sspaddmm")
def sspaddmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2) with `input` and the result sparse."""
    _coordinates("sspaddmm", input)
    return to_sparse(beta * input.to_dense() + alpha * ops.mm(mat1, mat2))


# -- taken away --------------------------------------------------------------------------------------------------


def _removed(name: str, instead: str) -> None:
    def removed(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"This function was deprecated since version 1.9 and is now removed: use {instead} instead of {name}."
        )

    removed.__name__ = removed.__qualname__ = name
    removed.__doc__ = f"Removed: use {instead}."
    functions[name] = removed
    if name != "matrix_rank":
        methods[name] = removed


for _name, _instead in (
    ("eig", "torch.linalg.eig"), ("symeig", "torch.linalg.eigh"), ("lstsq", "torch.linalg.lstsq"),
    ("solve", "torch.linalg.solve"), ("matrix_rank", "torch.linalg.matrix_rank"),
):  # fmt: skip
    _removed(_name, _instead)


SCHEMAS = """
resize(Tensor self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor
resize_as(Tensor self, Tensor the_template, *, MemoryFormat? memory_format=None) -> Tensor
sparse_resize_|sparse_resize_and_clear_(Tensor(a!) self, int[] size, int sparse_dim, int dense_dim) -> Tensor(a!)
resize_as_sparse_(Tensor(a!) self, Tensor the_template) -> Tensor(a!)
sspaddmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
"""
