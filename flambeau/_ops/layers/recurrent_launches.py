"""Recurrent layers on a GPU: large products before and after, and between them for each step of time a product and one kernel.

What is launched depends on layouts alone: it is written down once (`backend.launches`).
"""

from __future__ import annotations

import functools
from typing import Any

from ..._core.dtypes import BY_NUMPY
from ..._kernel.cuda import recurrent as kernels
from ..._kernel.sequences.recurrent import GATES
from .recurrent_arrays import Steps, Weights

_BLOCKS = 65535  # in the second direction, at most


class _Layer:
    """What both passes of a layer on a GPU share."""

    def __init__(self, backend: Any, mode: str, d: Any, steps: Steps, weights: list[Weights]):
        self.backend, self.mode, self.dtype, self.steps = backend, mode, d, steps
        self.code = BY_NUMPY[d].code
        self.counts, self.offsets = steps.counts.tolist(), steps.offsets.tolist()
        self.width = weights[0].hidden.shape[1]
        self.gates = weights[0].hidden.shape[0]  # columns of all gates
        self.size = self.gates // GATES[mode]
        self.projected = weights[0].projection is not None

    def new(self, *shape: int) -> Any:
        return self.backend.empty(shape, self.dtype)

    def state(self, given: Any, like: Any) -> Any:
        """A state that changes from step to step, which begins as what is given or at zero."""
        made = self.new(*like.shape)
        if given is None:
            made.fill(0)
        else:
            self.backend.copy(given, made)
        return made

    def rows(self, array: Any) -> Any:
        """The rows of all steps, one after the other."""
        if not array.flags.c_contiguous:
            array = array.copy()
        return array.reshape(self.steps.rows, array.shape[-1])

    def multiply(self, x: Any, y: Any, out: Any, add: bool = False) -> Any:
        """Rows of out = x @ y [+ themselves]."""
        self.backend.product(x, y, out if add else None, out=out)
        return out

    def launch(self, kernel: Any, operands: list[Any], count: int, *more: int) -> None:
        """A kernel over `count` rows of one step; of what is None nothing is read."""
        given: list[Any] = []
        for a in operands:
            given += [0, 0] if a is None else [a, a.strides[0]]
        grid = -(-self.size // kernels.THREADS), min(count, _BLOCKS)
        kernel(grid, (kernels.THREADS,), (*given, count, self.size, *more))

    def order(self, reverse: bool) -> Any:
        return range(self.steps.length - 1, -1, -1) if reverse else range(self.steps.length)

    def earlier(self, t: int, reverse: bool) -> tuple[int, int]:
        """Of the step that a direction takes before `t`: how many rows it has of this one's, and where its rows begin."""
        before = t + 1 if reverse else t - 1
        if not 0 <= before < self.steps.length:
            return 0, 0
        return min(self.counts[before], self.counts[t]), self.offsets[before]

    def bias(self, w: Weights) -> Any:
        """What is added to the gates: both biases; for GRU's last gate they stay apart, the second one at the end."""
        size, gru = self.size, self.mode == "gru"
        made = self.new(self.gates + size * gru)
        if w.input_bias is None:
            made.fill(0)
            return made
        shared = 2 * size if gru else self.gates
        self.backend.copy(w.input_bias, made[: self.gates])
        self.backend.add_along(made[:shared], w.hidden_bias[:shared], 0)
        if gru:
            self.backend.copy(w.hidden_bias[shared:], made[self.gates :])
        return made

    def turned(self, hidden: Any) -> Any:
        """Columns for the gates; of GRU's, whose number is no power of two, cuBLAS takes five times as long if they are rows in memory."""
        if self.mode != "gru":
            return hidden.T
        made = self.new(self.width, self.gates)
        self.backend.copy(hidden.T, made)
        return made

    def forward(self, x: Any, h: Any, c: Any, weights: list[Weights], keep: bool) -> list[Any]:
        directions, rows, size, width = len(weights), self.steps.rows, self.size, self.width
        kernel = self.backend.compiled(*kernels.forward(self.mode, self.code, keep, self.projected))
        hidden, cell = self.state(h, h), None if c is None else self.state(c, c)
        out = self.new(*x.shape[:-1], directions * width)
        x, outs, kept = self.rows(x), out.reshape(rows, directions * width), []
        for i, w in enumerate(weights):
            bias = self.bias(w)
            gates = self.backend.product(x, w.input.T, None if w.input_bias is None else bias[: self.gates])
            cells: Any = self.new(rows, size) if keep and GATES[self.mode] > 1 else None
            raw: Any = self.new(rows, size) if self.projected else None
            turned = self.turned(w.hidden)
            sums, own, side = self.new(self.steps.batch, self.gates), hidden[i], slice(i * width, (i + 1) * width)
            for t in self.order(i == 1):
                count, here = self.counts[t], slice(self.offsets[t], self.offsets[t] + self.counts[t])
                if not count:
                    continue
                self.multiply(own[:count], turned, sums[:count])
                operands = [gates[here], own, None if cell is None else cell[i], outs[here, side]]
                operands += [None if a is None else a[here] for a in (cells, raw)]
                self.launch(kernel, [*operands, sums, bias], count)
                if self.projected:
                    self.multiply(raw[here], w.projection.T, own[:count])
                    self.backend.copy(own[:count], outs[here, side])
            kept += [gates, cells, raw]
        return [out, hidden, cell, *(kept if keep else ())]

    def backward(
        self, g_out: Any, g_hidden: Any, g_cell: Any, x: Any, h: Any, c: Any, weights: list[Weights], out: Any,
        kept: list[Any], needs: Any,
    ) -> list[Any]:  # fmt: skip
        rows, size, width, lstm = self.steps.rows, self.size, self.width, self.mode == "lstm"
        kernel = self.backend.compiled(*kernels.backward(self.mode, self.code, self.projected))
        by_h, by_c = self.state(g_hidden, h), self.state(g_cell, c) if lstm else None
        shape, x, outs = x.shape, self.rows(x), self.rows(out)
        g_outs = self.state(None, out) if g_out is None else g_out
        g_outs = self.rows(g_outs)
        by_x = self.new(*shape) if needs[0] else None
        results = [by_x, by_h if needs[1] else None, by_c if needs[2] else None]
        for i, w in enumerate(weights):
            gates, cells, raw = kept[3 * i : 3 * i + 3]
            by_gates = self.new(rows, self.gates)
            by_sums = self.new(rows, self.gates) if self.mode == "gru" else None
            by_out: Any = self.new(rows, width) if self.projected else None
            by_raw: Any = self.new(self.steps.batch, size) if self.projected else None
            side, own = slice(i * width, (i + 1) * width), by_h[i]
            states, start = (cells, c[i]) if lstm else (outs[:, side], h[i])
            for t in self.order(i == 0):
                count, here = self.counts[t], slice(self.offsets[t], self.offsets[t] + self.counts[t])
                if not count:
                    continue
                if self.projected:
                    _added(self.backend, self.code)(own[:count], g_outs[here, side], out=by_out[here])
                    self.multiply(by_out[here], w.projection, by_raw[:count])
                known, first = self.earlier(t, i == 1)
                operands = [gates[here], None if cells is None else cells[here], states[first:], start]
                operands += [g_outs[here, side], own, None if by_c is None else by_c[i], by_gates[here]]
                operands += [None if by_sums is None else by_sums[here], by_raw]
                self.launch(kernel, operands, count, known)
                made = by_gates if by_sums is None else by_sums
                self.multiply(made[here], w.hidden, own[:count], self.mode == "gru")
            if by_x is not None:
                self.multiply(by_gates, w.input, by_x.reshape(rows, shape[-1]), i > 0)
            need = needs[3 + 5 * i : 8 + 5 * i]
            results += self.by_weights(by_gates, by_sums, by_out, x, outs[:, side], h[i], raw, i == 1, need)
        return results

    def by_weights(
        self, by_gates: Any, by_sums: Any, by_out: Any, x: Any, outs: Any, h: Any, raw: Any, reverse: bool, need: Any
    ) -> list[Any]:
        """Sums over all steps, as single products."""
        product, results = self.backend.product, [None] * 5
        by_sums = by_gates if by_sums is None else by_sums
        if need[0]:
            results[0] = product(by_gates.T, x)
        if need[1]:
            results[1] = product(by_sums.T, self.previous(outs, h, reverse))
        for k, by in ((2, by_gates), (3, by_sums)):
            if need[k]:
                results[k] = self.backend.along.fold(by, (0,), "sum", self.code, None)
        if need[4]:
            results[4] = product(by_out.T, raw)
        return results

    def previous(self, outs: Any, h: Any, reverse: bool) -> Any:
        """For each row the state that its step started from: stretches of the outputs, and of the first states."""
        made, moves = self.new(self.steps.rows, self.width), list[list[Any]]()
        for t, (count, offset) in enumerate(zip(self.counts, self.offsets)):
            known, first = self.earlier(t, reverse)
            for source, start, at, length in ((outs, first, offset, known), (h, known, offset + known, count - known)):
                last: list[Any] = moves[-1] if moves else [None, 0, 0, 0]
                if last[0] is source and last[1] + last[3] == start and last[2] + last[3] == at:
                    last[3] += length
                elif length:
                    moves.append([source, start, at, length])
        for source, start, at, length in moves:
            self.backend.copy(source[start : start + length], made[at : at + length])
        return made


@functools.cache
def _added(backend: Any, code: str) -> Any:
    inside = "f32" if code in ("f16", "bf16") else code
    return backend.pointwise("added", lambda m, x, y: x + y, (code, code), (code,), (inside, inside))


def _weights(given: tuple[Any, ...]) -> list[Weights]:
    return [Weights(*given[i : i + 5]) for i in range(0, len(given), 5)]


def forward(
    backend: Any, mode: str, x: Any, h: Any, c: Any, weights: list[Weights], steps: Steps, keep: bool
) -> tuple[Any, ...]:
    """What `recurrent_arrays.forward` gives. Steps that nobody reads are taken, too."""

    def run(x: Any, h: Any, c: Any, *own: Any) -> Any:
        layer = _Layer(backend, mode, x.dtype, steps, _weights(own))
        return layer.forward(x, h, c, _weights(own), keep)

    key = "forward", mode, keep, steps.counts.tobytes()
    return tuple(backend.launches(key, run, [x, h, c, *[t for w in weights for t in w]]))


def backward(
    backend: Any, mode: str, g_out: Any, g_hidden: Any, g_cell: Any, x: Any, h: Any, c: Any, weights: list[Weights],
    out: Any, kept: list[Any], steps: Steps, needs: Any,
) -> list[Any]:  # fmt: skip
    """What `recurrent_arrays.backward` gives."""

    def run(*given: Any) -> Any:
        own, (g_out, g_hidden, g_cell, x, h, c, out, *kept) = _weights(given[13:]), given[:13]
        layer = _Layer(backend, mode, x.dtype, steps, own)
        return layer.backward(g_out, g_hidden, g_cell, x, h, c, own, out, kept, needs)

    key = "backward", mode, needs, steps.counts.tobytes()
    arrays = [g_out, g_hidden, g_cell, x, h, c, out, *kept, *[t for w in weights for t in w]]
    return list(backend.launches(key, run, arrays))
