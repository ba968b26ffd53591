"""Kernels of normalization of blocks, which are matrices whose rows have a weight each: the channels of a group, or what a batch
has of one channel. Statistics and result are made in one visit, gradients in another.
"""

from __future__ import annotations

from .batch_norm import moments
from .lang import independent, inline, kernel
from .value import COMPUTE

BLOCK = 1024  # elements that are summed in their own precision


@kernel("(b,n),(b),(b),()->(b,n),(),(),()")
def norm_blocks(m, x, weight, bias, eps, out, mean, scale, variance, rounded):
    """A block normalized by its own mean and variance, its rows then scaled and shifted.

    With `rounded` it is normalized by the statistics as they are given out.
    """
    kind = COMPUTE.get(x.type, x.type)
    rows, columns = x.shape[0], x.shape[1]
    count, average, squares = moments(m, x, kind)
    middle = m.cast(average, kind)
    if rounded and mean.type in COMPUTE:  # PyTorch keeps this sum in the precision of the statistics
        squares = m.cast(m.rounded(m.cast(squares, "f32"), mean.type), "f64")
        squares = m.cast(m.rounded(m.cast(squares / count, "f32"), mean.type), "f64") * count
    spread = squares / count
    factor = m.cast(1.0 / m.real_sqrt(spread + eps[()]), kind)
    mean[()] = middle
    scale[()] = factor
    variance[()] = spread
    if rounded:
        middle, factor = mean[()], scale[()]
    for b in range(rows):
        slope = factor * weight[b]
        level = bias[b]
        for i in independent(columns):
            out[b, i] = (x[b, i] - middle) * slope + level


@inline
def _block_gradients(m, g, flat, x, weight, mean, scale, out, by_weight, by_bias):
    """The gradients by x and, for each row, by weight and bias."""
    kind = COMPUTE.get(x.type, x.type)
    rows, columns = x.shape[0], x.shape[1]
    middle, factor = mean[()], scale[()]
    level = m.value(0, "f64")
    slope = m.value(0, "f64")
    for b in range(rows):
        first = m.value(0, "f64")
        second = m.value(0, "f64")
        for start in range(0, columns, BLOCK):
            stop = m.minimum(start + BLOCK, columns)
            one = m.value(0, kind)
            two = m.value(0, kind)
            for i in range(start, stop):
                d = m.cast(g[()] if flat else g[b, i], kind)
                one = m.loose_add(one, d)
                two = m.loose_add(two, d * (x[b, i] - middle))
            first = first + m.cast(one, "f64")
            second = second + m.cast(two, "f64")
        second = second * m.cast(factor, "f64")
        by_bias[b] = first
        by_weight[b] = second
        share = m.cast(weight[b], "f64")
        level = level + first * share
        slope = slope + second * share
    count = m.cast(rows, "f64") * m.cast(columns, "f64")
    steady = m.cast(level / count, kind)
    tilt = m.cast(slope * m.cast(factor, "f64") / count, kind)
    for b in range(rows):
        share = weight[b]
        for i in independent(columns):
            d = m.cast(g[()] if flat else g[b, i], kind)
            out[b, i] = (d * share - steady - (x[b, i] - middle) * tilt) * factor


@kernel("(b,n),(b,n),(b),(),()->(b,n),(b),(b)")
def norm_blocks_backward(m, g, x, weight, mean, scale, out, by_weight, by_bias):
    _block_gradients(m, g, False, x, weight, mean, scale, out, by_weight, by_bias)


@kernel("(),(b,n),(b),(),()->(b,n),(b),(b)")
def norm_blocks_backward_flat(m, g, x, weight, mean, scale, out, by_weight, by_bias):
    """The same for a gradient that is one number."""
    _block_gradients(m, g, True, x, weight, mean, scale, out, by_weight, by_bias)


@kernel("(r,n)->(n)")
def row_sums(m, x, out):
    """The sum of the rows of a matrix, one after the other."""
    for i in independent(x.n):
        out[i] = m.value(0, x.type)
    for r in range(x.shape[0]):
        for i in independent(x.n):
            out[i] = out[i] + x[r, i]
