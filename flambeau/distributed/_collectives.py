"""Calls that all processes of a group make together. In a world of one they copy the own tensor to where it belongs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from .._autograd.modes import no_grad
from .._tensor import Tensor
from ._groups import ONE_PROCESS, Work, current, is_outside
from ._kinds import ReduceOp

__all__ = [
    "P2POp", "all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_object", "all_gather_single",
    "all_reduce", "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast",
    "broadcast_object_list", "gather", "gather_object", "irecv", "isend", "monitored_barrier", "recv", "recv_object_list",
    "reduce", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor", "scatter", "scatter_object_list", "send",
    "send_object_list", "supports_complex",
]  # fmt: skip

_NOT_COMPLEX = (ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


def supports_complex(reduceOp: Any) -> bool:
    """Whether a reduction works on complex numbers."""
    return reduceOp not in _NOT_COMPLEX


def _tensor(value: Any, name: str) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor but got {type(value)} instead."
        )


def _tensors(values: Any, name: str) -> None:
    if not isinstance(values, (list, tuple)) or not all(isinstance(v, Tensor) for v in values):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type list[torch.Tensor] but got {type(values)} instead."
        )


def _reducible(tensor: Tensor, op: Any, name: str) -> None:
    if tensor.is_complex() and not supports_complex(op):
        raise ValueError(f"{name} does not support {op} on complex tensors")


def _root(rank: int | None, group_rank: int | None, name: str, default: int | None = 0) -> None:
    """Only this process can be the root."""
    chosen = rank if rank is not None else group_rank if group_rank is not None else default
    if chosen != 0:
        raise RuntimeError(f"{name}: invalid root rank: {chosen}; the world has only rank 0")


def _one(values: Any, name: str) -> Any:
    """The only element of a list with one place for each process."""
    if len(values) != 1:
        raise RuntimeError(f"{name}: invalid tensor list (expected length 1, got {len(values)})")
    return values[0]


def _copy(target: Tensor, source: Tensor, name: str) -> None:
    if target.numel() != source.numel():
        raise RuntimeError(f"{name}: invalid tensor size (expected {tuple(source.shape)}, got {tuple(target.shape)})")
    if target is source:
        return
    with no_grad():
        target.copy_(source.reshape(target.shape))


def _done(result: Any, async_op: bool) -> Work | None:
    return Work(result) if async_op else None


# -- the same tensor everywhere ----------------------------------------------------------------------------------------


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Every process gets the sum (or another reduction) of all tensors, in place: of one tensor, itself."""
    _tensor(tensor, "tensor")
    if is_outside(group):
        return None
    current(group)
    _reducible(tensor, op, "all_reduce")
    return _done([tensor], async_op)


