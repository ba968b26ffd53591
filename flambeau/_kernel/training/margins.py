"""Kernels of margins between the scores of several classes and those of all others, row by row, and their gradients."""

from __future__ import annotations

from ..loops.lang import independent, kernel


@kernel("(n),(n)->(),(n)")
def multilabel_margin_rows(m, x, target, loss, chosen):
    """The mean over labels y and other classes i of max(0, 1 - x[y] + x[i]); labels end at the first -1.

    `chosen` is 1 for classes that are labels.
    """
    count = m.value(0, "i64")
    open_ = m.value(1, "b1")
    for i in range(x.n):
        chosen[i] = m.value(0, "i64")
    for j in range(x.n):
        at = m.cast(target[j], "i64")
        open_ = open_ & (at >= 0) & (at < x.n)
        if open_:
            chosen[at] = m.value(1, "i64")
            count = count + 1
    total = m.value(0, "f64")
    for j in range(count):
        level = 1.0 - x[m.cast(target[j], "i64")]
        for i in range(x.n):
            gap = m.cast(m.maximum(level + x[i], m.value(0, x.type)), "f64")
            total = total + m.where(chosen[i] == 0, gap, m.value(0, "f64"))
    loss[()] = total / m.cast(x.n, "f64")


@kernel("(),(n),(n),(n)->(n)")
def multilabel_margin_gradient(m, g, x, target, chosen, out):
    zero = m.value(0, x.type)
    share = g[()] / m.cast(x.n, x.type)
    for i in independent(x.n):
        out[i] = zero
    open_ = m.value(1, "b1")
    for j in range(x.n):
        at = m.cast(target[j], "i64")
        open_ = open_ & (at >= 0) & (at < x.n)
        if open_:
            level = 1.0 - x[at]
            for i in range(x.n):
                if (chosen[i] == 0) & (level + x[i] > zero):
                    out[i] = out[i] + share
                    out[at] = out[at] - share
