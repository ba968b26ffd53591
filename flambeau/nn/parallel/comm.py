"""Tensors copied to several GPUs, cut into parts for them, joined and added up. Gradients do not go through; see `_functions`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._autograd.modes import no_grad
from ..._core.devices import device
from ..._ops.registry import ops
from ..._tensor import Tensor

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]


def numbered(where: Any) -> device:
    """A device, of which a GPU may be given by its number; the first one if nothing is given, the CPU for -1."""
    if where is None:
        where = 0
    if isinstance(where, int):
        return device("cpu") if where < 0 else device("cuda", where)
    return device(where)


def _written(results: list[Tensor], out: Any) -> tuple[Tensor, ...]:
    if out is None:
        return tuple(results)
    for room, value in zip(out, results, strict=True):
        room.copy_(value)
    return tuple(out)


@no_grad()
def broadcast(tensor: Tensor, devices: Sequence[Any] | None = None, *, out: Any = None) -> tuple[Tensor, ...]:
    """A copy of a tensor on each device."""
    if (devices is None) == (out is None):
        raise RuntimeError(
            f"Exactly one of 'devices' and 'out' must be specified, but got devices={devices} and out={out}"
        )
    return _written([tensor.to(numbered(where) if out is None else where.device) for where in devices or out], out)


def broadcast_coalesced(tensors: Sequence[Tensor], devices: Sequence[Any], buffer_size: int = 0) -> list[list[Tensor]]:
    """Copies of several tensors for each device."""
    return [[broadcast(t, [where])[0] for t in tensors] for where in devices]


@no_grad()
def reduce_add(inputs: Sequence[Tensor], destination: Any = None) -> Tensor:
    """The sum of tensors of several GPUs on one of them."""
    for number, t in enumerate(inputs):
        if not t.is_cuda:
            raise AssertionError(f"reduce_add expects all inputs to be on GPUs, but input {number} is on {t.device}")
        if t.shape != inputs[0].shape:
            raise ValueError(
                f"input {number} has invalid size: got {list(t.shape)}, but expected {list(inputs[0].shape)}"
            )
    return added(inputs, numbered(destination))


def added(inputs: Sequence[Tensor], where: device) -> Tensor:
    """The sum of tensors on a device."""
    first, *rest = [t.to(where) for t in inputs]
    total = first.clone() if not rest else first
    for t in rest:
        total = total + t
    return total


def reduce_add_coalesced(
    inputs: Sequence[Sequence[Tensor]], destination: Any = None, buffer_size: int = 0
) -> tuple[Tensor, ...]:
    """The sums of several tensors, of which each GPU has one of each."""
    return tuple([reduce_add(same, destination) for same in zip(*inputs)])


def parts(tensor: Tensor, devices: Sequence[Any], chunk_sizes: Any, dim: int) -> list[Tensor]:
    """A tensor cut along a dimension, each part on its device."""
    cut = tensor.chunk(len(devices), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
    return [part.to(numbered(where)) for part, where in zip(cut, devices)]


@no_grad()
def scatter(
    tensor: Tensor, devices: Sequence[Any] | None = None, chunk_sizes: Sequence[int] | None = None, dim: int = 0,
    streams: Any = None, *, out: Any = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """A tensor cut along a dimension, a part for each device."""
    if out is not None:
        sizes = [t.shape[dim] for t in out]
        return _written(parts(tensor, [t.device for t in out], sizes, dim), out)
    return tuple(parts(tensor, devices or (), chunk_sizes, dim))


@no_grad()
def gather(tensors: Sequence[Tensor], dim: int = 0, destination: Any = None, *, out: Tensor | None = None) -> Tensor:
    """Tensors joined along a dimension, on one device."""
    where = numbered(destination) if out is None else out.device
    made = ops.cat([t.to(where) for t in tensors], dim)
    return made if out is None else out.copy_(made)
