"""Kernels of sampling between the elements of images and volumes, linear or cubic in each dimension, with their gradients.

An input is (channels, elements), its elements counted row by row; the points of a grid are coordinates in it from -1
to 1, that of the innermost dimension first. What is beyond the edges is told by `how`, a number; an option `padding` says
the same where a kernel for each of them is worth its compilation. Values of 16-bit floats are rounded after each operation,
and added up in the order of loops that take some points of an image at a time, as PyTorch's are.
"""

from __future__ import annotations

import itertools
import operator

from ..loops.lang import independent, inline, kernel
from ..render.value import COMPUTE

POINTS = 128  # of a grid that are looked at together
LANES = 8  # points of an image that PyTorch's loops take at a time, where that is seen: in sums of 16-bit floats
PADDINGS = ("zeros", "border", "reflection")


def number_of(padding, align):
    """What the kernels read as `how`."""
    return PADDINGS.index(padding) << 1 | align


class _Edges:
    """How coordinates are counted, and what becomes of those beyond the edges: known now (`padding`) or when it runs."""

    def __init__(self, m, how, padding):
        self.m, self.align = m, (how & 1) != 0
        self.moves = how >= 2 if padding is None else padding != "zeros"
        self.reflects = how >= 4 if padding is None else padding == "reflection"

    def choose(self, condition, new, old):
        """A pair or another, by a condition that may be known."""
        if isinstance(condition, bool):
            return new if condition else old
        return [self.m.where(condition, a, b) for a, b in zip(new, old)]


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


def _padded(m, cut, place, slope, extent, edges):
    """A place moved into the input, unless elements outside count as zero."""
    if edges.moves is False:
        return place, slope
    moved = place, slope
    if edges.reflects is not False:
        moved = edges.choose(edges.reflects, _reflected(m, cut, place, slope, extent, edges.align), moved)
    at, speed = moved
    zero, last = m.value(0, extent.type), extent - 1
    speed = m.where((at > 0) & (at < last), speed, zero)  # none from the edge on
    return edges.choose(edges.moves, (m.where(at < 0, zero, m.where(at > last, last, at)), speed), (place, slope))


def _places(m, sizes, grid, p, rank, edges):
    """Place and slope in each dimension, from the outermost on."""
    cut, kind, made = _cut(m, grid.type), COMPUTE.get(grid.type, grid.type), []
    for d in range(rank):
        extent = m.cast(sizes[d], kind)
        place, slope = _unnormalized(m, cut, grid[p, rank - 1 - d], extent, edges.align)
        made.append(_padded(m, cut, place, slope, extent, edges))
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

    def __init__(self, m, grid, index, points, rank, nearest, back=False):
        kind, count = COMPUTE.get(grid.type, grid.type), 1 if nearest else 2**rank
        self.m, self.kind, self.rank, self.points, self.numbers = m, kind, rank, points, tuple(range(count))
        self.nearest = nearest
        self.indices = [m.local(index, points) for _ in range(count)]
        self.weights = [m.local(kind, points) for _ in range(count)]
        self.shares = [[m.local(kind, points) for _ in range(1 if nearest else 2)] for _ in range(rank)]
        self.slopes = [m.local(kind, points) for _ in range(rank)]
        # gradients by the coordinates, each in a line of its own: in a grid they lie by turns
        self.sums = [m.local(kind, points) for _ in range(rank)] if back else []

    def locate(self, i, sizes, edges, grid, p):
        """Computes what belongs to the point p of a grid, in the place i."""
        m, places = self.m, _places(self.m, sizes, grid, p, self.rank, edges)
        corners = _corners(m, sizes, places, grid.type, self.nearest, self.indices[0].type)
        last = corners[-1][3]
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

    def sample(self, x, c, i):
        """The value of a channel at a place."""
        cut, total = _cut(self.m, x.type), None
        for corner, weights in enumerate(self.weights):
            part = cut(self.value(x, c, corner, i) * weights[i])
            total = part if total is None else cut(total + part)
        return total

    def shares_of(self, corner, i):
        """The shares of each dimension that made a corner's weight."""
        last = self.rank - 1
        return [self.shares[d][(corner >> (last - d)) & 1][i] for d in range(self.rank)]


