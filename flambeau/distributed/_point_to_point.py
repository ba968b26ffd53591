"""Tensors from one process to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._tensor import Tensor
from ._buffers import Finish, reading, writing
from ._calls import check_tensor, enter, group_rank, issue
from ._groups import GroupMember, ProcessGroup, current
from ._work import Work

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


def _peer(group: ProcessGroup, rank: int | None, own: int | None, role: str) -> int:
    peer = group_rank(group, rank, own)
    if peer == group.rank():
        raise ValueError(f"Invalid {role} rank: {role} rank should not be the same as the rank of the current process.")
    if not 0 <= peer < group.size():
        raise ValueError(f"Invalid {role} rank: {peer} is not a rank of a group of {group.size()}")
    return peer


def isend(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> Work | None:
    """`send` in the background."""
    check_tensor(tensor, "tensor")
    group, channel = enter(group, tensor)
    if group is None:
        return None
    peer = _peer(group, dst, group_dst, "destination")
    flat = reading(tensor, channel)
    start = lambda channel: channel.send(flat, peer, tag)
    return issue(group, "send", start, [tensor], [], True, flat.nbytes, channel, among=(peer,))


def irecv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> Work | None:
    """`recv` in the background; without `src`, from whoever sends first."""
    check_tensor(tensor, "tensor")
    group, channel = enter(group, tensor)
    if group is None:
        return None
    peer = None if src is None and group_src is None else _peer(group, src, group_src, "source")
    finish: list[Finish] = []
    flat = writing(tensor, finish, channel)
    start = lambda channel: channel.recv(flat, peer, tag)
    among = None if peer is None else (peer,)
    return issue(group, "recv", start, [tensor], finish, True, flat.nbytes, channel, among=among)


def send(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Sends a tensor to another process."""
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Receives a tensor from another process, or from whoever sends first; gives its number in the world."""
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    return current(group).ranks[work.source_rank()]


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
        check_tensor(tensor, "tensor")
        self.op, self.tensor, self.peer, self.group = op, tensor, peer, group
        self.tag, self.group_peer = tag, group_peer


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Any]:
    """Several calls of `isend` and `irecv` at once."""
    if not p2p_op_list or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to be of type ``torch.distributed.P2POp``.")
    if len({id(current(op.group)) for op in p2p_op_list if op.group != GroupMember.NON_GROUP_MEMBER}) > 1:
        raise ValueError("All ops need to use the same group.")
    return [op.op(op.tensor, op.peer, op.group, op.tag, op.group_peer) for op in p2p_op_list]
