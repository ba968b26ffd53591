"""Tensors divided among processes. In a world of one every tensor is whole, so that `DTensor` has no objects here."""

from __future__ import annotations

from typing import Any

from ..._tensor import Tensor
from ..device_mesh import DeviceMesh, init_device_mesh
from .placement_types import Partial, Placement, Replicate, Shard

__all__ = [
    "DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_module", "distribute_tensor",
    "init_device_mesh",
]  # fmt: skip

_WHY = "tensors are not divided among processes here: there is one, use plain tensors and modules"


class _Never(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return False


class DTensor(metaclass=_Never):
    """A tensor divided among processes. `isinstance(x, DTensor)` is False for every tensor here."""

    def __init__(self, *args: Any, **kwargs: Any):
        raise NotImplementedError(f"DTensor: {_WHY}")

    @staticmethod
    def from_local(local_tensor: Tensor, device_mesh: Any = None, placements: Any = None, **options: Any) -> Any:
        """Not available."""
        raise NotImplementedError(f"DTensor.from_local: {_WHY}")


def distribute_tensor(tensor: Tensor, device_mesh: Any = None, placements: Any = None, **options: Any) -> Any:
    """Not available: a tensor divided among processes."""
    raise NotImplementedError(f"distribute_tensor: {_WHY}")


def distribute_module(module: Any, device_mesh: Any = None, *args: Any, **options: Any) -> Any:
    """Not available: a module whose parameters are divided among processes."""
    raise NotImplementedError(f"distribute_module: {_WHY}")
