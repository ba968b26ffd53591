"""Kernels of softmax and its relatives: one pass for the maximum, one for the exponentials, one for the scale."""

from __future__ import annotations

from typing import Any

from .lang import independent, inline, kernel
from .math.exponentials import decay
from .streaming import ask_for, hand_over, whole_lines, width
from .value import COMPUTE

BLOCK = 512  # elements of a row that are summed in their own precision
LONGEST = 4096  # elements of a row that are kept on the stack
COLUMNS = 256  # columns carried along together by the kernels over an outer dimension


@inline
def _row_maximum(m: Any, x: Any, kind: Any) -> Any:
    high = m.value(float("-inf"), kind)
    for i in range(0, x.n):
        high = m.loose_maximum(high, x[i])
    return high


@inline
def _row_total(m: Any, x: Any, shift: Any, kind: Any) -> Any:
    """The sum of exp(x - shift) over a row: blocks in the element's own precision, joined in double."""
    total = m.value(0, "f64")
    for start in range(0, x.n, BLOCK):
        stop = m.minimum(start + BLOCK, x.n)
        part = m.value(0, kind)
        for i in range(start, stop):
            part = m.loose_add(part, decay(m, x[i] - shift))
        total = total + m.cast(part, "f64")
    return m.cast(total, kind)


@kernel("(n)->()")
def log_sum_exp_rows(m: Any, x: Any, out: Any) -> None:
    """log(sum(exp(x))) of every row."""
    kind = COMPUTE.get(x.type, x.type)
    high = _row_maximum(m, x, kind)
    total = m.log(_row_total(m, x, high, kind)) + high
    out[()] = m.where(m.real_abs(high) == float("inf"), high, total)


@inline
def _column_totals(m: Any, x: Any, left: Any, width: Any, high: Any, total: Any, kind: Any) -> None:
    """Of `width` columns from `left` on: the maxima, and the sums of exp(x - maximum)."""
    for j in independent(0, width):
        high[j] = m.value(float("-inf"), kind)
        total[j] = m.value(0, "f64")
    for i in range(0, x.shape[0]):
        for j in independent(0, width):
            high[j] = m.maximum(high[j], x[i, left + j])
    for i in range(0, x.shape[0]):
        for j in independent(0, width):
            total[j] = total[j] + m.cast(decay(m, x[i, left + j] - high[j]), "f64")


@kernel("(n,c)->(c)")
def log_sum_exp_columns(m: Any, x: Any, out: Any) -> None:
    """The same down the columns."""
    kind = COMPUTE.get(x.type, x.type)
    columns = x.shape[1]
    high = m.local(kind, COLUMNS)
    total = m.local("f64", COLUMNS)
    for left in range(0, columns, COLUMNS):
        width = m.minimum(columns - left, COLUMNS)
        _column_totals(m, x, left, width, high, total, kind)
        for j in independent(0, width):
            made = m.log(m.cast(total[j], kind)) + high[j]
            out[left + j] = m.where(m.real_abs(high[j]) == float("inf"), high[j], made)


@kernel("(n)->(n)")
def softmax_rows(m: Any, x: Any, out: Any, log: Any) -> None:
    """softmax, or its logarithm, of every row."""
    kind = COMPUTE.get(x.type, x.type)
    high = _row_maximum(m, x, kind)
    if log:
        rounded = m.local(out.type, 1)  # PyTorch keeps this sum in the precision of the result
        rounded[0] = _row_total(m, x, high, kind)
        shift = m.log(rounded[0])
        for i in independent(0, x.n):
            out[i] = (x[i] - high) - shift
    elif out.type == kind:
        total = m.value(0, "f64")
        for start in range(0, x.n, BLOCK):
            stop = m.minimum(start + BLOCK, x.n)
            part = m.value(0, kind)
            for i in independent(start, stop):
                e = decay(m, x[i] - high)
                out[i] = e
                part = m.loose_add(part, e)
            total = total + m.cast(part, "f64")
        scale = m.cast(1.0 / total, kind)
        for i in independent(0, x.n):
            out[i] = out[i] * scale
    else:  # no room for the exponentials in the result
        scale = 1.0 / _row_total(m, x, high, kind)
        for i in independent(0, x.n):
            out[i] = decay(m, x[i] - high) * scale


