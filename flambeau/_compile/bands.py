"""Bands: loops that make and use a large value run over a part of it, then over the next part. The value has room for a part only.

Results of normalization, activations, derivatives and sums of rows go from one loop to the next in the cache of a core, and need no memory of
the program's. A part is what belongs to some of the units (rows, channels) that all these loops go over: each element of a value belongs to
one unit, whose bytes repeat at a distance, as those of a channel do in every image. So each loop does with each element what it did before.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .._kernel.building.llvm import NoCompiler
from .._kernel.folds.rows import streamed
from .._kernel.loops.pointwise import past_caches
from .._kernel.loops.ufunc import addresses
from .._kernel.native import bands
from .._kernel.native.bands import BandLoop
from .._kernel.native.plan import Plan
from .._kernel.render.tiles import strip_bytes
from .._kernel.threads import pool
from .._ops.plans.watching import Walk, cores_of
from .memory import MADE, Memory
from .steps import Call, Fused, Loop, Operand, Step, may_be_python, numbered

_BACK = 12  # steps over which one may move
_MEMBERS = 8  # loops of a band, at most
_LINE = 64
_JOBS = 4  # bands for each thread, if there are so many units

_Dim = tuple[int, int]  # extent, step in bytes
_Pair = tuple[Memory, Memory]


class _Member:
    """A step, and for each operand its dimensions: those over which the kernel is repeated, then those that it knows."""

    def __init__(self, step: Loop | Fused):
        self.step = step
        walk = self.walk = step.walk
        self.results = step.results if isinstance(step, Fused) else step.ufunc.nout
        self.operands: list[Operand] = step.operands
        self.lead: list[list[_Dim]] = [[*zip(walk.lead, way)] for way in walk.ways]
        names = cores_of(step.ufunc.signature) if isinstance(step, Loop) and step.ufunc.signature else []
        sizes = dict(zip(dict.fromkeys([name for core in names for name in core]), walk.cores))
        self.inner: list[list[_Dim]] = [
            [(sizes[name], s) for name, s in zip(core, own)] for core, own in zip(names, walk.inner)
        ] or [[] for _ in walk.ways]
        self.sizes = [d.itemsize for d in step.dtypes] if isinstance(step, Loop) else [
            min([abs(s) for s in way if s], default=1) for way in walk.ways
        ]  # fmt: skip

    def blocks(self) -> Iterator[tuple[int, Memory]]:
        return ((o, m) for o, (m, _) in enumerate(self.operands) if m is not None)

    def written(self) -> Iterator[tuple[int, Memory]]:
        return ((o, m) for o, m in self.blocks() if o >= len(self.operands) - self.results)


def _member(step: Step, asking: set[int]) -> _Member | None:
    """What a step is in a band, if it can be in one."""
    if not isinstance(step, (Loop, Fused)) or step.node in asking or len(step.operands) > bands.OPERANDS:
        return None
    if step.long is not None or (isinstance(step, Loop) and step.ufunc not in addresses):
        return None
    used = [m for m, _ in step.operands if m is not None]
    if any([m.momentary or m.device for m in used]) or any([m.kind != MADE for m in step.writes()]):
        return None
    if any([s < 0 for ways in (step.walk.ways, step.walk.inner) for way in ways for s in way]):
        return None
    return _Member(step)


class _Split:
    """How a member goes over units: dimension `d` is `more` times `units` times `each`."""

    def __init__(self, d: int, more: int, each: int):
        self.d, self.more, self.each = d, more, each


def _splits(member: _Member, operand: int, step: int, units: int) -> Iterator[_Split]:
    """The ways to go over units that are `step` bytes apart in an operand."""
    for d, (n, own) in enumerate(member.lead[operand]):
        if n > 1 and own and step % own == 0 and n % (units * (step // own)) == 0:
            yield _Split(d, n // (units * (step // own)), step // own)


_Way = tuple[int, list[_Split]]  # so many units, and how each member goes over them


class _Band:
    """Steps that may run band by band, in each of some ways."""

    def __init__(self, first: _Member):
        self.members, self.ways = [first], list[_Way]()
        self.made = {m for _, m in first.written()}

    def reads(self) -> set[Memory]:
        return {m for member in self.members for m in member.step.reads()}

    def writes(self) -> set[Memory]:
        return self.made

    def takes(self, member: _Member) -> bool:
        """Adds a member that uses what others made, if all can go over the same units."""
        links = [(o, m) for o, m in member.blocks() if m in self.made]
        if not links or len(self.members) >= _MEMBERS:
            return False
        members, made, (o, memory) = [*self.members, member], self.made | {m for _, m in member.written()}, links[0]
        ways = [
            (units, [*splits, split])
            for units, splits in self.ways or self._begun(memory, member.lead[o])
            for split in _splits(member, o, _steps(self.members, splits, {memory})[memory], units)
            if _fit(members, [*splits, split], units, made)
        ]
        if ways:
            self.members, self.made, self.ways = members, made, ways
        return bool(ways)

    def _begun(self, memory: Memory, dims: Sequence[_Dim]) -> Iterator[_Way]:
        """The ways to go over what the first member made: units that are dimensions of it or of another, the largest first."""
        first = self.members[0]
        o = next(o for o, m in first.written() if m is memory)
        for step, units in sorted({(s, n) for n, s in (*first.lead[o], *dims) if n > 1 and s}, reverse=True):
            for split in _splits(first, o, step, units):
                yield units, [split]

    def finished(self, read: set[Memory]) -> list[Step]:
        """The steps, those in the middle as one if a large value needs no memory then; `read` are blocks that others use."""
        gone = {m for m in self.made if not (m.fresh or m.shown or m in read)} if self.ways else set()
        gone -= {m for member in self.members for _, m in member.written() if _goes_past_caches(member.step)}
        uses = [not gone.isdisjoint([m for _, m in member.blocks()]) for member in self.members]
        steps: list[Step] = [member.step for member in self.members]
        if max([m.nbytes for m in gone], default=0) < strip_bytes():
            return steps
        begin, end = uses.index(True), len(uses) - uses[::-1].index(True)
        for units, splits in self.ways:
            made = _banded(self.members[begin:end], splits[begin:end], units, gone)
            if made is not None:
                return [*steps[:begin], made, *steps[end:]]
        return steps


def _steps(members: Sequence[_Member], splits: Sequence[_Split], made: set[Memory]) -> dict[Memory, int]:
    """How far units are apart in each block that is made."""
    return {
        m: member.lead[o][split.d][1] * split.each
        for member, split in zip(members, splits)
        for o, m in member.blocks()
        if m in made
    }


def _fit(members: Sequence[_Member], splits: Sequence[_Split], units: int, made: set[Memory]) -> bool:
    """Whether elements of each block that is made belong to units, the same for all who use them."""
    steps: dict[Memory, int] = {}
    for member, split in zip(members, splits):
        for o, memory in member.blocks():
            if memory not in made:
                continue
            _, own = member.lead[o][split.d]
            step = own * split.each
            if not step or steps.setdefault(memory, step) != step or memory.low:
                return False
            period = step * units
            others = [dim for d, dim in enumerate(member.lead[o]) if d != split.d] + member.inner[o]
            near = sum([(n - 1) * s for n, s in (*others, (split.each, own)) if s % period])
            if member.operands[o][1] % period + near + member.sizes[o] > step:
                return False
    return True


def _goes_past_caches(step: Step) -> bool:
    return isinstance(step, Loop) and step.ufunc in streamed


def _banded(members: Sequence[_Member], splits: Sequence[_Split], units: int, gone: set[Memory]) -> Banded | None:
    """The steps as one, in which blocks that are `gone` have room for a band; None if that is no good way."""
    unit = sum([m.nbytes // units for m in gone])
    most = min(strip_bytes() // 2 // unit, units // (_JOBS * pool.settings[0]))
    each = max([k for k in range(1, max(1, most) + 1) if units % k == 0])  # units of a band
    if each * unit > strip_bytes():
        return None
    room, places = 0, dict[Memory, int]()
    for m in gone:
        places[m] = room
        room += -(-(m.nbytes // units * each) // _LINE) * _LINE
    loops, operands = list[BandLoop](), list[tuple[Memory | None, int, bool]]()
    for member, split in zip(members, splits):
        walk, apart, ways = member.walk, list[tuple[int, int]](), list[list[int]]()
        inner = [list(own) for own in walk.inner]
        for o, (memory, offset) in enumerate(member.operands):
            way = [0 if n == 1 else s for n, s in member.lead[o]]
            own, step = way[split.d], way[split.d] * split.each
            far = step * units
            if memory in gone:  # what is so far apart is nearer in the room
                near = functools.partial(_near, far, step * each)
                way, inner[o], offset = [*map(near, way)], [*map(near, inner[o])], places[memory] + near(offset)
                far = step * each
            operands.append((memory, offset, memory in gone))
            apart.append((0, bands.room(room)) if memory in gone else (step * each, 0))
            ways.append([*way[: split.d], far, step, own, *way[split.d + 1 :]])
        band = Walk.over([*walk.lead[: split.d], split.more, each, split.each, *walk.lead[split.d + 1 :]], ways)
        band.cores, band.inner = walk.cores, inner
        dims, steps, outer, strides = band.merged()
        more = outer and units // each * math.prod(outer) > math.prod(walk.merged()[2])
        if more or len(outer) > bands.DIMS:  # more short calls take longer than memory does
            return None
        try:
            kernel = _kernel(member, gone, steps)
        except NoCompiler:
            return None
        if kernel is None:
            return None
        loops.append(BandLoop(kernel, dims, steps, outer, strides, apart))
    threads = pool.settings[0]
    memory = Memory(MADE, np.empty(threads * bands.room(room), np.uint8))
    memory.array, memory.momentary = None, True
    made = Banded(members, loops, operands, units // each, memory, threads)
    made.alike = [*_alike(members, splits, units, gone)]
    return made


def _alike(members: Sequence[_Member], splits: Sequence[_Split], units: int, gone: set[Memory]) -> Iterator[_Pair]:
    """Operands in whose places results can be made: in each band they are read before these are written."""
    last = {m: j for j, member in enumerate(members) for _, m in member.blocks()}
    first = {m: j for j, member in reversed([*enumerate(members)]) for _, m in member.written() if m not in gone}
    for operand, i in last.items():
        if operand in gone or operand in first or operand.kind != MADE:
            continue
        for result, j in first.items():
            before = i < j or (i == j and (operand, result) in members[j].step.pairs())
            if before and _fit(members, splits, units, {operand, result}):
                steps = _steps(members, splits, {operand, result})
                if steps[operand] == steps[result]:
                    yield operand, result


def _near(far: int, instead: int, step: int) -> int:
    return step // far * instead + step % far if far else step


def _kernel(member: _Member, gone: set[Memory], steps: Sequence[int]) -> int | None:
    """The address of a step's loop for one thread, if it can be used for operands that lie so."""
    bands.entry()  # there may be no compiler for it
    step = member.step
    kept = all([m not in gone for _, m in member.written()])
    if isinstance(step, Loop):
        return addresses[past_caches(step.ufunc) if kept and step.goes_past_caches() else step.ufunc]
    if step.walk.merged()[1] != list(steps):  # it was made for other steps
        return None
    return step.kernel[0] if kept or step.near is None else step.near()[0]