def all_reduce_coalesced(
    tensors: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """`all_reduce` of several tensors."""
    tensors = [tensors] if isinstance(tensors, Tensor) else tensors
    _tensors(tensors, "tensors")
    for tensor in tensors:
        all_reduce(tensor, op, group)
    return _done(list(tensors), async_op)


def broadcast(
    tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """Every process gets the tensor of the process `src`."""
    _tensor(tensor, "tensor")
    if is_outside(group):
        return None
    current(group)
    _root(src, group_src, "broadcast", None)
    return _done([tensor], async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """The process `dst` gets the sum (or another reduction) of all tensors, in place."""
    _tensor(tensor, "tensor")
    if is_outside(group):
        return None
    current(group)
    _root(dst, group_dst, "reduce", None)
    _reducible(tensor, op, "reduce")
    return _done([tensor], async_op)


def barrier(
    group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: timedelta | None = None
) -> Work | None:
    """Waits until all processes are here: they are."""
    if is_outside(group):
        return None
    current(group)
    return _done(None, async_op)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """`barrier` that would say who is missing."""
    barrier(group)


# -- a place for each process ------------------------------------------------------------------------------------------


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """Every process gets the tensors of all, in a list."""
    _tensors(tensor_list, "tensor_list")
    _tensor(tensor, "tensor")
    if is_outside(group):
        return None
    current(group)
    _copy(_one(tensor_list, "all_gather"), tensor, "all_gather")
    return _done(tensor_list, async_op)


def all_gather_coalesced(
    output_tensor_lists: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """`all_gather` of several tensors."""
    for outputs, tensor in zip(output_tensor_lists, input_tensor_list):
        all_gather(outputs, tensor, group)
    return _done(output_tensor_lists, async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Every process gets the tensors of all, one after the other in a tensor."""
    _tensor(output_tensor, "output_tensor")
    return all_gather([output_tensor], input_tensor, group, async_op)


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
    _tensor(tensor, "tensor")
    if is_outside(group):
        return None
    current(group)
    _root(dst, group_dst, "gather")
    if not gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    _copy(_one(gather_list, "gather"), tensor, "gather")
    return _done(gather_list, async_op)


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Every process gets its part of the list of the process `src`."""
    _tensor(tensor, "tensor")
    if is_outside(group):
        return None
    current(group)
    _root(src, group_src, "scatter")
    if not scatter_list:
        raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
    _copy(tensor, _one(scatter_list, "scatter"), "scatter")
    return _done([tensor], async_op)


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Every process gets its part of the sum (or another reduction) of all lists."""
    _tensor(output, "output")
    _tensors(input_list, "input_list")
    if is_outside(group):
        return None
    current(group)
    _reducible(output, op, "reduce_scatter")
    _copy(output, _one(input_list, "reduce_scatter"), "reduce_scatter")
    return _done([output], async_op)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """`reduce_scatter` with the parts one after the other in a tensor."""
    return reduce_scatter(output, [input], op, group, async_op)


reduce_scatter_single = reduce_scatter_tensor


def all_to_all(
    output_tensor_list: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """Every process sends one tensor to each and gets one from each."""
    _tensors(output_tensor_list, "output_tensor_list")
    _tensors(input_tensor_list, "input_tensor_list")
    if is_outside(group):
        return None
    current(group)
    _copy(_one(output_tensor_list, "all_to_all"), _one(input_tensor_list, "all_to_all"), "all_to_all")
    return _done(output_tensor_list, async_op)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """`all_to_all` with the parts one after the other in a tensor."""
    _tensor(output, "output")
    return all_to_all([output], [input], group, async_op)


# -- objects -----------------------------------------------------------------------------------------------------------


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Every process gets the objects of all, in a list.

    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> found = [None]; dist.all_gather_object(found, {"loss": 0.5}); found
    [{'loss': 0.5}]
    >>> dist.destroy_process_group()
    """
    if not is_outside(group):
        current(group)
        _one(object_list, "all_gather_object")
        object_list[0] = obj


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """The process `dst` gets the objects of all, in a list."""
    if is_outside(group):
        return
    current(group)
    _root(dst, group_dst, "gather_object")
    if not object_gather_list:
        raise ValueError("Argument ``object_gather_list`` must be specified on destination rank.")
    object_gather_list[0] = obj


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None
) -> None:
    """Every process gets the objects of the process `src`."""
    if not is_outside(group):
        current(group)
        _root(src, group_src, "broadcast_object_list", None)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Every process gets its part of the objects of the process `src`."""
    if is_outside(group):
        return
    current(group)
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    _root(src, group_src, "scatter_object_list")
    if scatter_object_input_list is None:
        raise ValueError("source rank must provide non-None scatter_object_input_list")
    scatter_object_output_list[0] = _one(scatter_object_input_list, "scatter_object_list")


# -- from one to another -------------------------------------------------------------------------------------------------


def _nobody(name: str, role: str, peer: Any) -> None:
    current()
    if peer == 0:
        raise ValueError(f"Invalid {role} rank: {role} rank should not be the same as the rank of the current process.")
    raise NotImplementedError(f"{name}({role} {peer}): there is no other process; {ONE_PROCESS}")


def send(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Sends a tensor to another process; a world of one has none."""
    _tensor(tensor, "tensor")
    _nobody("send", "destination", dst if dst is not None else group_dst)


def recv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Receives a tensor from another process; a world of one has none."""
    _tensor(tensor, "tensor")
    _nobody("recv", "source", src if src is not None else group_src)
    return -1


def isend(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> Any:
    """`send` in the background."""
    send(tensor, dst, group, tag, group_dst)


def irecv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> Any:
    """`recv` in the background."""
    recv(tensor, src, group, tag, group_src)


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Sends objects to another process; a world of one has none."""
    _nobody("send_object_list", "destination", dst if dst is not None else group_dst)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receives objects from another process; a world of one has none."""
    _nobody("recv_object_list", "source", src if src is not None else group_src)
    return -1


class P2POp:
    """One call for `batch_isend_irecv`."""

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Tensor,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ):
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or ``torch.distributed.irecv``."
            )
        self.op, self.tensor, self.peer, self.group, self.tag, self.group_peer = (
            op,
            tensor,
            peer,
            group,
            tag,
            group_peer,
        )


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Any]:
    """Several calls of `isend` and `irecv` at once."""
    if not p2p_op_list or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to be of type ``torch.distributed.P2POp``.")
    return [op.op(op.tensor, op.peer, op.group, op.tag, op.group_peer) for op in p2p_op_list]
