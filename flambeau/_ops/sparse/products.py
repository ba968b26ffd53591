"""Products of sparse tensors, by native kernels over their entries, and what lives under `torch.sparse`."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from ..._backend import threads
from ..._backend.cpu import cpu
from ..._core.dtypes import BY_NUMPY, dtype, int64
from ..._core.layouts import sparse_coo, sparse_csc, sparse_csr
from ..._core.sizes import wrap_dim, wrap_dims
from ..._kernel.loops.lang import independent, kernel
from ..._tensor import Tensor
from ..basic import in_dtype
from ..linear.matmul import not_multiplicable
from ..records.casting import checked_number
from ..records.primitive import primitive
from ..records.shape_rules import dtype_of
from ..registry import ops, public
from .array import BLOCKED, SparseArray, linear, starts_of
from .operations import layout_in, rule
from .tensors import (
    coalesce,
    coo_places,
    index_tensor,
    is_sparse,
    layout_of,
    rebuild,
    to_sparse,
    to_sparse_coo,
    values_of,
)

# -- products ----------------------------------------------------------------------------------------------------


@kernel("(),(),(k),(k),(n,w)->(w)")
def row_products(m: Any, start: Any, stop: Any, columns: Any, values: Any, y: Any, out: Any) -> None:
    """One row of a CSR matrix times y, added to `out`."""
    if out.n == 1:
        total = out[0]
        for e in range(start[()], stop[()]):
            j = columns[e]
            if (j >= 0) & (j < y.shape[0]):
                total = total + values[e] * y[j, 0]
        out[0] = total
    else:
        for e in range(start[()], stop[()]):
            j = columns[e]
            if (j >= 0) & (j < y.shape[0]):
                v = values[e]
                for c in independent(out.n):
                    out[c] = out[c] + v * y[j, c]


@kernel("(k),(k),(k),(n,w)->(r,w)")
def entry_products(m: Any, rows: Any, columns: Any, values: Any, y: Any, out: Any) -> None:
    """COO entries in any order times y, added to `out`."""
    for e in range(rows.n):
        i, j = rows[e], columns[e]
        if (j >= 0) & (j < y.shape[0]) & (i >= 0) & (i < out.shape[0]):
            v = values[e]
            for c in independent(y.n):
                out[i, c] = out[i, c] + v * y[j, c]


@kernel("(),(),(r,w),(n,w)->()")
def sampled_dots(m: Any, row: Any, column: Any, x: Any, y: Any, out: Any, type: Any) -> None:
    """The dot product of one row of x with one row of y."""
    i, j = row[()], column[()]
    total = m.value(0, type)
    if (i >= 0) & (i < x.shape[0]) & (j >= 0) & (j < y.shape[0]):
        for c in range(x.n):
            total = total + x[i, c] * y[j, c]
    out[()] = total


class Places:
    """Rows and columns of a sparse matrix's entries, with the starts of its rows where they are sorted and known."""

    __slots__ = ("_rows", "columns", "shape", "starts")

    def __init__(self, rows: Any, columns: Any, shape: Any, starts: Any = None):
        self._rows, self.columns, self.shape, self.starts = rows, columns, shape, starts

    @property
    def rows(self) -> Any:
        if self._rows is None:
            self._rows = np.repeat(np.arange(self.shape[0]), np.diff(self.starts))
        return self._rows

    def turned(self) -> Places:
        return Places(self.columns, self.rows, self.shape[::-1])


def _places(array: SparseArray, across: int = 1) -> Places:
    """Where the entries are; for a product with so many columns that threads pay for, with the starts of rows."""
    if array.layout is sparse_coo:
        rows, columns = array.index
        sorted_ = array.coalesced and threads.pay(len(rows) * across)
        return Places(rows, columns, array.shape[:2], starts_of(rows, array.shape[0]) if sorted_ else None)
    if array.layout is sparse_csr and len(array.shape) == 2:
        starts, columns = (a.astype(np.int64, copy=False) for a in array.index)
        return Places(None, columns, array.shape, starts)
    rows, columns = coo_places(array).index
    return Places(rows, columns, array.shape[:2], array.index[0] if array.layout is sparse_csr else None)


