"""The numbers of GPUs."""

from __future__ import annotations

from typing import Any

from .._core.devices import device as _device
from .._utils import _get_device_index as _of_any

__all__: list[str] = []


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int | None:
    """The number of a GPU. None is the current one if `optional`, and -1 the CPU if it is allowed."""
    if isinstance(device, str):
        device = _device(device)
    if isinstance(device, _device) and device.type not in (("cuda", "cpu") if allow_cpu else ("cuda",)):
        raise ValueError(f"Expected a cuda{' or cpu' if allow_cpu else ''} device, but got: {device}")
    return _of_any(device, optional, allow_cpu)
