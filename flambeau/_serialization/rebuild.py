"""Functions that checkpoints call to make unusual tensors again."""

from __future__ import annotations

from typing import Any

from .._core import layouts
from .._core.state import META
from .._ops.making.conversion import to_device
from .._ops.registry import ops
from .._tensor import Tensor


def _rebuild_device_tensor_from_cpu_tensor(data: Tensor, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    """A tensor of a device whose memory was saved as a tensor of the CPU."""
    made = data if device == "cpu" or data._k & META else to_device(data, dtype, device)
    made.requires_grad = bool(requires_grad)
    return made


def _rebuild_device_tensor_from_numpy(data: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    return _rebuild_device_tensor_from_cpu_tensor(ops.tensor(data, dtype=dtype), dtype, device, requires_grad)


def _rebuild_nested_tensor(buffer: Tensor, sizes: Tensor, strides: Tensor, offsets: Tensor) -> Tensor:
    """Samples of different sizes, all in the memory of one tensor."""
    from ..nested._tensor import make  # loads every operation, which checkpoints without such tensors need not

    places = zip(sizes.tolist(), strides.tolist(), offsets.tolist(), strict=True)
    parts = [ops.as_strided(buffer.detach(), *place) for place in places]
    return make([part.requires_grad_(buffer.requires_grad) for part in parts], layouts.strided)
