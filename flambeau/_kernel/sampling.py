"""Kernels of sampling between the elements of images and volumes, linear or cubic in each dimension, with their gradients.

An input is (channels, elements), its elements counted row by row; the points of a grid are coordinates in it from -1
to 1, that of the innermost dimension first. Elements outside count as zero. Values of 16-bit floats are rounded after
each operation, as PyTorch's are.
"""

from __future__ import annotations

import itertools

from .lang import kernel
from .value import COMPUTE


def _cut(m, type):
    return (lambda value: m.rounded(value, type)) if type in COMPUTE else (lambda value: value)


def _reflected(m, cut, place, slope, extent, align):
    """A coordinate folded back at the centres of the outermost elements, or at their outer edges, and its slope."""
    low, span = m.where(align, m.value(0, extent.type), m.value(-0.5, extent.type)), m.where(align, extent - 1, extent)
    away = cut(place - low)
    slope = m.where(away < 0, -slope, slope)
    away = m.where(away < 0, -away, away)
    flips = m.floor(cut(away / span))
    rest = cut(away - cut(flips * span))
    half = flips / 2
    even = m.floor(half) == half
    place = m.where(even, cut(rest + low), cut(cut(span - rest) + low))
    return m.where(span == 0, m.value(0, extent.type), place), m.where(even, slope, -slope)


def _unnormalized(m, cut, x, extent, align):
    """A coordinate counted in elements, and how fast it moves; the ends of the range are the centres of the outermost
    elements with `align`, otherwise their outer edges."""
    aligned, other = cut(cut(cut(x + 1) / 2) * (extent - 1)), cut(cut(cut(cut(x + 1) * extent) - 1) / 2)
    return m.where(align, aligned, other), cut(m.where(align, extent - 1, extent) / 2)


def _padded(m, cut, place, slope, extent, padding, align):
    """A place moved into the input, unless elements outside count as zero."""
    if padding == "zeros":
        return place, slope
    if padding == "reflection":
        place, slope = _reflected(m, cut, place, slope, extent, align)
    zero, last = m.value(0, extent.type), extent - 1
    slope = m.where((place > 0) & (place < last), slope, zero)  # none from the edge on
    return m.where(place < 0, zero, m.where(place > last, last, place)), slope


def _places(m, sizes, grid, p, rank, padding, align):
    """Place and slope in each dimension, from the outermost on."""
    cut, kind, made = _cut(m, grid.type), COMPUTE.get(grid.type, grid.type), []
    for d in range(rank):
        extent = m.cast(sizes[d], kind)
        place, slope = _unnormalized(m, cut, grid[p, rank - 1 - d], extent, align)
        made.append(_padded(m, cut, place, slope, extent, padding, align))
    return made


def _corners(m, sizes, places, type, nearest):
    """The elements around a place, the outermost dimension changing last: (number, whether it is inside, weight, the
    shares of each dimension that made the weight). Only one element for the nearest."""
    cut, kind = _cut(m, type), COMPUTE.get(type, type)
    axes = []
    for place, _ in places:
        low = m.floor(place)
        around = ((low, cut(cut(low + 1) - place)), (cut(low + 1), cut(place - low)))
        axes.append(((m.rint(place), m.value(1, kind)),) if nearest else around)
    made = []
    for chosen in itertools.product(*[range(len(axis)) for axis in axes]):
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


@kernel("(c,s),(r),(),(p,r)->(c,p)")
def sample_points(m, x, sizes, align, grid, out, rank, padding, nearest):
    """The values at the points of a grid."""
    for p in range(out.n):
        places = _places(m, sizes, grid, p, rank, padding, align[()] != 0)
        corners = _corners(m, sizes, places, grid.type, nearest)
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


def _move(m, by_grid, p, x, c, g, corners, rank):
    """Adds the gradients of one channel to those of a place."""
    sums = _slopes(m, x, c, g, corners, [by_grid[p, rank - 1 - d] for d in range(rank)])
    for d in range(rank):
        by_grid[p, rank - 1 - d] = sums[d]


def _clear(by_grid, p, rank):
    for d in range(rank):
        by_grid[p, d] = 0


def _scale(by_grid, p, places, rank):
    for d in range(rank):
        by_grid[p, rank - 1 - d] = by_grid[p, rank - 1 - d] * places[d][1]


