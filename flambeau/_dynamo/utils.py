"""Questions about graph capture."""

from __future__ import annotations

from typing import Any

from ..compiler import is_compiling

__all__ = ["is_compile_supported", "is_compiling"]


def is_compile_supported(device_type: Any) -> bool:
    """Whether `torch.compile` can be called for programs on a device."""
    return str(device_type) in ("cpu", "cuda")
