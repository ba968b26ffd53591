"""The steps of a program: native loops, work for the pool, questions to kernels, and calls of Python functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from .._kernel.folds.rows import in_place
from .._kernel.loops.pointwise import past_caches, recipes
from .._kernel.loops.ufunc import addresses, loops
from .._kernel.native.device_entry import LAUNCH, launch_words, launcher
from .._kernel.native.plan import Plan
from .._kernel.native.runner import OPERANDS
from .._kernel.native.walks import Repeated, Rows, in_long_rows
from .._kernel.threads import pool
from .._ops.plans.patterns import Unplannable
from .._ops.plans.watching import Walk
from .._ops.records.casting import moving
from .graph import Node, Value, values_in
from .memory import MADE, Memory

_SMALL = 1 << 12  # elements that are not worth a question whether threads should share them
_JOBS = 64  # parts of a loop over several dimensions that threads take

Operand = tuple[Memory | None, int]  # a block and bytes from its beginning, or an address


class Step:
    """Something that a program does; `node` is the number of the node that it belongs to."""

    __slots__ = ("node",)
    node: int

    def reads(self) -> Iterator[Memory]:
        yield from ()

    def writes(self) -> Iterator[Memory]:
        yield from ()

    def pairs(self) -> Iterator[tuple[Memory, Memory]]:
        """Operands and results whose elements lie alike: the result can be made in the place of the operand."""
        yield from ()


class Loop(Step):
    """A loop of ours over operands, the results last."""

    __slots__ = ("constants", "dtypes", "long", "operands", "ufunc", "walk")

    def __init__(self, ufunc: Any, dtypes: Sequence[Any], about: Sequence[tuple[Any, Any, Any]], node: int):
        self.ufunc, self.dtypes, self.node = ufunc, dtypes, node
        self.constants: list[Any] = [None] * len(about)
        self.operands: list[Operand] = []
        self.walk = Walk(ufunc, about)
        if 0 in self.walk.lead or 0 in self.walk.cores or len(about) > OPERANDS:
            raise Unplannable("nothing to do, or too much")
        for i, ((where, shape, strides), d) in enumerate(zip(about, dtypes)):
            if isinstance(where, np.ndarray):
                kept = self.constants[i] = where.astype(d, copy=False)
                self.operands.append((None, kept.__array_interface__["data"][0]))
                continue
            memory, offset = where
            low = sum([min(0, (n - 1) * s) for n, s in zip(shape, strides)])
            high = sum([max(0, (n - 1) * s) for n, s in zip(shape, strides)]) + d.itemsize
            if offset + low < memory.low or offset + high > memory.high:
                raise Unplannable("an operand beyond its memory")
            self.operands.append((memory, offset))
        self.long: LongRows | None = None

    def lengthen(self) -> None:
        """Where rows are short, goes over longer ones, for which it needs memory."""
        if not self.ufunc.signature and self.ufunc in addresses:
            self.long = long_rows(self.walk, [d.itemsize for d in self.dtypes], self.ufunc.nout, True)

    def reads(self) -> Iterator[Memory]:
        # kernels and routines of more than elements may read what lies where their results will
        read = self.operands if self.ufunc.signature else self.operands[: self.ufunc.nin]
        return (m for m, _ in read if m is not None)

    def writes(self) -> Iterator[Memory]:
        return chain(
            (m for m, _ in self.operands[self.ufunc.nin :] if m is not None), self.long.memory if self.long else ()
        )

    def pairs(self) -> Iterator[tuple[Memory, Memory]]:
        ways = [[*way, *inner] for way, inner in zip(self.walk.ways, self.walk.inner)]
        if addresses.get(self.ufunc) in in_place:
            first = self.operands[0][0], self.operands[self.ufunc.nin][0]
            return (pair for pair in alike(ways, self.operands, self.ufunc.nout) if pair == first)
        if self.ufunc not in recipes or self.goes_past_caches():
            return iter(())
        return alike(ways, self.operands, self.ufunc.nout)

    def encode(self, plan: Plan) -> None:
        plan.keep.append((self.ufunc, self.constants))
        ufunc = self.ufunc
        if not ufunc.signature and ufunc in addresses:
            if self.goes_past_caches():
                ufunc = past_caches(ufunc)
            encode_pointwise(plan, addresses[ufunc], *loops[ufunc], self.walk, self.long, self.operands)
            return
        dims, steps, outer, strides = self.walk.merged()
        kernel, data = loops[ufunc]
        if ufunc in addresses and math.prod(self.walk.lead) * math.prod(self.walk.cores) < _SMALL:
            kernel, data = addresses[ufunc], None
        if len(outer) > pool.MOST_DIMS:
            raise Unplannable("too many dimensions")
        plan.loop(kernel, data, dims, steps, numbered(self.operands), outer, strides)

    def goes_past_caches(self) -> bool:
        """Whether the result is so large that the caches could not keep it."""
        size = math.prod(self.walk.lead) * self.dtypes[-1].itemsize
        if size < pool.settings[1] or self.ufunc not in recipes or self.ufunc.nout != 1:
            return False
        _, steps, outer, _ = self.walk.merged()
        return not outer and steps[-1] == self.dtypes[-1].itemsize and self.operands[-1] not in self.operands[:-1]


class Fused(Step):
    """Several pointwise loops as one; the last operands are its results. `apart`: these must not lie where operands do."""

    __slots__ = ("apart", "keep", "kernel", "long", "near", "operands", "results", "walk")

    def __init__(
        self, kernel: tuple[int, int, Any], operands: list[Operand], results: int, walk: Any, long: LongRows | None, node: int,
        apart: bool,
    ):  # fmt: skip
        self.kernel, self.operands, self.results, self.node = kernel, operands, results, node
        self.walk, self.long = walk, long
        self.keep: list[Any] = []
        self.apart = apart
        self.near: Callable[[], tuple[int, int, Any]] | None = None  # makes a kernel whose result stays in the caches

    def pairs(self) -> Iterator[tuple[Memory, Memory]]:
        return iter(()) if self.apart else alike(self.walk.ways, self.operands, self.results)

    def reads(self) -> Iterator[Memory]:
        return (m for m, _ in self.operands[: -self.results] if m is not None)

    def writes(self) -> Iterator[Memory]:
        return chain(
            (m for m, _ in self.operands[-self.results :] if m is not None), self.long.memory if self.long else ()
        )

    def encode(self, plan: Plan) -> None:
        plan.keep.append(self.keep)
        encode_pointwise(plan, *self.kernel, self.walk, self.long, self.operands)


def alike(ways: Sequence[Any], operands: Sequence[Operand], results: int) -> Iterator[tuple[Memory, Memory]]:
    """The blocks of operands and results of a loop over elements that have the same steps and begin at the same place."""
    places: dict[Memory | None, set[Any]] = {}
    for (memory, offset), way in zip(operands, ways):
        places.setdefault(memory, set()).add((offset, tuple(way)))
    for (result, offset), way in zip(operands[-results:], ways[-results:]):
        for operand, _ in operands[:-results]:
            if operand is not None and result is not None and operand.low == result.low:
                if places[operand] == places[result] == {(offset, tuple(way))}:
                    yield operand, result


class LongRows:
    """The operands of a loop that are repeated in memory of their own, and how the loop goes over all then."""

    def __init__(self, repeated: list[Repeated], rows: list[Rows]):
        self.repeated, self.rows = repeated, rows
        self.memory = [Memory(MADE, np.empty(one.elements, moving(one.size)[1])) for one in repeated]


def long_rows(walk: Walk, sizes: Sequence[int], results: int, light: bool) -> LongRows | None:
    """Longer rows than a walk over elements of so many bytes has; None if those are long, or no others possible."""
    found = in_long_rows(walk.lead, walk.ways, sizes, results, light)
    return None if found is None or len(found[1][0].outer) > pool.MOST_DIMS else LongRows(*found)


def encode_pointwise(
    plan: Plan, alone: int, kernel: int, data: Any, walk: Walk, long: LongRows | None, operands: Sequence[Operand]
) -> None:
    """A loop over elements: by one thread if there are few, by several otherwise, also where it has to be started again often."""
    work, operands = math.prod(walk.lead), list(operands)
    if long is None:
        dims, steps, outer, strides = walk.merged()
        rows = [Rows(dims[0], steps, outer, strides, [0] * len(operands))]
    else:
        rows = long.rows
        for one, memory in zip(long.repeated, long.memory):
            copy, walk = moving(one.size)[0], Walk.over(*one.ends())
            both = long_rows(walk, [one.size] * 2, 1, True)  # needs no memory
            encode_pointwise(plan, addresses[copy], *loops[copy], walk, both, [operands[one.number], (memory, 0)])
            operands[one.number] = memory, 0
    for row in rows:
        places = [(number, offset + more) for (number, offset), more in zip(numbered(operands), row.begin)]
        _encode_rows(plan, alone, kernel, data, row, places, work)


def _encode_rows(
    plan: Plan, alone: int, kernel: int, data: Any, row: Rows, places: list[tuple[int, int]], work: int
) -> None:
    if work < _SMALL:
        kernel, data = alone, None
    elif row.outer and data is not None and len(places) <= pool.MOST_OPERANDS and work * data[4] >= pool.WORTHWHILE:
        jobs = min(math.prod(row.outer), _JOBS)
        lines = [tuple(line) for line in row.strides]
        words = pool.walk(alone, jobs, len(places), row.length, row.steps, (), tuple(row.outer), lines)
        plan.work(pool.entry(), words, pool.settings[0], [(n, o, 7 + i) for i, (n, o) in enumerate(places)])
        return
    if len(row.outer) > pool.MOST_DIMS:
        raise Unplannable("too many dimensions")
    plan.loop(kernel, data, [row.length], row.steps, places, row.outer, row.strides)


class Work(Step):
    """What the pool does by words, in which operands have their addresses at certain places."""

    __slots__ = ("inside", "kept", "operands", "places", "threads", "words")

    def __init__(
        self, words: Any, threads: int, places: Sequence[int], operands: Sequence[Operand],
        inside: Sequence[tuple[int, int]], kept: Any, node: int,
    ):  # fmt: skip
        self.words, self.threads, self.places, self.operands, self.node = words, threads, places, operands, node
        self.inside = inside  # addresses of the words themselves: (place, bytes from the first)
        self.kept = kept  # what other addresses point to

    def reads(self) -> Iterator[Memory]:
        return (m for m, _ in self.operands if m is not None)

    writes = reads  # nobody knows

    def encode(self, plan: Plan) -> None:
        at = [(number, offset, place) for (number, offset), place in zip(numbered(self.operands), self.places)]
        plan.keep.append(self.kept)
        plan.work(pool.entry(), self.words, self.threads, at, self.inside)


class Together(Step):
    """Loops that threads run side by side: none needs what another makes."""

    __slots__ = ("loops",)

    def __init__(self, loops: list[Loop], node: int):
        self.loops, self.node = loops, node

    def reads(self) -> Iterator[Memory]:
        return (m for loop in self.loops for m in loop.reads())

    def writes(self) -> Iterator[Memory]:
        return (m for loop in self.loops for m in loop.writes())

    def encode(self, plan: Plan) -> None:
        calls, operands = [], []
        for loop in self.loops:
            dims, steps, outer, _ = loop.walk.merged()
            if outer or loop.ufunc not in addresses:
                raise Unplannable("a loop over several dimensions")
            calls.append([(addresses[loop.ufunc], [1] * len(loop.operands), dims, steps)])
            operands.append(numbered(loop.operands))
            plan.keep.append((loop.ufunc, loop.constants))
        words = pool.sequences(calls)
        each = words[2]
        at = [(n, o, pool.HEADER + i * each + 1 + k) for i, own in enumerate(operands) for k, (n, o) in enumerate(own)]
        plan.work(pool.entry(), words, -min(len(calls), pool.settings[0]), at)


class Launch(Step):
    """A launch of a kernel on a GPU, or a call of a library's function there; `made` are blocks that its node makes or writes to."""

    __slots__ = ("call", "keep", "lead", "made", "operands")

    def __init__(
        self, lead: tuple[int, int], call: Any, places: Sequence[Operand], made: Sequence[Memory], keep: Any, node: int
    ):
        self.lead, self.made, self.keep, self.node = (
            lead,
            made,
            keep,
            node,
        )  # `lead`: the launching function, the stream
        kernel, address, sizes, args = call
        self.operands: list[tuple[Memory, int, int]] = []  # block, bytes from its beginning, place among the arguments
        values = [value if source < 0 else 0 for source, value in args]
        for i, (source, offset) in enumerate(args):
            if source >= 0:
                memory, begin = places[source]
                assert memory is not None
                self.operands.append((memory, begin + offset, i))
        self.call = kernel, address, sizes, values

    def reads(self) -> Iterator[Memory]:
        return (m for m, *_ in self.operands)

    def writes(self) -> Iterator[Memory]:
        return iter(self.made)

    def encode(self, plan: Plan) -> None:
        plan.keep.append(self.keep)
        at = [(m.number, m.offset + offset, len(LAUNCH) + i) for m, offset, i in self.operands]
        plan.work(launcher(), launch_words(*self.lead, self.call), 0, at, fails=True)


