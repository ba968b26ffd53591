"""What a `DTensor` is besides its local part: the mesh, the placements, and shape, strides and dtype of the whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..._core.dtypes import dtype as DType
from ..._core.sizes import Size
from ..device_mesh import DeviceMesh
from .placement_types import Placement

__all__ = ["DTensorSpec", "TensorMeta"]


class TensorMeta(NamedTuple):
    """Shape, strides and dtype of a whole tensor."""

    shape: Size
    stride: tuple[int, ...]
    dtype: DType


@dataclass(frozen=True)
class DTensorSpec:
    """How a tensor is divided among the processes of a mesh.

    >>> import flambeau as torch
    >>> from flambeau.distributed.tensor import DTensor, Replicate, init_device_mesh
    >>> x = DTensor.from_local(torch.ones(2, 3), init_device_mesh("cpu", (1,)), [Replicate()])
    >>> x._spec.placements, x._spec.shape
    ((Replicate(),), torch.Size([2, 3]))
    >>> torch.distributed.destroy_process_group()
    """

    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    tensor_meta: TensorMeta | None = None

    @property
    def device_mesh(self) -> DeviceMesh:
        return self.mesh

    @property
    def shape(self) -> Size:
        return self._meta.shape

    @property
    def stride(self) -> tuple[int, ...]:
        return self._meta.stride

    @property
    def ndim(self) -> int:
        return len(self._meta.shape)

    @property
    def _meta(self) -> TensorMeta:
        if self.tensor_meta is None:
            raise ValueError("tensor_meta is not set: give DTensorSpec a TensorMeta(shape, stride, dtype)")
        return self.tensor_meta
