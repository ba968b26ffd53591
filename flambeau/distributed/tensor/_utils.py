"""Shapes of the parts of divided tensors."""

from __future__ import annotations

from typing import Any

__all__ = ["compute_local_shape_and_global_offset"]


def compute_local_shape_and_global_offset(
    global_shape: Any, mesh: Any, placements: Any
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of this process's part of a tensor and where it begins; one process has all of it.

    >>> compute_local_shape_and_global_offset((4, 3), None, ())
    ((4, 3), (0, 0))
    """
    shape = tuple(int(n) for n in global_shape)
    return shape, (0,) * len(shape)
