"""Nodes of primitives with one tensor whose result was computed by a shorter way than the primitive's own."""

from __future__ import annotations

from typing import Any

from .._autograd.node import Node, SavedOutput, sequence
from .._tensor import InferenceMeta, Tensor, refuse_inference
from .saved import versions_of

_new = object.__new__


def _node(op: Any, input: Tensor, saved: list[Any], outputs: Any) -> Node:
    node = _new(Node)
    node.op, node.edges, node.seq = op, (input._edge or (input, 0),), sequence()
    node.info = ((input._array.shape, input.dtype, 1),)
    node.hooks = node.pre_hooks = node.versions = None
    node.saved, node.outputs = saved, outputs
    if input._autograd_meta.__class__ is InferenceMeta:
        refuse_inference(saved)
    if input._storage is not None and input._storage.version and saved[0] is not None:
        node.versions = versions_of(saved)
    return node


def _kept(out: Tensor, number: int) -> SavedOutput:
    kept = out._storage = _new(SavedOutput)
    kept.array, kept.dtype, kept.k, kept.number, kept.version = out._array, out.dtype, 1 - number, number, 0
    kept.shared = kept.views = None
    return kept


def attach(op: Any, input: Tensor, static: tuple[Any, ...], out: Tensor) -> Tensor:
    """Gives a fresh result the history that `op(input, *static)` would have."""
    plan = op.plans.get(1)
    if plan is None:
        plan = op.plans[1] = op.plan(1)
    dropped, keeps_output, _ = plan
    saved = [None if dropped else input, *static, _kept(out, 0) if keeps_output else None]
    out._k, out._edge = 1, (_node(op, input, saved, None), 0)
    return out


def attach_pair(op: Any, input: Tensor, static: tuple[Any, ...], values: Tensor, places: Tensor) -> None:
    """The same for elements and their places, which are all that the derivative needs."""
    shape = values._array.shape
    outputs = (shape, values.dtype, 0), (shape, places.dtype, 0)
    values._k, values._edge = 1, (_node(op, input, [None, *static, None, _kept(places, 1)], outputs), 0)
