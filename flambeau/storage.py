"""Storages: the memory behind tensors."""

from __future__ import annotations

import io
from typing import Any

from ._storage import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]


def _load_from_bytes(b: bytes) -> Any:
    """What `save` wrote, from bytes: old pickles of storages call this."""
    from .serialization import load  # which needs the storages first

    return load(io.BytesIO(b), weights_only=False)
