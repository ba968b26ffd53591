"""Kernels of Gauss's elimination for batches of small matrices, one after the other on each core."""

from __future__ import annotations

from ..loops.lang import independent, inline, kernel


def _size(m, x):
    """What pivots are compared by, as LAPACK does."""
    return m.real_abs(x.re) + m.real_abs(x.im) if m.is_complex(x) else m.real_abs(x)


def _is_zero(m, x):
    return (x.re == 0) & (x.im == 0) if m.is_complex(x) else x == 0


@inline
def largest_from(m, w, line, first, n, along):
    """The place of the largest element of a column (of a row, if `along`), from `first` on; the first of equals."""
    place = first + 0
    most = _size(m, w[line, first] if along else w[first, line])
    for i in range(first + 1, n):
        size = _size(m, w[line, i] if along else w[i, line])
        if size > most:
            most = size
            place = i
    return place


@inline
def _exchange(m, w, i, j, n):
    for k in range(n):
        held = w[i, k]
        w[i, k] = w[j, k]
        w[j, k] = held


@kernel("(n,n),(n,k)->(n,k),(n,n),()")
def solve(m, a, b, x, w, info, size, width):
    """x with a @ x = b, working memory, and the place of the first zero pivot or 0; sizes n and k if they are known."""
    n = a.n if size is None else size
    k = b.n if width is None else width
    for i in range(n):
        for j in range(n):
            w[i, j] = a[i, j]
        for c in range(k):
            x[i, c] = b[i, c]
    failed = m.value(0, "i64")
    for j in range(n):
        row = largest_from(m, w, j, j, n, False)
        if row != j:
            _exchange(m, w, row, j, n)
            _exchange(m, x, row, j, k)
        head = w[j, j]
        if _is_zero(m, head) & (failed == 0):
            failed = j + 1
        for i in range(j + 1, n):
            factor = w[i, j] / head
            for c in independent(j + 1, n):
                w[i, c] = w[i, c] - factor * w[j, c]
            for c in independent(k):
                x[i, c] = x[i, c] - factor * x[j, c]
    for back in range(n):
        j = n - 1 - back
        head = w[j, j]
        for c in range(k):
            x[j, c] = x[j, c] / head
        for i in range(j):
            factor = w[i, j]
            for c in independent(k):
                x[i, c] = x[i, c] - factor * x[j, c]
    info[()] = m.cast(failed, "i32")


@kernel("(n,n)->(),(n,n)")
def determinant(m, a, out, w):
    """The product of the pivots, and working memory."""
    n = a.n
    for i in range(n):
        for j in range(n):
            w[i, j] = a[i, j]
    total = m.value(1, a.type)
    for j in range(n):
        row = largest_from(m, w, j, j, n, False)
        if row != j:
            _exchange(m, w, row, j, n)
            total = -total
        head = w[j, j]
        total = total * head
        if not _is_zero(m, head):
            for i in range(j + 1, n):
                factor = w[i, j] / head
                for c in independent(j + 1, n):
                    w[i, c] = w[i, c] - factor * w[j, c]
    out[()] = total


def _product_of_pivots(m, a, n):
    w = [[a[i, j] for j in range(n)] for i in range(n)]
    total = m.value(1, a.type)
    for j in range(n):
        most, row = _size(m, w[j][j]), m.value(j, "i64")
        for i in range(j + 1, n):
            size = _size(m, w[i][j])
            row, most = m.where(size > most, i, row), m.where(size > most, size, most)
        for i in range(j + 1, n):
            for c in range(j, n):
                x, y = w[i][c], w[j][c]
                w[i][c], w[j][c] = m.where(row == i, y, x), m.where(row == i, x, y)
        head = w[j][j]
        total = m.where(row == j, total, -total) * head
        for i in range(j + 1, n):
            factor = w[i][j] / head
            for c in range(j + 1, n):
                w[i][c] = m.where(_is_zero(m, head), w[i][c], w[i][c] - factor * w[j][c])
    return total


@kernel("(n,n)->()")
def small_determinant(m, a, out, size):
    """The product of the pivots of a matrix of known size, which stays in registers."""
    out[()] = _product_of_pivots(m, a, size)