def _held(m, grid, index, points, rank, nearest, cubic, back=False):
    return _Taps(m, grid, index, points, back) if cubic else _Corners(m, grid, index, points, rank, nearest, back)


@inline
def _locate(m, held, sizes, edges, grid, first, count):
    """Computes what belongs to so many points from `first` on; roundings to 16 bits would take long to vectorise."""
    for i in independent(count, when=grid.type not in COMPUTE):
        held.locate(i, sizes, edges, grid, first + i)


@kernel("(c,s),(r),(),(p,r)->(c,p)")
def sample_points(m, x, sizes, how, grid, out, rank, padding, nearest, cubic, index):
    """The values at the points of a grid, some points of all channels after the others."""
    edges, held = _Edges(m, how[()], padding), _held(m, grid, index, POINTS, rank, nearest, cubic)
    for first in range(0, out.n, POINTS):
        rest = out.n - first
        count = m.where(rest < POINTS, rest, POINTS)
        _locate(m, held, sizes, edges, grid, first, count)
        for c in range(out.shape[0]):
            for i in independent(count, when=x.type not in COMPUTE):
                out[c, first + i] = held.sample(x, c, i)


@kernel("(c,s),(r),(),(p,r)->()")
def sample_point(m, x, sizes, how, grid, out, rank, padding, nearest, cubic, index):
    """The value of one channel at one point, for a thread of its own."""
    held = _held(m, grid, index, 1, rank, nearest, cubic)
    held.locate(0, sizes, _Edges(m, how[()], padding), grid, 0)
    out[()] = held.sample(x, 0, 0)


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


def _spread(m, by_x, c, g, held, i, corners):
    """What one value adds to the gradients of elements around it."""
    cut = _cut(m, by_x.type)
    for corner in corners:
        fits, number = held.inside(corner, i)
        by_x.merge((c, number), cut(held.weights[corner][i] * g), "add", operator.add, fits)


@inline
def _spread_corner(m, by_x, c, g, held, first, start, stop, corner):
    for i in range(start, stop):
        _spread(m, by_x, c, g[c, first + i], held, i, (corner,))


@inline
def _spread_all(m, by_x, c, g, held, first, count):
    if by_x.type in COMPUTE and held.rank == 2:
        for start in range(0, count, LANES):
            stop = m.where(count - start < LANES, count, start + LANES)
            for corner in tuple(held.numbers):
                _spread_corner(m, by_x, c, g, held, first, start, stop, corner)
    else:
        for i in range(count):
            _spread(m, by_x, c, g[c, first + i], held, i, held.numbers)


def _move(m, x, c, g, held, i):
    """Adds the gradients of one channel to those of a place."""
    for line, total in zip(held.sums, _slopes(m, x, c, g, held, i, [line[i] for line in held.sums])):
        line[i] = total


@inline
def _move_all(m, first, count, x, c, g, held):
    for i in independent(count, when=x.type not in COMPUTE):
        _move(m, x, c, g[c, first + i], held, i)


def _clear(held, i):
    for line in held.sums:
        line[i] = 0


def _scale(by_grid, p, held, i):
    for line, slope, d in zip(reversed(held.sums), reversed(held.slopes), range(held.rank)):
        by_grid[p, d] = line[i] * slope[i]


