"""Elements by index in ONNX: reading and writing at places, masks, windows and diagonals."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .._core.dtypes import BY_NAME
from .._tensor import Tensor
from ..jit._operators import DTYPES
from ..jit._tracer import Node, Value
from ._builder import Builder, kind_of, rank
from ._table import op, refuse

_LAST = (1 << 63) - 1
_TRUTH, _WHOLE = BY_NAME["bool"], DTYPES[4]


# -- where something is true ---------------------------------------------------------------------------------------


@op("nonzero", "argwhere")
def _nonzero(b: Builder, n: Node, x: Any, **named: Any) -> str:
    return b.add("Transpose", b.add("NonZero", b.t(x)), perm=[1, 0])


@op("nonzero_numpy")
def nonzero_numpy(b: Builder, n: Node, x: Any) -> list[str]:
    places = b.add("NonZero", b.t(x))
    return [b.add("Gather", places, b.constant(d), axis=0) for d in range(max(rank(x), 1))]


@op("masked_select")
def _masked_select(b: Builder, n: Node, x: Any, mask: Any) -> str:
    like = b.add("Add", b.t(x), b.t(mask, kind_of(x)))  # both are broadcast
    value = b.add("Expand", b.t(x), b.add("Shape", like))
    places = b.add("NonZero", b.add("Expand", b.t(mask), b.add("Shape", like)))
    return b.add("GatherND", value, b.add("Transpose", places, perm=[1, 0]))


@op("repeat_interleave")
def _repeat_interleave(b: Builder, n: Node, x: Any, repeats: Any, dim: Any = None, **named: Any) -> str:
    value = b.add("Reshape", b.t(x), b.constant([-1])) if dim is None else b.t(x)
    dim = 0 if dim is None else dim % rank(x)
    if not isinstance(repeats, Value) or not isinstance(repeats.example, Tensor):
        sizes = b.add("Shape", value)
        front, behind = b.slice(sizes, 0, 0, dim), b.slice(sizes, 0, dim + 1, _LAST)
        several = b.add(
            "Tile",
            b.unsqueeze(value, [dim + 1]),
            b.ints([*[1] * (dim + 1), repeats, *[1] * (n.outs[0].example.dim() - dim - 1)]),
        )
        return b.add("Reshape", several, b.add("Concat", front, b.constant([-1]), behind, axis=0))
    ends = b.add("CumSum", b.t(repeats, _WHOLE), b.constant(0))
    count = b.add("ReduceSum", b.t(repeats, _WHOLE), keepdims=0)
    place = b.unsqueeze(b.add("Range", b.constant(0), count, b.constant(1)), [1])
    before = b.add("Not", b.add("Less", place, ends))  # how many elements end before a place
    index = b.reduce("ReduceSum", b.cast(before, _WHOLE), [1], False)
    return b.add("Gather", value, index, axis=dim)


# -- reading -------------------------------------------------------------------------------------------------------


def _by_dimension(b: Builder, indices: Any) -> list[tuple[int, str, Any]]:
    """(dimension, its index, the shape of that in the example); masks as places."""
    found: list[tuple[int, str, Any]] = []
    dim = 0
    for index in indices:
        if index is None:
            dim += 1
        elif kind_of(index).name == "bool":
            count = (int(index.example.sum()),)
            found += [(dim + i, name, count) for i, name in enumerate(nonzero_numpy(b, None, index))]  # type: ignore[arg-type]
            dim += rank(index)
        else:
            found.append((dim, b.t(index, _WHOLE), tuple(index.example.shape)))
            dim += 1
    return found


def _places(b: Builder, found: list[tuple[int, str, Any]]) -> tuple[str, tuple[int, ...]]:
    """Indices side by side, as ONNX takes them, and the shape that they have in common."""
    shapes = [s for _, _, s in found]
    shape, names = np.broadcast_shapes(*shapes), [name for _, name, _ in found]
    if len(set(shapes)) > 1:
        whole = b.add("Shape", functools.reduce(lambda x, y: b.add("Add", x, y), names))
        names = [b.add("Expand", name, whole) for name in names]
    parts = [b.unsqueeze(name, [len(shape)]) for name in names]
    return parts[0] if len(parts) == 1 else b.add("Concat", *parts, axis=-1), shape


def _order(dims: list[int], count: int) -> list[int]:
    return [*dims, *[d for d in range(count) if d not in dims]]


def _adjacent(dims: list[int]) -> bool:
    return dims == list(range(dims[0], dims[0] + len(dims)))


@op("index")
def _index(b: Builder, n: Node, x: Any, indices: Any) -> str:
    found = _by_dimension(b, indices)
    if len(found) == 1:
        return b.add("Gather", b.t(x), found[0][1], axis=found[0][0])
    dims = [d for d, _, _ in found]
    places, shape = _places(b, found)
    order = _order(dims, rank(x))
    value = b.t(x) if order == sorted(order) else b.add("Transpose", b.t(x), perm=order)
    made = b.add("GatherND", value, places)
    if not dims[0] or not _adjacent(dims):
        return made
    k, count = len(shape), rank(x) - len(dims) + len(shape)  # the common shape goes where the indexed dimensions were
    return b.add("Transpose", made, perm=[*range(k, k + dims[0]), *range(k), *range(k + dims[0], count)])


@op("take")
def _take(b: Builder, n: Node, x: Any, index: Any) -> str:
    return b.add("Gather", b.add("Reshape", b.t(x), b.constant([-1])), b.t(index), axis=0)


@op("diagonal")
def _diagonal(b: Builder, n: Node, x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> str:
    count = rank(x)
    dim1, dim2 = dim1 % count, dim2 % count
    rest = [d for d in range(count) if d not in (dim1, dim2)]
    value = b.add("Transpose", b.t(x), perm=[dim1, dim2, *rest])
    rows, columns = (x.example.shape[d] for d in (dim1, dim2))
    places = np.argwhere(np.eye(rows, columns, offset, dtype=bool))
    return b.add("Transpose", b.add("GatherND", value, b.constant(places)), perm=[*range(1, count - 1), 0])


@op("diag_embed", "diag")
def _diag_embed(b: Builder, n: Node, x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> str:
    if n.op == "diag" and rank(x) == 2:
        return _diagonal(b, n, x, offset)
    size = x.example.shape[-1]
    if offset or {dim1 % (rank(x) + 1), dim2 % (rank(x) + 1)} != {rank(x) - 1, rank(x)}:
        refuse("a diagonal beside the main one, or in other dimensions than the last two")
    zero = b.constant(0, kind_of(x).numpy)
    return b.add("Where", b.constant(np.eye(size, dtype=bool), bool), b.unsqueeze(b.t(x), [rank(x)]), zero)


def _windows(b: Builder, value: str, axis: int, length: int, size: int, step: int, gap: int = 1) -> str:
    """Windows along a dimension: two dimensions in its place, which window and which of its elements."""
    places = np.arange(0, length - gap * (size - 1), step)[:, None] + gap * np.arange(size)
    return b.add("Gather", value, b.constant(places), axis=axis)


@op("unfold")
def _unfold(b: Builder, n: Node, x: Any, dim: int, size: int, step: int) -> str:
    count, dim = rank(x), dim % rank(x)
    made = _windows(b, b.t(x), dim, x.example.shape[dim], size, step)
    return b.add("Transpose", made, perm=[*range(dim + 1), *range(dim + 2, count + 1), dim + 1])


@op("im2col")
def _im2col(b: Builder, n: Node, x: Any, size: Any, dilation: Any, padding: Any, stride: Any) -> str:
    if rank(x) != 4:
        refuse("unfold of an image without a batch")
    channels, (kh, kw) = x.example.shape[1], size
    height, width = (x.example.shape[2 + i] + 2 * padding[i] for i in range(2))
    value = b.add("Pad", b.t(x), b.constant([0, 0, *padding] * 2)) if any(padding) else b.t(x)
    value = _windows(b, value, 2, height, kh, stride[0], dilation[0])
    value = _windows(b, value, 4, width, kw, stride[1], dilation[1])
    value = b.add("Transpose", value, perm=[0, 1, 3, 5, 2, 4])
    return b.add("Reshape", value, b.constant([0, channels * kh * kw, -1]))


# -- writing -------------------------------------------------------------------------------------------------------


def _put(b: Builder, x: str, count: int, found: list[tuple[int, str, Any]], values: str, reduction: Any) -> str:
    """A tensor of `count` dimensions with values at places; these have the shape of what an index there gives, or are broadcast to it."""
    dims = [d for d, _, _ in found]
    places, shape = _places(b, found)
    order = _order(dims, count)
    moved = order != sorted(order)
    if moved and _adjacent(dims):  # values have the common shape in the midst
        k = len(shape)
        whole = b.add("Shape", b.add("GatherND", b.add("Transpose", x, perm=order), places))
        total = k + count - len(dims)
        there = [*range(k, k + dims[0]), *range(k), *range(k + dims[0], total)]
        sizes = b.add("Gather", whole, b.constant(there), axis=0)
        back = sorted(range(total), key=there.__getitem__)
        values = b.add("Transpose", b.add("Expand", values, sizes), perm=back)
    value = b.add("Transpose", x, perm=order) if moved else x
    values = b.add("Expand", values, b.add("Shape", b.add("GatherND", value, places)))
    made = b.add("ScatterND", value, places, values, reduction=reduction)
    return b.add("Transpose", made, perm=sorted(range(count), key=order.__getitem__)) if moved else made


@op("index_put")
def _index_put(b: Builder, n: Node, x: Any, indices: Any, values: Any, accumulate: bool = False) -> str:
    like, given = kind_of(x), [i for i in indices if i is not None]
    single = not isinstance(values, Value) or not values.example.numel() > 1
    if len(given) == 1 and kind_of(given[0]).name == "bool" and single and not accumulate:
        before = list(indices).index(given[0])
        mask = b.t(given[0])
        behind = rank(x) - rank(given[0]) - before
        if behind:
            mask = b.unsqueeze(mask, [rank(given[0]) + i for i in range(behind)])
        value = b.t(values, like)
        if isinstance(values, Value) and rank(values):
            value = b.add("Reshape", value, b.constant([1]))
        return b.add("Where", mask, value, b.t(x))
    found = _by_dimension(b, indices)
    return _put(b, b.t(x), rank(x), found, b.t(values, like), "add" if accumulate else None)


@op("index_add", "index_copy")
def _index_write(b: Builder, n: Node, x: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> str:
    dim %= max(rank(x), 1)
    values = b.t(source, kind_of(x))
    if alpha != 1:
        values = b.add("Mul", values, b.constant(alpha, kind_of(x).numpy))
    found = [(dim, b.t(index, _WHOLE), tuple(index.example.shape))]
    return _put(b, b.t(x), rank(x), found, values, "add" if n.op.startswith("index_add") else None)


@op("select_scatter", "slice_scatter")
def _part_written(b: Builder, n: Node, x: Any, source: Any, dim: int = 0, *place: Any) -> str:
    dim %= rank(x)
    part, whole = b.t(source, kind_of(x)), b.t(x)
    if n.op == "select_scatter":
        part, start = b.unsqueeze(part, [dim]), place[0]
        end = _LAST if start == -1 else start + 1
    else:
        start, end, step = (*place, *(0, _LAST, 1)[len(place) :])
        start, end = 0 if start is None else start, _LAST if end is None else end
        if step != 1:
            refuse("a write into every second element")
    return put_between(b, whole, part, dim, start, end)


def put_between(b: Builder, whole: str, part: str, dim: int, start: Any, end: Any) -> str:
    """A tensor with another part from `start` to `end`."""
    pieces = [b.slice(whole, dim, 0, start)] if isinstance(start, Value) or start else []
    pieces += [part] + ([b.slice(whole, dim, end, _LAST)] if isinstance(end, Value) or end < _LAST else [])
    return b.add("Concat", *pieces, axis=dim) if len(pieces) > 1 else part


@op("scatter_reduce")
def _scatter_reduce(
    b: Builder, n: Node, x: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True, **named: Any
) -> str:
    kinds = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
    if reduce not in kinds or not include_self:
        refuse(f"scatter_reduce of kind {reduce!r} or without the tensor's own elements")
    return b.add(
        "ScatterElements", b.t(x), b.t(index), b.t(src, kind_of(x)), axis=dim % rank(x), reduction=kinds[reduce]
    )
