"""`DeviceMesh`: processes in a grid. The world has one process, so that every mesh has one place."""

from __future__ import annotations

import math
from typing import Any

from .._ops.registry import ops
from ._groups import current, init_process_group, is_initialized
from ._subgroups import new_group

ONE_PROCESS = "only a mesh of one process is implemented"

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """Processes in a grid with names for its dimensions.

    >>> import flambeau.distributed as dist
    >>> mesh = dist.init_device_mesh("cpu", (1, 1), mesh_dim_names=("data", "model"))
    >>> mesh["data"].size(), mesh.get_coordinate()
    (1, [0, 0])
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: tuple[str, ...] | None = None,
        backend_override: Any = None,
        _init_backend: bool = True,
    ):
        self.device_type = device_type
        self.mesh = ops.as_tensor(mesh if mesh is not None else [0])
        self.mesh_dim_names = tuple(mesh_dim_names) if mesh_dim_names else None
        if self.mesh.numel() != 1 or int(self.mesh) != 0:
            raise NotImplementedError(f"DeviceMesh{tuple(self.mesh.shape)}: {ONE_PROCESS}")
        if not is_initialized():
            init_process_group("gloo", rank=0, world_size=1)
        self._groups = [new_group([0]) for _ in range(max(self.mesh.ndim, 1))]

    @property
    def ndim(self) -> int:
        return int(self.mesh.ndim)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.mesh.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """How many processes there are, along a dimension or in all."""
        return int(self.mesh.numel()) if mesh_dim is None else int(self.mesh.shape[mesh_dim])

    def _dimension(self, name: Any) -> int:
        if isinstance(name, str):
            if self.mesh_dim_names is None or name not in self.mesh_dim_names:
                raise KeyError(f"Invalid mesh_dim_name {name}. Valid names are: {self.mesh_dim_names}")
            return self.mesh_dim_names.index(name)
        return 0 if name is None else int(name)

    def get_group(self, mesh_dim: Any = None) -> Any:
        """The group of processes along a dimension."""
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError("Found the DeviceMesh have several dimensions; name the one whose group is wanted")
        return self._groups[self._dimension(mesh_dim)]

    def get_all_groups(self) -> list[Any]:
        """The groups along all dimensions."""
        return list(self._groups)

    def get_local_rank(self, mesh_dim: Any = None) -> int:
        """The number of this process along a dimension."""
        self._dimension(mesh_dim)
        return 0

    def get_rank(self) -> int:
        """The number of this process in the world."""
        return current().rank()

    def get_coordinate(self) -> list[int]:
        """The place of this process."""
        return [0] * self.ndim

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        for name in names:
            self._dimension(name)
        return DeviceMesh(self.device_type, ops.zeros([1] * len(names), dtype=self.mesh.dtype), mesh_dim_names=names)

    def __repr__(self) -> str:
        names = f", mesh_dim_names={self.mesh_dim_names}" if self.mesh_dim_names else ""
        return f"DeviceMesh({self.shape}, '{self.device_type}'{names})"


def init_device_mesh(
    device_type: str,
    mesh_shape: tuple[int, ...],
    *,
    mesh_dim_names: tuple[str, ...] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """A grid of all processes; its size must be one."""
    if mesh_dim_names is not None and len(mesh_dim_names) != len(mesh_shape):
        raise RuntimeError("mesh_shape and mesh_dim_names should have same length!")
    if math.prod(mesh_shape) != 1:
        raise NotImplementedError(f"init_device_mesh({mesh_shape}): {ONE_PROCESS}")
    return DeviceMesh(
        device_type, ops.zeros(tuple(mesh_shape)).to(ops.zeros(0).long().dtype), mesh_dim_names=mesh_dim_names
    )
