"""Kernels of orderings. Short keys, and long ones that are near to each other, are packed with their index into one 64-bit word, which NumPy's
vectorised sort then orders (stably, as no two words are equal); other keys are merged, index and key side by side."""

from __future__ import annotations

import functools
from typing import Any

from ..loops.lang import Array, as_written, independent, inline, kernel, strands
from ..render.value import COMPUTE, SIZE, is_float
from .reduce import highest, is_above, lowest

RUN = 16  # elements sorted by insertion before merging begins
BLOCK = 16  # elements compared with the threshold together
TOGETHER = 64  # rows of a few elements that are ordered together
FEW = 256  # elements of a tensor that are merged by one call sooner than packed, sorted and unpacked
MOST = 64  # the largest k that is kept sorted in registers and the first cache


def is_short(t: str) -> bool:
    """Whether the key of a memory type fits beside a 32-bit index."""
    return SIZE[COMPUTE.get(t, t)] <= 4 and t != "c64"


def sort_key(m: Any, x: Any, descending: bool) -> Any:
    """An integer in the order of x, NaN last (first if descending); the two zeros are equal."""
    if x.type == "u64":
        key = m.cast(x ^ (1 << 63), "i64")
    elif x.type == "u32":
        key = m.cast(x ^ (1 << 31), "i32")
    elif is_float(x.type):
        bits = m.bits(x)
        width = int(bits.type[1:])
        key = bits ^ ((bits >> (width - 1)) & ((1 << (width - 1)) - 1))
        key = m.where(x != x, highest(bits.type), m.where(x == 0.0, 0, key))
    else:
        key = m.cast(x, "i64")
    return ~key if descending else key


@kernel("(n),(),()->(n)")
def pack(m: Any, x: Any, base: Any, shift: Any, out: Any, descending: Any) -> None:
    """Words whose order is that of the elements, then that of their places: keys from `base` on, `shift` bits above places."""
    for i in range(0, x.n):
        out[i] = ((m.cast(sort_key(m, x[i], descending), "i64") - base[()]) << shift[()]) | i


@kernel("(n),(k),()->(k),(k)")
def unpack(m: Any, x: Any, words: Any, shift: Any, value: Any, place: Any) -> None:
    """Elements and places in the order of sorted words."""
    for i in range(0, words.n):
        at = words[i] & ((m.value(1, "i64") << shift[()]) - 1)
        at = m.minimum(at, x.n - 1)
        place[i] = at
        value[i] = x[at]


@inline
def _merge(m: Any, lo: Any, mid: Any, hi: Any, keys: Any, places: Any, into_keys: Any, into_places: Any) -> None:
    i = lo
    j = mid
    for t in range(lo, hi):
        a = keys[m.minimum(i, hi - 1)]
        b = keys[m.minimum(j, hi - 1)]
        left = (i < mid) & ((j >= hi) | (a <= b))
        at = m.where(left, i, j)
        into_keys[t] = m.where(left, a, b)
        into_places[t] = places[at]
        i = i + m.cast(left, "i64")
        j = j + m.cast(~left, "i64")


@kernel("(n)->(n),(n),(n),(n),(n)", vectors=False)
def merge_sort(
    m: Any, x: Any, value: Any, place: Any, keys: Any, other_keys: Any, other_place: Any, descending: Any
) -> None:
    """A stable sort of every row; the last three operands are scratch."""
    n = x.n
    for start in range(0, n, RUN):
        stop = m.minimum(start + RUN, n)
        for i in range(start, stop):
            key = m.cast(sort_key(m, x[i], descending), "i64")
            j = i
            while (j > start) & (keys[m.maximum(j - 1, 0)] > key):
                keys[j] = keys[j - 1]
                place[j] = place[j - 1]
                j = j - 1
            keys[j] = key
            place[j] = i
    width = m.value(RUN, "i64")
    swapped = m.value(0, "i64")
    while width < n:
        lo = m.value(0, "i64")
        while lo < n:
            mid = m.minimum(lo + width, n)
            hi = m.minimum(mid + width, n)
            if swapped == 0:
                _merge(m, lo, mid, hi, keys, place, other_keys, other_place)
            else:
                _merge(m, lo, mid, hi, other_keys, other_place, keys, place)
            lo = hi
        width = width * 2
        swapped = 1 - swapped
    if swapped == 1:
        for i in range(0, n):
            place[i] = other_place[i]
    for i in range(0, n):
        value[i] = x[place[i]]


