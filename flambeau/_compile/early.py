"""What a program expects of elements is asked before it changes anything that lasts.

A program stands for one answer of `if loss.item() > 10:`. If another one comes, the function runs again, so that nothing may have happened by
then. The operations that lead to an answer are moved before writes to tensors from outside, gradients of leaves and steps of optimizers, where
they need nothing of these, or can take it from where it comes from. Random numbers may be drawn for them: generators can be put back.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Sequence
from copy import copy

from .._core.random import MersenneState
from .._core.state import CUDA
from .._ops.making.generator import Generator, default_of
from .._tensor import Tensor
from .arguments import overlap
from .breaks import Break
from .expected import Expect, Ungiven
from .graph import COMPUTES, Graph, Node, Value, replaced
from .holders import grad_of
from .writes import WRITES, Accumulate, changes, leaves_of


def asked_first(graph: Graph, inputs: Sequence[Tensor], own: Collection[Value]) -> None:
    """Puts what a graph expects before what lasts; raises `Break` where that cannot be.

    `inputs` are the tensors that it was recorded with, `own` those inputs that nobody else has.
    """
    outside, lacking = [*zip(graph.inputs, inputs), *graph.constants.items()], dict[int, Tensor]()
    for again in (False, True):
        checks = [i for i, node in enumerate(graph.nodes) if isinstance(node.op, Expect)]
        moves = _Moves(graph, outside, own)
        late = [graph.nodes[i] for i in checks if not moves.to_front(i)]
        if not late:
            break
        if not again:
            lacking = _look_ahead(graph)
    for node in late:
        if node.op.late is None:
            file, line = node.line or ("", 0)
            raise Break("a branch on elements that depends on what was changed before", file, line, ours=False)
        node.op.error = node.op.late
    if checks:
        moves.lacking.update(lacking)
        moves.carry_out()


def _look_ahead(graph: Graph) -> dict[int, Tensor]:
    """Has what a step gives computed before it, from gradients of leaves, where the step says how: the norm that `clip_grad_norm_` finds.

    Gives the leaves that have no gradients then.
    """
    nodes, names, lacking = list[Node](), dict[Value, Value](), dict[int, Tensor]()
    grads: dict[int, Value | None] = {}
    for node in graph.nodes:
        ahead = getattr(node.op, "ahead", None)
        if isinstance(node.op, Accumulate):
            grads[id(node.op.leaf)] = node.outs[0]
        elif node.name in _CLEARING:
            grads.update({id(t): None for t in leaves_of(node.args) if _forgets(node, t)})
        elif ahead is not None:
            leaves = list(node.args[0]) if isinstance(node.args[0], (list, tuple)) else [node.args[0]]
            others = {id(t): t for t in leaves if id(t) not in grads}
            found = [g for t in leaves if (g := grads.get(id(t))) is not None]
            made = ahead(found, *node.args[1:], **node.named) if found else None
            if made is not None and all([isinstance(t, Tensor) and grad_of(t) is None for t in others.values()]):
                lacking.update(others)
                own = names[node.outs[0]] = copy(node.outs[0])
                own.node = Node(made[0], made[1], (own,), opaque=COMPUTES, line=node.line)
                nodes.append(own.node)
        if names:
            node.args, node.named = replaced((node.args, node.named), Value, functools.partial(_named, names))
        nodes.append(node)
    graph.nodes[:] = nodes
    return lacking


class _Moves:
    """Nodes that move to the front, in their order; `outside` are values that were there before the run."""

    def __init__(self, graph: Graph, outside: Sequence[tuple[Value, Tensor]], own: Collection[Value]):
        self.graph, self.nodes, self.own = graph, graph.nodes, own
        self.outside = [(v, t._array) for v, t in outside]
        self.first: set[int] = set()
        self.instead: dict[int, dict[Value, Value]] = {}  # by node: which values it reads instead of which
        self.lacking: dict[int, Tensor] = {}  # leaves that must have no gradients when the program begins
        self._places: dict[Value, frozenset[Value]] = {}
        self.makers, self.readers, self.writers = [
            dict[Value, list[int]]() for _ in range(3)
        ]  # nodes, by values and by their memory
        self.draws: list[int] = []  # nodes that may draw random numbers
        self.steps: list[int] = []  # nodes that may change anything from outside
        self.clearing: list[int] = []  # those that may change gradients of leaves, and no other tensor
        for i, node in enumerate(self.nodes):
            operands, written = list(node.operands()), list(node.writes)
            if _is_step(node):
                (self.clearing if node.name in _CLEARING else self.steps).append(i)
                written += operands
            elif isinstance(node.op, Accumulate) and (node.op.leaf is None or _has_hooks(node.op.leaf)):
                self.steps.append(i)
            elif _draws(node):
                self.draws.append(i)
            for table, values in ((self.readers, operands), (self.writers, written)):
                for place in {p for v in values for p in self.places(v)}:
                    table.setdefault(place, []).append(i)
            for v in node.outs:
                if v is not None:
                    self.makers.setdefault(v, []).append(i)

    def places(self, v: Value) -> frozenset[Value]:
        """The values in whose memory a value may lie."""
        found = self._places.get(v)
        if found is None:
            node = v.node
            if node is None or _is_pythons(v):
                own = [a for w, a in self.outside if w is v]
                found = frozenset([v, *[w for w, a in self.outside if own and overlap(a, own[0])]])
            elif getattr(node.op, "view", False):
                found = self.places(next(node.operands()))
            else:
                found = frozenset([v])
            self._places[v] = found
        return found

    def lasts(self, v: Value) -> bool:
        """Whether a value may lie in memory that others have."""
        return any([_is_pythons(p) and p not in self.own for p in self.places(v)])

    def last(self, table: dict[Value, list[int]], values: Iterable[Value], before: int) -> int:
        return max([k for v in values for k in table.get(v, ()) if k < before], default=-1)

    def origin(self, v: Value, at: int, lacking: dict[int, Tensor]) -> tuple[Value, int]:
        """What a node reads, at its number, as a value that is there before things change: with the node that makes it so, or as it is."""
        maker, writer = self.last(self.makers, [v], at), self.last(self.writers, self.places(v), at)
        node = self.nodes[max(maker, writer)]
        if writer > maker:
            if node.op in WRITES and node.args[0] is v and isinstance(node.args[1], Value) and self.places(v) == {v}:
                return self.origin(node.args[1], writer, lacking)
        elif maker >= 0 and isinstance(node.op, Accumulate) and self._is_first(maker, at, lacking):
            return self.origin(node.args[0], maker, lacking)
        return v, at

    def _is_first(self, i: int, until: int, lacking: dict[int, Tensor]) -> bool:
        """Whether a leaf has no gradient but the one that a node gives it, until another node."""
        op = self.nodes[i].op
        others = [k for k in range(until) if k != i and getattr(self.nodes[k].op, "leaf", None) is op.leaf]
        if (
            not op.first
            or others
            or any([k < until for k in self.steps])
            or any([i < k < until for k in self.clearing])
        ):
            return False
        if not any([k < i and _forgets(self.nodes[k], op.leaf) for k in self.clearing]):
            lacking[id(op.leaf)] = op.leaf
        return True

    def to_front(self, last: int) -> bool:
        """Moves a node with all that it needs; whether that can be."""
        new: set[int] = set()
        waiting, instead, lacking = [last], dict[int, dict[Value, Value]](), dict[int, Tensor]()
        while waiting:
            i = waiting.pop()
            if i in self.first or i in new:
                continue
            node, late = self.nodes[i], [k for k in self.steps if k < i]
            drawn = _draws(node)
            if (node.opaque and not drawn and not isinstance(node.op, Expect)) or any(map(self.lasts, node.writes)):
                return False
            if drawn:
                if late:
                    return False
                waiting += [k for k in self.draws if k < i]
            new.add(i)
            for v in dict.fromkeys(node.operands()):
                source, at = (v, i) if getattr(node.op, "view", False) else self.origin(v, i, lacking)
                if self.lasts(source) and any([k < at for k in late]):
                    return False
                writers = [k for p in self.places(source) for k in self.writers.get(p, ())]
                maker = self.last(self.makers, [source], at)
                waiting += [maker] * (maker >= 0) + [k for k in writers if k < at]
                if source is not v or at != i:
                    looks = [(one.shape, one.strides, one.dtype) for one in (source, v)]
                    if looks[0] != looks[1] or any([at < k < i for k in writers]):
                        return False
                    instead.setdefault(i, {})[v] = source
            for place in {p for v in node.writes for p in self.places(v)}:
                waiting += [k for table in (self.readers, self.writers) for k in table.get(place, ()) if k < i]
        self.first |= new
        self.instead.update(instead)
        self.lacking.update(lacking)
        return True

    def carry_out(self) -> None:
        """Puts the nodes into their new order."""
        begin = min(
            [i for i, node in enumerate(self.nodes) if changes(node) and i not in self.first], default=len(self.nodes)
        )
        for i, names in self.instead.items():
            node = self.nodes[i]
            node.args, node.named = replaced((node.args, node.named), Value, functools.partial(_named, names))
        front = [node for i, node in enumerate(self.nodes) if i < begin or i in self.first]
        rest = [node for i, node in enumerate(self.nodes) if i >= begin and i not in self.first]
        if self.lacking:
            front.insert(0, Node(Ungiven(list(self.lacking.values())), (), opaque=True))
        self.graph.nodes[:] = [*front, *rest]
        self.graph.engines = list({id(e): e for node in front if _draws(node) for e in _engines(node)}.values())


def _named(names: dict[Value, Value], v: Value) -> Value:
    return names.get(v, v)


_CLEARING = ("zero_grad", "put", "__set__")


def _is_step(node: Node) -> bool:
    """Whether a node is a function of Python's that may do anything."""
    return node.opaque not in (False, COMPUTES) and not isinstance(node.op, (Expect, Accumulate))


def _draws(node: Node) -> bool:
    """Whether a node computes, and may draw random numbers."""
    return node.opaque == COMPUTES


def _engines(node: Node) -> list[MersenneState]:
    """The generators that a node may draw from."""
    given = [*node.args, *node.named.values()]
    engines = [
        a if isinstance(a, MersenneState) else a._engine for a in given if isinstance(a, (MersenneState, Generator))
    ]
    return engines or [default_of(k)._engine for k in {v.k & CUDA for v in node.operands()} or {0}]


def _is_pythons(v: Value) -> bool:
    """Whether a value was there before the run, or is what a step of Python's gave."""
    return v.node is None or (bool(v.node.opaque) and not _draws(v.node))


def _has_hooks(leaf: Tensor) -> bool:
    return leaf._autograd_meta is not None and bool(leaf._autograd_meta.post_hooks)


def _forgets(node: Node, leaf: Tensor) -> bool:
    """Whether a step leaves a tensor without a gradient."""
    if node.name == "__set__":
        return node.args[0] is leaf and node.args[1] is None
    none = node.args[1] if len(node.args) > 1 else node.named.get("set_to_none", True)
    return node.name == "zero_grad" and bool(none) and any([t is leaf for t in leaves_of(node.args)])
