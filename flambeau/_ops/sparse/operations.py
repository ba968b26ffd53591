"""Operations on sparse tensors: the rules by which records run on them.

An operation without a rule raises and names itself and the layout; nothing becomes dense unasked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import _dispatch
from ..._autograd import engine
from ..._core.dtypes import bool_, dtype
from ..._core.layouts import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from ..._core.sizes import wrap_dim
from ..._core.state import GRAD, META, SPARSE, local
from ..._tensor import Tensor, detached
from ..basic import in_dtype
from ..pointwise.arithmetic import add_op
from ..records.inplace import sparse_writers, write_plain
from ..registry import ops
from .array import BLOCKED, SparseArray, linear
from .tensors import (
    coalesce,
    index_tensor,
    is_sparse,
    layout_of,
    rebuild,
    rebuild_op,
    to_dense,
    to_sparse,
    to_sparse_coo,
    values_at,
    values_of,
    zeros_like,
)  # fmt: skip

rules: dict[str, Callable[..., Any]] = {}  # by the record's name

# Of these, zero stays zero; the second row is also right for values that are still to be added up.
_KEEP_ZERO = [
    "abs",
    "sin",
    "tan",
    "asin",
    "atan",
    "sinh",
    "tanh",
    "asinh",
    "atanh",
    "sqrt",
    "ceil",
    "floor",
    "round",
    "trunc",
    "frac",
    "sign",
    "sgn",
    "relu",
    "expm1",
    "log1p",
    "erf",
    "erfinv",
    "isnan",
    "isinf",
    "isposinf",
    "isneginf",
    "signbit",
    "square",
    "nan_to_num",
]
_LINEAR = ["neg", "deg2rad", "rad2deg", "conj_physical"]


def handle(op: Any, args: tuple[Any, ...], k: int) -> Any:
    """Runs an operation that was given a sparse tensor."""
    if op is values_of or op is rebuild_op:
        return NotImplemented
    rule = rules.get(op.name.removesuffix("_wide"))
    if rule is not None:
        return rule(op, *args)
    raise NotImplementedError(f"{op.name}: not implemented for tensors of layout {layout_in(args)}")


def layout_in(args: Any) -> Any:
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
    """One step of history, as gradients may have another pattern than the tensor."""
    made = rebuild(op.call(values_of(detached(x)), "C"), x._array)
    if local.grad and x._k & GRAD:
        op.record((x, *order), made)
    return made


@rule("to_copy")
def _moved(op: Any, x: Tensor, d: Any, target: Any, home: Any) -> Tensor:
    if target.type != "meta":
        raise NotImplementedError(f"a tensor of layout {layout_of(x)} cannot be moved from {home} to {target}")
    return zeros_like(x, d, target)


# -- arithmetic --------------------------------------------------------------------------------------------------


def _is_number(t: Any) -> bool:
    return not isinstance(t, Tensor) or (not t._k & SPARSE and t.ndim == 0)


@rule("mul")
def _mul(op: Any, x: Any, y: Any) -> Tensor:
    if not is_sparse(x):
        x, y = y, x
    if _is_number(y):
        return rebuild(ops.mul(values_of(x), y), x._array)
    if is_sparse(y) and x.shape != y.shape and x._array.layout is y._array.layout is sparse_coo:
        if math.prod(y.shape) > math.prod(x.shape):
            x, y = y, x
        y = ops.to_dense(y)  # the smaller one
    if not is_sparse(y) and y.ndim <= x.ndim and all(n in (1, m) for n, m in zip(y.shape[::-1], x.shape[::-1])):
        y = ops.expand(y, x.shape)
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


@rule("div", "true_divide", "floor_divide", "div_floor", "div_trunc", "div_number")
def _div(op: Any, x: Any, y: Any) -> Tensor:
    if not is_sparse(x) or not _is_number(y):
        kind = "floor division" if op.name == "floor_divide" else "division"
        shape = list(y.shape) if isinstance(y, Tensor) else []
        raise RuntimeError(
            f"Sparse {kind} requires a scalar or zero-dim dense tensor divisor (got shape {shape} for divisor)"
        )
    if op.name in ("floor_divide", "div_floor", "div_trunc"):  # of the sums of what lies at one place
        x = _settled(x)
    return rebuild(op.call(values_of(x), y), x._array)


@rule("mul_number")
def _mul_number(op: Any, x: Tensor, y: Any) -> Tensor:
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
        if layout_of(x) in (sparse_csr, sparse_csc) and isinstance(y, Tensor):
            return _add_to_dense(y, x)
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if x.shape != y.shape:
        raise RuntimeError(f"add: sizes of sparse operands must agree, got {list(x.shape)} and {list(y.shape)}")
    if (x._k | y._k) & META:  # how many entries there will be depends on the indices
        return zeros_like(x, ops.result_type(x, y))
    settled = x._array.layout is not sparse_coo or (x._array.coalesced and y._array.coalesced)
    if settled and x._array.same_places(y._array):
        return rebuild(ops.add(values_of(x), values_of(y)), x._array)
    kind = layout_of(x)
    x, y = to_sparse_coo(x), to_sparse_coo(y)
    if x._array.sparse_dim != y._array.sparse_dim:
        raise RuntimeError("add: the operands have different numbers of sparse dimensions")
    held = ops.cat([values_of(x), values_of(y)])
    index = np.concatenate([x._array.index, y._array.index], 1)
    total = rebuild(held, SparseArray(sparse_coo, index, held._array, x._array.shape))
    settled = x._array.coalesced and y._array.coalesced
    if not settled and _in_order(x) and _in_order(y):  # merged, though nobody said that they are coalesced
        merged = coalesce(total)
        places = SparseArray(sparse_coo, merged._array.index, merged._array.values, x._array.shape)
        return rebuild(values_of(merged), places)
    return to_sparse(coalesce(total) if settled else total, layout=kind)


def _in_order(t: Tensor) -> bool:
    """Whether the places of a tensor in coordinates come in order, each once."""
    places = linear(t._array.index, t.shape[: t._array.sparse_dim])
    return bool((places[1:] > places[:-1]).all())


def _add_to_dense(x: Any, y: Tensor) -> Tensor:
    if not isinstance(x, Tensor) or x.shape != y.shape:
        raise RuntimeError("add(dense, sparse): the operands must have the same size")
    y = _settled(y)
    if y._array.layout in BLOCKED:
        return ops.add(x, to_dense(y))
    coo = to_sparse_coo(y)
    lead = coo.shape[: coo._array.sparse_dim]
    d = ops.result_type(x, y)
    flat = ops.reshape(in_dtype(x, d), (-1, *coo.shape[len(lead) :]))
    where = index_tensor(linear(coo._array.index, lead))
    return ops.reshape(ops.index_add(flat, 0, where, in_dtype(values_of(coo), d)), x.shape)


def _write_sum(x: Tensor, y: Any, alpha: Any = 1) -> bool:
    """Adds to a dense tensor where the sparse one has entries, so that the rest of a large table is not even read."""
    if y.shape != x.shape or y._array.layout is not sparse_coo or ops.result_type(x, y) is not x.dtype:
        return False
    if not x._array.flags.c_contiguous or type(alpha) not in (int, float):
        return False
    lead = y.shape[: y._array.sparse_dim]
    flat = ops.reshape(x.detach(), (-1, *y.shape[len(lead) :]))
    where, held = index_tensor(linear(y._array.index, lead)), in_dtype(values_of(y).detach(), x.dtype)
    flat.index_add_(0, where, held, alpha=alpha)
    return True


def _write_difference(x: Tensor, y: Any, alpha: Any = 1) -> bool:
    return x.dtype.is_signed and _write_sum(x, y, -alpha)


sparse_writers.update(add=_write_sum, add_scaled=_write_sum, sub=_write_difference, sub_scaled=_write_difference)


@rule("sub")
def _sub(op: Any, x: Any, y: Any) -> Tensor:
    if is_sparse(x) and not is_sparse(y):
        raise RuntimeError("sub(sparse, dense) is not supported")
    return _add(op, x, ops.neg(ops.to_dtype(y, ops.result_type(x, y))))  # in its own dtype it might wrap around


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
        first = len(array.batch)
        turned = list(range(x.ndim))
        turned[first : first + 2] = first + 1, first
        if list(order) != turned:
            raise RuntimeError(f"permute: of layout {array.layout}, only rows and columns can be exchanged")
        if array.layout in BLOCKED:
            held = ops.transpose(held, first + 1, first + 2)
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
    if dim < len(x._array.batch):
        starts, others = (i.take(number, dim) for i in x._array.index)
        held = ops.select(values_of(x), dim, number)
        shape = (*x.shape[:dim], *x.shape[dim + 1 :])
        return rebuild(held, SparseArray(layout_of(x), (starts, others), held._array, shape))
    x = to_sparse_coo(x)
    array = x._array
    n, shape = array.sparse_dim, (*array.shape[:dim], *array.shape[dim + 1 :])
    if dim >= n:
        held = ops.select(values_of(x), dim - n + 1, number)
        return rebuild(held, SparseArray(sparse_coo, array.index, held._array, shape, array.coalesced))
    kept = np.flatnonzero(array.index[dim] == number % array.shape[dim])
    held = ops.index_select(values_of(x), 0, index_tensor(kept))
    if n == 1:
        return ops.any(held, 0) if held.dtype is bool_ else ops.sum(held, 0)
    index = np.delete(array.index[:, kept], dim, axis=0)
    return rebuild(held, SparseArray(sparse_coo, index, held._array, shape, array.coalesced))


@rule("slice")
def _slice(op: Any, x: Tensor, dim: int, start: int, stop: int, step: int) -> Tensor:
    """Part of a dimension, as a copy."""
    x = to_sparse_coo(x)
    array = x._array
    n, length = array.sparse_dim, len(range(start, stop, step))
    shape = (*array.shape[:dim], length, *array.shape[dim + 1 :])
    if dim >= n:
        held = ops.slice(values_of(x), dim - n + 1, start, stop, step)
        return rebuild(held, SparseArray(sparse_coo, array.index, held._array, shape, array.coalesced))
    place = array.index[dim] - start
    kept = np.flatnonzero((place >= 0) & (array.index[dim] < stop) & (place % step == 0))
    index = array.index[:, kept]
    index[dim] = place[kept] // step
    held = ops.index_select(values_of(x), 0, index_tensor(kept))
    return rebuild(held, SparseArray(sparse_coo, index, held._array, shape, array.coalesced))


@rule("getitem_select", "getitem_slice")
def _getitem(op: Any, x: Tensor, key: tuple[Any, ...]) -> Tensor:
    places = [i for i in key if i is not Ellipsis]
    if not all(isinstance(i, (int, slice)) for i in places) or len(places) + (key[-1] is Ellipsis) != len(key):
        raise NotImplementedError(f"indexing with {key}: not implemented for tensors of layout {layout_of(x)}")
    dim = 0
    for i in places:
        if isinstance(i, int):
            x = ops.select(x, dim, i)
            continue
        if i != slice(None):
            x = ops.slice(x, dim, *i.indices(int(x.shape[dim])))
        dim += 1
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
    shape = (*array.shape[:dim], len(chosen), *array.shape[dim + 1 :])
    if dim >= array.sparse_dim:
        held = ops.index_select(values_of(x), dim - array.sparse_dim + 1, wanted)
        return rebuild(held, SparseArray(sparse_coo, array.index, held._array, shape, True))
    size = array.shape[dim]
    outside = chosen[(chosen < -size) | (chosen >= size)]
    if outside.size:
        raise IndexError(
            f"index_select(): index contains {outside[0]} that is out of range for tensor of size {list(array.shape)} "
            f"at dimension {dim}"
        )
    chosen = np.where(chosen < 0, chosen + size, chosen)  # as PyTorch counts along sparse dimensions
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
    return ops.cat([ops.unsqueeze(p, dim) for p in parts], dim)


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
    if len(dims) == x.ndim or not x.ndim:
        total = ops.sum(in_dtype(values_of(detached(x)), d))
        made = ops.reshape(total, (1,) * x.ndim) if keepdim else total
        if local.grad and x._k & GRAD:
            op.record((x, dims, keepdim, d), made)  # every element has a gradient, not only the entries
        return made
    held = in_dtype(values_of(x), d)
    if x._array.layout in BLOCKED:
        raise NotImplementedError(f"sum over some dimensions: not implemented for tensors of layout {layout_of(x)}")
    made = _sum_some(rebuild(held, x._array), dims, keepdim)
    return to_sparse(made, layout=sparse_csr) if keepdim and layout_of(x) is sparse_csr else made


def _sum_some(x: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    x = to_sparse_coo(x)
    array, held = x._array, values_of(x)
    n = array.sparse_dim
    dense = tuple(d - n + 1 for d in dims if d >= n)
    if dense:
        held = ops.sum(held, dense, keepdim)
    left = [d for d in range(n) if d not in dims]
    if not left and not keepdim:
        return ops.sum(held, 0)
    if keepdim:
        index = np.where(np.isin(np.arange(n), dims)[:, None], 0, array.index)
        shape = tuple(1 if d in dims else m for d, m in enumerate(array.shape))
    else:
        index = array.index[left]
        shape = tuple(m for d, m in enumerate(array.shape) if d not in dims)
    same = len(left) == n and array.coalesced
    return coalesce(rebuild(held, SparseArray(sparse_coo, index, held._array, shape, same)))


@rule("linalg_vector_norm")
def _norm(op: Any, x: Tensor, order: float, dims: tuple[int, ...], keepdim: bool, *static: Any) -> Tensor:
    if len(dims) != x.ndim or keepdim or order <= 0:
        raise NotImplementedError(f"norm: only of a whole tensor and of positive order for layout {layout_of(x)}")
    return ops.vector_norm(values_of(_settled(x)), order)


@rule("truth")
def _truth(op: Any, x: Tensor, dims: tuple[int, ...], keepdim: bool, fold: str, d: dtype) -> Tensor:
    if len(dims) != x.ndim or keepdim or fold != "any":
        raise NotImplementedError(f"{fold}: not implemented for tensors of layout {layout_of(x)}")
    return ops.any(values_of(_settled(x)))


# -- gradients of leaves -----------------------------------------------------------------------------------------


def _add_in_place(held: Tensor, g: Tensor) -> None:
    if write_plain(add_op, held, held, (g,)):
        return
    if not (held._k | g._k) & SPARSE:
        ops.add_(held, g)
        return
    total = ops.add(held, g)
    held._array, held._k = total._array, total._k & ~GRAD


_copy_like = engine.clone_like


_sum = engine.add


engine.add = lambda a, b: _sum(b, a) if a._k & SPARSE and not b._k & SPARSE else _sum(a, b)
engine.add_in_place = _add_in_place
engine.clone_like = lambda g, leaf: ops.clone(g) if (g._k | leaf._k) & SPARSE else _copy_like(g, leaf)
_dispatch.handlers[SPARSE] = handle
