"""`DeviceMesh`: processes in a grid, with a group for each line of it."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from .._core.dtypes import int64
from .._ops.registry import ops
from .._tensor import Tensor, wrap
from ._groups import ProcessGroup, current, get_process_group_ranks, init_process_group, is_initialized
from ._subgroups import new_group

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
        _groups: list[ProcessGroup] | None = None,
    ):
        if not is_initialized():
            _start(device_type)
        self.device_type = device_type
        array = np.asarray(
            mesh._array if isinstance(mesh, Tensor) else np.arange(current().size()) if mesh is None else mesh
        ).astype(np.int64)
        self._ranks = array if array.ndim else array.reshape(1)
        if len(set(self._ranks.flat)) != self._ranks.size or self._ranks.size > current().size():
            raise RuntimeError(
                f"Mesh should not be bigger than default world size {current().size()}, but found {self._ranks.size} ranks, "
                "each of which may come once"
            )
        self.mesh_dim_names = tuple(mesh_dim_names) if mesh_dim_names else None
        if self.mesh_dim_names and len(self.mesh_dim_names) != self._ranks.ndim:
            raise RuntimeError("mesh_shape and mesh_dim_names should have same length!")
        found = np.argwhere(self._ranks == current().rank())
        self._place: list[int] | None = [int(i) for i in found[0]] if len(found) else None
        self._groups = self._lines() if _groups is None else _groups

    def _lines(self) -> list[ProcessGroup]:
        """The group of this process along each dimension; all processes make all groups, in one order."""
        groups: list[Any] = []
        for dim in range(self._ranks.ndim):
            own: Any = None
            for line in np.moveaxis(self._ranks, dim, -1).reshape(-1, self._ranks.shape[dim]).tolist():
                if line == list(range(current().size())):
                    made: Any = current()
                else:
                    made = new_group(sorted(line))
                if current().rank() in line:
                    own = made
            groups.append(own)
        return groups

    @staticmethod
    def from_group(group: Any, device_type: str, mesh: Any = None, *, mesh_dim_names: Any = None) -> DeviceMesh:
        """A mesh of the processes of a group, or of the groups of its dimensions."""
        if isinstance(group, (list, tuple)):
            if mesh is None:
                raise ValueError("Must pass mesh if passing multiple ProcessGroups")
            return DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _groups=list(group))
        return DeviceMesh(
            device_type, get_process_group_ranks(group), mesh_dim_names=mesh_dim_names, _groups=[current(group)]
        )

    @property
    def mesh(self) -> Tensor:
        """The numbers of the processes."""
        return wrap(self._ranks.copy(), int64)

    @property
    def ndim(self) -> int:
        return self._ranks.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._ranks.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """How many processes there are, along a dimension or in all."""
        return int(self._ranks.size) if mesh_dim is None else int(self._ranks.shape[mesh_dim])

    def _dimension(self, name: Any) -> int:
        if isinstance(name, str):
            if self.mesh_dim_names is None or name not in self.mesh_dim_names:
                raise KeyError(f"Invalid mesh_dim_name {name}. Valid names are: {self.mesh_dim_names}")
            return self.mesh_dim_names.index(name)
        return 0 if name is None else int(name)

    def get_group(self, mesh_dim: Any = None) -> Any:
        """The group of processes along a dimension."""
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions. Optional kwarg `mesh_dim` needs to be specified when "
                "device_mesh.ndim > 1."
            )
        return self._groups[self._dimension(mesh_dim)]

    def get_all_groups(self) -> list[Any]:
        """The groups along all dimensions."""
        return list(self._groups)

    def get_local_rank(self, mesh_dim: Any = None) -> int:
        """The number of this process along a dimension."""
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(f"Found the DeviceMesh have {self.ndim} dimensions; name the one that is meant")
        if self._place is None:
            return -1
        return self._place[self._dimension(mesh_dim)]

    def get_rank(self) -> int:
        """The number of this process in the world."""
        return current().rank()

    def get_coordinate(self) -> list[int] | None:
        """The place of this process; None if it is not in the mesh."""
        return None if self._place is None else list(self._place)

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        """The part of the mesh along some dimensions in which this process is."""
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        dims = [self._dimension(name) for name in names]
        if dims == list(range(self.ndim)):
            return self
        place = self._place or [0] * self.ndim
        part = self._ranks[tuple(slice(None) if d in dims else place[d] for d in range(self.ndim))]
        part = part.transpose([sorted(dims).index(d) for d in dims])
        return DeviceMesh(self.device_type, part, mesh_dim_names=names, _groups=[self._groups[d] for d in dims])

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, DeviceMesh)
            and self.device_type == other.device_type
            and np.array_equal(self._ranks, other._ranks)
            and self.mesh_dim_names == other.mesh_dim_names
        )

    def __hash__(self) -> int:
        return hash((self.device_type, self._ranks.tobytes(), self.shape, self.mesh_dim_names))

    def __repr__(self) -> str:
        if self.mesh_dim_names:
            sizes = ", ".join(f"{name}={n}" for name, n in zip(self.mesh_dim_names, self.shape))
            return f"DeviceMesh(({sizes}), '{self.device_type}', stride={_strides(self.shape)})"
        return f"DeviceMesh({self.shape}, '{self.device_type}', stride={_strides(self.shape)})"


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(itertools.accumulate(reversed(shape[1:]), lambda a, b: a * b, initial=1))[::-1]


def _start(device_type: str) -> None:
    """The world, if there is none: as the environment says, else of this process alone."""
    try:
        init_process_group("nccl" if device_type == "cuda" else "gloo")
    except ValueError:
        init_process_group("gloo", rank=0, world_size=1)


def init_device_mesh(
    device_type: str,
    mesh_shape: tuple[int, ...],
    *,
    mesh_dim_names: tuple[str, ...] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """A grid of all processes, in the order of their numbers."""
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError(f"Each mesh_dim_name must be unique. Found repeated mesh_dim_name in {mesh_dim_names}")
        if len(mesh_dim_names) != len(mesh_shape):
            raise RuntimeError("mesh_shape and mesh_dim_names should have same length!")
    if not is_initialized():
        _start(device_type)
    count = math.prod(mesh_shape)
    if count > current().size():
        raise RuntimeError(
            f"Mesh should not be bigger than default world size {current().size()}, but found {count} ranks!"
        )
    return DeviceMesh(device_type, ops.arange(count).view(tuple(mesh_shape)), mesh_dim_names=mesh_dim_names)
