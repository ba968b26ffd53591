"""Functions that cannot be recorded whole, for backends that users write: what lies between two breaks is a graph of its own.

The function runs for real, each time. At a break what was recorded so far becomes a graph whose inputs are the tensors that it met, and whose
outputs are those that are left of it. The backend is called with a graph that is new; what it has given for it computes these tensors
again, history included, and they are put in the place of those that the run has made. A piece that writes to tensors from outside or draws
random numbers is given to the backend, but not computed twice.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from weakref import ref

import numpy as np

from .._compile.births import Born
from .._compile.breaks import Break
from .._compile.capture import HOOKS, Capture
from .._compile.graph import Graph, Node, Value, replaced
from .._compile.unseen import Unseen
from .._compile.writes import changes, whole_of
from .._core.random import MersenneState
from .._core.state import GRAD, local
from .._ops.making.generator import default_generator
from .._ops.records.saved import Packed
from .._tensor import Tensor

_BACKWARD = frozenset(("backward", "grad"))  # which go through the history of what is recorded


class Pieces(Capture):
    """A recording that goes on behind breaks; `compiled(graph, tensors)` gives the function that stands for a graph, or None.

    As long as there was no break it is like any other: `cuts` says why there were some.
    """

    def __init__(
        self, inputs: Sequence[Tensor], external: Callable[[Tensor], bool],
        compiled: Callable[[Graph, Sequence[Tensor]], Callable[..., Any] | None],
    ):  # fmt: skip
        super().__init__(inputs, external)
        self.compiled, self.cuts = compiled, list[Break]()
        self.given = False  # whether the backend was given all of it
        self._made: list[Any] = []  # weak references to tensors that the piece has made

    def _out(self, t: Tensor, node: Node) -> Value:
        self._made.append(ref(t))
        return super()._out(t, node)

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self._depth:
            return super().__torch_function__(function, types, args, kwargs)
        if self.problem is not None:
            self.cut()
        name, mark, numbers = getattr(function, "__name__", ""), len(self.graph.nodes), self._numbers
        if name in _BACKWARD:
            self.stop(f"{name}() cannot be part of a graph")
            self.cut()
            with Unseen():
                return function(*args, **(kwargs or {}))
        self.tied = self.tied or name in HOOKS
        out = super().__torch_function__(function, types, args, kwargs)
        if self.problem is None:
            return out
        made = isinstance(out, Tensor) or out is None or _holds(out)
        self._forget(mark, numbers)
        self.cut()
        if made or name in HOOKS:
            return out
        with Unseen():  # what is read now are the elements that the backend's function has computed
            return function(*args, **(kwargs or {}))

    def step(self, function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """A function that changes more than tensors runs between two pieces."""
        self.stop(f"{getattr(function, '__name__', 'a step')} cannot be part of a graph")
        if not self._depth:
            self.cut()
        with Unseen():
            return function(*args, **named)

    def accumulate(self, function: Any, leaf: Tensor, g: Tensor, *rest: Any) -> None:
        function(leaf, g, *rest)

    def _forget(self, mark: int, numbers: int) -> None:
        """Drops what was recorded of a function that cannot be."""
        del self.graph.nodes[mark:]
        for key, (_, value) in list(self._values.items()):
            if value.number >= numbers:
                del self._values[key]
                self.graph.constants.pop(value, None)

    def cut(self) -> None:
        """Ends a piece, and begins another one."""
        problem, self.problem = self.problem, None
        if problem is not None:
            self.cuts.append(problem)
        self.external = None  # what the next piece meets is given to it, whoever has made it
        left = self._left()
        self.tied = self.tied or is_tied(left) or bool(local.transforms or local.batches)
        if self.graph.nodes and (left or any(map(changes, self.graph.nodes))):
            with Unseen():
                self._finish(left)
        self.graph, self._values, self._numbers, self._made, self.tied = Graph(), {}, 0, [], False
        self._given, self.drawn = [], Drawn()
        self._births.clear()

    def _left(self) -> list[Tensor]:
        """The tensors that the piece has made and somebody has; those that only the history of others keeps do not count."""
        self._written = []
        there = [t for t in dict.fromkeys([one() for one in self._made]) if t is not None and self.known(t) is not None]
        within = Counter[int]()
        for node in _history(there):
            within.update([id(a) for a in node.saved or () if isinstance(a, Tensor)])
        within.update([id(t._view[0]) for t in there if t._view is not None])
        counts = [sys.getrefcount(t) for t in [*there, object()]]  # the list itself is one more
        return [t for t, count in zip(there, counts) if count > counts[-1] + 1 + within[id(t)]]

    def _finish(self, left: list[Tensor]) -> None:
        graph = self.graph
        graph.outputs = [self._operand(t) for t in left]
        graph.keep_used()
        inputs = {**dict(zip(graph.inputs, self._given)), **graph.constants}
        wanted = {v for node in graph.nodes for v in (*node.operands(), *node.writes)} | set(graph.outputs)
        inputs = {v: t for v, t in inputs.items() if v in wanted}
        graph.inputs, graph.constants = list(inputs), {}
        call = self.compiled(graph, list(inputs.values()))
        once = self.drawn.more() or any([runs_once(node) for node in graph.nodes])
        if call is None or self.tied or not left or once:
            return
        if _own_leaves(left, list(inputs.values())):  # a graph does not say that gradients of these may be asked for
            return
        before, local.grad = local.grad, any([t._k & GRAD for t in left]) or local.grad
        try:
            made = list(call(*inputs.values()))
        finally:
            local.grad = before
        others = {id(other): t for t, other in zip(left, made)}
        for t, other in zip(left, made):
            if not (t._k & GRAD and t._edge is None):  # a leaf stays what it is
                _become(t, other, others)


def _stream() -> bytes:
    engine = default_generator._engine
    with engine.lock:
        return engine.get_state().tobytes()


class Drawn:
    """Where the stream of random numbers is."""

    def __init__(self) -> None:
        self.state = _stream()

    def more(self) -> bool:
        """Whether it is elsewhere now: what has drawn from it must not run a second time."""
        return _stream() != self.state


def _holds(a: Any) -> bool:
    return isinstance(a, (tuple, list)) and any([isinstance(b, Tensor) or _holds(b) for b in a])


def is_tied(made: Iterable[Tensor]) -> bool:
    """Whether there is something in the history of tensors of which no graph tells: hooks on gradients or on what is saved, `func.vjp`."""
    return any([
        node.hooks or node.pre_hooks or getattr(node.op, "name", "") == "entry" or any([s.__class__ is Packed for s in node.saved or ()])
        for node in _history(made)
    ])  # fmt: skip


def _own_leaves(made: list[Tensor], given: list[Tensor]) -> bool:
    """Whether the history of tensors that a piece has made leads to leaves that it was not given."""
    arrays, known = {id(t._array) for t in given}, {id(t._edge[0]) for t in given if t._edge is not None}
    ends = [edge[0] for node in _history(made, known) for edge in getattr(node, "edges", ()) if edge is not None]
    return any([isinstance(end, Tensor) and id(end._array) not in arrays for end in ends])


def _history(tensors: Any, known: Iterable[int] = ()) -> Iterator[Any]:
    """The nodes behind some tensors, as far as those that are known by their ids."""
    waiting, seen = [t._edge[0] for t in tensors if t._edge is not None], set(known)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, Tensor) and id(node) not in seen:
            seen.add(id(node))
            yield node
            waiting += [edge[0] for edge in getattr(node, "edges", ()) if edge is not None]


def runs_once(node: Node) -> bool:
    """Whether a node must not run a second time: it writes to what was there, or draws random numbers."""
    outside = any([whole_of(v).node is None for v in node.writes])
    draws = any([a.__class__ is MersenneState for a in node.args])
    return outside or draws or (changes(node) and not node.writes)


def _become(t: Tensor, other: Tensor, others: dict[int, Tensor]) -> None:
    """Makes a tensor what another one is; `others` are tensors that were given the place of others, by their ids."""
    t._array, t.dtype, t._k, t._edge, t._storage = other._array, other.dtype, other._k, other._edge, other._storage
    view = other._view
    t._view = view if view is None else (others.get(id(view[0]), view[0]), *view[1:])
    if view is not None and t._storage is not None:
        t._storage.add_view(t)


def outline(graph: Graph) -> tuple[Any, ...]:
    """What a graph does, as something that can be compared; functions of Python's are known by who they are."""
    numbers = {v: i for i, v in enumerate(graph.inputs)}

    def named(a: Any) -> Any:
        return ("value", numbers[a]) if isinstance(a, Value) else (a.dtype.str, a.shape, a.tobytes())

    steps = []
    for node in graph.nodes:
        op: Any = node.op.array.tobytes() if isinstance(node.op, Born) else id(node.op)
        given = replaced((node.args, node.named), (Value, np.ndarray), named)
        for v in node.outs:
            if v is not None and v not in numbers:
                numbers[v] = len(numbers)
        looks = [v and (numbers[v], v.shape, v.strides, v.dtype, v.k) for v in node.outs]
        steps.append((op, repr(given), *looks))
    inputs = [(v.shape, v.strides, v.dtype, v.k) for v in graph.inputs]
    return (*steps, "inputs", *inputs, "outputs", *[numbers[v] for v in graph.outputs])
