"""Kernels of batch norm: statistics in one visit of the memory, the result in another; gradients likewise.

A channel is a matrix of rows (planes of images), or a column of a matrix (when channels lie side by side). Moments
are taken of blocks that fit the first cache and joined in double precision, so one visit is as exact as two.
"""

from __future__ import annotations

from .lang import independent, inline, kernel
from .value import COMPUTE

BLOCK = 1024  # elements of a row whose moments are taken at once
COLUMNS = 512  # of a matrix that are dealt with at a time: long runs, so that few rows share lines of the cache
ROWS = 16


@inline
def _joined(m, seen, mean, squares, size, middle, spread):
    """Moments of what was seen (count, mean, sum of squared distances) together with those of a new block."""
    total = seen + size
    share = size / total
    gap = middle - mean
    return total, mean + gap * share, squares + spread + gap * gap * seen * share


@inline
def moments(m, x, kind):
    """Count, mean and sum of squared distances of a matrix, in double precision; its memory is visited once."""
    rows, columns = x.shape[0], x.shape[1]
    seen = m.value(0, "f64")
    middle = m.value(0, "f64")
    squares = m.value(0, "f64")
    for b in range(rows):
        for start in range(0, columns, BLOCK):
            stop = m.minimum(start + BLOCK, columns)
            part = m.value(0, kind)
            for i in range(start, stop):
                part = m.loose_add(part, x[b, i])
            size = m.cast(stop - start, "f64")
            near = m.cast(part, "f64") / size
            around = m.cast(near, kind)
            spread = m.value(0, kind)
            for i in range(start, stop):
                d = x[b, i] - around
                spread = m.loose_add(spread, d * d)
            seen, middle, squares = _joined(m, seen, middle, squares, size, near, m.cast(spread, "f64"))
    return seen, middle, squares


@inline
def _settle(m, seen, mean, squares, eps, rounded, kind, kept):
    """Mean, factor and variance as the result uses them; 16-bit statistics are rounded where PyTorch rounds them."""
    spread = squares / seen
    if rounded and kept in COMPUTE:
        sum_of = m.cast(m.rounded(m.cast(squares, "f32"), kept), "f64")
        spread = m.cast(m.rounded(m.cast(sum_of / seen, "f32"), kept), "f64")
    factor = 1.0 / m.real_sqrt(spread + eps)
    return m.cast(mean, kind), m.cast(factor, kind), spread


@inline
def _follow(m, running_mean, running_var, at, mean, spread, seen, momentum):
    """Moves the running statistics towards those of the batch; their variance is the unbiased one."""
    old_mean = m.cast(running_mean[at], "f64")
    old_var = m.cast(running_var[at], "f64")
    unbiased = spread * (seen / m.maximum(seen - 1.0, 1.0))
    running_mean[at] = m.cast(
        old_mean * (1.0 - momentum) + mean * momentum, COMPUTE.get(running_mean.type, running_mean.type)
    )
    running_var[at] = m.cast(
        old_var * (1.0 - momentum) + unbiased * momentum, COMPUTE.get(running_var.type, running_var.type)
    )


@kernel("(b,n),(),(),(),()->(b,n),(),(),(),()")
def batch_norm_planes(m, x, weight, bias, eps, momentum, out, mean, scale, running_mean, running_var, rounded):
    """One channel of a batch of planes."""
    kind = COMPUTE.get(x.type, x.type)
    rows, columns = x.shape[0], x.shape[1]
    seen, middle, squares = moments(m, x, kind)
    level, factor, variance = _settle(m, seen, middle, squares, eps[()], rounded, kind, mean.type)
    mean[()] = level
    scale[()] = factor
    _follow(m, running_mean, running_var, (), middle, variance, seen, momentum[()])
    level, factor = mean[()], scale[()]
    slope = factor * weight[()]
    shift = bias[()]
    for b in range(rows):
        for i in independent(columns):
            out[b, i] = (x[b, i] - level) * slope + shift


