"""Numbers about arrays: norms, histograms, units that are alive. Large arrays are looked at in part, evenly spread."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

BINS = 24
MOST = 1 << 15  # elements of a histogram
_SQUARES = functools.partial(np.einsum, "i,i->")


def host(tensor: Any) -> Any:
    """A tensor's elements as an array of this machine's memory; None where there are none to look at."""
    if tensor is None or tensor.is_sparse or tensor.is_meta:
        return None
    array = tensor._array
    if type(array) is not np.ndarray:
        array = tensor.detach().cpu()._array
    return array if type(array) is np.ndarray and array.size and array.dtype.kind in "fV" else None


def flat(array: Any) -> Any:
    """At most MOST of the elements, as float32 or float64."""
    array = array.reshape(-1) if array.flags.c_contiguous else array.ravel(order="K")
    if array.size > MOST:
        array = array[:: -(-array.size // MOST)]
    return array if array.dtype.char in "fd" else array.astype(np.float32)


def square(array: Any) -> float:
    """The sum of squares of all elements. Not by BLAS, which would wake its threads for it."""
    whole = array.reshape(-1) if array.flags.c_contiguous else array.ravel(order="K")
    if whole.dtype.char not in "fd":
        whole = whole.astype(np.float32)
    total = float(_SQUARES(whole, whole))
    if total == 0 and whole.any():  # the squares are too small for float32
        total = float(np.square(whole, dtype=np.float64).sum())
    return total


def root(squares: float) -> float:
    return math.sqrt(squares) if squares >= 0 else squares


def histogram(values: Any) -> tuple[float, float, list[int]] | None:
    """(low, high, counts) of the finite elements."""
    low, high = float(values.min()), float(values.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        values = values[np.isfinite(values)]
        if not values.size:
            return None
        low, high = float(values.min()), float(values.max())
    if high <= low:
        return low, high, [int(values.size)]
    with np.errstate(all="ignore"):
        places = ((values - low) * (BINS / (high - low) * (1 - 1e-6))).astype(np.int32)
    return low, high, np.bincount(np.clip(places, 0, BINS - 1), minlength=BINS).tolist()


def alive(array: Any) -> Any:
    """Which units (channels of images, else the last dimension) are above zero for at least one input."""
    axis = 1 if array.ndim >= 4 else array.ndim - 1
    return (array > 0).any(axis=tuple(a for a in range(array.ndim) if a != axis))
