"""Winograd's transforms for windows of 3x3: four results of a tile from sixteen products instead of thirty-six.

A tile of 4x4 elements and a window are each brought into sixteen coordinates, multiplied there (summed over channels
by a matrix product for each coordinate), and brought back to 2x2 results. All transforms but that of the weights only
add; results differ from those of direct sums by a few units in the last place.
"""

from __future__ import annotations

from typing import Any

from .lang import independent, kernel

COORDINATES = 16


def _spread(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, ...]:
    return a - c, b + c, c - b, b - d


def _joined(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, ...]:
    return a + b + c, b - c - d


def _expanded(a: Any, b: Any, c: Any) -> tuple[Any, ...]:
    half = (a + c) * 0.5
    return a, half + b * 0.5, half - b * 0.5, c


def _both_ways(transform: Any, values: list[Any], n: int) -> list[Any]:
    """A square of n x n values transformed along rows, then along columns."""
    rows = [transform(*values[n * i : n * i + n]) for i in range(n)]
    columns = [transform(*[row[j] for row in rows]) for j in range(len(rows[0]))]
    return [columns[j][i] for i in range(len(columns[0])) for j in range(len(columns))]


def _elements(x: Any, channel: Any, p: Any, starts: list[Any]) -> list[Any]:
    return [x[channel, p + start] for start in starts]


def _window(weight: Any, o: Any, channel: Any) -> list[Any]:
    return [weight[o, channel, i, j] for i in range(3) for j in range(3)]


def _numbers(shifts: Any) -> list[Any]:
    return [shifts[k] for k in range(COORDINATES)]


def _store(out: Any, values: list[Any], *place: Any) -> None:
    for f, value in enumerate(values):
        out[(f, *place)] = value


def _coordinates(products: Any, o: Any, p: Any) -> list[Any]:
    return [products[f, o, p] for f in range(COORDINATES)]


@kernel("(h,w),(n)->(s)")
def lay_out(m, x, numbers, out):
    """A plane with zeros around it, as four planes by the parity of rows and columns.

    Numbers are the zeros above and on the left, the pitch of rows and the size of a plane.
    """
    above, left, pitch, plane = numbers[0], numbers[1], numbers[2], numbers[3]
    for i in independent(out.n):
        out[i] = 0.0
    height, width = x.shape[0], x.shape[1]
    alone = left & 1  # the first element has no even neighbour then
    pairs = (width - alone) // 2
    for i in range(height):
        row = i + above
        even = (row & 1) * (2 * plane) + (row // 2) * pitch
        odd = even + plane
        at = (left + alone) // 2
        if alone == 1:
            out[odd + at - 1] = x[i, 0]
        for t in independent(pairs):
            out[even + at + t] = x[i, alone + 2 * t]
            out[odd + at + t] = x[i, alone + 2 * t + 1]
        if alone + 2 * pairs < width:
            out[even + at + pairs] = x[i, width - 1]


@kernel("(c,s),(f)->(f,c,p)")
def spread_tiles(m, x, shifts, out):
    """The coordinates of the tiles that begin at neighbouring places of each channel; `shifts` leads to their elements."""
    starts = _numbers(shifts)
    for c in range(out.shape[1]):
        for p in independent(out.n):
            _store(out, _both_ways(_spread, _elements(x, c, p, starts), 4), c, p)


@kernel("(r,c,a,b)->(f,c,l)")
def spread_windows(m, weight, out, lanes):
    """The coordinates of windows; those of the outputs of a panel lie side by side, the last one repeated."""
    last = weight.shape[0] - 1
    for c in range(out.shape[1]):
        for o in independent(lanes):
            _store(out, _both_ways(_expanded, _window(weight, m.minimum(o, last), c), 3), c, o)


@kernel("(f,l,p),(o),(t)->(o,h,w)")
def join_tiles(m, products, bias, pitch, out):
    """The results of tiles, whose rows are pitch[0] apart, with a bias for each output."""
    height, width = out.shape[1], out.shape[2]
    for o in range(out.shape[0]):
        level = bias[o]
        for i in range(0, height, 2):
            row = (i // 2) * pitch[0]
            if i + 1 < height:
                for t in independent(width // 2):
                    made = _both_ways(_joined, _coordinates(products, o, row + t), 4)
                    out[o, i, 2 * t] = made[0] + level
                    out[o, i, 2 * t + 1] = made[1] + level
                    out[o, i + 1, 2 * t] = made[2] + level
                    out[o, i + 1, 2 * t + 1] = made[3] + level
            else:
                for t in independent(width // 2):
                    made = _both_ways(_joined, _coordinates(products, o, row + t), 4)
                    out[o, i, 2 * t] = made[0] + level
                    out[o, i, 2 * t + 1] = made[1] + level
            if (width & 1) == 1:
                last = _both_ways(_joined, _coordinates(products, o, row + width // 2), 4)
                out[o, i, width - 1] = last[0] + level
                if i + 1 < height:
                    out[o, i + 1, width - 1] = last[2] + level
