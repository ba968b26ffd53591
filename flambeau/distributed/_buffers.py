"""The memory of tensors as flat arrays: their own where it is dense, otherwise a copy that is written back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._autograd.modes import no_grad
from .._core.state import POSTPONED
from .._tensor import Tensor, bump, computed, storage_of, wrap

Finish = Callable[[], Any]


def reading(tensor: Tensor) -> np.ndarray:
    """The elements in order, to read."""
    if tensor.device.type != "cpu":
        tensor = tensor.detach().cpu()
    return np.ascontiguousarray(computed(tensor)._array).reshape(-1)


def writing(tensor: Tensor, finish: list[Finish]) -> np.ndarray:
    """The elements in order, to read and to write; what is to be done afterwards is added to `finish`."""
    array = tensor._array
    if tensor.device.type == "cpu" and not tensor._k & POSTPONED and array.flags.c_contiguous and array.flags.writeable:
        finish.append(lambda: bump(tensor))
        return array.reshape(-1)
    copy = np.array(reading(tensor))
    finish.append(lambda: write(tensor, copy))
    return copy


def write(tensor: Tensor, flat: np.ndarray) -> None:
    """Gives a tensor the elements of a flat array."""
    with no_grad():
        tensor.copy_(wrap(flat.reshape(tensor.shape), tensor.dtype))


def joined(tensors: Sequence[Tensor]) -> np.ndarray | None:
    """The memory of tensors that lie one after the other, as one flat array; None if they do not."""
    storage, at = storage_of(tensors[0]), None
    for tensor in tensors:
        array = tensor._array
        if tensor.device.type != "cpu" or tensor._k & POSTPONED or tensor._storage is not storage:
            return None
        if not array.flags.c_contiguous or not array.flags.writeable:
            return None
        start = array.__array_interface__["data"][0]
        if at not in (None, start):
            return None
        at = start + array.nbytes
    first = tensors[0]._array.reshape(-1)
    total = sum(t._array.size for t in tensors)
    return np.lib.stride_tricks.as_strided(first, (total,), (first.itemsize,))


def reading_all(tensors: Sequence[Tensor]) -> np.ndarray:
    """The elements of several tensors, one after the other, to read."""
    found = joined(tensors)
    return np.concatenate([reading(t) for t in tensors]) if found is None else found


def writing_all(tensors: Sequence[Tensor], finish: list[Finish]) -> np.ndarray:
    """Room for the elements of several tensors, one after the other."""
    found = joined(tensors)
    if found is not None:
        finish.append(lambda: [bump(t) for t in tensors])
        return found
    sizes = [t.numel() for t in tensors]
    out = np.empty(sum(sizes), reading(tensors[0][:0] if tensors[0].dim() else tensors[0]).dtype)

    def distribute() -> None:
        at = 0
        for tensor, size in zip(tensors, sizes):
            write(tensor, out[at : at + size])
            at += size

    finish.append(distribute)
    return out
