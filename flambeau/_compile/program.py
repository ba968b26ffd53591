"""Runs a graph: native loops over one arena, in as few calls as there are stretches between steps that Python takes."""

from __future__ import annotations

import threading
from array import array as words_of
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core.allocation import LARGE, allocator, empty_strided
from .._core.layouts import is_disjoint
from .._core.state import local
from .._kernel.native.direct import address_function
from .._kernel.native.plan import Plan
from .._kernel.native.runner import run_words, runner, runner_on
from .._tensor import Tensor, bump, detached, storage_of, wrap
from .capture import Accumulate
from .fuse import fused, live
from .graph import Graph, Node, Value, replaced
from .lower import Lowering
from .memory import CONSTANT, GIVEN, INPUT, MADE, Memory, give_back, overlay, placed
from .recompute import made_again
from .steps import Call, Question, Step

_MUCH = 1 << 23  # bytes of an arena from which those that the first run needed besides are worth a call
_array = np.ndarray
Layout = tuple[
    Any, Any, Any, Any, Any, bool
]  # shape, NumPy's dtype, strides in elements and in bytes, dtype, is it small?


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

    def __init__(self, graph: Graph, finish: Callable[[Lowering, Sequence[Tensor]], Lowered] | None = None):
        self.graph, self._finish = made_again(graph.once()), finish  # `finish` chooses the form of what was found out
        self._lock = threading.Lock()
        self._lowered: Lowered | None = None

    def run(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The outputs for these inputs, without history."""
        if self._lowered is None:
            with self._lock:
                if self._lowered is None:
                    lowering = Lowering(self.graph, inputs)
                    self._lowered = Lowered(lowering) if self._finish is None else self._finish(lowering, inputs)
                    if self._lowered.arena >= _MUCH:
                        give_back()
                    return lowering.outputs
        return self._lowered.run(inputs)


class Stretch:
    """Native steps between two that Python takes."""

    def __init__(self, steps: list[Any]):
        self.steps = steps

    def encoded(self) -> tuple[Any, list[int], Plan]:
        """Its words, where in them each step begins, and what they point to."""
        plan, starts = Plan(), []
        for step in self.steps:
            starts.append(8 * len(plan.loops))
            step.encode(plan)
        return words_of("q", plan.loops), starts, plan


class Frame:
    """What one run needs for itself: an arena, the addresses of operands, tables."""

    def __init__(self, program: Lowered):
        self.arena = allocator[0](program.arena, np.uint8)
        address = address_function()
        self.bases = words_of("q", [0] * program.operands)
        start = address(self.arena)
        for memory in program.temporary:
            self.bases[memory.number] = start + memory.offset
        self.at = self.bases.buffer_info()[0]
        self.tables = [s.encoded() if isinstance(s, Stretch) else Stretch([]).encoded() for s in program.parts]
        self.starts = [t[0].buffer_info()[0] for t in self.tables]
        self.words = b""
        if program.whole:
            (part,) = program.parts
            self.words = run_words(self.starts[0], len(part.steps), self.at, program.tensors)


class Lowered:
    """A program that knows its steps; `least` says of how many elements loops must be to become one."""

    def __init__(self, low: Lowering, least: int | None = None):
        graph = low.graph
        self.inputs, self.outputs, self.places = graph.inputs, graph.outputs, low.places
        self.nodes, self.constants = graph.nodes, list(graph.constants.items())
        for v in self.outputs:
            if v in self.places:
                self.places[v][0].fresh = True
        steps = fused(live(low.steps, set()), set(), least)
        self.parts: list[Any] = []
        for step in steps:
            if isinstance(step, Call):
                self.parts.append(step)
            elif self.parts and isinstance(self.parts[-1], Stretch):
                self.parts[-1].steps.append(step)
            else:
                self.parts.append(Stretch([step]))
        self.written = low.written
        self._find_memory(steps)
        self._find_tensors()
        self._find_short_way()
        self._frames: list[Frame] = []

    def _find_memory(self, steps: list[Step]) -> None:
        """Numbers blocks, and gives those that nobody keeps places in the arena."""
        blocks: dict[Memory, None] = {}
        for memory in [m for step in steps for m in (*step.reads(), *step.writes())]:
            memory.first, memory.last, memory.instead = -1, -1, None  # there may be other forms of this program
        for i, step in enumerate(steps):
            for memory in (*step.reads(), *step.writes()):
                blocks[memory] = None
                if memory.first < 0:
                    memory.first = i
                memory.last = i
        for v in self.outputs:
            if v in self.places:
                blocks[self.places[v][0]] = None
        for i, step in enumerate(steps):
            if isinstance(step, Question):  # Python may have to take over: what the node reads must be there until then
                for v in self.nodes[step.node].operands():
                    self.places[v][0].last = max(self.places[v][0].last, i)
        for i, memory in enumerate(blocks, 1):
            memory.number = i
        self.operands = 1 + len(blocks)
        made = [m for m in blocks if m.kind == MADE]
        self.temporary = [m for m in made if not m.fresh]
        self.fresh = [m for m in made if m.fresh]
        overlay([(i, *pair) for i, step in enumerate(steps) for pair in step.pairs()])
        self.arena = max(placed(self.temporary), 1)
        self.from_inputs = [(m.number, m.source) for m in blocks if m.kind == INPUT]
        self.from_constants = [(m.number, m.source) for m in blocks if m.kind == CONSTANT]
        native = [step for step in steps if not isinstance(step, Call)]
        self.given = {m for step in native for m in (*step.reads(), *step.writes()) if m.kind == GIVEN}

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
            if isinstance(part, Call):
                for v in part.what.operands():
                    need(v, i)
            for memory in [m for step in getattr(part, "steps", [part]) for m in (*step.reads(), *step.writes())]:
                if memory.kind == GIVEN:
                    need(memory.source, i)
        for v in (*self.outputs, *self.written):
            need(v, len(self.parts))
        self.dead: list[list[Value]] = [[] for _ in range(len(self.parts) + 1)]
        for v, i in last.items():
            self.dead[i].append(v)
        mains: dict[Memory, Value] = {}  # a value that is the whole of its block
        for v in (*self.outputs, *last):
            if v in self.places:
                memory, offset = self.places[v]
                size, whole = v.dtype.itemsize, not offset and memory.nbytes == int(np.prod(v.shape)) * v.dtype.itemsize
                if memory.fresh and whole and is_disjoint(v.shape, v.strides, size) and min(v.strides, default=0) >= 0:
                    mains.setdefault(memory, v)
        self.fresh_values = [(m, mains.get(m)) for m in self.fresh]
        self.born: list[list[tuple[Memory, Value | None, Layout]]] = [[] for _ in range(len(self.parts) + 1)]
        begins = [i for i, part in enumerate(self.parts) for _ in getattr(part, "steps", [part])]
        for m, main in self.fresh_values:  # made when they are needed: steps before may free memory
            self.born[begins[m.first] if m.first >= 0 else -1].append((m, main, _layout(m, main)))
        self.plain_outputs = [v in self.places and self.places[v][0].kind == MADE for v in self.outputs]

    # -- running -------------------------------------------------------------------------------------------------------

    def _find_short_way(self) -> None:
        """Whether a run is one native call, whose operands are the inputs, the constants and the outputs."""
        made = [(m, v) for m, v in self.fresh_values if v is not None]
        only = len(self.parts) == 1 and isinstance(self.parts[0], Stretch) and not self.written
        self.whole = (
            only and runner_on(Tensor) is not None and [v for _, v in made] == list(dict.fromkeys(self.outputs))
        )
        self.whole = self.whole and len(made) == len(self.fresh) == len(self.outputs)
        self.used = [i for _, i in self.from_inputs]
        self.known = [t for _, t in self.from_constants]
        self.tensors = [n for n, _ in (*self.from_inputs, *self.from_constants)] + [m.number for m, _ in made]
        self.results = [_layout(m, v) for m, v in made]

    def run(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = Frame(self)
        if self.whole:
            made = [_new(about) for about in self.results]
            left = runner_on(Tensor)(frame.words, [*[inputs[i] for i in self.used], *self.known, *made])
            if left == 0:
                self._frames.append(frame)
                return made
        outer, local.grad = local.grad, False
        try:
            return _Run(self, frame, inputs).outputs()
        finally:
            local.grad = outer
            self._frames.append(frame)


class _Run:
    """One run of a program."""

    def __init__(self, program: Lowered, frame: Frame, inputs: Sequence[Tensor]):
        self.program, self.frame, self.inputs = program, frame, inputs
        self.tensors: dict[Value, Tensor] = {}
        self.blocks: dict[Memory, Tensor] = {}  # a tensor that keeps each fresh block
        address, bases = address_function(), frame.bases
        for number, i in program.from_inputs:
            bases[number] = address(inputs[i]._array)
        for number, t in program.from_constants:
            bases[number] = address(t._array)

    def _make(self, blocks: Sequence[tuple[Memory, Value | None, Layout]]) -> None:
        """Fresh blocks."""
        address, bases = address_function(), self.frame.bases
        for memory, v, about in blocks:
            t = self.blocks[memory] = _new(about)
            if v is not None:
                self.tensors[v] = t
            bases[memory.number] = address(t._array)

    def outputs(self) -> list[Tensor]:
        program, run, frame = self.program, runner(), self.frame
        for i, part in enumerate(program.parts):
            self._make(program.born[i])
            if isinstance(part, Stretch):
                steps = len(part.steps)
                left = run(frame.starts[i], steps, frame.at)
                while left:
                    begin = self._instead(part, i, steps - left)
                    left = (
                        run(frame.starts[i] + frame.tables[i][1][begin], steps - begin, frame.at)
                        if begin < steps
                        else 0
                    )
            else:
                self._call(part)
            for v in program.dead[i]:
                self.tensors.pop(v, None)
        self._make(program.born[-1])
        for v in program.written:
            bump(self.tensor(v))
        return [self.tensor(v) for v in program.outputs]

    def tensor(self, v: Value) -> Tensor:
        """A value as Python sees it."""
        t = self.tensors.get(v)
        if t is None:
            place = self.program.places.get(v)
            if place is not None and place[0].kind == MADE:
                t = self._part(v, *place)
            elif v.node is None:
                t = self._external(v)
            else:
                node = v.node
                out = node.op(
                    *replaced(node.args, Value, self.tensor), **replaced(node.named or {}, Value, self.tensor)
                )
                t = (out if node.several else (out,))[node.outs.index(v)]
            self.tensors[v] = t
        return t

    def _external(self, v: Value) -> Tensor:
        for mine, t in zip(self.program.inputs, self.inputs):
            if mine is v:
                return detached(t)
        return detached(next(t for mine, t in self.program.constants if mine is v))

    def _part(self, v: Value, memory: Memory, offset: int) -> Tensor:
        block = self.blocks.get(memory)
        if block is None:
            return wrap(
                np.ndarray(v.shape, v.dtype.numpy, self.frame.arena, memory.offset + offset, v.strides), v.dtype
            )
        whole = block._array
        flat = whole.transpose(sorted(range(whole.ndim), key=lambda d: -whole.strides[d])).reshape(-1).view(np.uint8)
        t = wrap(np.ndarray(v.shape, v.dtype.numpy, flat, offset, v.strides), v.dtype)
        t._storage = storage_of(block)
        return t

    def _call(self, step: Call) -> None:
        node = step.what
        if node.op.__class__ is Accumulate and self._given_to_leaf(node):
            return
        out = node.op(*replaced(node.args, Value, self.tensor), **replaced(node.named or {}, Value, self.tensor))
        for v, t in zip(node.outs, out if node.several else (out,)):
            if v is not None:
                self._known(v, _laid(v, t))

    def _known(self, v: Value, t: Tensor) -> None:
        """What a step of Python's gave."""
        self.tensors[v] = t
        place = self.program.places.get(v)
        if place is not None and place[0] in self.program.given and place[0].source is v:
            self.frame.bases[place[0].number] = address_function()(t._array)

    def _given_to_leaf(self, node: Node) -> bool:
        """Gives a leaf its first gradient, if that is new memory that lies as the leaf does; False if the engine must."""
        (v,), (out,) = node.args, node.outs
        meta, t = node.op.leaf._autograd_meta, self.tensors.get(v)
        if t is None or t._storage is not None or out is None:
            return False
        if meta is None or meta.inherited is meta or meta.grad is not None or meta.post_hooks:
            return False
        if t._array.strides != node.op.leaf._array.strides or not local.grad_layout:
            return False
        meta.grad = t
        self._known(out, t)
        return True

    def _instead(self, part: Stretch, number: int, failed: int) -> int:
        """Runs by Python the node whose steps are not the right ones this time, or raises what is wrong; gives the next step."""
        which = part.steps[failed].node
        node: Node = self.program.nodes[which]
        given = replaced(node.args, Value, lambda v: wrap(self.tensor(v)._array.copy(), v.dtype))
        out = node.op(*given)
        for v, t in zip(node.outs, out if node.several else (out,)):
            if v is not None:
                self.tensor(v)._array[...] = t._array
        following = [i for i in range(failed, len(part.steps)) if part.steps[i].node != which]
        return following[0] if following else len(part.steps)


def _layout(memory: Memory, v: Value | None) -> Layout:
    """How a fresh block lies, which is a value or the bytes of several."""
    if v is None:
        return (memory.nbytes,), np.dtype(np.uint8), (1,), (1,), None, memory.nbytes < LARGE
    size = v.dtype.itemsize
    return v.shape, v.dtype.numpy, tuple([s // size for s in v.strides]), v.strides, v.dtype, memory.nbytes < LARGE


def _new(about: Layout) -> Tensor:
    shape, d, strides, steps, dtype, small = about
    return wrap(_array(shape, d, None, 0, steps) if small else empty_strided(shape, d, strides), dtype)


def _laid(v: Value, t: Tensor) -> Tensor:
    """What a step of Python's gave, in memory as it lay when the program was made."""
    t, array = detached(t), t._array
    if not isinstance(array, np.ndarray) or (
        array.shape == v.shape and array.strides == v.strides and t.dtype is v.dtype
    ):
        return t
    if array.shape != v.shape or t.dtype is not v.dtype:
        raise RuntimeError(
            f"a step of a compiled program gave {t.dtype}{list(array.shape)}, where it gave {v.dtype}{list(v.shape)} before"
        )
    if all([n == 1 or s == other for n, s, other in zip(v.shape, v.strides, array.strides)]):
        return t
    made = np.ndarray(v.shape, array.dtype, np.empty(_reach(v), np.uint8), 0, v.strides)
    made[...] = array
    return wrap(made, v.dtype)


def _reach(v: Value) -> int:
    return sum([(n - 1) * s for n, s in zip(v.shape, v.strides)]) + v.dtype.itemsize  # type: ignore[no-any-return]
