"""Kernels of losses between an input and a target: the sum of all elements in one visit, gradients in another."""

from __future__ import annotations

from .lang import independent, kernel

BLOCK = 512  # elements that are summed in their own precision


def _value(m, how, x, y, p):
    """The loss of one element; p is the width of the rounded part, if there is one."""
    if how == "logits":
        return m.maximum(x, 0.0) - x * y + m.log1p(m.exp(-m.real_abs(x)))
    if how == "entropy":
        return (y - 1.0) * m.maximum(m.log1p(-x), -100.0) - y * m.maximum(m.log(x), -100.0)
    d = x - y
    if how == "square":
        return d * d
    size = m.real_abs(d)
    if how == "absolute":
        return size
    if how == "smooth":
        return m.where(size < p, 0.5 * d * d / p, size - 0.5 * p)
    return m.where(size <= p, 0.5 * d * d, p * (size - 0.5 * p))  # huber


def _slope(m, how, x, y, p):
    """Its derivative by x."""
    if how == "logits":
        return m.sigmoid(x) - y
    d = x - y
    if how == "entropy":
        return d / m.maximum((1.0 - x) * x, 1e-12)
    if how == "square":
        return d + d
    if how == "absolute":
        return m.sgn(d)
    if how == "smooth":
        return m.where(m.real_abs(d) < p, d / p, m.sgn(d))
    return m.where(m.real_abs(d) <= p, d, p * m.sgn(d))


@kernel("(n),(n),(),()->()")
def loss_sum(m, x, y, width, share, out, how):
    """The sum of the elements' losses, times `share`."""
    p = m.cast(width[()], x.type)
    total = m.value(0, "f64")
    for start in range(0, x.n, BLOCK):
        stop = m.minimum(start + BLOCK, x.n)
        part = m.value(0, x.type)
        for i in range(start, stop):
            part = m.loose_add(part, _value(m, how, x[i], y[i], p))
        total = total + m.cast(part, "f64")
    out[()] = m.cast(total * share[()], out.type)


@kernel("(),(n),(n),()->(n)")
def loss_gradient(m, factor, x, y, width, out, how):
    """The derivatives of the elements' losses by x, times `factor`."""
    p = m.cast(width[()], x.type)
    f = m.cast(factor[()], x.type)
    for i in independent(x.n):
        out[i] = _slope(m, how, x[i], y[i], p) * f