class LaunchedLoop(Launch):
    """A launch of which is known what it computes of each element, as of a pointwise loop."""

    __slots__ = ("constants", "places", "recipe", "walk")

    def __init__(self, launch: Launch, what: Any, operands: Sequence[Any], places: Sequence[Operand]):
        self.lead, self.call, self.operands, self.keep, self.node = (
            launch.lead,
            launch.call,
            launch.operands,
            launch.keep,
            launch.node,
        )
        self.recipe = what.name, what.body, what.inputs, what.outputs, what.compute
        lead, ways = np.broadcast_shapes(*[a.shape for a in operands]), list[list[int]]()
        self.places: list[Operand] = []
        self.constants: list[Any] = []
        for a in operands:
            number = not hasattr(a, "owner")
            steps = [] if number else [0 if n == 1 else s for n, s in zip(a.shape, a.strides)]
            ways.append([0] * (len(lead) - len(steps)) + steps)
            memory, begin = (None, 0) if number else places[a.owner]
            self.constants.append(np.asarray(a) if number else None)
            self.places.append((memory, begin + (0 if number else a.offset)))
        self.walk = Walk.over(lead, ways)
        self.made = [m for m, _ in self.places[len(what.inputs) :] if m is not None]

    def reads(self) -> Iterator[Memory]:
        return (m for m, _ in self.places[: len(self.recipe[2])] if m is not None)


