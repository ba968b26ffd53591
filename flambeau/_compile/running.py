"""One run of a lowered program: native stretches over its arena, and what Python does between them."""

from __future__ import annotations

from array import array as words_of
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._backend.blas import workspace
from .._core.allocation import LARGE, allocator, empty_strided
from .._core.once import found_once
from .._core.state import CUDA
from .._dispatch import backend_of
from .._kernel.native.direct import address_function
from .._kernel.native.gifts import gift_words
from .._kernel.native.plan import Plan
from .._kernel.native.runner import operands_in, run_words, runner
from .._tensor import Tensor, bump, detached, storage_of, wrap
from .graph import Node, Value, replaced
from .lower import laid, lies_as
from .memory import INPUT, MADE, Memory
from .steps import Call, may_be_python, refuses

if TYPE_CHECKING:
    from .program import Lowered

# Numbers among the operands of a program: its arenas on the CPU and on a GPU, and the scratch memory of the thread.
ARENA, DEVICE_ARENA, SCRATCH = 1, 2, 3
_KEPT = 1 << 17  # bytes of small results, whose memory may be kept for the next run, at most

# Shape, NumPy's dtype, strides in elements and bytes, dtype, is it small, what makes an array on a GPU (of which it is one, then).
Layout = tuple[Any, Any, Any, Any, Any, bool, Any]
Born = tuple[Memory, Value | None, Layout]  # a block that each run makes anew, and the value that it is, if it is one


class Encoded(NamedTuple):
    """The words of a stretch, where in them each step begins, how many loops come before each and in all, and what the words point to."""

    words: Any
    starts: list[int]
    loops: list[int]
    plan: Plan


class Stretch:
    """Native steps between two that Python takes."""

    def __init__(self, steps: list[Any]):
        self.steps = steps

    def encoded(self) -> Encoded:
        plan, starts, loops = Plan(), [], []
        for step in self.steps:
            starts.append(8 * len(plan.loops))
            loops.append(plan.counts[2])
            step.encode(plan)
        return Encoded(words_of("q", plan.loops), starts, [*loops, plan.counts[2]], plan)


class Gifts:
    """Gradients that leaves are given one after another."""

    def __init__(self, steps: list[Call]):
        self.steps = steps

    @found_once
    def gifts(self) -> list[tuple[Call, Value, Any, Value | None]]:
        """Each step with the gradient, the leaf (a value, if it is given), and what its gradient is then."""
        nodes = [step.what for step in self.steps]
        leaves = [n.args[1] if n.op.leaf is None else n.op.leaf for n in nodes]
        return [(s, n.args[0], leaf, n.outs[0]) for s, n, leaf in zip(self.steps, nodes, leaves)]

    def at_once(self, awaited: Container[Value], new: Mapping[Any, int]) -> bytes | None:
        """What says so, if all can be given in one call: new tensors, by their numbers, to leaves that differ, whose gradients nothing in the program asks for."""
        found, leaves = self.gifts, {id(leaf) for _, _, leaf, _ in self.gifts}
        if len(leaves) < len(found) or any([leaf.__class__ is Value or out in awaited for _, _, leaf, out in found]):
            return None
        return (
            gift_words([(new[v], leaf) for _, v, leaf, _ in found]) if all([v in new for _, v, _, _ in found]) else None
        )


class Frame:
    """What one run needs for itself: an arena, the addresses of operands, tables."""

    def __init__(self, program: Lowered):
        self.needs = program.arena, program.scratch
        self.arena: Any = None
        self.scratch: Any = None
        self.device_arena = backend_of(CUDA).empty((program.device_arena,), np.uint8) if program.device_arena else None
        self.bases = words_of("q", [0] * program.operands)
        if self.device_arena is not None:
            self.bases[DEVICE_ARENA] = address_function()(self.device_arena)
        self.at = self.bases.buffer_info()[0]
        self.tables = [part.encoded() if isinstance(part, Stretch) else None for part in program.parts]
        self.starts = [0 if table is None else table.words.buffer_info()[0] for table in self.tables]
        self.loops = [0 if table is None else table.loops[-1] for table in self.tables]
        outside = [number for number, _ in (*program.from_inputs, *program.from_constants)]
        kept = sum([memory.nbytes for born in program.born for memory, _, about in born if about[5]])
        self.words: list[bytes] = []  # what the runner is given for a part, with a list of tensors
        self._keep: list[Any] = []
        self.graphs: dict[int, Any] = {}  # recordings of parts on a GPU
        for i in range(len(program.parts)):
            born = [(m.number, s, d, steps, t, m.nbytes, small and kept <= _KEPT)
                    for m, _, (s, d, _, steps, t, small, _) in program.born[i]]  # fmt: skip
            given = outside if i == program.opening else []
            if program.device is not None:  # the runner makes memory of the CPU's
                given, born = [*given, *[number for number, *_ in born]], []
            words, keep = run_words(self.starts[i], self.loops[i], self.at, given, born)
            self.words.append(words)
            self._keep.append(keep)

    def begin(self, arenas: list[Any]) -> None:
        """Gets an arena that no run uses, and the scratch memory of this thread, which operations outside of programs use, too."""
        arena, scratch = self.needs
        if arena:
            try:
                self.arena = arenas.pop()
            except IndexError:
                self.arena = None
            if self.arena is None or self.arena.size < arena:
                self.arena = None  # before there is another one
                self.arena = allocator[0](arena, np.uint8)
            self.bases[ARENA] = address_function()(self.arena)
        if scratch:
            self.scratch = workspace.take(scratch)
            self.bases[SCRATCH] = address_function()(self.scratch)

    def end(self, arenas: list[Any]) -> None:
        """Leaves the arena to the next run, also of another program."""
        if self.arena is not None:
            arenas.append(self.arena)
            self.arena = None


