"""The memory of storages: mapped from files, seen as tensors, of another size, copied, shared with other processes."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .._backend import segments
from .._core.dtypes import dtype, uint8
from .._core.layouts import reach_of
from .._core.state import CUDA
from .._ops.basic import empty_array
from .._ops.layout.storages import raw_bytes, settle
from .._ops.layout.striding import byte_bounds, strided
from . import Storage


def map_file(path: Any, shared: bool, nbytes: int) -> Any:
    """The first bytes of a file as an array; 0 bytes mean all of them. A shared file grows as needed."""
    import mmap  # only for those who map files

    with open(path, "r+b" if shared and os.path.exists(path) else "w+b" if shared else "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if shared and nbytes > size:
            file.truncate(nbytes)
        elif nbytes > size:
            raise RuntimeError(f"{path}: the file has {size} bytes, fewer than {nbytes}")
        count = nbytes or size
        if not count:
            return np.empty(0, np.uint8)
        access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
        return np.frombuffer(mmap.mmap(file.fileno(), count, access=access), np.uint8)


def view_memory(storage: Storage, d: dtype, shape: Any, strides: Any, offset: int) -> Any:
    """An array over a storage: shape, strides and offset in elements of `d`; RuntimeError beyond its end."""
    raw = raw_bytes(storage)
    size = d.itemsize
    reach = reach_of(shape, strides)
    if (offset + reach) * size > raw.size and reach:
        raise RuntimeError(
            f"setStorage: sizes {list(shape)}, strides {list(strides)} and offset {offset} need "
            f"{(offset + reach) * size} bytes and are out of bounds for storage of size {raw.size}"
        )
    if not reach:
        return strided(raw[:0].view(d.numpy), tuple(shape), tuple(s * size for s in strides))
    start = raw[offset * size : (offset + reach) * size]
    if isinstance(raw, np.ndarray):
        return np.ndarray(tuple(shape), d.numpy, start, 0, tuple(s * size for s in strides))
    return strided(start.view(d.numpy), tuple(shape), tuple(s * size for s in strides))


def resize_memory(storage: Storage, size: int) -> None:
    """Gives a storage another size in bytes; what it had is kept as far as it goes."""
    old = raw_bytes(storage)
    raw = empty_array((size,), uint8, 0 if isinstance(old, np.ndarray) else CUDA)
    kept = min(size, old.size)
    raw[:kept] = old[:kept]
    settle(storage, raw)


def copy_storage(storage: Storage, memo: dict[Any, Any]) -> Storage:
    """A copy of a storage, the same one for all tensors and storages of a `deepcopy` that share it."""
    low, high = byte_bounds(storage.array)
    key = ("storage", low, high) if high > low else ("storage", id(storage))
    if key not in memo:
        memo[key] = Storage(raw_bytes(storage).copy())
        memo["kept", key] = storage  # the address must not be used again while the memo lives
    return memo[key]


def share(storage: Storage) -> None:
    """Moves a storage's bytes to memory that other processes can see, together with all tensors over them."""
    raw = raw_bytes(storage)
    area = segments.share(raw)
    if area is not raw:
        settle(storage, area)
