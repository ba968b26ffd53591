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


def empty(
    *size: Any,
    dtype: dtype | None = None,
    layout: layout = strided,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """`torch.empty` divided among processes; each makes its own part."""
    return _divided(ops.empty, size, dtype, layout, requires_grad, device_mesh, placements)


def ones(
    *size: Any,
    dtype: dtype | None = None,
    layout: layout = strided,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """`torch.ones` divided among processes; each makes its own part."""
    return _divided(ops.ones, size, dtype, layout, requires_grad, device_mesh, placements)


def zeros(
    *size: Any,
    requires_grad: bool = False,
    dtype: dtype | None = None,
    layout: layout = strided,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """`torch.zeros` divided among processes; each makes its own part."""
    return _divided(ops.zeros, size, dtype, layout, requires_grad, device_mesh, placements)


def rand(
    *size: Any,
    requires_grad: bool = False,
    dtype: dtype | None = None,
    layout: layout = strided,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """`torch.rand` divided among processes; each makes its own part."""
    return _divided(ops.rand, size, dtype, layout, requires_grad, device_mesh, placements)


def randn(
    *size: Any,
    requires_grad: bool = False,
    dtype: dtype | None = None,
    layout: layout = strided,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """`torch.randn` divided among processes; each makes its own part."""
    return _divided(ops.randn, size, dtype, layout, requires_grad, device_mesh, placements)


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
