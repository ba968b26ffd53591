"""Runs a graph: native loops over one arena, in as few calls as there are stretches between steps that Python takes."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from sys import getrefcount
from typing import Any

from .._autograd.engine import ALONE
from .._core.allocation import LARGE
from .._core.layouts import is_disjoint
from .._core.state import CUDA, local
from .._dispatch import backend_of
from .._kernel.native.gifts import giver
from .._kernel.native.runner import runner_on
from .._kernel.native.site import device_layout
from .._tensor import Meta, Tensor, wrap
from .bands import banded
from .breaks import Otherwise
from .fuse import fused, live
from .graph import COMPUTES, Graph, Value
from .lower import Lowering
from .memory import CONSTANT, GIVEN, INPUT, MADE, Host, Memory, give_back, is_temporary, overlay, placed
from .order import beside_derivatives, delayed, draws_first
from .overwritten import without_copies
from .recompute import made_again
from .running import ARENA, DEVICE_ARENA, SCRATCH, Born, Frame, Gifts, Run, Stretch, fresh, layout
from .steps import Call, Launch, Step, asked, may_be_python
from .unread import without_unread
from .writes import Accumulate

_ENDS = 8  # into how many stretches a program is divided to let go of its inputs, at most
_WORTH = 1 << 17  # bytes of inputs that are worth it
_MUCH = 1 << 23  # bytes of an arena from which those that the first run needed besides are worth a call


class Program:
    """A graph that can be run on other inputs.

    >>> import flambeau as torch
    >>> from flambeau._compile.capture import Capture
    >>> x = torch.tensor([1.0, 2.0])
    >>> with Capture([x]) as tape:
    ...     y = x * 3
    >>> program = Program(tape.finish([y]))
    >>> program.run([torch.tensor([2.0, 4.0])])  # finds out what is to be done
    [tensor([ 6., 12.])]
    >>> program.run([torch.tensor([3.0, 5.0])])  # does it
    [tensor([ 9., 15.])]
    """

    def __init__(
        self,
        graph: Graph,
        finish: Callable[[Lowering, Sequence[Tensor]], Lowered] | None = None,
        arenas: list[Any] | None = None,
    ):
        self._arenas: list[Any] = [] if arenas is None else arenas  # that no run uses now; programs may share them
        graph = graph.once()
        without_copies(graph)
        self.graph = beside_derivatives(delayed(draws_first(made_again(graph))))
        self._finish = finish  # chooses the form of what was found out
        without_unread(self.graph.nodes, self.graph.outputs)
        self._lock = threading.Lock()
        self._lowered: Lowered | None = None
        self._others: dict[Any, Lowered] = {}  # forms for other streams of a GPU, and for other choices of algorithms

    def run(self, inputs: Sequence[Tensor], spent: bool = False) -> list[Tensor]:
        """The outputs for these inputs, without history. `spent`: what a list has of inputs that are `passing` is the program's."""
        if not self.graph.engines:
            found = self._lowered
            return self._run(inputs, spent) if found is None or found.device is not None else found.run(inputs, spent)
        states = [(engine, engine.kept()) for engine in self.graph.engines]
        try:
            return self._run(inputs, spent)
        except Otherwise:
            for engine, state in states:
                engine.put_back(state)
            raise

    def _run(self, inputs: Sequence[Tensor], spent: bool) -> list[Tensor]:
        found = self._suitable()
        if found is None:
            with self._lock:
                found = self._suitable()
                if found is None:
                    lowering = Lowering(self.graph, inputs)
                    found = self._formed(lowering, inputs)
                    found.arenas = self._arenas
                    self._lowered = self._others[found.form] = found
                    if found.arena >= _MUCH:
                        give_back()
                    return lowering.outputs
        return found.run(inputs, spent)

    def _formed(self, lowering: Lowering, inputs: Sequence[Tensor]) -> Lowered:
        return Lowered(lowering) if self._finish is None else self._finish(lowering, inputs)

    def _suitable(self) -> Lowered | None:
        """The form for the stream that this thread's launches go to and for how switches stand, if there is one."""
        found = self._lowered
        if found is None or found.device is None:
            return found
        form = backend_of(CUDA).form()
        return found if form == found.form else self._others.get(form)


