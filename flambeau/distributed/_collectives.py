"""Calls that all processes of a group make together, in the same order."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from .._autograd.modes import no_grad
from .._ops.registry import ops
from .._tensor import Tensor
from ._buffers import Finish, reading, reading_all, writing, writing_all
from ._calls import (
    Together,
    check_length,
    check_parts,
    check_size,
    check_sizes,
    check_tensor,
    check_tensors,
    divide,
    enter,
    issue,
    premultiply,
    reduction,
    root_rank,
    same_dtype,
)
from ._groups import ProcessGroup, current, is_outside
from ._kinds import DistBackendError, RedOpType, ReduceOp
from ._work import Work

__all__ = [
    "all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_single", "all_reduce", "all_reduce_coalesced",
    "all_to_all", "all_to_all_single", "barrier", "broadcast", "gather", "monitored_barrier", "reduce", "reduce_scatter",
    "reduce_scatter_single", "reduce_scatter_tensor", "scatter",
]  # fmt: skip


# -- the same tensor everywhere -----------------------------------------------------------------------------------------


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Every process gets the sum (or another reduction) of all tensors, in place."""
    check_tensor(tensor, "tensor")
    if is_outside(group):
        return None
    group = current(group)
    if tensor.is_sparse:
        return _all_reduce_sparse(tensor, op, group, async_op)
    channel = group.channel(tensor.device.type)
    kind, factor = reduction(tensor, op, "all_reduce")
    finish: list[Finish] = []
    flat = writing(tensor, finish, channel)
    premultiply(flat, factor)
    if kind is RedOpType.AVG:
        finish.insert(0, divide(flat, group.size()))
    start = lambda channel: channel.all_reduce(flat, kind)
    return issue(group, "all_reduce", start, [tensor], finish, async_op, flat.nbytes, channel)


def _all_reduce_sparse(tensor: Tensor, op: Any, group: ProcessGroup, async_op: bool) -> Work | None:
    """The sum of sparse tensors: all get the places and values of all."""
    if op != ReduceOp.SUM:
        raise ValueError("all_reduce: sparse tensors can only be added (ReduceOp.SUM)")
    own = tensor.detach().coalesce()
    places, values = own.indices(), own.values()
    counts = places.new_empty(group.size())
    all_gather_into_tensor(counts, places.new_tensor([values.shape[0]]), group)
    longest, sizes = int(counts.max()), counts.tolist()
    found = []
    for part in (places.t(), values):
        padded = part.new_zeros((longest, *part.shape[1:]))
        padded[: part.shape[0]] = part
        out = part.new_empty((group.size(), *padded.shape))
        all_gather_into_tensor(out, padded, group)
        found.append(ops.cat([out[r, :size] for r, size in enumerate(sizes)]))
    with no_grad():
        tensor.copy_(ops.sparse_coo_tensor(found[0].t(), found[1], tensor.shape).coalesce())
    return Work("all_reduce", [tensor]) if async_op else None