class Banded(Step):
    """Loops that run band by band. `operands` of all loops: blocks, offsets, and whether these are in the `room`."""

    __slots__ = ("alike", "bands", "loops", "members", "operands", "room", "threads")

    def __init__(
        self, members: Sequence[_Member], loops: list[BandLoop], operands: list[tuple[Memory | None, int, bool]],
        count: int, room: Memory, threads: int,
    ):  # fmt: skip
        self.members, self.loops, self.operands, self.bands, self.room = members, loops, operands, count, room
        self.threads, self.node = threads, members[-1].step.node
        self.alike: list[_Pair] = []

    def pairs(self) -> Iterator[_Pair]:
        return iter(self.alike)

    def reads(self) -> Iterator[Memory]:
        yield from self._used(False)
        yield self.room

    def writes(self) -> Iterator[Memory]:
        yield from self._used(True)
        yield self.room

    def _used(self, written: bool) -> Iterator[Memory]:
        k = 0
        for member in self.members:
            results = len(member.operands) - member.results
            for o, (memory, _) in enumerate(member.operands):
                if memory is not None and not self.operands[k][2] and (o >= results) == written:
                    yield memory
                k += 1

    def encode(self, plan: Plan) -> None:
        words, places = bands.words(self.bands, self.loops)
        operands: list[Operand] = [(self.room if inside else m, offset) for m, offset, inside in self.operands]
        at = [(*pair, place) for pair, place in zip(numbered(operands), [p for own in places for p in own])]
        plan.keep += [member.step for member in self.members]
        plan.work(bands.entry(), words, self.threads, at)


