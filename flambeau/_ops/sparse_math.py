"""Operations on sparse tensors: the rules by which records run on them, products, sums and softmax.

An operation without a rule raises and names itself and the layout; nothing becomes dense unasked.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np

from .. import _dispatch
from .._autograd import engine
from .._backend.cpu import cpu
from .._core.dtypes import BY_NUMPY, dtype
from .._core.layouts import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from .._core.sizes import wrap_dim
from .._core.state import GRAD, SPARSE
from .._kernel.lang import independent, kernel
from .._tensor import Tensor
from .primitive import primitive
from .registry import ops, public
from .sparse import (
    coalesce, coo_places, index_tensor, is_sparse, layout_of, rebuild, rebuild_op, to_dense, to_sparse, to_sparse_coo,
    values_at, values_of,
)  # fmt: skip
from .sparse_array import BLOCKED, SparseArray, linear, starts_of

rules: dict[str, Callable[..., Any]] = {}  # by the record's name

# Of these, zero stays zero; the second row is also right for values that are still to be added up.
_KEEP_ZERO = """abs sin tan asin atan sinh tanh asinh atanh sqrt ceil floor round trunc frac sign sgn relu expm1 log1p
    erf erfinv isnan isinf isposinf isneginf signbit square nan_to_num""".split()
_LINEAR = "neg deg2rad rad2deg conj".split()


def handle(op: Any, args: tuple[Any, ...], k: int) -> Any:
    """Runs an operation that was given a sparse tensor."""
    if op is values_of or op is rebuild_op:
        return NotImplemented
    rule = rules.get(op.name.removesuffix("_wide"))
    if rule is not None:
        return rule(op, *args)
    raise NotImplementedError(f"{op.name}: not implemented for tensors of layout {_layout_in(args)}")


def _layout_in(args: Any) -> Any:
    return next(layout_of(t) for t in _dispatch.tensors_in(args) if is_sparse(t))


def rule(*names: str) -> Callable[[Any], Any]:
    def decorate(function: Any) -> Any:
        for name in names:
            rules[name] = function
        return function

    return decorate


def _settled(t: Tensor) -> Tensor:
    return coalesce(t) if t._array.layout is sparse_coo else t


@rule(*_KEEP_ZERO)
def _on_values(op: Any, x: Tensor, *static: Any) -> Tensor:
    x = _settled(x)
    return rebuild(op.call(values_of(x), *static), x._array)


@rule(*_LINEAR, "to_dtype", "positive", "imag", "real")
def _on_entries(op: Any, x: Tensor, *static: Any) -> Tensor:
    return rebuild(op.call(values_of(x), *static), x._array)


@rule("clone")
def _clone(op: Any, x: Tensor, *order: Any) -> Tensor:
    return rebuild(op.call(values_of(x), "C"), x._array)


# -- arithmetic --------------------------------------------------------------------------------------------------


def _is_number(t: Any) -> bool:
    return not isinstance(t, Tensor) or (not t._k & SPARSE and t.ndim == 0)


@rule("mul")
def _mul(op: Any, x: Any, y: Any) -> Tensor:
    if not is_sparse(x):
        x, y = y, x
    if _is_number(y):
        return rebuild(ops.mul(values_of(x), y), x._array)
    if x.shape != y.shape:
        raise RuntimeError(f"mul: sizes of sparse operands must agree, got {list(x.shape)} and {list(y.shape)}")
    if is_sparse(y) and x._array.layout is not y._array.layout:
        raise RuntimeError(f"mul: layouts differ: {layout_of(x)} and {layout_of(y)}")
    x = _settled(x)
    if not is_sparse(y) or x._array.layout in BLOCKED:
        return rebuild(ops.mul(values_of(x), values_at(y, x._array)), x._array)
    y = _settled(y)
    if x._array.same_places(y._array):
        return rebuild(ops.mul(values_of(x), values_of(y)), x._array)
    kind = layout_of(x)
    x, y = to_sparse_coo(x), to_sparse_coo(y)
    lead = x.shape[: x._array.sparse_dim]
    both = np.flatnonzero(np.isin(linear(x._array.index, lead), linear(y._array.index, lead)))
    index = np.ascontiguousarray(x._array.index[:, both])
    left = ops.index_select(values_of(x), 0, index_tensor(both))
    places = SparseArray(sparse_coo, index, left._array, x._array.shape, True)
    return to_sparse(rebuild(ops.mul(left, values_at(y, places)), places), layout=kind)


@rule("div", "true_divide", "floor_divide")
def _div(op: Any, x: Any, y: Any) -> Tensor:
    if not is_sparse(x) or not _is_number(y):
        raise RuntimeError(f"{op.name}: a sparse tensor can only be divided by a number")
    return rebuild(op.call(values_of(x), y), x._array)


@rule("pow")
def _pow(op: Any, x: Any, y: Any) -> Tensor:
    if not is_sparse(x) or isinstance(y, Tensor) or y == 0:
        raise RuntimeError("pow: a sparse tensor can only be raised to a number other than zero")
    x = _settled(x)
    return rebuild(ops.pow(values_of(x), y), x._array)


@rule("add")
def _add(op: Any, x: Any, y: Any) -> Tensor:
    if not is_sparse(x):
        return _add_to_dense(x, y)
    if not is_sparse(y):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if x.shape != y.shape:
        raise RuntimeError(f"add: sizes of sparse operands must agree, got {list(x.shape)} and {list(y.shape)}")
    if x._array.same_places(y._array):
        return rebuild(ops.add(values_of(x), values_of(y)), x._array)
    kind = layout_of(x)
    x, y = to_sparse_coo(x), to_sparse_coo(y)
    if x._array.sparse_dim != y._array.sparse_dim:
        raise RuntimeError("add: the operands have different numbers of sparse dimensions")
    held = ops.cat([values_of(x), values_of(y)])
    index = np.concatenate([x._array.index, y._array.index], 1)
    total = rebuild(held, SparseArray(sparse_coo, index, held._array, x._array.shape))
    settled = x._array.coalesced and y._array.coalesced
    return to_sparse(coalesce(total) if settled else total, layout=kind)


def _add_to_dense(x: Any, y: Tensor) -> Tensor:
    if not isinstance(x, Tensor) or x.shape != y.shape:
        raise RuntimeError("add(dense, sparse): the operands must have the same size")
    y = _settled(y)
    if y._array.layout in BLOCKED:
        return ops.add(x, to_dense(y))  # type: ignore[no-any-return]
    coo = to_sparse_coo(y)
    lead = coo.shape[: coo._array.sparse_dim]
    d = ops.result_type(x, y)
    flat = ops.reshape(_cast(x, d), (-1, *coo.shape[len(lead) :]))
    where = index_tensor(linear(coo._array.index, lead))
    return ops.reshape(ops.index_add(flat, 0, where, _cast(values_of(coo), d)), x.shape)  # type: ignore[no-any-return]


def _cast(t: Tensor, d: dtype) -> Tensor:
    return t if t.dtype is d else ops.to_dtype(t, d)


@rule("sub")
def _sub(op: Any, x: Any, y: Any) -> Tensor:
    if is_sparse(x) and not is_sparse(y):
        raise RuntimeError("sub(sparse, dense) is not supported")
    return _add(op, x, ops.neg(y))


@rule("add_scaled", "sub_scaled")
def _add_scaled(op: Any, x: Any, y: Any, alpha: Any) -> Tensor:
    return (_add if op.name == "add_scaled" else _sub)(op, x, ops.mul(y, alpha))


# -- shape -------------------------------------------------------------------------------------------------------


@rule("t")
def _t(op: Any, x: Tensor) -> Tensor:
    return _permute(op, x, (1, 0)) if x.ndim == 2 else x


@rule("transpose")
def _transpose(op: Any, x: Tensor, first: int, second: int) -> Tensor:
    order = list(range(x.ndim))
    first, second = wrap_dim(first, x.ndim), wrap_dim(second, x.ndim)
    order[first], order[second] = order[second], order[first]
    return _permute(op, x, tuple(order))


_TURNED = {sparse_csr: sparse_csc, sparse_csc: sparse_csr, sparse_bsr: sparse_bsc, sparse_bsc: sparse_bsr}


@rule("permute")
def _permute(op: Any, x: Tensor, dims: Any) -> Tensor:
    array, order = x._array, tuple(wrap_dim(d, x.ndim) for d in dims)
    if order == tuple(range(x.ndim)):
        return rebuild(values_of(x), array)
    shape = tuple(array.shape[d] for d in order)
    held = values_of(x)
    if array.layout is not sparse_coo:
        if array.layout in BLOCKED:
            held = ops.transpose(held, 1, 2)
        return rebuild(held, SparseArray(_TURNED[array.layout], array.index, held._array, shape))
    n = array.sparse_dim
    if any((d < n) != (i < n) for i, d in enumerate(order)):
        raise RuntimeError("permute: a sparse and a dense dimension cannot be exchanged")
    held = ops.permute(held, (0, *[d - n + 1 for d in order[n:]]))
    return rebuild(held, SparseArray(sparse_coo, array.index[list(order[:n])], held._array, shape))


@rule("unsqueeze")
def _unsqueeze(op: Any, x: Tensor, dim: int) -> Tensor:
    array = to_sparse_coo(x)._array
    held, n = values_of(to_sparse_coo(x)), array.sparse_dim
    shape = (*array.shape[:dim], 1, *array.shape[dim:])
    if dim > n:
        held, index = ops.unsqueeze(held, dim - n + 1), array.index
    else:
        index = np.insert(array.index, dim, 0, axis=0)
    return rebuild(held, SparseArray(sparse_coo, index, held._array, shape, array.coalesced))


@rule("select")
def _select(op: Any, x: Tensor, dim: int, number: int) -> Tensor:
    x = to_sparse_coo(x)
    array = x._array
    n, shape = array.sparse_dim, (*array.shape[:dim], *array.shape[dim + 1 :])
    if dim >= n:
        held = ops.select(values_of(x), dim - n + 1, number)
        return rebuild(held, SparseArray(sparse_coo, array.index, held._array, shape, array.coalesced))
    kept = np.flatnonzero(array.index[dim] == number % array.shape[dim])
    held = ops.index_select(values_of(x), 0, index_tensor(kept))
    if n == 1:
        return ops.sum(held, 0)  # type: ignore[no-any-return]
    index = np.delete(array.index[:, kept], dim, axis=0)
    return rebuild(held, SparseArray(sparse_coo, index, held._array, shape, array.coalesced))


@rule("getitem_select")
def _getitem(op: Any, x: Tensor, key: tuple[Any, ...]) -> Tensor:
    numbers = [i for i in key if isinstance(i, int)]
    if len(numbers) + (key[-1] is Ellipsis) != len(key):
        raise NotImplementedError(f"indexing with {key}: not implemented for tensors of layout {layout_of(x)}")
    for i in numbers:
        x = ops.select(x, 0, i)
    return x


@rule("unbind")
def _unbind(op: Any, x: Tensor, dim: int) -> tuple[Tensor, ...]:
    return tuple(ops.select(x, dim, i) for i in range(x.shape[dim]))


@rule("index_select")
def _index_select(op: Any, x: Tensor, wanted: Tensor, dim: int) -> Tensor:
    """Each wanted number takes the entries that have it as their coordinate."""
    if is_sparse(wanted) or not is_sparse(x):
        raise NotImplementedError("index_select: not implemented for a sparse index")
    x = coalesce(to_sparse_coo(x))
    array, chosen = x._array, wanted._array.reshape(-1)
    if chosen.size and (chosen.min() < 0 or chosen.max() >= array.shape[dim]):
        raise IndexError(f"index_select: index out of range for dimension {dim} of size {array.shape[dim]}")
    shape = (*array.shape[:dim], len(chosen), *array.shape[dim + 1 :])
    if dim >= array.sparse_dim:
        held = ops.index_select(values_of(x), dim - array.sparse_dim + 1, wanted)
        return rebuild(held, SparseArray(sparse_coo, array.index, held._array, shape, True))
    order = np.argsort(array.index[dim], kind="stable")
    ranked = array.index[dim][order]
    first = np.searchsorted(ranked, chosen)
    counts = np.searchsorted(ranked, chosen, "right") - first
    new = np.repeat(np.arange(len(chosen), dtype=np.int64), counts)
    taken = order[np.arange(len(new)) - np.repeat(np.cumsum(counts) - counts - first, counts)]
    index = array.index[:, taken]
    index[dim] = new
    held = ops.index_select(values_of(x), 0, index_tensor(taken))
    return rebuild(held, SparseArray(sparse_coo, index, held._array, shape, dim == 0))


@rule("stack")
def _stack(op: Any, parts: Any, dim: int) -> Tensor:
    return ops.cat([ops.unsqueeze(p, dim) for p in parts], dim)  # type: ignore[no-any-return]


@rule("cat")
def _cat(op: Any, parts: Any, dim: int) -> Tensor:
    parts = [to_sparse_coo(p) for p in parts]
    n = parts[0]._array.sparse_dim
    if dim >= n:
        raise RuntimeError("cat: sparse tensors can only be joined along a sparse dimension")
    offsets = np.cumsum([0, *[p.shape[dim] for p in parts]])
    shape = list(parts[0].shape)
    shape[dim] = int(offsets[-1])
    moved = []
    for part, offset in zip(parts, offsets):
        index = part._array.index.copy()
        index[dim] += offset
        moved.append(index)
    held = ops.cat([values_of(p) for p in parts])
    return rebuild(held, SparseArray(sparse_coo, np.concatenate(moved, 1), held._array, tuple(shape)))


# -- reductions --------------------------------------------------------------------------------------------------


@rule("sum")
def _sum(op: Any, x: Tensor, dims: tuple[int, ...], keepdim: bool, d: dtype) -> Tensor:
    held = _cast(values_of(x), d)
    if len(dims) == x.ndim or not x.ndim:
        total = ops.sum(held)
        return ops.reshape(total, (1,) * x.ndim) if keepdim else total  # type: ignore[no-any-return]
    if x._array.layout in BLOCKED:
        raise NotImplementedError(f"sum over some dimensions: not implemented for tensors of layout {layout_of(x)}")
    return _sum_some(rebuild(held, x._array), dims, keepdim)


def _sum_some(x: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    x = to_sparse_coo(x)
    array, held = x._array, values_of(x)
    n = array.sparse_dim
    dense = tuple(d - n + 1 for d in dims if d >= n)
    if dense:
        held = ops.sum(held, dense, keepdim)
    left = [d for d in range(n) if d not in dims]
    if not left and not keepdim:
        return ops.sum(held, 0)  # type: ignore[no-any-return]
    if keepdim:
        index = np.where(np.isin(np.arange(n), dims)[:, None], 0, array.index)
        shape = tuple(1 if d in dims else m for d, m in enumerate(array.shape))
    else:
        index = array.index[left]
        shape = tuple(m for d, m in enumerate(array.shape) if d not in dims)
    same = len(left) == n and array.coalesced
    return coalesce(rebuild(held, SparseArray(sparse_coo, index, held._array, shape, same)))


@rule("linalg_vector_norm", "norm")
def _norm(op: Any, x: Tensor, *static: Any) -> Tensor:
    return ops.vector_norm(values_of(_settled(x)), *[a for a in static[:1]])  # type: ignore[no-any-return]


@rule("any")
def _any(op: Any, x: Tensor, *static: Any) -> Tensor:
    return ops.any(values_of(_settled(x)))  # type: ignore[no-any-return]


# -- products ----------------------------------------------------------------------------------------------------


@kernel("(),(),(k),(k),(n,w)->(w)")
def row_products(m: Any, start: Any, stop: Any, columns: Any, values: Any, y: Any, out: Any) -> None:
    """One row of a CSR matrix times y, added to `out`."""
    e = start[()]
    while e < stop[()]:
        j = columns[e]
        if (j >= 0) & (j < y.shape[0]):
            v = values[e]
            for c in independent(out.n):
                out[c] = out[c] + v * y[j, c]
        e += 1


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
    """Rows and columns of a sparse matrix's entries, with the starts of its rows where they are sorted."""

    __slots__ = ("columns", "rows", "shape", "starts")

    def __init__(self, rows: Any, columns: Any, shape: Any, starts: Any = None):
        self.rows, self.columns, self.shape, self.starts = rows, columns, shape, starts

    def turned(self) -> Places:
        return Places(self.columns, self.rows, self.shape[::-1])


