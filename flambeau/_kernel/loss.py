"""Kernels of losses over rows of scores: the logarithm of softmax and what is picked from it, in one pass."""

from __future__ import annotations

import math

from .lang import Array, independent, inline, kernel
from .math.exponentials import decay
from .value import COMPUTE

BLOCK = 512  # elements of a row that are summed in their own precision


@inline
def _row_maximum(m, x, kind):
    high = m.value(float("-inf"), kind)
    for i in range(0, x.n):
        high = m.loose_maximum(high, x[i])
    return high


@inline
def _row_total(m, x, shift, kind):
    """The sum of exp(x - shift) over a row."""
    total = m.value(0, "f64")
    for start in range(0, x.n, BLOCK):
        stop = m.minimum(start + BLOCK, x.n)
        part = m.value(0, kind)
        for i in range(start, stop):
            part = m.loose_add(part, decay(m, x[i] - shift))
        total = total + m.cast(part, "f64")
    return m.cast(total, kind)


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


def _row(x, index):
    """One row of a matrix, as an operand of its own."""
    return Array(x.r, x._address((index, 0)), x.type, x.shape[1:], x.strides[1:])


@kernel("(n),(),()->()")
def has_foreign_targets(m, target, skipped, classes, found):
    """Whether a target that is not skipped names no class."""
    bad = m.value(0, "b1")
    for i in range(target.n):
        at = m.cast(target[i], "i64")
        bad = bad | ((at != skipped[()]) & ((at < 0) | (at >= classes[()])))
    found[()] = bad


@kernel("(n),(),()->()")
def share_of_targets(m, target, skipped, mean, share):
    """What each loss counts: 1, or in a `mean` the reciprocal of the number of targets that are not skipped."""
    count = m.value(0, "i64")
    for r in range(target.n):
        count = count + m.cast(m.cast(target[r], "i64") != skipped[()], "i64")
    share[()] = 1.0
    if mean[()]:
        share[()] = m.where(count == 0, math.nan, 1.0 / m.cast(count, "f64"))


@inline
def _entropy(m, x, target, skipped, share, loss, grad, gradient):
    """The sum of the rows' losses times `share`; with `gradient` also what it is by x."""
    kind = x.type
    factor = m.cast(share, kind)
    sum_of = m.value(0, "f64")
    for r in range(x.shape[0]):
        row = _row(x, r)
        at = m.cast(target[r], "i64")
        if (at >= 0) & (at < row.n) & (at != skipped[()]):
            high = _row_maximum(m, row, kind)
            total = m.value(0, "f64")
            for start in range(0, row.n, BLOCK):
                stop = m.minimum(start + BLOCK, row.n)
                part = m.value(0, kind)
                for i in independent(start, stop):
                    e = decay(m, row[i] - high)
                    if gradient:
                        grad[r, i] = e
                    part = m.loose_add(part, e)
                total = total + m.cast(part, "f64")
            total = total + m.cast(high - high, "f64")  # NaN if the maximum is infinite
            sum_of = sum_of + m.cast(m.log(m.cast(total, kind)) - (row[at] - high), "f64")
            if gradient:
                scale = m.cast(m.cast(factor, "f64") / total, kind)
                for i in independent(0, row.n):
                    grad[r, i] = grad[r, i] * scale
                grad[r, at] = grad[r, at] - factor
        else:
            if gradient:
                for i in independent(0, row.n):
                    grad[r, i] = m.value(0, kind)
    loss[()] = m.cast(sum_of * share, loss.type)


@kernel("(r,n),(r),(),()->()")
def cross_entropy_sum(m, x, target, skipped, share, loss):
    """The cross-entropy of all rows, times `share`."""
    _entropy(m, x, target, skipped, share[()], loss, None, False)


@kernel("(r,n),(r),(),()->(),(r,n)")
def cross_entropy_sum_and_gradient(m, x, target, skipped, share, loss, grad):
    """The same with its gradient by x: the exponentials are computed once for both."""
    _entropy(m, x, target, skipped, share[()], loss, grad, True)


@inline
def _whole_entropy(m, x, target, skipped, mean, loss, grad, gradient):
    """The same as a mean or a sum."""
    count = m.value(0, "i64")
    for r in range(target.n):
        count = count + m.cast(m.cast(target[r], "i64") != skipped[()], "i64")
    whole = m.where(count > 0, m.value(1, "f64") / m.cast(count, "f64"), m.value(float("nan"), "f64"))
    share = m.where(mean[()], whole, m.value(1, "f64"))
    _entropy(m, x, target, skipped, share, loss, grad, gradient)


@kernel("(r,n),(r),(),()->()")
def cross_entropy_whole(m, x, target, skipped, mean, loss):
    """The mean or sum of the rows' cross-entropy."""
    _whole_entropy(m, x, target, skipped, mean, loss, None, False)


@kernel("(r,n),(r),(),()->(),(r,n)")
def cross_entropy_whole_and_gradient(m, x, target, skipped, mean, loss, grad):
    """The same with its gradient by x."""
    _whole_entropy(m, x, target, skipped, mean, loss, grad, True)


@kernel("(n),(n),()->()")
def cascade_sum(m, x, kept, power, out):
    """A sum with 8 levels of partial sums in the type of the elements: each takes 2**power of those below."""
    kind = COMPUTE.get(x.type, x.type)
    levels = m.local(kind, 8)
    step = power[()]
    mask = (m.value(1, "i64") << step) - 1
    for j in range(8):
        levels[j] = m.value(0, kind)
    for i in range(x.n):
        if kept[i]:
            levels[0] = m.rounded(levels[0] + x[i], x.type)
            going = m.value(1, "b1")
            for j in range(7):
                full = (i & (mask << (step * j))) == 0
                going = going & full
                if going:
                    levels[j + 1] = m.rounded(levels[j + 1] + levels[j], x.type)
                    levels[j] = m.value(0, kind)
    total = m.value(0, kind)
    for j in range(8):
        total = m.rounded(total + levels[j], x.type)
    out[()] = total