@inline
def _line(m, mean, variance, weight, bias, at, eps, kind):
    """Slope and level of the line that normalizes a channel by given statistics."""
    factor = m.cast(1.0 / m.real_sqrt(m.cast(variance[at], "f64") + eps), kind)
    slope = factor * weight[at]
    return slope, bias[at] - mean[at] * slope


@kernel("(b,n),(),(),(),(),()->(b,n)")
def given_planes(m, x, mean, variance, weight, bias, eps, out):
    """One channel of planes, normalized by given statistics."""
    kind = COMPUTE.get(x.type, x.type)
    slope, level = _line(m, mean, variance, weight, bias, (), eps[()], kind)
    for b in range(x.shape[0]):
        for i in independent(x.shape[1]):
            out[b, i] = x[b, i] * slope + level


@kernel("(r,c),(c),(c),(c),(c),()->(r,c)")
def given_columns(m, x, mean, variance, weight, bias, eps, out):
    """The same where every column of a matrix is a channel."""
    kind = COMPUTE.get(x.type, x.type)
    columns = x.shape[1]
    slopes = m.local(kind, COLUMNS)
    levels = m.local(kind, COLUMNS)
    for left in range(0, columns, COLUMNS):
        width = m.minimum(columns - left, COLUMNS)
        for j in independent(0, width):
            slope, level = _line(m, mean, variance, weight, bias, left + j, eps[()], kind)
            slopes[j] = slope
            levels[j] = level
        for i in range(0, x.shape[0]):
            for j in independent(0, width):
                out[i, left + j] = x[i, left + j] * slopes[j] + levels[j]


@inline
def _plane_gradients(m, g, flat, x, weight, mean, scale, out, by_weight, by_bias, fixed):
    kind = COMPUTE.get(x.type, x.type)
    rows, columns = x.shape[0], x.shape[1]
    middle, factor, share = mean[()], scale[()], weight[()]
    first = m.value(0, "f64")
    second = m.value(0, "f64")
    for b in range(rows):
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
    wide = m.cast(factor, "f64")
    by_bias[()] = m.cast(first, COMPUTE.get(by_bias.type, by_bias.type))
    by_weight[()] = m.cast(second * wide, COMPUTE.get(by_weight.type, by_weight.type))
    count = m.cast(rows, "f64") * m.cast(columns, "f64")
    steady = m.value(0, kind) if fixed else m.cast(first / count, kind)
    tilt = m.value(0, kind) if fixed else m.cast(second * wide * wide / count, kind)
    slope = factor * share
    for b in range(rows):
        for i in independent(columns):
            out[b, i] = (m.cast(g[()] if flat else g[b, i], kind) - steady - (x[b, i] - middle) * tilt) * slope


@kernel("(b,n),(b,n),(),(),()->(b,n),(),()")
def batch_norm_planes_backward(m, g, x, weight, mean, scale, out, by_weight, by_bias, fixed):
    """The gradients of one channel by x, weight and bias; with `fixed` statistics that do not depend on x."""
    _plane_gradients(m, g, False, x, weight, mean, scale, out, by_weight, by_bias, fixed)


@kernel("(),(b,n),(),(),()->(b,n),(),()")
def batch_norm_planes_backward_flat(m, g, x, weight, mean, scale, out, by_weight, by_bias, fixed):
    """The same for a gradient that is one number."""
    _plane_gradients(m, g, True, x, weight, mean, scale, out, by_weight, by_bias, fixed)


