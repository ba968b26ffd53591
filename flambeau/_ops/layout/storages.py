"""The bytes under tensors: views of them as elements, and other bytes in their place, which all tensors over them follow."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..._core.collector import referrers
from ..._core.dtypes import uint8
from ..._core.state import CUDA
from ..._tensor import Borrowed, Storage, Tensor, storage_of
from ..basic import empty_array
from ..quantized.quantization import QuantizedArray, with_quantizer
from .striding import address, byte_bounds, strided


def raw_bytes(storage: Storage) -> Any:
    """All memory of a storage as a flat array of bytes."""
    array = storage.array
    low, high = byte_bounds(array)
    size = array.itemsize
    flat = strided(array, ((high - low) // size,), (size,), low - address(array)) if high > low else array.reshape(-1)
    return flat.view(np.uint8)


def over_bytes(raw: Any, like: Any, shape: tuple[int, ...], strides: tuple[int, ...], start: int) -> Any:
    """An array with another's type of elements over bytes, from that at `start` on."""
    if isinstance(raw, np.ndarray):
        return np.ndarray(shape, like.dtype, raw, start, strides)
    return like.__class__(shape, like.dtype, raw.data + start, strides)


def laid_over(area: Any, array: Any, low: int) -> Any:
    """The array as it is, over a copy of the bytes that begin at address `low`."""
    start = address(array) - low if array.size else 0
    made = over_bytes(area, array, array.shape, array.strides, start)
    return with_quantizer(made, array.quantizer) if isinstance(array, QuantizedArray) else made


def twins(storage: Storage) -> list[Storage]:
    """The storage and those that `.data` and `set_` made of the same memory."""
    array = storage.array
    return [found for found in referrers([array]) if isinstance(found, Storage) and found.array is array]


def resizable(storage: Storage) -> bool:
    """Whether memory may be given another size: not where NumPy or another library shares it."""
    return not any(isinstance(twin, Borrowed) for twin in twins(storage))


def holders(storage: Storage) -> Iterator[Any]:
    """A storage and its twins, and the tensors over them, each storage before its tensors."""
    for twin in twins(storage):
        yield twin
        for holder in referrers([twin]):
            if isinstance(holder, Tensor) and holder._storage is twin:
                yield holder


def has_others(t: Tensor, names: int) -> bool:
    """Whether something besides a tensor may have its memory: another tensor, a storage in a program's hands. The caller has so many names for
    the tensor's storage, and for its array."""
    storage, array = storage_of(t), t._array
    own = storage.array
    counts = [sys.getrefcount(one) for one in [storage, own, object()]]
    # the tensor and a name here have the storage, that and a name its array, which may be the tensor's or lie below that
    below = 2 + names if own is array else 1 if getattr(array, "base", None) is own else 0
    return counts[0] > counts[2] + 2 + names or counts[1] > counts[2] + 2 + below


def settle(storage: Storage, raw: Any) -> None:
    """Puts other bytes under a storage. Tensors keep their places; one that reaches beyond the end has zeros there."""
    low = byte_bounds(storage.array)[0]
    held = list(holders(storage))
    tensors = [holder for holder in held if isinstance(holder, Tensor) and holder._array.size]
    reach = max((byte_bounds(t._array)[1] - low for t in tensors), default=0)
    area = raw
    if reach > raw.size:
        area = np.zeros(reach, np.uint8) if isinstance(raw, np.ndarray) else empty_array((reach,), uint8, CUDA)
        area[raw.size :] = 0
        area[: raw.size] = raw
    for t in tensors:
        t._array = laid_over(area, t._array, low)
    whole = area[: raw.size]
    for holder in held:
        if isinstance(holder, Storage):
            holder.array = whole
