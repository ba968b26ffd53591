"""ONNX operators that arrange elements: shapes, slices, joins, padding, tensors made from sizes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._core import dtypes
from ..._ops.registry import ops
from ..._tensor import Tensor
from ..errors import OnnxModelError
from .operators import Node, array_of, axis_of, on_sizes, operator
from .tensors import element_type

__all__: list[str] = []

_SMALL = 64  # elements up to which what is made from sizes are sizes


# -- shapes ------------------------------------------------------------------------------------------------------------


@operator("Shape", raw=True)
def shape(node: Node, x: Any, **around: Any) -> Any:
    return array_of(tuple(x.shape)[node.int("start", 0) : node.int("end")])


@operator("Size", raw=True)
def size(node: Node, x: Any, **around: Any) -> Any:
    return array_of([math.prod(x.shape)]).reshape(())


@operator("Reshape", lists=(1,))
def reshape(node: Node, x: Tensor, sizes: Any = None) -> Any:
    return ops.reshape(x, _new_shape(node, x.shape, node.list("shape", []) if sizes is None else sizes))


def _new_shape(node: Node, old: Any, sizes: Any) -> list[Any]:
    """The sizes that a tensor gets: 0 stands for the old one."""
    if node.flag("allowzero"):
        return list(sizes)
    if any(type(n) is int and n == 0 and i >= len(old) for i, n in enumerate(sizes)):
        raise OnnxModelError(f"no size of {list(old)} fits the 0 in {list(sizes)}")
    return [old[i] if type(n) is int and n == 0 else n for i, n in enumerate(sizes)]


@on_sizes("Reshape")
def reshape_sizes(node: Node, x: Any, sizes: Any) -> Any:
    made = [int(n) for n in _new_shape(node, x.shape, sizes.tolist())]
    return x.reshape(made) if len(made) <= 1 else NotImplemented


@operator("Flatten")
def flatten(node: Node, x: Tensor) -> Any:
    axis = node.int("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    if axis == 1 and x.ndim > 1:
        return ops.flatten(x, 1)
    return ops.reshape(x, [math.prod(x.shape[:axis]), math.prod(x.shape[axis:])])


@operator("Squeeze", lists=(1,))
def squeeze(node: Node, x: Tensor, axes: Any = None) -> Any:
    axes = node.list("axes") if axes is None else axes
    if axes is None:
        return ops.squeeze(x)
    found = tuple(axis_of(a, x.ndim) for a in axes)
    if any(x.shape[a] != 1 for a in found):
        raise OnnxModelError(f"the axes {list(axes)} of a tensor with shape {list(x.shape)} do not have the size 1")
    return ops.squeeze(x, found)


@operator("Unsqueeze", lists=(1,))
def unsqueeze(node: Node, x: Tensor, axes: Any = None) -> Any:
    axes = node.list("axes", []) if axes is None else axes
    rank = x.ndim + len(axes)
    for axis in sorted(axis_of(a, rank) for a in axes):
        x = ops.unsqueeze(x, axis)
    return x


@on_sizes("Squeeze", "Unsqueeze")
def squeeze_sizes(node: Node, x: Any, axes: Any = None) -> Any:
    found = node.list("axes", [0]) if axes is None else axes.tolist()
    if list(np.reshape(found, -1)) not in ([0], [-1]):
        return NotImplemented
    if node.kind == "Unsqueeze":
        return x.reshape(1) if x.ndim == 0 else NotImplemented
    return x.reshape(()) if x.shape == (1,) else NotImplemented


@operator("Transpose")
def transpose(node: Node, x: Tensor) -> Any:
    return ops.permute(x, node.list("perm", list(range(x.ndim))[::-1]))


@operator("Expand", lists=(1,))
def expand(node: Node, x: Tensor, sizes: Any) -> Any:
    rank = max(x.ndim, len(sizes))
    sizes = [1] * (rank - len(sizes)) + list(sizes)
    have = [1] * (rank - x.ndim) + list(x.shape)
    return x.expand([h if type(n) is int and n == 1 else n for h, n in zip(have, sizes)])


@on_sizes("Expand")
def expand_sizes(node: Node, x: Any, sizes: Any) -> Any:
    if sizes.shape != (1,) or x.ndim > 1 or int(sizes[0]) > _SMALL:
        return NotImplemented
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, (int(sizes[0]),)))


# -- parts -------------------------------------------------------------------------------------------------------------


@operator("Slice", lists=(1, 2, 3, 4))
def cut(node: Node, x: Tensor, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None) -> Any:
    starts, ends, axes, steps = _cuts(node, starts, ends, axes, steps)
    for start, end, axis, step in zip(starts, ends, axes, steps):
        axis = axis_of(axis, x.ndim)
        if step < 0:  # from the back: the same elements of the tensor that is turned round
            count = x.shape[axis]
            start, end = (max(low, min(v + count if v < 0 else v, count - 1)) for v, low in ((start, 0), (end, -1)))
            x = ops.flip(x, [axis])[(slice(None),) * axis + (slice(count - 1 - start, count - 1 - end, -step),)]
        else:
            x = x[(slice(None),) * axis + (slice(start, end, step),)]
    return x


def _cuts(node: Node, starts: Any, ends: Any, axes: Any, steps: Any) -> Any:
    if node.opset < 10:
        starts, ends, axes = node.list("starts", []), node.list("ends", []), node.list("axes")
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in [int(s) for s in steps]:
        raise OnnxModelError(f"starts {starts}, ends {ends}, axes {axes} and steps {steps} do not fit")
    return starts, ends, axes, steps


@on_sizes("Slice")
def cut_sizes(node: Node, x: Any, *given: Any) -> Any:
    lists = [g.tolist() for g in given] + [None] * (4 - len(given))
    starts, ends, axes, steps = _cuts(node, *lists)
    if x.ndim != 1 or axes not in ([0], [-1]):
        return NotImplemented
    start, end, step = int(starts[0]), int(ends[0]), int(steps[0])
    return x[start : None if step < 0 and end < -len(x) else end : step]


@operator("Split", lists=(1,))
def split(node: Node, x: Tensor, sizes: Any = None) -> Any:
    axis, sizes = axis_of(node.int("axis", 0), x.ndim), node.list("split") if sizes is None else sizes
    if sizes is None:
        count = node.int("num_outputs", len(node.outputs))
        step = -(-x.shape[axis] // max(count, 1))
        sizes = [max(0, min(step, x.shape[axis] - i * step)) for i in range(count)]
    return tuple(ops.split(x, list(sizes), axis))


@on_sizes("Split")
def split_sizes(node: Node, x: Any, sizes: Any = None) -> Any:
    parts = node.list("split") if sizes is None else sizes.tolist()
    if x.ndim != 1 or not parts or sum(parts) != len(x) or min(parts) < 0:
        return NotImplemented
    return np.split(x, np.cumsum(parts)[:-1])


@operator("Concat")
def concat(node: Node, *xs: Tensor) -> Any:
    return ops.cat(list(xs), node.int("axis", 1))


@on_sizes("Concat")
def concat_sizes(node: Node, *xs: Any) -> Any:
    if not all(x.ndim == 1 for x in xs) or node.int("axis", 1) not in (0, -1) or sum(len(x) for x in xs) > _SMALL:
        return NotImplemented
    return np.concatenate(xs)


@operator("Tile", lists=(1,))
def tile(node: Node, x: Tensor, repeats: Any) -> Any:
    return x.repeat(list(repeats))


@operator("Pad", lists=(1, 3))
def pad(node: Node, x: Tensor, pads: Any = None, value: Tensor | None = None, axes: Any = None) -> Any:
    if node.opset < 11:
        pads, number = node.list("pads", []), node.float("value", 0.0)
    else:
        number = 0 if value is None else value.reshape(())
    axes = list(range(x.ndim)) if axes is None else [axis_of(a, x.ndim) for a in axes]
    if len(pads) != 2 * len(axes):
        raise OnnxModelError(f"{len(pads)} pads do not fit {len(axes)} axes")
    return _padded(x, axes, pads, node.text("mode", "constant"), number)


def _padded(x: Tensor, axes: Any, pads: Any, mode: str, number: Any) -> Any:
    before, after = [0] * x.ndim, [0] * x.ndim
    for i, axis in enumerate(axes):
        before[axis], after[axis] = pads[i], pads[i + len(axes)]
    if mode == "constant":
        if isinstance(number, Tensor):
            number = number.item()
        flat = [n for pair in zip(before[::-1], after[::-1]) for n in pair]
        return ops.pad(x, flat, value=number)
    if mode not in ("edge", "reflect", "wrap"):
        raise OnnxModelError(f"padding of the mode {mode!r} is not supported")
    for axis in range(x.ndim):  # any of them chooses elements along an axis
        if before[axis] or after[axis]:
            count = x.shape[axis]
            places = np.arange(-before[axis], count + after[axis])
            if mode == "edge":
                places = places.clip(0, count - 1)
            elif mode == "wrap":
                places = places % count
            else:
                turn = max(2 * (count - 1), 1)
                places = np.minimum(places % turn, turn - places % turn)
            x = ops.index_select(x, axis, ops.tensor(places, device=x.device))
    return x


@operator("CenterCropPad", lists=(1,))
def center_crop_pad(node: Node, x: Tensor, sizes: Any) -> Any:
    axes = node.list("axes", list(range(x.ndim)))
    for axis, wanted in zip(axes, sizes):
        axis = axis_of(axis, x.ndim)
        missing = wanted - x.shape[axis]
        if missing > 0:
            x = _padded(x, [axis], [missing // 2, missing - missing // 2], "constant", 0)
        else:
            x = x.narrow(axis, -missing // 2, wanted)
    return x


@operator("DepthToSpace")
def depth_to_space(node: Node, x: Tensor) -> Any:
    n, c, h, w = x.shape
    block = node.int("blocksize")
    if node.text("mode", "DCR") == "CRD":
        return (
            x.reshape([n, c // block**2, block, block, h, w])
            .permute(0, 1, 4, 2, 5, 3)
            .reshape(n, -1, h * block, w * block)
        )
    return (
        x.reshape([n, block, block, c // block**2, h, w]).permute(0, 3, 4, 1, 5, 2).reshape(n, -1, h * block, w * block)
    )


@operator("SpaceToDepth")
def space_to_depth(node: Node, x: Tensor) -> Any:
    n, c, h, w = x.shape
    block = node.int("blocksize")
    parts = x.reshape([n, c, h // block, block, w // block, block]).permute(0, 3, 5, 1, 2, 4)
    return parts.reshape([n, c * block**2, h // block, w // block])


@operator("Trilu", lists=(1,))
def triangle(node: Node, x: Tensor, k: Any = None) -> Any:
    return (ops.triu if node.flag("upper", True) else ops.tril)(x, 0 if k is None else k[0])


# -- tensors from sizes ------------------------------------------------------------------------------------------------


@operator("ConstantOfShape", raw=True)
def constant_of_shape(node: Node, sizes: Any, values: Any = None, device: Any = None) -> Any:
    wanted = sizes.reshape(-1).tolist()
    value = node.get("value", np.zeros(1, np.float32))
    if value.size != 1:
        raise OnnxModelError(f"the value has {value.size} elements")
    if len(wanted) == 1 and type(wanted[0]) is int and wanted[0] <= _SMALL and value.dtype == np.int64:
        return np.full(wanted, value.reshape(()))
    return ops.full(wanted, value.item(), dtype=dtypes.BY_NUMPY[value.dtype], device=device)


@operator("Range", raw=True)
def number_range(node: Node, start: Any, end: Any, step: Any, values: Any = None, device: Any = None) -> Any:
    kind = start.dtype if isinstance(start, Tensor) else dtypes.BY_NUMPY.get(start.dtype, dtypes.int64)
    first, last, by = (
        e.reshape(()).tolist() if isinstance(e, Tensor) else e.reshape(-1).tolist()[0] for e in (start, end, step)
    )
    if by == 0:
        raise OnnxModelError("the step is 0")
    if (last - first) * by <= 0:
        return ops.zeros((0,), dtype=kind, device=device)
    return ops.arange(first, last, by, dtype=kind, device=device)


@operator("EyeLike")
def eye_like(node: Node, x: Tensor) -> Any:
    kind = x.dtype if node.int("dtype") is None else element_type(node.int("dtype"))
    rows = ops.arange(x.shape[0], device=x.device)[:, None] + node.int("k", 0)
    return (rows == ops.arange(x.shape[1], device=x.device)).to(kind)


@operator("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike")
def random(node: Node, x: Tensor | None = None) -> Any:
    """Draws from our generator; a seed of the model would give the numbers of another one."""
    wanted = list(x.shape) if x is not None else node.list("shape", [])
    number = node.int("dtype")
    kind = element_type(1 if number is None else number) if number is not None or x is None else x.dtype
    place: dict[str, Any] = {"dtype": kind, "device": None if x is None else x.device}
    if node.kind.startswith("RandomNormal"):
        return ops.randn(wanted, **place) * node.float("scale", 1.0) + node.float("mean", 0.0)
    low, high = node.float("low", 0.0), node.float("high", 1.0)
    return ops.rand(wanted, **place) * (high - low) + low


@operator("Bernoulli")
def bernoulli(node: Node, x: Tensor) -> Any:
    made = ops.bernoulli(x)
    return made if node.int("dtype") is None else made.to(element_type(node.int("dtype")))


@operator("Multinomial")
def multinomial(node: Node, x: Tensor) -> Any:
    """The input holds logarithms of chances."""
    drawn = ops.multinomial(ops.softmax(x, -1), node.int("sample_size", 1), True)
    return drawn.to(element_type(node.int("dtype", 6)))
