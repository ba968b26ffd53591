"""Exchange of memory with other libraries through DLPack."""

from __future__ import annotations

from typing import Any

from .._tensor import Tensor, detached
from .._tensor.dlpack import DLDeviceType
from .._tensor.dlpack import from_dlpack as from_dlpack


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule over the tensor's memory, to be consumed once.

    >>> import flambeau as torch
    >>> from flambeau.utils.dlpack import from_dlpack, to_dlpack
    >>> from_dlpack(to_dlpack(torch.tensor([1, 2])))
    tensor([1, 2])
    """
    return detached(tensor).__dlpack__()


__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]
