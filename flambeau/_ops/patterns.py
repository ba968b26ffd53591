"""The node that one call left behind, as the pattern for the histories of calls alike."""

from __future__ import annotations

import array
from collections.abc import Callable, Sequence
from typing import Any

from .._autograd.node import Node, SavedOutput, sequence
from .._core.dtypes import dtype
from .._core.state import modes
from .._tensor import Tensor, refuse_inference
from .saved import versions_of

_new = object.__new__
FIXED, ARGUMENT, OUTPUT = 0, 1, 2  # what a node keeps: a value, an argument by its place, a result by its number


class Unplannable(Exception):
    """A call does something that a plan cannot say."""


def pattern_of(outs: Sequence[Tensor], given: Sequence[Any], in_order: bool = False) -> tuple[Callable[..., Any], Any]:
    """A function that gives results of a plan the node that these have, over other arguments; and the same in words, for
    machine code. A node keeps arguments `in_order` if numbers among them are other ones in each call."""
    node = next((t._edge[0] for t in outs if t._edge is not None), None)
    if node is None:
        return (lambda out, *values: out), None
    others = any([t._edge is not None and t._edge[0] is not node for t in outs])
    if vars(node) or node.hooks or node.pre_hooks or others:
        raise Unplannable("a history of several nodes")

    def place(t: Any) -> int:
        found = [i for i, v in enumerate(given) if v is t]
        if len(found) != 1:
            raise Unplannable("an operand that is no argument, or two of them")
        return found[0]

    edges = [-1 if e is None else place(e[0]) for e in node.edges]
    saved = [
        _kept(s, outs, place, given[i] if in_order and i < len(given) else None, i) for i, s in enumerate(node.saved)
    ]
    numbers = [-1 if t._edge is None else t._edge[1] for t in outs]
    return _recorder(node, edges, saved, numbers), _words(node, edges, saved, numbers)


def _kept(s: Any, outs: Sequence[Tensor], place: Callable[[Any], int], same: Any, number: int) -> tuple[int, Any]:
    if isinstance(s, SavedOutput):
        if outs[s.number]._storage is not s:
            raise Unplannable("a result that is kept otherwise")
        return OUTPUT, s.number
    if isinstance(s, Tensor):
        return ARGUMENT, place(s)
    if s is same and s is not None:
        return ARGUMENT, number
    if not _is_fixed(s):
        raise Unplannable("something that is kept besides")
    return FIXED, s


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


def _recorder(
    node: Node, edges: Sequence[int], saved: Sequence[tuple[int, Any]], numbers: Sequence[int]
) -> Callable[..., Any]:
    op, info, outputs, label = node.op, node.info, node.outputs, getattr(node, "label", None)

    def record(out: Any, *values: Any) -> Any:
        made = _new(Node)
        made.op, made.info, made.outputs, made.seq = op, info, outputs, sequence()
        made.hooks = made.pre_hooks = None
        if label is not None:
            made.label = label
        made.edges = tuple([None if i < 0 else values[i]._edge or (values[i], 0) for i in edges])
        parts = (out,) if isinstance(out, Tensor) else out
        for t, number in zip(parts, numbers):
            if number >= 0:
                t._k, t._edge = 1, (made, number)
        made.saved = [
            values[s] if kind == ARGUMENT else SavedOutput(parts[s], s) if kind == OUTPUT else s for kind, s in saved
        ]
        if modes.inferred:
            refuse_inference(made.saved)
        made.versions = versions_of(made.saved)
        return out

    return record
