"""Kernels of sampling between the elements of images and volumes, linear or cubic in each dimension, with their gradients.

An input is (channels, elements), its elements counted row by row; the points of a grid are coordinates in it from -1
to 1, that of the innermost dimension first. Elements outside count as zero. Values of 16-bit floats are rounded after
each operation, as PyTorch's are.
"""

from __future__ import annotations

import itertools

from .lang import independent, inline, kernel
from .value import COMPUTE

POINTS = 128  # of a grid that are looked at together


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


def _whole(m, inside, place, index):
    """A place that is inside as an integer, others as 0."""
    held = m.where(inside, place, m.value(0, place.type))
    return held.r.truncate(held, index)


def _corners(m, sizes, places, type, nearest, index):
    """The elements around a place, the outermost dimension changing last: (number of type `index`, whether it is inside,
    weight, the shares of each dimension that made the weight). Only one element for the nearest."""
    cut, kind = _cut(m, type), COMPUTE.get(type, type)
    axes = []
    for place, _ in places:
        low = m.floor(place)
        around = ((low, cut(cut(low + 1) - place)), (cut(low + 1), cut(place - low)))
        axes.append(((m.rint(place), m.value(1, kind)),) if nearest else around)
    made = []
    for chosen in itertools.product(*[range(len(axis)) for axis in axes]):
        inside = number = weight = None
        for d, step in enumerate(chosen):
            here, extent = axes[d][step][0], sizes[d]
            fits = (here >= 0) & (here <= m.cast(extent - 1, kind))
            whole = _whole(m, fits, here, index)
            inside = fits if inside is None else inside & fits
            number = whole if number is None else number * m.cast(extent, index) + whole
        shares = [axes[d][step][1] for d, step in enumerate(chosen)]
        for share in reversed(shares):
            weight = share if weight is None else cut(weight * share)
        made.append((number, inside, weight, shares))
    return made


class _Corners:
    """The elements around some points at a time, in memory: their numbers (-1 outside), weights, and the places' shares
    and slopes, so that loops over channels need not compute them again."""

    def __init__(self, m, rank, kind, nearest, index):
        count = 1 if nearest else 2**rank
        self.m, self.kind, self.rank = m, kind, rank
        self.indices = [m.local(index, POINTS) for _ in range(count)]
        self.weights = [m.local(kind, POINTS) for _ in range(count)]
        self.shares = [[m.local(kind, POINTS) for _ in range(1 if nearest else 2)] for _ in range(rank)]
        self.slopes = [m.local(kind, POINTS) for _ in range(rank)]

    def put(self, i, corners, places):
        m, last = self.m, corners[-1][3]
        for (number, inside, weight, _), indices, weights in zip(corners, self.indices, self.weights):
            indices[i] = m.where(inside, number, m.value(-1, indices.type))
            weights[i] = weight
        for d in range(self.rank):
            self.slopes[d][i] = places[d][1]
            self.shares[d][0][i], self.shares[d][-1][i] = corners[0][3][d], last[d]

    def inside(self, corner, i):
        """Whether the element is there, and a number that can be read in any case."""
        m, number = self.m, self.m.cast(self.indices[corner][i], "i64")
        return number >= 0, m.where(number >= 0, number, m.value(0, "i64"))

    def value(self, x, c, corner, i):
        fits, number = self.inside(corner, i)
        return self.m.where(fits, x[c, number], self.m.value(0, self.kind))

    def shares_of(self, corner, i):
        """The shares of each dimension that made a corner's weight."""
        last = self.rank - 1
        return [self.shares[d][(corner >> (last - d)) & 1][i] for d in range(self.rank)]


def _corners_of(m, grid, rank, nearest, index):
    return _Corners(m, rank, COMPUTE.get(grid.type, grid.type), nearest, index)


@inline
def _locate(m, held, sizes, align, grid, first, count, rank, padding, nearest):
    """Computes the corners of so many points from `first` on; roundings to 16 bits would take long to vectorise."""
    for i in independent(count, when=grid.type not in COMPUTE):
        _put(m, held, sizes, align, grid, first, i, rank, padding, nearest)


def _put(m, held, sizes, align, grid, first, i, rank, padding, nearest):
    places = _places(m, sizes, grid, first + i, rank, padding, align)
    held.put(i, _corners(m, sizes, places, grid.type, nearest, held.indices[0].type), places)


def _sample(m, x, c, held, i):
    cut, total = _cut(m, x.type), None
    for corner, weights in enumerate(held.weights):
        part = cut(held.value(x, c, corner, i) * weights[i])
        total = part if total is None else cut(total + part)
    return total


@kernel("(c,s),(r),(),(p,r)->(c,p)")
def sample_points(m, x, sizes, align, grid, out, rank, padding, nearest, index):
    """The values at the points of a grid, some points of all channels after the others."""
    held = _corners_of(m, grid, rank, nearest, index)
    for first in range(0, out.n, POINTS):
        rest = out.n - first
        count = m.where(rest < POINTS, rest, POINTS)
        _locate(m, held, sizes, align[()] != 0, grid, first, count, rank, padding, nearest)
        for c in range(out.shape[0]):
            for i in independent(count, when=x.type not in COMPUTE):
                out[c, first + i] = _sample(m, x, c, held, i)


