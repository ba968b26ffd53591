"""ONNX operators that choose elements by number or write them to places."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._core import dtypes
from ..._ops.registry import ops
from ..._tensor import Tensor
from ...nn import functional as F
from ..errors import OnnxModelError
from .operators import Node, axis_of, on_sizes, operator

__all__: list[str] = []


def _wrapped(places: Tensor, count: int) -> Tensor:
    """Numbers of elements, counted from the front."""
    places = places.long()
    return ops.where(places < 0, places + count, places)


@operator("Gather")
def gather(node: Node, x: Tensor, places: Tensor) -> Any:
    axis = axis_of(node.int("axis", 0), x.ndim)
    found = _wrapped(places, x.shape[axis])
    if axis == 0 and x.ndim == 2 and x.dtype.is_floating_point:
        return F.embedding(found, x)
    made = ops.index_select(x, axis, found.reshape(-1))
    return made.reshape([*x.shape[:axis], *places.shape, *x.shape[axis + 1 :]])


@on_sizes("Gather")
def gather_sizes(node: Node, x: Any, places: Any) -> Any:
    if x.ndim != 1 or places.dtype.kind not in "iu" or not np.all((places >= -len(x)) & (places < len(x))):
        return NotImplemented
    made = np.empty(places.shape, x.dtype)
    made[...] = x[places]
    return made


@operator("GatherElements")
def gather_elements(node: Node, x: Tensor, places: Tensor) -> Any:
    axis = axis_of(node.int("axis", 0), x.ndim)
    return ops.gather(x, axis, _wrapped(places, x.shape[axis]))


def _tuples(places: Tensor, sizes: Any) -> list[Tensor]:
    """The last axis as numbers of elements, one tensor for each axis that is indexed."""
    if places.shape[-1] > len(sizes):
        raise OnnxModelError(
            f"indices with {places.shape[-1]} numbers do not fit a tensor with {len(sizes)} dimensions"
        )
    return [_wrapped(places[..., i], sizes[i]) for i in range(places.shape[-1])]


@operator("GatherND")
def gather_nd(node: Node, x: Tensor, places: Tensor) -> Any:
    batch = node.int("batch_dims", 0)
    if batch == 0:
        return x[tuple(_tuples(places, x.shape))]
    count = math.prod(x.shape[:batch])
    flat, which = x.reshape([count, *x.shape[batch:]]), places.reshape([count, *places.shape[batch:]])
    first = ops.arange(count, device=x.device).reshape([count] + [1] * (which.ndim - 2))
    made = flat[(first, *_tuples(which, flat.shape[1:]))]
    return made.reshape([*places.shape[:-1], *made.shape[which.ndim - 1 :]])


_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@operator("Scatter", "ScatterElements")
def scatter_elements(node: Node, x: Tensor, places: Tensor, updates: Tensor) -> Any:
    axis, reduction = axis_of(node.int("axis", 0), x.ndim), node.text("reduction", "none")
    found = _wrapped(places, x.shape[axis])
    if reduction == "none":
        return ops.scatter(x, axis, found, updates)
    return ops.scatter_reduce(x, axis, found, updates, _REDUCTIONS[reduction], include_self=True)


@operator("ScatterND")
def scatter_nd(node: Node, x: Tensor, places: Tensor, updates: Tensor) -> Any:
    reduction, depth = node.text("reduction", "none"), places.shape[-1]
    found = _tuples(places, x.shape)
    if reduction == "none":
        return ops.index_put(x, tuple(found), updates)
    number = ops.zeros(places.shape[:-1], dtype=dtypes.int64, device=x.device)
    for n, which in zip(x.shape, found):
        number = number * n + which
    rest = math.prod(x.shape[depth:])
    flat, rows = x.reshape([-1, rest]), number.reshape(-1, 1).expand(-1, rest)
    made = ops.scatter_reduce(flat, 0, rows, updates.reshape(-1, rest), _REDUCTIONS[reduction], include_self=True)
    return made.reshape(x.shape)


@operator("NonZero")
def nonzero(node: Node, x: Tensor) -> Any:
    return ops.nonzero(x).t()


@operator("OneHot", lists=(1,))
def one_hot(node: Node, places: Tensor, depth: Any, off_on: Tensor) -> Any:
    axis, count = node.int("axis", -1), int(depth[0])
    axis = axis_of(axis, places.ndim + 1)
    sizes = [1] * axis + [count] + [1] * (places.ndim - axis)
    chosen = _wrapped(places, count).unsqueeze(axis) == ops.arange(count, device=places.device).reshape(sizes)
    return ops.where(chosen, off_on[1], off_on[0])


@operator("Compress")
def compress(node: Node, x: Tensor, condition: Tensor) -> Any:
    axis = node.int("axis")
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis_of(axis, x.ndim))
    return ops.index_select(x, axis, ops.nonzero(condition).reshape(-1))


@operator("Unique")
def unique(node: Node, x: Tensor) -> Any:
    """Which elements there are, where each stands first, which one every element is, and how often each is there."""
    axis = node.int("axis")
    flat = x.reshape(-1) if axis is None else x
    found, which, counts = ops.unique(flat, True, True, True, 0 if axis is None else axis_of(axis, x.ndim))
    which = which.reshape(-1)
    number = ops.arange(len(which), device=x.device)
    first = ops.full_like(counts, len(which)).scatter_reduce(0, which, number, "amin", include_self=True)
    if not node.flag("sorted", True):
        order = ops.argsort(first)
        found = ops.index_select(found, 0 if axis is None else axis, order)
        first, counts, which = first[order], counts[order], ops.argsort(order)[which]
    return found, first, which, counts


@operator("ReverseSequence")
def reverse_sequence(node: Node, x: Tensor, lengths: Tensor) -> Any:
    time, batch = node.int("time_axis", 0), node.int("batch_axis", 1)
    sizes = [1] * x.ndim
    sizes[time] = -1
    steps = ops.arange(x.shape[time], device=x.device).reshape(sizes)
    sizes[time], sizes[batch] = 1, -1
    lengths = lengths.long().reshape(sizes)
    places = ops.where(steps < lengths, lengths - 1 - steps, steps)
    return ops.gather(x, time, places.expand(x.shape))


@operator("TensorScatter")
def tensor_scatter(node: Node, past: Tensor, update: Tensor, starts: Tensor | None = None) -> Any:
    """Writes new entries of a cache behind the old ones, round and round if it is circular."""
    axis, count = axis_of(node.int("axis", -2), past.ndim), update.shape[node.int("axis", -2)]
    sizes = [1] * past.ndim
    sizes[axis] = -1
    places = ops.arange(count, device=past.device).reshape(sizes)
    if starts is not None:
        places = places + starts.long().reshape([-1] + [1] * (past.ndim - 1))
    if node.text("mode", "linear") == "circular":
        places = places % past.shape[axis]
    return ops.scatter(past, axis, places.expand(update.shape), update)
