"""Collectives as differentiable functions: every one gives new tensors."""

from __future__ import annotations

from typing import Any

from ..._ops.registry import ops
from ..._tensor import Tensor
from ...autograd.function import Function as Function
from .._differentiable import AllGather, AllReduce, AllToAll, Broadcast, Reduce, ReduceScatter
from .._groups import current, get_group_rank
from .._groups import group as group
from .._kinds import ReduceOp

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce", "reduce_scatter",
    "scatter",
]  # fmt: skip


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The tensors of all processes made one, as a new tensor."""
    return AllReduce.apply(tensor, op, current(group))


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes."""
    return AllGather.apply(tensor[None], current(group)).unbind(0)


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The tensor of process `src`."""
    group = current(group)
    return Broadcast.apply(tensor, get_group_rank(group, src), group)


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The tensors of all processes made one, for process `dst`; zeros for the others."""
    group = current(group)
    return Reduce.apply(tensor, get_group_rank(group, dst), op, group)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes, for process `dst`; zeros for the others."""
    group = current(group)
    size, me, root = group.size(), group.rank(), get_group_rank(group, dst)
    sizes, out_sizes = [0] * size, [1 if me == root else 0] * size
    sizes[root] = 1
    found = AllToAll.apply(tensor[None], out_sizes, sizes, group)
    if me == root:
        return found.unbind(0)
    nothing = found.sum()  # of no elements: the call stays in the graph, whose backward pass all processes run
    return tuple(ops.zeros_like(tensor) + nothing for _ in range(size))


def scatter(tensors: list[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """This process's part of what `src` gives out."""
    group = current(group)
    size, me, root = group.size(), group.rank(), get_group_rank(group, src)
    sizes, out_sizes = [1 if me == root else 0] * size, [0] * size
    out_sizes[root] = 1
    stacked = ops.stack(list(tensors))
    return AllToAll.apply(stacked if me == root else stacked[:0], out_sizes, sizes, group)[0]


def reduce_scatter(output: Tensor, input_list: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """This process's part of the tensors of all processes made one."""
    return ReduceScatter.apply(ops.stack(list(input_list)), op, current(group))[0]


def all_to_all(output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None) -> Any:
    """What every process has for this one."""
    shapes = [t.shape for t in output_tensor_list]
    sizes, out_sizes = [t.numel() for t in input_tensor_list], [t.numel() for t in output_tensor_list]
    flat = ops.cat([t.reshape(-1) for t in input_tensor_list])
    found = AllToAll.apply(flat, out_sizes, sizes, current(group))
    return tuple(part.reshape(shape) for part, shape in zip(found.split(out_sizes), shapes))


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None, group: Any = None
) -> Tensor:
    """What every process has for this one, in one tensor."""
    found = AllToAll.apply(input, output_split_sizes, input_split_sizes, current(group))
    return found.reshape(output.shape)
