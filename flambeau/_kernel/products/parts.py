"""Products of complex matrices are products of real ones: of real and imaginary parts below each other and side by side."""

from __future__ import annotations

from ..loops.lang import independent, kernel, strands


@kernel("(p)->(k,n)")
def take_apart(m, x, out):
    """The real and the imaginary parts of a row of complex numbers."""
    for i in independent(out.n):
        for j in strands(2):
            out[j, i] = x[i * 2 + j]


@kernel("(k,l,n)->(p)")
def put_together(m, x, out):
    """A row of complex numbers from the four products of its parts."""
    for i in independent(x.n):
        out[i * 2] = x[0, 0, i] - x[1, 1, i]
        out[i * 2 + 1] = x[0, 1, i] + x[1, 0, i]
