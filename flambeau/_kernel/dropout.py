"""The kernel of dropout: elements scaled where they are kept, times zero elsewhere."""

from __future__ import annotations

from .lang import independent, kernel


@kernel("(n),(n),()->(n)")
def masked_scale(m, x, keep, factor, out):
    f = m.cast(factor[()], x.type)
    for i in independent(x.n):
        out[i] = x[i] * m.where(keep[i], f, m.value(0, x.type))
