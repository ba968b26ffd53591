"""Memory that processes share: files without a name, gone with the last process that has them open or mapped."""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import sys
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

_PROT_READ_WRITE, _MAP_SHARED = 3, 1
_count = itertools.count()
_mapped: WeakValueDictionary[tuple[int, int], Segment] = WeakValueDictionary()  # by device and number of the file


@functools.cache
def _calls() -> tuple[Any, Any]:
    """The system's mmap and munmap: Python's own keep a descriptor open for every mapping."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype, libc.munmap.restype = ctypes.c_void_p, ctypes.c_int
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return libc.mmap, libc.munmap


def _nameless_file() -> int:
    if sys.platform == "linux":
        return os.memfd_create("flambeau")  # not limited by the size of /dev/shm
    try:
        import _posixshmem  # where there is no memfd
    except ImportError:
        import tempfile

        with tempfile.TemporaryFile() as file:
            return os.dup(file.fileno())
    name = f"/flambeau-{os.getpid()}-{next(_count)}"
    descriptor = _posixshmem.shm_open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    _posixshmem.shm_unlink(name)
    return int(descriptor)


def new_file(nbytes: int) -> int:
    """The descriptor of so many bytes of shared memory, all zero."""
    descriptor = _nameless_file()
    try:
        os.ftruncate(descriptor, max(nbytes, 1))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


class Segment:
    """Shared memory mapped into this process for as long as an array looks at it.

    `np.asarray(segment)` is its bytes. With `keep`, the descriptor stays open, to hand the memory to other processes.
    """

    __slots__ = ("__weakref__", "_munmap", "_registered", "address", "descriptor", "nbytes")

    def __init__(self, descriptor: int, nbytes: int, keep: bool = False):
        self.address, self.descriptor, self._registered = 0, -1, False
        mmap, self._munmap = _calls()
        address = mmap(None, max(nbytes, 1), _PROT_READ_WRITE, _MAP_SHARED, descriptor, 0)
        if address is None or address == ctypes.c_void_p(-1).value:
            number = ctypes.get_errno()
            raise OSError(number, f"cannot map {nbytes} bytes of shared memory: {os.strerror(number)}")
        self.address, self.nbytes = address, nbytes
        if keep:
            self.descriptor = descriptor

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"shape": (self.nbytes,), "typestr": "|u1", "data": (self.address, False), "version": 3}

    def pin(self) -> None:
        """Lets GPUs read the memory directly."""
        if not self._registered and self.nbytes:
            import cupy  # only where there is a GPU

            cupy.cuda.runtime.hostRegister(self.address, self.nbytes, 0)
            self._registered = True

    def __del__(self, close: Any = os.close) -> None:
        if self._registered:
            try:
                import cupy

                cupy.cuda.runtime.hostUnregister(self.address)
            except Exception:
                pass  # the driver may be gone when the interpreter ends
        if self.address:
            self._munmap(self.address, max(self.nbytes, 1))
        if self.descriptor >= 0:
            close(self.descriptor)


def new_segment(nbytes: int) -> Segment:
    """Fresh shared memory with its descriptor."""
    return _kept(new_file(nbytes), nbytes)


def _kept(descriptor: int, nbytes: int) -> Segment:
    try:
        return Segment(descriptor, nbytes, keep=True)
    except BaseException:
        os.close(descriptor)
        raise


def _key(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def share(raw: Any) -> Any:
    """An array of bytes in shared memory that can be handed to other processes: the same one if it is already there."""
    found = segment_of(raw)
    if found is not None and found.descriptor >= 0:
        return raw
    segment = new_segment(raw.nbytes)
    _mapped[_key(segment.descriptor)] = segment
    area = np.asarray(segment)
    area[...] = raw
    return area


def receive(descriptor: int, nbytes: int) -> Segment:
    """The segment behind a descriptor from another process; each is mapped once."""
    key = _key(descriptor)
    found = _mapped.get(key)
    if found is not None:
        os.close(descriptor)
        return found
    segment = _mapped[key] = _kept(descriptor, nbytes)
    return segment


def segment_of(array: Any) -> Segment | None:
    """The shared memory that an array looks at, if it does."""
    base = array
    while isinstance(base, (np.ndarray, memoryview)):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return base if isinstance(base, Segment) else None
