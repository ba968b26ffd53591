"""Batches in memory that GPUs read quickly."""

from __future__ import annotations

import collections.abc
from typing import Any

from ...._tensor import Tensor
from .collate import _like_mapping, _like_sequence


def pin_memory(data: Any, device: Any = None) -> Any:
    """The same data with every tensor pinned; an object of another class may have a `pin_memory` method."""
    if isinstance(data, Tensor):
        return data if data.is_pinned() else data.pin_memory(device)
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, collections.abc.Mapping):
        return _like_mapping(data, {key: pin_memory(value, device) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*[pin_memory(value, device) for value in data])
    if isinstance(data, tuple):
        return [pin_memory(value, device) for value in data]
    if isinstance(data, collections.abc.Sequence):
        return _like_sequence(data, [pin_memory(value, device) for value in data])
    return data
