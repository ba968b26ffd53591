"""From one placement to another, as functions of local tensors that gradients go through.

The gradient of a replicated tensor is whole in every process, that of a divided one divided alike, and that of a summand
is the gradient of the sum.
"""

from __future__ import annotations

from typing import Any

from ..._core.layouts import contiguous_format
from ..._ops.registry import ops
from ..._tensor import Tensor
from ...autograd.function import Function
from .. import _collectives as calls
from .._kinds import ReduceOp
from ._utils import piece
from .placement_types import Partial, Placement, Replicate, Shard


def gathered(x: Tensor, dim: int, length: int, group: Any) -> Tensor:
    """All parts of a tensor, of which this process has one."""
    parts = group.size()
    chunk = -(-length // parts)
    own = x.movedim(dim, 0)
    shape = own.shape[1:]
    if own.shape[0] != chunk:
        padded = x.new_zeros((chunk, *shape))
        padded[: own.shape[0]] = own
        own = padded
    whole = x.new_empty((chunk * parts, *shape))
    calls.all_gather_into_tensor(whole, own.contiguous(), group)
    return whole[:length].movedim(0, dim).contiguous()


def cut(x: Tensor, dim: int, group: Any) -> Tensor:
    """This process's part."""
    begin, length = piece(x.shape[dim], group.size(), group.rank())
    return x.narrow(dim, begin, length).clone(memory_format=contiguous_format)


def summed(x: Tensor, group: Any, op: str = "sum") -> Tensor:
    out = x.clone(memory_format=contiguous_format)
    kind = {"sum": "SUM", "avg": "AVG", "max": "MAX", "min": "MIN", "product": "PRODUCT"}[op]
    calls.all_reduce(out, getattr(ReduceOp, kind), group)
    return out


def sum_scattered(x: Tensor, dim: int, group: Any) -> Tensor:
    """This process's part of a sum."""
    parts, length = group.size(), x.shape[dim]
    chunk = -(-length // parts)
    moved = x.movedim(dim, 0)
    if chunk * parts != length:
        padded = x.new_zeros((chunk * parts, *moved.shape[1:]))
        padded[:length] = moved
        moved = padded
    out = x.new_empty((chunk, *moved.shape[1:]))
    calls.reduce_scatter_tensor(out, moved.contiguous(), group=group)
    return out[: piece(length, parts, group.rank())[1]].movedim(0, dim).contiguous()


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int, length: int, group: Any) -> Tensor:
        ctx.dim, ctx.group = dim, group
        return gathered(x, dim, length, group)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return _Cut.apply(g, ctx.dim, ctx.group), None, None, None


class _Cut(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int, group: Any) -> Tensor:
        ctx.dim, ctx.group, ctx.length = dim, group, x.shape[dim]
        return cut(x, dim, group)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return _Gather.apply(g, ctx.dim, ctx.length, ctx.group), None, None


class _Sum(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any, op: str) -> Tensor:
        ctx.group, ctx.op = group, op
        return summed(x, group, op)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        if ctx.op not in ("sum", "avg"):
            raise RuntimeError(f"Partial({ctx.op!r}) has no derivative: redistribute the input before the reduction")
        return (g if ctx.op == "sum" else g / ctx.group.size()), None, None


class _SumScatter(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int, group: Any) -> Tensor:
        ctx.dim, ctx.group, ctx.length = dim, group, x.shape[dim]
        return sum_scattered(x, dim, group)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return _Gather.apply(g, ctx.dim, ctx.length, ctx.group), None, None


class _Share(Function):
    """The whole tensor as equal summands."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        return x / group.size()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return g, None


class Used(Function):
    """A replicated tensor that each process computes another part with: its gradients are summands."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        return ops.alias(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return _Sum.apply(g, ctx.group, "sum"), None


def _to_replicate(x: Tensor, placement: Placement, length: int, group: Any) -> Tensor:
    if isinstance(placement, Shard):
        return _Gather.apply(x, placement.dim, length, group)
    if isinstance(placement, Partial):
        return _Sum.apply(x, group, placement.reduce_op)
    return x


def redistribute(x: Tensor, mesh: Any, old: Any, new: Any, shape: Any) -> Tensor:
    """The local tensor with other placements."""
    old, new = list(old), list(new)
    for dim, (a, b) in enumerate(zip(old, new)):
        if isinstance(b, Partial) and a != b and b.reduce_op != "sum":
            raise RuntimeError(f"redistribute: cannot go from {a} to {b} on dimension {dim} of the mesh")
    for dim in range(len(old) - 1, -1, -1):  # inner dimensions first: they divide the parts of the outer ones
        a, b, group = old[dim], new[dim], mesh.get_group(dim)
        below = a != b or any(old[k] != new[k] and isinstance(a, Shard) and a in (old[k], new[k]) for k in range(dim))
        if not below or isinstance(a, Replicate):
            continue
        alone = len(old) == 1 or not any(p.is_shard(getattr(b, "dim", -1)) for p in old)
        if isinstance(a, Partial) and a.reduce_op == "sum" and isinstance(b, Shard) and alone:
            x, old[dim] = _SumScatter.apply(x, b.dim, group), b
            continue
        length = 0
        if isinstance(a, Shard):
            length = int(shape[a.dim])
            for k in range(dim):
                if old[k] == a:
                    length = piece(length, mesh.size(k), mesh.get_local_rank(k))[1]
        x, old[dim] = _to_replicate(x, a, length, group), Replicate()
    for dim, (a, b) in enumerate(zip(old, new)):
        if a == b:
            continue
        group = mesh.get_group(dim)
        x = _Cut.apply(x, b.dim, group) if isinstance(b, Shard) else _Share.apply(x, group)
    return x
