"""Batches in shared memory: workers write them once, the loader reads them in place, and the memory is used again.

A batch is pickled without its arrays. Their bytes lie in a segment of shared memory, which belongs to the batch until
nobody looks at it any more: the loader then tells the worker that it is free.
"""

from __future__ import annotations

import io
import os
import pickle
import weakref
from typing import Any

import numpy as np

from ...._backend.segments import Segment, new_segment
from ...._core.dtypes import BY_NAME
from ...._core.state import GRAD
from ...._ops.layout.striding import address
from ...._tensor import Tensor, wrap

_ALIGNED = 64
_PAGE = 4096
_LEAST = 1 << 16  # bytes of a segment: the system provides a page when it is first written to
_SHORT = 1 << 10  # arrays up to so many bytes travel in the message itself
_COPIED = 1 << 14  # batches up to so many bytes are copied, to free their segment at once
_MOST_HELD = 32  # batches of one worker that the user may hold in shared memory; more are copied
_MOST_FREE = 8  # free segments that a worker keeps


# -- tensors in a message ------------------------------------------------------------------------------------------


def _rebuild(data: Any, name: str, shape: tuple[int, ...], order: Any, requires_grad: bool) -> Tensor:
    d = BY_NAME[name]
    array = np.ndarray(shape, d.numpy, data)
    return wrap(array if order is None else array.transpose(order), d, GRAD if requires_grad else 0)


def _reduce(t: Tensor) -> Any:
    """A plain tensor as the bytes of its elements, in the order in which they lie in memory."""
    if t._k & GRAD and t._edge is not None:
        raise RuntimeError("a worker cannot send a tensor that was computed from others that require grad: detach it")
    if t._k & ~GRAD or t.__dict__:
        return t.__reduce_ex__(5)
    array, order = t._array, None
    if not array.flags.c_contiguous:
        by_stride = sorted(range(array.ndim), key=lambda i: -array.strides[i])
        sorted_array = array.transpose(by_stride)
        if sorted_array.flags.c_contiguous:  # such as channels last: keep the strides
            array, order = sorted_array, [by_stride.index(i) for i in range(array.ndim)]
        else:
            array = np.ascontiguousarray(array).reshape(array.shape)
    data = pickle.PickleBuffer(array.reshape(-1).view(np.uint8))
    return _rebuild, (data, t.dtype.name, array.shape, order, bool(t._k & GRAD))


_REDUCERS = {Tensor: _reduce}


# -- in a worker -------------------------------------------------------------------------------------------------------


