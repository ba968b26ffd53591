"""Tensors divided among processes, and the grids of processes that they lie on."""

from __future__ import annotations

from typing import Any

from ..._ops.registry import ops
from ..device_mesh import DeviceMesh, init_device_mesh
from . import _rules as _rules  # which gives DTensor its methods
from ._dtensor import DTensor, distribute_module, distribute_tensor, made
from ._utils import compute_local_shape_and_global_offset, normalized
from .placement_types import Partial, Placement, Replicate, Shard

__all__ = [
    "DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_module", "distribute_tensor",
    "empty", "full", "init_device_mesh", "ones", "rand", "randn", "zeros",
]  # fmt: skip


def _factory(name: str) -> Any:
    def make(
        *size: Any, device_mesh: Any = None, placements: Any = None, requires_grad: bool = False, **named: Any
    ) -> DTensor:
        shape = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
        value = ()
        if name == "full":
            shape, value = (size[0], (size[1],)) if len(size) > 1 else (size[0], (named.pop("fill_value"),))
        mesh = device_mesh or DeviceMesh("cpu")
        places = normalized(placements or [Replicate()] * mesh.ndim, len(shape))
        part = compute_local_shape_and_global_offset(shape, mesh, places)[0]
        return made(getattr(ops, name)(part, *value, **named), mesh, places, shape).requires_grad_(requires_grad)  # type: ignore[no-any-return]

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"`torch.{name}` divided among processes; each makes its own part."
    return make


empty, full, ones, rand, randn, zeros = map(_factory, ("empty", "full", "ones", "rand", "randn", "zeros"))
