"""Kernels that read and write elements and rows by index.

They look at every index they use, so that no call can leave an array whatever another thread does to its indices.
"""

from __future__ import annotations

import functools
from typing import Any

from ..loops.lang import independent, inline, kernel
from ..render.streaming import ask_for, ask_to_write, width


@inline
def _any_outside(m: Any, index: Any, first: Any, end: Any) -> Any:
    wrong = m.value(0, "i64")
    for i in range(index.n):
        j = m.cast(index[i], "i64")
        wrong = wrong | m.cast((j < first) | (j >= end), "i64")
    return wrong != 0


@kernel("(n),(b)->()")
def out_of_range(m: Any, index: Any, bounds: Any, found: Any) -> None:
    """Whether an index is outside [bounds[0], bounds[1])."""
    found[()] = _any_outside(m, index, bounds[0], bounds[1])


def _place(m: Any, index: Any, n: Any, from_end: Any = False) -> Any:
    """An index as an unsigned number, so that negative ones are large; they may count from the end."""
    j = m.cast(index, "i64")
    return m.cast(m.where(j < 0, j + n, j) if from_end else j, "u64")


@inline
def _gather_row(m: Any, x: Any, index: Any, out: Any, from_end: Any) -> Any:
    wrong = m.value(False, "b1")
    for i in range(index.n):
        j = _place(m, index[i], x.n, from_end)
        if j >= m.cast(x.n, "u64"):
            wrong = True
            break
        out[i] = x[j]
    return wrong


@kernel("(n),(k)->(k),()", vectors=False)
def gather_elements(m: Any, x: Any, index: Any, out: Any, found: Any, from_end: Any) -> None:
    """out[i] = x[index[i]]; ends at an index out of range and tells of it."""
    found[()] = _gather_row(m, x, index, out, from_end)


@kernel("(k),(),(k)->(k)")
def join_indices(m: Any, whole: Any, n: Any, index: Any, out: Any) -> None:
    """Indices over a further dimension, of n elements, too."""
    for i in independent(out.n):
        out[i] = m.cast(whole[i], "i64") * n[()] + m.cast(index[i], "i64")


@kernel("(h,w),(k),(k)->(k),()", vectors=False)
def gather_pairs(m: Any, x: Any, row: Any, column: Any, out: Any, found: Any) -> None:
    """out[i] = x[row[i], column[i]], counted from the end where negative; ends at an index out of range and tells of it."""
    wrong = m.value(False, "b1")
    for i in range(out.n):
        j = _place(m, row[i], x.shape[0], True)
        c = _place(m, column[i], x.n, True)
        if (j >= m.cast(x.shape[0], "u64")) | (c >= m.cast(x.n, "u64")):
            wrong = True
            break
        out[i] = x[j, c]
    found[()] = wrong


@kernel("(n,w),(k)->(k,w),()")
def gather_rows(m: Any, x: Any, index: Any, out: Any, found: Any, from_end: Any, far: Any) -> None:
    """The row out[i] is x[index[i]], as `gather_elements`; a `far` result is asked for early, and so are rows of x."""
    wrong = m.value(False, "b1")
    group = _lines(x, out) if far else 0
    for i in range(index.n):
        j = _place(m, index[i], x.shape[0], from_end)
        if j >= m.cast(x.shape[0], "u64"):
            wrong = True
            break
        whole = m.value(0, "i64")
        if group:
            after = _place(m, index[m.minimum(i + 1, index.n - 1)], x.shape[0], from_end)
            whole = x.n & -group
            for start in range(0, whole, group):
                ask_for(x, (after, start), group)
                ask_to_write(out, (i, start), group)
                for c in independent(group):
                    out[i, start + c] = x[j, start + c]
        for c in independent(whole, x.n):
            out[i, c] = x[j, c]
    found[()] = wrong


def _lines(x: Any, out: Any) -> int:
    """In a kernel: elements that are asked for together, none of rows whose elements lie apart."""
    return width(x.type, 4) if x.dense and out.dense else 0


@kernel("(n,w),(k,w)->(k,w),()")
def gather_columns(m: Any, x: Any, index: Any, out: Any, found: Any) -> None:
    """out[i, c] = x[index[i, c], c], as `gather_elements`."""
    wrong = m.value(False, "b1")
    for i in range(index.shape[0]):
        for c in range(index.n):
            j = _place(m, index[i, c], 0)
            if j >= m.cast(x.shape[0], "u64"):
                wrong = True
                break
            out[i, c] = x[j, c]
    found[()] = wrong


def _combined(m: Any, how: Any, old: Any, new: Any) -> Any:
    """One element after another was written to it."""
    if how == "set":
        return new
    if how == "add":
        return old | new if old.type == "b1" else old + new
    if how == "multiply":
        return old & new if old.type == "b1" else old * new
    return m.maximum(old, new) if how == "maximum" else m.minimum(old, new)


@inline
def _scatter_row(m: Any, index: Any, values: Any, x: Any, how: Any, from_end: Any) -> None:
    n = m.cast(x.n, "u64")
    for i in range(index.n):
        j = _place(m, index[i], x.n, from_end)
        if j < n:
            x[j] = _combined(m, how, x[j], values[i])


@kernel("(k),(k)->(n)")
def scatter_elements(m: Any, index: Any, values: Any, x: Any, how: Any, from_end: Any) -> None:
    """x[index[i]] is combined with values[i], in order."""
    _scatter_row(m, index, values, x, how, from_end)


