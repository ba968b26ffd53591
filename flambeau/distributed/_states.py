"""Tensors of one process given to all others, many in one message; whether all processes have the same model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .._autograd.modes import no_grad
from .._ops.registry import ops
from .._tensor import Tensor
from ._collectives import broadcast
from ._groups import ProcessGroup
from ._objects import all_gather_object

MESSAGE_BYTES = 250 << 20


def broadcast_all(tensors: Iterable[Tensor], group: ProcessGroup, root: int = 0) -> None:
    """Every process gets the tensors of process `root` of the group."""
    if group.size() == 1:
        return
    messages: dict[Any, list[list[Tensor]]] = {}
    for tensor in tensors:
        lists = messages.setdefault((tensor.dtype, tensor.device), [[]])
        if sum(t.numel() * t.element_size() for t in lists[-1]) > MESSAGE_BYTES:
            lists.append([])
        lists[-1].append(tensor.detach())
    with no_grad():
        for lists in messages.values():
            for some in lists:
                flat = ops.cat([t.reshape(-1) for t in some])
                broadcast(flat, group=group, group_src=root)
                if group.rank() != root:
                    for tensor, part in zip(some, flat.split([t.numel() for t in some])):
                        tensor.copy_(part.view(tensor.shape))


def verify(parameters: Sequence[Tensor], names: Sequence[str], group: ProcessGroup) -> None:
    """Raises, in every process, if their parameters differ in number, shape or dtype from those of rank 0."""
    if group.size() == 1:
        return
    found: list[Any] = [None] * group.size()
    all_gather_object(found, [(tuple(p.shape), str(p.dtype)) for p in parameters], group=group)
    for rank, other in enumerate(found):
        if len(other) != len(found[0]):
            raise RuntimeError(
                f"DDP expects same model across all ranks, but Rank 0 has {len(found[0])} params, while rank {rank} has "
                f"inconsistent {len(other)} params."
            )
        for number, (theirs, first) in enumerate(zip(other, found[0])):
            if theirs != first:
                raise RuntimeError(
                    f"params[{number}] ({names[number]}) of rank {rank} with sizes {list(theirs[0])} ({theirs[1]}) appears "
                    f"not to match sizes of the same param in process 0: {list(first[0])} ({first[1]})"
                )
