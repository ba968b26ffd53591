"""Collectives as functions of tensors: they give new tensors, and gradients go back through them by other collectives.

What one process computes from the results of others counts for all: the gradient of a sum over processes is the sum of
their gradients, that of a gathering is a reduction of parts, and the other way round.
"""

from __future__ import annotations

from typing import Any

from .._ops.registry import ops
from .._tensor import Tensor
from ..autograd.function import Function
from . import _collectives as calls
from ._groups import ProcessGroup
from ._kinds import ReduceOp


def _linear(op: Any) -> None:
    kind = op.op if isinstance(op, ReduceOp) else op
    if kind not in (ReduceOp.SUM, ReduceOp.AVG):
        raise RuntimeError(
            f"a reduction over processes by {kind} has no derivative: use SUM or AVG, or detach() its input"
        )


class AllReduce(Function):
    """The reduction over all processes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, op: Any, group: ProcessGroup) -> Tensor:
        ctx.op, ctx.group = op, group
        out = x.clone()
        calls.all_reduce(out, op, group)
        return out

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        _linear(ctx.op)
        return AllReduce.apply(g, ctx.op, ctx.group), None, None


class Broadcast(Function):
    """The tensor of one process, by its number in the group."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, root: int, group: ProcessGroup) -> Tensor:
        ctx.root, ctx.group = root, group
        out = x.clone()
        calls.broadcast(out, group=group, group_src=root)
        return out

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return Reduce.apply(g, ctx.root, ReduceOp.SUM, ctx.group), None, None


class Reduce(Function):
    """The reduction over all processes for one of them; the others get zeros."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, root: int, op: Any, group: ProcessGroup) -> Tensor:
        ctx.root, ctx.op, ctx.group = root, op, group
        out = x.clone()
        calls.reduce(out, None, op, group, group_dst=root)
        return out if group.rank() == root else ops.zeros_like(out)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        _linear(ctx.op)
        g = Broadcast.apply(g, ctx.root, ctx.group)
        return g if ctx.op == ReduceOp.SUM else g / ctx.group.size(), None, None, None


class AllGather(Function):
    """The tensors of all processes, one after the other along the first dimension."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: ProcessGroup) -> Tensor:
        ctx.group = group
        out = x.new_empty((x.shape[0] * group.size(), *x.shape[1:]))
        calls.all_gather_into_tensor(out, x, group)
        return out

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return ReduceScatter.apply(g, ReduceOp.SUM, ctx.group), None


class ReduceScatter(Function):
    """This process's part, along the first dimension, of the reduction over all processes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, op: Any, group: ProcessGroup) -> Tensor:
        ctx.op, ctx.group = op, group
        if x.shape[0] % group.size():
            raise RuntimeError(
                f"input dimension 0 ({x.shape[0]} must be a multiple of group_size {group.size()}) to be scattered"
            )
        out = x.new_empty((x.shape[0] // group.size(), *x.shape[1:]))
        calls.reduce_scatter_tensor(out, x, op, group)
        return out

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        _linear(ctx.op)
        g = AllGather.apply(g, ctx.group)
        return g if ctx.op == ReduceOp.SUM else g / ctx.group.size(), None, None


class AllToAll(Function):
    """Rows from all processes for rows to all of them."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, out_sizes: Any, sizes: Any, group: ProcessGroup) -> Tensor:
        ctx.out_sizes, ctx.sizes, ctx.group = out_sizes, sizes, group
        rows = sum(out_sizes) if out_sizes else x.shape[0]
        out = x.new_empty((rows, *x.shape[1:]))
        calls.all_to_all_single(out, x, out_sizes, sizes, group)
        return out

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return AllToAll.apply(g, ctx.sizes, ctx.out_sizes, ctx.group), None, None, None


def along(function: Any, x: Tensor, dim: int, *options: Any) -> Tensor:
    """A function of the first dimension, along another one."""
    dim = dim % max(x.dim(), 1)
    if not dim:
        return function.apply(x, *options)
    return function.apply(x.movedim(dim, 0), *options).movedim(0, dim).contiguous()
