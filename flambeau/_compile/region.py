"""A compiled function: programs for the states in which it was called before, and the way to a new one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .._autograd.node import Node, edge_of
from .._core.state import CAPTURE, GRAD, local, modes
from .._tensor import Tensor, detached
from ..utils._pytree import tree_flatten, tree_unflatten
from .capture import Break, Capture
from .guards import Guards, Trail
from .pair import Pair


class Entry:
    """One state of the world in which a function was recorded: guards, a program, and how its results are put together."""

    __slots__ = ("effects", "form", "guards", "pair", "places")

    def __init__(self, guards: Guards, pair: Pair, form: Any, places: list[tuple[str, Any]], effects: Any):
        self.guards, self.pair, self.form, self.places, self.effects = guards, pair, form, places, effects

    def run(self, args: Any, named: Any) -> Any:
        inputs = tensors_in(args, named)
        return self.finish(self.pair.run(inputs), inputs)

    def finish(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> Any:
        """What the function returns."""
        leaves = []
        for kind, what in self.places:
            leaves.append(outputs[what] if kind == "output" else inputs[what] if kind == "input" else what)
        for holder, name, kind, what in self.effects:
            holder(name, outputs[what] if kind == "output" else inputs[what] if kind == "input" else what)
        return leaves[0] if self.form is None else tree_unflatten(leaves, self.form)


def tensors_in(args: Any, named: Any) -> list[Tensor]:
    """The tensors among arguments, in order."""
    for a in args:
        if not isinstance(a, Tensor):
            break
    else:
        if not named:
            return list(args)
    return [a for a in tree_flatten((args, named))[0] if isinstance(a, Tensor)]


class Region:
    """Calls of a function, compiled."""

    def __init__(self, function: Callable[..., Any], limit: int = 8, fullgraph: bool = False):
        self.function, self.limit, self.fullgraph = function, limit, fullgraph
        self.entries: list[Entry] = []
        self.breaks: list[Break] = []

    def __call__(self, *args: Any, **named: Any) -> Any:
        if modes.on & CAPTURE and local.captures:
            return self.function(*args, **named)
        for entry in self.entries:
            if entry.guards.check(args, named):
                return entry.run(args, named)
        return self.new(args, named)

    def new(self, args: Any, named: Any) -> Any:
        """Runs the function, and records it if that can be done."""
        if len(self.entries) >= self.limit or self.breaks:
            return self.function(*args, **named)
        inputs = tensors_in(args, named)
        apart = [_inside(t) for t in inputs]
        copies = iter(apart)
        leaves, form = tree_flatten((args, named))
        given, more = tree_unflatten([next(copies) if isinstance(a, Tensor) else a for a in leaves], form)
        trail = Trail(self.function, given, more)
        tape = Capture(apart, external=lambda t: id(t._array) in trail.tensors)
        with trail, tape:
            out = self.function(*given, **more)
        try:
            return self._entry(trail, tape, out, inputs, apart)
        except Break as problem:
            self.breaks.append(problem)
            if self.fullgraph:
                raise
            return out  # it was run for real

    def _entry(self, trail: Trail, tape: Capture, out: Any, inputs: list[Tensor], apart: list[Tensor]) -> Any:
        guards = trail.guards()
        leaves, form = tree_flatten(out)
        outputs: list[Tensor] = []
        places = [self._place(a, tape, outputs, apart, trail) for a in leaves]
        effects = []
        pair = Pair(tape, outputs, apart)
        entry = Entry(guards, pair, None if isinstance(out, Tensor) else form, places, effects)
        self.entries.insert(0, entry)
        return entry.finish(pair.with_history(pair.first, inputs), inputs)

    def _place(self, a: Any, tape: Capture, outputs: list[Tensor], apart: list[Tensor], trail: Trail) -> Any:
        """Where a part of the result comes from."""
        if not isinstance(a, Tensor):
            return "value", a
        for i, t in enumerate(apart):
            if a is t:
                return "input", i
        if id(a._array) in trail.tensors and tape.known(a) is None:
            return "value", a
        for i, t in enumerate(outputs):
            if a is t:
                return "output", i
        outputs.append(a)
        return "output", len(outputs) - 1


class _Entrance:
    """What stands between a tensor and its form inside a region: gradients go through."""

    name, backward_name = "entrance", "CompiledFunctionBackward"

    @staticmethod
    def backward(node: Node, g: Any, create_graph: bool) -> list[Any]:
        return [g]


def _inside(t: Tensor) -> Tensor:
    """A tensor over the same memory, where a backward pass that is recorded ends."""
    if not t._k & GRAD or not local.grad:
        return t
    own = detached(t)
    own._k |= GRAD
    own._edge = (Node(_Entrance, (edge_of(t),)), 0)
    return own
