"""Parameters as one long vector, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..._ops.registry import ops
from ..._tensor import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def _check_device(tensors: list[Tensor]) -> None:
    devices = {t.device for t in tensors}
    if len(devices) > 1:
        raise TypeError(f"Found two parameters on different devices, this is currently not supported: {devices}")


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters, flattened, one after the other.

    >>> import flambeau as torch
    >>> torch.nn.utils.parameters_to_vector([torch.zeros(2), torch.ones(1, 2)])
    tensor([0., 0., 1., 1.])
    """
    tensors = list(parameters)
    _check_device(tensors)
    return ops.cat([t.view(-1) for t in tensors])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Makes the parameters views of consecutive parts of a vector."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    tensors: list[Any] = list(parameters)
    _check_device(tensors)
    start = 0
    for t in tensors:
        end = start + t.numel()
        t.data = vec[start:end].view_as(t).data
        start = end
