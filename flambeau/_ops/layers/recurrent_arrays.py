"""Recurrent layers over CPU arrays: large products before and after, and the native loops over time between them."""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import numpy as np

from ..._backend import blas, threads
from ..._core.allocation import empty
from ..._core.dtypes import BY_NUMPY
from ..._kernel.sequences import recurrent as kernels
from ..._kernel.threads import pool

_LEAST_ROWS = 8  # of the batch for a thread
# Inputs are multiplied inside of the loop if there are so many rows at a step, and all weights stay in the second cache.
_INSIDE_ROWS = 12
_INSIDE_BYTES = 1 << 20
_INT = np.dtype(np.int64)

Span = tuple[int, int]  # steps of time: from, to


class Steps:
    """Which rows belong to which step of time: `counts[t]` rows from `offsets[t]` on; a batch never grows."""

    __slots__ = ("batch", "counts", "length", "offsets", "places", "read", "rows", "uniform")

    def __init__(self, counts: Any, uniform: bool):
        self.counts = np.ascontiguousarray(counts, _INT)
        self.length, self.uniform = len(counts), uniform
        self.offsets = np.zeros(self.length, _INT)
        np.cumsum(counts[:-1], out=self.offsets[1:])
        self.batch = int(counts[0])
        self.rows = int(self.offsets[-1] + counts[-1])
        self.places = [_address(self.counts), _address(self.offsets)]
        self.read: Span = 0, self.length  # the steps whose outputs somebody reads

    def reading(self, low: int, high: int) -> Steps:
        """The same steps, where nobody reads the last states, nor the outputs of other steps than these."""
        made = copy(self)
        made.read = low, high
        return made

    def needed(self, directions: int) -> list[Span]:
        """The steps that each direction must take for what is read."""
        return [(0, self.read[1]), (self.read[0], self.length)][:directions]

    def rows_of(self, low: int, high: int) -> slice:
        """The rows of the steps from `low` to `high`."""
        return slice(int(self.offsets[low]), int(self.offsets[high - 1] + self.counts[high - 1]))

    def previous(self, reverse: bool) -> Any:
        """For each row, where the row of the step before it is in (all rows, first states)."""
        step = np.repeat(np.arange(self.length), self.counts)
        number = np.arange(self.rows) - self.offsets[step]
        before = step + 1 if reverse else step - 1
        at = np.clip(before, 0, self.length - 1)
        known = (before == at) & (number < self.counts[at])
        return np.where(known, self.offsets[at] + number, self.rows + number)


class Weights(NamedTuple):
    """One direction of a layer; what it does not have is None."""

    input: Any  # (gates * size, features)
    hidden: Any  # (gates * size, width)
    input_bias: Any
    hidden_bias: Any
    projection: Any  # (width, size)


def _address(array: Any) -> int:
    return array.__array_interface__["data"][0]


def _proper(array: Any) -> Any:
    """An array that native code may read row by row."""
    return array if array.flags.c_contiguous and array.flags.aligned else array.copy(order="C")


def _rows(array: Any, count: int) -> Any:
    return _proper(array.reshape(count, array.shape[-1]))


