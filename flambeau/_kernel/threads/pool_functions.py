"""The thread pool's functions, in the dialect of `native`.

`take` runs pieces of the published work until none is left, those of its own share first: the same thread gets the same part
of equal operands again and finds it in its core's cache. `serve` is the life of a worker; `run` publishes work, joins
in and waits for those who entered. The other functions are kinds of work: `slice`, `cell`, `part` and `whole` run a
ufunc's loop on a part of its operands (they are told which of the threads they are), `split`, `grid` and `spread` are loops that cut themselves into such parts.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any

from ..render.llvm import NOT_NUMPY
from .walking import over_some

_LINE = 128  # bytes between what different threads write
# What the pool remembers; from _NEXT on, the next piece of each member's share.
_MUTEX, _CONDITION, _GENERATION, _OPEN, _INSIDE, _WORK, _SLEEPERS, _BUSY, _STARTED, _LIMIT, _NEXT = range(
    0, 11 * _LINE, _LINE
)
_OPERANDS, _DIMS = 16, 8  # at most
# Where `part` finds things in its words; `pool.walk` writes them.
BASES, STEPS, SIZES, SHAPE, STRIDES = 7 * 8, 23 * 8, 71 * 8, 87 * 8, 95 * 8


def memory(threads: int) -> int:
    """Words of the pool's own memory."""
    return (_NEXT + threads * _LINE) // 8


def take(m, me):
    state = m.memory()
    function, argument = m.word(state, _WORK), m.word(state, _WORK + 8)
    count, team = m.word(state, _WORK + 16), m.word(state, _WORK + 24)
    for v in range(team):
        owner = me + v
        if owner >= team:
            owner -= team
        following, end = state + _NEXT + owner * _LINE, count * (owner + 1) // team
        while m.glance(following) < end:
            i = m.add(following, 1)
            if i < end:
                m.run(function, argument, i, me)


def serve(m, number, pause, patience):
    state = m.memory()
    seen = 0
    while m.number(1) == 1:
        fresh, turn = m.look(state + _GENERATION), 0
        while (fresh == seen) & (turn < patience):
            m.pause(pause)
            turn += 1
            fresh = m.look(state + _GENERATION)
        if fresh == seen:
            m.call("pthread_mutex_lock", state + _MUTEX)
            m.add(state + _SLEEPERS, 1)
            fresh = m.look(state + _GENERATION)
            while fresh == seen:
                m.call("pthread_cond_wait", state + _CONDITION, state + _MUTEX)
                fresh = m.look(state + _GENERATION)
            m.add(state + _SLEEPERS, -1)
            m.call("pthread_mutex_unlock", state + _MUTEX)
        seen = fresh
        if number < m.glance(state + _LIMIT):
            m.add(state + _INSIDE, 1)
            # Until it is inside, the work that it heard of may have ended, and other work have begun that is for fewer threads.
            if (m.look(state + _OPEN) == 1) & (number < m.look(state + _LIMIT)):
                m.run("take", number + 1)
            m.add(state + _INSIDE, -1)


