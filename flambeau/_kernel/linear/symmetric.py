"""Eigenvalues and eigenvectors of small real symmetric matrices, by LAPACK's steps: reflections leave a tridiagonal matrix, whose
off-diagonal elements rotations take away (`sytd2`, `steqr`). So vectors have the signs that they have there.
"""

from __future__ import annotations

from ..loops.lang import as_written, independent, inline, kernel
from ..render.value import SIZE

ROOM = 2  # rows of working memory besides a matrix: off-diagonal elements, a product
_TURNS = 30  # rotations of all rows, for each row, after which a matrix is given up
_LOW, _HIGH = (
    2.0**-10,
    2.0**50,
)  # between which the largest element is such that squares of others are neither lost nor infinite
_PRECISION = {4: 2.0**-24, 8: 2.0**-53}
_LEAST = {4: 2.0**-126, 8: 2.0**-1022}


@inline
def _length(m, x, y):
    """The length of a vector of two elements."""
    x, y = m.real_abs(x), m.real_abs(y)
    most, least = m.maximum(x, y), m.minimum(x, y)
    ratio = m.where(most > 0, least / most, 0)
    return most * m.sqrt(1 + ratio * ratio)


@inline
def _rotate(m, z, i, j, c, s):
    """Turns two rows."""
    for k in independent(z.n, abreast=1):
        x, y = z[i, k], z[j, k]
        z[i, k] = c * x - s * y
        z[j, k] = c * y + s * x


@inline
def _reflect(m, w, d, work, i):
    """Clears row and column i of a symmetric matrix but for the elements beside the diagonal; the row keeps the vector of the
    reflection from there on, and its diagonal element the factor."""
    n = w.n
    head, most = w[i, i + 1], m.value(0, w.type)
    for c in as_written(i + 2, n):
        most = m.maximum(most, m.real_abs(w[i, c]))
    scale = m.value(0, w.type)
    d[i] = w[i, i]
    if ~(most <= _LEAST[SIZE[d.type]] / _PRECISION[SIZE[d.type]]):  # what is less is lost beside the largest element
        total = m.value(0, w.type)
        for c in as_written(i + 2, n):
            x = w[i, c] / most
            total = total + x * x
        beta = -m.copysign(_length(m, head, most * m.sqrt(total)), head)
        scale = (beta - head) / beta
        rest = head - beta
        for c in as_written(i + 2, n):
            w[i, c] = w[i, c] / rest
        head = beta
        w[i, i + 1] = m.value(1, w.type)
        along = m.value(0, w.type)
        for r in as_written(i + 1, n):
            product = m.value(0, w.type)
            for c in range(i + 1, n):
                product = m.loose_add(product, w[r, c] * w[i, c])
            work[1, r] = scale * product
            along = along + scale * product * w[i, r]
        along = scale * along / 2
        for c in as_written(i + 1, n):
            work[1, c] = work[1, c] - along * w[i, c]
        for r in as_written(i + 1, n):
            u, v = w[i, r], work[1, r]
            for c in independent(i + 1, n, abreast=1):
                w[r, c] = w[r, c] - u * work[1, c] - v * w[i, c]
    work[0, i] = head
    w[i, i] = scale


@inline
def _product(m, w, z):
    """The transposed product of all reflections."""
    n = w.n
    for i in as_written(n):
        for c in as_written(n):
            z[i, c] = m.where(i == c, 1, m.value(0, w.type))
    for place in as_written(1, n):
        i = n - 1 - place
        scale = w[i, i]
        if scale != 0:
            for k in as_written(i + 1, n):
                total = m.value(0, w.type)
                for c in range(i + 1, n):
                    total = m.loose_add(total, w[i, c] * z[k, c])
                total = scale * total
                for c in independent(i + 1, n, abreast=1):
                    z[k, c] = z[k, c] - total * w[i, c]


@inline
def _solve_pair(m, d, work, z, at, vectors):
    """The eigenvalues of the two rows from `at` on, the larger one by size first (`laev2`)."""
    a, b, c = d[at], work[0, at], d[at + 1]
    total, gap, double = a + c, a - c, b + b
    root = _length(m, gap, double)
    larger = m.where(m.real_abs(a) > m.real_abs(c), a, c)
    smaller = m.where(m.real_abs(a) > m.real_abs(c), c, a)
    first = (total + m.where(total < 0, -root, root)) / 2
    other = m.where(total == 0, -root / 2, larger / first * smaller - b / first * b)
    d[at] = first
    d[at + 1] = other
    work[0, at] = m.value(0, d.type)
    if vectors:
        side = m.where(gap < 0, gap - root, gap + root)
        steep = m.real_abs(side) > m.real_abs(double)
        ratio = m.where(steep, -double / side, m.where(double == 0, 0, -side / double))
        short = 1 / m.sqrt(1 + ratio * ratio)
        cosine, sine = m.where(steep, ratio * short, short), m.where(steep, short, ratio * short)
        swap = (total < 0) == (gap < 0)
        _rotate(m, z, at + 1, at, m.where(swap, -sine, cosine), m.where(swap, cosine, sine))


