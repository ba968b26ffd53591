"""Products of complex matrices are products of real ones: of real and imaginary parts in turn, below each other and side by side."""

from __future__ import annotations

from ..loops.lang import independent, kernel, strands


@kernel("(p)->(k,n)")
def take_apart(m, x, out):
    """The real and the imaginary parts of a row of complex numbers."""
    for i in independent(out.n):
        for j in strands(2):
            out[j, i] = x[i * 2 + j]


@kernel("(k,p)->(p)")
def put_together(m, x, out):
    """A row of complex numbers from the products of the real and of the imaginary parts of one with complex numbers."""
    for i in independent(out.n // 2):
        out[i * 2] = x[0, i * 2] - x[1, i * 2 + 1]
        out[i * 2 + 1] = x[0, i * 2 + 1] + x[1, i * 2]