class Arena:
    """A worker's segments. `allocate` takes memory for the batch in work, `pack` makes the message, `free` ends it."""

    def __init__(self) -> None:
        self._segments: dict[int, Segment] = {}
        self._free: list[int] = []
        self._seen: dict[int, weakref.ref[Any]] = {}  # segments in use here: the array that all memory was cut from
        self._count = 0
        self._typical = 0  # about how many bytes a batch takes
        self._dropped: list[int] = []
        self.begin()

    def begin(self) -> None:
        """Starts a new batch."""
        self._pages: list[tuple[int, Any]] = []  # the segments of this batch
        self._at = self._used = 0
        self._fresh: list[int] = []

    def allocate(self, nbytes: int) -> Any:
        """Memory for the batch in work, as an array of bytes."""
        if not self._pages or self._at + nbytes > self._pages[-1][1].size:
            self._turn(nbytes)
        start = self._at
        self._at += -(-nbytes // _ALIGNED) * _ALIGNED
        self._used += nbytes + _ALIGNED
        return self._pages[-1][1][start : start + nbytes]

    def _turn(self, nbytes: int) -> None:
        """Goes on to another segment that has room for so many bytes and, as a rule, for the whole batch."""
        wanted = max(nbytes, self._typical, 2 * self._used, _LEAST)  # growing fast keeps segments few
        number = self._unused(wanted)
        if number is None:
            for small in [n for n in self._free if self._segments[n].nbytes < wanted]:
                self._drop(small)
            number = self._count = self._count + 1
            self._segments[number] = new_segment(-(-wanted // _PAGE) * _PAGE)
            self._fresh.append(number)
        page = np.asarray(self._segments[number])
        self._seen[number] = weakref.ref(page)
        self._pages.append((number, page))
        self._at = 0

    def _unused(self, wanted: int) -> int | None:
        for i in range(len(self._free) - 1, -1, -1):  # the last used first: it is in the cache
            number = self._free[i]
            if self._segments[number].nbytes >= wanted and self._seen[number]() is None:
                return self._free.pop(i)
        return None

    def free(self, numbers: list[int], lost: list[int]) -> None:
        """Takes back segments that the loader no longer looks at; those that are lost are not used again."""
        self._free += numbers
        for number in [*lost, *self._free[: max(0, len(self._free) - _MOST_FREE)]]:
            self._drop(number)

    def _drop(self, number: int) -> None:
        if number in self._free:
            self._free.remove(number)
        del self._segments[number], self._seen[number]
        self._dropped.append(number)

    def pack(self, head: Any, data: Any) -> tuple[bytes, list[int]]:
        """(message, descriptors) for a batch: `head` comes first and must be small."""
        buffers: list[Any] = []
        file = io.BytesIO()

        def is_short(buffer: pickle.PickleBuffer) -> bool:
            if buffer.raw().nbytes <= _SHORT:
                return True
            buffers.append(buffer)
            return False

        pickler = pickle.Pickler(file, 5, buffer_callback=is_short)
        pickler.dispatch_table = _REDUCERS  # type: ignore[assignment]
        pickler.dump(data)
        places = [self._place(np.frombuffer(b, np.uint8)) for b in buffers]
        fresh = [(number, self._segments[number].nbytes) for number in self._fresh]
        numbers = [number for number, _ in self._pages]
        message = pickle.dumps((head, fresh, self._dropped, numbers, places, file.getvalue()), 5)
        descriptors = []
        for number in self._fresh:  # the mapping stays without it
            descriptors.append(self._segments[number].descriptor)
            self._segments[number].descriptor = -1
        self._typical = max(self._used, self._typical - (self._typical >> 4))
        self._dropped = []
        self.begin()
        return message, descriptors

    def _place(self, data: Any) -> tuple[int, int, int]:
        """Where an array lies in this batch's segments: (which, first byte, bytes); it is copied there if need be."""
        start = address(data)
        for i, (_, page) in enumerate(self._pages):
            offset = start - address(page)
            if offset >= 0 and offset + data.size <= page.size:
                return i, offset, data.size
        copy = self.allocate(data.size)
        copy[...] = data
        return len(self._pages) - 1, self._at - -(-data.size // _ALIGNED) * _ALIGNED, data.size


arena: Arena | None = None  # of this process, if it is a worker


def open_arena() -> Arena:
    """Makes this process one whose batches are collated in shared memory."""
    global arena
    arena = Arena()
    return arena


def shared_empty(shape: tuple[int, ...], dtype: Any) -> Any:
    """An array in a worker's shared memory; None in other processes and for little data."""
    if arena is None:
        return None
    nbytes = dtype.itemsize
    for n in shape:
        nbytes *= n
    return arena.allocate(nbytes).view(dtype).reshape(shape) if nbytes > _SHORT else None


# -- in the loader -----------------------------------------------------------------------------------------------------


class _Lease(weakref.ref):  # type: ignore[type-arg]
    """Tells when the last array over a segment is gone."""

    __slots__ = ("number",)
    number: int


_readers: weakref.WeakSet[Any] = weakref.WeakSet()


class Reader:
    """The loader's view of one worker's segments: `unpack` gives batches that lie in them."""

    def __init__(self, pin: bool = False) -> None:
        self._segments: dict[int, Segment] = {}
        self._leases: dict[int, _Lease] = {}
        self._ended: list[_Lease] = []  # filled whenever an array is freed, in any thread
        self._free: list[int] = []
        self._lost: list[int] = []
        self._pin = pin
        _readers.add(self)

    def unpack(self, message: bytes, descriptors: list[int]) -> tuple[Any, Any]:
        """(head, data) of a worker's message."""
        head, fresh, dropped, numbers, places, data = pickle.loads(message)
        for (number, nbytes), descriptor in zip(fresh, descriptors):
            self._segments[number] = Segment(descriptor, nbytes)
            os.close(descriptor)
        for number in dropped:
            self._segments.pop(number, None)
        pages = [np.asarray(self._segments[number]) for number in numbers]
        buffers = [pages[i][start : start + nbytes] for i, start, nbytes in places]
        copied = len(self._leases) >= _MOST_HELD or sum(b.size for b in buffers) <= _COPIED
        if copied:
            buffers = [b.copy() for b in buffers]
            self._free += numbers
        else:
            for number, page in zip(numbers, pages):
                if self._pin:
                    self._segments[number].pin()
                lease = self._leases[number] = _Lease(page, self._ended.append)
                lease.number = number
        return head, pickle.loads(data, buffers=buffers)

    def returned(self) -> tuple[list[int], list[int]]:
        """The segments that are free again, and those that nobody may write to any more; each is told once."""
        ended, free, lost = self._ended, self._free, self._lost
        while ended:
            lease = ended.pop()
            if self._leases.pop(lease.number, None) is not None:
                free.append(lease.number)
        self._free, self._lost = [], []
        return free, lost

    def keep_held(self) -> None:
        """Gives up the segments that are in use: another process is about to see them too."""
        for number in list(self._leases):
            if self._leases.pop(number, None) is not None:
                self._lost.append(number)
                self._segments.pop(number, None)


def _before_fork() -> None:
    for reader in list(_readers):
        reader.keep_held()


os.register_at_fork(before=_before_fork)