def fresh(layouts: Sequence[Layout]) -> list[Tensor]:
    """Tensors for what a part makes anew."""
    return [
        wrap(empty_strided(shape, d, strides), dtype) if on_gpu is None else wrap(on_gpu(shape, d, None, steps), dtype, CUDA)
        for shape, d, strides, steps, dtype, _, on_gpu in layouts
    ]  # fmt: skip


class Run:
    """One run of a program."""

    def __init__(self, program: Lowered, frame: Frame, inputs: Sequence[Tensor]):
        self.program, self.frame = program, frame
        self.inputs: Any = inputs  # a list of the caller's, if some of them are not needed to the end
        self.tensors: dict[Value, Tensor] = {}
        self.found: list[Any] = []  # from outside, for the first stretch, then all that are new

    def outputs(self) -> list[Tensor]:
        program, found = self.program, self.found
        for i, part in enumerate(program.parts):
            kind = part.__class__
            if kind is Stretch:
                if i == program.opening:
                    found += program.operands_of(self.inputs)
                left = program.started(i, self.frame, found)
                if left:
                    self._resume(part, i, left)
            elif kind is Gifts:
                at_once = program.at_once[i]
                if at_once is None or not program.give(at_once, found):
                    self._give(part)
            else:
                self._call(part)
            for v in program.dead[i]:
                self.tensors.pop(v, None)
            for number, place in program.released[i]:
                self.inputs[number] = None
                if place is not None:
                    found[place] = None
        if program.born[-1]:
            found += fresh(program.layouts[-1])
        for v in program.written:
            bump(self.tensor(v))
        return [self.tensor(v) for v in program.outputs]

    # -- values --------------------------------------------------------------------------------------------------------

    def tensor(self, v: Value) -> Tensor:
        """A value as Python sees it."""
        t = self._at_hand(v)
        if t is None:
            place = self.program.places.get(v)
            if place is not None and place[0].kind == MADE:
                t = self._part(v, *place)
            elif v.node is None:
                t = self._external(v)
            else:
                node = v.node
                out = node.op(*replaced(node.args, Value, self.tensor), **replaced(node.named, Value, self.tensor))
                t = (out if node.several else (out,))[node.outs.index(v)]
            self.tensors[v] = t
        return t

    def _at_hand(self, v: Value) -> Tensor | None:
        """A value that is there already."""
        number = self.program.new.get(v)
        return self.tensors.get(v) if number is None else self.found[number]

    def _external(self, v: Value) -> Tensor:
        number = self.program.numbers.get(v)
        return detached(self.program.outside[v] if number is None else self.inputs[number])

    def _as_given(self, v: Value) -> Tensor:
        """A value for an operation that only reads it, or a step: tensors from outside as they are."""
        if v.node is None:
            number = self.program.numbers.get(v)
            return self.program.outside[v] if number is None else self.inputs[number]
        return self.tensor(v)

    def _part(self, v: Value, memory: Memory, offset: int) -> Tensor:
        number, start = self.program.new.get(memory.host or memory), memory.offset + offset
        block = None if number is None else self.found[number]
        if memory.host is not None and memory.host.kind == INPUT:
            block = self.inputs[memory.host.source]
        if memory.device:
            whole: Any = self.frame.device_arena if block is None else block._array
            t = wrap(whole.__class__(v.shape, v.dtype.numpy, whole.data + start, v.strides), v.dtype, CUDA)
        else:
            whole = self.frame.arena if block is None else block._array
            axes = sorted(range(whole.ndim), key=lambda d: -whole.strides[d])
            flat = whole.transpose(axes).reshape(-1).view(np.uint8)
            t = wrap(np.ndarray(v.shape, v.dtype.numpy, flat, start, v.strides), v.dtype)
        if memory.fresh and block is not None:
            t._storage = storage_of(block)
        return t

    def _known(self, v: Value, t: Tensor) -> None:
        """What a step of Python's gave."""
        self.tensors[v] = t
        place = self.program.places.get(v)
        if place is not None and place[0] in self.program.given and place[0].source is v:
            self.frame.bases[place[0].number] = address_function()(t._array)

    # -- what Python does ----------------------------------------------------------------------------------------------

    def _call(self, step: Call) -> None:
        node, args = step.what, list(step.what.args)
        if step.alone:
            out = node.op(*node.args, **node.named)
        elif step.places:
            find = self._as_given if step.makes or node.opaque else self.tensor
            for i in step.places:
                args[i] = find(args[i])
            out = node.op(*args)
        else:
            find = self._as_given if node.opaque else self.tensor
            out = node.op(*replaced(node.args, Value, find), **replaced(node.named, Value, find))
        for v, t in zip(node.outs, out if node.several else (out,)):
            if v is not None:
                if not step.makes or not lies_as(v, t) or any([t is b for b in args]):
                    t = laid(v, t)
                self._known(v, t)

    def _give(self, part: Gifts) -> None:
        """Gives leaves their gradients: a first one that is new memory and lies as the leaf does is simply theirs."""
        awaited = self.program.awaited
        for step, v, leaf, out in part.gifts:
            t, leaf = self._at_hand(v), self._as_given(leaf) if leaf.__class__ is Value else leaf
            meta: Any = leaf._autograd_meta
            first = meta is not None and meta.inherited is not meta and meta.grad is None and not meta.post_hooks
            if first and t is not None and t._storage is None and t._array.strides == leaf._array.strides:
                meta.grad = t
                if out in awaited:
                    self._known(out, t)
            else:
                self._call(step)

    def _resume(self, part: Stretch, number: int, left: int) -> None:
        """Goes on with a stretch that ended early: its first operands could not be found, a kernel answered otherwise, a launch failed."""
        frame, run, table = self.frame, runner(), self.frame.tables[number]
        assert table is not None
        if left < 0:
            given = operands_in(frame.words[number]) if number == self.program.opening else []
            places = [*given[: self.program.outer], *[memory.number for memory, *_ in self.program.born[number]]]
            for t, place in zip(self.found[-len(places) :], places):
                frame.bases[place] = address_function()(t._array)
            left = run(frame.starts[number], frame.loops[number], frame.at)
        while left:
            begin = self._instead(part, table.loops.index(table.loops[-1] - left))
            if begin == len(part.steps):
                break
            left = run(frame.starts[number] + table.starts[begin], table.loops[-1] - table.loops[begin], frame.at)

    def _instead(self, part: Stretch, failed: int) -> int:
        """Runs by Python the node whose steps are not the right ones this time, or raises what is wrong; gives the next step."""
        step = part.steps[failed]
        if not may_be_python(step):
            raise RuntimeError("CUDA error: a kernel of a compiled program could not be launched")
        which = step.node
        node: Node = self.program.nodes[which]
        copied = lambda v: wrap(self.tensor(v)._array.copy(), v.dtype, v.k & CUDA)
        out = node.op(*replaced(node.args, Value, self.tensor if node.writes else copied))
        if refuses(step, node):
            raise RuntimeError(f"{node.name}: an error that was found in {node.op.refuses} is gone")
        for v, t in zip(node.outs, out if node.several else (out,)):
            if v is not None:
                self.tensor(v)._array[...] = t._array
        following = [i for i in range(failed, len(part.steps)) if part.steps[i].node != which]
        return following[0] if following else len(part.steps)


def layout(memory: Memory, v: Value | None) -> Layout:
    """How a fresh block lies, which is a value or the bytes of several."""
    on_gpu, small = backend_of(CUDA).xp.ndarray if memory.device else None, memory.nbytes < LARGE and not memory.device
    if v is None:
        return (memory.nbytes,), np.dtype(np.uint8), (1,), (1,), None, small, on_gpu
    size = v.dtype.itemsize
    return v.shape, v.dtype.numpy, tuple([s // size for s in v.strides]), v.strides, v.dtype, small, on_gpu