def _wide(array: Any) -> Any:
    """16-bit floats multiply in float32."""
    return array.astype(np.float32) if array.dtype.itemsize == 2 and array.dtype.kind not in "iu" else array


@primitive(
    meta=lambda x, y, places: ((places.shape[0], y.shape[1]), dtype_of(y)),
    tensors=2, name="sparse_product",
    grad={
        "x": lambda g, y, places: sampled_op(g, ops.conj(y), places),
        "y": lambda g, x, places: product_op(ops.conj(x), g, places.turned()),
    },
)  # fmt: skip
def product_op(backend: Any, x: Any, y: Any, places: Places) -> Any:
    """The sparse matrix with values x times the dense y."""
    held, wide = _wide(x), np.ascontiguousarray(_wide(y))
    made = np.zeros((places.shape[0], y.shape[1]), wide.dtype)
    code = BY_NUMPY[wide.dtype].code
    if places.starts is not None:
        work, starts = max(len(held), 1) * y.shape[1], places.starts
        call = cpu.sized(work, row_products, ("i64", "i64", "i64", code, code, code))
        if len(made):
            call(starts[:-1], starts[1:], places.columns, held, wide, made)
    else:
        call = cpu.small(entry_products, ("i64", "i64", code, code, code))  # which writes some places twice: no threads
        call(places.rows, places.columns, held, wide, made)
    return made.astype(y.dtype) if made.dtype != y.dtype else made


@primitive(
    meta=lambda x, y, places: ((len(places.rows),), dtype_of(x)),
    tensors=2, name="sparse_sampled_product",
    grad={
        "x": lambda g, y, places: product_op(g, ops.conj(y), places),
        "y": lambda g, x, places: product_op(g, ops.conj(x), places.turned()),
    },
)  # fmt: skip
def sampled_op(backend: Any, x: Any, y: Any, places: Places) -> Any:
    """The dot products of rows of x with rows of y, one for each place."""
    left, right = _wide(x), _wide(y)
    made = np.empty(len(places.rows), left.dtype)
    code = BY_NUMPY[left.dtype].code
    call = cpu.kernel(sampled_dots, ("i64", "i64", code, code, code), type=code)
    call(places.rows, places.columns, left, right, made)
    return made.astype(x.dtype) if made.dtype != x.dtype else made


def _check_product(name: str, x: Tensor, y: Tensor) -> None:
    for t in (x, y):
        if is_sparse(t) and t._array.layout is sparse_coo and t._array.sparse_dim != 2:
            raise RuntimeError(f"{name}: matrices expected, got {t._array.sparse_dim}D tensor")
    left, right = x._array.shape, y._array.shape
    if len(left) == len(right) == 2 and left[1] != right[0]:
        raise not_multiplicable(*left, *right)
    if len(left) != 2 or len(right) not in (1, 2) or left[1] != right[0]:
        raise RuntimeError(f"{name}: shapes cannot be multiplied ({list(left)} and {list(right)})")
    if x.dtype is not y.dtype:
        raise RuntimeError(f"{name}: expected operands of one dtype, got {x.dtype} and {y.dtype}")


def product(x: Tensor, y: Tensor, name: str = "mm") -> Tensor:
    """The product of two matrices of which one or both are sparse."""
    _check_product(name, x, y)
    if is_sparse(x) and is_sparse(y):
        return _sparse_product(x, y)
    if not is_sparse(x):
        return ops.t(product(ops.t(y), ops.t(x), name))
    x = to_sparse_coo(x) if x._array.layout in BLOCKED else x
    return product_op(values_of(x), y, _places(x._array, y._array.shape[1]))


