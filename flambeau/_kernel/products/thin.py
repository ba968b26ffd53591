"""Products that are no work for tiles: of many rows with a tiny matrix, as points are mapped; of matrices that are scaled for each row."""

from __future__ import annotations

from ..loops.lang import Array, independent, kernel
from ..render.value import SIZE

MOST = 4  # rows and columns of the tiny matrix


def _elements(matrix, inner, outer):
    return [[matrix[k, j] for j in range(outer)] for k in range(inner)]


def _dense(a, columns):
    """The same operand, whose rows are known to follow one another: neighbours are loaded together."""
    size = SIZE[a.type]
    return Array(a.r, a.pointer, a.type, a.shape, [a.r.constant("i64", s) for s in (columns * size, size)])


def _row(x, i, held, out):
    """One row of the product; the elements of the matrix stay in registers."""
    given = [x[i, k] for k in range(len(held))]
    for j in range(len(held[0])):
        total = None
        for value, line in zip(given, held):
            part = value * line[j]
            total = part if total is None else total + part
        out[i, j] = total


@kernel("(m,k),(k,n)->(m,n)")
def thin_product(m, x, y, out, inner, outer, dense):
    """x @ y for a matrix y of `inner` by `outer` elements; the rows of the result, and those of x if `dense`, have no gaps."""
    held = _elements(y, inner, outer)
    given = _dense(x, inner) if dense else x
    made = _dense(out, outer)
    for i in independent(out.shape[0]):
        _row(given, i, held, made)


@kernel("(o),(o,i,j),(j)->(i)")
def mixed(m, g, weight, y, out):
    """The sum of g[o] * weight[o] @ y over o, in which all that PyTorch stores is rounded to 16 bits."""
    for i in range(out.n):
        total = m.value(0.0, "f32")
        for o in range(g.n):
            part = m.value(0.0, "f32")
            for j in range(y.n):
                part = m.loose_add(part, m.stored(g[o] * weight[o, i, j], out.type) * y[j])
            total = m.stored(total + m.stored(part, out.type), out.type)
        out[i] = total
