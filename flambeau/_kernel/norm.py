"""Kernels of normalization: statistics and result in one visit, gradients in another.

Rows have a weight for each element (layer norm). Blocks are matrices whose rows have a weight each: the channels of
a group, or what a batch has of one channel.
"""

from __future__ import annotations

from .batch_norm import moments
from .lang import independent, inline, kernel
from .streaming import ask_for, hand_over, whole_lines, width
from .value import COMPUTE

BLOCK = 1024  # elements that are summed in their own precision
ROWS = 64  # rows whose gradients by the weight are added up in their own precision


@inline
def _sum_of(m, x, kind):
    total = m.value(0, "f64")
    for start in range(0, x.n, BLOCK):
        stop = m.minimum(start + BLOCK, x.n)
        part = m.value(0, kind)
        for i in range(start, stop):
            part = m.loose_add(part, x[i])
        total = total + m.cast(part, "f64")
    return total


@inline
def _squares_of(m, x, shift, kind):
    total = m.value(0, "f64")
    for start in range(0, x.n, BLOCK):
        stop = m.minimum(start + BLOCK, x.n)
        part = m.value(0, kind)
        for i in range(start, stop):
            d = x[i] - shift
            part = m.loose_add(part, d * d)
        total = total + m.cast(part, "f64")
    return total


def _standard(m, x, i, middle, factor):
    """One element normalized; of 16-bit floats with the rounding that PyTorch has."""
    if x.type in COMPUTE:
        return m.fma(x[i], factor, -(middle * factor))
    return (x[i] - middle) * factor


@kernel("(n),(n),(n),()->(n),(),()")
def norm_rows(m, x, weight, bias, eps, out, mean, scale, center, stream):
    """(x - mean) / sqrt(variance + eps) * weight + bias; without `center` the mean counts as zero.

    With `stream` the result is written past the caches.
    """
    kind = COMPUTE.get(x.type, x.type)
    count = m.cast(x.n, "f64")
    middle = m.cast(_sum_of(m, x, kind) / count, kind) if center else m.value(0, kind)
    variance = _squares_of(m, x, middle, kind) / count
    if x.type in COMPUTE:  # in single precision, as PyTorch does: what is left of a row of one element depends on it
        factor = 1.0 / m.real_sqrt(m.cast(variance, kind) + m.cast(eps[()], kind))
    else:
        factor = m.cast(1.0 / m.real_sqrt(variance + eps[()]), kind)
    mean[()] = middle
    scale[()] = factor
    if stream:
        first, last = whole_lines(out)
        for i in independent(first):
            out[i] = _standard(m, x, i, middle, factor) * weight[i] + bias[i]
        lines = m.local(out.type, width(out.type))
        for start in range(first, last, width(out.type)):
            ask_for(x, start + x.n, width(out.type))  # the next row
            for i in independent(width(out.type)):
                lines[i] = _standard(m, x, start + i, middle, factor) * weight[start + i] + bias[start + i]
            hand_over(out, start, lines)
        for i in independent(last, x.n):
            out[i] = _standard(m, x, i, middle, factor) * weight[i] + bias[i]
    else:
        for i in independent(x.n):
            out[i] = _standard(m, x, i, middle, factor) * weight[i] + bias[i]


@inline
def _row_gradients(m, g, flat, x, weight, mean, scale, out, by_weight, by_bias, one, two, center):
    """The gradients by x, weight and bias; the last two are added to, by way of sums of some rows in `one` and `two`."""
    kind = COMPUTE.get(x.type, x.type)
    rows, columns = x.shape[0], x.shape[1]
    count = m.cast(columns, "f64")
    for top in range(0, rows, ROWS):
        end = m.minimum(top + ROWS, rows)
        for j in independent(columns):
            one[j] = m.value(0, kind)
            two[j] = m.value(0, kind)
        for r in range(top, end):
            middle, factor = m.cast(mean[r], kind), m.cast(scale[r], kind)
            first = m.value(0, "f64")
            second = m.value(0, "f64")
            for start in range(0, columns, BLOCK):
                stop = m.minimum(start + BLOCK, columns)
                level_of = m.value(0, kind)
                slope_of = m.value(0, kind)
                for i in range(start, stop):
                    d = m.cast(g[()] if flat else g[r, i], kind) * weight[i]
                    level_of = m.loose_add(level_of, d)
                    slope_of = m.loose_add(slope_of, d * (x[r, i] - middle))
                first = first + m.cast(level_of, "f64")
                second = second + m.cast(slope_of, "f64")
            wide = m.cast(factor, "f64")
            slope = m.cast(second * wide * wide / count, kind)
            level = m.cast(first / count, kind) if center else m.value(0, kind)
            for i in independent(columns):
                d = m.cast(g[()] if flat else g[r, i], kind)
                away = x[r, i] - middle
                out[r, i] = (d * weight[i] - level - away * slope) * factor
                one[i] = one[i] + d * (away * factor)
                two[i] = two[i] + d
        for j in independent(columns):
            by_weight[j] = by_weight[j] + m.cast(one[j], "f64")
            by_bias[j] = by_bias[j] + m.cast(two[j], "f64")


@kernel("(r,n),(r,n),(n),(r),(r)->(r,n),(n),(n),(n),(n)")
def norm_rows_backward(m, g, x, weight, mean, scale, out, by_weight, by_bias, one, two, center):
    _row_gradients(m, g, False, x, weight, mean, scale, out, by_weight, by_bias, one, two, center)


@kernel("(),(r,n),(n),(r),(r)->(r,n),(n),(n),(n),(n)")
def norm_rows_backward_flat(m, g, x, weight, mean, scale, out, by_weight, by_bias, one, two, center):
    """The same for a gradient that is one number."""
    _row_gradients(m, g, True, x, weight, mean, scale, out, by_weight, by_bias, one, two, center)


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
