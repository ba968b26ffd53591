"""Winograd's transforms for windows of 3x3: four results of a tile from sixteen products instead of thirty-six.

A tile of 4x4 elements and a window are each brought into sixteen coordinates, multiplied there (summed over channels
by a matrix product for each coordinate), and brought back to 2x2 results. Gradients of windows come from the same
coordinates: those of tiles and of 2x2 gradients, summed over tiles. All transforms but those of windows and gradients
only add; results differ from those of direct sums by a few units in the last place.
"""

from __future__ import annotations

from typing import Any

from .lang import independent, inline, kernel

COORDINATES = 16


def _spread(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, ...]:
    return a - c, b + c, c - b, b - d


def _joined(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, ...]:
    return a + b + c, b - c - d


def _expanded(a: Any, b: Any, c: Any) -> tuple[Any, ...]:
    half = (a + c) * 0.5
    return a, half + b * 0.5, half - b * 0.5, c


def _expanded_pair(a: Any, b: Any) -> tuple[Any, ...]:
    return a, (a + b) * 0.5, (a - b) * 0.5, b


def _joined_window(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, ...]:
    both = b + c
    return a + both, b - c, both - d


def _both_ways(transform: Any, values: list[Any], n: int) -> list[Any]:
    """A square of n x n values transformed along rows, then along columns."""
    rows = [transform(*values[n * i : n * i + n]) for i in range(n)]
    columns = [transform(*[row[j] for row in rows]) for j in range(len(rows[0]))]
    return [columns[j][i] for i in range(len(columns[0])) for j in range(len(columns))]


def _elements(x: Any, i: Any, j: Any, channel: Any, n: int) -> list[Any]:
    """A square of n x n neighbours."""
    return [x[i + a, j + b, channel] for a in range(n) for b in range(n)]


def _window(weight: Any, channel: Any, o: Any, turned: bool) -> list[Any]:
    values = [weight[channel, k, o] for k in range(9)]
    return values[::-1] if turned else values


def _store(out: Any, values: list[Any], *place: Any) -> None:
    for f, value in enumerate(values):
        out[(f, *place)] = value


def _coordinates(products: Any, t: Any, channel: Any) -> list[Any]:
    return [products[f, t, channel] for f in range(COORDINATES)]


@inline
def _spread_squares(m, x, tiles, out, lanes, transform, n):
    """The coordinates of squares of n x n neighbours, two apart; `tiles` only says how many they are."""
    height, width = tiles.shape[0], tiles.shape[1]
    for i in range(height):
        for j in range(width):
            for start in range(0, x.n, lanes):
                for k in independent(lanes):
                    c = start + k
                    _store(out, _both_ways(transform, _elements(x, 2 * i, 2 * j, c, n), n), i * width + j, c)


@kernel("(h,w,l),(i,j)->(f,t,l)")
def spread_tiles(m, x, tiles, out, lanes):
    """The coordinates of tiles of 4x4."""
    _spread_squares(m, x, tiles, out, lanes, _spread, 4)


@kernel("(h,w,l),(i,j)->(f,t,l)")
def spread_gradients(m, g, tiles, out, lanes):
    """The coordinates of gradients of 2x2 results."""
    _spread_squares(m, g, tiles, out, lanes, _expanded_pair, 2)


@kernel("(c,k,l)->(f,c,l)")
def spread_windows(m, weight, out, lanes, turned):
    """The coordinates of windows, read backwards if `turned`."""
    for c in range(out.shape[1]):
        for start in range(0, out.n, lanes):
            for k in independent(lanes):
                _store(out, _both_ways(_expanded, _window(weight, c, start + k, turned), 3), c, start + k)


def _put_tile(out: Any, i: Any, j: Any, channel: Any, values: list[Any], level: Any) -> None:
    for k, value in enumerate(values):
        out[i + k // 2, j + k % 2, channel] = value + level


@kernel("(f,t,l),(l),(i,j)->(h,w,l)")
def join_tiles(m, products, bias, tiles, out, lanes):
    """The results of tiles, with a bias for each output."""
    height, width = tiles.shape[0], tiles.shape[1]
    for i in range(height):
        for j in range(width):
            for start in range(0, out.n, lanes):
                for k in independent(lanes):
                    c = start + k
                    made = _both_ways(_joined, _coordinates(products, i * width + j, c), 4)
                    _put_tile(out, 2 * i, 2 * j, c, made, bias[c])


def _held(total: Any, k: Any, lanes: int) -> list[Any]:
    return [total[k + f * lanes] for f in range(COORDINATES)]


@kernel("(p,f,l)->(k,l)")
def join_windows(m, sums, out, lanes):
    """Windows from their coordinates, which are given in several parts to be added."""
    total = m.local(sums.type, COORDINATES * lanes)
    for start in range(0, out.n, lanes):
        for f in range(COORDINATES):
            for k in independent(lanes):
                total[f * lanes + k] = sums[0, f, start + k]
        for p in range(1, sums.shape[0]):
            for f in range(COORDINATES):
                for k in independent(lanes):
                    total[f * lanes + k] = total[f * lanes + k] + sums[p, f, start + k]
        for k in independent(lanes):
            _store(out, _both_ways(_joined_window, _held(total, k, lanes), 4), start + k)
