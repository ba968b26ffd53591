"""Convolutions on a GPU as graphs of cuDNN, in three roles: products of windows, their adjoint, and sums over all windows."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from .._core.dtypes import BY_NUMPY
from .cudnn import (
    NOT_DETERMINISTIC,
    OF_DESCRIPTORS,
    OF_DOUBLES,
    OF_FLOATS,
    OF_MODE,
    OF_TYPE,
    TYPES,
    Cudnn,
    Descriptor,
    Graph,
    row_major,
    settings,
)

_CODES = ("f32", "f64", "f16", "bf16")
_CROSS_CORRELATION = 1
_TENSOR_CORES, _ROUNDED_FACTORS = 0, 1  # what is noted of engines
_CONVOLUTION = 1  # a kind of descriptor
# Each role's operation, its first attribute (factor, factor of what was there, convolution follow each other), and those of its operands:
# two that are given, one that is made.
_ROLES = {
    "products": (10, 700, (704, 703, 705)),
    "adjoint": (12, 706, (709, 711, 710)),
    "sums": (11, 712, (716, 717, 715)),
}


class Convolutions:
    """cuDNN's convolutions."""

    def __init__(self, cudnn: Cudnn):
        self.cudnn = cudnn

    def takes(self, dtype: Any) -> bool:
        """Whether it is there, switched on, and computes with such elements."""
        found = BY_NUMPY.get(dtype)
        return settings.enabled and found is not None and found.code in _CODES and self.cudnn.library is not None

    def __call__(
        self, role: str, first: Any, second: Any, made: Any, stride: Sequence[int], padding: Sequence[int],
        dilation: Sequence[int], groups: int, last: bool,
    ) -> bool:  # fmt: skip
        """Makes the last operand from the others, all dense, with channels first or last in memory; False if cuDNN cannot."""
        operands, code, switches = (first, second, made), BY_NUMPY[made.dtype].code, settings.switches()
        about = tuple(stride), tuple(padding), tuple(dilation)
        shapes = tuple([a.shape for a in operands])
        deterministic, benchmark, rounding = switches
        unwanted = {NOT_DETERMINISTIC} if deterministic else set()
        if code == "f32" and not rounding:
            unwanted |= {_TENSOR_CORES, _ROUNDED_FACTORS}
        describe = lambda graph: _describe(graph, role, code, shapes, last, about)
        key = role, code, shapes, last, about, switches
        return self.cudnn.run(key, describe, operands, 1, unwanted, benchmark)


def _describe(graph: Graph, role: str, code: str, shapes: Any, last: bool, about: Any) -> None:
    """The graph of one convolution."""
    kind, attribute, places = _ROLES[role]
    stride, padding, dilation = [
        (fill, *numbers) if len(numbers) == 1 else numbers for numbers, fill in zip(about, (1, 0, 1))
    ]
    wide = "f64" if code == "f64" else "f32"
    convolution = graph.new(_CONVOLUTION)
    convolution.choose(100, OF_TYPE, TYPES[wide])
    convolution.choose(101, OF_MODE, _CROSS_CORRELATION)
    for name, values in ((102, dilation), (103, stride), (104, padding), (105, padding), (106, [len(stride)])):
        convolution.count(name, values)
    operation = graph.new(kind)
    factor, of_factor = (ctypes.c_double, OF_DOUBLES) if wide == "f64" else (ctypes.c_float, OF_FLOATS)
    operation.set(attribute, of_factor, (factor * 1)(1))
    operation.set(attribute + 1, of_factor, (factor * 1)(0))
    operation.set(attribute + 2, OF_DESCRIPTORS, [convolution.finished()])
    for number, (place, shape) in enumerate(zip(places, shapes), 1):
        operation.set(place, OF_DESCRIPTORS, [_operand(graph, code, shape, last, number)])
    graph.add(operation)


def _operand(graph: Graph, code: str, shape: tuple[int, ...], last: bool, number: int) -> Descriptor:
    """A tensor; signals count as images with one row."""
    if len(shape) == 3:
        shape = (*shape[:2], 1, shape[2])
    if not last:
        return graph.tensor(code, shape, row_major(shape), number)
    first, *inner, side = row_major((shape[0], *shape[2:], shape[1]))
    return graph.tensor(code, shape, [first, side, *inner], number)
