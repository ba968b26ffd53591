"""Shapes of the parts of divided tensors."""

from __future__ import annotations

from typing import Any

from .placement_types import Placement, Shard

__all__ = ["compute_local_shape_and_global_offset"]


def piece(length: int, parts: int, number: int) -> tuple[int, int]:
    """Where a part of a dimension begins and how long it is: the first parts are equal, the last may be shorter or empty.

    >>> [piece(5, 4, i) for i in range(4)]
    [(0, 2), (2, 2), (4, 1), (5, 0)]
    """
    chunk = -(-length // parts)
    begin = min(chunk * number, length)
    return begin, min(chunk, length - begin)


def compute_local_shape_and_global_offset(
    global_shape: Any, mesh: Any, placements: Any
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of this process's part of a tensor and where it begins.

    >>> compute_local_shape_and_global_offset((4, 3), None, ())
    ((4, 3), (0, 0))
    """
    shape, offset = [int(n) for n in global_shape], [0] * len(global_shape)
    for dim, placement in enumerate(placements):
        if isinstance(placement, Shard):
            begin, length = piece(shape[placement.dim], mesh.size(dim), mesh.get_local_rank(dim))
            shape[placement.dim] = length
            offset[placement.dim] += begin
    return tuple(shape), tuple(offset)


def normalized(placements: Any, ndim: int) -> tuple[Placement, ...]:
    """Placements whose dimensions count from the front."""
    return tuple(Shard(p.dim + ndim) if isinstance(p, Shard) and p.dim < 0 else p for p in placements)
