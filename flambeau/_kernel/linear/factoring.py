"""Factors of real matrices that fill caches, eight columns at a time: the columns of a block lie one after the other while they
are worked on (`held`), and what follows the block is lessened by it in one pass.
"""

from __future__ import annotations

from ..loops.lang import as_written, independent, inline, kernel
from ..render.symbols import symbols
from ..render.value import SIZE
from .elimination import largest_from

BLOCK = 8  # columns that are worked on together
_ROWS = 4  # that are lessened side by side


def _from_line(s, e, like):
    """The column of a block from s to e from which on rows may be written: where a cache line begins if rows are dense, or its end."""
    lanes = 64 // SIZE[like.type]
    return symbols.maximum(s, e // lanes * lanes)


def _factors(left, i, s, rows, turned):
    return [[-(left[t, i + q] if turned else left[i + q, s + t]) for t in range(BLOCK)] for q in range(rows)]


def _lessened(m, to, i, c, factors, right, first):
    by = [right[first + t, c] for t in range(BLOCK)]
    for q, row in enumerate(factors):
        x = to[i + q, c]
        for f, y in zip(row, by):
            x = m.fma(f, y, x)
        to[i + q, c] = x


@inline
def _lessen(m, to, begin, rows, low, high, left, s, turned, right, first, lower):
    """Takes products from rows `begin` to `rows` of `to`, columns `low` to `high` (or, `lower`, to the diagonal): of columns from s on
    of `left` (rows, if it is `turned`) with rows from `first` on of `right`."""
    fours = begin + (rows - begin) // _ROWS * _ROWS
    for i in as_written(begin, fours, _ROWS):
        factors = _factors(left, i, s, _ROWS, turned)
        for c in independent(low, m.minimum(high, i + _ROWS) if lower else high, abreast=1):
            _lessened(m, to, i, c, factors, right, first)
    for i in as_written(fours, rows):
        single = _factors(left, i, s, 1, turned)
        for c in independent(low, high, abreast=1):
            _lessened(m, to, i, c, single, right, first)


def _moved(w, held, i, s, columns, back):
    """A row's part of a block, from the matrix to where its columns are rows, or back."""
    for t in columns:
        if back:
            w[i, s + t] = held[t, i]
        else:
            held[t, i] = w[i, s + t]


@inline
def _move(m, w, held, s, width, rows, back):
    """Columns from s on become rows, or are put back."""
    if width == BLOCK:
        for i in as_written(s, rows):
            _moved(w, held, i, s, range(BLOCK), back)
    else:
        for i in as_written(s, rows):
            for t in as_written(width):
                _moved(w, held, i, s, [t], back)


@inline
def _copy(m, a, w):
    for i in as_written(a.shape[0]):
        for c in independent(a.n):
            w[i, c] = a[i, c]


@inline
def _take(m, to, row, other, f, low, high):
    """Takes f times another row from a row."""
    for c in independent(low, high):
        to[row, c] = m.fma(-f, to[other, c], to[row, c])


@kernel("(m,n)->(m,n),(k),(),(b,m)")
def factor(m, a, w, pivots, info, held):
    """L and U in one matrix, the rows that were exchanged, counted from 1, the place of the first zero pivot or 0."""
    rows, n, k = a.shape[0], a.n, pivots.n
    _copy(m, a, w)
    failed = m.value(0, "i64")
    for s in as_written(0, k, BLOCK):
        e = m.minimum(s + BLOCK, k)
        width = e - s
        _move(m, w, held, s, width, rows, False)
        for t in as_written(width):
            j = s + t
            row = largest_from(m, held, t, j, rows, True)
            pivots[j] = m.cast(row + 1, "i32")
            if row != j:
                for c in independent(n):
                    x = w[row, c]
                    w[row, c] = w[j, c]
                    w[j, c] = x
                for u in as_written(width):
                    y = held[u, row]
                    held[u, row] = held[u, j]
                    held[u, j] = y
            head = held[t, j]
            if head == 0:
                if failed == 0:
                    failed = j + 1
            else:
                for i in independent(j + 1, rows):
                    held[t, i] = held[t, i] / head
                for u in as_written(t + 1, width):
                    _take(m, held, u, t, held[u, j], j + 1, rows)
        low = _from_line(s, e, a)
        for t in as_written(1, width):
            for u in as_written(t):
                _take(m, w, s + t, s + u, held[u, s + t], low, n)
        if width == BLOCK:
            _lessen(m, w, e, rows, low, n, held, s, True, w, s, False)
        _move(m, w, held, s, width, rows, True)
    info[()] = m.cast(failed, "i32")


@kernel("(n,n)->(n,n),(),(b,n)")
def cholesky(m, a, w, info, held):
    """The lower factor of a matrix of which that triangle is read, the first minor that is not positive or 0."""
    n = a.n
    _copy(m, a, w)
    failed = m.value(0, "i64")
    for s in as_written(0, n, BLOCK):
        e = m.minimum(s + BLOCK, n)
        width = e - s
        _move(m, w, held, s, width, n, False)
        for t in as_written(width):
            j = s + t
            left = held[t, j]
            if (failed == 0) & ~(left > 0):
                failed = j + 1
            root = m.sqrt(left)
            for i in independent(j, n):
                held[t, i] = held[t, i] / root
            for u in as_written(t + 1, width):
                _take(m, held, u, t, held[t, s + u], s + u, n)
        if width == BLOCK:
            _lessen(m, w, e, n, _from_line(s, e, a), n, held, s, True, held, 0, True)
        _move(m, w, held, s, width, n, True)
    for i in as_written(n):
        for c in independent(i + 1, n):
            w[i, c] = m.value(0, a.type)
    info[()] = m.cast(failed, "i32")


@kernel("(n,n),(n,k)->(n,k)")
def substitute(m, a, b, x, upper, unit, low_right):
    """x with a @ x = b, where one triangle of a is read; `low_right`: b has zeros above its diagonal, and a is a lower triangle."""
    n, k = a.n, b.n
    _copy(m, b, x)
    for place in as_written(0, n, BLOCK):
        s = m.maximum(n - BLOCK - place, 0) if upper else place + 0
        e = n - place if upper else m.minimum(place + BLOCK, n)
        for p in as_written(e - s):
            i = e - 1 - p if upper else s + p
            for q in as_written(p):
                j = e - 1 - q if upper else s + q
                _take(m, x, i, j, a[i, j], 0, k)
            if not unit:
                head = a[i, i]
                for c in independent(k):
                    x[i, c] = x[i, c] / head
        if e - s == BLOCK:
            end = m.minimum(e, k) if low_right else k
            _lessen(m, x, 0 if upper else e, s if upper else n, 0, end, a, s, False, x, s, False)


# -- orthogonal factors -------------------------------------------------------------------------------------------------


@inline
def _dot(m, held, t, u, begin, rows):
    total = m.value(0, held.type)
    for i in range(begin, rows):
        total = m.loose_add(total, held[t, i] * held[u, i])
    return total


@inline
def _reflector(m, held, t, j, rows, tau, w, s):
    """Makes row t, a column of the matrix, the vector of the reflection that clears it below j; its upper part is a part of R."""
    most = m.value(0, held.type)
    for i in as_written(j + 1, rows):
        size = m.real_abs(held[t, i])
        if size > most:
            most = size
    alpha = held[t, j]
    beta = alpha + 0
    scale = m.value(0, held.type)
    if most != 0:
        most = m.maximum(most, m.real_abs(alpha))
        total = m.value(0, held.type)
        for i in range(j, rows):
            y = held[t, i] / most
            total = m.loose_add(total, y * y)
        beta = -m.copysign(m.sqrt(total) * most, alpha)
        scale = (beta - alpha) / beta
        head = alpha - beta
        for i in independent(j + 1, rows):
            held[t, i] = held[t, i] / head
    tau[j] = scale
    for i in as_written(s, j):
        w[i, j] = held[t, i]
        held[t, i] = m.value(0, held.type)
    w[j, j] = beta
    held[t, j] = m.value(1, held.type)


@inline
def _joined(m, held, width, s, rows, tau, t_):
    """The triangle that joins the reflections of a block: I - V T Vᵀ."""
    for t in as_written(width):
        scale = tau[s + t]
        for u in as_written(t):
            t_[u, BLOCK] = _dot(m, held, t, u, s + t, rows)
        for u in as_written(t):
            total = m.value(0, held.type)
            for v in as_written(u, t):
                total = total + t_[u, v] * t_[v, BLOCK]
            t_[u, t] = -scale * total
        t_[t, t] = scale


@inline
def _reflect(m, w, held, width, s, rows, low, high, t_, z, turned):
    """Applies the reflections of a block (backwards, if `turned`) to columns from low to high."""
    for t in as_written(BLOCK):
        for c in independent(low, high):
            z[t, c] = m.value(0, held.type)
    if width != BLOCK:
        for t in as_written(width, BLOCK):
            for i in independent(s, rows):
                held[t, i] = m.value(0, held.type)
            for u in as_written(BLOCK):
                t_[u, t] = m.value(0, held.type)
                t_[t, u] = m.value(0, held.type)
    eights = s + (rows - s) // BLOCK * BLOCK
    for i in as_written(s, eights, BLOCK):
        _lessen(m, z, 0, BLOCK, low, high, held, i, False, w, i, False)
    for i in as_written(eights, rows):
        for t in as_written(BLOCK):
            f = -held[t, i]
            for c in independent(low, high):
                z[t, c] = m.fma(f, w[i, c], z[t, c])
    for place in as_written(BLOCK):  # the first ones need those that follow them, or the other way round
        t = BLOCK - 1 - place if turned else place + 0
        own = -t_[t, t]
        for c in independent(low, high):
            z[t, c] = own * z[t, c]
        for u in as_written(0 if turned else t + 1, t if turned else BLOCK):
            _take(m, z, t, u, t_[u, t] if turned else t_[t, u], low, high)
    _lessen(m, w, s, rows, low, high, held, s, True, z, 0, False)


@kernel("(m,n)->(m,n),(k),(b,m),(b,n),(b,d)")
def reflectors(m, a, w, tau, held, z, t_):
    """R and below it the vectors of the reflections that make Q, and their factors."""
    rows, n, k = a.shape[0], a.n, tau.n
    _copy(m, a, w)
    for s in as_written(0, k, BLOCK):
        e = m.minimum(s + BLOCK, k)
        width = e - s
        _move(m, w, held, s, width, rows, False)
        for t in as_written(width):
            j = s + t
            _reflector(m, held, t, j, rows, tau, w, s)
            for u in as_written(t + 1, width):
                _take(m, held, u, t, tau[j] * _dot(m, held, t, u, j, rows), j, rows)
        if e < n:
            _joined(m, held, width, s, rows, tau, t_)
            _reflect(m, w, held, width, s, rows, e + 0, n, t_, z, True)
        for t in as_written(width):
            for i in as_written(s + t + 1, rows):
                w[i, s + t] = held[t, i]


@kernel("(m,n),(k)->(m,c),(b,m),(b,c),(b,d)")
def orthogonal(m, a, tau, q, held, z, t_):
    """The first columns of the product of reflections."""
    rows, k, wide = a.shape[0], tau.n, q.n
    for i in as_written(rows):
        for c in independent(wide):
            q[i, c] = m.where(i == c, 1, m.value(0, a.type))
    for place in as_written(0, k, BLOCK):
        s = (k - 1) // BLOCK * BLOCK - place
        e = m.minimum(s + BLOCK, k)
        width = e - s
        for t in as_written(width):
            for i in independent(s, s + t):
                held[t, i] = m.value(0, a.type)
            held[t, s + t] = m.value(1, a.type)
            for i in as_written(s + t + 1, rows):
                held[t, i] = a[i, s + t]
        _joined(m, held, width, s, rows, tau, t_)
        _reflect(m, q, held, width, s, rows, s + 0, wide, t_, z, False)
