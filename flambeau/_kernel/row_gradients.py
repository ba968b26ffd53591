"""Kernels of the gradients of folds along rows, each in one visit: extrema, variances, lengths."""

from __future__ import annotations

from .lang import independent, kernel
from .value import COMPUTE

BLOCK = 512  # elements that are summed in their own precision


@kernel("(),(n),()->(n)")
def shared_rows(m, g, x, value, out, missing):
    """The elements that equal the row's extremum share its gradient; with `missing`, NaN equals NaN."""
    best, kind = value[()], COMPUTE.get(x.type, x.type)
    count = m.value(0, "i64")
    for i in range(x.n):
        same = (x[i] == best) | ((x[i] != x[i]) & (best != best)) if missing else x[i] == best
        count = count + m.cast(same, "i64")
    share = g[()] / m.cast(count, kind)
    nothing = g[()] * 0.0 / m.cast(count, kind)
    for i in independent(x.n):
        same = (x[i] == best) | ((x[i] != x[i]) & (best != best)) if missing else x[i] == best
        out[i] = m.where(same, share, nothing)


@kernel("(),(n),(),()->(n)")
def deviation_rows(m, g, x, deviation, free, out, root):
    """The gradient of a row's variance (of its standard deviation: `root`) with so many degrees of freedom."""
    kind = COMPUTE.get(x.type, x.type)
    total = m.value(0, "f64")
    for start in range(0, x.n, BLOCK):
        stop = m.minimum(start + BLOCK, x.n)
        part = m.value(0, kind)
        for i in range(start, stop):
            part = m.loose_add(part, x[i])
        total = total + m.cast(part, "f64")
    mean = m.cast(total / m.cast(x.n, "f64"), kind)
    factor = m.cast(g[()], "f64") / free[()]
    if root:
        size = m.cast(deviation[()], "f64")
        scale = m.cast(m.where(size == 0.0, m.value(0, "f64"), factor / size), kind)
    else:
        scale = m.cast(factor * 2.0, kind)
    for i in independent(x.n):
        out[i] = (x[i] - mean) * scale


@kernel("(),(n),()->(n)")
def length_rows(m, g, x, length, out):
    """The gradient of a row's length, zero at the origin."""
    kind = COMPUTE.get(x.type, x.type)
    size, factor = length[()], g[()]
    for i in independent(x.n):
        out[i] = m.where(size == 0.0, m.value(0, kind), x[i] / size) * factor


@kernel("(),(n),()->(n)")
def log_sum_rows(m, g, x, total, out):
    """The gradient of the logarithm of a row's sum of exponentials."""
    whole, factor = total[()], g[()]
    for i in independent(x.n):
        out[i] = m.exp(x[i] - whole) * factor


@kernel("(k),(k)->(n)")
def placed_rows(m, g, place, out, add):
    """The elements of g written (or added: `add`) at their places; those outside the row are left out."""
    for i in range(g.n):
        at = m.cast(place[i], "i64")
        if (at >= 0) & (at < out.n):
            out[at] = out[at] + g[i] if add else g[i]
