"""Kernels of losses over rows of scores: the logarithm of softmax and what is picked from it, in one pass."""

from __future__ import annotations

from .lang import independent, kernel
from .softmax import _row_maximum, _row_total, decay


@kernel("(n),(),()->(),()")
def cross_entropy_rows(m, x, target, skipped, loss, total):
    """log(sum(exp(x))) - x[target] of every row, zero where the target is the skipped one; and that logarithm."""
    high = _row_maximum(m, x, x.type)
    whole = m.log(_row_total(m, x, high, x.type)) + high
    whole = m.where(m.real_abs(high) == float("inf"), high, whole)
    total[()] = whole
    at = m.cast(target[()], "i64")
    value = m.value(0, x.type)
    if (at >= 0) & (at < x.n) & (at != skipped[()]):
        value = whole - x[at]
    loss[()] = value


@kernel("(),(n),(),(),()->(n)")
def cross_entropy_backward_rows(m, g, x, total, target, skipped, out):
    """(softmax(x) - 1 at the target) * g of every row, zero where the target is the skipped one."""
    at = m.cast(target[()], "i64")
    factor, whole = g[()], total[()]
    if at == skipped[()]:
        for i in independent(x.n):
            out[i] = 0
    else:
        for i in independent(x.n):
            out[i] = decay(m, x[i] - whole) * factor
        if (at >= 0) & (at < x.n):
            out[at] = out[at] - factor