def run(m, function, argument, count, threads, pause, most):
    state, team = m.memory(), threads
    if count < team:
        team = count
    if team > most:
        team = most
    mine = 0
    if team > 1:
        mine = m.swap(state + _BUSY, 0, 1)
    if mine == 0:  # alone, or inside of other work
        for i in range(count):
            m.run(function, argument, i, 0)
        return
    have, helpers, thread = m.word(state, _STARTED), team - 1, m.space(1)
    if have == 0:
        m.call("pthread_mutex_init", state + _MUTEX, 0)
        m.call("pthread_cond_init", state + _CONDITION, 0)
    while have < helpers:
        if m.short("pthread_create", thread, 0, m.function("serve"), have) != 0:
            break  # the system gives no more
        m.call("pthread_detach", m.word(thread))
        have += 1
        m.put(state, _STARTED, have)
    m.put(state, _WORK, function)
    m.put(state, _WORK + 8, argument)
    m.put(state, _WORK + 16, count)
    m.put(state, _WORK + 24, team)
    for o in range(team):
        m.set(state + _NEXT + o * _LINE, count * o // team)
    m.set(state + _LIMIT, helpers)
    m.set(state + _OPEN, 1)
    m.add(state + _GENERATION, 1)
    if m.look(state + _SLEEPERS) != 0:
        m.call("pthread_mutex_lock", state + _MUTEX)
        m.call("pthread_cond_broadcast", state + _CONDITION)
        m.call("pthread_mutex_unlock", state + _MUTEX)
    m.run("take", 0)
    m.set(state + _OPEN, 0)
    while m.look(state + _INSIDE) != 0:
        m.pause(pause)
    m.set(state + _BUSY, 0)


def part(m, given, job, me):
    """Rows of a loop over outer dimensions; where its description and its operands are. Words of the description: kernel, operands,
    rows, settings of the pool, jobs, outer dimensions, sizes, then room for operands, steps, sizes, shape, strides of each operand."""
    w, bases = m.word(given), m.word(given, 8)
    places, extents, index = m.space(_OPERANDS), m.space(_OPERANDS), m.space(_DIMS)
    operands, rows, jobs, outer = m.word(w, 8), m.word(w, 16), m.word(w, 32), m.word(w, 40)
    for c in range(m.word(w, 48)):
        m.put(extents, c * 8, m.word(w, SIZES + c * 8))
    low, d = rows * job // jobs, outer
    turns, rest = rows * (job + 1) // jobs - low, low
    if turns <= 0:
        return
    for q in range(operands):
        m.put(places, q * 8, m.word(bases, q * 8))
    while d > 0:
        d -= 1
        n = m.word(w, SHAPE + d * 8)
        m.put(index, d * 8, rest % n)
        for q in range(operands):
            m.put(places, q * 8, m.word(places, q * 8) + rest % n * m.word(w, STRIDES + (q * _DIMS + d) * 8))
        rest = rest // n
    loop, shape, strides, apart = m.word(w), w + SHAPE, w + STRIDES, 8 * _DIMS
    over_some(m, loop, places, extents, w + STEPS, NOT_NUMPY, index, turns, outer, shape, operands, strides, apart)


def slice(m, w, job, me):
    """A range of a loop. Words: kernel, operands, sizes, jobs, and where operands, extents and steps are."""
    places, extents = m.space(_OPERANDS), m.space(_OPERANDS)
    sizes, jobs, given, steps = m.word(w, 16), m.word(w, 24), m.word(w, 40), m.word(w, 48)
    total, mask = m.word(given), m.number(-1)
    if sizes == 1:
        mask = -64  # whole vectors
    low, high = (total * job // jobs) & mask, (total * (job + 1) // jobs) & mask
    if job + 1 == jobs:
        high = total
    if high <= low:
        return
    for c in range(sizes):
        m.put(extents, c * 8, m.word(given, c * 8))
    m.put(extents, 0, high - low)
    for p in range(m.word(w, 8)):
        m.put(places, p * 8, m.word(m.word(w, 32), p * 8) + m.word(steps, p * 8) * low)
    m.run(m.word(w), places, extents, steps, 0)


def crossing(m, args, dims, steps, operands, results):
    """Whether a result of a loop, the last of its operands, lies across another one, so that elements are right only one after the other.
    (NumPy calls a loop so if it reads each element before it is written over.)"""
    found, last = m.number(0), m.word(dims) - 1
    for r in range(results):
        for p in range(operands - results):
            q = (operands - results + r) * 8
            step, stride = m.word(steps, q), m.word(steps, p * 8)
            place, other = m.word(args, q), m.word(args, p * 8)
            between = other - place
            if between < 0:
                between = 0 - between
            if (step != stride) | (between >= step):  # otherwise an element meets only the one that it is made of
                reach, extent = step * last, stride * last
                if reach < 0:
                    place, reach = place + reach, 0 - reach
                if extent < 0:
                    other, extent = other + extent, 0 - extent
                if (place <= other + extent) & (other <= place + reach):
                    found = m.number(1)
    return found


def split(m, args, dims, steps, data, worthwhile, share, each):
    """A ufunc's loop; its data: kernel, operands, sizes, settings of the pool, what an element costs, results of a pointwise one."""
    n, sizes, threads = m.word(dims), m.word(data, 16), m.word(m.word(data, 24))
    work = n * m.word(data, 32)
    for i in range(sizes - 1):
        work = work * m.word(dims, 8 + i * 8)
    whole = m.number(1)
    if (work >= worthwhile) & (threads >= 2) & (n >= 2):
        whole = m.call("crossing", args, dims, steps, m.word(data, 8), m.word(data, 40))
    if whole != 0:
        m.run(m.word(data), args, dims, steps, 0)
        return
    count, block = work // share, m.space(8)
    if threads < count:
        count = threads
    jobs = each * count
    if n < jobs:
        jobs = n
    m.put(block, 0, m.word(data))
    m.put(block, 8, m.word(data, 8))
    m.put(block, 16, sizes)
    m.put(block, 24, jobs)
    m.put(block, 32, args)
    m.put(block, 40, dims)
    m.put(block, 48, steps)
    m.run("run", m.function("slice"), block, jobs, count)


def bound(m, length, parts, number, unit):
    """Where part `number` of a length begins, at a multiple of `unit`."""
    at = (length + unit - 1) // unit * number // parts * unit
    if at > length:
        at = length
    return at


def cell(m, w, job, me):
    """A part of a product. Words: the grid's data, and where operands, extents (batch, m, k, n, s) and steps are."""
    places, extents = m.space(_OPERANDS), m.space(_DIMS)
    data, bases, given, steps = m.word(w), m.word(w, 8), m.word(w, 16), m.word(w, 24)
    items, rows, columns = m.word(data, 32), m.word(data, 40), m.word(data, 48)
    column, row, item = job % columns, job // columns % rows, job // columns // rows
    first = m.call("bound", m.word(given), items, item, 1)
    top = m.call("bound", m.word(given, 8), rows, row, m.word(data, 56))
    left = m.call("bound", m.word(given, 24), columns, column, m.word(data, 64))
    m.put(extents, 0, m.call("bound", m.word(given), items, item + 1, 1) - first)
    m.put(extents, 8, m.call("bound", m.word(given, 8), rows, row + 1, m.word(data, 56)) - top)
    m.put(extents, 16, m.word(given, 16))
    m.put(extents, 24, m.call("bound", m.word(given, 24), columns, column + 1, m.word(data, 64)) - left)
    m.put(extents, 32, m.word(data, 24))
    if m.word(extents) * m.word(extents, 8) * m.word(extents, 24) <= 0:
        return
    for p in range(m.word(data, 8)):
        place, down, across = m.word(bases, p * 8), m.word(data, 80 + p * 16), m.word(data, 88 + p * 16)
        if p == m.word(data, 16):  # scratch memory
            place += me * m.word(data, 24)
        else:
            place += m.word(steps, p * 8) * first
        if down >= 0:
            place += m.word(steps, down * 8) * top
        if across >= 0:
            place += m.word(steps, across * 8) * left
        m.put(places, p * 8, place)
    m.run(m.word(data), places, extents, steps, 0)


def grid(m, args, dims, steps, data):
    """The loop of a product; its data are those of `pool.gridded`."""
    block, jobs = m.space(4), m.word(data, 32) * m.word(data, 40) * m.word(data, 48)
    m.put(block, 0, data)
    m.put(block, 8, args)
    m.put(block, 16, dims)
    m.put(block, 24, steps)
    m.run("run", m.function("cell"), block, jobs, m.word(data, 72))


def spread(m, args, dims, steps, data):
    """A loop over outer dimensions, whose data describe it as `pool.walk` does."""
    block = m.space(2)
    m.put(block, 0, data)
    m.put(block, 8, args)
    m.run("run", m.function("part"), block, m.word(data, 32), m.word(m.word(data, 24)))


def whole(m, w, job, me):
    """A row of calls, as `pool.sequences` describes them."""
    each, size = m.word(w, 8), m.word(w, 16)
    for i in range(each):
        block = w + 40 + (job * each + i) * size * 8
        if m.word(block) != 0:
            m.run(m.word(block), block + 8, block + m.word(w, 24) * 8, block + m.word(w, 32) * 8, 0)


def pool(m, w, threads, most):
    """The entry: runs work in so many threads, `w` being words of `walk` with operands, or of `sequences` if that number is negative; without
    words it forgets all threads, or gives the address of `split` (1), `grid` (2), `run` (3) or `spread` (4)."""
    if threads == 0:
        for i in range(memory(most)):
            m.put(m.memory(), i * 8, 0)
        return 0
    if w == 0:
        if threads == 1:
            return m.function("split")
        if threads == 2:
            return m.function("grid")
        if threads == 3:
            return m.function("run")
        return m.function("spread")
    if threads < 0:
        m.run("run", m.function("whole"), w, m.word(w), 0 - threads)
        return 0
    block = m.space(2)
    m.put(block, 0, w)
    m.put(block, 8, w + BASES)
    m.run("run", m.function("part"), block, m.word(w, 32), threads)
    return 0


FUNCTIONS: dict[Any, list[str]] = {
    bound: ["length", "parts", "number", "unit"],
    take: ["me"],
    serve: ["number"],
    run: ["function", "argument", "count", "threads"],
    part: ["given", "job", "me"],
    slice: ["w", "job", "me"],
    cell: ["w", "job", "me"],
    whole: ["w", "job", "me"],
    crossing: ["args", "dims", "steps", "operands", "results"],
    split: ["args", "dims", "steps", "data"],
    grid: ["args", "dims", "steps", "data"],
    spread: ["args", "dims", "steps", "data"],
    pool: ["w", "threads"],
}
