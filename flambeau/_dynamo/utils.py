"""Questions about graph capture."""

from __future__ import annotations

import functools
import warnings
from typing import Any

from ..compiler import is_compiling

__all__ = ["is_compile_supported", "is_compiling", "warn_once"]


def is_compile_supported(device_type: Any) -> bool:
    """Whether `torch.compile` can be called for programs on a device."""
    return str(device_type) in ("cpu", "cuda")


@functools.cache
def warn_once(msg: str, stacklevel: int = 1) -> None:
    """Warns of something the first time it is said."""
    warnings.warn(msg, stacklevel=stacklevel + 1)