@kernel("(n)->(k),(k)")
def top(m: Any, x: Any, value: Any, place: Any, smallest: Any) -> None:
    """The k largest (or smallest) elements of every row in order; k is at most MOST and at most n."""
    kind = "i32" if is_short(x.type) else "i64"
    n, k = x.n, value.n
    keys = m.local(kind, MOST)
    at = m.local("i64", MOST)
    lanes = m.local(kind, MOST)
    # the k-th largest maximum of MOST interleaved parts is a bound that few elements reach
    bound = m.value(lowest(kind), kind)
    if n >= 4 * MOST:
        for j in independent(0, MOST):
            lanes[j] = m.cast(sort_key(m, x[j], smallest), kind)
        for start in range(MOST, n - (MOST - 1), MOST):
            for j in independent(0, MOST):
                lanes[j] = m.maximum(lanes[j], m.cast(sort_key(m, x[start + j], smallest), kind))
        for i in range(0, k):
            _insert(m, keys, at, i, lanes[i], i)
        for i in range(k, MOST):
            if lanes[i] > keys[k - 1]:
                _insert(m, keys, at, k - 1, lanes[i], i)
        bound = keys[k - 1]
    filled = m.value(0, "i64")
    for start in range(0, n, BLOCK):
        stop = m.minimum(start + BLOCK, n)
        high = m.value(lowest(kind), kind)
        for i in range(start, stop):
            high = m.maximum(high, m.cast(sort_key(m, x[i], smallest), kind))
        if high >= bound:
            for i in range(start, stop):
                key = m.cast(sort_key(m, x[i], smallest), kind)
                if key >= bound:
                    if filled < k:
                        _insert(m, keys, at, filled, key, i)
                        filled = filled + 1
                    else:
                        if key > keys[k - 1]:
                            _insert(m, keys, at, k - 1, key, i)
                            bound = keys[k - 1]
    for i in range(0, k):
        place[i] = at[i]
        value[i] = x[at[i]]


@inline
def _insert(m: Any, keys: Any, at: Any, last: Any, key: Any, index: Any) -> None:
    """Puts a key into the descending order that ends at place `last`, behind its equals."""
    j = m.cast(last, "i64")
    while (j > 0) & (keys[m.maximum(j - 1, 0)] < key):
        keys[j] = keys[j - 1]
        at[j] = at[j - 1]
        j = j - 1
    keys[j] = key
    at[j] = index


# -- a few elements of many rows, side by side ---------------------------------------------------------------------


def _columns(x: Any, rows: bool, length: int) -> Any:
    """An operand (n,k) whose columns, of so many elements, are known to be the `rows` of dense memory."""
    if not rows:
        return x
    return Array(x.r, x.pointer, x.type, x.shape, [x.r.constant("i64", n * SIZE[x.type]) for n in (1, length)])


def _in_order(m: Any, x: Any, i: Any, width: int, descending: bool) -> list[tuple[Any, Any]]:
    """The elements of a column and their places, in stable order: neighbours change places."""
    kind = "i64" if SIZE[x.type] == 8 else "i32"
    items = [(m.cast(x[j, i], "u8") if x.type == "b1" else x[j, i], m.value(j, kind)) for j in range(width)]
    for end in range(width - 1, 0, -1):
        for j in range(end):
            pair = items[j], items[j + 1]
            turn = is_above(pair[1][0], pair[0][0]) if descending else is_above(pair[0][0], pair[1][0])
            for side in (0, 1):
                items[j + side] = tuple([m.where(turn, a, b) for a, b in zip(pair[1 - side], pair[side])])
    return items


def _middle_one(m: Any, elements: list[Any], items: list[Any], skip: bool) -> tuple[Any, Any]:
    """The lower median of elements that are in order as `items`; NaN as for `middle`."""
    middle = (len(items) - 1) // 2
    found = items[middle]
    if not is_float(elements[0].type):
        return found
    if not skip:  # the first NaN, if there is one
        for j, x in reversed([*enumerate(elements)]):
            found = tuple([m.where(x == x, old, new) for new, old in zip((x, j), found)])
        return found
    known = functools.reduce(lambda a, b: a + b, [m.cast(x == x, items[0][1].type) for x in elements])
    for j in reversed(range(middle)):
        found = tuple([m.where(known <= 2 * j + 2, new, old) for new, old in zip(items[j], found)])
    return found


