"""Winograd's transforms for windows of 3x3: the results of a tile from fewer products than they have.

A tile of results (2x2 or 4x4; `size`) needs a square of two elements more each way. That square and a window are each brought into as
many coordinates (16 or 36), multiplied there (summed over channels by a matrix product for each coordinate), and brought back: 2x2
results from 16 products instead of 36, 4x4 results from 36 instead of 144. Gradients of windows come from the same coordinates: those
of squares and of gradients, summed over tiles.

Coordinates are values of polynomials at 0, 1, -1 and infinity, or at 0, +-sqrt(1/2), +-sqrt(2) and infinity. Results of small tiles
differ from direct sums by a few units in the last place, those of large ones by some more: with 256 channels 1.5e-6 of the
results' spread in the mean, where direct sums in single precision have 0.4e-6 (at 0, +-1, +-2 and infinity, which is usual, it is 3e-6).
"""

from __future__ import annotations

import math
from itertools import islice
from typing import Any, NamedTuple

from ..loops.lang import inline, kernel, side_by_side

_ROOT, _HALF_ROOT = math.sqrt(2.0), math.sqrt(0.5)


class _Transforms(NamedTuple):
    """Of rows: the elements of a square to coordinates, coordinates to results, windows and gradients to coordinates, and
    coordinates to the gradients of windows."""

    spread: Any
    joined: Any
    window: Any
    gradients: Any
    joined_window: Any


def _spread_small(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, ...]:
    return a - c, b + c, c - b, b - d


def _joined_small(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, ...]:
    return a + b + c, b - c - d


def _window_small(a: Any, b: Any, c: Any) -> tuple[Any, ...]:
    half = (a + c) * 0.5
    return a, half + b * 0.5, half - b * 0.5, c


def _gradients_small(a: Any, b: Any) -> tuple[Any, ...]:
    return a, (a + b) * 0.5, (a - b) * 0.5, b


def _joined_window_small(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, ...]:
    both = b + c
    return a + both, b - c, both - d