@kernel("(k),(k)->(n),()")
def scatter_checked(m: Any, index: Any, values: Any, x: Any, found: Any, how: Any) -> None:
    """`scatter_elements` of dense indices, unless one of them is out of range."""
    wrong = _any_outside(m, index, m.value(0, "i64"), x.n)
    found[()] = wrong
    if ~wrong:
        _scatter_row(m, index, values, x, how, False)


@kernel("(k,w),(k,w)->(n,w)")
def scatter_columns(m: Any, index: Any, values: Any, x: Any, how: Any) -> None:
    """x[index[i, c], c] is combined with values[i, c], in order."""
    n = m.cast(x.shape[0], "u64")
    for i in range(index.shape[0]):
        for c in range(index.n):
            j = _place(m, index[i, c], 0)
            if j < n:
                x[j, c] = _combined(m, how, x[j, c], values[i, c])


@kernel("(k),(k,w)->(n,w)")
def scatter_rows(m: Any, index: Any, values: Any, x: Any, how: Any, from_end: Any) -> None:
    """The row x[index[i]] is combined with the row values[i], in order."""
    n = m.cast(x.shape[0], "u64")
    for i in range(index.n):
        j = _place(m, index[i], x.shape[0], from_end)
        if j < n:
            for c in independent(x.n):
                x[j, c] = _combined(m, how, x[j, c], values[i, c])


@kernel("(n),(n)->(k)")
def compress(m: Any, x: Any, mask: Any, out: Any) -> None:
    """The elements of x where the mask holds; their number must be k."""
    i = m.value(0, "i64")
    j = m.value(0, "i64")
    while (j < out.n) & (i < x.n):
        out[j] = x[i]
        j += m.cast(mask[i], "i64")
        i += 1


@kernel("(n),(k)->(n)")
def add_where(m: Any, mask: Any, values: Any, out: Any) -> None:
    """Adds the values, in order, to the elements of out where the mask holds; that are at least k."""
    j = m.value(0, "i64")
    i = m.value(0, "i64")
    while (j < values.n) & (i < out.n):
        if mask[i]:
            out[i] = out[i] + values[j]
            j += 1
        i += 1


@kernel("(h,w)->(k,d)", vectors=False)
def nonzero_pairs(m: Any, x: Any, out: Any) -> None:
    """Row and column of the nonzero elements of a matrix; their number must be k."""
    j = m.value(0, "i64")
    for row in range(x.shape[0]):
        for column in range(x.n):
            if j < out.shape[0]:
                out[j, 0] = row
                out[j, 1] = column
                j += m.cast(x[row, column], "i64")


@kernel("(a,b,h,w)->(k),(k,d)", vectors=False)
def nonzero_places(m: Any, x: Any, first: Any, others: Any) -> None:
    """The first index of the nonzero elements in four dimensions, and the others; their number must be k."""
    j = m.value(0, "i64")
    for outer in range(x.shape[0]):
        for inner in range(x.shape[1]):
            for row in range(x.shape[2]):
                for column in range(x.n):
                    if j < first.n:
                        first[j] = outer
                        others[j, 0] = inner
                        others[j, 1] = row
                        others[j, 2] = column
                        j += m.cast(x[outer, inner, row, column], "i64")


# -- for GPUs, whose threads have one element each ---------------------------------------------------------------------


@kernel("(n),()->(),()")
def gather_one(m: Any, x: Any, index: Any, out: Any, wrong: Any, from_end: Any) -> None:
    """out = x[index], unless that is out of range, of which it tells."""
    j = _place(m, index[()], x.n, from_end)
    if j < m.cast(x.n, "u64"):
        out[()] = x[j]
    else:
        wrong[()] = m.value(1, "i64")


@kernel("(),()->(n),()")
def put_one(m: Any, index: Any, value: Any, x: Any, wrong: Any, how: Any, from_end: Any) -> None:
    """x[index] is combined with a value, unless that is out of range, of which it tells."""
    j = _place(m, index[()], x.n, from_end)
    if j < m.cast(x.n, "u64"):
        if how == "set":
            x[j] = value[()]
        else:
            x.merge(j, value[()], how, functools.partial(_combined, m, how))
    else:
        wrong[()] = m.value(1, "i64")


@kernel("(),(),(),()->(),()")
def add_place(m: Any, index: Any, before: Any, size: Any, step: Any, out: Any, wrong: Any) -> None:
    """`step` times an index into a dimension of a `size`, counted from its end where negative, added to what was there `before`;
    -1, of which it tells, if that or the index is out of range."""
    n = size[()]
    j = _place(m, index[()], n, True)
    if (j < m.cast(n, "u64")) & (before[()] >= 0):
        out[()] = before[()] + m.cast(j, "i64") * step[()]
    else:
        out[()] = m.value(-1, "i64")
        wrong[()] = m.value(1, "i64")


@kernel("(n),()->()")
def note_outside(m: Any, x: Any, index: Any, wrong: Any, from_end: Any) -> None:
    """Tells of an index out of range."""
    if _place(m, index[()], x.n, from_end) >= m.cast(x.n, "u64"):
        wrong[()] = m.value(1, "i64")


@kernel("(),()->()")
def put_where(m: Any, mask: Any, value: Any, x: Any) -> None:
    """x = value if the mask says so."""
    if mask[()]:
        x[()] = value[()]


@kernel("(),()->()")
def keep_one(m: Any, x: Any, place: Any, out: Any) -> None:
    """An element of a triangle, zero outside: where the place is negative."""
    if place[()] >= 0:
        out[()] = x[()]
    else:
        out[()] = 0
