"""Kernels of running folds: sums, products, extrema and logarithmic sums of all elements so far."""

from __future__ import annotations

from typing import Any

from ..loops.lang import as_written, independent, kernel, strands
from ..render.symbols import Complex
from ..render.value import COMPUTE, SIZE, is_float
from .reduce import rank, without_gaps

COLUMNS = 512
TOGETHER = 64  # rows of a few elements that are folded at once
BLOCK = 64  # elements of a row that are looked at before they are taken one by one
NEAR = 16.0  # between logarithms, so that sums relative to the larger one are precise
WIDE = {"f16": "f64", "bf16": "f64", "f32": "f64", "f64": "f64", "c64": "c128", "c128": "c128"}


def log_add_exp(m: Any, a: Any, b: Any) -> Any:
    """log(exp(a) + exp(b)); complex numbers are ordered by their real part."""
    if isinstance(a, Complex):
        first = (a.re > b.re) | m.isnan(a)
        high, low = m.where(first, a, b), m.where(first, b, a)
        size = m.where(low.re == high.re, 1.0, m.exp(low.re - high.re))
        turn = low.im - high.im
        re, im = size * m.cos(turn), size * m.sin(turn)
        made = Complex(high.re + 0.5 * m.log1p(re * (2.0 + re) + im * im), high.im + m.atan2(im, 1.0 + re))
        return m.where((low.re == float("-inf")) | (high.re == float("inf")), high, made)
    high, low = m.maximum(a, b), m.minimum(a, b)
    made = high + m.log1p(m.exp(low - high))
    return m.where((low == high) & (m.real_abs(high) == float("inf")), high, made)


def join(m: Any, fold: str, a: Any, b: Any) -> Any:
    return a + b if fold == "sum" else a * b if fold == "prod" else log_add_exp(m, a, b)


START = {"sum": 0, "prod": 1, "logsumexp": float("-inf")}


@kernel("(n)->(n)", vectors=False)
def scan_rows(m: Any, x: Any, out: Any, fold: Any) -> None:
    """Running folds along rows."""
    wide = WIDE.get(x.type, "i64")
    total = m.value(START[fold], wide)
    for i in range(0, x.n):
        total = join(m, fold, total, m.cast(x[i], wide))
        out[i] = total


@kernel("(k,n)->(k,n)")
def scan_short_rows(m: Any, x: Any, out: Any, fold: Any, width: int) -> None:
    """The same for dense rows of `width` elements, a few: vectors hold one element each of many rows, not fewer than `TOGETHER`."""
    given, made = without_gaps(x, width), without_gaps(out, width)
    wide = WIDE.get(x.type, "i64")
    for start in as_written(0, x.shape[0], TOGETHER):
        first = m.minimum(start, x.shape[0] - TOGETHER)  # the last rows may be folded again
        for r in independent(0, TOGETHER):
            total = m.value(START[fold], wide)
            for j in strands(width):
                total = join(m, fold, total, m.cast(given[first + r, j], wide))
                made[first + r, j] = total


@kernel("(n)->(n)")
def log_sum_rows(m: Any, x: Any, out: Any, fold: Any) -> None:
    """The same for logarithms of sums of real exponentials: those of a block are summed relative to what is largest so far, unless
    sums may be too small beside it."""
    total = m.value(START[fold], "f64")
    part = m.local("f64", BLOCK)
    for start in range(0, x.n, BLOCK):
        count = m.minimum(x.n - start, BLOCK)
        for i in independent(0, count):
            part[i] = m.cast(x[start + i], "f64")
        first, high, missing = m.maximum(total, part[0]), total, m.value(0, "u8")
        for i in range(0, count):
            high = m.loose_maximum(high, part[i])
            missing = missing | m.cast(part[i] != part[i], "u8")
        if (missing == 0) & (high - first < NEAR) & (first > float("-inf")):
            for i in independent(0, count):
                part[i] = m.exp(part[i] - high)
            so_far = m.exp(total - high)
            for i in as_written(0, count):
                so_far = so_far + part[i]
                part[i] = so_far
            for i in independent(0, count):
                part[i] = high + m.log(part[i])
            total = part[count - 1]
        else:
            for i in as_written(0, count):
                total = join(m, fold, total, part[i])
                part[i] = total
        for i in independent(0, count):
            out[start + i] = part[i]


@kernel("(r,c)->(r,c)")
def scan_columns(m: Any, x: Any, out: Any, fold: Any) -> None:
    """Running folds down columns, for real types."""
    wide = WIDE.get(x.type, "i64")
    rows, columns = x.shape[0], x.shape[1]
    total = m.local(wide, COLUMNS)
    for left in range(0, columns, COLUMNS):
        width = m.minimum(columns - left, COLUMNS)
        for j in independent(0, width):
            total[j] = m.value(START[fold], wide)
        for i in range(0, rows):
            for j in independent(0, width):
                joined = join(m, fold, total[j], m.cast(x[i, left + j], wide))
                total[j] = joined
                out[i, left + j] = joined


@kernel("(n)->(n),(n)")
def running_extremum(m: Any, x: Any, value: Any, place: Any, sign: Any) -> None:
    """The extremum so far and the last place where it was met; NaN stays. Most blocks have nothing new."""
    best = _ordered(m, rank(m, x[0], sign))
    at = m.value(0, "i64")
    for start in range(0, x.n, BLOCK):
        stop = m.minimum(start + BLOCK, x.n)
        new = m.value(0, "u8")
        for i in range(start, stop):
            new = new | m.cast(_ordered(m, rank(m, x[i], sign)) >= best, "u8")
        if new != 0:
            for i in as_written(start, stop):
                key = _ordered(m, rank(m, x[i], sign))
                at = m.where(key >= best, i, at)
                best = m.maximum(key, best)
                place[i] = at
            for i in range(start, stop):
                value[i] = x[place[i]]
        else:
            own = x[at]
            for i in independent(start, stop):
                value[i] = own
                place[i] = at


def _ordered(m: Any, key: Any) -> Any:
    """A rank as an integer, which is compared sooner: zeros are equal, NaN is above all."""
    if not is_float(key.type):
        return key
    bits = m.bits(key + 0.0)
    width = 8 * SIZE[key.type]
    most = (1 << (width - 1)) - 1
    return m.where(key == key, bits ^ ((bits >> (width - 1)) & most), most)


@kernel("(r,c)->(r,c),(r,c)")
def running_extremum_columns(m: Any, x: Any, value: Any, place: Any, sign: Any) -> None:
    """The same down columns."""
    own, at = m.local(COMPUTE.get(x.type, x.type), COLUMNS), m.local("i64", COLUMNS)
    for left in range(0, x.shape[1], COLUMNS):
        width = m.minimum(x.shape[1] - left, COLUMNS)
        for j in independent(0, width):
            own[j] = x[0, left + j]
        for i in range(0, x.shape[0]):
            for j in independent(0, width):
                key, best = rank(m, x[i, left + j], sign), rank(m, own[j], sign)
                found = (key >= best) | (key != key)
                own[j] = m.where(found, x[i, left + j], own[j])
                at[j] = m.where(found, i, at[j])
                value[i, left + j] = own[j]
                place[i, left + j] = at[j]


@kernel("(n),(n)->(n)")
def recurrence(m: Any, g: Any, a: Any, out: Any) -> None:
    """s[i] = g[i] + a[i] * s[i - 1]."""
    kind = COMPUTE.get(g.type, g.type)
    state = m.value(0, kind)
    for i in range(0, g.n):
        state = g[i] + a[i] * state
        out[i] = state
