"""Lists of tensors in groups that one kernel can take: those of one device and dtype."""

from __future__ import annotations

from typing import Any

from .._tensor import Tensor

Indices = list[int]
TensorListList = list[list[Tensor | None]]


def _group_tensors_by_device_and_dtype(
    tensorlistlist: TensorListList, with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[TensorListList, Indices]]:
    """Groups parallel lists by device and dtype of the tensors in the first one.

    >>> import flambeau as torch
    >>> a, b = torch.ones(2), torch.ones(1, dtype=torch.float64)
    >>> groups = _group_tensors_by_device_and_dtype([[a, b, a]], with_indices=True)
    >>> [(kind[1], len(lists[0]), places) for kind, (lists, places) in groups.items()]
    [(torch.float32, 2, [0, 2]), (torch.float64, 1, [1])]
    """
    groups: dict[tuple[Any, Any], tuple[TensorListList, Indices]] = {}
    for place, row in enumerate(zip(*tensorlistlist, strict=True) if tensorlistlist else ()):
        first = row[0]
        lists, indices = groups.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        for part, tensor in zip(lists, row):
            part.append(tensor)
        if with_indices:
            indices.append(place)
    return groups


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Device types on which a whole list of tensors is one call."""
    return ["cuda", "xpu", "mtia"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """Device types that have optimizers of one kernel."""
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia"]


def _device_has_foreach_support(device: Any) -> bool:
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _has_foreach_support(tensors: list[Tensor], device: Any) -> bool:
    return _device_has_foreach_support(device) and all(t is None or isinstance(t, Tensor) for t in tensors)
