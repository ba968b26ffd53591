"""Sums of float32 and float64 in PyTorch's order of additions, so that both give the same bits.

Sixteen rows of places are added one after another, sixteen of such sums again, and so on: errors grow with the
logarithm of the length. A contiguous row is cut into vectors of `LANES`, four of which make one row of places.
"""

from __future__ import annotations

import platform
from typing import Any

from ..loops.lang import as_written, independent, inline, kernel, strands
from ..render.value import SIZE
from .reduce import COLUMNS, finish

_ARM = platform.machine().lower() in ("aarch64", "arm64")
LANES = {"f32": 4, "f64": 2} if _ARM else {"f32": 8, "f64": 4}  # of the vectors that PyTorch's builds sum with
STEPS = 16  # rows that are added before their sum goes a level up


def _flat(x: Any, width: Any) -> Any:
    return lambda i, j: x[i * width + j]


def _grid(x: Any, step: Any, top: Any, left: Any) -> Any:
    return lambda i, j: x[i * step + top, j + left]


def _sixteen(m: Any, at: Any, start: Any, j: Any, kind: str) -> Any:
    part = m.value(0, kind) + at(start, j)
    for i in range(1, STEPS):
        part = part + at(start + i, j)
    return part


def _several(total: Any, at: Any, start: Any, j: Any, count: int) -> Any:
    for i in range(count):
        total = total + at(start + i, j)
    return total


@inline
def _down(m: Any, kind: Any, at: Any, rows: Any, width: Any, levels: Any) -> None:
    """Sums at(i, j) over all rows i for every place j below `width`, into levels[0]."""
    first, second, third, fourth = levels
    whole = rows & -STEPS
    for j in independent(0, width):
        first[j] = m.value(0, kind)
    if whole > 0:
        for j in independent(0, width):
            second[j] = m.value(0, kind)
        if whole >= STEPS**2:
            for j in independent(0, width):
                third[j] = m.value(0, kind)
                fourth[j] = m.value(0, kind)
        for start in range(0, whole, STEPS):
            if isinstance(width, int):
                part = m.local(kind, width)
                for j in independent(0, width):
                    part[j] = m.value(0, kind)
                for i in range(start, start + STEPS, 4):
                    for j in independent(0, width):
                        part[j] = _several(part[j], at, i, j, 4)
                for j in independent(0, width):
                    second[j] = second[j] + part[j]
            else:
                for j in independent(0, width):
                    second[j] = second[j] + _sixteen(m, at, start, j, kind)
            end = start + STEPS
            if (end & (STEPS**2 - 1)) == 0:
                for j in independent(0, width):
                    third[j] = third[j] + second[j]
                    second[j] = m.value(0, kind)
                if (end & (STEPS**3 - 1)) == 0:
                    for j in independent(0, width):
                        fourth[j] = fourth[j] + third[j]
                        third[j] = m.value(0, kind)
    fours = whole  # what is left, after what lies before it: caches fetch ahead
    if not isinstance(width, int):  # some rows at a time, so that sums stay in registers meanwhile
        fours = rows & -4
        for start in range(whole, fours, 4):
            for j in independent(0, width):
                first[j] = _several(first[j], at, start, j, 4)
    for start in range(fours, rows):
        for j in independent(0, width):
            first[j] = first[j] + at(start, j)
    if whole > 0:
        for j in independent(0, width):
            first[j] = first[j] + second[j]
        if whole >= STEPS**2:
            for j in independent(0, width):
                first[j] = first[j] + third[j] + fourth[j]


def _levels(m: Any, kind: str, width: int) -> Any:
    return [m.local(kind, width) for _ in range(4)]