@kernel("(n,n)->(),(),(n,n)")
def sign_and_size(m, a, sign, size, w):
    """The sign of the product of the pivots of a real matrix, the logarithm of its size, and working memory."""
    n = a.n
    for i in range(n):
        for j in range(n):
            w[i, j] = a[i, j]
    way, total = m.value(1, a.type), m.value(0, a.type)
    for j in range(n):
        row = largest_from(m, w, j, j, n, False)
        if row != j:
            _exchange(m, w, row, j, n)
            way = -way
        head = w[j, j]
        total = total + m.log(m.real_abs(head))
        if head < 0:
            way = -way
        if head == 0:
            way = m.value(0, a.type)
        else:
            for i in range(j + 1, n):
                ratio = w[i, j] / head
                for c in independent(j + 1, n):
                    w[i, c] = w[i, c] - ratio * w[j, c]
    sign[()] = m.where(total == total, way, total)
    size[()] = total


@kernel("(n,n),(n,k)->(n,k)")
def solve_triangle(m, a, b, x, upper, unit):
    """x with a @ x = b, where one triangle of a is read."""
    for place in range(a.n):
        i = a.n - 1 - place if upper else place
        for c in independent(b.n):
            x[i, c] = b[i, c]
        for place_before in range(place):
            j = a.n - 1 - place_before if upper else place_before
            factor = a[i, j]
            for c in independent(b.n):
                x[i, c] = x[i, c] - factor * x[j, c]
        if not unit:
            head = a[i, i]
            for c in independent(b.n):
                x[i, c] = x[i, c] / head


@kernel("(k)->(n),()")
def row_order(m, pivots, order, wrong):
    """The order of rows after exchanges of row i with row pivots[i], counted from 1; whether one of these is none."""
    n = order.n
    bad = m.value(0, "i64")
    for i in range(n):
        order[i] = m.cast(i, "i64")
    for i in range(pivots.n):
        j = m.cast(pivots[i], "i64") - 1
        if (j < 0) | (j >= n):
            bad = bad | 1
        else:
            held = order[i]
            order[i] = order[j]
            order[j] = held
    wrong[()] = bad != 0


@kernel("(n,k),(n)->(n,k)")
def in_order(m, b, order, x, back):
    """Rows of b in an order that `row_order` gives, or from it back to theirs."""
    for i in range(order.n):
        j = order[i]
        for c in independent(b.n):
            if back:
                x[j, c] = b[i, c]
            else:
                x[i, c] = b[j, c]


@kernel("(m,n)->(m,n),(k),()")
def factor(m, a, w, pivots, info):
    """L and U in one matrix, the rows that were exchanged, counted from 1, the place of the first zero pivot or 0."""
    rows = a.shape[0]
    n = a.n
    for i in range(rows):
        for j in range(n):
            w[i, j] = a[i, j]
    failed = m.value(0, "i64")
    for j in range(m.minimum(rows, n)):
        row = largest_from(m, w, j, j, rows, False)
        pivots[j] = m.cast(row + 1, "i32")
        if row != j:
            _exchange(m, w, row, j, n)
        head = w[j, j]
        if _is_zero(m, head):
            if failed == 0:
                failed = j + 1
        else:
            for i in range(j + 1, rows):
                ratio = w[i, j] / head
                w[i, j] = ratio
                for c in independent(j + 1, n):
                    w[i, c] = w[i, c] - ratio * w[j, c]
    info[()] = m.cast(failed, "i32")


@kernel("(n,n)->(n,n),()")
def cholesky(m, a, out, info):
    """The lower factor of a matrix of which that triangle is read, the first minor that is not positive or 0."""
    failed = m.value(0, "i64")
    for i in range(a.n):
        for j in range(i):
            total = a[i, j]
            for k in range(j):
                total = total - out[i, k] * m.conj(out[j, k])
            out[i, j] = total / m.real(out[j, j])
        left = m.real(a[i, i])
        for k in range(i):
            x = out[i, k]
            left = left - m.real(x * m.conj(x))
        if (failed == 0) & ~(left > 0):
            failed = i + 1
        out[i, i] = m.real_sqrt(left)
        for j in independent(i + 1, a.n):
            out[i, j] = m.value(0, a.type)
    info[()] = m.cast(failed, "i32")


@kernel("()->(m,n)")
def clear_lower(m, zero, out):
    """Zeros below the diagonal of a matrix; the rest of it stays."""
    for i in range(out.shape[0]):
        for c in independent(m.minimum(i, out.n)):
            out[i, c] = zero[()]
