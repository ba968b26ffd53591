"""What nodes change that is there already: elements of tensors, gradients of leaves."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._autograd import engine
from .._ops.registry import ops
from .._tensor import Tensor
from .._tensor.memory import read_data
from .expected import Expect
from .graph import COMPUTES, Node, Value


def write(target: Tensor, source: Any) -> None:
    """Copies elements or a number into a tensor's memory and counts the write."""
    ops.copy_(target, source.item() if isinstance(source, np.ndarray) else source)


def write_data(target: Tensor, source: Any) -> None:
    """The same through `.data`: the write is not counted as one to the tensor."""
    write(read_data(target), source)


WRITES = frozenset([write, write_data])


class Accumulate:
    """Adds a gradient to a leaf, or to one that the program is given (None); gives its gradient as it is then.

    `first`: there was none when the program was recorded.
    """

    name = "accumulate"

    def __init__(self, leaf: Tensor | None, first: bool):
        self.leaf, self.first = leaf, first

    def __call__(self, g: Tensor, *given: Tensor) -> Any:
        leaf = given[0] if self.leaf is None else self.leaf
        engine.accumulate(leaf, g, False, True)
        return leaf.grad


def whole_of(v: Value) -> Value:
    """The value in whose memory another lies: what a view shows, or what a node gave back."""
    while v.node is not None:
        shown = getattr(v.node.op, "view", False)
        found = next((o for o in v.node.operands() if shown or o.number == v.number), v)
        if found is v:
            break
        v = found
    return v


def changes(node: Node) -> bool:
    """Whether a node may change something that is there when it has run."""
    return bool(node.writes) or (node.opaque not in (False, COMPUTES) and not isinstance(node.op, Expect))


def is_gift(node: Node) -> bool:
    """Whether a node gives a leaf its first gradient, and nobody is told."""
    if not isinstance(node.op, Accumulate) or node.op.leaf is None or not node.op.first:
        return False
    meta = node.op.leaf._autograd_meta
    return meta is None or not meta.post_hooks


def leaves_of(args: Any) -> list[Tensor]:
    """The tensors whose gradients a step may change: arguments, parameters of modules and optimizers."""
    found: list[Tensor] = []
    for a in args:
        if isinstance(a, Tensor):
            found.append(a)
        elif hasattr(a, "param_groups"):
            found += [p for group in a.param_groups for p in group["params"]]
        elif hasattr(a, "parameters") and hasattr(a, "zero_grad"):
            found += a.parameters()
    return found