def _places(array: SparseArray) -> Places:
    if array.layout is sparse_coo:
        rows, columns = array.index
        starts = starts_of(rows, array.shape[0]) if array.coalesced else None
        return Places(rows, columns, array.shape[:2], starts)
    coo = coo_places(array)
    return Places(*coo.index, array.shape[:2], array.index[0] if array.layout is sparse_csr else None)


def _wide(array: Any) -> Any:
    """16-bit floats multiply in float32."""
    return array.astype(np.float32) if array.dtype.itemsize == 2 and array.dtype.kind not in "iu" else array


@primitive(
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
        call = cpu.kernel(row_products, ("i64", "i64", "i64", code, code, code))
        starts = places.starts

        def rows(start: Any, stop: Any, out: Any) -> None:
            call(start, stop, places.columns, held, wide, out)

        if len(made):
            cpu.rows(rows, [starts[:-1], starts[1:]], [made], max(len(held), 1) * y.shape[1])
    else:
        call = cpu.kernel(entry_products, ("i64", "i64", code, code, code))
        call(places.rows, places.columns, held, wide, made)
    return made.astype(y.dtype) if made.dtype != y.dtype else made


@primitive(
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
    if x.ndim != 2 or y.ndim not in (1, 2) or x.shape[1] != y.shape[0]:
        raise RuntimeError(f"{name}: shapes cannot be multiplied ({list(x.shape)} and {list(y.shape)})")
    if x.dtype is not y.dtype:
        raise RuntimeError(f"{name}: expected operands of one dtype, got {x.dtype} and {y.dtype}")


def product(x: Tensor, y: Tensor, name: str = "mm") -> Tensor:
    """The product of two matrices of which one or both are sparse."""
    _check_product(name, x, y)
    if is_sparse(x) and is_sparse(y):
        return _sparse_product(x, y)
    if not is_sparse(x):
        return ops.t(product(ops.t(y), ops.t(x), name))  # type: ignore[no-any-return]
    x = to_sparse_coo(x) if x._array.layout in BLOCKED else x
    return product_op(values_of(x), y, _places(x._array))  # type: ignore[no-any-return]


def _sparse_product(x: Tensor, y: Tensor) -> Tensor:
    """Every entry of x meets the entries of a row of y; equal places add up."""
    kind = layout_of(x) if layout_of(x) not in BLOCKED else sparse_csr
    x, y = coalesce(to_sparse_coo(x)), coalesce(to_sparse_coo(y))
    rows, inner = x._array.index
    starts = starts_of(y._array.index[0], y.shape[0])
    counts = starts[inner + 1] - starts[inner]
    left = np.repeat(np.arange(len(inner)), counts)
    first = np.cumsum(counts) - counts
    right = np.arange(len(left)) - np.repeat(first - starts[inner], counts)
    index = np.stack([rows[left], y._array.index[1][right]])
    held = ops.mul(ops.index_select(values_of(x), 0, index_tensor(left)), ops.index_select(values_of(y), 0, index_tensor(right)))
    shape = (x.shape[0], y.shape[1])
    return to_sparse(coalesce(rebuild(held, SparseArray(sparse_coo, index, held._array, shape))), layout=kind)


@rule("mm")
def _mm(op: Any, x: Tensor, y: Tensor) -> Tensor:
    return product(x, y)


@rule("mv", "matmul")
def _mv(op: Any, x: Tensor, y: Tensor) -> Tensor:
    if x.ndim == 1 and y.ndim == 2:
        return ops.squeeze(product(ops.unsqueeze(x, 0), y), 0)  # type: ignore[no-any-return]
    if x.ndim != 2 or y.ndim != 1:
        raise NotImplementedError(f"{op.name}: not implemented for tensors of layout {_layout_in((x, y))} of these ranks")
    _check_product(op.name, x, y)
    return ops.squeeze(product(x, ops.unsqueeze(y, 1)), 1)  # type: ignore[no-any-return]


@rule("addmm")
def _addmm(op: Any, c: Tensor, x: Tensor, y: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
    made = product(x, y, "addmm")
    made = made if alpha == 1 else ops.mul(made, alpha)
    return made if beta == 0 else ops.add(c if beta == 1 else ops.mul(c, beta), made)  # type: ignore[no-any-return]


@public("sparse.mm", "smm", method="smm")
def sparse_mm(mat1: Tensor, mat2: Tensor, reduce: str | None = None) -> Tensor:
    """The product of a sparse matrix with a matrix; `reduce` says how products in a row meet (sum, mean, amax, amin).

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
        return ops.div(product(mat1, mat2), ops.unsqueeze(index_tensor(counts), 1))  # type: ignore[no-any-return]
    products = ops.mul(ops.unsqueeze(values_of(mat1), 1), ops.index_select(mat2, 0, index_tensor(places.columns)))
    rows = ops.expand(index_tensor(places.rows).reshape(-1, 1), products.shape)
    empty = ops.zeros((mat1.shape[0], mat2.shape[1]), dtype=mat1.dtype)
    return ops.scatter_reduce(empty, 0, rows, products, reduce, include_self=False)  # type: ignore[no-any-return]


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
        raise RuntimeError(f"sampled_addmm: {list(mat1.shape)} times {list(mat2.shape)} does not give {list(input.shape)}")
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
    return ops.sum(input, dim, dtype=dtype)  # type: ignore[no-any-return]


def _entries_softmax(name: str, input: Tensor, dim: int, d: dtype | None, log: bool) -> Tensor:
    if layout_of(input) is not sparse_coo:
        raise RuntimeError(f"sparse.{name}: expected a COO tensor, got {layout_of(input)}")
    x = coalesce(input)
    array, dim = x._array, wrap_dim(dim, input.ndim)
    held = values_of(x) if d is None else _cast(values_of(x), d)
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
    diagonals = diagonals if diagonals.ndim == 2 else ops.unsqueeze(diagonals, 0)
    steps = ops.atleast_1d(offsets)._array
    if len(np.unique(steps)) != len(steps):
        raise RuntimeError("spdiags: offsets must not repeat")
    columns = np.broadcast_to(np.arange(diagonals.shape[1]), diagonals.shape)
    rows = columns - steps[:, None]
    kept = (rows >= 0) & (rows < shape[0]) & (columns < shape[1])
    held = ops.index_select(ops.reshape(diagonals, (-1,)), 0, index_tensor(np.flatnonzero(kept)))
    index = np.stack([rows[kept], columns[kept]]).astype(np.int64)
    made = rebuild(held, SparseArray(sparse_coo, index, held._array, tuple(shape)))
    return made if layout is None else to_sparse(made, layout=layout)


# -- gradients of leaves -----------------------------------------------------------------------------------------


def _add_in_place(held: Tensor, g: Tensor) -> None:
    if not (held._k | g._k) & SPARSE:
        ops.add_(held, g)
        return
    total = ops.add(held, g) if is_sparse(g) else ops.add(g, held)
    held._array, held._k = total._array, total._k & ~GRAD


_copy_like = engine.clone_like


def _clone_like(g: Tensor, leaf: Tensor) -> Tensor:
    return ops.clone(g) if (g._k | leaf._k) & SPARSE else _copy_like(g, leaf)


engine.add_in_place = _add_in_place
engine.clone_like = _clone_like
_dispatch.handlers[SPARSE] = handle
