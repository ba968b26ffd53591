"""Gathering of states from all processes of a group."""

from __future__ import annotations

from typing import Any

from ..._ops.registry import ops
from ..._tensor import Tensor


def distributed() -> Any:
    """`flambeau.distributed` if a process group is there, else None."""
    try:
        from ... import distributed as module  # loaded only by programs that synchronise
    except ImportError:
        return None
    return module if module.is_available() and module.is_initialized() else None


def distributed_available() -> bool:
    """Whether this process belongs to a group whose states can be gathered."""
    return distributed() is not None


def gather_all_tensors(result: Tensor, group: Any = None) -> list[Tensor]:
    """The tensor of every process, in the order of ranks; their sizes may differ, their number of dimensions not."""
    module = distributed()
    if module is None:
        return [result]
    result = result.contiguous()
    world = module.get_world_size(group)
    if result.dim() == 0:
        gathered = [ops.zeros_like(result) for _ in range(world)]
        module.all_gather(gathered, result, group=group)
        return gathered
    size = ops.tensor(list(result.shape), device=result.device)
    sizes = [ops.zeros_like(size) for _ in range(world)]
    module.all_gather(sizes, size, group=group)
    largest = ops.stack(sizes).amax(0).tolist()
    padded = result.new_zeros(largest)
    padded[tuple(slice(n) for n in result.shape)] = result
    gathered = [ops.zeros_like(padded) for _ in range(world)]
    module.all_gather(gathered, padded, group=group)
    return [part[tuple(slice(n) for n in shape.tolist())] for part, shape in zip(gathered, sizes)]
