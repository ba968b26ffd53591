"""Kernels of sampling between the elements of images and volumes, linear or cubic in each dimension, with their gradients.

An input is (channels, elements), its elements counted row by row; places are coordinates in it, one row for each
dimension from the outermost on. Elements outside count as zero. Values of 16-bit floats are rounded after each
operation, as PyTorch's are.
"""

from __future__ import annotations

import itertools

from .lang import kernel
from .value import COMPUTE


def _cut(m, type):
    return (lambda value: m.rounded(value, type)) if type in COMPUTE else (lambda value: value)


def _corners(m, sizes, places, p, rank):
    """The elements around a place, the outermost dimension changing last: (number, whether it is inside, weight, the
    shares of each dimension that made the weight)."""
    cut, kind = _cut(m, places.type), COMPUTE.get(places.type, places.type)
    axes = []
    for d in range(rank):
        place = places[d, p]
        low = m.floor(place)
        axes.append(((low, cut(cut(low + 1) - place)), (cut(low + 1), cut(place - low))))
    made = []
    for chosen in itertools.product((0, 1), repeat=rank):
        inside = index = weight = None
        for d, step in enumerate(chosen):
            here, extent = axes[d][step][0], sizes[d]
            fits = (here >= 0) & (here <= m.cast(extent - 1, kind))
            whole = m.cast(m.where(fits, here, m.value(0, kind)), "i64")
            inside = fits if inside is None else inside & fits
            index = whole if index is None else index * extent + whole
        shares = [axes[d][step][1] for d, step in enumerate(chosen)]
        for share in reversed(shares):
            weight = share if weight is None else cut(weight * share)
        made.append((m.where(inside, index, m.value(0, "i64")), inside, weight, shares))
    return made


def _sample(m, x, c, corners):
    cut, kind, total = _cut(m, x.type), COMPUTE.get(x.type, x.type), None
    for index, inside, weight, _ in corners:
        part = cut(m.where(inside, x[c, index], m.value(0, kind)) * weight)
        total = part if total is None else cut(total + part)
    return total


@kernel("(c,s),(r),(r,p)->(c,p)")
def sample_linear(m, x, sizes, places, out, rank):
    """The values at places between elements."""
    for p in range(places.n):
        corners = _corners(m, sizes, places, p, rank)
        for c in range(out.shape[0]):
            out[c, p] = _sample(m, x, c, corners)


def _slopes(m, x, c, g, corners, sums):
    """The gradients by the coordinates of a place with those of one more channel."""
    cut, kind = _cut(m, x.type), COMPUTE.get(x.type, x.type)
    values = [m.where(inside, x[c, index], m.value(0, kind)) for index, inside, _, _ in corners]
    if len(corners) == 4:  # differences across, weighted by the shares down, and the other way round
        (a, b, d, e), (n, w), (s, o) = values, corners[0][3], corners[3][3]
        down = cut(cut(cut(d - a) * w) + cut(cut(e - b) * o))
        across = cut(cut(cut(b - a) * n) + cut(cut(e - d) * s))
        return [cut(sums[0] + cut(down * g)), cut(sums[1] + cut(across * g))]
    sums = list(sums)
    for number, (value, (_, inside, _, shares)) in enumerate(zip(values, corners)):
        for d in range(3):
            others = [shares[i] for i in (2, 1, 0) if i != d]
            part = cut(cut(cut(value * others[0]) * others[1]) * g)
            more = cut(sums[d] + part if number >> (2 - d) & 1 else sums[d] - part)
            sums[d] = m.where(inside, more, sums[d])
    return sums


def _spread(m, by_x, c, g, corners):
    """What one value adds to the gradients of the elements around it; outside, nothing to the first element."""
    cut, kind = _cut(m, by_x.type), COMPUTE.get(by_x.type, by_x.type)
    for index, inside, weight, _ in corners:
        by_x[c, index] = by_x[c, index] + m.where(inside, cut(weight * g), m.value(0, kind))


def _clear(by_places, p, rank):
    for d in range(rank):
        by_places[d, p] = 0


def _move(m, by_places, p, x, c, g, corners, rank):
    """Adds the gradients of one channel to those of a place."""
    sums = _slopes(m, x, c, g, corners, [by_places[d, p] for d in range(rank)])
    for d in range(rank):
        by_places[d, p] = sums[d]


@kernel("(c,s),(r),(r,p),(c,p)->(c,s),(r,p)")
def sample_linear_backward(m, x, sizes, places, g, by_x, by_places, rank):
    """The gradients by the input, point after point, and by the places."""
    for c in range(by_x.shape[0]):
        for s in range(by_x.n):
            by_x[c, s] = 0
    for p in range(places.n):
        corners = _corners(m, sizes, places, p, rank)
        _clear(by_places, p, rank)
        for c in range(by_x.shape[0]):
            _spread(m, by_x, c, g[c, p], corners)
            _move(m, by_places, p, x, c, g[c, p], corners, rank)


