"""`torch.cuda.nccl`: collectives between the GPUs of one process. One process uses one GPU here, and these say so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor

__all__ = ["all_gather", "all_reduce", "broadcast", "reduce", "reduce_scatter"]

SUM = 0


def is_available(tensors: Any) -> bool:
    """Whether tensors can take part: dense ones on GPUs, each on one of its own."""
    places = set()
    for t in tensors:
        if t.is_sparse or not t.is_contiguous() or not t.is_cuda or t.get_device() in places:
            return False
        places.add(t.get_device())
    return False


def version() -> tuple[int, ...]:
    """The version of NCCL; there is none."""
    raise _absent("version")


def _absent(name: str) -> NotImplementedError:
    return NotImplementedError(f"nccl.{name}: one process uses one GPU here; use torch.distributed between processes")


def all_reduce(inputs: Any, outputs: Any = None, op: int = SUM, streams: Any = None, comms: Any = None) -> None:
    """Sums over GPUs, on all of them."""
    raise _absent("all_reduce")


def reduce(
    inputs: Sequence[Tensor],
    output: Any = None,
    root: int = 0,
    op: int = SUM,
    streams: Any = None,
    comms: Any = None,
    *,
    outputs: Any = None,
) -> None:
    """Sums over GPUs, on one of them."""
    raise _absent("reduce")


def broadcast(inputs: Sequence[Tensor], root: int = 0, streams: Any = None, comms: Any = None) -> None:
    """Copies of one GPU's tensor on the others."""
    raise _absent("broadcast")


def all_gather(inputs: Sequence[Tensor], outputs: Sequence[Tensor], streams: Any = None, comms: Any = None) -> None:
    """All GPUs' tensors on all of them."""
    raise _absent("all_gather")


def reduce_scatter(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], op: int = SUM, streams: Any = None, comms: Any = None
) -> None:
    """Sums over GPUs, a part on each."""
    raise _absent("reduce_scatter")