class _Jobs:
    """The directions of a layer, each cut into ranges of the batch, run side by side by the native threads.

    A single step needs no packed weights: its products are made outside of the loop.
    """

    def __init__(self, mode: str, d: Any, steps: Steps, weights: list[Weights], spans: list[Span]):
        self.mode, self.dtype, self.steps = mode, d, steps
        self.code = BY_NUMPY[d].code
        self.count = kernels.GATES[mode]
        first = weights[0]
        self.width, self.size = first.hidden.shape[1], first.hidden.shape[0] // self.count
        self.features = first.input.shape[1]
        self.projected = first.projection is not None
        self.single = steps.length == 1 and not self.projected
        self.calls: list[Any] = []
        self.kept: list[Any] = []  # memory that the calls point to
        self.threads, parts = 1, 1
        lengths = [high - low for low, high in spans]
        work = steps.rows * self.count * self.size * self.width * sum(lengths) // steps.length
        if not self.single:
            self.threads = threads.count(work // threads.PRODUCTS)
            parts = max(1, min(round(self.threads * max(lengths) / sum(lengths)), steps.batch // _LEAST_ROWS))
        self.ranges = [(steps.batch * i // parts, steps.batch * (i + 1) // parts) for i in range(parts)]
        self.most = max(high - low for low, high in self.ranges)
        if self.single:
            self.product, self.left, self.columns = kernels.no_product(), 0, 1
        else:
            self.product, self.left, self.columns = kernels.product(self.code, kernels.product_rows(max(self.most, 1)))

    def padded(self, n: int) -> int:
        """Columns of whole tiles."""
        return -(-n // self.columns) * self.columns

    def inside(self) -> bool:
        """Whether the products of the inputs are made step by step, where their results are used at once."""
        size = self.count * self.size * (self.features + self.width) * self.dtype.itemsize
        return not self.single and self.most >= _INSIDE_ROWS and size <= _INSIDE_BYTES

    def room(self, size: int) -> int:
        """The address of scratch memory that begins at a multiple of 64 bytes."""
        memory = np.empty(size + 64, np.uint8)
        self.kept.append(memory)
        return _address(memory) + 63 & -64

    def packed(self, matrices: list[Any]) -> list[int]:
        """Addresses of matrices (depth, columns), as the product wants them."""
        if self.single:
            return [0] * len(matrices)
        made, calls = [], []
        address = kernels.packing(self.code, self.columns)
        for matrix in matrices:
            depth, columns = matrix.shape
            to = self.room(depth * self.padded(columns) * self.dtype.itemsize)
            calls.append((address, [to, _address(matrix)], [columns, depth], [*matrix.strides[::-1]]))
            made.append(to)
        if self.threads > 1:
            pool.run_calls(calls, self.threads)
        else:  # calls of a single thread run one after the other
            self.calls += calls
        return made

    def add(self, kernel: int, operands: list[Any], own: dict[int, int], forward: bool, span: Span) -> None:
        """A call for each range of the batch, over a span of the steps; operands, of which the first two are the steps' own, are
        arrays or addresses. `own` are those, by number, that each call needs for itself, with the columns of their rows; without
        any it is the room for packed rows."""
        begin, length, size = span[0], span[1] - span[0], self.dtype.itemsize
        first, stride = (0, 1) if forward else (length - 1, -1)
        operands = [*[place + begin * _INT.itemsize for place in self.steps.places], *operands]
        places = [a if a.__class__ is int else _address(a) for a in operands]
        strides = [0 if a.__class__ is int or a.ndim < 2 else a.strides[0] for a in operands]
        self.kept += operands
        for low, high in self.ranges:
            here = list(places)
            for i, columns in own.items():
                here[i] = self.room(self.most * columns * size if columns else self.left)
                strides[i] = columns * size
            numbers = [
                self.product,
                self.product,
                length,
                first,
                stride,
                low,
                high,
                self.size,
                self.width,
                self.features,
            ]
            self.calls.append((kernel, here, numbers, list(strides)))

    def run(self) -> None:
        pool.run_calls(self.calls, self.threads)


def _bias(mode: str, w: Weights, size: int) -> Any:
    """What is added to the gates: both biases; for GRU's last gate they stay apart, the second one at the end."""
    if w.input_bias is None:
        return np.zeros(4 * size, w.input.dtype)
    both = w.input_bias + w.hidden_bias
    if mode == "gru":
        both = np.concatenate((both, w.hidden_bias[2 * size :]))
        both[2 * size : 3 * size] = w.input_bias[2 * size :]
    return both


def forward(mode: str, x: Any, h: Any, c: Any, weights: list[Weights], steps: Steps, keep: bool) -> tuple[Any, ...]:
    """x (…, features), h (directions, batch, width), c (…, size) to (out, last h, last c, kept values…).

    Kept for backward, if `keep`: for each direction its gates, cells (for GRU what the reset gate multiplies) and
    outputs before the projection.
    """
    d, rows, directions = x.dtype, steps.rows, len(weights)
    shape, x = x.shape, _rows(x, rows)
    spans = steps.needed(directions)
    new = empty if steps.read == (0, steps.length) else np.zeros  # what nobody reads is the same each time
    jobs = _Jobs(mode, d, steps, weights, spans)
    width, size, projected = jobs.width, jobs.size, jobs.projected
    hidden = np.empty((directions, steps.batch, jobs.padded(width) if projected else width), d)
    hidden[:, :, :width] = h
    cell = c.copy(order="C") if mode == "lstm" else None
    out = new((rows, directions * width), d)
    inside = jobs.inside()
    matrices = [w.hidden.T for w in weights] + [w.projection.T for w in weights if projected]
    packed = jobs.packed(matrices + [w.input.T for w in weights if inside])
    kernel = kernels.forward(mode, jobs.code, keep, projected, inside)
    own = {} if jobs.single else {8: jobs.padded(jobs.count * size), 11: 0}
    if inside:
        own[14] = own[8]
    kept: list[Any] = []
    for i, w in enumerate(weights):
        bias = _bias(mode, w, size)
        gates: Any = None
        if inside:
            gates = new((rows, jobs.count * size), d) if keep else None
        elif w.input_bias is None:
            gates = blas.product(x, w.input.T)  # of all rows: fewer might be added up in another order
        else:
            gates = blas.add_product(bias[: jobs.count * size], x, w.input.T, 1, 1)
        cells = new((rows, size), d) if keep and mode in ("lstm", "gru") else None
        raw = new((rows, size), d) if projected else None
        sums = blas.product(hidden[i], w.hidden.T) if jobs.single else 0
        operands = [
            0 if gates is None else gates, hidden[i], 0 if cell is None else cell[i],
            out[:, i * width : (i + 1) * width], 0 if cells is None else cells, raw if projected else 0, sums, packed[i],
            packed[directions + i] if projected else 0, 0, bias, x, 0, packed[i - directions] if inside else 0,
        ]  # fmt: skip
        jobs.add(kernel, operands, own, i == 0, spans[i])
        kept += [gates, cells, raw]
    jobs.run()
    if projected:
        hidden = hidden[:, :, :width].copy()
    out = out.reshape(*shape[:-1], directions * width)
    return (out, hidden, cell, *kept) if keep else (out, hidden, cell)


class Gradients(NamedTuple):
    """What a direction's loop leaves behind, for all steps."""

    gates: Any
    sums: Any  # by the hidden part of the gates, where it differs from the inputs' (GRU)
    projected: Any


def backward(
    mode: str, g_out: Any, g_hidden: Any, g_cell: Any, x: Any, h: Any, c: Any, weights: list[Weights], out: Any,
    kept: list[Any], steps: Steps, needs: Any,
) -> list[Any]:  # fmt: skip
    """The gradients by x, h, c and each direction's weights, where they are needed."""
    d, rows, directions = x.dtype, steps.rows, len(weights)
    shape, x, out = x.shape, _rows(x, rows), _rows(out, rows)
    width = weights[0].hidden.shape[1]
    if g_out is None:
        g_out = np.ndarray((rows, directions * width), d, np.zeros(directions * width, d), 0, (0, d.itemsize))
    else:
        g_out = _rows(g_out, rows)
    sides = [slice(i * width, (i + 1) * width) for i in range(directions)]
    spans = [
        _reached(g_out[:, side], [g[i] for g in (g_hidden, g_cell) if g is not None], steps, i == 1)
        for i, side in enumerate(sides)
    ]
    if any(low < first or high > last for (low, high), (first, last) in zip(spans, steps.needed(directions))):
        every = steps.reading(0, steps.length)  # there are gradients of what nobody read: hooks may make them
        out, _, _, *kept = forward(mode, x, h, c, weights, every, True)
    jobs = _Jobs(mode, d, steps, weights, spans)
    size, projected = jobs.size, jobs.projected
    by_h = np.empty((directions, steps.batch, jobs.padded(width)), d)
    by_h[:, :, :width] = 0 if g_hidden is None else g_hidden
    by_c = None
    if mode == "lstm":
        by_c = np.zeros((directions, steps.batch, size), d) if g_cell is None else g_cell.copy(order="C")
    packed = jobs.packed([w.hidden for w in weights] + [w.projection for w in weights if projected])
    kernel = kernels.backward(mode, jobs.code, projected)
    found = []
    start = _proper(c if mode == "lstm" else h)
    for i in range(directions):
        gates, cells, _ = kept[3 * i : 3 * i + 3]
        made = Gradients(
            empty((rows, jobs.count * size), d),
            empty((rows, 3 * size), d) if mode == "gru" else None,
            np.empty((rows, width), d) if projected else None,
        )
        before = cells if mode == "lstm" else out[:, sides[i]]
        operands = [
            gates, 0 if cells is None else cells, before, start[i], g_out[:, sides[i]], by_h[i],
            0 if by_c is None else by_c[i], made.gates, 0 if made.sums is None else made.sums, 0,
            made.projected if projected else 0, packed[i], packed[directions + i] if projected else 0, 0,
        ]  # fmt: skip
        own = {11: jobs.padded(size), 15: 0} if projected else {} if jobs.single else {15: 0}
        jobs.add(kernel, operands, own, i == 1, spans[i])
        found.append(made)
    jobs.run()
    parts = [steps.rows_of(*span) for span in spans]
    found = [Gradients(*[None if g is None else g[part] for g in made]) for made, part in zip(found, parts)]
    results = [None, None, by_c if needs[2] else None]
    if needs[0]:
        results[0] = _by_input(found, weights, parts, rows).reshape(shape)
    if needs[1]:
        results[1] = _by_state(mode, found, weights, by_h) if jobs.single else by_h[:, :, :width].copy()
    for i, (made, part) in enumerate(zip(found, parts)):
        need = needs[3 + 5 * i : 8 + 5 * i]
        results += _by_weights(mode, made, x, out[:, sides[i]], h[i], kept[3 * i + 2], steps, part, i == 1, need)
    return results


def _reached(g_out: Any, ends: list[Any], steps: Steps, reverse: bool) -> Span:
    """The steps that gradients reach: a direction's last ones have none if nobody read what they gave."""
    if any(g.any() for g in ends):
        return 0, steps.length
    order = range(steps.length) if reverse else range(steps.length - 1, -1, -1)
    last = next((t for t in order if g_out[steps.rows_of(t, t + 1)].any()), order[-1])
    return (last, steps.length) if reverse else (0, last + 1)


def _by_input(found: list[Gradients], weights: list[Weights], parts: list[slice], rows: int) -> Any:
    first, *others = sorted(range(len(found)), key=lambda i: -len(found[i].gates))
    total = blas.product(found[first].gates, weights[first].input)
    if len(total) < rows:
        whole = np.zeros((rows, total.shape[1]), total.dtype)
        whole[parts[first]], total = total, whole
    for i in others:
        made = blas.add_product(total[parts[i]], found[i].gates, weights[i].input, 1, 1)
        if len(made) == rows:
            total = made
        else:
            total[parts[i]] = made
    return total


def _by_state(mode: str, found: list[Gradients], weights: list[Weights], by_h: Any) -> Any:
    """By the first state, for a single step."""
    made = np.empty_like(by_h)
    for i, (g, w) in enumerate(zip(found, weights)):
        made[i] = blas.product(g.gates if g.sums is None else g.sums, w.hidden)
    return made + by_h if mode == "gru" else made


def _by_weights(
    mode: str, made: Gradients, x: Any, out: Any, h: Any, raw: Any, steps: Steps, part: slice, reverse: bool, need: Any
) -> list[Any]:  # fmt: skip
    """Sums over all steps whose rows are in a part, as single products."""
    by_gates = made.gates
    by_sums = by_gates if made.sums is None else made.sums
    results: list[Any] = [None] * 5
    if need[0]:
        results[0] = blas.product(by_gates.T, x[part])
    if need[1]:
        results[1] = _by_hidden(by_sums, out, h, steps, part, reverse)
    if need[2] or need[3]:
        total = by_gates.sum(0)
        results[2] = total if need[2] else None
        if need[3]:
            results[3] = by_sums.sum(0) if mode == "gru" else total.copy()
    if need[4]:
        results[4] = blas.product(made.projected.T, raw[part])
    return results


def _by_hidden(g: Any, out: Any, h: Any, steps: Steps, part: slice, reverse: bool) -> Any:
    """Each step's gradients times the state that it started from."""
    if not steps.uniform:
        return blas.product(g.T, np.concatenate((out, h))[steps.previous(reverse)[part]])
    batch, out = steps.batch, out[part]
    if reverse:
        first = blas.product(g[-batch:].T, h)
        return blas.add_product(first, g[:-batch].T, out[batch:], 1, 1) if len(g) > batch else first
    first = blas.product(g[:batch].T, h)
    return blas.add_product(first, g[batch:].T, out[:-batch], 1, 1) if len(g) > batch else first