class Lowered:
    """A program that knows its steps; `least` says of how many elements loops must be to become one."""

    def __init__(self, low: Lowering, least: int | None = None):
        graph = low.graph
        self.inputs, self.outputs, self.places = graph.inputs, graph.outputs, low.places
        self.nodes, self.constants, self.outside = graph.nodes, list(graph.constants.items()), graph.constants
        self.numbers = {v: i for i, v in reversed(list(enumerate(graph.inputs)))}  # of inputs
        for v in self.outputs:
            if v in self.places:
                self.places[v][0].fresh = True
        steps = banded(fused(live(low.steps, set()), set(), least))
        self.parts: list[Any] = []
        self.written = low.written
        self._find_times(steps)
        self.alone = graph.passing
        self.ends = self._ends(steps, graph.passing)
        for i, step in enumerate(steps):
            kind: Any = Stretch
            if isinstance(step, Call):
                kind = Gifts if isinstance(step.what.op, Accumulate) else None
            if kind is None:
                self.parts.append(step)
            elif self.parts and isinstance(self.parts[-1], kind) and i - 1 not in self.ends:
                self.parts[-1].steps.append(step)
            else:
                self.parts.append(kind([step]))
        launches = [step for step in steps if isinstance(step, Launch)]
        self.device = device_layout() if launches else None  # how arrays on a GPU lie
        self.form = backend_of(CUDA).form() if launches else 0
        self.opening = next((i for i, part in enumerate(self.parts) if isinstance(part, Stretch)), -1)
        self._find_memory(steps)
        self._find_tensors()
        self._find_short_way()
        self._frames: list[Frame] = []
        self.arenas: list[Any] = []
        self._native = runner_on(self.device)

    def _find_times(self, steps: list[Step]) -> None:
        """When blocks are used."""
        self.blocks: dict[Memory, None] = {}
        # what a node reads must be there while it is not known whether Python runs it, also if the kernel does without it
        kept = [
            [self.places[v][0] for v in asked(step, self.nodes[step.node])] if may_be_python(step) else []
            for step in steps
        ]
        used = [[*step.reads(), *step.writes()] for step in steps]
        for memory in [m for both in (*used, *kept) for m in both]:
            memory.first, memory.last, memory.instead = -1, -1, None  # there may be other forms of this program
        for i, (now, also) in enumerate(zip(used, kept, strict=True)):
            for memory in now:
                self.blocks[memory] = None
                if memory.first < 0:
                    memory.first = i
                memory.last = i
            for memory in also:
                memory.last = i
        for v in self.outputs:
            if v in self.places:
                self.blocks[self.places[v][0]] = None

    def _ends(self, steps: list[Step], passing: Iterable[Value]) -> set[int]:
        """Steps after which a stretch ends, so that memory of inputs is free when the results of others are made: as much as these take."""
        shown = {self.places[v][0] for v in (*self.outputs, *self.written) if v in self.places}
        self.passing = [
            m for v in passing if v in self.places and (m := self.places[v][0]) not in shown and m.last >= 0
        ]
        least = max(_WORTH, sum([m.nbytes for m in self.passing]) // _ENDS)
        made = [m for m in self.blocks if m.kind == MADE and m.fresh]
        ends, free, gone = set[int](), 0, 0
        for m in sorted(self.passing, key=lambda m: m.last):
            free += m.nbytes
            later = sum([other.nbytes for other in made if other.first > m.last])
            if free >= least and later - gone >= least:
                ends.add(m.last)
                free, gone = 0, gone + free
        return ends

    def _find_memory(self, steps: list[Step]) -> None:
        """Numbers blocks, and gives those that nobody keeps places in the arena."""
        blocks = self.blocks
        self.temporary = [m for m in blocks if is_temporary(m)]
        self.fresh = [m for m in blocks if m.kind == MADE and m.fresh]
        since = self._possible(steps)
        overlay([(i, *pair) for i, step in enumerate(steps) for pair in step.pairs()], since)
        hosts = [(m, since[m], m.first) for m in since if m.nbytes >= LARGE]
        hosts += [(m, m.last + 1, len(steps)) for m in self._read()]
        self.arena, self.device_arena = [self._arranged(hosts, device) for device in (False, True)]
        self.overwritten = sorted({m.host.source for m in self.temporary if m.host and m.host.kind == INPUT})
        momentary = [m for m in self.temporary if m.momentary]
        self.scratch = placed(momentary)
        own = [m for m in blocks if not is_temporary(m)]
        for number, memory in enumerate(own, SCRATCH + 1):
            memory.number = number
        for memory in self.temporary:
            memory.number = memory.host.number if memory.host else DEVICE_ARENA if memory.device else ARENA
        for memory in momentary:
            memory.number = SCRATCH
        self.operands = SCRATCH + 1 + len(own)
        self.from_inputs = [(m.number, m.source) for m in blocks if m.kind == INPUT]
        self.from_constants = [(m.number, m.source) for m in blocks if m.kind == CONSTANT]
        native = [step for step in steps if not isinstance(step, Call)]
        self.given = {m for step in native for m in (*step.reads(), *step.writes()) if m.kind == GIVEN}

    def _possible(self, steps: Sequence[Step]) -> dict[Memory, int]:
        """From which step on each result may be there: not before one that may free memory, unless there is less then than there will be."""
        starts = [0, *[end + 1 for end in sorted(self.ends)]]  # of stretches between which inputs are let go of
        natural = {m: bisect_right(starts, m.first) - 1 for m in self.fresh if not m.low}
        levels = [sum([m.nbytes for m in self.passing if m.last >= start]) for start in starts]
        levels = [n + sum([m.nbytes for m, own in natural.items() if own <= k]) for k, n in enumerate(levels)]
        calls = [
            i for i, step in enumerate(steps) if isinstance(step, Call) and step.what.opaque not in (False, COMPUTES)
        ]
        found, most = dict[Memory, int](), max(levels)
        for m in sorted(natural, key=lambda m: -m.first):  # those that are written last have room for longest
            k = natural[m]
            while k and levels[k - 1] + m.nbytes <= most:
                k -= 1
                levels[k] += m.nbytes
            called = bisect_right(calls, m.first)
            found[m] = max(starts[k], calls[called - 1] + 1 if called else 0)
        return found

    def _read(self) -> list[Memory]:
        """Inputs in which others may lie when they have been read, as these stay to the end. Arrays on a GPU do not tell who else has their memory."""
        final = max(self.ends, default=-1)
        return [
            m for m in self.passing
            if m.last > final and m.nbytes >= LARGE and not m.device and _fills(v := self.inputs[m.source], m) and self.alone[v]
        ]  # fmt: skip

    def _arranged(self, hosts: Sequence[Host], device: bool) -> int:
        """Gives blocks of one device places; how large its arena is."""
        own = [m for m in self.temporary if m.device == device and not m.momentary]
        return placed(own, [host for host in hosts if host[0].device == device])

    def _find_tensors(self) -> None:
        """Which values Python needs, and until which step."""
        last: dict[Value, int] = {}

        def need(v: Value, part: int) -> None:
            if last.get(v, -1) >= part:
                return
            last[v] = part
            place = self.places.get(v)
            if v.node is not None and place is not None and place[0].kind != MADE and place[0].source is not v:
                for parent in v.node.operands():
                    need(parent, part)

        for i, part in enumerate(self.parts):
            for step in getattr(part, "steps", [part]):
                if isinstance(step, Call):
                    for v in step.what.operands():
                        need(v, i)
                own = step.what.outs if isinstance(step, Call) else ()
                for memory in (*step.reads(), *step.writes()):
                    if memory.kind == GIVEN and memory.source not in own:
                        need(memory.source, i)
        for v in (*self.outputs, *self.written):
            need(v, len(self.parts))
        self.awaited = set(last)
        self.dead: list[list[Value]] = [[] for _ in range(len(self.parts) + 1)]
        for v, i in last.items():  # what Python made: the program's own memory stays
            if v not in self.places or self.places[v][0].kind != MADE:
                self.dead[i].append(v)
        mains: dict[Memory, Value] = {}  # a value that is the whole of its block
        for v in (*self.outputs, *last):
            if v in self.places:
                memory, offset = self.places[v]
                if memory.fresh and not offset and _fills(v, memory):
                    mains.setdefault(memory, v)
        self.born: list[list[Born]] = [[] for _ in range(len(self.parts) + 1)]
        begins = [i for i, part in enumerate(self.parts) for _ in getattr(part, "steps", [part])]
        # inputs that are not needed after a part: their numbers, and those among what the first stretch is given
        self.released: list[list[tuple[int, int | None]]] = [[] for _ in self.parts]
        given = {number: place for place, (_, number) in enumerate(self.from_inputs)}
        for m in self.passing if self.opening >= 0 else ():
            self.released[max(begins[m.last], self.opening)].append((m.source, given.get(m.source)))
        for m in self.fresh:  # made when they are needed: steps before may free memory
            main = mains.get(m)
            self.born[begins[m.first] if m.first >= 0 else -1].append((m, main, layout(m, main)))
        self.layouts = [[about for *_, about in born] for born in self.born]

    # -- running -------------------------------------------------------------------------------------------------------

    def _find_short_way(self) -> None:
        """Whether a run is one native call, whose operands are the inputs, the constants and the outputs."""
        self.used = [i for _, i in self.from_inputs]
        self.known = [t for _, t in self.from_constants]
        self.outer = len(self.used) + len(self.known) if self.opening >= 0 else 0  # tensors from outside
        new = enumerate([(m, v) for born in self.born for m, v, _ in born], self.outer)
        self.new: dict[Any, int] = {}  # which of a run's tensors new blocks are, and the values that they are
        for number, pair in new:
            self.new.update(dict.fromkeys([one for one in pair if one is not None], number))
        self.give = giver(Meta)
        self.at_once = [
            part.at_once(self.awaited, self.new) if isinstance(part, Gifts) else None for part in self.parts
        ]
        only = len(self.parts) == 1 and self.opening == 0 and not self.written and not self.born[-1]
        made = [v for _, v, _ in self.born[0]]
        self.whole = only and len(made) == len(self.outputs) and set(made) == set(self.outputs)
        self.order = [made.index(v) for v in self.outputs] if self.whole and made != self.outputs else []
        # whether a run is one native call without memory of its own
        self.light = self.whole and self.device is None and not (self.arena or self.scratch or self.passing)

    def operands_of(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The tensors from outside that the first stretch is given."""
        return [*[inputs[i] for i in self.used], *self.known]

    def started(self, part: int, frame: Frame, found: list[Tensor]) -> int:
        """Runs a stretch, with those from outside if it is the first; adds the tensors that it makes anew. How many steps are left, or -1
        if none has begun."""
        if self.device is None:
            left: int = self._native(frame.words[part], found)
            if left < 0:
                found += fresh(self.layouts[part])
            return left
        new = fresh(self.layouts[part])
        left = self._native(frame.words[part], [*found, *new] if part == self.opening else new)
        found += new
        return left

    def _own(self, inputs: Sequence[Tensor], spent: bool) -> Sequence[Tensor]:
        """The inputs in a list of which this run may do away with some, and write to the memory of others: that nobody else has."""
        own = inputs if isinstance(inputs, list) and spent else list(inputs)
        for i in self.overwritten:
            t = own[i]
            array = t._array
            if not spent or array.base is not None or max(getrefcount(t), getrefcount(array)) > ALONE + 1:
                own[i] = wrap(array.copy("K"), t.dtype)
        return own

    def run(self, inputs: Sequence[Tensor], spent: bool = False) -> list[Tensor]:
        if self.passing:
            inputs = self._own(inputs, spent)
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = Frame(self)
        if self.light:
            found = [inputs[i] for i in self.used]
            found += self.known
            if self._native(frame.words[0], found) == 0:
                self._frames.append(frame)
                made = found[self.outer :]
                return [made[i] for i in self.order] if self.order else made
        frame.begin(self.arenas)
        outer = local.grad
        try:
            if self.whole:
                found = self.operands_of(inputs)
                if self.started(0, frame, found) == 0:
                    made = found[self.outer :]
                    return [made[i] for i in self.order] if self.order else made
            local.grad = False
            return Run(self, frame, inputs).outputs()
        finally:
            local.grad = outer
            frame.end(self.arenas)
            self._frames.append(frame)


def _fills(v: Value, memory: Memory) -> bool:
    """Whether a value that begins where a block does is all of it."""
    forth = min(v.strides, default=0) >= 0 and is_disjoint(v.shape, v.strides, v.dtype.itemsize)
    return memory.nbytes == v.nbytes and forth
