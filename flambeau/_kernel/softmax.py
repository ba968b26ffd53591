"""Kernels of softmax and its relatives: one pass for the maximum, one for the exponentials, one for the scale."""

from __future__ import annotations

from .lang import independent, inline, kernel
from .value import COMPUTE

COLUMNS = 256  # columns carried along together by the kernels over an outer dimension


@inline
def _row_maximum(m, x, kind):
    high = m.value(float("-inf"), kind)
    for i in range(0, x.n):
        high = m.maximum(high, x[i])
    return high


@kernel("(n)->()")
def log_sum_exp_rows(m, x, out):
    """log(sum(exp(x))) of every row."""
    kind = COMPUTE.get(x.type, x.type)
    high = _row_maximum(m, x, kind)
    shift = m.where(m.real_abs(high) == float("inf"), 0.0, high)
    total = m.value(0, kind)
    for i in range(0, x.n):
        total = m.loose_add(total, m.exp(x[i] - shift))
    out[()] = m.log(total) + shift


@kernel("(n)->(n)")
def softmax_rows(m, x, out, log):
    """softmax, or its logarithm, of every row."""
    kind = COMPUTE.get(x.type, x.type)
    high = _row_maximum(m, x, kind)
    total = m.value(0, kind)
    if log:
        for i in range(0, x.n):
            total = m.loose_add(total, m.exp(x[i] - high))
        rounded = m.local(out.type, 1)  # PyTorch keeps this sum in the precision of the result
        rounded[0] = total
        shift = m.log(rounded[0])
        for i in independent(0, x.n):
            out[i] = (x[i] - high) - shift
    elif out.type == kind:
        for i in independent(0, x.n):
            e = m.exp(x[i] - high)
            out[i] = e
            total = m.loose_add(total, e)
        scale = 1.0 / total
        for i in independent(0, x.n):
            out[i] = out[i] * scale
    else:  # no room for the exponentials in the result
        for i in range(0, x.n):
            total = m.loose_add(total, m.exp(x[i] - high))
        scale = 1.0 / total
        for i in independent(0, x.n):
            out[i] = m.exp(x[i] - high) * scale


@kernel("(n,c)->(n,c)")
def softmax_columns(m, x, out, log):
    """The same down the columns."""
    kind = COMPUTE.get(x.type, x.type)
    rows, columns = x.shape[0], x.shape[1]
    high = m.local(kind, COLUMNS)
    total = m.local(kind, COLUMNS)
    for left in range(0, columns, COLUMNS):
        width = m.minimum(columns - left, COLUMNS)
        for j in independent(0, width):
            high[j] = m.value(float("-inf"), kind)
            total[j] = m.value(0, kind)
        for i in range(0, rows):
            for j in independent(0, width):
                high[j] = m.maximum(high[j], x[i, left + j])
        for i in range(0, rows):
            for j in independent(0, width):
                total[j] = total[j] + m.exp(x[i, left + j] - high[j])
        for j in independent(0, width):
            total[j] = m.log(total[j]) if log else 1.0 / total[j]
        for i in range(0, rows):
            for j in independent(0, width):
                d = x[i, left + j] - high[j]
                out[i, left + j] = d - total[j] if log else m.exp(d) * total[j]


@kernel("(n),(n)->(n)")
def softmax_backward_rows(m, g, y, out, log):
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
def softmax_backward_columns(m, g, y, out, log):
    """The same down the columns."""
    kind = COMPUTE.get(g.type, g.type)
    rows, columns = g.shape[0], g.shape[1]
    total = m.local(kind, COLUMNS)
    for left in range(0, columns, COLUMNS):
        width = m.minimum(columns - left, COLUMNS)
        for j in independent(0, width):
            total[j] = m.value(0, kind)
        for i in range(0, rows):
            for j in independent(0, width):
                a, b = g[i, left + j], y[i, left + j]
                total[j] = total[j] + (a if log else a * b)
        for i in range(0, rows):
            for j in independent(0, width):
                a, b = g[i, left + j], y[i, left + j]
                out[i, left + j] = a - m.exp(b) * total[j] if log else b * (a - total[j])
