"""The memory of tensors as flat arrays: their own where it is dense, otherwise a copy that is written back.

A channel that works `on_device` gets arrays on the GPU, any other the elements in the CPU's memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._autograd.modes import no_grad
from .._core.state import CUDA, POSTPONED
from .._tensor import Tensor, bump, computed, storage_of, wrap

Finish = Callable[[], Any]


def _direct(tensor: Tensor, channel: Any) -> bool:
    """Whether a channel reaches the tensor's memory."""
    return tensor.device.type == "cpu" or channel.on_device


def _dense(tensor: Tensor, channel: Any) -> bool:
    """Whether a channel can write to the tensor's memory as it lies."""
    flags = tensor._array.flags
    return (
        _direct(tensor, channel)
        and not tensor._k & POSTPONED
        and flags.c_contiguous
        and getattr(flags, "writeable", True)  # CuPy's arrays always are
    )


def reading(tensor: Tensor, channel: Any) -> Any:
    """The elements in order, to read."""
    if not _direct(tensor, channel):
        tensor = tensor.detach().cpu()
    array = computed(tensor)._array
    return (array if array.flags.c_contiguous else array.copy(order="C")).reshape(-1)


def writing(tensor: Tensor, finish: list[Finish], channel: Any) -> Any:
    """The elements in order, to read and to write; what is to be done afterwards is added to `finish`."""
    if _dense(tensor, channel):
        finish.append(lambda: bump(tensor))
        return tensor._array.reshape(-1)
    copy = reading(tensor, channel).copy()
    finish.append(lambda: write(tensor, copy))
    return copy


def write(tensor: Tensor, flat: Any) -> None:
    """Gives a tensor the elements of a flat array."""
    here = isinstance(flat, np.ndarray)
    with no_grad():
        tensor.copy_(wrap(flat.reshape(tensor.shape), tensor.dtype, 0 if here else tensor._k & CUDA))


def joined(tensors: Sequence[Tensor], channel: Any) -> np.ndarray | None:
    """The memory of tensors that lie one after the other, as one flat array; None if they do not."""
    storage, at = storage_of(tensors[0]), None
    for tensor in tensors:
        array = tensor._array
        if tensor.device.type != "cpu" or tensor._storage is not storage or not _dense(tensor, channel):
            return None
        start = array.__array_interface__["data"][0]
        if at not in (None, start):
            return None
        at = start + array.nbytes
    first = tensors[0]._array.reshape(-1)
    total = sum(t._array.size for t in tensors)
    return np.lib.stride_tricks.as_strided(first, (total,), (first.itemsize,))


def reading_all(tensors: Sequence[Tensor], channel: Any) -> Any:
    """The elements of several tensors, one after the other, to read."""
    found = joined(tensors, channel)
    if found is not None:
        return found
    parts = [reading(t, channel) for t in tensors]
    return (np if isinstance(parts[0], np.ndarray) else channel.xp).concatenate(parts)


def writing_all(tensors: Sequence[Tensor], finish: list[Finish], channel: Any) -> Any:
    """Room for the elements of several tensors, one after the other."""
    found = joined(tensors, channel)
    if found is not None:
        finish.append(lambda: [bump(t) for t in tensors])
        return found
    sizes = [t.numel() for t in tensors]
    device = tensors[0].device.type != "cpu" and channel.on_device
    out = (channel.xp if device else np).empty(sum(sizes), tensors[0]._array.dtype)

    def distribute() -> None:
        at = 0
        for tensor, size in zip(tensors, sizes):
            write(tensor, out[at : at + size])
            at += size

    finish.append(distribute)
    return out