def banded(steps: Sequence[Step]) -> list[Step]:
    """The same program, in which large values that only loops over the same units use are made and used band by band."""
    asking = {step.node for step in steps if may_be_python(step)}
    items: list[Any] = []
    for step in steps:
        member = _member(step, asking)
        if member is None:
            items.append(step)
            continue
        for other in items[: -_BACK - 1 : -1]:
            if isinstance(other, _Band) and other.takes(member):
                break
            if isinstance(other, Call) or _in_the_way(member.step, other):
                items.append(_Band(member))
                break
        else:
            items.append(_Band(member))
    uses: dict[Memory, set[int]] = {}
    for i, item in enumerate(items):
        for memory in {*item.reads(), *item.writes()}:
            uses.setdefault(memory, set()).add(i)
    found: list[Step] = []
    for i, item in enumerate(items):
        if isinstance(item, _Band):
            found += item.finished({m for m in item.made if uses[m] != {i}})
        else:
            found.append(item)
    return found


def _in_the_way(step: Step, other: Any) -> bool:
    """Whether a step, which writes only to memory of the program's, cannot be moved before something else."""
    mine, made = set(step.reads()), set(step.writes())
    reads, writes = set(other.reads()), set(other.writes())
    outside = any([m.kind != MADE or m.shown for m in mine]) and any([m.kind != MADE or m.shown for m in writes])
    return bool(mine & writes or made & (reads | writes)) or outside
