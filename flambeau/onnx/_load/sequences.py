"""ONNX operators on sequences of tensors and on optional values."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._ops.registry import ops
from ..._tensor import Tensor
from ..errors import OnnxModelError
from .operators import Node, axis_of, operator

__all__: list[str] = []

operator("SequenceConstruct")(lambda node, *xs: list(xs))
operator("SequenceEmpty")(lambda node: [])
operator("Optional")(lambda node, x=None: x)
operator("OptionalGetElement")(lambda node, x: _there(x))


def _there(x: Any) -> Any:
    if x is None:
        raise OnnxModelError("an optional value is not there")
    return x


def _sequence(x: Any) -> list[Any]:
    if not isinstance(x, list):
        raise OnnxModelError(f"expected a sequence, got a {type(x).__name__}")
    return x


@operator("OptionalHasElement", raw=True)
def has_element(node: Node, x: Any = None, **around: Any) -> Any:
    return np.asarray(x is not None)


@operator("SequenceLength", raw=True)
def sequence_length(node: Node, x: Any, **around: Any) -> Any:
    return np.asarray(len(_sequence(x)))


@operator("SequenceAt", lists=(1,))
def sequence_at(node: Node, x: Any, place: Any) -> Any:
    return _sequence(x)[int(place[0])]


@operator("SequenceInsert", lists=(2,))
def sequence_insert(node: Node, x: Any, value: Any, place: Any = None) -> Any:
    made = list(_sequence(x))
    made.insert(len(made) if place is None else int(place[0]), value)
    return made


@operator("SequenceErase", lists=(1,))
def sequence_erase(node: Node, x: Any, place: Any = None) -> Any:
    made = list(_sequence(x))
    del made[-1 if place is None else int(place[0])]
    return made


@operator("ConcatFromSequence")
def concat_from_sequence(node: Node, x: Any) -> Any:
    axis = node.int("axis")
    return ops.stack(_sequence(x), axis) if node.flag("new_axis") else ops.cat(_sequence(x), axis)


@operator("SplitToSequence", lists=(1,))
def split_to_sequence(node: Node, x: Tensor, sizes: Any = None) -> Any:
    axis = axis_of(node.int("axis", 0), x.ndim)
    if sizes is None:
        parts = list(ops.split(x, 1, axis))
        return parts if node.flag("keepdims", True) else [p.squeeze(axis) for p in parts]
    return list(ops.split(x, int(sizes[0]) if len(sizes) == 1 and sizes[0] != x.shape[axis] else list(sizes), axis))
