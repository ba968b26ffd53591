"""How planes are given to kernels on devices where every result has a thread of its own. Arrays may lie in any way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..layers.channels import room_like


def whole(x: Any, rank: int) -> Any:
    """What the threads of all results of a plane see: the whole plane, of three dimensions."""
    return x[(*(slice(None),) * (x.ndim - rank), *(None,) * (6 - rank))]


def each(out: Any, rank: int) -> Any:
    """Results of planes of three dimensions."""
    return out[(*(slice(None),) * (out.ndim - rank), *(None,) * (3 - rank))]


def rows(backend: Any, tables: Sequence[Any], lead: tuple[int, ...] = ()) -> list[Any]:
    """Three tables of which a result has a row each, by its place along the dimension; those of planes' own have rows for each."""
    made = []
    for axis, table in enumerate(tables):
        own = lead if table.ndim > 2 else ()
        sizes = [1, 1, 1]
        sizes[axis] = table.shape[-2]
        made.append(backend.constant(table.reshape(*own, *sizes, table.shape[-1])))
    return made


def room(backend: Any, x: Any, shape: tuple[int, ...], d: Any, kept: bool) -> Any:
    """Memory for a result, with channels last if `x` has them so and they are `kept`."""
    return room_like(backend, x, shape, d) if kept else backend.empty(shape, d)


def inverse(index: Any, size: int) -> tuple[Any, Any]:
    """Where each of so many elements is found in an index: (from where to where, in which places)."""
    places = np.argsort(index, kind="stable")
    bounds = np.searchsorted(index[places], np.arange(size + 1))
    return np.stack([bounds[:-1], bounds[1:]], 1), places