@kernel("(n)->(n)")
def softmax_rows_past_caches(m: Any, x: Any, out: Any, log: Any) -> None:
    """`softmax_rows` of at most `LONGEST` elements, of a type that is computed in itself; for many rows."""
    kind = x.type
    high = _row_maximum(m, x, kind)
    held = m.local(kind, LONGEST)
    total = m.value(0, "f64")
    for start in range(0, x.n, BLOCK):
        stop = m.minimum(start + BLOCK, x.n)
        part = m.value(0, kind)
        ask_for(x, start + x.n, BLOCK)  # the next row
        for i in independent(start, stop):
            e = decay(m, x[i] - high)
            held[i] = x[i] - high if log else e
            part = m.loose_add(part, e)
        total = total + m.cast(part, "f64")
    if log:
        step = m.log(m.cast(total, kind))
    else:
        step = m.cast(1.0 / total, kind)
    first, last = whole_lines(out)
    for i in independent(first):
        out[i] = held[i] - step if log else held[i] * step
    lines = m.local(kind, width(kind))
    for start in range(first, last, width(kind)):
        for i in independent(width(kind)):
            lines[i] = held[start + i] - step if log else held[start + i] * step
        hand_over(out, start, lines)
    for i in independent(last, x.n):
        out[i] = held[i] - step if log else held[i] * step


@kernel("(n,c)->(n,c)")
def softmax_columns(m: Any, x: Any, out: Any, log: Any) -> None:
    """The same down the columns."""
    kind = COMPUTE.get(x.type, x.type)
    rows, columns = x.shape[0], x.shape[1]
    high = m.local(kind, COLUMNS)
    scale = m.local(kind, COLUMNS)
    total = m.local("f64", COLUMNS)
    for left in range(0, columns, COLUMNS):
        width = m.minimum(columns - left, COLUMNS)
        _column_totals(m, x, left, width, high, total, kind)
        for j in independent(0, width):
            scale[j] = m.log(m.cast(total[j], kind)) if log else m.cast(1.0 / total[j], kind)
        for i in range(0, rows):
            for j in independent(0, width):
                d = x[i, left + j] - high[j]
                out[i, left + j] = d - scale[j] if log else decay(m, d) * scale[j]


@kernel("(n),(n)->(n)")
def softmax_backward_rows(m: Any, g: Any, y: Any, out: Any, log: Any) -> None:
    """From the gradient and the result: the gradient of the input."""
    kind = COMPUTE.get(g.type, g.type)
    total = m.value(0, kind)
    if log:
        for i in range(0, g.n):
            total = m.loose_add(total, g[i])
        for i in independent(0, g.n):
            out[i] = g[i] - m.exp(y[i]) * total
    else:
        for i in range(0, g.n):
            total = m.loose_add(total, g[i] * y[i])
        for i in independent(0, g.n):
            out[i] = y[i] * (g[i] - total)


@kernel("(n,c),(n,c)->(n,c)")
def softmax_backward_columns(m: Any, g: Any, y: Any, out: Any, log: Any) -> None:
    """The same down the columns."""
    kind = COMPUTE.get(g.type, g.type)
    rows, columns = g.shape[0], g.shape[1]
    scale = m.local(kind, COLUMNS)
    total = m.local("f64", COLUMNS)
    for left in range(0, columns, COLUMNS):
        width = m.minimum(columns - left, COLUMNS)
        for j in independent(0, width):
            total[j] = m.value(0, "f64")
        for i in range(0, rows):
            for j in independent(0, width):
                a, b = g[i, left + j], y[i, left + j]
                total[j] = total[j] + m.cast(a if log else a * b, "f64")
        for j in independent(0, width):
            scale[j] = m.cast(total[j], kind)
        for i in range(0, rows):
            for j in independent(0, width):
                a, b = g[i, left + j], y[i, left + j]
                out[i, left + j] = a - m.exp(b) * scale[j] if log else b * (a - scale[j])