@inline
def _scalar_row(m: Any, x: Any, levels: Any) -> Any:
    """Four accumulators, which stay in registers because their places are known; what is left over goes into the first."""
    rows = x.n >> 2
    whole = rows & -STEPS
    first, second, third, fourth = levels
    for k in strands(4):
        for j in strands(4):
            levels[k][j] = 0
    for start in range(0, whole, STEPS):
        part = m.local(x.type, 4)
        for j in strands(4):
            part[j] = 0
        for i in as_written(start, start + STEPS):
            for j in strands(4):
                part[j] = part[j] + x[i * 4 + j]
        for j in strands(4):
            second[j] = second[j] + part[j]
        end = start + STEPS
        if (end & (STEPS**2 - 1)) == 0:
            for j in strands(4):
                third[j] = third[j] + second[j]
                second[j] = 0
            if (end & (STEPS**3 - 1)) == 0:
                for j in strands(4):
                    fourth[j] = fourth[j] + third[j]
                    third[j] = 0
    for i in as_written(whole, rows):
        for j in strands(4):
            first[j] = first[j] + x[i * 4 + j]
    for j in strands(4):
        first[j] = first[j] + second[j] + third[j] + fourth[j]
    total = first[0]
    for i in as_written(rows * 4, x.n):
        total = total + x[i]
    total = total + first[1]
    total = total + first[2]
    total = total + first[3]
    return total


@inline
def _short_row(m: Any, x: Any, kind: Any) -> Any:
    """The same, for fewer elements than a vector has."""
    first = m.minimum(x.n & -4, 1)
    total = m.value(0, kind)
    if first > 0:
        total = total + x[0]
    for i in range(first * 4, x.n):
        total = total + x[i]
    for i in range(first, first * 4):
        total = total + x[i]
    return total


