"""Kernels that fold many elements into one: products, extrema, and sums that change precision or are shared by
threads (`sums.py` has the others); along rows and down columns.

Accuracy: blocks of `BLOCK` elements are folded in many accumulators of the element's own precision, blocks are
joined in `wide` precision, and groups of blocks once more, so that errors grow hardly with the length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..loops.lang import Array, as_written, few, independent, inline, kernel, strands
from ..render.symbols import Complex
from ..render.tiles import lanes
from ..render.value import COMPUTE, PART, SIZE, is_float

BLOCK = 512  # elements folded in short accumulators, where errors grow with their number
GROUP = 1024 * BLOCK  # elements folded before the long accumulator is joined with the total
GROUPED = 64  # elements that the compiler folds together in several vectors
SEARCHED = 128  # elements of which the best is found before they are compared with those before them
COLUMNS = 1024  # columns that a column kernel carries along a row
ABREAST = 16  # rows whose partial results are joined together
ROWS = 64  # rows folded in short accumulators


class Fold(NamedTuple):
    """One associative operation: how an element enters, how two partial results join."""

    start: Callable[[str], Any]  # its neutral element, for an accumulator type
    inner: Callable[[str], str]  # memory type -> type of the short accumulators
    wide: Callable[[str], str]  # memory type -> type of the long ones
    lift: Callable[..., Any]  # (m, x) -> what is joined
    join: Callable[..., Any]
    again: str  # the fold that joins results of this one
    block: int = BLOCK  # elements folded in short accumulators


def _wide_sum(t: str) -> str:
    return {"f16": "f64", "bf16": "f64", "f32": "f64", "f64": "f64", "c64": "c128", "c128": "c128"}.get(t, "i64")


def _inner_sum(t: str) -> str:
    t = COMPUTE.get(t, t)
    return t if is_float(t) or t in PART else "i64"


def _same(t: str) -> str:
    return COMPUTE.get(t, t)


def _add(m: Any, a: Any, b: Any) -> Any:
    if isinstance(a, Complex):
        return Complex(m.loose_add(a.re, b.re), m.loose_add(a.im, b.im))
    return m.loose_add(a, b)


def _mul(m: Any, a: Any, b: Any) -> Any:
    return a * b if isinstance(a, Complex) else m.loose_mul(a, b)


def _plain(m: Any, x: Any) -> Any:
    return x


def _square(m: Any, x: Any) -> Any:
    if isinstance(x, Complex):
        re, im = m.cast(x.re, "f64"), m.cast(x.im, "f64")
        return re * re + im * im
    x = m.cast(x, "f64")
    return x * x


def _magnitude(m: Any, x: Any) -> Any:
    if isinstance(x, Complex):
        return m.real_sqrt(_square(m, x))
    return m.real_abs(x)


def lowest(t: str) -> Any:
    if is_float(t):
        return float("-inf")
    return False if t == "b1" else 0 if t[0] == "u" else -(1 << (int(t[1:]) - 1))


def highest(t: str) -> Any:
    if is_float(t):
        return float("inf")
    return True if t == "b1" else (1 << int(t[1:])) - 1 if t[0] == "u" else (1 << (int(t[1:]) - 1)) - 1


def _zero(t: str) -> Any:
    return 0


def _one(t: str) -> Any:
    return 1


FOLDS = {
    "sum": Fold(_zero, _inner_sum, _wide_sum, _plain, _add, "sum"),
    "nansum": Fold(_zero, _inner_sum, _wide_sum, lambda m, x: m.where(m.isnan(x), 0.0, x), _add, "sum"),
    "absolute": Fold(
        _zero, lambda t: PART.get(t) or _inner_sum(t), lambda t: "f64", lambda m, x: _magnitude(m, x), _add, "sum"
    ),
    "squares": Fold(_zero, lambda t: "f64", lambda t: "f64", _square, _add, "sum"),
    "prod": Fold(_one, _inner_sum, _wide_sum, _plain, _mul, "prod", 8 * BLOCK),
    "max": Fold(lowest, _same, _same, _plain, lambda m, a, b: m.maximum(a, b), "max"),
    "peak": Fold(lowest, _same, _same, _plain, lambda m, a, b: m.loose_maximum(a, b), "peak"),  # either of two zeros
    "min": Fold(highest, _same, _same, _plain, lambda m, a, b: m.minimum(a, b), "min"),
    "first": Fold(highest, lambda t: "i64", lambda t: "i64", _plain, lambda m, a, b: m.minimum(a, b), "first"),  # of places
    "any": Fold(_zero, lambda t: "u8", lambda t: "u8", lambda m, x: m.cast(m.cast(x, "b1"), "u8"), lambda m, a, b: a | b, "any"),
    "all": Fold(_one, lambda t: "u8", lambda t: "u8", lambda m, x: m.cast(m.cast(x, "b1"), "u8"), lambda m, a, b: a & b, "all"),
    "count": Fold(
        _zero, lambda t: "i32", lambda t: "i64", lambda m, x: m.cast(m.cast(x, "b1"), "i32"), _add, "sum"
    ),
}  # fmt: skip


def finish(m: Any, total: Any, count: Any, how: str | None) -> Any:
    """The last step from a total to the result."""
    if how == "mean":
        if isinstance(total, Complex):
            count = m.cast(count, total.re.type)
            return Complex(total.re / count, total.im / count)
        return total / m.cast(count, total.type)
    if how == "root":
        return m.real_sqrt(total)
    return total


def _near(m: Any, x: Any, block: int) -> Any:
    """In a kernel: room for a block of a row whose elements lie apart, from which vectors can read them; None if they do not."""
    return None if x.dense or x.type in PART else m.local(_same(x.type), block)


@inline
def _fetch(x: Any, start: Any, stop: Any, near: Any) -> None:
    if near is not None:
        for i in as_written(start, stop):
            near[i - start] = x[i]


def _seen(x: Any, start: Any, near: Any) -> Any:
    """Where elements of a block are read, by their place in the row."""
    return (lambda i: x[i]) if near is None else lambda i: near[i - start]


@kernel("(n)->()")
def fold_rows(m: Any, x: Any, out: Any, fold: Any, how: Any) -> None:
    """Every row to one value."""
    f = FOLDS[fold]
    inner, wide = f.inner(x.type), f.wide(x.type)
    near = _near(m, x, f.block)
    abreast = min(8, GROUPED // lanes(inner)) if is_float(inner) else 0  # a product waits for the one before it
    total = m.value(f.start(wide), wide)
    for first in range(0, x.n, GROUP):
        last = m.minimum(first + GROUP, x.n)
        group = m.value(f.start(wide), wide)
        for start in range(first, last, f.block):
            stop = m.minimum(start + f.block, last)
            _fetch(x, start, stop, near)
            at = _seen(x, start, near)
            part = m.value(f.start(inner), inner)
            whole = stop - ((stop - start) & (GROUPED - 1))
            for i in independent(start, whole, abreast=abreast, when=False):
                part = f.join(m, part, m.cast(f.lift(m, at(i)), inner))
            for i in few(whole, stop):
                part = f.join(m, part, m.cast(f.lift(m, at(i)), inner))
            group = f.join(m, group, m.cast(part, wide))
        total = f.join(m, total, group)
    out[()] = finish(m, total, x.n, how)


def without_gaps(x: Any, width: int) -> Any:
    """The same rows, of which it is known that they follow one another: neighbours are loaded together."""
    size = SIZE[x.type]
    return Array(x.r, x.pointer, x.type, x.shape, [x.r.constant("i64", s) for s in (width * size, size)])


@kernel("(k,n)->(k)")
def fold_short_rows(m: Any, x: Any, out: Any, fold: Any, how: Any, width: int) -> None:
    """As `fold_rows` for dense rows of `width` elements, a few: vectors hold one element each of many rows."""
    f, dense = FOLDS[fold], without_gaps(x, width)
    inner, wide = f.inner(x.type), f.wide(x.type)
    for i in independent(out.n):
        part = m.value(f.start(inner), inner)
        for j in strands(width):
            part = f.join(m, part, m.cast(f.lift(m, dense[i, j]), inner))
        out[i] = finish(m, m.cast(part, wide), m.value(width, "i64"), how)


def _halved(m: Any, kind: str, count: int) -> Any:
    """Room for `count` results of each of some rows, for half as many, and so on, down to one."""
    return [m.local(kind, ABREAST * (count >> level)) for level in range(count.bit_length())]


@kernel("(k,n)->(k)")
def fold_rows_abreast(m: Any, x: Any, out: Any, fold: Any, how: Any, lanes: int) -> None:
    """As `fold_rows` for dense rows of some tens of elements, not fewer than `lanes`: each becomes so many partial results, and neighbours
    among these are joined in `ABREAST` rows together, of which there are not fewer, until there is one for each row."""
    f = FOLDS[fold]
    inner, wide = f.inner(x.type), f.wide(x.type)
    last = x.n - lanes
    whole = x.n & -lanes
    levels = _halved(m, inner, lanes)
    for first in range(0, out.n, ABREAST):
        top = m.minimum(first, out.n - ABREAST)  # the last rows may be folded again
        for r in as_written(0, ABREAST):
            part = m.local(inner, lanes)
            for j in independent(0, lanes):
                part[j] = m.cast(f.lift(m, x[top + r, j]), inner)
            for start in as_written(lanes, whole, lanes):
                for j in independent(0, lanes):
                    part[j] = f.join(m, part[j], m.cast(f.lift(m, x[top + r, start + j]), inner))
            for j in independent(0, lanes):  # the last elements, of those the ones that are not in yet
                joined = f.join(m, part[j], m.cast(f.lift(m, x[top + r, last + j]), inner))
                levels[0][r * lanes + j] = m.where(j < whole - last, part[j], joined)
        for level in strands(lanes.bit_length() - 1):
            for i in independent(0, ABREAST * lanes >> (level + 1)):
                levels[level + 1][i] = f.join(m, levels[level][2 * i], levels[level][2 * i + 1])
        for i in independent(0, ABREAST):
            out[top + i] = finish(m, m.cast(levels[-1][i], wide), x.n, how)


@kernel("(n)->()")
def squares_rows(m: Any, x: Any, out: Any, how: Any) -> None:
    """Every row to the sum of its squares, in short accumulators where these hold them."""
    total = m.value(0, "f64")
    for start in range(0, x.n, BLOCK):
        stop = m.minimum(start + BLOCK, x.n)
        quick = m.value(0, x.type)
        whole = stop - ((stop - start) & (GROUPED - 1))
        for i in range(start, whole):
            quick = m.loose_add(quick, x[i] * x[i])
        for i in few(whole, stop):
            quick = m.loose_add(quick, x[i] * x[i])
        part = m.cast(quick, "f64")
        if not ((quick > 1e-25) & (quick < 1e38)):  # too small, too large or no numbers
            part = m.value(0, "f64")
            for i in range(start, stop):
                part = m.loose_add(part, _square(m, x[i]))
        total = total + part
    out[()] = finish(m, total, x.n, how)


@kernel("(r,c)->(c)")
def fold_columns(m: Any, x: Any, out: Any, fold: Any, how: Any) -> None:
    """Every column to one value, walking along the rows."""
    f = FOLDS[fold]
    inner, wide = f.inner(x.type), f.wide(x.type)
    rows, columns = x.shape[0], x.shape[1]
    short = m.local(inner, COLUMNS)
    long = m.local(wide, COLUMNS)
    for left in range(0, columns, COLUMNS):
        width = m.minimum(columns - left, COLUMNS)
        for j in independent(0, width):
            long[j] = m.value(f.start(wide), wide)
        for start in range(0, rows, ROWS):
            stop = m.minimum(start + ROWS, rows)
            for j in independent(0, width):
                short[j] = m.value(f.start(inner), inner)
            whole = start + ((stop - start) & -4)
            for i in range(start, whole, 4):
                for j in independent(0, width):
                    a, b = m.cast(f.lift(m, x[i, left + j]), inner), m.cast(f.lift(m, x[i + 1, left + j]), inner)
                    c, d = m.cast(f.lift(m, x[i + 2, left + j]), inner), m.cast(f.lift(m, x[i + 3, left + j]), inner)
                    short[j] = f.join(m, short[j], f.join(m, f.join(m, a, b), f.join(m, c, d)))
            for i in range(whole, stop):
                for j in independent(0, width):
                    short[j] = f.join(m, short[j], m.cast(f.lift(m, x[i, left + j]), inner))
            for j in independent(0, width):
                long[j] = f.join(m, long[j], m.cast(short[j], wide))
        for j in independent(0, width):
            out[left + j] = finish(m, long[j], rows, how)


# -- extrema with their place ------------------------------------------------------------------------------------


def rank(m: Any, x: Any, sign: int) -> Any:
    """What is largest where x is wanted."""
    if is_float(x.type):
        return x if sign > 0 else -x
    x = m.cast(x, "i8") if x.type == "b1" else x
    return x if sign > 0 else ~x


def _of_rank(key: Any, sign: int) -> Any:
    """What has a rank."""
    return key if sign > 0 else -key if is_float(key.type) else ~key


def is_above(a: Any, b: Any) -> Any:
    """Whether a rank is above another: NaN is above all numbers, and nothing above NaN."""
    return ~(a <= b) & (b == b) if is_float(a.type) else a > b


def _rank_type(t: str) -> str:
    return "i8" if t == "b1" else COMPUTE.get(t, t)


# As programs along rows (the best rank, then the first place that has it) these would take 1.2 to 2.6 times as long: they visit a row once,
# and one block of it again.


@kernel("(n)->(),()")
def extremum_rows(m: Any, x: Any, value: Any, place: Any, sign: Any) -> None:
    """The largest (sign 1) or smallest (-1) element of every row, and where it is first."""
    kind = _rank_type(x.type)
    best = m.value(lowest(kind), kind)
    where = m.value(0, "i64")
    near = _near(m, x, SEARCHED)
    for start in range(0, x.n, SEARCHED):
        stop = m.minimum(start + SEARCHED, x.n)
        _fetch(x, start, stop, near)
        at = _seen(x, start, near)
        key = m.value(lowest(kind), kind)
        for i in range(start, stop):
            key = m.maximum(key, rank(m, at(i), sign))
        if (key > best) | ((key != key) & (best == best)):  # `is_above`, as a branch is made of it sooner
            best = key
            where = start
    stop = m.minimum(where + SEARCHED, x.n)
    found = m.value(SEARCHED, "i32")
    for i in range(where, stop):
        key = rank(m, x[i], sign)
        is_best = (key == best) | ((key != key) & (best != best))
        found = m.minimum(found, m.where(is_best, m.cast(i - where, "i32"), SEARCHED))
    best_place = where + m.cast(found, "i64")
    value[()] = x[best_place]
    place[()] = best_place


def _above(m: Any, a: Any, b: Any, later: Any) -> tuple[Any, Any]:
    """Of two ranks with their places the one that is above, and of equal ones a, unless it is known to be `later`."""
    taken = is_above(b[0], a[0])
    if later is not None:
        taken = taken | (later & ~is_above(a[0], b[0]))
    return m.where(taken, b[0], a[0]), m.where(taken, b[1], a[1])


@kernel("(k,n)->(k),(k)")
def extremum_short_rows(m: Any, x: Any, value: Any, place: Any, sign: Any, width: int) -> None:
    """As `extremum_rows` for dense rows of `width` elements, a few: vectors hold one element each of many rows."""
    dense = without_gaps(x, width)
    kind = "i64" if SIZE[x.type] == 8 else "i32"
    for i in independent(value.n):
        best = rank(m, dense[i, 0], sign), m.value(0, kind)
        for j in strands(width - 1):
            best = _above(m, best, (rank(m, dense[i, j + 1], sign), m.value(j + 1, kind)), None)
        value[i] = _of_rank(best[0], sign)
        place[i] = best[1]


@kernel("(k,n)->(k),(k)")
def extremum_rows_abreast(m: Any, x: Any, value: Any, place: Any, sign: Any, lanes: int) -> None:
    """As `extremum_rows` for rows that `fold_rows_abreast` is for, in its way."""
    kind = _rank_type(x.type)
    keys, places = _halved(m, kind, lanes), _halved(m, "i32", lanes)
    for first in range(0, value.n, ABREAST):
        top = m.minimum(first, value.n - ABREAST)
        for r in as_written(0, ABREAST):
            key, at = m.local(kind, lanes), m.local("i32", lanes)
            for j in independent(0, lanes):
                key[j] = rank(m, x[top + r, j], sign)
                at[j] = m.cast(j, "i32")
            for start in as_written(lanes, x.n, lanes):
                left = m.minimum(start, x.n - lanes)  # what is seen again is not above itself
                for j in independent(0, lanes):
                    best = _above(
                        m, (key[j], at[j]), (rank(m, x[top + r, left + j], sign), m.cast(left + j, "i32")), None
                    )
                    key[j] = best[0]
                    at[j] = best[1]
            for j in independent(0, lanes):
                keys[0][r * lanes + j] = key[j]
                places[0][r * lanes + j] = at[j]
        for level in strands(lanes.bit_length() - 1):
            for i in independent(0, ABREAST * lanes >> (level + 1)):
                a = keys[level][2 * i], places[level][2 * i]
                b = keys[level][2 * i + 1], places[level][2 * i + 1]
                best = _above(m, a, b, b[1] < a[1])
                keys[level + 1][i] = best[0]
                places[level + 1][i] = best[1]
        for i in independent(0, ABREAST):
            value[top + i] = _of_rank(keys[-1][i], sign)
            place[top + i] = places[-1][i]


@kernel("(r,c)->(c),(c)")
def extremum_columns(m: Any, x: Any, value: Any, place: Any, sign: Any) -> None:
    """The same down the columns, of which there are not more rows than 32 bits count."""
    kind = _rank_type(x.type)
    rows, columns = x.shape[0], x.shape[1]
    best = m.local(kind, COLUMNS)
    where = m.local("i32", COLUMNS)
    for left in range(0, columns, COLUMNS):
        width = m.minimum(columns - left, COLUMNS)
        for j in independent(0, width):
            best[j] = rank(m, x[0, left + j], sign)
            where[j] = m.value(0, "i32")
        for i in range(1, rows):
            for j in independent(0, width):
                key = rank(m, x[i, left + j], sign)
                old = best[j]
                where[j] = m.where(is_above(key, old), m.cast(i, "i32"), where[j])
                best[j] = m.maximum(key, old)
        for j in independent(0, width):
            place[left + j] = where[j]
        for j in range(0, width):
            value[left + j] = x[m.cast(where[j], "i64"), left + j]
