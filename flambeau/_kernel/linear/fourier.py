"""Fourier transforms of many rows or columns of moderate length, a vector of them at a time, one in each lane.

A block of rows is brought into lanes by transposing squares in registers, transformed by passes of small radices that
leave the result in order (Stockham's), and brought back. Real numbers count as half as many complex ones.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..building import jit
from ..loops.ufunc import rendered
from ..render.register_tiles import Frame
from ..render.tiles import SCALAR, Plan, Vectors, invoke, joined, lanes, minimum
from ..render.value import SIZE, Value

# What a transform makes: complex from complex, half or all of a spectrum from real numbers, real numbers from half a
# spectrum, the real parts of a complex transform.
COMPLEX, HALF, WHOLE, REAL, REAL_PART = range(5)
_RADICES = (8, 4, 2, 3, 5, 7)
_LOCAL = 64  # points between two radices
_GAP_BITS = 5
_ROOM = 1 << 21  # bytes of the two working buffers, which stay in the second cache or, if that is larger, near it

Pair = tuple[str, str]  # real and imaginary parts

# -- passes ---------------------------------------------------------------------------------------------------------


def _subtract(r: Vectors, a: str, b: str) -> str:
    return r.raw(f"fsub {r.vector} {a}, {b}")


def _negate(r: Vectors, a: str) -> str:
    return r.raw(f"fneg {r.vector} {a}")


def _sum(r: Vectors, a: Pair, b: Pair) -> Pair:
    return r.add(a[0], b[0]), r.add(a[1], b[1])


def _difference(r: Vectors, a: Pair, b: Pair) -> Pair:
    return _subtract(r, a[0], b[0]), _subtract(r, a[1], b[1])


def _times(r: Vectors, a: Pair, w: Pair) -> Pair:
    real = r.multiply_add(a[0], w[0], _negate(r, r.multiply(a[1], w[1])))
    return real, r.multiply_add(a[0], w[1], r.multiply(a[1], w[0]))


def _constant(r: Vectors, value: float) -> str:
    return r.splat(r.constant(r.plan.compute, value).name)


def _turned(r: Vectors, a: Pair) -> Pair:
    """a / i."""
    return a[1], _negate(r, a[0])


def _small(r: Vectors, a: list[Pair]) -> list[Pair]:
    """The transform of few points."""
    n = len(a)
    if n == 1:
        return a
    if n % 2:
        return _small_odd(r, a)
    even, odd = _small(r, a[::2]), _small(r, a[1::2])
    made: list[Any] = [None] * n
    for k in range(n // 2):
        b = odd[k]
        if k * 4 == n:
            b = _turned(r, b)
        elif k:  # eighths: (1 - i) / root 2, and that turned
            root = _constant(r, math.sqrt(0.5))
            c = (r.add(b[0], b[1]), _subtract(r, b[1], b[0]))
            c = (r.multiply(c[0], root), r.multiply(c[1], root))
            b = c if k == 1 else _turned(r, c)
        made[k], made[k + n // 2] = _sum(r, even[k], b), _difference(r, even[k], b)
    return made


def _small_odd(r: Vectors, a: list[Pair]) -> list[Pair]:
    """Points that lie opposite have the same cosines and opposite sines."""
    n, half = len(a), len(a) // 2
    sums = [_sum(r, a[j], a[n - j]) for j in range(1, half + 1)]
    differences = [_difference(r, a[j], a[n - j]) for j in range(1, half + 1)]
    made: list[Any] = [None] * n
    made[0] = functools.reduce(lambda x, y: _sum(r, x, y), sums, a[0])
    for k in range(1, half + 1):
        even, odd = a[0], None
        for j in range(1, half + 1):
            angle = 2 * math.pi * ((j * k) % n) / n
            cosine, sine = _constant(r, math.cos(angle)), _constant(r, math.sin(angle))
            s, d = sums[j - 1], differences[j - 1]
            even = r.multiply_add(s[0], cosine, even[0]), r.multiply_add(s[1], cosine, even[1])
            if odd is None:
                odd = r.multiply(d[0], sine), r.multiply(d[1], sine)
            else:
                odd = r.multiply_add(d[0], sine, odd[0]), r.multiply_add(d[1], sine, odd[1])
        assert odd is not None
        turned = _turned(r, odd)
        made[k], made[n - k] = _sum(r, even, turned), _difference(r, even, turned)
    return made


def _point(r: Vectors, base: str, index: Value) -> str:
    """Where a point is: there is a gap after every few, so that points far apart do not share lines of the cache."""
    return r.at(base, (index + (index >> _GAP_BITS)) * (2 * r.plan.lanes * r.plan.size))


def _load_pair(r: Vectors, base: str, index: Value, re: Value, im: Value) -> Pair:
    start = _point(r, base, index)
    return r.load_vector(r.at(start, re)), r.load_vector(r.at(start, im))


def _store_pair(r: Vectors, base: str, index: Value, re: Value, im: Value, pair: Pair) -> None:
    start = _point(r, base, index)
    r.store_vector(r.at(start, re), pair[0])
    r.store_vector(r.at(start, im), pair[1])


def _factor(r: Vectors, table: str, index: Value) -> Pair:
    """A root of unity of a table, in all lanes."""
    start, size, scalar = r.at(table, index * (2 * r.plan.size)), r.plan.size, SCALAR[r.plan.compute]
    parts = [r.raw(f"load {scalar}, ptr {r.at(start, i * size)}, align {size}") for i in range(2)]
    return r.splat(parts[0]), r.splat(parts[1])


def _step(plan: Plan, radix: int) -> Vectors:
    """step(from, first, by u, by j, to, first, by u, by j, count, roots, root of u*j, of u, of j, offsets of parts).

    For u below `count`, the transform of the points first + u * (by u) + j * (by j), times roots of unity if there are
    any, goes to such places.
    """
    names = ("first", "by_u", "by_j", "to_first", "to_u", "to_j", "count", "root_uj", "root_u", "root_j", "re", "im")
    r = Vectors(f"step{radix}", ["ptr noalias %from", "ptr noalias %to", "ptr noalias %roots", "i1 %turn",
                                 *[f"i64 %{name}" for name in names]], plan)  # fmt: skip
    first, by_u, by_j, to_first, to_u, to_j, count, root_uj, root_u, root_j, re, im = (r.i64(f"%{n}") for n in names)

    def points(turned: bool) -> None:
        with r.loop(r.constant("i64", 0), count) as u:
            start, to, root = first + by_u * u, to_first + to_u * u, root_u * u
            apart = root_j + root_uj * u
            made = _small(r, [_load_pair(r, "%from", start + by_j * j, re, im) for j in range(radix)])
            for j, point in enumerate(made):
                point = _times(r, point, _factor(r, "%roots", root + apart * j)) if turned else point
                _store_pair(r, "%to", to + to_j * j, re, im, point)

    yes, no, end = r.label(), r.label(), r.label()
    r.branch_if(Value(r, "%turn", "b1"), yes, no)
    for label, turned in ((yes, True), (no, False)):
        r.start_block(label)
        points(turned)
        r.branch(end)
    r.start_block(end)
    return r


def _from_halves(plan: Plan) -> Vectors:
    """halves(from, to, points, roots, whole): twice the spectrum of real numbers, given that of pairs of them."""
    r = Vectors("halves", ["ptr noalias %from", "ptr noalias %to", "i64 %n", "ptr noalias %roots", "i1 %whole"], plan)
    n, whole = r.i64("%n"), Value(r, "%whole", "b1")
    re, im = r.constant("i64", 0), r.constant("i64", plan.lanes * plan.size)
    with r.loop(r.constant("i64", 0), (n >> 1) + 1) as k:
        mirrored = n - k
        a = _load_pair(r, "%from", k, re, im)
        b = _load_pair(r, "%from", r.select(k == 0, k, mirrored), re, im)
        even = r.add(a[0], b[0]), _subtract(r, a[1], b[1])
        odd = r.add(a[1], b[1]), _subtract(r, b[0], a[0])
        odd = _times(r, odd, _factor(r, "%roots", k))
        first, second = _sum(r, even, odd), _difference(r, even, odd)
        with r.when(whole):
            _store_pair(r, "%to", n + n - k, re, im, (first[0], _negate(r, first[1])))
            _store_pair(r, "%to", n + k, re, im, second)
        _store_pair(r, "%to", mirrored, re, im, (second[0], _negate(r, second[1])))
        _store_pair(r, "%to", k, re, im, first)
    return r


def _to_halves(plan: Plan) -> Vectors:
    """pairs(from, to, points, roots): the spectrum of pairs of real numbers, given half of theirs; twice as large."""
    r = Vectors("pairs", ["ptr noalias %from", "ptr noalias %to", "i64 %n", "ptr noalias %roots"], plan)
    n, zero = r.i64("%n"), r.constant("i64", 0)
    re, im = zero, r.constant("i64", plan.lanes * plan.size)
    for k in (zero, n):  # those two are real, whatever is given
        r.store_vector(r.at(_point(r, "%from", k), im), "zeroinitializer")
    with r.loop(zero, (n >> 1) + 1) as k:
        a, b = _load_pair(r, "%from", k, re, im), _load_pair(r, "%from", n - k, re, im)
        even = r.add(a[0], b[0]), _subtract(r, a[1], b[1])
        odd = _subtract(r, a[0], b[0]), r.add(a[1], b[1])
        root = _factor(r, "%roots", k)
        odd = _times(r, odd, (root[0], _negate(r, root[1])))
        _store_pair(r, "%to", n - k, re, im, (r.add(even[0], odd[1]), _subtract(r, odd[0], even[1])))
        _store_pair(r, "%to", k, re, im, (_subtract(r, even[0], odd[1]), r.add(even[1], odd[0])))
    return r


# -- rows and columns -------------------------------------------------------------------------------------------------


def _to_lanes(plan: Plan) -> Vectors:
    """gather(from, row, rows, count, to): elements of rows, the last of which is repeated, as a vector each."""
    r = Vectors("gather", ["ptr noalias %from", "i64 %row", "i64 %rows", "i64 %count", "ptr noalias %to"], plan)
    n, size = plan.lanes, plan.size
    last, count = r.i64("%rows") - 1, r.i64("%count")
    starts = [r.at("%from", minimum(r.constant("i64", i), last) * r.i64("%row")) for i in range(n)]
    whole = count & -n

    def block(p: Value, mask: str | None) -> None:
        rows = [r.load_elements(r.at(start, p * size), mask) for start in starts]
        to = _point(r, "%to", p >> 1)  # a square lies within two gaps
        for j, vector in enumerate(r.transpose(rows)):
            r.store_vector(r.at(to, j * n * size), vector)

    with r.loop(r.constant("i64", 0), whole, n) as p:
        block(p, None)
    with r.when(whole < count):
        block(whole, r.lanes_below(count - whole))
    return r


def _from_lanes(plan: Plan) -> Vectors:
    """scatter(from, step, scale, to, row, rows, count): vectors, `step` bytes apart, times a factor as elements of rows."""
    r = Vectors("scatter", [
        "ptr noalias %from", "i64 %step", f"{SCALAR[plan.compute]} %scale", "ptr noalias %to", "i64 %row", "i64 %rows",
        "i64 %count",
    ], plan)  # fmt: skip
    n, size = plan.lanes, plan.size
    last, count = r.i64("%rows") - 1, r.i64("%count")
    starts = [r.at("%to", minimum(r.constant("i64", i), last) * r.i64("%row")) for i in range(n)]
    whole, scale, paired = count & -n, r.splat("%scale"), r.i64("%step") == n * size

    def block(p: Value, mask: str | None) -> None:
        start = _point(r, "%from", r.select(paired, p >> 1, p))
        found = [r.multiply(r.load_vector(r.at(start, r.i64("%step") * j)), scale) for j in range(n)]
        for start, vector in zip(starts, r.transpose(found)):
            r.store_elements(r.at(start, p * size), vector, mask)

    with r.loop(r.constant("i64", 0), whole, n) as p:
        block(p, None)
    with r.when(whole < count):
        block(whole, r.lanes_below(count - whole))
    return r


def _shuffled(r: Vectors, a: str, b: str, picked: list[int]) -> str:
    mask = f"<{len(picked)} x i32> <" + ", ".join(f"i32 {i}" for i in picked) + ">"
    return r.raw(f"shufflevector {r.vector} {a}, {r.vector} {b}, {mask}")


def _load_columns(r: Frame, start: str, row: Value, points: Value, to: str) -> None:
    n, size = r.plan.lanes, r.plan.size
    with r.loop(r.constant("i64", 0), points) as k:
        place = r.at(start, k * row)
        a, b = (r.load_vector(r.at(place, i * n * size), aligned=False) for i in range(2))
        for i in range(2):
            vector = _shuffled(r, a, b, list(range(i, 2 * n, 2)))
            r.store_vector(r.at(_point(r, to, k), i * n * size), vector)


def _store_columns(r: Frame, source: str, scale: str, start: str, row: Value, points: Value) -> None:
    n, size = r.plan.lanes, r.plan.size
    with r.loop(r.constant("i64", 0), points) as k:
        parts = [r.load_vector(r.at(_point(r, source, k), i * n * size)) for i in range(2)]
        a, b = (r.multiply(part, scale) for part in parts)
        for i in range(2):
            picked = [(i * n + lane) // 2 + n * (lane % 2) for lane in range(n)]
            r.store_vector(r.at(start, k * row, i * n * size), _shuffled(r, a, b, picked), aligned=False)


class _Buffers:
    """Two buffers of which each step reads one and writes the other."""

    def __init__(self, r: Frame, room: str, bytes: Value):
        self.r, self.room, self.total = r, room, bytes
        self.slot = r.variable("i64")
        r.write(self.slot, "i64", r.constant("i64", 0))

    @property
    def current(self) -> str:
        return self.r.at(self.room, self.r.read(self.slot, "i64"))

    @property
    def other(self) -> str:
        return self.r.at(self.room, self.total - self.r.read(self.slot, "i64"))

    def exchange(self) -> None:
        self.r.write(self.slot, "i64", self.total - self.r.read(self.slot, "i64"))


def _call_step(r: Frame, radix: Value, *arguments: Any) -> None:
    for each in _RADICES:
        with r.when(radix == each):
            invoke(r, f"step{each}", *arguments)


def _passes(r: Frame, buffers: _Buffers, numbers: str, points: Value, roots: str) -> None:
    """All passes of a transform; an inverse one takes real parts for imaginary ones.

    A pass takes points q + stride * (p + groups * j), for all j below its radix, to q + stride * (radix * p + j). A
    radix is a product of two: what comes between them stays in the first cache.
    """
    part, zero, one = r.plan.lanes * r.plan.size, r.constant("i64", 0), r.constant("i64", 1)
    local = r.fresh()
    r.slots.append(f"  {local} = alloca [{(_LOCAL + 4) * 2 * r.plan.lanes} x {SCALAR[r.plan.compute]}], align 64")
    re = r.word(numbers, 2) * part
    im = r.constant("i64", part) - re
    left, stride_slot = r.variable("i64"), r.variable("i64")
    r.write(left, "i64", points)
    r.write(stride_slot, "i64", one)
    with r.loop(zero, r.word(numbers, 3)) as i:
        a, b = (r.word(r.at(numbers, i * 16), 4 + k) for k in range(2))
        radix = a * b
        groups = r.value(f"udiv i64 {r.read(left, 'i64').name}, {radix.name}", "i64")
        stride = r.read(stride_slot, "i64")
        source, to, span = buffers.current, buffers.other, groups * stride
        single, double, end = r.label(), r.label(), r.label()
        r.branch_if(b == 1, single, double)
        r.start_block(single)
        with r.loop(zero, groups) as p:
            at = p * stride
            _call_step(r, a, source, to, roots, groups != 1, at, one, span, at * a, one, stride, stride,
                       zero, zero, at, re, im)  # fmt: skip
        r.branch(end)
        r.start_block(double)
        with r.loop(zero, groups) as p, r.loop(zero, stride) as q:
            at = p * stride
            _call_step(r, a, source, local, roots, Value(r, "true", "b1"), at + q, span, span * b, zero, a, one, b,
                       span, zero, zero, re, im)  # fmt: skip
            _call_step(r, b, local, to, roots, groups != 1, zero, one, a, at * radix + q, stride, stride * a, a,
                       zero, at, at * a, re, im)  # fmt: skip
        r.branch(end)
        r.start_block(end)
        r.write(left, "i64", groups)
        r.write(stride_slot, "i64", stride * radix)
        buffers.exchange()


def _rows_main(plan: Plan) -> Vectors:
    r = Frame(plan, 6)
    n, size, zero, scalar = plan.lanes, plan.size, r.constant("i64", 0), SCALAR[plan.compute]
    batch, rows, given, _, _, room, wanted = (r.word("%dims", i) for i in range(7))
    with r.loop(zero, batch) as item:
        x, roots, numbers, scale_at, scratch, out = (r.operand(i, item) for i in range(6))
        kind, points = r.word(numbers, 0), r.word(numbers, 1)
        scale = r.raw(f"load {scalar}, ptr {scale_at}, align {size}")
        base, second = r.aligned(scratch), r.at(roots, points * (2 * size))
        half = (room * size - 64) >> 1
        with r.loop(zero, rows, n) as block:
            first = r.select(rows < n, zero, minimum(block, rows - n))  # the last block overlaps the one before
            used = minimum(rows, n)
            buffers = _Buffers(r, base, half & -64)
            invoke(r, "gather", r.at(x, first * r.core(0)), r.core(0), used, given, buffers.current)
            with r.when(kind == REAL):
                invoke(r, "pairs", buffers.current, buffers.other, points, second)
                buffers.exchange()
            _passes(r, buffers, numbers, points, roots)
            with r.when((kind == HALF) | (kind == WHOLE)):
                invoke(r, "halves", buffers.current, buffers.other, points, second, kind == WHOLE)
                buffers.exchange()
            step = r.select(kind == REAL_PART, r.constant("i64", 2 * n * size), r.constant("i64", n * size))
            to = r.at(out, first * r.core(5))
            invoke(r, "scatter", buffers.current, step, (scalar, scale), to, r.core(5), used, wanted)
    r.clear_float_status()
    return r


def _columns_main(plan: Plan) -> Vectors:
    r = Frame(plan, 6)
    n, size, zero, scalar = plan.lanes, plan.size, r.constant("i64", 0), SCALAR[plan.compute]
    batch, points, elements, _, _, room = (r.word("%dims", i) for i in range(6))
    columns = elements >> 1
    with r.loop(zero, batch) as item:
        x, roots, numbers, scale_at, scratch, out = (r.operand(i, item) for i in range(6))
        scale = r.splat(r.raw(f"load {scalar}, ptr {scale_at}, align {size}"))
        base, half = r.aligned(scratch), (room * size - 64) >> 1
        with r.loop(zero, columns, n) as block:
            offset = minimum(block, columns - n) * (2 * size)
            buffers = _Buffers(r, base, half & -64)
            _load_columns(r, r.at(x, offset), r.core(0), points, buffers.current)
            _passes(r, buffers, numbers, points, roots)
            _store_columns(r, buffers.current, scale, r.at(out, offset), r.core(5), points)
    r.clear_float_status()
    return r


@rendered("(r,a),(t),(f),(),(s)->(r,b)", "", "", "i64", "", "", "")
def rows(type: str) -> str:
    """The ufunc x (rows, elements), roots, numbers, scale, room -> (rows, elements): a transform of each row.

    Complex numbers are two elements. Elements of a row lie side by side; `plan` gives roots, numbers and the room.
    """
    plan = Plan(type, 1)
    parts = [_step(plan, radix) for radix in _RADICES]
    parts += [make(plan) for make in (_from_halves, _to_halves, _to_lanes, _from_lanes)]
    return joined(parts, _rows_main(plan), as_written=False)


@rendered("(n,a),(t),(f),(),(s)->(n,a)", "", "", "i64", "", "", "")
def columns(type: str) -> str:
    """The ufunc x (points, elements), roots, numbers, scale, room -> (points, elements): complex transforms of columns.

    Elements of a row lie side by side, two for each of at least as many columns as a vector has lanes.
    """
    plan = Plan(type, 1)
    return joined([_step(plan, radix) for radix in _RADICES], _columns_main(plan), as_written=False)


# -- plans ------------------------------------------------------------------------------------------------------------


def _factors(n: int) -> list[int] | None:
    """n as a product of pairs of radices, one after the other; None if it has another prime factor."""
    found = []
    for radix in (2, 3, 5, 7):
        while n % radix == 0:
            n //= radix
            found.append(radix)
    if n != 1:
        return None
    twos = found.count(2)
    others = [f for f in found if f != 2]
    parts = -(-twos // 3)  # as few powers of two as possible, of nearly equal size
    powers = [1 << (twos * (i + 1) // parts - twos * i // parts) for i in range(parts)]
    radices = sorted([*powers, *others], reverse=True)
    if len(radices) % 2:
        radices.append(1)
    return radices


@functools.lru_cache(256)
def plan(type: str, kind: int, n: int, inverse: bool) -> tuple[Any, Any, int] | None:
    """(roots of unity, numbers, elements of room) of transforms of n points; None if they are not for this kernel."""
    paired = kind in (HALF, WHOLE, REAL)
    if n < 2 or (paired and n % 2):
        return None
    points = n // 2 if paired else n
    factors = _factors(points)
    across, size = lanes(type), SIZE[type]
    places = -(-(n + 2) // across) * across  # a whole spectrum, two places beyond, whole squares
    places += (places >> _GAP_BITS) + 1
    room = 2 * places * 2 * across + 128 // size
    if factors is None or room * size > max(_ROOM, 3 * jit.cache_size(2) // 2):
        return None
    angles = -2 * np.pi * np.arange(points) / points
    table = [np.exp(1j * angles)]
    if paired:
        table.append(np.exp(-2j * np.pi * np.arange(points // 2 + 1) / n))
    roots = np.concatenate(table).view(np.float64).astype(np.float32 if type == "f32" else np.float64)
    numbers = np.array([kind, points, int(inverse or kind == REAL), len(factors) // 2, *factors], np.int64)
    roots.flags.writeable = numbers.flags.writeable = False
    return roots, numbers, room