def _spread_large(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> tuple[Any, ...]:
    even, odd = e - c * 2.0, (d - b * 2.0) * _HALF_ROOT
    other_even, other_odd = e - c * 0.5, (d - b * 0.5) * _ROOT
    return a - c * 2.5 + e, even + odd, even - odd, other_even + other_odd, other_even - other_odd, b - d * 2.5 + f


def _joined_large(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> tuple[Any, ...]:
    even, odd, other_even, other_odd = b + c, b - c, d + e, d - e
    second, fourth = (odd + other_odd * 2.0) * _HALF_ROOT, (odd * 0.5 + other_odd * 4.0) * _HALF_ROOT
    return a + even + other_even, second, even * 0.5 + other_even * 2.0, fourth + f


def _window_large(a: Any, b: Any, c: Any) -> tuple[Any, ...]:
    even, odd = (a + c * 0.5) * (-2 / 3), b * (-2 / 3 * _HALF_ROOT)
    other_even, other_odd = (a + c * 2.0) * (1 / 6), b * (_ROOT / 6)
    return a, even + odd, even - odd, other_even + other_odd, other_even - other_odd, c


def _gradients_large(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, ...]:
    even, odd = a + c * 0.5, (b + d * 0.5) * _HALF_ROOT
    other_even, other_odd = a + c * 2.0, (b + d * 2.0) * _ROOT
    return a, even + odd, even - odd, other_even + other_odd, other_even - other_odd, d


def _joined_window_large(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> tuple[Any, ...]:
    even, other_even = (b + c) * (-2 / 3), (d + e) * (1 / 6)
    middle = (b - c) * (-2 / 3 * _HALF_ROOT) + (d - e) * (_ROOT / 6)
    return a + even + other_even, middle, even * 0.5 + other_even * 2.0 + f


_TRANSFORMS = {
    2: _Transforms(_spread_small, _joined_small, _window_small, _gradients_small, _joined_window_small),
    4: _Transforms(_spread_large, _joined_large, _window_large, _gradients_large, _joined_window_large),
}


def coordinates(size: int) -> int:
    """Of a tile of so many results each way."""
    return (size + 2) ** 2


def _both_ways(transform: Any, values: list[Any], n: int) -> list[Any]:
    """A square of n x n values transformed along rows, then along columns."""
    rows = [transform(*values[n * i : n * i + n]) for i in range(n)]
    columns = [transform(*[row[j] for row in rows]) for j in range(len(rows[0]))]
    return [columns[j][i] for i in range(len(columns[0])) for j in range(len(columns))]


def _elements(x: Any, i: Any, j: Any, channel: Any, n: int) -> list[Any]:
    """A square of n x n neighbours."""
    rows = islice(x.following(0, i, j, channel), n)
    return [place[0, 0, 0] for row in rows for place in islice(row.following(1, 0, 0, 0), n)]


def _window(weight: Any, channel: Any, o: Any, turned: bool) -> list[Any]:
    values = [place[0, 0, 0] for place in islice(weight.following(1, channel, 0, o), 9)]
    return values[::-1] if turned else values


def _store(out: Any, values: list[Any], *place: Any) -> None:
    zeros = (0,) * (len(place) + 1)
    for at, value in zip(out.following(0, 0, *place), values):
        at[zeros] = value


def _coordinates(products: Any, t: Any, channel: Any, size: int) -> list[Any]:
    return [place[0, 0, 0] for place in islice(products.following(0, 0, t, channel), coordinates(size))]


@inline
def _spread_squares(m, x, tiles, out, lanes, transform, n, size):
    """The coordinates of squares of n x n neighbours, `size` apart; `tiles` only says how many they are."""
    height, width = tiles.shape[0], tiles.shape[1]
    for i in range(height):
        for j in range(width):
            for start in range(0, x.n, lanes):
                for k in side_by_side(lanes):
                    c = start + k
                    _store(out, _both_ways(transform, _elements(x, size * i, size * j, c, n), n), i * width + j, c)


@kernel("(h,w,l),(i,j)->(f,t,l)", vectors=False)
def spread_tiles(m, x, tiles, out, lanes, size):
    """The coordinates of the squares that tiles need."""
    _spread_squares(m, x, tiles, out, lanes, _TRANSFORMS[size].spread, size + 2, size)


@kernel("(h,w,l),(i,j)->(f,t,l)", vectors=False)
def spread_gradients(m, g, tiles, out, lanes, size):
    """The coordinates of gradients of tiles."""
    _spread_squares(m, g, tiles, out, lanes, _TRANSFORMS[size].gradients, size, size)


@kernel("(c,k,l)->(f,c,l)", vectors=False)
def spread_windows(m, weight, out, lanes, turned, size):
    """The coordinates of windows, read backwards if `turned`."""
    for c in range(out.shape[1]):
        for start in range(0, out.n, lanes):
            for k in side_by_side(lanes):
                _store(
                    out, _both_ways(_TRANSFORMS[size].window, _window(weight, c, start + k, turned), 3), c, start + k
                )


def _put_tile(out: Any, i: Any, j: Any, channel: Any, values: list[Any], level: Any, size: int) -> None:
    rows = islice(out.following(0, i, j, channel), size)
    places = [place for row in rows for place in islice(row.following(1, 0, 0, 0), size)]
    for place, value in zip(places, values):
        place[0, 0, 0] = value + level


@kernel("(f,t,l),(l),(i,j)->(h,w,l)", vectors=False)
def join_tiles(m, products, bias, tiles, out, lanes, size):
    """The results of tiles, with a bias for each output."""
    height, width = tiles.shape[0], tiles.shape[1]
    for i in range(height):
        for j in range(width):
            for start in range(0, out.n, lanes):
                for k in side_by_side(lanes):
                    c = start + k
                    found = _coordinates(products, i * width + j, c, size)
                    made = _both_ways(_TRANSFORMS[size].joined, found, size + 2)
                    _put_tile(out, size * i, size * j, c, made, bias[c], size)


def _held(total: Any, k: Any, lanes: int, size: int) -> list[Any]:
    return [total[k + f * lanes] for f in range(coordinates(size))]


@kernel("(p,f,l)->(k,l)", vectors=False)
def join_windows(m, sums, out, lanes, size):
    """Windows from their coordinates, which are given in several parts to be added."""
    total = m.local(sums.type, coordinates(size) * lanes)
    for start in range(0, out.n, lanes):
        for f in range(coordinates(size)):
            for k in side_by_side(lanes):
                total[f * lanes + k] = sums[0, f, start + k]
        for p in range(1, sums.shape[0]):
            for f in range(coordinates(size)):
                for k in side_by_side(lanes):
                    total[f * lanes + k] = total[f * lanes + k] + sums[p, f, start + k]
        for k in side_by_side(lanes):
            _store(out, _both_ways(_TRANSFORMS[size].joined_window, _held(total, k, lanes, size), size + 2), start + k)
