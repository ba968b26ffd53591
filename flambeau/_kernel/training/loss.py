"""The sum of 16-bit losses."""

from __future__ import annotations

from ..loops.lang import kernel
from ..render.value import COMPUTE


@kernel("(n),(n),()->()")
def cascade_sum(m, x, kept, power, out):
    """A sum with 8 levels of partial sums in the type of the elements: each takes 2**power of those below."""
    kind = COMPUTE.get(x.type, x.type)
    levels = m.local(kind, 8)
    step = power[()]
    mask = (m.value(1, "i64") << step) - 1
    for j in range(8):
        levels[j] = m.value(0, kind)
    for i in range(x.n):
        if kept[i]:
            levels[0] = m.rounded(levels[0] + x[i], x.type)
            going = m.value(1, "b1")
            for j in range(7):
                full = (i & (mask << (step * j))) == 0
                going = going & full
                if going:
                    levels[j + 1] = m.rounded(levels[j + 1] + levels[j], x.type)
                    levels[j] = m.value(0, kind)
    total = m.value(0, kind)
    for j in range(8):
        total = m.rounded(total + levels[j], x.type)
    out[()] = total
