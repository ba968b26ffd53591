"""Kernels that count: how often integers occur, and floats in bins of equal width."""

from __future__ import annotations

from typing import Any

from ..loops.lang import independent, kernel

_BLOCK = 256  # elements whose bins are found together, in vectors


@kernel("(n)->()")
def any_nonzero(m: Any, x: Any, found: Any) -> None:
    """Whether any element is not 0."""
    some = m.value(False, "b1")
    for i in range(x.n):
        some = some | m.cast(x[i], "b1")
    found[()] = some


@kernel("(n)->(b)")
def extent(m: Any, x: Any, ends: Any) -> None:
    """The least and the greatest of the integers; there is at least one."""
    least, most = x[0], x[0]
    for i in independent(x.n):
        least = m.minimum(least, x[i])
        most = m.maximum(most, x[i])
    ends[0] = least
    ends[1] = most


@kernel("(n),()->(k)")
def tally(m: Any, x: Any, low: Any, out: Any) -> None:
    """How often each integer from `low` on occurs."""
    for j in independent(out.n):
        out[j] = 0
    first, end = low[()], m.cast(out.n, "u64")
    for i in range(x.n):
        j = m.cast(m.cast(x[i], "i64") - first, "u64")
        if j < end:
            out[j] = out[j] + 1


@kernel("(n),(),(),(),()->(k)")
def tally_bins(m: Any, x: Any, low: Any, high: Any, bins: Any, width: Any, out: Any) -> None:
    """How many elements from `low` to `high` lie in each of k bins, the last of which includes its end.

    `bins` is their number and `width` the range, as floats: every step is rounded to the elements' precision.
    """
    places = m.local("i32", _BLOCK)
    for j in independent(out.n):
        out[j] = 0
    last = m.cast(out.n - 1, "i32")
    for start in range(0, x.n, _BLOCK):
        count = m.minimum(x.n - start, _BLOCK)
        for i in independent(count):
            v = x[start + i]
            inside = (v >= low[()]) & (v <= high[()])
            place = (m.where(inside, v, low[()]) - low[()]) * bins[()] / width[()]
            fits = (place >= 0.0) & (place < bins[()])
            whole = place.r.truncate(m.where(fits, place, 0.0), "i32")
            places[i] = m.where(inside, m.where(fits, whole, last), m.cast(out.n, "i32"))
        for i in range(count):
            j = m.cast(places[i], "i64")
            if j < out.n:
                out[j] = out[j] + 1


@kernel("(k),()->(k),(k),(k),()")
def occurring(m: Any, counts: Any, low: Any, values: Any, times: Any, rank: Any, number: Any) -> None:
    """Of counts of the integers from `low` on: those that occur, how often, which of these each is (where it occurs), how many they are."""
    found = m.value(0, "i64")
    for i in range(counts.n):
        rank[i] = found
        values[found] = m.cast(low[()] + i, values.type)
        times[found] = counts[i]
        found = found + m.cast(counts[i] != 0, "i64")
    number[()] = found


@kernel("(n),(),(k)->(n)")
def ranks(m: Any, x: Any, low: Any, rank: Any, out: Any) -> None:
    """The rank of each integer, of which `low` is the least; those that have none get 0."""
    for i in range(x.n):
        j = m.cast(x[i], "i64") - low[()]
        if (j >= 0) & (j < rank.n):
            out[i] = rank[j]
        else:
            out[i] = 0