@kernel("(c,s),(r),(),(p,r),(c,p)->(c,s),(p,r)")
def sample_points_backward(
    m, x, sizes, how, grid, g, by_x, by_grid, rank, padding, nearest, index, for_x, for_grid
):  # fmt: skip
    """The gradients by the input, point after point in each channel, and by the grid, as far as they are wanted."""
    edges = _Edges(m, how[()], padding)
    held = _Corners(m, grid, index, POINTS, rank, nearest, back=True)
    if for_x:
        for c in range(by_x.shape[0]):
            for s in independent(by_x.n):
                by_x[c, s] = 0
    for first in range(0, g.n, POINTS):
        rest = g.n - first
        count = m.where(rest < POINTS, rest, POINTS)
        _locate(m, held, sizes, edges, grid, first, count)
        if for_grid:
            for i in independent(count):
                _clear(held, i)
        for c in range(by_x.shape[0]):
            if for_x:
                _spread_all(m, by_x, c, g, held, first, count)
            if for_grid and not nearest:
                _move_all(m, first, count, x, c, g, held)
        if for_grid:
            for i in range(count):
                _scale(by_grid, first + i, held, i)


@kernel("(c,s),(r),(),(p,r),(c,p)->(c,s),(p,r)")
def sample_point_backward(
    m, x, sizes, how, grid, g, by_x, by_grid, rank, padding, nearest, index, for_x, for_grid
):  # fmt: skip
    """The same of one point, for a thread of its own: what it adds to is zero before, and others add to it, too."""
    held = _Corners(m, grid, index, 1, rank, nearest, back=True)
    held.locate(0, sizes, _Edges(m, how[()], padding), grid, 0)
    _clear(held, 0)
    for c in range(by_x.shape[0]):
        if for_x:
            _spread(m, by_x, c, g[c, 0], held, 0, held.numbers)
        if for_grid and not nearest:
            _move(m, x, c, g[c, 0], held, 0)
    if for_grid:
        _scale(by_grid, 0, held, 0)


# -- cubic, in two dimensions ------------------------------------------------------------------------------------

_A = -0.75  # the slope of the weights' curve one element away


def curve(cut, t):
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


def _axis(m, sizes, d, grid, p, edges):
    """Of one dimension of a place: the four elements around it (number, whether it is inside), the curve of their weights,
    its slopes, and how fast the place moves."""
    cut, kind = _cut(m, grid.type), COMPUTE.get(grid.type, grid.type)
    extent = m.cast(sizes[d], kind)
    place, speed = _unnormalized(m, cut, grid[p, 1 - d], extent, edges.align)
    low, line = m.floor(place), []
    for k in range(4):
        tap, _ = _padded(m, cut, cut(low + (k - 1)), speed, extent, edges)
        inside = (tap >= 0) & (tap <= extent - 1)
        line.append((_whole(m, inside, tap, "i64"), inside))
    part = cut(place - low)
    return line, curve(cut, part), _slope(cut, part), speed


class _Taps:
    """The sixteen elements around some points at a time, in memory, as `_Corners` has them: their numbers, four for each row,
    the weights down and across, and, backwards, the slopes of these and how fast the places move."""

    def __init__(self, m, grid, index, points, back=False):
        kind = COMPUTE.get(grid.type, grid.type)
        self.m, self.kind, self.points = m, kind, points
        self.indices = m.local(index, 16 * points)
        self.curves = [m.local(kind, 4 * points) for _ in range(2)]
        self.slopes = [m.local(kind, 4 * points) for _ in range(2)] if back else []
        self.speeds = [m.local(kind, points) for _ in range(2)]
        self.sums = [m.local(kind, points) for _ in range(2)]

    def locate(self, i, sizes, edges, grid, p):
        m, axes = self.m, [_axis(self.m, sizes, d, grid, p, edges) for d in range(2)]
        down, across = axes
        for k, (row, high) in enumerate(down[0]):
            for n, (column, wide) in enumerate(across[0]):
                number = m.cast(row * sizes[1] + column, self.indices.type)
                self.indices[i + (4 * k + n) * self.points] = m.where(high & wide, number, m.value(-1, number.type))
        for d, (_, *lines, speed) in enumerate(axes):
            self.speeds[d][i], self.sums[d][i] = speed, 0
            for held, line in zip((self.curves, self.slopes), lines):
                for k, value in enumerate(line if held else ()):
                    held[d][i + k * self.points] = value

    def tap(self, row, column, i):
        """A number that can be read in any case, and whether the element is there."""
        number = self.m.cast(self.indices[i + (row * 4 + column) * self.points], "i64")
        return self.m.where(number >= 0, number, self.m.value(0, "i64")), number >= 0

    def sample(self, x, c, i):
        cut, total = _cut(self.m, x.type), None
        for k in range(4):
            row = None
            for n in range(4):
                part = cut(_value(self.m, x, c, self.tap(k, n, i)) * self.weight(1, n, i))
                row = part if row is None else cut(row + part)
            row = cut(row * self.weight(0, k, i))
            total = row if total is None else cut(total + row)
        return total

    def weight(self, d, tap, i):
        return self.curves[d][i + tap * self.points]

    def slope(self, d, tap, i):
        return self.slopes[d][i + tap * self.points]


