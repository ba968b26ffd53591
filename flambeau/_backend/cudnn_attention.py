"""Attention on a GPU as graphs of cuDNN, whose engines never store the matrix of scores.

A graph says what is computed, operation by operation, in the order that its engines know; q, k, v and what belongs to them have
the dimensions (batch, heads, length, width), where heads of keys and values may be fewer than those of queries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core.dtypes import BY_NUMPY
from .._core.once import found_once
from .cudnn import (
    OF_DESCRIPTORS,
    OF_POINTWISE,
    OF_REDUCTION,
    OF_TYPE,
    TYPES,
    Cudnn,
    Descriptor,
    Graph,
    row_major,
    settings,
)

_FIRST = 91000  # the first version whose engines take all that is described here
_CODES = ("f16", "bf16")
_UNIT = 8  # elements that the width of heads is a multiple of
# Operations of elements, and over rows.
_ADD, _MULTIPLY, _DIVIDE, _SUBTRACT, _EXP, _LOG, _SAME, _AT_LEAST, _INDEX, _SELECT = (
    0,
    1,
    6,
    9,
    13,
    15,
    21,
    303,
    501,
    601,
)
_SUM, _LARGEST = 0, 3
_QUERIES, _KEYS = 2, 3  # dimensions of scores


class CudnnAttention:
    """softmax(q k' * scale + mask) v and its gradients."""

    def __init__(self, cudnn: Cudnn):
        self.cudnn = cudnn

    @found_once
    def _settled(self) -> Callable[..., Any]:
        return self.cudnn.backend.pointwise("settled", _settled, ("f32",), ("f32",), ("f32",))  # type: ignore[no-any-return]

    def takes(self, q: Any, k: Any, v: Any) -> bool:
        """Whether it may be asked for such operands; it may still refuse."""
        return (
            settings.enabled
            and settings.attention
            and BY_NUMPY[q.dtype].code in _CODES
            and not q.shape[-1] % _UNIT
            and not v.shape[-1] % _UNIT
            and bool(q.size and k.size)
            and self.cudnn.library is not None
            and (self.cudnn.version() or 0) >= _FIRST
        )

    def forward(self, q: Any, k: Any, v: Any, mask: Any, out: Any, totals: Any, scale: float, causal: bool) -> bool:
        """Fills `out`, and the logarithm of each query's sum of exponentials; False if cuDNN cannot."""
        return self._run("forward", mask, [q, _turned(k), v, out, _column(totals)], 2, scale, causal)

    def backward(
        self, g: Any, q: Any, k: Any, v: Any, mask: Any, out: Any, totals: Any, made: Sequence[Any], scale: float, causal: bool
    ) -> bool:  # fmt: skip
        """Fills the gradients by q, k and v; False if cuDNN cannot, or not in the same order each time."""
        if settings.switches()[0]:
            return False
        empty, single = self.cudnn.backend.empty, np.dtype(np.float32)
        if mask is not None:
            given, totals = totals, empty(totals.shape, single)
            self._settled(given, out=totals)
        columns = _column(totals), empty((*q.shape[:3], 1), single)
        operands = [q, _turned(k), _turned(v), out, g, *columns, empty(q.shape, single), *made]
        return self._run("backward", mask, operands, 3, scale, causal)

    def _run(self, role: str, mask: Any, operands: list[Any], made: int, scale: float, causal: bool) -> bool:
        masked = mask is not None
        if masked:
            operands = [mask, *operands]
        if any([n > 1 and not s for a in operands for n, s in zip(a.shape, a.strides)]):
            return False  # elements of several places
        lies = tuple([(BY_NUMPY[a.dtype].code, a.shape, _steps(a)) for a in operands])
        describe = lambda graph: getattr(_Described(graph, lies, masked, scale, causal), role)()
        return self.cudnn.run((role, lies, masked, scale, causal), describe, operands, made)


class _Described:
    """A graph in the making: operations give what they make, 32-bit floats that nobody else sees unless it is said."""

    def __init__(self, graph: Graph, lies: Sequence[Any], masked: bool, scale: float, causal: bool):
        self.graph, self.scale, self.causal, self.operands = graph, scale, causal, len(lies)
        tensors = [graph.tensor(*where, number) for number, where in enumerate(lies, 1)]
        self.mask, self.tensors = (tensors[0], tensors[1:]) if masked else (None, tensors)
        (self.code, (*outer, length, _), _), self.keys, self.values = lies[masked:][:3]
        self.rows, self.scores = (*outer, length, 1), (*outer, length, self.keys[1][3])

    def forward(self) -> None:
        q, k, v, out, totals = self.tensors
        scores = self._seen(self._scores(q, k))
        high = self._fold(_LARGEST, scores, self._between("f32", self.rows))
        powers = self._each(_EXP, self._each(_SUBTRACT, scores, high))
        total = self._fold(_SUM, powers, self._between("f32", self.rows))
        self._each(_ADD, high, self._each(_LOG, total, out=self._between("f32", self.rows)), out=totals)
        shares = self._each(_DIVIDE, powers, total, out=self._between(self.code, self.scores))
        self._product(shares, v, out)

    def backward(self) -> None:
        q, k, v, out, slopes, totals, dots, sums, by_q, by_k, by_v = self.tensors
        # Each row's product of result and slopes.
        both = self._each(_MULTIPLY, slopes, out, out=self._between("f32", (*self.rows[:3], self.values[1][2])))
        dot = self._fold(_SUM, both, self._between("f32", self.rows))
        self._each(_MULTIPLY, dot, self._number(1.0), out=dots)
        # Shares, and from them the gradient by values.
        shares = self._each(_EXP, self._seen(self._each(_SUBTRACT, self._scores(q, k), totals)))
        self._over_queries(shares, slopes, self.values[1], by_v)
        # The gradient by scores, and from it those by keys and queries.
        moved = self._product(slopes, v, self._between("f32", self.scores))
        moved = self._each(_MULTIPLY, self._each(_SUBTRACT, moved, dots), shares)
        moved = self._each(_MULTIPLY, moved, self._number(self.scale))
        self._over_queries(moved, q, self.keys[1], by_k)
        (batch, heads, width, keys), (*steps, down, across) = self.keys[1:]
        straight = self._laid(k, self._between(self.code, (batch, heads, keys, width), [*steps, across, down]))
        self._each(_SAME, self._product(moved, straight, sums), out=by_q)

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _scores(self, q: Descriptor, k: Descriptor) -> Descriptor:
        made = self._each(_MULTIPLY, self._product(q, k, self._between("f32", self.scores)), self._number(self.scale))
        return made if self.mask is None else self._each(_ADD, made, self.mask)

    def _seen(self, scores: Descriptor) -> Descriptor:
        """Without those of keys that come after the query, where that is wished."""
        if not self.causal:
            return scores
        places = [
            self._each(_INDEX, scores, axis=axis, out=self._between("i32", self.scores)) for axis in (_QUERIES, _KEYS)
        ]
        before = self._each(_AT_LEAST, *places, out=self._between("b1", self.scores), math="b1")
        return self._each(_SELECT, scores, self._number(-math.inf), before)

    def _over_queries(self, x: Descriptor, y: Descriptor, turned: Sequence[int], out: Descriptor) -> None:
        """x' y, the gradient by keys or values, whose shape is this one turned; that of heads which share them is added up."""
        batch, heads, length, keys = self.scores
        steps = [*row_major(self.scores)[:2], 1, keys]
        columns = self._laid(x, self._between(self.code, (batch, heads, keys, length), steps))
        if turned[1] == heads:
            self._product(columns, y, out)
        else:
            whole = self._between(self.code, (batch, heads, keys, turned[2]))
            self._fold(_SUM, self._product(columns, y, whole), out)

    # -- operations ----------------------------------------------------------------------------------------------------

    def _each(
        self, mode: int, x: Descriptor, *others: Descriptor, out: Descriptor | None = None, axis: int | None = None,
        math: str = "f32",
    ) -> Descriptor:  # fmt: skip
        """An operation of elements, of scores unless it is said."""
        about, operation = self.graph.new(0), self.graph.new(13)
        about.choose(0, OF_POINTWISE, mode)
        about.choose(1, OF_TYPE, TYPES[math])
        if axis is not None:
            about.count(9, [axis])
        out = self._between("f32", self.scores) if out is None else out
        parts = zip((750, 751, 753, 752, 758), (about.finished(), x, out, *others))
        return self._with(operation, parts, out)

    def _fold(self, kind: int, x: Descriptor, out: Descriptor) -> Descriptor:
        about = self.graph.new(21)
        about.choose(1600, OF_REDUCTION, kind)
        about.choose(1601, OF_TYPE, TYPES["f32"])
        return self._with(self.graph.new(22), ((1612, about.finished()), (1610, x), (1611, out)), out)

    def _product(self, x: Descriptor, y: Descriptor, out: Descriptor) -> Descriptor:
        about = self.graph.new(18)
        about.choose(1500, OF_TYPE, TYPES["f32"])
        parts = ((1523, about.finished()), (1520, x), (1521, y), (1522, out))
        return self._with(self.graph.new(19), parts, out)

    def _laid(self, x: Descriptor, out: Descriptor) -> Descriptor:
        """The same elements with other dimensions."""
        return self._with(self.graph.new(31), ((2200, x), (2201, out)), out)

    def _with(self, operation: Descriptor, parts: Any, out: Descriptor) -> Descriptor:
        for name, part in parts:
            operation.set(name, OF_DESCRIPTORS, [part])
        self.graph.add(operation)
        return out

    # -- tensors -------------------------------------------------------------------------------------------------------

    def _between(self, code: str, shape: Sequence[int], steps: Sequence[int] | None = None) -> Descriptor:
        return self.graph.between(code, shape, steps)

    def _number(self, value: float) -> Descriptor:
        return self.graph.constant(value, 4, self.operands)


def _settled(m: Any, total: Any) -> Any:
    """The total of a query that sees nothing, with which its shares become 0: all its scores are -inf as the total is, and with a
    single query of a single head cuDNN takes their difference, which is NaN."""
    return m.where(total == -math.inf, math.inf, total)


def _turned(a: Any) -> Any:
    """Rows as columns, as graphs have keys, and values where gradients are made."""
    return a.swapaxes(2, 3)


def _column(a: Any) -> Any:
    """A number for each row."""
    return a.reshape(*a.shape, 1)


def _steps(a: Any) -> tuple[int, ...]:
    """Elements from each place to the next."""
    return tuple([s // a.itemsize for s in a.strides])