def _slopes(m, x, c, g, held, i, sums):
    """The gradients by the coordinates of a place with those of one more channel."""
    cut = _cut(m, x.type)
    values = [held.value(x, c, corner, i) for corner in range(len(held.weights))]
    if len(values) == 4:  # differences across, weighted by the shares down, and the other way round
        (a, b, d, e), (n, w), (s, o) = values, held.shares_of(0, i), held.shares_of(3, i)
        down = cut(cut(cut(d - a) * w) + cut(cut(e - b) * o))
        across = cut(cut(cut(b - a) * n) + cut(cut(e - d) * s))
        return [cut(sums[0] + cut(down * g)), cut(sums[1] + cut(across * g))]
    sums = list(sums)
    for number, value in enumerate(values):
        shares, inside = held.shares_of(number, i), held.inside(number, i)[0]
        for d in range(3):
            others = [shares[k] for k in (2, 1, 0) if k != d]
            part = cut(cut(cut(value * others[0]) * others[1]) * g)
            more = cut(sums[d] + part if number >> (2 - d) & 1 else sums[d] - part)
            sums[d] = m.where(inside, more, sums[d])
    return sums


def _spread(m, by_x, c, g, held, i):
    """What one value adds to the gradients of the elements around it; outside, nothing to the first element."""
    cut = _cut(m, by_x.type)
    for corner, weights in enumerate(held.weights):
        fits, number = held.inside(corner, i)
        share = m.where(fits, cut(weights[i] * g), m.value(0, held.kind))
        by_x[c, number] = by_x[c, number] + share


def _lines(m, held):
    """Room for the gradients by the coordinates of some points, each in a line of its own: in a grid they lie by turns."""
    return [m.local(held.kind, POINTS) for _ in range(held.rank)]


def _move(m, sums, x, c, g, held, i):
    """Adds the gradients of one channel to those of a place."""
    for line, total in zip(sums, _slopes(m, x, c, g, held, i, [line[i] for line in sums])):
        line[i] = total


@inline
def _move_all(m, sums, first, count, x, c, g, held):
    for i in independent(count, when=x.type not in COMPUTE):
        _move(m, sums, x, c, g[c, first + i], held, i)


def _clear(sums, i):
    for line in sums:
        line[i] = 0


def _scale(by_grid, p, sums, held, i):
    for line, slope, d in zip(reversed(sums), reversed(held.slopes), range(held.rank)):
        by_grid[p, d] = line[i] * slope[i]


@kernel("(c,s),(r),(),(p,r),(c,p)->(c,s),(p,r)")
def sample_points_backward(
    m, x, sizes, align, grid, g, by_x, by_grid, rank, padding, nearest, index, for_x, for_grid
):  # fmt: skip
    """The gradients by the input, point after point in each channel, and by the grid, as far as they are wanted."""
    held = _corners_of(m, grid, rank, nearest, index)
    sums = _lines(m, held)
    if for_x:
        for c in range(by_x.shape[0]):
            for s in independent(by_x.n):
                by_x[c, s] = 0
    for first in range(0, g.n, POINTS):
        rest = g.n - first
        count = m.where(rest < POINTS, rest, POINTS)
        _locate(m, held, sizes, align[()] != 0, grid, first, count, rank, padding, nearest)
        if for_grid:
            for i in independent(count):
                _clear(sums, i)
        for c in range(by_x.shape[0]):
            if for_x:
                for i in range(count):
                    _spread(m, by_x, c, g[c, first + i], held, i)
            if for_grid and not nearest:
                _move_all(m, sums, first, count, x, c, g, held)
        if for_grid:
            for i in range(count):
                _scale(by_grid, first + i, sums, held, i)


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
    row, column = (_whole(m, inside, tap, "i64") for tap in (down, across))
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


class _Taps:
    """The sixteen elements around some points at a time, in memory, as `_Corners` has them, and their weights."""

    def __init__(self, m, kind, index):
        self.m, self.index = m, index
        self.indices = [m.local(index, POINTS) for _ in range(16)]
        self.curves = [[m.local(kind, POINTS) for _ in range(4)] for _ in range(2)]

    def put(self, i, taps, curves):
        m = self.m
        for (number, inside), indices in zip(taps, self.indices):
            indices[i] = m.where(inside, m.cast(number, self.index), m.value(-1, self.index))
        for own, curve in zip(self.curves, curves):
            for place, weight in zip(own, curve):
                place[i] = weight

    def at(self, i):
        """The taps and the weights of a point."""
        numbers = [indices[i] for indices in self.indices]
        zero = self.m.value(0, self.index)
        taps = [(self.m.cast(self.m.where(n >= 0, n, zero), "i64"), n >= 0) for n in numbers]
        return taps, [[weight[i] for weight in curve] for curve in self.curves]


def _taps_of(m, grid, index):
    return _Taps(m, COMPUTE.get(grid.type, grid.type), index)


def _cubic_at(m, x, c, held, i):
    return _cubic(m, x, c, *held.at(i))


def _put_taps(m, held, sizes, align, grid, first, i, padding):
    taps, weights, _ = _around(m, sizes, grid, first + i, padding, align)
    held.put(i, taps, weights[:2])


@kernel("(c,s),(r),(),(p,r)->(c,p)")
def sample_cubic(m, x, sizes, align, grid, out, padding, index):
    """The values at the points of a grid, some points of all channels after the others."""
    held = _taps_of(m, grid, index)
    for first in range(0, out.n, POINTS):
        rest = out.n - first
        count = m.where(rest < POINTS, rest, POINTS)
        for i in independent(count, when=grid.type not in COMPUTE):
            _put_taps(m, held, sizes, align[()] != 0, grid, first, i, padding)
        for c in range(out.shape[0]):
            for i in independent(count, when=x.type not in COMPUTE):
                out[c, first + i] = _cubic_at(m, x, c, held, i)


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
            share = cut(cut(g * across[j]) * down[i])
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
