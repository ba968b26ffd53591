"""Kernels of distances between rows."""

from __future__ import annotations

from ..loops.lang import independent, kernel

BLOCK = 512  # elements that are summed in their own precision


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
