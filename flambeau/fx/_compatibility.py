"""A mark for functions that promise to stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["compatibility"]


def compatibility(is_backward_compatible: bool) -> Callable[[Any], Any]:
    """Marks a function or class as stable (or not); it changes nothing."""
    return lambda marked: marked
