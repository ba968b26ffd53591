"""Shapes, parts and joins of tensors in ONNX, and tensors made from nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._tensor import Tensor
from ..jit._tracer import Node, Value
from ._builder import Builder, kind_of, rank, result_kind
from ._table import op, refuse

_LAST = (1 << 63) - 1


@op("size")
def _size(b: Builder, n: Node, x: Any, dim: int) -> str:
    return b.size(b.t(x), dim % max(rank(x), 1))


@op("numel")
def _numel(b: Builder, n: Node, x: Any) -> str:
    return b.unsqueeze(b.add("Size", b.t(x)), [0])


@op("view", "reshape", "_unsafe_view", "_reshape_alias")
def _reshape(b: Builder, n: Node, x: Any, shape: Any, *rest: Any) -> str:
    if isinstance(shape, int):
        refuse("elements seen as another type (view with a dtype) have no form in ONNX: convert them with .to(dtype)")
    return b.add("Reshape", b.t(x), b.ints(shape))


@op("view_as", "reshape_as")
def _reshape_as(b: Builder, n: Node, x: Any, other: Any) -> str:
    return b.add("Reshape", b.t(x), b.add("Shape", b.t(other)))


@op("flatten")
def _flatten(b: Builder, n: Node, x: Any, start_dim: int = 0, end_dim: int = -1) -> str:
    ndim = max(rank(x), 1)
    start, end = start_dim % ndim, end_dim % ndim
    if start == 1 and end == ndim - 1:
        return b.add("Flatten", b.t(x), axis=1)
    shape = [0] * start + [-1]
    parts = [b.constant(shape)] if shape else []
    if end + 1 < ndim:
        whole = b.add("Shape", b.t(x))
        parts.append(b.slice(whole, 0, end + 1, ndim))
    return b.add("Reshape", b.t(x), parts[0] if len(parts) == 1 else b.add("Concat", *parts, axis=0))


@op("unflatten")
def _unflatten(b: Builder, n: Node, x: Any, dim: int, sizes: Any) -> str:
    dim %= rank(x)
    whole = b.add("Shape", b.t(x))
    parts = [b.slice(whole, 0, 0, dim)] if dim else []
    parts.append(b.ints(sizes))
    if dim + 1 < rank(x):
        parts.append(b.slice(whole, 0, dim + 1, rank(x)))
    return b.add("Reshape", b.t(x), b.add("Concat", *parts, axis=0))


@op("transpose", "swapaxes", "swapdims", "t")
def _transpose(b: Builder, n: Node, x: Any, first: int = 0, second: int = 1) -> str:
    order = list(range(rank(x)))
    if len(order) < 2:
        return b.t(x)
    order[first], order[second] = order[second], order[first]
    return b.add("Transpose", b.t(x), perm=order)


@op("permute", "numpy_T")
def _permute(b: Builder, n: Node, x: Any, dims: Any = None) -> str:
    order = list(reversed(range(rank(x)))) if dims is None else [d % rank(x) for d in dims]
    return b.add("Transpose", b.t(x), perm=order)


@op("movedim")
def _movedim(b: Builder, n: Node, x: Any, source: Any, destination: Any) -> str:
    count = rank(x)
    source, destination = ([d % count for d in (v if isinstance(v, list) else [v])] for v in (source, destination))
    order = [d for d in range(count) if d not in source]
    for to, start in sorted(zip(destination, source)):
        order.insert(to, start)
    return b.add("Transpose", b.t(x), perm=order)


@op("unsqueeze", "unsqueeze_")
def _unsqueeze(b: Builder, n: Node, x: Any, dim: int) -> str:
    return b.unsqueeze(b.t(x), [dim % (rank(x) + 1)])


@op("squeeze", "squeeze_")
def _squeeze(b: Builder, n: Node, x: Any, dim: Any = None) -> str:
    dims = range(rank(x)) if dim is None else dim if isinstance(dim, list) else [dim]
    axes = [d % max(rank(x), 1) for d in dims if rank(x) and x.example.shape[d] == 1]
    return b.squeeze(b.t(x), axes) if axes else b.t(x)


@op("expand")
def _expand(b: Builder, n: Node, x: Any, shape: Any, **named: Any) -> str:
    sizes = [1 if not isinstance(s, Value) and s == -1 else s for s in shape]
    return b.add("Expand", b.t(x), b.ints(sizes))


@op("expand_as")
def _expand_as(b: Builder, n: Node, x: Any, other: Any) -> str:
    return b.add("Expand", b.t(x), b.add("Shape", b.t(other)))


@op("repeat", "tile")
def _repeat(b: Builder, n: Node, x: Any, repeats: Any) -> str:
    value, missing = b.t(x), len(repeats) - rank(x)
    if missing > 0:
        value = b.unsqueeze(value, list(range(missing)))
    elif missing < 0:
        repeats = [1] * -missing + list(repeats)
    return b.add("Tile", value, b.ints(repeats))


@op("cat", "concat", "stack")
def _cat(b: Builder, n: Node, tensors: Any, dim: int = 0, **named: Any) -> str:
    like = result_kind(n)
    parts = [b.t(t, like) for t in tensors if n.op == "stack" or t.example.dim() > 1 or t.example.numel()]
    axis = dim % len(n.outs[0].example.shape)
    if n.op == "stack":
        parts = [b.unsqueeze(p, [axis]) for p in parts]
    return b.add("Concat", *parts, axis=axis)


@op("split", "split_with_sizes", "chunk", "tensor_split")
def _split(b: Builder, n: Node, x: Any, how: Any, dim: int = 0) -> list[str]:
    sizes = [v.example.shape[dim] for v in n.outs]
    if isinstance(how, list) and any(isinstance(size, Value) for size in how):
        return list(b.add("Split", b.t(x), b.ints(how), outputs=len(how), axis=dim % rank(x)))
    return b.split(b.t(x), sizes, dim % rank(x), even=n.op == "chunk")


@op("unbind")
def _unbind(b: Builder, n: Node, x: Any, dim: int = 0) -> list[str]:
    axis = dim % rank(x)
    return [b.squeeze(p, [axis]) for p in b.split(b.t(x), [1] * len(n.outs), axis)]


@op("slice", "narrow")
def _slice(b: Builder, n: Node, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> str:
    first = b.number(0 if start is None else start)
    if n.op == "narrow":
        last = (
            b.add("Add", first, b.number(end))
            if isinstance(start, Value) or isinstance(end, Value)
            else b.number(start + end)
        )
    else:
        last = b.number(_LAST if end is None else end)
    return b.add("Slice", b.t(x), first, last, b.constant([dim % rank(x)]), b.number(step))


@op("select")
def _select(b: Builder, n: Node, x: Any, dim: int, index: Any) -> str:
    if isinstance(index, Value):
        return b.squeeze(b.add("Gather", b.t(x), b.number(index), axis=dim % rank(x)), [dim % rank(x)])
    return b.add("Gather", b.t(x), b.constant(index), axis=dim % rank(x))


@op("index_select")
def _index_select(b: Builder, n: Node, x: Any, dim: int, index: Any) -> str:
    return b.add("Gather", b.t(x), b.t(index), axis=dim % rank(x))


@op("embedding")
def _embedding(b: Builder, n: Node, weight: Any, indices: Any, *rest: Any) -> str:
    return b.add("Gather", b.t(weight), b.t(indices), axis=0)


@op("gather", "take_along_dim")
def _gather(b: Builder, n: Node, x: Any, dim: Any, index: Any, **named: Any) -> str:
    if n.op == "take_along_dim":
        dim, index = index, dim
    return b.add("GatherElements", b.t(x), b.t(index), axis=dim % rank(x))


@op("scatter", "scatter_", "scatter_add", "scatter_add_")
def _scatter(b: Builder, n: Node, x: Any, dim: int, index: Any, src: Any = None, value: Any = None) -> str:
    src = value if src is None else src
    like = kind_of(x)
    if not isinstance(src, Value):
        updates = b.add("Expand", b.constant(src, like.numpy), b.add("Shape", b.t(index)))
    else:
        updates = b.t(src, like)
    reduction = "add" if "add" in n.op else None
    return b.add("ScatterElements", b.t(x), b.t(index), updates, axis=dim % rank(x), reduction=reduction)


@op("tril", "triu")
def _triangle(b: Builder, n: Node, x: Any, diagonal: int = 0) -> str:
    if b.opset < 14:
        refuse(f"{n.op} needs opset 14")
    return b.add("Trilu", b.t(x), b.constant(diagonal), upper=int(n.op == "triu"))


@op("flip")
def _flip(b: Builder, n: Node, x: Any, dims: Any) -> str:
    axes = [d % rank(x) for d in dims]
    ends = [b.constant([v] * len(axes)) for v in (-1, -_LAST)]
    return b.add("Slice", b.t(x), *ends, b.constant(axes), b.constant([-1] * len(axes)))


@op("roll")
def _roll(b: Builder, n: Node, x: Any, shifts: Any, dims: Any) -> str:
    value = b.t(x)
    for shift, dim in zip(*(v if isinstance(v, list) else [v] for v in (shifts, dims))):
        first, second = b.slice(value, dim % rank(x), -shift, _LAST), b.slice(value, dim % rank(x), 0, -shift)
        value = b.add("Concat", first, second, axis=dim % rank(x))
    return value


@op("one_hot")
def _one_hot(b: Builder, n: Node, x: Any, num_classes: int = -1) -> str:
    count = n.outs[0].example.shape[-1] if num_classes == -1 else num_classes
    return b.add("OneHot", b.t(x), b.constant(count), b.constant([0, 1]), axis=-1)


@op("pad", "constant_pad_nd")
def _pad(b: Builder, n: Node, x: Any, pad: Any, mode: Any = "constant", value: Any = None) -> str:
    if n.op == "constant_pad_nd":
        mode, value = "constant", mode if isinstance(mode, (int, float)) else 0
    count = rank(x)
    begins, ends = [0] * count, [0] * count
    for i in range(len(pad) // 2):
        begins[count - 1 - i], ends[count - 1 - i] = pad[2 * i], pad[2 * i + 1]
    kinds = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    if mode == "circular" and b.opset < 19:
        return _circular(b, b.t(x), begins, ends)
    extra = [b.constant(0 if value is None else value, kind_of(x).numpy)] if mode == "constant" else []
    return b.add("Pad", b.t(x), b.ints([*begins, *ends]), *extra, mode=kinds[mode])


def _circular(b: Builder, value: str, begins: list[int], ends: list[int]) -> str:
    for axis, (before, after) in enumerate(zip(begins, ends)):
        parts = [b.slice(value, axis, -before, _LAST)] if before else []
        parts += [value] + ([b.slice(value, axis, 0, after)] if after else [])
        value = b.add("Concat", *parts, axis=axis) if len(parts) > 1 else value
    return value


# -- tensors made from nothing -----------------------------------------------------------------------------------


def _fill(b: Builder, n: Node, shape: str, value: Any) -> str:
    like = result_kind(n)
    if isinstance(value, Value):
        return b.add("Expand", b.t(value, like), shape)
    filled = b.onnx.numpy_helper.from_array(np.asarray([value], like.numpy))
    return b.add("ConstantOfShape", shape, value=filled)


@op("zeros", "ones", "empty", "full")
def _filled(b: Builder, n: Node, size: Any, value: Any = 0, **named: Any) -> str:
    return _fill(b, n, b.ints(size), 1 if n.op == "ones" else value if n.op == "full" else 0)


@op("zeros_like", "ones_like", "empty_like", "full_like")
def _alike(b: Builder, n: Node, x: Any, value: Any = 0, **named: Any) -> str:
    value = 1 if n.op == "ones_like" else value if n.op == "full_like" else 0
    return _fill(b, n, b.add("Shape", b.t(x)), value)


@op("new_zeros", "new_ones", "new_full", "new_empty")
def _new(b: Builder, n: Node, x: Any, size: Any, value: Any = 0, **named: Any) -> str:
    return _fill(b, n, b.ints(size), 1 if n.op == "new_ones" else value if n.op == "new_full" else 0)


@op("arange")
def _arange(b: Builder, n: Node, *bounds: Any, **named: Any) -> str:
    start, end, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    like = result_kind(n)
    ends = [
        b.squeeze(b.t(v, like), [0]) if isinstance(v, Value) and not isinstance(v.example, Tensor) else b.t(v, like)
        for v in (start, end, step)
    ]
    return b.add("Range", *ends)


@op("tensor")
def _literal(b: Builder, n: Node, data: Any, **named: Any) -> str:
    like = result_kind(n)
    if isinstance(data, Value):
        return b.squeeze(b.t(data, like), [0])
    parts = [b.t(v, like) if isinstance(v, Value) else b.constant([v], like.numpy) for v in data]
    return b.add("Concat", *parts, axis=0)


@op("copy_")
def _copy(b: Builder, n: Node, x: Any, source: Any, **named: Any) -> str:
    return b.add("Expand", b.t(source, kind_of(x)), b.add("Shape", b.t(x)))


@op("fill_", "zero_")
def _fill_in(b: Builder, n: Node, x: Any, value: Any = 0) -> str:
    return _fill(b, n, b.add("Shape", b.t(x)), value)


@op("pixel_shuffle")
def _pixel_shuffle(b: Builder, n: Node, x: Any, factor: int) -> str:
    return b.add("DepthToSpace", b.t(x), blocksize=factor, mode="CRD")


@op("pixel_unshuffle")
def _pixel_unshuffle(b: Builder, n: Node, x: Any, factor: int) -> str:
    c, h, w = x.example.shape[1:]
    value = b.add("Reshape", b.t(x), b.constant([-1, c, h // factor, factor, w // factor, factor]))
    value = b.add("Transpose", value, perm=[0, 1, 3, 5, 2, 4])
    return b.add("Reshape", value, b.constant([-1, c * factor**2, h // factor, w // factor]))


@op("atleast_1d", "atleast_2d", "atleast_3d")
def _atleast(b: Builder, n: Node, x: Any) -> str:
    wanted = len(n.outs[0].example.shape)
    places = {(0, 1): [0], (0, 2): [0, 1], (1, 2): [0], (0, 3): [0, 1, 2], (1, 3): [0, 2], (2, 3): [2]}
    return b.t(x) if rank(x) == wanted else b.unsqueeze(b.t(x), places[rank(x), wanted])
