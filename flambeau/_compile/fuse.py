"""Fusion: pointwise loops over one shape become one loop, whose body does what theirs do, in their order and with their rounding.

A step joins an earlier one if nothing between them is in its way. What it reads where that one wrote stays in a register; what nobody
reads later is never written.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from .._backend.cuda_layout import NUMPY, Operand, plan
from .._backend.cuda_watch import Watch as DeviceWatch
from .._core.state import CUDA
from .._dispatch import backend_of
from .._kernel.building.llvm import NoCompiler
from .._kernel.loops.pointwise import LONG, pointwise_loop, recipes, survey
from .._kernel.native.device_plan import ARGUMENTS
from .._kernel.render.value import COMPUTE, PART, SIZE
from .._kernel.threads import pool
from .._ops.plans.watching import Walk
from .memory import MADE, Memory
from .steps import Call, Fused, Launch, LaunchedLoop, Loop, Question, Step, long_rows, may_be_python

_LEAST = 1 << 13  # elements from which a loop less is worth a kernel more
_OPERANDS, _MEMBERS, _INSTRUCTIONS = 12, 24, 1200  # of a fused loop, at most
_KERNELS = 1024  # that are known by what they do
_BACK = 12  # steps over which one may move

Place = tuple[Memory | int, int, tuple[int, ...]]  # a block (or an address), bytes, steps along the dimensions


def live(steps: Sequence[Step], kept: set[Memory]) -> list[Step]:
    """The steps whose results somebody reads; `kept` are blocks that Python reads."""
    wanted, found = set(kept), []
    for step in reversed(steps):
        writes = list(step.writes())
        lasting = any([m in wanted or m.kind != MADE or m.fresh for m in writes])
        if isinstance(step, (Call, Question)) or lasting:
            wanted.update(step.reads())
            found.append(step)
    return found[::-1]


def fused(steps: Sequence[Step], kept: set[Memory], least: int | None = None) -> list[Step]:
    """The same program with fewer loops; those of less than `least` elements stay by themselves."""
    least = _LEAST if least is None else least
    asking = {step.node for step in steps if may_be_python(step)}
    items: list[Any] = []
    for step in steps:
        member = _member(step, least) if step.node not in asking else None
        if member is None:
            items.append(step)
            continue
        lasting = any([m.kind != MADE for m in member.writes()])  # no answer to a question may come too late for it
        for other in items[: -_BACK - 1 : -1]:
            if isinstance(other, _Group) and other.takes(member):
                other.add(member)
                break
            if isinstance(other, Call) or _in_the_way(member, other) or (lasting and isinstance(other, Question)):
                items.append(_Group(member))
                break
        else:
            items.append(_Group(member))
    result = [made for i, item in enumerate(items) for made in _finished(item, items[i + 1 :], kept)]
    for step in result:
        if isinstance(step, Loop):
            step.lengthen()
    return result


class _Member:
    """A pointwise loop: its recipe, and the places of its operands over a shape without dimensions of extent 1."""

    __slots__ = ("constants", "inputs", "lead", "loop", "on_gpu", "outputs", "recipe")

    def __init__(self, loop: Loop | LaunchedLoop):
        self.loop, self.on_gpu = loop, isinstance(loop, LaunchedLoop)
        operands = loop.places if isinstance(loop, LaunchedLoop) else loop.operands
        self.recipe = recipe = loop.recipe if isinstance(loop, LaunchedLoop) else recipes[loop.ufunc]
        dims = [d for d, n in enumerate(loop.walk.lead) if n > 1]
        self.lead = tuple([loop.walk.lead[d] for d in dims])
        places: list[Place] = []
        for (memory, offset), way in zip(operands, loop.walk.ways):
            places.append(
                (offset if memory is None else memory, 0 if memory is None else offset, tuple([way[d] for d in dims]))
            )
        nin = len(recipe[2])
        self.inputs, self.outputs, self.constants = places[:nin], places[nin:], loop.constants

    def reads(self) -> set[Memory]:
        return {m for m, *_ in self.inputs if isinstance(m, Memory)}

    def writes(self) -> set[Memory]:
        return {m for m, *_ in self.outputs if isinstance(m, Memory)}


def _member(step: Step, least: int) -> _Member | None:
    if isinstance(step, LaunchedLoop):
        least = 1  # a launch less is always worth it
    elif not isinstance(step, Loop) or step.ufunc not in recipes:
        return None
    if math.prod(step.walk.lead) < least:
        return None
    member = _Member(step)
    _, _, inputs, outputs, compute = member.recipe
    return None if any([t in PART for t in (*inputs, *outputs, *compute)]) else member


def _in_the_way(member: _Member, other: Any) -> bool:
    """Whether a loop cannot be moved before something else."""
    reads, writes = set(other.reads()), set(other.writes())
    mine, made = member.reads(), member.writes()
    return _meet(mine, writes) or _meet(made, reads | writes)


def _meet(a: set[Memory], b: set[Memory]) -> bool:
    """Whether blocks may share memory, of which some are written: those from outside may be parts of each other, or of what Python was given."""
    return bool(a & b) or (any(map(_is_outside, a)) and any(map(_is_outside, b)))


def _is_outside(memory: Memory) -> bool:
    return memory.kind != MADE or memory.shown


class _Group:
    """Loops that become one."""

    def __init__(self, first: _Member):
        self.lead, self.on_gpu, self.members = first.lead, first.on_gpu, [first]
        self.read: dict[Place, None] = {}
        self.written: dict[Place, None] = {}
        self._note(first)

    def _note(self, member: _Member) -> None:
        for place in member.inputs:
            if isinstance(place[0], Memory) and place not in self.written:
                self.read[place] = None
        self.written.update(dict.fromkeys(member.outputs))

    def add(self, member: _Member) -> None:
        self.members.append(member)
        self._note(member)

    def reads(self) -> set[Memory]:
        return {m for m, *_ in self.read}  # type: ignore[misc]

    def writes(self) -> set[Memory]:
        return {m for m, *_ in self.written}  # type: ignore[misc]

    def takes(self, member: _Member) -> bool:
        """Whether a loop can be one of these, as the last."""
        if member.lead != self.lead or member.on_gpu != self.on_gpu or len(self.members) >= _MEMBERS:
            return False
        written = self.writes()
        for place in member.inputs:
            if place[0] in written and place not in self.written:
                return False
        known = {*self.read, *self.written}
        for place in member.outputs:
            if any([p[0] is place[0] and p != place for p in (*known, *member.inputs)]):
                return False
        outside = {m for m in self.reads() | written | member.reads() | member.writes() if m.kind != MADE}
        if len(outside) > 1 and any([m.kind != MADE for m in written | member.writes()]):
            return False
        places = {*known, *member.inputs, *member.outputs}
        return len(places) <= 2 * _OPERANDS and self.length(member) <= _INSTRUCTIONS

    def length(self, *more: _Member) -> int:
        """Instructions of all bodies."""
        return sum([_length(m.recipe[1], tuple(m.recipe[4])) for m in (*self.members, *more)])


@functools.cache
def _length(body: Any, compute: tuple[str, ...]) -> int:
    """How many instructions the body of a pointwise loop has."""
    return survey(body, compute)[2]


def _finished(item: Any, later: Sequence[Any], kept: set[Memory]) -> list[Step]:
    if not isinstance(item, _Group):
        return [item]
    if len(item.members) > 1:
        read = {m for other in later for m in other.reads()}
        stored = [p for p in item.written if _lasts(p[0], read, kept)]
        ends = {m for m in item.reads() if not _lasts(m, read, kept)}
        made = _Writer(item, stored, ends).loop()
        if made is not None:
            return [made]
    return [m.loop for m in item.members]


def _lasts(memory: Any, read: set[Memory], kept: set[Memory]) -> bool:
    return memory.kind != MADE or memory.fresh or memory in read or memory in kept


class _Body:
    """What a fused loop does with an element: parts as (body, sources with their compute types, types of results), and which values it stores.

    Those that do the same are equal: programs for other sizes have the same kernels, as these know no extents.
    """

    def __init__(self, parts: Sequence[Any], outputs: Sequence[tuple[str, int]]):
        self.parts, self.outputs = parts, outputs
        exact = lambda s: (s[0], repr(s[1]), *s[2:])  # 0.0 and -0.0 are not the same, and NaN is
        self.key = tuple([(body, *map(exact, sources), *types) for body, sources, types in parts]), tuple(outputs)

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, _Body) and self.key == other.key

    def __call__(self, m: Any, *loads: Any) -> Any:
        r = loads[0].r
        made: list[Any] = []
        for function, sources, results in self.parts:
            given = []
            for kind, number, type, inside in sources:
                if kind == "number":
                    value = r.constant(COMPUTE.get(type, type), number)
                else:
                    value = loads[number] if kind == "load" else made[number]
                given.append(m.cast(value, inside))
            out = function(m, *given)
            for value, type in zip(out if isinstance(out, tuple) else (out,), results):
                made.append(r.through(value, type))
        return tuple([loads[number] if kind == "load" else made[number] for kind, number in self.outputs])


@functools.lru_cache(_KERNELS)
def _is_rare(body: _Body, compute: tuple[str, ...]) -> bool:
    return survey(body, compute)[0]


@functools.lru_cache(_KERNELS)
def _kernel(
    body: _Body, inputs: tuple[str, ...], types: tuple[str, ...], compute: tuple[str, ...], steps: tuple[int, ...], stream: bool,
    apart: bool,
) -> Any:  # fmt: skip
    return pointwise_loop(body, inputs, types, compute, steps, stream, apart)


class _Writer:
    """Writes the body of a group."""

    def __init__(self, group: _Group, stored: Sequence[Place], ends: set[Memory]):
        self.group, self.ends = group, ends  # blocks that nobody reads after this loop
        self.loads: dict[tuple[Place, str], int] = {}
        self.keep: list[Any] = []
        self.parts: list[Any] = []  # (body, sources with their compute types, types of results)
        self.count = 0
        values: dict[Place, Any] = {}  # where to find what is at a place: ("load", place) or ("made", number, type)
        self.fits = True
        for member in group.members:
            self._add(member, values)
        self.outputs = [(place, *self._of(values[place], None)) for place in stored]

    def _add(self, member: _Member, values: dict[Place, Any]) -> None:
        _, body, inputs, outputs, compute = member.recipe
        sources = []
        for place, constant, type, inside in zip(member.inputs, member.constants, inputs, compute):
            number = _number(place, constant, type, member.on_gpu)
            if number is not None:
                sources.append(("number", number, type, inside))
            else:
                self.keep.append(constant)
                sources.append((*self._of(values.get(place, ("load", place)), type), inside))
        if (
            len(inputs) == len(outputs) == 1
            and inputs == outputs
            and member.recipe[0] == "cast"
            and sources[0][0] != "number"
        ):
            values[member.outputs[0]] = values.get(member.inputs[0], ("load", member.inputs[0]))  # a copy
            return
        self.parts.append((body, sources, outputs))
        for place, type in zip(member.outputs, outputs):
            values[place] = ("made", self.count, type)
            self.count += 1

    def _of(self, value: Any, type: str | None) -> tuple[str, int, str]:
        """(kind, number, type in memory) of a value that is read as a type."""
        if value[0] == "load":
            place, own = value[1], type
            if own is None:
                own = next((t for p, t in self.loads if p == place), None)
                own = own or f"u{8 * min([abs(s) for s in place[2] if s] or [4])}"
            return "load", self.loads.setdefault((place, own), len(self.loads)), own
        if type is not None and value[2] != type:
            self.fits = False
        return "made", value[1], value[2]

    def loop(self) -> Step | None:
        """The fused loop; None if there cannot be one."""
        parts, outputs = self.parts, [(kind, number) for _, kind, number, _ in self.outputs]
        inputs, types = [t for _, t in self.loads], [t for *_, t in self.outputs]
        places = [*[p for p, _ in self.loads], *[p for p, *_ in self.outputs]]
        if (
            not self.fits
            or not inputs
            or not outputs
            or not parts
            or len(places) > _OPERANDS
            or any([t not in SIZE for t in types])
        ):
            return None

        body = _Body(parts, outputs)
        if self.group.on_gpu:
            return self._launch(body, inputs, types, places)
        walk = Walk.over(self.group.lead, [list(p[2]) for p in places])
        _, steps, outer, _ = walk.merged()
        long = long_rows(walk, [SIZE[t] for t in (*inputs, *types)], len(outputs), self.group.length() < LONG)
        if long is not None:
            steps, outer = long.rows[0].steps, long.rows[0].outer
        if len(outer) > pool.MOST_DIMS:
            return None
        size = math.prod(self.group.lead) * SIZE[types[-1]]
        stream = size >= pool.settings[1] and len(outputs) == 1 and not outer and steps[-1] == SIZE[types[-1]]
        blocks = {p[0] for p in places[: len(inputs)]}
        apart = not any([p[0] in blocks for p in places[len(inputs) :]])
        compute = [COMPUTE.get(t, t) for t in inputs]
        rare = _is_rare(body, tuple(compute))
        stream = stream and apart and not rare
        ways = {p[1:] for p in places[len(inputs) :]}
        apart = apart and not any([p[0] in self.ends and p[1:] in ways for p in places[: len(inputs)]])
        try:
            kernel = _kernel(body, tuple(inputs), tuple(types), tuple(compute), tuple(steps), stream, apart)
        except NoCompiler:  # the loops one by one are there
            return None
        operands: list[Any] = [(None, p[0]) if isinstance(p[0], int) else (p[0], p[1]) for p in places]
        node = self.group.members[-1].loop.node
        made = Fused(kernel, operands, len(outputs), walk, long, node, stream or (rare and apart))
        made.keep = self.keep
        if stream:
            made.near = functools.partial(
                _kernel, body, tuple(inputs), tuple(types), tuple(compute), tuple(steps), False, apart
            )
        return made

    def _launch(self, body: Any, inputs: Sequence[str], types: Sequence[str], places: Sequence[Any]) -> Launch | None:
        """The same as a kernel of a GPU; None if that has more arguments than machine code launches kernels with."""
        backend, count = backend_of(CUDA), len(inputs)
        about = [Operand(self.group.lead, p[2], NUMPY[t]) for p, t in zip(places, (*inputs, *types))]
        lies = [(a.shape, a.strides) for a in about]
        geometry = plan(lies[:count], [a.dtype.itemsize for a in about], lies[count:]).geometry
        if len(about) + len(geometry) > ARGUMENTS:
            return None
        call = backend.pointwise("fused", body, tuple(inputs), tuple(types), tuple([COMPUTE.get(t, t) for t in inputs]))
        watch = DeviceWatch(backend, about, range(count, len(about)))
        with watch:
            call(*watch.given[:count], out=tuple(watch.given[count:]))
        if len(watch.calls) != 1:
            return None
        lead: Any = self.group.members[0].loop.lead  # type: ignore[union-attr]
        return Launch(lead, watch.calls[0], [p[:2] for p in places], [p[0] for p in places[count:]], watch.keep, -1)


def _number(place: Place, constant: Any, type: str, on_gpu: bool) -> Any:
    """The number that a constant operand is, if it is one and the same everywhere."""
    if constant is None or any(place[2]) or (type in ("bf16", "f16") and not on_gpu):  # which are bits on the CPU
        return None
    value = constant.reshape(-1)[0]
    if type == "b1":
        return bool(value)
    return float(value) if type in ("bf16", "f16") or type[0] == "f" else int(value)
