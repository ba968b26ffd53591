"""Collective calls that give new tensors. In a world of one process they give the own tensor."""

from __future__ import annotations

from typing import Any

from .._tensor import Tensor
from . import _groups
from ._collectives import _reduction
from ._kinds import ReduceOp

__all__ = [
    "AsyncCollectiveTensor", "all_gather_tensor", "all_reduce", "all_to_all_single", "all_to_all_single_autograd",
    "broadcast", "reduce_scatter_tensor", "wait_tensor",
]  # fmt: skip


class AsyncCollectiveTensor(Tensor):
    """A tensor that another process still works on; there are none, because every call is done when it returns."""


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor, when it is there: now."""
    return tensor


def all_reduce(self: Tensor, reduceOp: str, group: Any = None, tag: str = "") -> Tensor:
    """The sum (or another reduction) over all processes: a copy."""
    _groups.current(group if isinstance(group, _groups.ProcessGroup) else None)
    _reduction(self, ReduceOp.RedOpType[str(reduceOp).upper()], "all_reduce")
    return self.clone()


def broadcast(self: Tensor, src: int, group: Any = None, tag: str = "") -> Tensor:
    """The tensor of one process: a copy."""
    return self.clone()


def all_gather_tensor(self: Tensor, gather_dim: int = 0, group: Any = None, tag: str = "") -> Tensor:
    """The tensors of all processes one after the other: a copy."""
    return self.clone()


def reduce_scatter_tensor(
    self: Tensor, reduceOp: str, scatter_dim: int = 0, group: Any = None, tag: str = ""
) -> Tensor:
    """This process's part of the sum over all processes: a copy."""
    return self.clone()


def all_to_all_single(
    self: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None, group: Any = None, tag: str = ""
) -> Tensor:
    """Parts from all processes for parts to all of them: a copy."""
    return self.clone()


all_to_all_single_autograd = all_to_all_single