def _sparse_product(x: Tensor, y: Tensor) -> Tensor:
    """Every entry of x meets the entries of a row of y; equal places add up."""
    kind = layout_of(x) if layout_of(x) not in BLOCKED else sparse_csr
    x, y = coalesce(to_sparse_coo(x)), coalesce(to_sparse_coo(y))
    rows, inner = x._array.index
    starts = np.searchsorted(y._array.index[0], inner)
    counts = np.searchsorted(y._array.index[0], inner, "right") - starts
    left = np.repeat(np.arange(len(inner)), counts)
    first = np.cumsum(counts) - counts
    right = np.arange(len(left)) - np.repeat(first - starts, counts)
    index = np.stack([rows[left], y._array.index[1][right]])
    held = ops.mul(
        ops.index_select(values_of(x), 0, index_tensor(left)), ops.index_select(values_of(y), 0, index_tensor(right))
    )
    shape = (x.shape[0], y.shape[1])
    return to_sparse(coalesce(rebuild(held, SparseArray(sparse_coo, index, held._array, shape))), layout=kind)


@rule("mm")
def _mm(op: Any, x: Tensor, y: Tensor) -> Tensor:
    return product(x, y)


@rule("bmm")
def _bmm(op: Any, x: Tensor, y: Tensor) -> Tensor:
    """The matrices of a batch as blocks on the diagonal of one matrix."""
    if not is_sparse(x) or is_sparse(y):
        raise NotImplementedError("bmm: only a sparse batch times a dense one is implemented")
    x = to_sparse_coo(x)
    array = x._array
    if array.sparse_dim != 3:
        raise RuntimeError(f"bmm: expected a tensor of 3 sparse dimensions, got {array.sparse_dim}")
    (batch, rows, columns), (count, n, m) = array.index, array.shape
    places = Places(batch * n + rows, batch * m + columns, (count * n, count * m))
    made = product_op(values_of(x), ops.reshape(y, (count * m, -1)), places)
    return ops.reshape(made, (count, n, y.shape[2]))


@rule("linear")
def _linear(op: Any, x: Tensor, bias: Tensor | None, weight: Tensor) -> Tensor:
    one = x.ndim == 1
    made = product(ops.unsqueeze(x, 0) if one else x, ops.t(weight), "linear")
    made = ops.squeeze(made, 0) if one else made
    return made if bias is None else ops.add(made, bias)


@rule("mv", "matmul")
def _mv(op: Any, x: Tensor, y: Tensor) -> Tensor:
    if x.ndim == 1 and y.ndim == 2:
        return ops.squeeze(product(ops.unsqueeze(x, 0), y), 0)
    if x.ndim != 2 or y.ndim != 1:
        raise NotImplementedError(
            f"{op.name}: not implemented for tensors of layout {layout_in((x, y))} of these ranks"
        )
    _check_product(op.name, x, y)
    return ops.squeeze(product(x, ops.unsqueeze(y, 1)), 1)


