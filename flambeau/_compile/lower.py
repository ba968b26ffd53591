"""Lowering: what a graph does, found by watching its nodes run once.

Each node computes over arrays whose memory is known. Loops of ours, work for the pool and answers of kernels are written down; views
cost nothing. Before a node's steps are used they are carried out in other memory, to see that nothing was done unseen. Whatever
does something else (NumPy, LAPACK, Python's own state) becomes a call that Python makes each time.
"""

from __future__ import annotations

from array import array as words_of
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._backend.copies import fill
from .._backend.cuda_watch import Watch as DeviceWatch
from .._core.allocation import SHARED, allocator
from .._core.collector import uncollected
from .._core.state import CUDA, GRAD, POSTPONED, local
from .._dispatch import backend_of
from .._kernel.native.direct import start_of
from .._kernel.native.plan import Plan
from .._kernel.native.runner import runner
from .._kernel.native.walks import arrangement
from .._ops.plans.patterns import Unplannable
from .._ops.plans.watching import Watch, Watched
from .._ops.records.primitive import Primitive
from .._tensor import Storage, Tensor, bump, detached, wrap
from .births import Born
from .expected import Expect
from .graph import Graph, Node, Value, replaced
from .memory import CONSTANT, GIVEN, INPUT, MADE, Memory
from .steps import Call, Launch, LaunchedLoop, Loop, Question, Step, Together, Work
from .writes import WRITES, write_data


class NodeWatch(Watch):
    """The watch over a node of a program, whose operands lie in known blocks."""

    shows = True

    def __init__(self, blocks: Sequence[Memory]):
        super().__init__()
        self.blocks = list(dict.fromkeys(blocks))
        self.new: list[Memory] = []

    def shown(self, array: Any) -> Any:
        closed = array.view()
        closed.flags.writeable = False
        return closed.view(Watched)

    def empty(self, shape: Any, dtype: Any) -> Any:
        array = allocator[0](shape, dtype)
        if not array.size:
            return self.shown(array)
        memory = Memory(MADE, array)
        self.blocks.append(memory)
        self.new.append(memory)
        return self.shown(array)

    def scratch(self, size: int) -> Any:
        made = self.empty(size, np.uint8)
        for memory in self.new[-1:]:
            memory.momentary = bool(size)
        return made

    def has(self, array: Any) -> bool:
        start = start_of(array)
        return any([m.start <= start < m.stop for m in self.blocks])

    def place(self, array: Any) -> Any:
        return self._at(start_of(np.asarray(array)))

    def _at(self, start: int) -> tuple[Memory, int]:
        found = [m for m in self.blocks if m.start <= start < m.stop]
        if len(found) != 1:
            raise Unplannable("memory that was made elsewhere, or that operands share")
        return found[0], start - found[0].address

    def like(self, ufunc: Any, operands: Any) -> Any:
        arrays = [np.asarray(a) for a in operands]
        shape, strides = arrangement([a for a in arrays if a.ndim] or arrays, False)
        d = np.dtype(ufunc.types[0][-1])
        return self.empty_strided(shape, d, [s * d.itemsize for s in strides])

    def add(self, ufunc: Any, operands: list[Any]) -> None:
        if not self.here():
            raise Unplannable("work of another thread of Python's")
        super().add(ufunc, operands)

    def work(self, words: Any, threads: int, places: Any, inside: Any = (), kept: Any = None) -> None:
        self.calls.append((words, threads, places, [self._at(words[p]) for p in places], inside, kept))

    def move(self, target: Any, source: Any) -> None:
        if isinstance(source, Watched) and source.dtype == target.dtype and target.nbytes >= SHARED:
            apart = source.shape == target.shape and self.place(source)[0] is not self.place(target)[0]
            if apart and not in_order(source, target):  # other copies may join pointwise loops
                fill(target, source)
                return
        super().move(target, source)

    def side_by_side(self, call: Any, jobs: Any) -> None:
        mark = len(self.calls)
        super().side_by_side(call, jobs)
        together = self.calls[mark:]
        if len(together) != len(jobs) or any([len(c) != 3 or c[0] is None for c in together]):
            raise Unplannable("calls that are more than loops")
        self.calls[mark:] = [together]

    def steps(self, node: int) -> list[Step]:
        """What was done."""
        found: list[Step] = []
        for call in self.calls:
            if isinstance(call, list):
                found.append(Together([Loop(ufunc, dtypes, about, node) for ufunc, dtypes, about in call], node))
            elif len(call) == 6:
                words, threads, places, operands, inside, kept = call
                found.append(Work(words, threads, places, operands, inside, kept, node))
            elif call[0] is None:
                found.append(Question(call[2], call[1], node))
            else:
                ufunc, dtypes, about = call
                found.append(Loop(ufunc, dtypes, about, node))
        return found