class Question(Step):
    """An answer of a kernel, on which it depends whether the steps of its node are the right ones."""

    __slots__ = ("answer", "operand")

    def __init__(self, operand: Operand, answer: bool, node: int):
        self.operand, self.answer, self.node = operand, answer, node

    def reads(self) -> Iterator[Memory]:
        yield self.operand[0]  # type: ignore[misc]

    def encode(self, plan: Plan) -> None:
        plan.expect(numbered([self.operand])[0], self.answer)


class Call(Step):
    """A node that Python runs."""

    __slots__ = ("alone", "given", "made", "makes", "places", "what")

    def __init__(self, what: Node, node: int, given: Sequence[Memory], made: Sequence[Memory], makes: bool):
        self.what, self.node, self.given, self.made = what, node, given, made
        operands = list(what.operands())
        self.alone = not operands  # whether its arguments are always the same
        # where its operands are among them, unless some are inside of others
        self.places = [i for i, a in enumerate(what.args) if a.__class__ is Value]
        if what.named or len(self.places) < len(operands):
            self.places = []
        self.makes = makes and bool(self.places)  # whether it only reads what it is given, and makes new tensors

    def reads(self) -> Iterator[Memory]:
        return iter(self.given)

    def writes(self) -> Iterator[Memory]:
        yield from self.made
        yield from self.given


def may_be_python(step: Step) -> bool:
    """Whether it may turn out that Python must run the step's node: where a kernel answers otherwise, or a library refuses."""
    return isinstance(step, Question) or (isinstance(step, Launch) and bool(step.call[1]))


def refuses(step: Step, node: Node) -> bool:
    """Whether Python runs the step's node only to raise an error, which depends on one of its operands."""
    return isinstance(step, Question) and bool(getattr(node.op, "refuses", ""))


def asked(step: Step, node: Node) -> Iterator[Value]:
    """The values that must be there while it is not known whether Python must run the step's node."""
    return values_in(node.args[node.op.names.index(node.op.refuses)]) if refuses(step, node) else node.operands()


def numbered(operands: Sequence[Operand]) -> list[tuple[int, int]]:
    """Operands as plans have them."""
    return [(0, offset) if m is None else (m.number, m.offset + offset) for m, offset in operands]