@rule("addmm")
def _addmm(op: Any, c: Tensor, x: Tensor, y: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
    return _scaled_sum(c, product(x, y, "addmm"), beta, alpha)


@rule("addmv")
def _addmv(op: Any, c: Tensor, x: Tensor, y: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
    return _scaled_sum(c, _mv(op, x, y), beta, alpha)


def _scaled_sum(c: Tensor, made: Tensor, beta: Any, alpha: Any) -> Tensor:
    made = made if alpha == 1 else ops.mul(made, checked_number(alpha, made.dtype))
    return made if beta == 0 else ops.add(c if beta == 1 else ops.mul(c, checked_number(beta, c.dtype)), made)


@public("sparse.mm", method=False)
def sparse_mm(mat1: Tensor, mat2: Tensor, reduce: str | None = None) -> Tensor:
    """The product of a sparse matrix with a matrix; `reduce` says how products in a row meet (sum, mean, amax, amin).

    >>> import flambeau as torch
    >>> torch.sparse.mm(torch.eye(2).to_sparse(), torch.ones(2, 2))
    tensor([[1., 1.],
            [1., 1.]])
    """
    if reduce is None or reduce == "sum":
        return product(mat1, mat2, "sparse.mm")
    if reduce not in ("mean", "amax", "amin"):
        raise RuntimeError(f"sparse.mm: reduce must be sum, mean, amax or amin, got {reduce!r}")
    if layout_of(mat1) is not sparse_csr or is_sparse(mat2):
        raise RuntimeError("sparse.mm: reduce expects a CSR matrix and a dense one")
    _check_product("sparse.mm", mat1, mat2)
    places = _places(mat1._array)
    if reduce == "mean":
        counts = np.maximum(np.diff(mat1._array.index[0]), 1)
        return ops.div(product(mat1, mat2), ops.unsqueeze(index_tensor(counts), 1))
    products = ops.mul(ops.unsqueeze(values_of(mat1), 1), ops.index_select(mat2, 0, index_tensor(places.columns)))
    rows = ops.expand(index_tensor(places.rows).reshape(-1, 1), products.shape)
    empty = ops.zeros((mat1.shape[0], mat2.shape[1]), dtype=mat1.dtype)
    return ops.scatter_reduce(empty, 0, rows, products, reduce, include_self=False)


@public()
def smm(input: Tensor, mat: Tensor) -> Tensor:
    """The product of a sparse matrix with a dense one, as a sparse matrix."""
    return to_sparse(product(input, mat, "smm"))


@public("sparse.addmm", method=False)
def sparse_addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0) -> Tensor:
    """beta * mat + alpha * (mat1 @ mat2), where mat1 is sparse."""
    return _addmm(None, mat, mat1, mat2, beta, alpha)


@public("sparse.sampled_addmm", method=False, out=True)
def sampled_addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2), computed only where the CSR matrix `input` has entries."""
    if layout_of(input) is not sparse_csr:
        raise RuntimeError(f"sampled_addmm: expected input of layout torch.sparse_csr, got {layout_of(input)}")
    if is_sparse(mat1) or is_sparse(mat2):
        raise RuntimeError("sampled_addmm: expected dense factors")
    if mat1.ndim != 2 or mat2.ndim != 2 or (*mat1.shape[:1], *mat2.shape[1:]) != tuple(input.shape):
        raise RuntimeError(
            f"sampled_addmm: {list(mat1.shape)} times {list(mat2.shape)} does not give {list(input.shape)}"
        )
    _check_product("sampled_addmm", mat1, mat2)
    sampled = sampled_op(mat1, ops.t(mat2), _places(input._array))
    held = ops.add(ops.mul(values_of(input), beta), ops.mul(sampled, alpha))
    return rebuild(held, input._array)


# -- sums and softmax under torch.sparse -------------------------------------------------------------------------


@public("sparse.sum", method=False)
def sparse_sum(input: Tensor, dim: Any = None, dtype: dtype | None = None) -> Tensor:
    """The sum of a sparse tensor over dimensions (all by default); sparse while sparse dimensions remain."""
    if not is_sparse(input):
        raise RuntimeError("sparse.sum: expected a sparse tensor")
    if dim is None or len(wrap_dims(dim, input.ndim)) == input.ndim:
        held = values_of(input)  # unlike those of `sum`, gradients are those of the entries
        return ops.sum(held if dtype is None else in_dtype(held, dtype))
    return ops.sum(input, dim, dtype=dtype)


def _entries_softmax(name: str, input: Tensor, dim: int, d: dtype | None, log: bool) -> Tensor:
    if layout_of(input) is not sparse_coo:
        raise RuntimeError(f"sparse.{name}: expected a COO tensor, got {layout_of(input)}")
    x = coalesce(input)
    array, dim = x._array, wrap_dim(dim, input.ndim)
    held = values_of(x) if d is None else in_dtype(values_of(x), d)
    n = array.sparse_dim
    if dim >= n:
        made = (ops.log_softmax if log else ops.softmax)(held, dim - n + 1)
        return rebuild(made, array)
    rest = tuple(m for i, m in enumerate(array.shape[:n]) if i != dim)
    _, group = np.unique(linear(np.delete(array.index, dim, axis=0), rest), return_inverse=True)
    count = int(group.max()) + 1 if group.size else 0
    where = index_tensor(group.reshape(-1).astype(np.int64))
    wide = ops.expand(where.reshape((-1,) + (1,) * (held.ndim - 1)), held.shape)
    floor = ops.full((count, *held.shape[1:]), -inf, dtype=held.dtype)
    top = ops.scatter_reduce(floor, 0, wide, ops.detach(held), "amax")
    shifted = ops.sub(held, ops.index_select(top, 0, where))
    powers = ops.exp(shifted)
    totals = ops.index_select(ops.index_add(ops.zeros(floor.shape, dtype=held.dtype), 0, where, powers), 0, where)
    return rebuild(ops.sub(shifted, ops.log(totals)) if log else ops.div(powers, totals), array)


@public("sparse.softmax", method=False)
def sparse_softmax(input: Tensor, dim: int, *, dtype: dtype | None = None) -> Tensor:
    """Softmax over the entries that a COO tensor has; missing ones count as -inf."""
    return _entries_softmax("softmax", input, dim, dtype, False)


@public("sparse.log_softmax", method=False)
def sparse_log_softmax(input: Tensor, dim: int, *, dtype: dtype | None = None) -> Tensor:
    """The logarithm of `sparse.softmax`."""
    return _entries_softmax("log_softmax", input, dim, dtype, True)


@public("sparse.spdiags", method=False)
def spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, layout: Any = None) -> Tensor:
    """A sparse matrix with the rows of `diagonals` on the diagonals with these offsets."""
    if diagonals.ndim not in (1, 2):
        raise RuntimeError(f"spdiags: Diagonals must be vector or matrix, got {diagonals.ndim} dimensions")
    diagonals = diagonals if diagonals.ndim == 2 else ops.unsqueeze(diagonals, 0)
    steps = ops.atleast_1d(offsets)._array
    if len(shape) != 2:
        raise RuntimeError(f"spdiags: Output shape must be 2d, got {list(shape)}")
    if steps.ndim != 1:
        raise RuntimeError(f"spdiags: Offsets must be scalar or vector, got {steps.ndim} dimensions")
    if len(diagonals) != len(steps):
        raise RuntimeError(
            f"spdiags: Number of diagonals ({len(diagonals)}) does not match the number of offsets ({len(steps)})"
        )
    if offsets.dtype is not int64:
        raise RuntimeError(f"spdiags: Offset Tensor must have dtype Long but got {offsets.dtype}")
    if len(np.unique(steps)) != len(steps):
        raise RuntimeError(f"spdiags: Offset tensor contains duplicate values: {steps.tolist()}")
    if layout not in (None, sparse_coo, sparse_csr, sparse_csc):
        raise RuntimeError(f"spdiags: Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got {layout}")
    columns = np.broadcast_to(np.arange(diagonals.shape[1]), diagonals.shape)
    rows = columns - steps[:, None]
    kept = (rows >= 0) & (rows < shape[0]) & (columns < shape[1])
    held = ops.index_select(ops.reshape(diagonals, (-1,)), 0, index_tensor(np.flatnonzero(kept)))
    index = np.stack([rows[kept], columns[kept]]).astype(np.int64)
    made = rebuild(held, SparseArray(sparse_coo, index, held._array, tuple(shape)))
    return made if layout is None else to_sparse(made, layout=layout)


SCHEMAS = """
smm(Tensor self, Tensor mat2) -> Tensor
"""