class Lowering:
    """The first run of a graph: its outputs, and the steps that it took."""

    def __init__(self, graph: Graph, inputs: Sequence[Tensor]):
        self.graph = graph
        self.places: dict[Value, tuple[Memory, int]] = {}
        self.tensors: dict[Value, Tensor] = {}  # of values that Python knows
        self.blocks: list[Memory] = []
        self.steps: list[Step] = []
        self.written: list[Value] = []  # by native loops, whose writes the tensors that others have must count
        self.reasons: dict[int, str] = {}  # why Python runs a node
        last = self.last = dict[Value, int]()  # the node that needs a value last
        for i, node in enumerate(graph.nodes):
            last.update(dict.fromkeys([v for v in (*node.operands(), *node.outs) if v is not None], i))
        ends = len(graph.nodes)
        last.update(dict.fromkeys((*graph.outputs, *graph.inputs, *graph.constants), ends))
        self.outside = {**dict(zip(graph.inputs, inputs)), **graph.constants}
        for i, (v, t) in enumerate(zip(graph.inputs, inputs)):
            self._known(v, detached(t), INPUT, i)
        for v, t in graph.constants.items():
            self._known(v, detached(t), CONSTANT, t)
        outer, local.grad = local.grad, False
        try:
            self._run(last)
        finally:
            local.grad = outer
        self.outputs = [self.tensor(v) for v in graph.outputs]
        self._share_storages()
        for memory in self.blocks:
            memory.array = None
        self.tensors.clear()

    def _share_storages(self) -> None:
        """Outputs in one block have one storage, as in later runs."""
        storages: dict[Memory, Storage] = {}
        for v, t in zip(self.graph.outputs, self.outputs):
            memory = self.places[v][0] if v in self.places else None
            if memory is not None and memory.kind == MADE and t._array.nbytes != memory.nbytes:
                storages.setdefault(memory, Storage(memory.array))
        for v, t in zip(self.graph.outputs, self.outputs):
            if v in self.places and self.places[v][0] in storages:
                t._storage = storages[self.places[v][0]]

    def _run(self, last: dict[Value, int]) -> None:
        users: dict[Memory, set[Value]] = {}  # which values lie in a block, and are needed
        dying: dict[int, list[Value]] = {}
        for v, i in last.items():
            dying.setdefault(i, []).append(v)
        for i, node in enumerate(self.graph.nodes):
            try:
                self._native(node, i)
            except Exception as error:  # whatever it was, Python does it, or says what is wrong
                self.reasons[i] = f"{type(error).__name__}: {error}"
                self._python(node, i)
            for out in node.outs:
                if out is not None and out in self.places:
                    users.setdefault(self.places[out][0], set()).add(out)
            for v in dying.get(i, ()):
                self.tensors.pop(v, None)
                if v in self.places:
                    memory = self.places[v][0]
                    still = users.setdefault(memory, set())
                    still.discard(v)
                    if not still and memory.kind == MADE:
                        memory.array = None

    # -- values --------------------------------------------------------------------------------------------------------

    def _known(self, v: Value, t: Tensor, kind: int, source: Any, among: Sequence[Memory] = ()) -> None:
        """A tensor that Python has."""
        self.tensors[v] = t
        array = t._array
        known = isinstance(array, np.ndarray) if not t._k & CUDA else backend_of(CUDA).ready()
        if not known or not array.size:
            return
        for memory in among:  # it may lie in an operand, or not, when it is made again: that is kept apart, then
            if memory.holds(start_of(array)):
                memory.fresh = memory.shown = True
        if t._k & ~(GRAD | CUDA):
            return
        memory = Memory(kind, array, source)
        self.blocks.append(memory)
        self.places[v] = memory, 0

    def tensor(self, v: Value) -> Tensor:
        """A value as Python sees it."""
        t = self.tensors.get(v)
        if t is None:
            memory, offset = self.places[v]
            if memory.kind == MADE:
                t = wrap(memory.part(offset, v.shape, v.strides, v.dtype.numpy), v.dtype, v.k & CUDA)
            else:
                t = self._view(v)
            self.tensors[v] = t
        return t

    def _view(self, v: Value) -> Tensor:
        """A view of what Python knows, made by its own operation."""
        node = v.node
        assert node is not None
        out = node.op(*replaced(node.args, Value, self.tensor), **replaced(node.named, Value, self.tensor))
        return (out if node.several else (out,))[node.outs.index(v)]

    def _array(self, v: Value) -> Any:
        """The elements of a value, as an array in its block."""
        memory, offset = self.places[v]
        if memory.kind == MADE:
            return memory.part(offset, v.shape, v.strides, v.dtype.numpy)
        return self.tensor(v)._array

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def _python(self, node: Node, number: int) -> None:
        find = (lambda v: self.outside[v] if v in self.outside else self.tensor(v)) if node.opaque else self.tensor
        out = node.op(*replaced(node.args, Value, find), **replaced(node.named, Value, find))
        given = [self.places[v][0] for v in node.operands() if v in self.places]
        for v, t in zip(node.outs, out if node.several else (out,)):
            if v is not None:
                self._known(v, laid(v, t), GIVEN, v, given)
        if not is_record(node):  # it may keep what it is given
            for memory in given:
                memory.fresh = True
        made = [self.places[v][0] for v in node.outs if v is not None and v in self.places]
        makes = is_record(node) and not node.writes and not getattr(node.op, "view", False)
        self.steps.append(Call(node, number, given, made, makes))

    def _native(self, node: Node, number: int) -> None:
        op, operands = node.op, list(node.operands())
        if isinstance(op, Expect):
            op(*map(self.tensor, operands))
            if op.question is not None or operands[0] not in self.places or operands[0].dtype.numpy != np.bool_:
                raise Unplannable("a question of Python's")
            self.steps.append(Question(self.places[operands[0]], op.answer, number))
            return
        if node.opaque or node.named:
            raise Unplannable("a function of Python's")
        if any([v.k & POSTPONED for v in node.outs if v is not None]):
            raise Unplannable("a view that conjugates or negates")
        if any([v.k & CUDA for v in (*operands, *node.outs) if v is not None]):
            self._on_gpu(node, number)
            return
        if any([v not in self.places or v.k & ~GRAD for v in operands]):
            raise Unplannable("an operand that is not plain")
        watch = NodeWatch([self.places[v][0] for v in operands])
        if op in WRITES:
            target, source = node.args
            with uncollected(), watch:
                self._write(watch, target, source, counted=op is not write_data)
            self.steps += watch.steps(number)
            return
        if isinstance(op, Born):
            with uncollected(), watch:
                arrays = [self._born(watch, op)]
        else:
            wrapped = replaced(node.args, Value, lambda v: wrap(watch.shown(self._array(v)), v.dtype))
            with uncollected(), watch:
                out = op.compute(wrapped, 0)
            arrays = [t._array if isinstance(t, Tensor) else None for t in (out if node.several else (out,))]
        steps = watch.steps(number)
        used = [(v, a) for v, a in zip(node.outs, arrays) if v is not None and (a.size or self.last[v] > number)]
        found = {v: self._checked(watch, v, array) for v, array in used}
        new = set(watch.new)
        if steps or any([m in new for m, _ in found.values()]):
            if any([m not in new for step in steps if not isinstance(step, Work) for m in step.writes()]):
                raise Unplannable("a write to an argument")
            confirm(steps, watch.blocks, new, {m for m, _ in found.values()} & new)
        self.blocks += watch.new
        self.steps += steps
        self.places.update(found)
        kept = {m for m, _ in found.values()}
        for memory in watch.new:
            if memory not in kept:
                memory.array = None
        for v, (memory, _) in found.items():
            if memory.kind != MADE:
                self.tensor(v)

    def _on_gpu(self, node: Node, number: int) -> None:
        """The same for operands on a GPU: what is launched for a node is seen first, and done then."""
        op, backend, operands = node.op, backend_of(CUDA), list(dict.fromkeys(node.operands()))
        usual = all([v in self.places and v.k & ~GRAD == CUDA for v in operands])
        if not usual or not backend.ready() or (node.writes and op not in WRITES):
            raise Unplannable("an operand that is not plain")
        if getattr(op, "view", False):
            made = op(*replaced(node.args, Value, self.tensor))
            for v, t in zip(node.outs, made if node.several else (made,)):
                if v is not None:
                    self.places[v] = _place_in([self.places[u][0] for u in operands], t._array)
                    if self.places[v][0].kind != MADE:
                        self.tensors[v] = t
            return
        arrays, places = [self._array(v) for v in operands], [self.places[v] for v in operands]
        if isinstance(op, Born) and not op.even:
            constant = wrap(op.array, op.dtype, CUDA)
            arrays, places = [op.array], [(Memory(CONSTANT, op.array, constant), 0)]
        watch = DeviceWatch(backend, arrays, [0] if op in WRITES else ())
        watch.fuses = True
        with watch:
            outs = self._launched(backend, watch, node, dict(zip(operands, watch.given)))
        new = [Memory(MADE, backend.xp.ndarray(s.shape, s.dtype, None, s.strides)) for s in watch.made]
        places += [(m, 0) for m in new]
        found: dict[Value, tuple[Memory, int]] = {}
        for v, shadow in zip(node.outs, outs):
            if v is not None:
                if shadow.shape != v.shape or not _lie_alike(v, shadow.strides) or shadow.dtype != v.dtype.numpy:
                    raise Unplannable("a result that lies in another way")
                memory, offset = places[shadow.owner]
                found[v] = memory, offset + shadow.offset
        lead = backend.addresses["launch"], backend.stream()
        written = [*new, *[self.places[v][0] for v in node.writes]]
        steps = [Launch(lead, call, places, written, watch.keep, number) for call in watch.calls]
        for i, (what, about) in watch.bodies.items():
            steps[i] = LaunchedLoop(steps[i], what, about, places)
        if carried_out(steps, [m for m, _ in places]):
            raise Unplannable("a launch that fails")
        self.blocks += [m for m, _ in places[len(operands) :]]
        self.steps += steps
        self.places.update(found)
        for v, (memory, _) in found.items():
            if memory.kind != MADE:
                self.tensor(v)
        for v in node.writes if node.op is not write_data else ():
            if self.places[v][0].kind != MADE:
                bump(self.tensor(v))
                self.written.append(v)

    def _launched(self, backend: Any, watch: DeviceWatch, node: Node, shadows: dict[Value, Any]) -> list[Any]:
        """The arrays that a node makes of others, all without memory."""
        if isinstance(node.op, Born):
            made = watch.empty(node.op.array.shape, node.op.array.dtype, device=True)
            backend.copy(np.array(node.op.array.reshape(-1)[0]) if node.op.even else watch.given[0], made)
            return [made]
        if node.op in WRITES:
            target, source = node.args
            if not isinstance(source, Value):
                source = np.asarray(source, target.dtype.numpy)
            elif source.dtype is not target.dtype or self.places[source][0] is self.places[target][0]:
                raise Unplannable("a write that converts, or within one block")
            backend.copy(shadows.get(source, source) if isinstance(source, Value) else source, shadows[target])
            return []
        out = node.op.compute(replaced(node.args, Value, lambda v: wrap(shadows[v], v.dtype, CUDA)), CUDA)
        return [t._array if isinstance(t, Tensor) else None for t in (out if node.several else (out,))]

    def _checked(self, watch: NodeWatch, v: Value, array: Any) -> tuple[Memory, int]:
        """Where a result lies, if it lies as it did when it was recorded."""
        place = watch.place(array)
        if array.shape != v.shape or not _lie_alike(v, array.strides) or array.dtype != v.dtype.numpy:
            raise Unplannable("a result that lies in another way")
        return place

    def _born(self, watch: NodeWatch, op: Born) -> Any:
        source = op.array.view()
        source.flags.writeable = False
        made = watch.empty_strided(source.shape, source.dtype, op.strides)
        watch.move(made, source)
        return made

    def _write(self, watch: NodeWatch, target: Value, source: Any, *, counted: bool) -> None:
        to = self._array(target)
        if any([n > 1 and not s for n, s in zip(to.shape, to.strides)]):
            raise Unplannable("elements that lie in one place")
        if isinstance(source, Value):
            array = self._array(source)
            if watch.place(to)[0] is watch.place(array)[0]:
                raise Unplannable("a write within one block")
            array = watch.shown(np.broadcast_to(array, to.shape) if array.shape != to.shape else array)
        else:
            array = np.asarray(source)
        watch.move(watch.shown(to), array)
        if counted and self.places[target][0].kind != MADE:
            bump(self.tensor(target))
            self.written.append(target)