def all_reduce_coalesced(
    tensors: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """`all_reduce` of several tensors."""
    tensors = [tensors] if isinstance(tensors, Tensor) else tensors
    check_tensors(tensors, "tensors")
    if is_outside(group):
        return None
    works = [all_reduce(tensor, op, group, True) for tensor in tensors]
    return _together(works, async_op)


def _together(works: list[Any], async_op: bool) -> Work | None:
    together = Together(works)
    if async_op:
        return together
    together.wait()
    return None


def broadcast(
    tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """Every process gets the tensor of the process `src`."""
    check_tensor(tensor, "tensor")
    group, channel = enter(group, tensor)
    if group is None:
        return None
    root = root_rank(group, src, group_src, "broadcast")
    finish: list[Finish] = []
    own = group.rank() == root
    flat = reading(tensor, channel) if own else writing(tensor, finish, channel)
    start = lambda channel: channel.broadcast(flat, root)
    return issue(group, "broadcast", start, [tensor], finish, async_op, flat.nbytes, channel)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """The process `dst` gets the sum (or another reduction) of all tensors, in place."""
    check_tensor(tensor, "tensor")
    group, channel = enter(group, tensor)
    if group is None:
        return None
    root = root_rank(group, dst, group_dst, "reduce")
    kind, factor = reduction(tensor, op, "reduce")
    finish: list[Finish] = []
    own = group.rank() == root
    flat = (
        writing(tensor, finish, channel)
        if own
        else reading(tensor, channel).copy()
        if factor is not None
        else reading(tensor, channel)
    )
    premultiply(flat, factor)
    if own and kind is RedOpType.AVG:
        finish.insert(0, divide(flat, group.size()))
    start = lambda channel: channel.reduce(flat, root, kind)
    return issue(group, "reduce", start, [tensor], finish, async_op, flat.nbytes, channel)


def _meet(group: ProcessGroup, name: str, async_op: bool, timeout: timedelta | None) -> Work | None:
    seconds = None if timeout is None else timeout.total_seconds()
    start = lambda channel: channel.barrier()
    return issue(group, name, start, None, [], async_op, 0, group.channel(group.kind), seconds)


def barrier(
    group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: timedelta | None = None
) -> Work | None:
    """Waits until all processes of the group are here."""
    return None if is_outside(group) else _meet(current(group), "barrier", async_op, timeout)


def monitored_barrier(group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
    """`barrier` whose error says who is missing."""
    if is_outside(group):
        return
    group = current(group)
    timeout = timeout or group._timeout
    try:
        _meet(group, "monitored_barrier", False, timeout)
    except DistBackendError as error:
        missing = [r for r in group.ranks if f"rank {r} " in str(error)] or [-1]
        raise RuntimeError(
            f"[Rank {group.rank()}]: Rank {missing[0]} failed to pass monitoredBarrier in {timeout.total_seconds() * 1000:g} ms\n"
            f"{error}"
        ) from error


# -- a place for each process -------------------------------------------------------------------------------------------


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """Every process gets the tensors of all, in a list."""
    check_tensors(tensor_list, "tensor_list")
    check_tensor(tensor, "tensor")
    same_dtype(tensor_list, tensor)
    group, channel = enter(group, tensor)
    if group is None:
        return None
    check_length(tensor_list, group, "all_gather")
    check_sizes(tensor_list, tensor, "all_gather")
    finish: list[Finish] = []
    flat, out = reading(tensor, channel), writing_all(tensor_list, finish, channel)
    start = lambda channel: channel.all_gather(out, flat)
    return issue(group, "all_gather", start, tensor_list, finish, async_op, out.nbytes, channel)


def all_gather_coalesced(
    output_tensor_lists: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """`all_gather` of several tensors."""
    check_tensors(input_tensor_list, "input_tensor_list")
    if is_outside(group):
        return None
    pairs = zip(output_tensor_lists, input_tensor_list)
    return _together([all_gather(outputs, tensor, group, True) for outputs, tensor in pairs], async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Every process gets the tensors of all, one after the other in a tensor."""
    check_tensor(output_tensor, "output_tensor")
    check_tensor(input_tensor, "input_tensor")
    group, channel = enter(group, input_tensor)
    if group is None:
        return None
    if output_tensor.dtype is not input_tensor.dtype:
        raise RuntimeError(
            f"all_gather: invalid tensor type at index 0 (expected {input_tensor.dtype}, got {output_tensor.dtype})"
        )
    check_size(output_tensor, input_tensor.numel() * group.size(), "all_gather")
    finish: list[Finish] = []
    flat, out = reading(input_tensor, channel), writing(output_tensor, finish, channel)
    start = lambda channel: channel.all_gather(out, flat)
    return issue(group, "all_gather_into_tensor", start, [output_tensor], finish, async_op, out.nbytes, channel)


all_gather_single = all_gather_into_tensor


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """The process `dst` gets the tensors of all, in a list."""
    check_tensor(tensor, "tensor")
    group, channel = enter(group, tensor)
    if group is None:
        return None
    root = root_rank(group, dst, group_dst, "gather", 0 if group_dst is None else None)
    finish: list[Finish] = []
    here = group.rank() == root
    check_parts(gather_list, tensor, group, "gather", "gather_list", here, "output")
    out = writing_all(gather_list, finish, channel) if here and gather_list else None
    flat = reading(tensor, channel)
    start = lambda channel: channel.gather(out, flat, root)
    return issue(group, "gather", start, gather_list, finish, async_op, flat.nbytes * group.size(), channel)


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Every process gets its part of the list of the process `src`."""
    check_tensor(tensor, "tensor")
    group, channel = enter(group, tensor)
    if group is None:
        return None
    root = root_rank(group, src, group_src, "scatter", 0 if group_src is None else None)
    finish: list[Finish] = []
    here = group.rank() == root
    check_parts(scatter_list, tensor, group, "scatter", "scatter_list", here, "input")
    parts = reading_all(scatter_list, channel) if here and scatter_list else None
    out = writing(tensor, finish, channel)
    start = lambda channel: channel.scatter(out, parts, root)
    return issue(group, "scatter", start, [tensor], finish, async_op, out.nbytes * group.size(), channel)


def _reduce_scatter(
    output: Tensor, x: Any, counts: list[int], op: Any, group: ProcessGroup, async_op: bool, channel: Any
) -> Work | None:
    kind, factor = reduction(output, op, "reduce_scatter")
    if factor is not None:
        x = x.copy()
        premultiply(x, factor)
    finish: list[Finish] = []
    out = writing(output, finish, channel)
    if kind is RedOpType.AVG:
        finish.insert(0, divide(out, group.size()))
    start = lambda channel: channel.reduce_scatter(out, x, counts, kind)
    return issue(group, "reduce_scatter", start, [output], finish, async_op, x.nbytes, channel)


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Every process gets its part of the sum (or another reduction) of all lists."""
    check_tensor(output, "output")
    check_tensors(input_list, "input_list")
    same_dtype(input_list, output)
    group, channel = enter(group, output)
    if group is None:
        return None
    if len(input_list) != group.size():
        raise RuntimeError(
            f"invalid input tensor list size, must be world size (expected {group.size()}, got {len(input_list)})"
        )
    check_size(output, input_list[group.rank()].numel(), "reduce_scatter")
    counts = [t.numel() for t in input_list]
    return _reduce_scatter(output, reading_all(input_list, channel), counts, op, group, async_op, channel)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """`reduce_scatter` with the parts one after the other in a tensor."""
    check_tensor(output, "output")
    check_tensor(input, "input")
    group, channel = enter(group, output)
    if group is None:
        return None
    same_dtype([output], input)
    if output.numel() * group.size() != input.numel():
        raise RuntimeError(
            f"reduce_scatter: the input must have {group.size()} times as many elements as the output, got "
            f"{tuple(input.shape)} for {tuple(output.shape)}"
        )
    return _reduce_scatter(
        output, reading(input, channel), [output.numel()] * group.size(), op, group, async_op, channel
    )


reduce_scatter_single = reduce_scatter_tensor


def _exchange(
    name: str, out: Any, out_counts: list[int], x: Any, counts: list[int], group: ProcessGroup,
    result: Any, finish: list[Finish], async_op: bool, channel: Any,
) -> Work | None:  # fmt: skip
    start = lambda channel: channel.all_to_all(out, out_counts, x, counts)
    return issue(group, name, start, result, finish, async_op, x.nbytes + out.nbytes, channel)


def all_to_all(
    output_tensor_list: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """Every process sends one tensor to each and gets one from each."""
    check_tensors(output_tensor_list, "output_tensor_list")
    check_tensors(input_tensor_list, "input_tensor_list")
    group, channel = enter(group, output_tensor_list[0])
    if group is None:
        return None
    check_length(output_tensor_list, group, "all_to_all")
    check_length(input_tensor_list, group, "all_to_all")
    same_dtype([*output_tensor_list, *input_tensor_list], output_tensor_list[0])
    finish: list[Finish] = []
    out, x = writing_all(output_tensor_list, finish, channel), reading_all(input_tensor_list, channel)
    out_counts, counts = ([t.numel() for t in tensors] for tensors in (output_tensor_list, input_tensor_list))
    return _exchange("all_to_all", out, out_counts, x, counts, group, output_tensor_list, finish, async_op, channel)


def _splits(tensor: Tensor, sizes: Any, group: ProcessGroup) -> list[int]:
    """How many elements of a tensor belong to each process; the sizes count its rows."""
    rows = tensor.shape[0] if tensor.dim() else 1
    if not sizes:
        if rows % group.size():
            raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
        sizes = [rows // group.size()] * group.size()
    if len(sizes) != group.size():
        raise RuntimeError("Number of tensor splits not equal to group size")
    if sum(sizes) != rows:
        raise RuntimeError("Split sizes doesn't match total dim 0 size")
    row = tensor.numel() // rows if rows else 0
    return [int(size) * row for size in sizes]


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """`all_to_all` with the parts one after the other in a tensor, of so many rows each."""
    check_tensor(output, "output")
    check_tensor(input, "input")
    group, channel = enter(group, output)
    if group is None:
        return None
    same_dtype([output], input)
    out_counts, counts = _splits(output, output_split_sizes, group), _splits(input, input_split_sizes, group)
    finish: list[Finish] = []
    out, x = writing(output, finish, channel), reading(input, channel)
    return _exchange("all_to_all_single", out, out_counts, x, counts, group, [output], finish, async_op, channel)
