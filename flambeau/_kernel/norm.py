"""Kernels of normalization: statistics and result in one visit, gradients in another.

Rows have a weight for each element (layer norm). Blocks are matrices whose rows have a weight each: the channels of
a group, or what a batch has of one channel.
"""

from __future__ import annotations

from .lang import independent, inline, kernel
from .value import COMPUTE

BLOCK = 512  # elements that are summed in their own precision
COLUMNS = 256


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


@kernel("(n),(n),(n),()->(n),(),()")
def norm_rows(m, x, weight, bias, eps, out, mean, scale, center):
    """(x - mean) / sqrt(variance + eps) * weight + bias; without `center` the mean counts as zero."""
    kind = COMPUTE.get(x.type, x.type)
    count = m.cast(x.n, "f64")
    middle = m.cast(_sum_of(m, x, kind) / count, kind) if center else m.value(0, kind)
    variance = _squares_of(m, x, middle, kind) / count
    factor = m.cast(1.0 / m.real_sqrt(variance + eps[()]), kind)
    mean[()] = middle
    scale[()] = factor
    for i in independent(x.n):
        out[i] = (x[i] - middle) * factor * weight[i] + bias[i]


@kernel("(n),(n),(n),(),()->(n)")
def norm_rows_backward(m, g, x, weight, mean, scale, out, center):
    """The gradient by x."""
    kind = COMPUTE.get(x.type, x.type)
    middle, factor = mean[()], scale[()]
    first = m.value(0, "f64")
    second = m.value(0, "f64")
    for start in range(0, x.n, BLOCK):
        stop = m.minimum(start + BLOCK, x.n)
        one = m.value(0, kind)
        two = m.value(0, kind)
        for i in range(start, stop):
            d = g[i] * weight[i]
            one = m.loose_add(one, d)
            two = m.loose_add(two, d * (x[i] - middle))
        first = first + m.cast(one, "f64")
        second = second + m.cast(two, "f64")
    count = m.cast(x.n, "f64")
    wide = m.cast(factor, "f64")
    slope = m.cast(second * wide * wide / count, kind)
    level = m.cast(first / count, kind) if center else m.value(0, kind)
    for i in independent(x.n):
        out[i] = (g[i] * weight[i] - level - (x[i] - middle) * slope) * factor


@kernel("(r,n),(r,n),(r),(r)->(n),(n)")
def norm_weights_backward(m, g, x, mean, scale, weight, bias):
    """The gradients by weight and bias, down the columns."""
    rows, columns = g.shape[0], g.shape[1]
    kind = COMPUTE.get(x.type, x.type)
    one = m.local(kind, COLUMNS)
    two = m.local(kind, COLUMNS)
    first = m.local("f64", COLUMNS)
    second = m.local("f64", COLUMNS)
    for left in range(0, columns, COLUMNS):
        width = m.minimum(columns - left, COLUMNS)
        for j in independent(0, width):
            first[j] = m.value(0, "f64")
            second[j] = m.value(0, "f64")
        for start in range(0, rows, 64):
            stop = m.minimum(start + 64, rows)
            for j in independent(0, width):
                one[j] = m.value(0, kind)
                two[j] = m.value(0, kind)
            for i in range(start, stop):
                middle, factor = mean[i], scale[i]
                for j in independent(0, width):
                    d = m.cast(g[i, left + j], kind)
                    one[j] = one[j] + d
                    two[j] = two[j] + d * ((x[i, left + j] - middle) * factor)
            for j in independent(0, width):
                first[j] = first[j] + m.cast(one[j], "f64")
                second[j] = second[j] + m.cast(two[j], "f64")
        for j in independent(0, width):
            bias[left + j] = first[j]
            weight[left + j] = second[j]


@kernel("(b,n),(b),(b),()->(b,n),(),(),()")
def norm_blocks(m, x, weight, bias, eps, out, mean, scale, variance, rounded):
    """A block normalized by its own mean and variance, its rows then scaled and shifted.

    With `rounded` it is normalized by the statistics as they are given out.
    """
    kind = COMPUTE.get(x.type, x.type)
    rows, columns = x.shape[0], x.shape[1]
    count = m.cast(rows, "f64") * m.cast(columns, "f64")
    total = m.value(0, "f64")
    for b in range(rows):
        for start in range(0, columns, BLOCK):
            stop = m.minimum(start + BLOCK, columns)
            part = m.value(0, kind)
            for i in range(start, stop):
                part = m.loose_add(part, x[b, i])
            total = total + m.cast(part, "f64")
    middle = m.cast(total / count, kind)
    squares = m.value(0, "f64")
    for b in range(rows):
        for start in range(0, columns, BLOCK):
            stop = m.minimum(start + BLOCK, columns)
            part = m.value(0, kind)
            for i in range(start, stop):
                d = x[b, i] - middle
                part = m.loose_add(part, d * d)
            squares = squares + m.cast(part, "f64")
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


@kernel("(b,n),(b,n),(b),(),()->(b,n),(b),(b)")
def norm_blocks_backward(m, g, x, weight, mean, scale, out, by_weight, by_bias):
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
                d = m.cast(g[b, i], kind)
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
            out[b, i] = (g[b, i] * share - steady - (x[b, i] - middle) * tilt) * factor
