"""`torch.ops._c10d_functional` and `torch.ops.c10d`: collective calls as operators, which tensor subclasses answer for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._tensor import Tensor
from . import _collectives as calls
from . import _functional_collectives as functional


def _all_reduce(input: Tensor, reduce_op: str, group_name: Any) -> Tensor:
    return functional.all_reduce(input, reduce_op, group_name)


def _broadcast(input: Tensor, src: int, group_name: Any) -> Tensor:
    return functional.broadcast(input, src, group_name)


def _all_gather(input: Tensor, group_size: int, group_name: Any) -> Tensor:
    return functional.all_gather_tensor(input, 0, group_name)


def _reduce_scatter(input: Tensor, reduce_op: str, group_size: int, group_name: Any) -> Tensor:
    return functional.reduce_scatter_tensor(input, reduce_op, 0, group_name)


def _all_to_all(input: Tensor, output_split_sizes: Any, input_split_sizes: Any, group_name: Any) -> Tensor:
    return functional.all_to_all_single(input, output_split_sizes, input_split_sizes, group_name)


def _scatter(
    output_tensors: list[Tensor], input_tensors: list[list[Tensor]], process_group: Any, root_rank: int, *_: Any
) -> tuple[list[Tensor], Any]:
    given = input_tensors[0] if input_tensors else None
    work = calls.scatter(output_tensors[0], given, group=process_group, async_op=True, group_src=root_rank)
    return output_tensors, work


def _same(input: Tensor) -> Tensor:
    return input


FUNCTIONS: dict[str, dict[str, Callable[..., Any]]] = {
    "_wrap_tensor_autograd": {"": _same},
    "all_gather_into_tensor": {"": _all_gather},
    "all_reduce": {"": _all_reduce},
    "all_to_all_single": {"": _all_to_all},
    "broadcast": {"": _broadcast},
    "reduce_scatter_tensor": {"": _reduce_scatter},
    "scatter_": {"": _scatter},
    "wait_tensor": {"": _same},
}
