"""Collectives as differentiable functions. In a world of one every one of them gives its input back as a new tensor."""

from __future__ import annotations

from typing import Any

from ..._tensor import Tensor
from ...autograd.function import Function as Function
from .._groups import get_rank
from .._kinds import ReduceOp

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce", "reduce_scatter",
    "scatter",
]  # fmt: skip


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The tensors of all processes made one, as a new tensor."""
    get_rank(group)  # raises where there is no group
    return tensor.clone()


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes."""
    return (all_reduce(tensor, group=group),)


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The tensor of process `src`."""
    return all_reduce(tensor, group=group)


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The tensors of all processes made one, for process `dst`."""
    return all_reduce(tensor, op, group)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes, for process `dst`."""
    return all_gather(tensor, group)


def scatter(tensors: list[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """This process's part of what `src` gives out."""
    return all_reduce(tensors[get_rank(group)], group=group)


def reduce_scatter(output: Tensor, input_list: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """This process's part of the tensors of all processes made one."""
    return all_reduce(input_list[get_rank(group)], op, group)


def all_to_all(output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None) -> Any:
    """What every process has for this one."""
    return tuple(all_reduce(t, group=group) for t in input_tensor_list)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None, group: Any = None
) -> Tensor:
    """What every process has for this one, in one tensor."""
    return all_reduce(input, group=group)
