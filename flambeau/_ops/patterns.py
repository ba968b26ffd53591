"""The node that one call left behind, as the pattern for the histories of calls alike."""

from __future__ import annotations

import array
from collections.abc import Sequence
from typing import Any

from .._autograd.node import Node, SavedOutput
from .._core.dtypes import dtype
from .._core.state import GRAD
from .._tensor import Tensor

# What a node keeps: a value, an argument by its place, a result by its place and number, another result of the plan.
FIXED, ARGUMENT, OUTPUT, MADE = range(4)


class Unplannable(Exception):
    """A call does something that a plan cannot say."""


def pattern_of(
    outs: Sequence[Tensor], given: Sequence[Any], kept: list[Any] | None = None, in_order: bool = False
) -> Any:
    """The node that these results have, in words, for machine code that gives such nodes to other results; None if there is none.

    What it keeps besides arguments and results is put into `kept`, to be a result of the plan too. `in_order` says
    that the node's edges and what it keeps are those of the arguments, one after the other.
    """
    node = next((t._edge[0] for t in outs if t._edge is not None), None)
    if node is None:
        return None
    others = any([t._edge is not None and t._edge[0] is not node for t in outs])
    if vars(node) or node.hooks or node.pre_hooks or others:
        raise Unplannable("a history of several nodes")

    def place(t: Any) -> int:
        found = [i for i, v in enumerate(given) if v is t]
        if len(found) != 1:
            raise Unplannable("an operand that is no argument, or two of them")
        return found[0]

    numbers = [-1 if t._edge is None else t._edge[1] for t in outs]

    def besides(array: Any, number: int) -> int:
        if kept is None:
            raise Unplannable("something that is kept besides")
        kept.append(array)
        numbers.append(number)
        return len(numbers) - 1

    def keep(s: Any, i: int) -> tuple[int, Any]:
        if in_order and i < len(given) and s is given[i]:
            return ARGUMENT, i
        if isinstance(s, SavedOutput):
            own = next((j for j, t in enumerate(outs) if t._storage is s), -1)
            if own < 0:
                own = besides(s.array, s.number if s.k else -1)
            return OUTPUT, own + (s.number << 8)
        if isinstance(s, Tensor):
            return (
                (MADE, besides(s._array, -1))
                if not s._k & GRAD and all([v is not s for v in given])
                else (ARGUMENT, place(s))
            )
        if not _is_fixed(s):
            raise Unplannable("something that is kept besides")
        return FIXED, s

    edges = [-1 if e is None else i if in_order else place(e[0]) for i, e in enumerate(node.edges)]
    saved = [keep(s, i) for i, s in enumerate(node.saved)]
    return _words(node, edges, saved, numbers)


def _is_fixed(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all([_is_fixed(v) for v in value])
    return value is None or isinstance(value, (bool, int, float, complex, str, dtype, slice))


def _words(node: Node, edges: Sequence[int], saved: Sequence[tuple[int, Any]], numbers: Sequence[int]) -> Any:
    """What `_attach` of the native entry reads."""
    label = getattr(node, "label", None)
    words = [
        id(node.op),
        id(node.info),
        id(node.outputs),
        0 if label is None else id(label),
        len(edges),
        len(saved),
        *edges,
    ]
    for kind, s in saved:
        words += [kind, id(s) if kind == FIXED else s]
    return Words("q", [*words, *numbers], (node.op, node.info, node.outputs, label, saved))


class Words(array.array):  # type: ignore[type-arg]
    """Numbers, with the objects that some of them point to."""

    def __new__(cls, code: str, numbers: Sequence[int], keep: Any) -> Words:
        made = super().__new__(cls, code, numbers)
        made.keep = keep
        return made

    keep: Any