def _value(m, x, c, tap):
    return m.where(tap[1], x[c, tap[0]], m.value(0, COMPUTE.get(x.type, x.type)))


def _cubic_gradients(m, x, c, g, held, row, column, i, by_x):
    """What one element around a place has to do with the gradients."""
    cut, (number, inside) = _cut(m, x.type), held.tap(row, column, i)
    down, across = held.weight(0, row, i), held.weight(1, column, i)
    value = cut(_value(m, x, c, (number, inside)) * g)
    parts = cut(value * held.slope(0, row, i)) * across, cut(value * held.slope(1, column, i)) * down
    for sums, part in zip(held.sums, parts):
        sums[i] = cut(sums[i] + cut(part))
    by_x.merge((c, number), cut(cut(g * across) * down), "add", operator.add, inside)


def _all_cubic_gradients(m, x, c, g, held, i, by_x):
    for column, row in itertools.product(range(4), repeat=2):
        _cubic_gradients(m, x, c, g, held, row, column, i, by_x)


def _move_cubic(by_grid, p, held, i):
    for d in range(2):
        by_grid[p, 1 - d] = held.sums[d][i] * held.speeds[d][i]


@kernel("(c,s),(r),(),(p,r),(c,p)->(c,s),(p,r)")
def sample_cubic_backward(m, x, sizes, how, grid, g, by_x, by_grid, padding, index):
    """The gradients by the input and by the grid, some points at a time, element after element around them."""
    edges, held = _Edges(m, how[()], padding), _Taps(m, grid, index, LANES, back=True)
    for c in range(by_x.shape[0]):
        for s in independent(by_x.n):
            by_x[c, s] = 0
    for first in range(0, g.n, LANES):
        rest = g.n - first
        count = m.where(rest < LANES, rest, LANES)
        for i in range(count):
            held.locate(i, sizes, edges, grid, first + i)
        for c in range(by_x.shape[0]):
            if x.type in COMPUTE:
                for column in range(4):
                    for row in range(4):
                        for i in range(count):
                            _cubic_gradients(m, x, c, g[c, first + i], held, row, column, i, by_x)
            else:
                for i in range(count):
                    _all_cubic_gradients(m, x, c, g[c, first + i], held, i, by_x)
        for i in range(count):
            _move_cubic(by_grid, first + i, held, i)


@kernel("(c,s),(r),(),(p,r),(c,p)->(c,s),(p,r)")
def sample_cubic_point_backward(m, x, sizes, how, grid, g, by_x, by_grid, padding, index):
    """The same of one point, as `sample_point_backward`."""
    held = _Taps(m, grid, index, 1, back=True)
    held.locate(0, sizes, _Edges(m, how[()], padding), grid, 0)
    for c in range(by_x.shape[0]):
        _all_cubic_gradients(m, x, c, g[c, 0], held, 0, by_x)
    _move_cubic(by_grid, 0, held, 0)