# -- cubic, in two dimensions ------------------------------------------------------------------------------------

_A = -0.75  # the slope of the weights' curve one element away


def _curve(cut, t):
    """The weights of the four elements around a place, from the distance to the second of them."""

    def near(x):
        return cut(cut(cut(cut(cut((_A + 2) * x) - (_A + 3)) * x) * x) + 1)

    def far(x):
        return cut(cut(cut(cut(cut(cut(_A * x) - 5 * _A) * x) + 8 * _A) * x) - 4 * _A)

    back = cut(1 - t)
    return [far(cut(t + 1)), near(t), near(back), far(cut(back + 1))]


def _slope(cut, t):
    """The derivatives of those weights."""

    def near(x):
        return cut(cut(cut(3 * (_A + 2) * x) - 2 * (_A + 3)) * x)

    def far(x):
        return cut(cut(cut(cut(3 * _A * x) - 10 * _A) * x) + 8 * _A)

    back = cut(1 - t)
    return [far(cut(t + 1)), near(t), -near(back), -far(cut(back + 1))]


def _taps(m, sizes, taps, p):
    """The sixteen elements around a place, four for each row: (number, whether it is inside)."""
    kind, made = COMPUTE.get(taps.type, taps.type), []
    for i in range(4):
        for j in range(4):
            down, across = taps[i, p], taps[4 + j, p]
            inside = (down >= 0) & (down <= m.cast(sizes[0] - 1, kind)) & (across >= 0)
            inside = inside & (across <= m.cast(sizes[1] - 1, kind))
            row, column = (m.cast(m.where(inside, tap, m.value(0, kind)), "i64") for tap in (down, across))
            made.append((row * sizes[1] + column, inside))
    return made


def _weights(m, parts, p):
    """(curve down, curve across, slopes down, slopes across) at a place."""
    cut = _cut(m, parts.type)
    return [_curve(cut, parts[0, p]), _curve(cut, parts[1, p]), _slope(cut, parts[0, p]), _slope(cut, parts[1, p])]


def _value(m, x, c, tap):
    return m.where(tap[1], x[c, tap[0]], m.value(0, COMPUTE.get(x.type, x.type)))


def _cubic(m, x, c, taps, weights):
    cut, total = _cut(m, x.type), None
    down, across, *_ = weights
    for i in range(4):
        row = None
        for j in range(4):
            part = cut(_value(m, x, c, taps[4 * i + j]) * across[j])
            row = part if row is None else cut(row + part)
        row = cut(row * down[i])
        total = row if total is None else cut(total + row)
    return total


@kernel("(c,s),(r),(r,p),(k,p)->(c,p)")
def sample_cubic(m, x, sizes, parts, taps, out):
    """The values at places between elements, of which `parts` are the fractions and `taps` the rows, then columns, of
    the four elements around them in each dimension."""
    for p in range(parts.n):
        places, weights = _taps(m, sizes, taps, p), _weights(m, parts, p)
        for c in range(out.shape[0]):
            out[c, p] = _cubic(m, x, c, places, weights)


def _cubic_gradients(m, x, c, p, g, taps, weights, by_x, by_parts):
    cut, kind = _cut(m, x.type), COMPUTE.get(x.type, x.type)
    down, across, down_slope, across_slope = weights
    sums = [by_parts[0, p], by_parts[1, p]]
    for j in range(4):
        for i in range(4):
            tap = taps[4 * i + j]
            value = cut(_value(m, x, c, tap) * g)
            sums[0] = cut(sums[0] + cut(cut(value * down_slope[i]) * across[j]))
            sums[1] = cut(sums[1] + cut(cut(value * across_slope[j]) * down[i]))
            share = cut(cut(g * down[i]) * across[j])
            by_x[c, tap[0]] = by_x[c, tap[0]] + m.where(tap[1], share, m.value(0, kind))
    by_parts[0, p], by_parts[1, p] = sums


@kernel("(c,s),(r),(r,p),(k,p),(c,p)->(c,s),(r,p)")
def sample_cubic_backward(m, x, sizes, parts, taps, g, by_x, by_parts):
    """The gradients by the input, point after point, and by the fractions."""
    for c in range(by_x.shape[0]):
        for s in range(by_x.n):
            by_x[c, s] = 0
    for p in range(parts.n):
        places, weights = _taps(m, sizes, taps, p), _weights(m, parts, p)
        _clear(by_parts, p, 2)
        for c in range(by_x.shape[0]):
            _cubic_gradients(m, x, c, p, g[c, p], places, weights, by_x, by_parts)
