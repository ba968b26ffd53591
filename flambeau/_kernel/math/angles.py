"""Kernels of cosines between rows, with their gradients, and of distances."""

from __future__ import annotations

from ..lang import independent, inline, kernel

BLOCK = 512  # elements that are summed in their own precision


@inline
def _products(m, a, b):
    """The sums of a * a, b * b and a * b."""
    first = m.value(0, "f64")
    second = m.value(0, "f64")
    mixed = m.value(0, "f64")
    for start in range(0, a.n, BLOCK):
        stop = m.minimum(start + BLOCK, a.n)
        one = m.value(0, a.type)
        two = m.value(0, a.type)
        both = m.value(0, a.type)
        for i in range(start, stop):
            one = m.loose_add(one, a[i] * a[i])
            two = m.loose_add(two, b[i] * b[i])
            both = m.loose_add(both, a[i] * b[i])
        first = first + m.cast(one, "f64")
        second = second + m.cast(two, "f64")
        mixed = mixed + m.cast(both, "f64")
    return first, second, mixed


def _length(m, squares, eps, added):
    """A length that is never zero: `eps` at least, or with `eps` added to the squares."""
    return m.real_sqrt(squares + eps) if added else m.maximum(m.real_sqrt(squares), eps)


@kernel("(n),(n),()->()")
def cosine_rows(m, a, b, eps, out, added):
    """The cosine of the angle between two rows."""
    first, second, mixed = _products(m, a, b)
    out[()] = mixed / (_length(m, first, eps[()], added) * _length(m, second, eps[()], added))


@kernel("(),(n),(n),()->(n)")
def cosine_rows_gradient(m, g, a, b, eps, out, added):
    """Its derivative by a, times g; a bound on a length has no part in it."""
    first, second, mixed = _products(m, a, b)
    held = _length(m, first, eps[()], added)
    factor = m.cast(g[()], "f64") / (held * _length(m, second, eps[()], added))
    length = held if added else m.real_sqrt(first)
    across = m.cast(factor, a.type)
    along = m.cast(m.where(length > 0.0, factor * mixed / (held * length), m.value(0, "f64")), a.type)
    for i in independent(a.n):
        out[i] = across * b[i] - along * a[i]


@kernel("(r,n),(c,n)->(r,c)")
def distances(m, a, b, out):
    """The length of the difference of every row of a and every row of b."""
    for r in range(a.shape[0]):
        for c in range(b.shape[0]):
            total = m.value(0, "f64")
            for start in range(0, a.n, BLOCK):
                stop = m.minimum(start + BLOCK, a.n)
                part = m.value(0, a.type)
                for i in range(start, stop):
                    d = a[r, i] - b[c, i]
                    part = m.loose_add(part, d * d)
                total = total + m.cast(part, "f64")
            out[r, c] = m.cast(m.real_sqrt(total), out.type)


@kernel("(n)->()")
def square_length(m, x, out):
    """The sum of squares."""
    total = m.value(0, x.type)
    for i in range(x.n):
        total = m.loose_add(total, x[i] * x[i])
    out[()] = total


@kernel("(),(n)->(n)")
def from_products(m, own, others, out):
    """Turns the products of a row with others into its distances from them, given the squares of their lengths."""
    for i in independent(out.n):
        square = own[()] + others[i] - 2 * out[i]
        out[i] = m.real_sqrt(m.where(square < 0, m.value(0, out.type), square))
