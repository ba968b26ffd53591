"""The node that one call left behind, as the pattern for the histories of calls alike."""

from __future__ import annotations

import array
from collections.abc import Sequence
from typing import Any

from ..._autograd.node import Node, SavedOutput
from ..._core.dtypes import dtype
from ..._kernel.native.nodes import NODES
from ..._tensor import Tensor

# What a node keeps: a value, an argument by its place, a result by its place and number, another result of the plan.
FIXED, ARGUMENT, OUTPUT, MADE = range(4)


class Unplannable(Exception):
    """A call does something that a plan cannot say."""


def pattern_of(
    outs: Sequence[Tensor | None], given: Sequence[Any], kept: list[Any] | None = None, in_order: bool = False
) -> Any:
    """The nodes that these results have, in words, for machine code that gives such nodes to other results; None if there are none.

    What they keep besides arguments and results is put into `kept`, to be a result of the plan too. `in_order` says
    that there is one node, whose edges and kept values are those of the arguments, one after the other.
    """
    nodes = _history(outs, in_order)
    if not nodes:
        return None
    if len(nodes) > NODES:
        raise Unplannable("a long history")
    index = {id(node): j for j, node in enumerate(nodes)}

    def place(t: Any) -> int:
        found = [i for i, v in enumerate(given) if v is t]
        if len(found) != 1:
            raise Unplannable("an operand that is no argument, or two of them")
        return found[0]

    def whose(edge: Any) -> int:
        return -1 if edge is None else edge[1] + (index[id(edge[0])] << 8)

    numbers = [whose(None if t is None else t._edge) for t in outs]

    def besides(array: Any, edge: Any) -> int:
        if kept is None:
            raise Unplannable("something that is kept besides")
        for j, other in enumerate(kept):
            if other is array:
                numbers[len(outs) + j] = max(numbers[len(outs) + j], whose(edge))
                return len(outs) + j
        kept.append(array)
        numbers.append(whose(edge))
        return len(numbers) - 1

    def keep(s: Any, i: int, node: Node) -> tuple[int, Any]:
        if in_order and i < len(given) and s is given[i]:
            return ARGUMENT, i
        if isinstance(s, SavedOutput):
            own = next((j for j, t in enumerate(outs) if t is not None and t._storage is s and t._view is None), -1)
            if own < 0:
                own = besides(s.array, (node, s.number) if s.k else None)
            return OUTPUT, own + (s.number << 8)
        if isinstance(s, Tensor):
            if any([v is s for v in given]):
                return ARGUMENT, place(s)
            own = next((j for j, t in enumerate(outs) if t is s), -1)
            return MADE, besides(s._array, s._edge) if own < 0 else own
        if not is_fixed(s):
            raise Unplannable("something that is kept besides")
        return FIXED, s

    def end(e: Any, i: int) -> int:
        if e is None:
            return -1
        return i if in_order else place(e[0]) if isinstance(e[0], Tensor) else -2 - whose(e)

    words, things = [len(nodes)], []
    for node in nodes:
        saved = [keep(s, i, node) for i, s in enumerate(node.saved)]
        label = getattr(node, "label", None)
        things.append((node.op, node.info, node.outputs, label, saved))
        words += [id(node.op), id(node.info), id(node.outputs), 0 if label is None else id(label)]
        words += [len(node.edges), len(saved), *[end(e, i) for i, e in enumerate(node.edges)]]
        for kind, s in saved:
            words += [kind, id(s) if kind == FIXED else s]
    return Words("q", [*words, *numbers], things)


def _history(outs: Sequence[Tensor | None], last: bool) -> list[Node]:
    """All nodes behind results, the oldest first; or those alone that made them."""
    found: dict[int, Node] = {}
    waiting = [t._edge[0] for t in outs if t is not None and t._edge is not None]
    while waiting:
        node = waiting.pop()
        if id(node) not in found and not isinstance(node, Tensor):
            if vars(node) or node.hooks or node.pre_hooks:
                raise Unplannable("a node with properties of its own")
            found[id(node)] = node
            waiting += [] if last else [e[0] for e in node.edges if e is not None]
    return sorted(found.values(), key=lambda node: -node.seq)


def is_fixed(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all([is_fixed(v) for v in value])
    return value is None or isinstance(value, (bool, int, float, complex, str, dtype, slice))


class Words(array.array):  # type: ignore[type-arg]
    """Numbers, with the objects that some of them point to."""

    def __new__(cls, code: str, numbers: Sequence[int], keep: Any) -> Words:
        made = super().__new__(cls, code, numbers)
        made.keep = keep
        return made

    keep: Any
