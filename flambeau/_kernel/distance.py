"""Kernels of losses between an input and a target: the sum of all elements in one visit, gradients in another."""

from __future__ import annotations

from .lang import independent, kernel

BLOCK = 512  # elements that are summed in their own precision


@kernel("(n),(n),(),()->()")
def loss_sum(m, x, y, width, share, out, value):
    """The sum of the elements' losses, `value(m, x, y, width)`, times `share`."""
    p = m.cast(width[()], x.type)
    total = m.value(0, "f64")
    for start in range(0, x.n, BLOCK):
        stop = m.minimum(start + BLOCK, x.n)
        part = m.value(0, x.type)
        for i in range(start, stop):
            part = m.loose_add(part, value(m, x[i], y[i], p))
        total = total + m.cast(part, "f64")
    out[()] = m.cast(total * share[()], out.type)


@kernel("(),(),(n),(n),()->(n)")
def loss_gradient(m, g, share, x, y, width, out, slope):
    """The derivatives of the elements' losses by x, `slope(m, g, x, y, width)`, with g times `share` for g."""
    p = m.cast(width[()], x.type)
    f = m.cast(m.cast(g[()], "f64") * share[()], x.type)
    for i in independent(x.n):
        out[i] = slope(m, f, x[i], y[i], p)


@kernel("(n)->()")
def leaves_unit(m, x, found):
    """Whether an element is not between 0 and 1."""
    bad = m.value(0, "b1")
    for i in range(x.n):
        bad = bad | ~((x[i] >= 0.0) & (x[i] <= 1.0))
    found[()] = bad
