"""Collective calls that give new tensors, and are part of the graph."""

from __future__ import annotations

from typing import Any

from .._tensor import Tensor
from . import _collectives as calls
from ._differentiable import AllGather, AllReduce, AllToAll, Broadcast, ReduceScatter, along
from ._groups import ProcessGroup, _world, current, get_group_rank
from ._kinds import ReduceOp

__all__ = [
    "AsyncCollectiveTensor", "all_gather_inplace", "all_gather_into_tensor_coalesced", "all_gather_single",
    "all_gather_single_autograd", "all_gather_tensor", "all_gather_tensor_autograd", "all_gather_tensor_inplace",
    "all_reduce", "all_reduce_coalesced", "all_reduce_inplace", "all_to_all_inplace", "all_to_all_single",
    "all_to_all_single_autograd", "broadcast", "permute_tensor", "reduce_scatter_single", "reduce_scatter_single_autograd",
    "reduce_scatter_tensor", "reduce_scatter_tensor_autograd", "reduce_scatter_tensor_coalesced",
    "reduce_scatter_tensor_inplace", "wait_tensor",
]  # fmt: skip


class AsyncCollectiveTensor(Tensor):
    """A tensor that other processes still work on; there are none, because every call is done when it returns."""


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor, when it is there: now."""
    return tensor


def _resolve_group(group: Any, tag: str = "") -> ProcessGroup:
    """A group by itself, its name, its ranks, or a mesh (and the number of its dimension)."""
    if group is None or isinstance(group, ProcessGroup):
        return current(group)
    if isinstance(group, str):
        for found in _world.groups:
            if found.group_name == group:
                return found
        raise RuntimeError(f"Could not resolve the process group registered under the name {group}")
    if isinstance(group, tuple) and len(group) == 2 and hasattr(group[0], "get_group"):
        return group[0].get_group(group[1])
    if hasattr(group, "get_group"):
        return group.get_group()
    if isinstance(group, list):
        lists = group if group and isinstance(group[0], list) else [group]
        me = current().rank()
        for ranks in lists:
            if me in ranks:
                for found in _world.groups:
                    if found.ranks == ranks:
                        return found
        raise RuntimeError(
            f"there is no group of the processes {group}: make it with torch.distributed.new_group first"
        )
    raise ValueError(f"Unsupported group type: {type(group)}, {group}")


def _resolve_group_name(group: Any, tag: str = "") -> str:
    return _resolve_group(group).group_name


def _kind(reduceOp: str) -> Any:
    found = ReduceOp.RedOpType.__members__.get(str(reduceOp).upper().rpartition(".")[2])
    if found is None:
        raise ValueError(f"Invalid reduce operation {reduceOp!r}: sum, avg, product, min, max, band, bor or bxor")
    return found


def all_reduce(self: Tensor, reduceOp: str, group: Any = None, tag: str = "") -> Tensor:
    """The sum (or another reduction) over all processes.

    >>> import flambeau as torch, flambeau.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> x = torch.ones(2, requires_grad=True)
    >>> all_reduce(x, "sum", dist.group.WORLD).sum().backward(); x.grad
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    return AllReduce.apply(self, _kind(reduceOp), _resolve_group(group))


def broadcast(self: Tensor, src: int, group: Any = None, tag: str = "") -> Tensor:
    """The tensor of one process, by its number in the world."""
    group = _resolve_group(group)
    return Broadcast.apply(self, get_group_rank(group, src), group)


def all_gather_tensor(self: Tensor, gather_dim: int = 0, group: Any = None, tag: str = "") -> Tensor:
    """The tensors of all processes one after the other."""
    return along(AllGather, self, gather_dim, _resolve_group(group))


def reduce_scatter_tensor(
    self: Tensor, reduceOp: str, scatter_dim: int = 0, group: Any = None, tag: str = ""
) -> Tensor:
    """This process's part of the sum over all processes."""
    return along(ReduceScatter, self, scatter_dim, _kind(reduceOp), _resolve_group(group))


def all_to_all_single(
    self: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None, group: Any = None, tag: str = ""
) -> Tensor:
    """Rows from all processes for rows to all of them."""
    return AllToAll.apply(self, output_split_sizes, input_split_sizes, _resolve_group(group))


all_gather_tensor_autograd = all_gather_single = all_gather_single_autograd = all_gather_tensor
reduce_scatter_tensor_autograd = reduce_scatter_single = reduce_scatter_single_autograd = reduce_scatter_tensor
all_to_all_single_autograd = all_to_all_single


def permute_tensor(self: Tensor, src_dst: list[int], group: Any = None, tag: str = "") -> Tensor:
    """The tensor of the process that sends to this one: process i sends to `src_dst[i]`."""
    group = _resolve_group(group)
    me, rows = group.rank(), self.shape[0]
    sizes, out_sizes = [0] * group.size(), [0] * group.size()
    sizes[src_dst[me]] = out_sizes[src_dst.index(me)] = rows
    return AllToAll.apply(self, out_sizes, sizes, group)


def all_reduce_coalesced(self: list[Tensor], reduceOp: str, group: Any = None, tag: str = "") -> list[Tensor]:
    """`all_reduce` of several tensors."""
    return [all_reduce(x, reduceOp, group) for x in self]


def all_gather_into_tensor_coalesced(self: list[Tensor], group: Any = None, tag: str = "") -> list[Tensor]:
    """`all_gather_tensor` of several tensors."""
    return [all_gather_tensor(x, 0, group) for x in self]


def reduce_scatter_tensor_coalesced(
    inputs: list[Tensor], reduceOp: str, scatter_dim: list[int], group: Any = None, tag: str = ""
) -> list[Tensor]:
    """`reduce_scatter_tensor` of several tensors."""
    return [reduce_scatter_tensor(x, reduceOp, dim, group) for x, dim in zip(inputs, scatter_dim)]


def _not_async(async_op: bool) -> None:
    if async_op:
        raise AssertionError("Can't remap async version of inplace op to functional collective")


def all_gather_tensor_inplace(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False, tag: str = "",
    gather_dim: int = 0,
) -> Tensor:  # fmt: skip
    """`all_gather_tensor` into a tensor."""
    _not_async(async_op)
    return output_tensor.copy_(all_gather_tensor(input_tensor, gather_dim, group))


def reduce_scatter_tensor_inplace(
    output: Tensor, input: Tensor, op: Any = "sum", group: Any = None, async_op: bool = False, scatter_dim: int = 0,
    tag: str = "",
) -> Tensor:  # fmt: skip
    """`reduce_scatter_tensor` into a tensor."""
    _not_async(async_op)
    return output.copy_(reduce_scatter_tensor(input, op, scatter_dim, group))


def all_reduce_inplace(
    tensor: Tensor, op: Any = "sum", group: Any = None, async_op: bool = False, tag: str = ""
) -> Tensor:
    """`all_reduce` into its tensor."""
    _not_async(async_op)
    return tensor.copy_(all_reduce(tensor, op, group))


def all_to_all_inplace(
    output: Tensor, input: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None, group: Any = None,
    async_op: bool = False, tag: str = "",
) -> Tensor:  # fmt: skip
    """`all_to_all_single` into a tensor."""
    _not_async(async_op)
    return output.copy_(all_to_all_single(input, output_split_sizes, input_split_sizes, group))


def all_gather_inplace(
    tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False, tag: str = ""
) -> list[Tensor]:
    """`all_gather_tensor` into a list of tensors."""
    _not_async(async_op)
    calls.all_gather(tensor_list, tensor, _resolve_group(group))
    return tensor_list