@kernel("(r,c),(c),(c),(),()->(r,c),(c),(c),(c),(c)")
def batch_norm_columns(m, x, weight, bias, eps, momentum, out, mean, scale, running_mean, running_var, rounded):
    """Every column of a matrix is a channel."""
    kind = COMPUTE.get(x.type, x.type)
    rows, columns = x.shape[0], x.shape[1]
    part = m.local(kind, COLUMNS)
    spread = m.local(kind, COLUMNS)
    middle = m.local("f64", COLUMNS)
    squares = m.local("f64", COLUMNS)
    for left in range(0, columns, COLUMNS):
        width = m.minimum(columns - left, COLUMNS)
        for j in independent(0, width):
            middle[j] = m.value(0, "f64")
            squares[j] = m.value(0, "f64")
        for start in range(0, rows, ROWS):
            stop = m.minimum(start + ROWS, rows)
            seen = m.cast(start, "f64")
            size = m.cast(stop - start, "f64")
            fraction = m.cast(1.0 / size, kind)
            for j in independent(0, width):
                part[j] = m.value(0, kind)
                spread[j] = m.value(0, kind)
            for i in range(start, stop):
                for j in independent(0, width):
                    part[j] = part[j] + x[i, left + j]
            for j in independent(0, width):
                part[j] = part[j] * fraction
            for i in range(start, stop):
                for j in independent(0, width):
                    d = x[i, left + j] - part[j]
                    spread[j] = spread[j] + d * d
            share = size / (seen + size)
            weight_of_gap = seen * share
            for j in independent(0, width):
                gap = m.cast(part[j], "f64") - middle[j]
                middle[j] = middle[j] + gap * share
                squares[j] = squares[j] + m.cast(spread[j], "f64") + gap * gap * weight_of_gap
        count = m.cast(rows, "f64")
        for j in range(0, width):
            at = left + j
            level, factor, variance = _settle(m, count, middle[j], squares[j], eps[()], rounded, kind, mean.type)
            mean[at] = level
            scale[at] = factor
            _follow(m, running_mean, running_var, at, middle[j], variance, count, momentum[()])
            part[j] = m.cast(mean[at], kind)
            spread[j] = m.cast(scale[at] * weight[at], kind)
        for i in range(0, rows):
            for j in independent(0, width):
                out[i, left + j] = (x[i, left + j] - part[j]) * spread[j] + bias[left + j]


@kernel("(r,c),(r,c),(c),(c),(c)->(r,c),(c),(c)")
def batch_norm_columns_backward(m, g, x, weight, mean, scale, out, by_weight, by_bias, fixed):
    """The gradients by x, weight and bias, where every column of a matrix is a channel."""
    kind = COMPUTE.get(x.type, x.type)
    rows, columns = x.shape[0], x.shape[1]
    one = m.local(kind, COLUMNS)
    two = m.local(kind, COLUMNS)
    first = m.local("f64", COLUMNS)
    second = m.local("f64", COLUMNS)
    count = m.cast(rows, "f64")
    for left in range(0, columns, COLUMNS):
        width = m.minimum(columns - left, COLUMNS)
        for j in independent(0, width):
            first[j] = m.value(0, "f64")
            second[j] = m.value(0, "f64")
        for start in range(0, rows, ROWS):
            stop = m.minimum(start + ROWS, rows)
            for j in independent(0, width):
                one[j] = m.value(0, kind)
                two[j] = m.value(0, kind)
            for i in range(start, stop):
                for j in independent(0, width):
                    d = m.cast(g[i, left + j], kind)
                    one[j] = one[j] + d
                    two[j] = two[j] + d * (x[i, left + j] - mean[left + j])
            for j in independent(0, width):
                first[j] = first[j] + m.cast(one[j], "f64")
                second[j] = second[j] + m.cast(two[j], "f64")
        for j in independent(0, width):
            wide = m.cast(scale[left + j], "f64")
            by_bias[left + j] = m.cast(first[j], COMPUTE.get(by_bias.type, by_bias.type))
            by_weight[left + j] = m.cast(second[j] * wide, COMPUTE.get(by_weight.type, by_weight.type))
            one[j] = m.value(0, kind) if fixed else m.cast(first[j] / count, kind)
            two[j] = m.value(0, kind) if fixed else m.cast(second[j] * wide * wide / count, kind)
        for i in range(0, rows):
            for j in independent(0, width):
                at = left + j
                d = m.cast(g[i, at], kind) - one[j] - (x[i, at] - mean[at]) * two[j]
                out[i, at] = d * (scale[at] * weight[at])
