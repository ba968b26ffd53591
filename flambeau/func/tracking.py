"""Which open transforms a tensor belongs to: those that map it by its class, those that differentiate by its history."""

from __future__ import annotations

from typing import Any

from .._autograd.node import Node
from .._core.state import DUAL, GRAD, local
from .._tensor import Tensor
from .._tensor import memory as _tensor_memory
from .._tensor import protocol as _protocol
from .batched import Batched


def root(t: Tensor) -> Tensor:
    """The plain tensor inside nested batches."""
    while isinstance(t, Batched):
        t = t.value
    return t


class Entry:
    """The edge between what a function is differentiated by and what it is given, which it may write to."""

    name, backward_name = "entry", "AliasBackward0"

    @staticmethod
    def backward(node: Node, g: Tensor, create_graph: bool) -> list[Tensor]:
        return [g]


def entered(leaf: Tensor) -> Node:
    """The edge into the innermost open transform."""
    node = Node(Entry, (leaf._edge or (leaf, 0),))
    node.transform = local.transforms[-1]
    return node


def derived_in(t: Tensor) -> list[int]:
    """The levels of open transforms that differentiate with respect to something that `t` was computed from."""
    plain = root(t)
    found, seen, stack = set(), set(), [plain._edge[0]] if plain._k & GRAD and plain._edge is not None else []
    if plain._k & DUAL:  # the outermost `jvp` is the one that gives tangents
        found.update([level for level, kind in local.transforms if kind == "Jvp"][:1])
    while stack and len(found) < len(local.transforms):
        node = stack.pop()
        if id(node) in seen or isinstance(node, Tensor):
            continue
        seen.add(id(node))
        if node.op is Entry and any(node.transform is one for one in local.transforms):
            found.add(node.transform.level)
        stack += [edge[0] for edge in node.edges if edge is not None]
    return sorted(found)


def mapped_in(t: Any) -> dict[int, int]:
    """Where the batches of a tensor lie, by level."""
    found = {}
    while isinstance(t, Batched):
        found[t.level] = t.bdim
        t = t.value
    return found


def text(t: Tensor) -> str | None:
    """How a tensor of an open transform reads: one line for each, the innermost first; None for others."""
    batches = mapped_in(t)
    open_levels = sorted({*batches, *derived_in(t)})
    if not open_levels:
        return None
    inner = repr(root(t).detach())
    for level in open_levels:
        kind = (
            f"BatchedTensor(lvl={level}, bdim={batches[level]}"
            if level in batches
            else f"GradTrackingTensor(lvl={level}"
        )
        shifted = "\n".join("    " + line for line in inner.splitlines())
        inner = f"{kind}, value=\n{shifted}\n)"
    return inner


_protocol.transformed_text, _tensor_memory.derived_in = text, derived_in

__all__ = ["Entry", "derived_in", "entered", "mapped_in", "root", "text"]