def in_order(source: Any, target: Any) -> bool:
    """Whether elements follow each other in both arrays in one order, those that are repeated aside."""
    steps = sorted(zip(target.strides, source.strides, source.shape), reverse=True)
    own = [s for _, s, n in steps if n > 1 and s]
    return own == sorted(own, reverse=True)


def confirm(steps: Sequence[Any], blocks: Sequence[Memory], new: set[Memory], results: set[Memory]) -> None:
    """Carries steps out with other memory in the place of `new`, and compares what is in `results` then."""
    other = {memory: np.full(memory.nbytes, 0xA5, np.uint8) for memory in new}
    if carried_out(steps, blocks, other):
        raise Unplannable("an answer that was written unseen")
    for memory in results:
        if not np.array_equal(other[memory], memory.array.reshape(-1).view(np.uint8)):
            raise Unplannable("a result that was written unseen")


def carried_out(steps: Sequence[Any], blocks: Sequence[Memory], other: dict[Memory, Any] | None = None) -> int:
    """Carries steps out over blocks, some of which lie elsewhere; how many steps could not be."""
    plan, bases = Plan(), [0]
    for i, memory in enumerate(blocks, 1):
        memory.number = i
        bases.append(start_of(other[memory]) if other and memory in other else memory.address)
    for step in steps:
        step.encode(plan)
    table, places = words_of("q", plan.loops), words_of("q", bases)
    return int(runner()(table.buffer_info()[0], plan.counts[2], places.buffer_info()[0]))