@kernel("(c,s),(r),(),(p,r),(c,p)->(c,s),(p,r)")
def sample_points_backward(m, x, sizes, align, grid, g, by_x, by_grid, rank, padding, nearest):
    """The gradients by the input, point after point, and by the grid."""
    for c in range(by_x.shape[0]):
        for s in range(by_x.n):
            by_x[c, s] = 0
    for p in range(g.n):
        places = _places(m, sizes, grid, p, rank, padding, align[()] != 0)
        corners = _corners(m, sizes, places, grid.type, nearest)
        _clear(by_grid, p, rank)
        for c in range(by_x.shape[0]):
            _spread(m, by_x, c, g[c, p], corners)
            if not nearest:
                _move(m, by_grid, p, x, c, g[c, p], corners, rank)
        _scale(by_grid, p, places, rank)


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


def _around(m, sizes, grid, p, padding, align):
    """The sixteen elements around a place, four for each row: (number, whether it is inside); the curves of weights down
    and across, their slopes, and how fast the place moves in both directions."""
    cut, kind = _cut(m, grid.type), COMPUTE.get(grid.type, grid.type)
    lines, curves, slopes, speeds = [], [], [], []
    for d in range(2):
        extent = m.cast(sizes[d], kind)
        place, speed = _unnormalized(m, cut, grid[p, 1 - d], extent, align)
        low = m.floor(place)
        part = cut(place - low)
        lines.append([_padded(m, cut, cut(low + (k - 1)), speed, extent, padding, align)[0] for k in range(4)])
        curves.append(_curve(cut, part))
        slopes.append(_slope(cut, part))
        speeds.append(speed)
    taps = [_tap(m, sizes, down, across, kind) for down in lines[0] for across in lines[1]]
    return taps, [*curves, *slopes], speeds


def _tap(m, sizes, down, across, kind):
    inside = (down >= 0) & (down <= m.cast(sizes[0] - 1, kind)) & (across >= 0)
    inside = inside & (across <= m.cast(sizes[1] - 1, kind))
    row, column = (m.cast(m.where(inside, tap, m.value(0, kind)), "i64") for tap in (down, across))
    return row * sizes[1] + column, inside


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


@kernel("(c,s),(r),(),(p,r)->(c,p)")
def sample_cubic(m, x, sizes, align, grid, out, padding):
    """The values at the points of a grid."""
    for p in range(out.n):
        taps, weights, _ = _around(m, sizes, grid, p, padding, align[()] != 0)
        for c in range(out.shape[0]):
            out[c, p] = _cubic(m, x, c, taps, weights)


def _cubic_gradients(m, x, c, p, g, taps, weights, by_x, by_grid):
    cut, kind = _cut(m, x.type), COMPUTE.get(x.type, x.type)
    down, across, down_slope, across_slope = weights
    sums = [by_grid[p, 1], by_grid[p, 0]]
    for j in range(4):
        for i in range(4):
            tap = taps[4 * i + j]
            value = cut(_value(m, x, c, tap) * g)
            sums[0] = cut(sums[0] + cut(cut(value * down_slope[i]) * across[j]))
            sums[1] = cut(sums[1] + cut(cut(value * across_slope[j]) * down[i]))
            share = cut(cut(g * down[i]) * across[j])
            by_x[c, tap[0]] = by_x[c, tap[0]] + m.where(tap[1], share, m.value(0, kind))
    by_grid[p, 1], by_grid[p, 0] = sums


@kernel("(c,s),(r),(),(p,r),(c,p)->(c,s),(p,r)")
def sample_cubic_backward(m, x, sizes, align, grid, g, by_x, by_grid, padding):
    """The gradients by the input, point after point, and by the grid."""
    for c in range(by_x.shape[0]):
        for s in range(by_x.n):
            by_x[c, s] = 0
    for p in range(g.n):
        taps, weights, speeds = _around(m, sizes, grid, p, padding, align[()] != 0)
        by_grid[p, 0], by_grid[p, 1] = 0, 0
        for c in range(by_x.shape[0]):
            _cubic_gradients(m, x, c, p, g[c, p], taps, weights, by_x, by_grid)
        by_grid[p, 1] = by_grid[p, 1] * speeds[0]
        by_grid[p, 0] = by_grid[p, 0] * speeds[1]
