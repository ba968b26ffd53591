"""Nodes written by hand for the hottest layers, and kernels that run side by side on parts of their operands.

A layer takes this path when its operands are plain CPU tensors and no mode is on; otherwise the same arithmetic goes
through its primitive record, which tracing, batching and higher derivatives know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._autograd.node import Node
from .._backend import threads
from .._backend.cpu import PARALLEL
from .._core.state import GRAD, modes
from .._tensor import Tensor, refuse_inference
from .plans.sites import planned_formula
from .records.replay import gradients
from .records.saved import fetch, versions_of


class Fused:
    """What a node's `op` has to be: a name, and gradient(node, g, create_graph) -> one gradient for each input."""

    __slots__ = ("backward", "backward_name", "name")

    def __init__(self, name: str, backward_name: str, gradient: Callable[[Node, Any, bool], Sequence[Any]]):
        self.name, self.backward_name, self.backward = name, backward_name, gradient


class Fitted(Fused):
    """A node whose gradients are had by kernels, planned like the derivatives of records, or over tensors.

    A node keeps its inputs and then other values. `gradient(g, …, needs)` gets all of them, plain; `formula(…)` computes
    the result over tensors, for derivatives that are differentiated again.
    """

    __slots__ = ("formula", "gradient")

    def __init__(self, name: str, backward_name: str, gradient: Callable[..., Any], formula: Callable[..., Tensor]):
        super().__init__(name, backward_name, self._backward)
        self.gradient, self.formula = planned_formula(gradient), formula

    def _backward(self, node: Node, g: Any, create_graph: bool) -> Any:
        saved = [fetch(node, i) for i in range(len(node.saved))]
        needs = tuple([e is not None for e in node.edges])
        if create_graph or g._k & ~GRAD:
            rest = saved[len(needs) :]
            return gradients(lambda *given: self.formula(*given, *rest), saved[: len(needs)], [g], needs)
        return self.gradient(g, *saved, needs)


def record(op: Fused, out: Tensor, inputs: tuple[Any, ...], saved: list[Any]) -> None:
    """Attaches a node to a result; inputs are tensors or None."""
    edges = tuple([(t._edge or (t, 0)) if t is not None and t._k & GRAD else None for t in inputs])
    node = Node(op, edges, saved)
    if modes.inferred:
        refuse_inference(saved)
    node.versions = versions_of(saved)
    out._edge = (node, 0)
    out._k |= GRAD


def parts_of(length: int, work: int, least: int = 1) -> list[tuple[int, int]]:
    """The ranges into which a length is cut if `work` elements pay for it: some for each thread, so that one which
    starts late does less; fewer for many threads, as describing a part takes the interpreter some microseconds."""
    threads_now = threads.get_num_threads()
    if work < PARALLEL or threads_now == 1:
        return [(0, length)]
    each = 1 if threads_now > 8 else 2 if threads_now > 4 or work < 8 * PARALLEL else 4
    count = max(1, min(each * threads_now, length // least))
    return [(length * i // count, length * (i + 1) // count) for i in range(count)]


def is_flat(array: Any) -> bool:
    """Whether all elements are one number in memory, as in the gradient of a sum."""
    return not any(array.strides)