@inline
def _sweep(m, d, work, z, begin, end, way, vectors):
    """One pass of rotations over the rows from `end` to `begin`, which lies before it if the `way` is 1, after it if that is -1."""
    shift = (way - 1) >> 1  # from a row to the element beside it, towards `end`
    near = work[0, begin + shift]
    p = d[begin]
    g = (d[begin + way] - p) / (2 * near)
    g = d[end] - p + near / (g + m.copysign(_length(m, g, m.value(1, d.type)), g))
    sine, cosine, p = m.value(1, d.type), m.value(1, d.type), m.value(0, d.type)
    i = end - way
    going = m.value(True, "b1")
    while going:
        beside = work[0, i + shift]
        f, b = sine * beside, cosine * beside
        r = _length(m, f, g)
        r = m.where((g < 0) & (m.real_abs(g) > m.real_abs(f)), -r, r)
        cosine = m.where(f == 0, 1, g / r)
        sine = m.where(f == 0, 0, f / r)
        if i != end - way:
            work[0, i + way + shift] = m.where(f == 0, g, r)
        g = d[i + way] - p
        turned = (d[i] - g) * sine + 2 * cosine * b
        p = sine * turned
        d[i + way] = g + p
        g = cosine * turned - b
        if vectors:
            _rotate(m, z, i, i + way, cosine, sine)
        going = i != begin
        i = i - way
    d[begin] = d[begin] - p
    work[0, begin + shift] = g


@inline
def _is_small(m, d, work, at, squared):
    """Whether an element beside the diagonal is as good as 0."""
    epsilon, least = _PRECISION[SIZE[d.type]], _LEAST[SIZE[d.type]]
    size, x, y = m.real_abs(work[0, at]), m.real_abs(d[at]), m.real_abs(d[at + 1])
    if squared:
        return size * size <= epsilon * epsilon * x * y + least
    return (size == 0) | (size <= m.sqrt(x) * m.sqrt(y) * epsilon)


@inline
def _diagonalise(m, d, work, z, vectors):
    """Rotates until nothing is left beside the diagonal; whether something is after all turns."""
    n, turns, start = d.n, m.value(0, "i64"), m.value(0, "i64")
    while (start < n) & (turns < _TURNS * n):
        stop = start + 0
        while stop < n - 1:
            if _is_small(m, d, work, stop, False):
                work[0, stop] = m.value(0, d.type)
                break
            stop = stop + 1
        forth = ~(m.real_abs(d[stop]) < m.real_abs(d[start]))
        way = m.where(forth, m.value(1, "i64"), -1)
        begin, last = m.where(forth, start, stop), m.where(forth, stop, start)
        shift = (way - 1) >> 1
        start = stop + 1
        while ((last - begin) * way >= 0) & (turns < _TURNS * n):
            end = begin + 0
            while end != last:
                if _is_small(m, d, work, end + shift, True):
                    work[0, end + shift] = m.value(0, d.type)
                    break
                end = end + way
            if end == begin:
                begin = begin + way
            else:
                if end == begin + way:
                    _solve_pair(m, d, work, z, begin + shift, vectors)
                    begin = begin + way * 2
                else:
                    _sweep(m, d, work, z, begin, end, way, vectors)
                    turns = turns + 1
    return turns >= _TURNS * n


@inline
def _sort(m, d, z, vectors):
    n = d.n
    for i in as_written(n - 1):
        least = i + 0
        for j in as_written(i + 1, n):
            if d[j] < d[least]:
                least = j
        if least != i:
            x = d[least]
            d[least] = d[i]
            d[i] = x
            if vectors:
                for c in as_written(n):
                    y = z[least, c]
                    z[least, c] = z[i, c]
                    z[i, c] = y


@kernel("(n,n)->(n),(n,n),(),(n,n),(k,n)")
def spectrum(m, a, d, z, info, w, work, upper, vectors):
    """The eigenvalues of a symmetric matrix of which one triangle is read, rising; its eigenvectors, as rows; whether that failed."""
    n, most = a.n, m.value(0, a.type)
    for i in as_written(n):
        for j in as_written(i + 1):
            x = a[j, i] if upper else a[i, j]
            w[i, j] = x
            w[j, i] = x
            most = m.maximum(most, m.real_abs(x))
    scaled = (most > 0) & ((most < _LOW) | (most > _HIGH))
    if scaled:
        for i in as_written(n):
            for c in as_written(n):
                w[i, c] = w[i, c] / most
    for i in as_written(n - 1):
        _reflect(m, w, d, work, i)
    d[n - 1] = w[n - 1, n - 1]
    if vectors:
        _product(m, w, z)
    info[()] = m.cast(_diagonalise(m, d, work, z, vectors), "i32")
    _sort(m, d, z, vectors)
    if scaled:
        for i in as_written(n):
            d[i] = d[i] * most
