"""Recurrent layers written with differentiable operations, step by step: for transforms that the native loops do not
know, and for second derivatives."""

from __future__ import annotations

from typing import Any

from ..._tensor import Tensor
from ..registry import ops


def lstm_step(x: Tensor, u: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """The next h and c, from the inputs' and the state's part of the gates."""
    i, f, g, o = ops.chunk(x + u, 4, 1)
    c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
    return ops.sigmoid(o) * ops.tanh(c), c


def gru_step(x: Tensor, u: Tensor, h: Tensor) -> Tensor:
    """The next h."""
    (r, z, n), (r_h, z_h, n_h) = ops.chunk(x, 3, 1), ops.chunk(u, 3, 1)
    z = ops.sigmoid(z + z_h)
    n = ops.tanh(n + ops.sigmoid(r + r_h) * n_h)
    return (h - n) * z + n


def _step(mode: str, x: Tensor, h: Tensor, c: Any, w: Any) -> tuple[Any, Any]:
    u = ops.linear(h, w.hidden, w.hidden_bias)
    if mode == "lstm":
        h, c = lstm_step(x, u, c)
        return (h if w.projection is None else ops.linear(h, w.projection)), c
    if mode == "gru":
        return gru_step(x, u, h), None
    return (ops.relu if mode == "rnn_relu" else ops.tanh)(x + u), None


def _forward(mode: str, xs: Any, h: Any, c: Any, w: Any, counts: list[int]) -> tuple[list[Any], Any, Any]:
    """Steps in order: sequences end one after the other."""
    outs, ended = [], []
    for x, count in zip(xs, counts):
        rest = h._array.shape[0] - count
        if rest:
            ended.append([None if s is None else ops.narrow(s, 0, count, rest) for s in (h, c)])
            h, c = (None if s is None else ops.narrow(s, 0, 0, count) for s in (h, c))
        h, c = _step(mode, x, h, c, w)
        outs.append(h)
    ended.append([h, c])
    h, c = (None if s[0] is None else ops.cat(s[::-1], 0) for s in zip(*ended))
    return outs, h, c


def _backward(mode: str, xs: Any, h: Any, c: Any, w: Any, counts: list[int]) -> tuple[list[Any], Any, Any]:
    """Steps from the last to the first: shorter sequences join in."""
    outs: list[Any] = []
    first = (h, c)
    now = counts[-1]
    h, c = (None if s is None else ops.narrow(s, 0, 0, now) for s in first)
    for x, count in zip(xs[::-1], counts[::-1]):
        if count > now:
            joined = [None if s is None else ops.narrow(s, 0, now, count - now) for s in first]
            h, c = (None if s is None else ops.cat((s, j), 0) for s, j in zip((h, c), joined))
            now = count
        h, c = _step(mode, x, h, c, w)
        outs.append(h)
    return outs[::-1], h, c


def layer_formula(mode: str, x: Tensor, h: Any, c: Any, weights: list[Any], steps: Any) -> tuple[Any, Any, Any]:
    """What the native loops compute: (out, last h, last c) of one or two directions."""
    shape = x._array.shape
    rows = ops.reshape(x, (steps.rows, shape[-1]))
    counts = steps.counts.tolist()
    outs, last = [], []
    for i, w in enumerate(weights):
        xs = ops.split(ops.linear(rows, w.input, w.input_bias), counts, 0)
        state = (ops.select(h, 0, i), None if c is None else ops.select(c, 0, i))
        made, *ends = (_backward if i else _forward)(mode, xs, *state, w, counts)
        outs.append(ops.cat(made, 0))
        last.append(ends)
    out = outs[0] if len(outs) == 1 else ops.cat(outs, 1)
    h, c = (None if parts[0] is None else ops.stack(parts, 0) for parts in zip(*last))
    return ops.reshape(out, (*shape[:-1], out._array.shape[-1])), h, c
