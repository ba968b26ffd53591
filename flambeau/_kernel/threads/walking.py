"""How machine code goes over outer dimensions, in the dialect of kernels."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from ..render.value import inline


@inline
def over_all(m, loop, pointers, dims, steps, data, outer, sizes, operands, strides, apart):
    """Runs a loop at every place of outer dimensions. The strides of operands are `apart` bytes from each other."""
    index, turns = m.space(8), 1
    for d in range(outer):
        turns = turns * m.word(sizes, d * 8)
        m.put(index, d * 8, 0)
    over_some(m, loop, pointers, dims, steps, data, index, turns, outer, sizes, operands, strides, apart)


@inline
def over_some(m, loop, pointers, dims, steps, data, index, turns, outer, sizes, operands, strides, apart):
    """The same at so many places, from the one at an `index` on, where the pointers are."""
    last = outer * 8 - 8
    while turns > 0:
        near = turns  # places along the last of the dimensions
        if outer > 0:
            if m.word(sizes, last) - m.word(index, last) < near:
                near = m.word(sizes, last) - m.word(index, last)
            m.put(index, last, m.word(index, last) + near - 1)
        turns -= near
        if operands == 3:  # of most loops
            one, two, three = m.word(strides, last), m.word(strides, apart + last), m.word(strides, 2 * apart + last)
            while near > 1:
                m.run(loop, pointers, dims, steps, data)
                m.put(pointers, 0, m.word(pointers) + one)
                m.put(pointers, 8, m.word(pointers, 8) + two)
                m.put(pointers, 16, m.word(pointers, 16) + three)
                near -= 1
        while near > 1:
            m.run(loop, pointers, dims, steps, data)
            for j in range(operands):
                m.put(pointers, j * 8, m.word(pointers, j * 8) + m.word(strides, j * apart + last))
            near -= 1
        m.run(loop, pointers, dims, steps, data)
        d = last
        while d >= 0:
            reached, back = m.word(index, d) + 1, 0
            if reached == m.word(sizes, d):
                back, reached = reached, 0
            m.put(index, d, reached)
            for j in range(operands):
                step = m.word(strides, j * apart + d)
                m.put(pointers, j * 8, m.word(pointers, j * 8) + step - back * step)
            d -= 8
            if back == 0:
                d = -1
