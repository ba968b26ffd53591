"""What `comm` does, with gradients: batch norms of several GPUs and copies of `DataParallel` are built on these."""

from __future__ import annotations

from typing import Any

from ..._autograd.functions import Function
from ..._ops.registry import ops
from ..._tensor import Tensor
from .comm import added, numbered, parts

__all__ = ["Broadcast", "Gather", "ReduceAddCoalesced", "Scatter"]


def _check_on_gpus(name: str, tensors: tuple[Tensor, ...]) -> None:
    if not all(t.device.type != "cpu" for t in tensors):
        raise AssertionError(f"{name} function not implemented for CPU tensors")


class Broadcast(Function):
    """Copies of tensors for each device, one device after the other. The copies are differentiable, as all that follows."""

    @staticmethod
    def apply(target_gpus: Any, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The copies."""
        _check_on_gpus("Broadcast", inputs)
        return tuple([t.to(numbered(where)) for where in target_gpus for t in inputs])


class ReduceAddCoalesced(Function):
    """The sums of `num_inputs` tensors, of which each device has given one of each."""

    @staticmethod
    def apply(destination: Any, num_inputs: int, *grads: Tensor) -> tuple[Tensor, ...]:
        """The sums, on one device."""
        for number, t in enumerate(grads):
            if not t.is_cuda:
                raise AssertionError(
                    f"reduce_add expects all inputs to be on GPUs, but input {number} is on {t.device}"
                )
        return tuple([added(grads[first::num_inputs], numbered(destination)) for first in range(num_inputs)])


class Gather(Function):
    """Tensors of several devices joined along a dimension; numbers become a vector."""

    @staticmethod
    def apply(target_device: Any, dim: int, *inputs: Tensor) -> Tensor:
        """The joined tensor, on one device."""
        _check_on_gpus("Gather", inputs)
        moved = [t.to(numbered(target_device)) for t in inputs]
        return ops.stack(moved) if all(t.ndim == 0 for t in moved) and dim == 0 else ops.cat(moved, dim)


class Scatter(Function):
    """A tensor cut along a dimension, a part for each device."""

    @staticmethod
    def apply(target_gpus: Any, chunk_sizes: Any, dim: int, input: Tensor) -> tuple[Tensor, ...]:
        """The parts."""
        return tuple(parts(input, target_gpus, chunk_sizes, dim))


def _get_stream(device: Any) -> None:
    """The stream that copies to a device go by: its own one."""
    return
