"""`Function` in forward mode: from tangents of its inputs to those of its outputs, by the user's `jvp`."""

from __future__ import annotations

from typing import Any

from .._core.state import GRAD
from .._tensor import Tensor
from . import engine
from .node import Node


def transposed_jvp(node: Node, gradients: list[Any]) -> list[Any]:
    """Backward as forward-mode differentiation reads it: nothing but its derivative by `gradients`, which `jvp` gives.

    That derivative is all that matters of a linear function, so that the values are zeros.
    """
    kept = [g for g in gradients if isinstance(g, Tensor) and g._k & GRAD]
    link = Node(_Tangents, tuple(g._edge or (g, 0) for g in kept))
    link.outputs = tuple((*info[:2], 0) for info in node.info)
    link.__dict__.update(node=node, kept=[i for i, g in enumerate(gradients) if any(g is k for k in kept)])
    made: list[Any] = []
    for i, (edge, info) in enumerate(zip(node.edges, node.info)):
        if edge is None:
            made.append(None)
            continue
        r = engine.zeros(info[0], info[1], 0)
        r._k |= GRAD
        r._edge = (link, i)
        made.append(r)
    return made


class _Tangents:
    """The derivative of what `transposed_jvp` gives: from tangents of a Function's inputs to those of its outputs."""

    name = backward_name = "jvp"

    @staticmethod
    def backward(link: Node, tangents: Any, create_graph: bool) -> Any:
        node = link.__dict__["node"]
        ctx = node.__dict__["ctx"]
        given: list[Any] = [None] * node.__dict__["argument_count"]
        for i, t, info in zip(node.__dict__["positions"], tangents, node.info):
            missing = t is None and ctx._materialize and info[1].category >= 2
            given[i] = engine.zeros(info[0], info[1], 0) if missing else t
        made = pushed(node.op.function, ctx, given, node.__dict__["differentiable"])
        return [made[i] for i in link.__dict__["kept"]]


def pushed(function: Any, ctx: Any, tangents: list[Any], differentiable: list[bool]) -> Any:
    """What a Function's `jvp` makes of the tangents of its arguments, checked: one for each differentiable output."""
    before, ctx._replaced_saved = ctx._replaced_saved, ctx._saved_for_forward
    try:
        made = function.jvp(ctx, *tangents)
    finally:
        ctx._replaced_saved = before
    made = made if isinstance(made, tuple) else (made,)
    if len(made) != len(differentiable):
        raise RuntimeError(
            f"Function's jvp returned an invalid number of forward gradients (expected {len(differentiable)} but got "
            f"{len(made)})"
        )
    for i, (t, wanted) in enumerate(zip(made, differentiable)):
        if t is not None and not isinstance(t, Tensor):
            raise RuntimeError(f"expected Variable or None (got {type(t).__name__}) for grad output {i}.")
        if t is not None and not wanted:
            raise RuntimeError(
                f"Function's jvp returned a gradient at position {i}, but the corresponding forward output is not a "
                "differentiable Tensor. You should return None at that position instead."
            )
    return made