def _chosen(
    m: Any, x: Any, i: Any, width: int, descending: bool, first: int, count: int, median: Any
) -> list[tuple[Any, Any]]:
    items = _in_order(m, x, i, width, descending)
    return (
        items[first : first + count]
        if median is None
        else [_middle_one(m, [x[j, i] for j in range(width)], items, median)]
    )


@kernel("(n,k)->(l,k),(l,k)")
def few_in_order(
    m: Any,
    x: Any,
    value: Any,
    place: Any,
    width: int,
    descending: bool,
    rows: bool,
    first: int,
    count: int,
    median: Any,
) -> None:
    """`count` elements of each column in stable order, from the `first`, and their places; or the median (`median` is what `middle` calls
    `skip`). Vectors have elements of many columns, which may be the `rows` of dense memory."""
    x, value, place = _columns(x, rows, width), _columns(value, rows, count), _columns(place, rows, count)
    for start in as_written(0, value.n, TOGETHER):
        left = m.minimum(start, value.n - TOGETHER)  # the last columns may be ordered again
        for i in independent(0, TOGETHER):
            chosen = _chosen(m, x, left + i, width, descending, first, count, median)
            for j in strands(count):
                value[j, left + i] = chosen[j][0]
                place[j, left + i] = chosen[j][1]


@kernel("(n),(n)->(),()")
def most_frequent(m: Any, x: Any, place: Any, value: Any, at: Any) -> None:
    """The end of the longest run of equal elements of every sorted row, the first among equally long ones."""
    best = m.value(0, "i64")
    last = m.value(0, "i64")
    begin = m.value(0, "i64")
    for i in range(1, x.n + 1):
        if (i == x.n) | (x[m.minimum(i, x.n - 1)] != x[begin]):
            if i - begin > best:
                best = i - begin
                last = i - 1
            begin = i
    value[()] = x[last]
    at[()] = place[last]


@kernel("(n),(n)->(),()")
def middle(m: Any, x: Any, place: Any, value: Any, at: Any, skip: Any) -> None:
    """The lower median of every sorted row; NaN, which are last, count as missing (`skip`) or else are the result."""
    count = m.value(0, "i64")  # of numbers, by bisection
    length = x.n + 0
    while length > 0:
        half = length >> 1
        number = x[count + half] == x[count + half]
        length = m.where(number, length - half - 1, half)
        count = m.where(number, count + half + 1, count)
    found = m.maximum(count - 1, 0) >> 1
    if not skip:
        found = m.where(count < x.n, count, found)
    value[()] = x[found]
    at[()] = place[found]


@kernel("(n),(k)->(n)")
def upper_bound(m: Any, x: Any, edges: Any, out: Any) -> None:
    """How many of the ascending edges are not above each element, by bisection."""
    for i in range(0, x.n):
        first = m.value(0, "i64")
        length = edges.n + 0
        while length > 0:
            half = length >> 1
            above = x[i] < edges[first + half]
            length = m.where(above, half, length - half - 1)
            first = m.where(above, first, first + half + 1)
        out[i] = first


@kernel("(n),(n)->(n),(n),(n),()", vectors=False)
def distinct(m: Any, x: Any, place: Any, first: Any, inverse: Any, count: Any, found: Any) -> None:
    """Of a sorted row: its distinct elements, the run of every original element, the lengths of the runs, their number.

    NaN differs from NaN. `place` says where elements were; those outside the row are left out.
    """
    runs = m.value(0, "i64")
    start = m.value(0, "i64")
    for i in range(x.n):
        if (i == 0) | (x[i] != x[m.maximum(i - 1, 0)]):
            if i > 0:
                count[runs - 1] = i - start
            first[runs] = x[i]
            runs = runs + 1
            start = i
        at = place[i]
        if (at >= 0) & (at < x.n):
            inverse[at] = runs - 1
    if x.n > 0:
        count[runs - 1] = x.n - start
    found[()] = runs
