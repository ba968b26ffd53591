"""A program with history: one graph computes results, another the gradients, and a node of autograd stands between them.

The function runs once, on arguments without history; its own backward pass is then recorded as well. What that needs of the
forward run becomes further outputs of the forward program, which the node keeps.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

from .._autograd import engine
from .._autograd.node import Node as History
from .._autograd.node import edge_of
from .._core.state import GRAD, local
from .._ops.registry import ops, records
from .._tensor import Tensor, computed, detached, storage_of, version_of
from .arguments import overlap
from .at_once import computed_at_once, taken_at_once
from .births import Born
from .breaks import Break
from .capture import Capture
from .early import asked_first
from .expected import Expect
from .graph import Graph, Node, Value, replaced
from .overwritten import without_copies
from .program import Program
from .recompute import recompute
from .replayed import Replaying
from .tune import tuned
from .unread import is_partial, without_unread
from .whole import Hooked
from .writes import whole_of


class Pair:
    """What a region computes, and how gradients go through it.

    `sources` are the tensors that gradients are wanted for: inputs (by number) and constants.
    """

    backward_name = "CompiledFunctionBackward"
    name = "compiled"

    def __init__(
        self, tape: Capture, outputs: Sequence[Tensor], inputs: Sequence[Tensor], exact: bool = False, tune: bool = False,
        graphs: bool = False,
    ):  # fmt: skip
        arenas: list[Any] = []  # of the programs of both passes, of which one runs at a time
        kind = Replaying if graphs else Program
        self.program = functools.partial(kind, finish=tuned if tune else None, arenas=arenas)
        self.differentiable = [i for i, t in enumerate(outputs) if t._k & GRAD]
        self.spent: list[int] = []  # outputs whose backward pass has been made
        # writes that tensors count, but no node: to results, and where arguments are turned
        there = {id(t._storage) for t in (*inputs, *tape.graph.constants.values())}
        self.writes = [
            (i, version_of(t)) for i, t in enumerate(outputs) if version_of(t) and id(t._storage) not in there
        ]
        self.to_inputs = [(i, n) for i, n in enumerate(tape.writes_to_inputs()) if n > 0]
        graph = tape.finish(outputs, whole=True)  # the backward pass may need more
        self.about = [(t._array.shape, t.dtype, t._k & ~GRAD) for t in outputs]
        self.count = len(outputs)
        self.repeated = [i for i, v in enumerate(graph.outputs) if v in graph.outputs[:i]]  # `y, y.detach()`
        self.saved: list[Value] = []
        self.copied: dict[Value, Value] = {}  # values, and those that they were written over
        self.backward_program: Program | None = None
        self.partial: dict[
            tuple[bool, ...], tuple[Program | None, list[bool]]
        ] = {}  # for passes from some outputs alone
        self.reached: list[bool] = []
        self.watched: list[Tensor] = []  # constants that the backward pass reads: nobody may write to them in between
        self.from_inputs: list[tuple[Value, int]] = []
        self.sources: list[tuple[int, Tensor | None]] = []  # (number of an input, or -1 and the constant)
        back: Graph | None = None
        if self.differentiable:
            try:
                back = self._record_backward(tape, graph, outputs, inputs, exact)
            except RuntimeError as error:
                if str(error) != engine.FREED:
                    raise
                self.differentiable, self.spent = [], self.differentiable
        graph.outputs = [*graph.outputs, *self.saved]
        graph.keep_used()
        asked_first(graph, inputs, {tape.value(t) for _, t in tape.held})
        kept = [tape.tensor(v, self.copied.get(v)) for v in self.saved]
        both = [*graph.nodes, *(back.nodes if back is not None else ())]
        if computed_at_once(both, graph.outputs[: self.count]):
            kept = [*map(computed, kept)]
        taken_at_once(both, graph.outputs[: self.count])
        for t in kept:  # writes to results that it shows count
            t._storage = next((storage_of(o) for o in outputs if overlap(o._array, t._array)), t._storage)
        self.first = [*map(detached, outputs), *kept]  # of the recorded run
        self.forward_program = self.program(graph)
        if back is not None:
            self.backward_program = self.program(back)

    def _record_backward(
        self, tape: Capture, graph: Graph, outputs: Sequence[Tensor], inputs: Sequence[Tensor], exact: bool
    ) -> Graph:
        wanted: list[Tensor] = []
        roots = [outputs[i] for i in self.differentiable]
        # no operation may know them: what a function of the program's own computes need not depend on what it is given
        leaves = [t for t, _ in _edges_behind(roots) if isinstance(t, Tensor) and tape.known(t) is None]
        for i, t in [*enumerate(inputs), *[(-1, t) for t in (*graph.constants.values(), *leaves)]]:
            if t._k & GRAD and not _among(t, wanted):  # a leaf that is given twice has one gradient
                wanted.append(t)
                self.sources.append((i, None if i >= 0 else t))
        starts = [ops.ones(t._array.shape, dtype=t.dtype, device=t.device) for t in roots]
        back = Capture(starts, tape.external, of=tape)
        metas = [t._autograd_meta for t in wanted if t._edge is None and t._autograd_meta is not None]
        hooks = [meta.hooks for meta in metas]  # of leaves: the engine calls them when the program has run
        back.existed = tape.existed
        try:
            for meta in metas:
                meta.hooks = None
            with tape.backward(_nodes_behind(roots)), back, _Hooks(roots, back):
                found = engine.run(roots, starts, True, False, wanted, into_leaves=False)
        finally:
            for meta, own_hooks in zip(metas, hooks):
                meta.hooks = own_hooks
        if exact:
            _refuse_sums(roots, wanted)
        edges = [edge_of(t) for t in wanted]
        gradients = [found.get((id(e[0]), e[1])) for e in edges]
        self.reached = [g is not None for g in gradients]
        made = back.finish([g for g in gradients if g is not None])
        self._take_out_copies(graph, made)
        inside = {v for node in made.nodes for v in node.outs} | set(made.inputs)
        needed = dict.fromkeys(v for node in made.nodes for v in node.operands() if v not in inside)
        needed.update(dict.fromkeys(v for v in made.outputs if v not in inside))
        recompute(graph, made, needed)
        without_unread([*graph.nodes, *made.nodes], [*graph.outputs, *made.outputs])
        given = {v: i for i, v in enumerate(graph.inputs)}
        # Inputs and constants are kept as they are; the rest is made by the forward program.
        self.from_inputs = [(v, given[v]) for v in needed if v in given]
        own = {v for node in graph.nodes for v in node.outs}
        self.saved = [v for v in needed if v in own]
        for v in needed:
            if v not in given and v not in own and v not in made.constants:
                made.constants[v] = graph.constants[v]
        made.inputs = [*made.inputs, *self.saved, *[v for v, _ in self.from_inputs]]
        for v in made.inputs:
            made.constants.pop(v, None)
        shown = [*map(whole_of, (*graph.outputs, *self.saved))]
        made.passing = {v: shown.count(v) == 1 for v in self.saved}
        self.watched = [made.constants[v] for v in needed if v in made.constants]
        return made

    def _take_out_copies(self, forward: Graph, backward: Graph) -> None:
        """What is written over a whole value of the forward pass is read in its place by both passes, and kept once."""
        both = Graph()
        both.inputs, both.constants = [*forward.inputs, *backward.inputs], {**forward.constants, **backward.constants}
        both.nodes, both.outputs = [*forward.nodes, *backward.nodes], [*forward.outputs, *backward.outputs]
        self.copied = {source: target for target, source in without_copies(both).items()}
        later = set(backward.nodes)
        forward.nodes, backward.nodes = [[n for n in both.nodes if (n in later) is back] for back in (False, True)]

    @property
    def nbytes(self) -> int:
        """Memory in which the programs compute."""
        both = self.forward_program, self.backward_program
        return max([p._lowered.arena for p in both if p is not None and p._lowered is not None], default=0)

    def run(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The outputs, with a node behind those that need one."""
        made = self._counted(inputs) if self.writes or self.to_inputs else self.forward_program.run(inputs)
        for i in self.repeated:
            made[i] = detached(made[i])
        return made if self.backward_program is None and not self.spent else self.with_history(made, inputs)

    def _counted(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        found = [(inputs[i], version_of(inputs[i]) + n) for i, n in self.to_inputs]
        made = self.forward_program.run(inputs)
        for t, n in (*found, *[(made[i], n) for i, n in self.writes]):
            storage_of(t).version = n
        return made

    def with_history(self, made: list[Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
        """Outputs of the forward program as the function's."""
        outputs = made[: self.count]
        for i in self.spent:
            outputs[i]._k |= GRAD
            outputs[i]._edge = (History(self, (), None), 0)
        if self.backward_program is None:
            return outputs
        edges = tuple([edge_of(inputs[i] if t is None else t) for i, t in self.sources])
        # what nobody else has needs no other form, in which writes are counted
        kept = [t if t._storage is None and not _among(t, outputs) else detached(t) for t in made[self.count :]]
        kept += [detached(inputs[i]) for _, i in self.from_inputs]
        node = History(self, edges, (kept, inputs), [self.about[i][:2] for i in self.differentiable])
        node.versions = [version_of(t) for t in (*kept, *self.watched)]
        for number, i in enumerate(self.differentiable):
            outputs[i]._k |= GRAD
            outputs[i]._edge = (node, number)
        return outputs

    def backward(self, node: History, g: Any, create_graph: bool) -> list[Any]:
        if not node.saved:
            raise RuntimeError(engine.FREED)
        kept, inputs = node.saved
        if [version_of(t) for t in (*kept, *self.watched)] != node.versions:
            raise RuntimeError(_MODIFIED)
        absent = tuple([given is None for given in g])
        program, reached = self._backward_of(absent) if any(absent) else (self.backward_program, self.reached)
        gradients = [  # the program knows them row-major
            engine.zeros(*self.about[i]) if given is None else ops.contiguous(given)
            for i, given in zip(self.differentiable, g)
        ]
        if create_graph:
            return self._differentiable(kept, inputs, gradients, absent)
        given, walk = [*gradients, *kept], local.walk
        spent = walk is not None and not walk.keeps
        if spent:  # the program lets go of what it has read
            node.saved = walk.node.saved = ()
            del kept, inputs
        found = iter([] if program is None else program.run(given, spent))
        return [next(found) if there else None for there in reached]

    def _backward_of(self, absent: tuple[bool, ...]) -> tuple[Program | None, list[bool]]:
        """The program of a backward pass that does not begin at all outputs, and which sources it reaches."""
        assert self.backward_program is not None
        if absent not in self.partial:
            graph = self.backward_program.graph
            less, found = _without(graph, graph.inputs[: len(absent)], absent) or (None, [])
            made = iter(found)
            self.partial[absent] = self.backward_program, self.reached
            if less is not None:
                reached = [there and next(made) is not None for there in self.reached]
                self.partial[absent] = (self.program(less) if less.outputs else None), reached
        return self.partial[absent]

    def _differentiable(
        self, kept: list[Tensor], inputs: Sequence[Tensor], gradients: list[Tensor], absent: tuple[bool, ...]
    ) -> list[Any]:
        """Gradients with a history: the function is computed again, operation by operation."""
        graph, back = self.forward_program.graph, self.backward_program
        hooks = back is not None and any([isinstance(node.op, Hooked) for node in back.graph.nodes])
        if hooks or any([(node.opaque and not isinstance(node.op, Expect)) or node.writes for node in graph.nodes]):
            raise RuntimeError(
                "torch.compile with aot_autograd does not currently support double backward: compute higher derivatives "
                "of functions that write, draw random numbers or have hooks outside of the compiled function"
            )
        known: dict[Value, Any] = {**dict(zip(graph.inputs, inputs)), **graph.constants}
        for node in graph.nodes:
            out = node.op(*replaced(node.args, Value, known.__getitem__))
            known.update(zip([v for v in node.outs if v is not None], out if node.several else (out,)))
        for v, t in zip(graph.outputs[self.count :], kept):
            if not is_partial(v.node) and known[v]._array.tobytes() != t._array.tobytes():
                raise RuntimeError(_MODIFIED)
        wanted = [inputs[i] if t is None else t for i, t in self.sources]
        roots = [known[graph.outputs[i]] for i, missing in zip(self.differentiable, absent) if not missing]
        starts = [g for g, missing in zip(gradients, absent) if not missing]
        found = engine.run(roots, starts, True, True, wanted, into_leaves=False)
        return [found.get((id(e[0]), e[1])) for e in map(edge_of, wanted)]


def _among(t: Tensor, tensors: Sequence[Tensor]) -> bool:
    return any([t is other for other in tensors])


_MODIFIED = "one of the variables needed for gradient computation has been modified by an inplace operation"


def _without(graph: Graph, starts: Sequence[Value], absent: Sequence[bool]) -> tuple[Graph, list[Value | None]] | None:
    """A backward graph for a pass that some gradients are absent from, and what its outputs are then (None: no gradient).

    Zeros do not do in their place: a derivative that is infinite makes NaN of them. So, as in the engine, only operations that take
    several gradients see zeros. None if there are writes, or functions of Python's.
    """
    names: dict[Value, Value | None] = {v: None if missing else v for v, missing in zip(starts, absent)}
    made = Graph()
    made.inputs, made.constants, made.passing = graph.inputs, graph.constants, graph.passing

    def present(v: Value) -> Value:
        there = names.get(v, v)
        if there is not None or v in starts:  # a program is given zeros for starts
            return there or v
        zeros = engine.zeros(v.shape, v.dtype, v.k & ~GRAD)
        made.nodes.append(Node(Born(zeros), ()))
        own = Value(v.number, zeros, made.nodes[-1])
        made.nodes[-1].outs = (own,)
        return own

    for node in graph.nodes:
        given = [v for v in node.operands() if v in names]  # those that gradients are in
        left = [there for v in given if (there := names[v]) is not None]
        if node.writes or (given and node.opaque):
            return None
        if len(left) < len(given) and (not left or node.op is records["add"]):
            names.update(dict.fromkeys([v for v in node.outs if v is not None], left[0] if left else None))
            continue
        args, named = replaced((node.args, node.named), Value, present)
        made.nodes.append(Node(node.op, args, node.outs, node.several, named, node.opaque, (), node.line))
        if given:
            names.update({v: v for v in node.outs if v is not None})
    found = [names.get(v, v) for v in graph.outputs]
    made.outputs = [v for v in found if v is not None]
    made.keep_used()
    return made, found


class _Hooks:
    """A block in which the hooks of nodes behind some tensors are recorded instead of called."""

    def __init__(self, roots: Sequence[Tensor], tape: Capture):
        nodes = _nodes_behind(roots)
        self.nodes = [(node, node.pre_hooks, node.hooks) for node in nodes if node.pre_hooks or node.hooks]
        for _, before, _ in self.nodes:
            if any([key.__class__ is tuple and key[0] == "retain" for key in before or ()]):
                raise Break("a gradient is kept for a tensor inside of the function (retain_grad)")
        self.recorded = lambda hook: functools.partial(tape.hooked, hook)

    def __enter__(self) -> None:
        for node, *both in self.nodes:
            node.pre_hooks, node.hooks = [own and {key: self.recorded(h) for key, h in own.items()} for own in both]

    def __exit__(self, *error: Any) -> None:
        for node, before, after in self.nodes:
            node.pre_hooks, node.hooks = before, after


def _refuse_sums(roots: Sequence[Tensor], wanted: Sequence[Tensor]) -> None:
    """Raises if gradients come to a wanted tensor by several ways: the engine might add them to others in between."""
    ends = {(id(e[0]), e[1]) for e in map(edge_of, wanted)}
    reached = [key for node, number in _edges_behind(roots) if (key := (id(node), number)) in ends]
    if len(reached) != len(set(reached)):
        raise Break("gradients of a tensor that is used several times would be added in another order")


def _nodes_behind(roots: Sequence[Tensor]) -> list[Any]:
    return list({id(node): node for node, _ in _edges_behind(roots) if not isinstance(node, Tensor)}.values())


def _edges_behind(roots: Sequence[Tensor]) -> Iterator[Any]:
    """All edges of the history of tensors, as far as it is part of the function."""
    seen: set[int] = set()
    waiting = [t._edge for t in roots]
    while waiting:
        edge = waiting.pop()
        if edge is None:
            continue
        yield edge
        if isinstance(edge[0], Tensor) or id(edge[0]) in seen:
            continue
        seen.add(id(edge[0]))
        if getattr(edge[0].op, "name", None) != "entrance":
            waiting.extend(edge[0].edges)