def _place_in(blocks: Sequence[Memory], array: Any) -> tuple[Memory, int]:
    """The block that a view lies in, and where."""
    start = start_of(array)
    for memory in blocks:
        if memory.holds(start):
            return memory, start - memory.address
    raise Unplannable("memory that was made elsewhere")


def _lie_alike(v: Value, strides: Any) -> bool:
    return all([n == 1 or s == t for n, s, t in zip(v.shape, v.strides, strides)])


def is_record(node: Node) -> bool:
    """Whether a node is an operation of ours, which keeps nothing of its operands."""
    return not node.opaque and (isinstance(node.op, Primitive) or hasattr(node.op, "compute"))


def lies_as(v: Value, t: Tensor) -> bool:
    """Whether a tensor looks as a value did."""
    array = t._array
    return array.shape == v.shape and array.strides == v.strides and t.dtype is v.dtype


def laid(v: Value, t: Tensor) -> Tensor:
    """What a step of Python's gave, in memory as it lay when the program was made."""
    t, array = detached(t), t._array
    if not hasattr(array, "strides") or lies_as(v, t):
        return t
    if array.shape != v.shape or t.dtype is not v.dtype:
        raise RuntimeError(
            f"a step of a compiled program gave {t.dtype}{list(array.shape)}, where it gave {v.dtype}{list(v.shape)} before"
        )
    if _lie_alike(v, array.strides):
        return t
    if v.k & CUDA:
        made = array.__class__(v.shape, array.dtype, None, v.strides)
    else:
        made = np.ndarray(v.shape, array.dtype, np.empty(_reach(v), np.uint8), 0, v.strides)
    made[...] = array
    return wrap(made, v.dtype, v.k & CUDA)


def _reach(v: Value) -> int:
    return sum([(n - 1) * s for n, s in zip(v.shape, v.strides)]) + v.dtype.itemsize