@inline
def _vector_row(m: Any, x: Any, kind: Any, lanes: Any, levels: Any) -> Any:
    width = 4 * lanes
    rows = x.n // width
    _down(m, kind, _flat(x, width), rows, width, levels)
    sums = levels[0]
    for v in range(rows * 4, x.n // lanes):
        for j in independent(0, lanes):
            sums[j] = sums[j] + x[v * lanes + j]
    total = m.value(0, kind)
    for i in range(x.n & -lanes, x.n):
        total = total + x[i]
    for j in range(0, lanes):
        total = total + (sums[j] + sums[lanes + j] + sums[2 * lanes + j] + sums[3 * lanes + j])
    return total


@kernel("(n)->()")
def sum_rows(m: Any, x: Any, out: Any, how: Any) -> None:
    """Every row to its sum (or mean)."""
    kind = x.type
    lanes = LANES[kind]
    if not x.dense:
        apart = _scalar_row(m, x, _levels(m, kind, 4))
        out[()] = finish(m, apart, x.n, how)
    elif x.n >= lanes:
        total = _vector_row(m, x, kind, lanes, _levels(m, kind, 4 * lanes))
        out[()] = finish(m, total, x.n, how)
    else:
        short = _short_row(m, x, kind)
        out[()] = finish(m, short, x.n, how)


@kernel("(r,c)->(c)")
def sum_columns(m: Any, x: Any, out: Any, how: Any) -> None:
    """Every column to its sum (or mean): rows in turn, but by fours in the columns that fill no four vectors."""
    kind = x.type
    lanes = LANES[kind]
    rows, columns = x.shape[0], x.shape[1]
    levels = _levels(m, kind, COLUMNS)
    kept = m.local(kind, 16 * lanes)
    plain = columns & -(4 * lanes)
    rest, fours = columns - plain, rows >> 2
    blocks = (plain + (COLUMNS - 1)) // COLUMNS
    turns = blocks + (4 if (rest > 0) & (fours >= STEPS) else 0)
    for turn in range(0, turns):  # blocks of columns, then every fourth row of the others: one loop, written once
        whole = turn < blocks
        top = 0 if whole else turn - blocks
        left = turn * COLUMNS if whole else plain
        width = m.minimum(plain - left, COLUMNS) if whole else rest
        _down(m, kind, _grid(x, 1 if whole else 4, top, left), rows if whole else fours, width, levels)
        if whole:
            for j in independent(0, width):
                out[left + j] = finish(m, levels[0][j], rows, how)
        else:
            for j in independent(0, rest):
                kept[top * (4 * lanes) + j] = levels[0][j]
    if rest > 0:
        if fours < STEPS:  # too few rows to need levels
            for j in independent(0, 16 * lanes):
                kept[j] = m.value(0, kind)
            for i in range(0, fours * 4):
                row = (i & 3) * (4 * lanes)
                for j in independent(0, rest):
                    kept[row + j] = kept[row + j] + x[i, plain + j]
        for i in range(fours * 4, rows):
            for j in independent(0, rest):
                kept[j] = kept[j] + x[i, plain + j]
        for j in independent(0, rest):
            total = kept[j] + kept[4 * lanes + j] + kept[8 * lanes + j] + kept[12 * lanes + j]
            out[plain + j] = finish(m, total, rows, how)


@inline
def _products(m: Any, x: Any, y: Any, sums: Any, whole: Any, width: Any) -> None:
    """Sums of the first `whole` products in so many places."""
    for j in independent(0, width):
        sums[j] = m.value(0, x.type)
    for start in range(0, whole, width):
        for j in independent(0, width):
            sums[j] = m.fma(x[start + j], y[start + j], sums[j])


@kernel("(n),(n)->()")
def _dot_by_vectors(m: Any, x: Any, y: Any, out: Any) -> None:
    """Sums of products in the order of the usual libraries on 512-bit vectors: four accumulators, then two, then one."""
    kind = x.type
    lanes = 64 // SIZE[kind]
    sums = m.local(kind, 4 * lanes)
    whole = x.n & (-4 * lanes)
    _products(m, x, y, sums, whole, 4 * lanes)
    two = whole + ((x.n - whole) & (-2 * lanes))
    for j in independent(0, two - whole):
        sums[j] = m.fma(x[whole + j], y[whole + j], sums[j])
    one = two + ((x.n - two) & -lanes)
    for j in independent(0, one - two):
        sums[j] = m.fma(x[two + j], y[two + j], sums[j])
    for j in independent(0, x.n - one):
        sums[j] = m.fma(x[one + j], y[one + j], sums[j])
    for j in independent(0, lanes):
        sums[j] = (sums[j] + sums[lanes + j]) + (sums[2 * lanes + j] + sums[3 * lanes + j])
    for half in _halves(lanes):
        for j in independent(0, half):
            sums[j] = sums[j] + sums[half + j]
    out[()] = (sums[0] + sums[1]) + (sums[2] + sums[3]) if kind == "f32" else sums[0] + sums[1]


@kernel("(n),(n)->()")
def _dot_by_blocks(m: Any, x: Any, y: Any, out: Any) -> None:
    """Sums of products in the order of the usual libraries on ARM: whole blocks of 256 bytes in eight accumulators, then the rest
    one after another.
    """
    kind = x.type
    lanes = 16 // SIZE[kind]
    sums = m.local(kind, 8 * lanes)
    whole = x.n & (-16 * lanes)
    _products(m, x, y, sums, whole, 8 * lanes)
    for away in _doubled(lanes):  # neighbours, then neighbours of these
        for first in range(0, 8 * lanes, 2 * away):
            for j in independent(0, lanes):
                sums[first + j] = sums[first + j] + sums[first + away + j]
    total = (sums[0] + sums[1]) + (sums[2] + sums[3]) if kind == "f32" else sums[0] + sums[1]
    for i in range(whole, x.n):
        total = m.fma(x[i], y[i], total)
    out[()] = total


dot_rows = _dot_by_blocks if _ARM else _dot_by_vectors


def _doubled(lanes: int) -> tuple[int, ...]:
    return (lanes, 2 * lanes, 4 * lanes)


def _halves(lanes: int) -> tuple[int, ...]:
    return (8, 4) if lanes == 16 else (4, 2)
