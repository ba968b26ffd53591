"""Where a part lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class _StorageInfo:
    """A stretch of a file of the checkpoint."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if v is not None}


@dataclass
class _HFStorageInfo:
    """The safetensors file that a part lies in."""

    relative_path: str
    shape: Any
    dtype: Any
