"""Tensors divided among processes, and the grids of processes that they lie on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..._core.dtypes import dtype
from ..._core.layouts import layout, strided
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


def _divided(
    make: Callable[..., Any], size: Any, dtype: Any, layout: Any, requires_grad: bool, mesh: Any, placements: Any
) -> DTensor:
    """A tensor of which each process makes its own part."""
    if layout is not strided:
        raise AssertionError("distributed tensors are strided; other layouts are not supported")
    shape = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    mesh = mesh or DeviceMesh("cpu")
    places = normalized(placements or [Replicate()] * mesh.ndim, len(shape))
    part = compute_local_shape_and_global_offset(shape, mesh, places)[0]
    return made(make(part, dtype=dtype), mesh, places, shape).requires_grad_(requires_grad)


def _maker(name: str) -> Callable[..., DTensor]:
    make = getattr(ops, name)

    def call(
        *size: Any,
        dtype: dtype | None = None,
        layout: layout = strided,
        requires_grad: bool = False,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
    ) -> DTensor:
        return _divided(make, size, dtype, layout, requires_grad, device_mesh, placements)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`torch.{name}` divided among processes; each makes its own part."
    return call


empty, ones, zeros = _maker("empty"), _maker("ones"), _maker("zeros")
rand, randn = _maker("rand"), _maker("randn")


def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: dtype | None = None,
    layout: layout = strided,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """`torch.full` divided among processes; each makes its own part."""

    def make(part: Any, dtype: Any) -> Any:
        return ops.full(part, fill_value, dtype=dtype)

    return _divided(make, (size,), dtype, layout, requires_grad, device_mesh, placements)
