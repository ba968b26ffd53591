"""Watching a call on the GPU: which memory it makes and what it launches, without doing any of it.

The arrays of a watched call are shadows. They have shapes and strides, so views of them are taken as of any array, but
no memory: a launch over shadows is only written down. Whatever needs elements, or a library that is not told here, gets
an object that it does not know and raises, which ends the watch: such a call has no plan.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Container, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from .._core import allocation
from .._core.state import WATCHING, held_over_forks, modes

_APART = 1 << 44  # bytes between the places that memory pretends to be at
_ALIGNED = 512  # bytes: where memory begins, as in CuPy's pool
_FEATURES = frozenset(["shape", "strides", "dtype", "ndim", "size", "nbytes", "itemsize", "flags"])
_lock = threading.Lock()
held_over_forks(_lock, WATCHING)


class Unwatchable(Exception):
    """A call does something that cannot be written down."""


class _Place:
    """What NumPy makes an array without memory of."""

    def __init__(self, address: int, shape: Any, strides: Any, size: int):
        about = {"data": (address, False), "shape": tuple(shape), "strides": tuple(strides)}
        self.__array_interface__ = {**about, "typestr": f"|V{size}", "version": 3}


class Data:
    """Where a shadow begins: bytes from the beginning of the memory with a number."""

    __slots__ = ("offset", "owner")

    def __init__(self, owner: int, offset: int = 0):
        self.owner, self.offset = owner, offset

    def __add__(self, bytes: int) -> Data:
        return Data(self.owner, self.offset + bytes)


class Shadow:
    """An array on the GPU of which only the layout is known. It is made as CuPy's arrays are."""

    __slots__ = ("_lies", "owner")

    def __init__(self, shape: Any, dtype: Any, data: Data, strides: Any = None):
        if strides is None:
            strides, step = [], dtype.itemsize
            for n in reversed(shape):
                strides.insert(0, step)
                step *= max(n, 1)
        address = _APART * (data.owner + 1) + data.offset
        self._lies = np.asarray(_Place(address, shape, strides, dtype.itemsize)).view(dtype)
        self.owner = data.owner

    def _with(self, lies: Any) -> Shadow:
        made = object.__new__(Shadow)
        made._lies, made.owner = lies, self.owner
        return made

    @property
    def data(self) -> Data:
        return Data(self.owner, self.offset)

    @property
    def offset(self) -> int:
        """Bytes from the beginning of the memory."""
        start: int = self._lies.__array_interface__["data"][0]
        return start - _APART * (self.owner + 1) if self._lies.size else 0

    def __getattr__(self, name: str) -> Any:
        if name in _FEATURES:
            return getattr(self._lies, name)
        raise Unwatchable(f"the attribute {name}")

    base = None
    device = SimpleNamespace(id=0)  # calls are watched only where there is one GPU

    @property
    def _c_contiguous(self) -> bool:
        return bool(self._lies.flags.c_contiguous)

    @property
    def T(self) -> Shadow:
        return self._with(self._lies.T)

    def transpose(self, *axes: Any) -> Shadow:
        return self._with(self._lies.transpose(*axes))

    def swapaxes(self, one: int, other: int) -> Shadow:
        return self._with(self._lies.swapaxes(one, other))

    def squeeze(self, axis: Any = None) -> Shadow:
        return self._with(self._lies.squeeze(axis))

    def view(self, dtype: Any = None) -> Shadow:
        return self._with(self._lies.view() if dtype is None else self._lies.view(dtype))

    def reshape(self, *shape: Any) -> Shadow:
        try:
            return self._with(self._lies.reshape(*shape, copy=False))
        except ValueError:
            return self.copy().reshape(*shape)

    def ravel(self) -> Shadow:
        return self.reshape(-1)

    def astype(self, dtype: Any, copy: bool = True) -> Shadow:
        if copy or dtype != self._lies.dtype:
            raise Unwatchable("a conversion")
        return self

    def copy(self, order: str = "C") -> Any:
        watch = watching()
        if watch is None:
            raise Unwatchable("a copy")
        if order == "K":
            return watch.backend.duplicate(self)
        made = watch.empty(self.shape, self.dtype, device=True)
        watch.backend.copy(self, made)
        return made

    def fill(self, value: Any) -> None:
        watch = watching()
        if watch is None:
            raise Unwatchable("a value")
        watch.backend.copy(np.asarray(value, self.dtype), self)

    def __getitem__(self, key: Any) -> Shadow:
        parts = key if isinstance(key, tuple) else (key,)
        if not all([p is None or p is Ellipsis or isinstance(p, (int, slice)) for p in parts]):
            raise Unwatchable("elements by index")
        return self._with(self._lies[(*parts, Ellipsis) if Ellipsis not in parts else key])

    def __setitem__(self, key: Any, value: Any) -> None:
        watch, target = watching(), self[key]
        known = isinstance(value, Shadow) or (isinstance(value, np.ndarray) and not value.ndim)
        if watch is None or not watch.may_write(self) or not known or value.dtype != target.dtype:
            raise Unwatchable("a value")
        watch.backend.copy(value, target)

    def __len__(self) -> int:
        return len(self._lies)

    def _refuse(self, *args: Any, **named: Any) -> Any:
        raise Unwatchable("a value")

    __bool__ = __int__ = __float__ = __complex__ = __index__ = __iter__ = __contains__ = _refuse


class Watch:
    """What one call did: memory that it made, launches and calls of libraries over it and over what was given."""

    current: Watch | None = None
    fuses = False  # whether what is pointwise becomes part of larger kernels

    def __init__(self, backend: Any, inputs: Sequence[Any], writable: Sequence[int] = ()):
        self.backend, self.writable = backend, writable
        self.given = [Shadow(a.shape, a.dtype, Data(i), a.strides) for i, a in enumerate(inputs)]
        self.made: list[Shadow] = []
        self.calls: list[Any] = []  # (kernel, or address of a function, grid and block, arguments)
        self.bodies: dict[int, Any] = {}  # of calls that are pointwise, by number: what computes, and its operands
        self.keep: list[Any] = []
        self.numbers: dict[int, Any] | None = (
            None  # what gives those that are others each time, where plans can ask for them
        )

    def __enter__(self) -> Watch:
        _lock.acquire()
        self.thread, self.before = threading.get_ident(), allocation.watcher
        Watch.current = allocation.watcher = modes.watching = self
        return self

    def __exit__(self, *error: Any) -> None:
        Watch.current, allocation.watcher = None, self.before
        modes.watching = self.before
        _lock.release()

    def here(self) -> bool:
        """Whether it is this thread's call that is watched."""
        return self.thread == threading.get_ident()

    def may_write(self, x: Shadow) -> bool:
        """Whether it is memory that was made here, or one of the inputs that the call is known to write to."""
        return x.owner >= len(self.given) or x.owner in self.writable

    def refuse(self, *what: Any) -> Any:
        raise Unwatchable("what Python must do each time")

    def empty(self, shape: Any, dtype: Any, device: bool = False) -> Shadow:
        """Memory on the GPU; memory of the CPU has no place in such a call."""
        if not device:
            self.refuse()
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.made.append(Shadow(shape, np.dtype(dtype), Data(len(self.given) + len(self.made))))
        return self.made[-1]

    def number(self, give: Any) -> Shadow:
        """What stands for a word that `give()` gives each time: launches get it in the place of an address."""
        if self.numbers is None:
            self.refuse()
        made = self.empty((), np.uint64, device=True)
        self.numbers[made.owner] = give
        return made

    def launch(self, function: Any, grid: Any, block: Any, args: Sequence[Any]) -> None:
        """A kernel over shadows and numbers."""
        address = getattr(function, "ptr", None)
        if address is None:
            raise Unwatchable("a kernel that each GPU has its own of")
        self.keep.append(function)
        sizes = [*grid, *[1] * (3 - len(grid)), *block, *[1] * (3 - len(block))]
        self.calls.append((address, 0, sizes, [_argument(a) for a in args]))

    def pointwise(self, what: Any, operands: Sequence[Any]) -> None:
        """Says what the last launch computes of each element."""
        self.bodies[len(self.calls) - 1] = what, operands

    def call(self, address: int, args: Sequence[Any]) -> None:
        """A function of a library; its arguments are addresses and integers, or shadows."""
        self.calls.append((0, address, [1] * 6, [_argument(a) for a in args]))

    def on_the_way(self, kept: Container[int]) -> tuple[dict[int, int], int]:
        """Where in one piece of memory that lies which was made for this call alone, all but the `kept`, by number; and how large that
        piece is. What nobody needs any more makes room for what is as large."""
        uses: dict[int, list[int]] = {}
        for i, (*_, args) in enumerate(self.calls):
            for owner, _ in args:
                if owner >= len(self.given) and owner not in kept:
                    uses.setdefault(owner, [i, i])[1] = i
        ends: dict[int, list[int]] = {}
        for owner, (_, last) in uses.items():
            ends.setdefault(last, []).append(owner)
        places, free, size = dict[int, int](), dict[int, list[int]](), 0
        done = 0
        for owner, (first, _) in uses.items():  # in the order in which they are needed
            for last in range(done, first):
                for other in ends.get(last, ()):
                    free.setdefault(self._room(other), []).append(places[other])
            done, need = first, self._room(owner)
            if free.get(need):
                places[owner] = free[need].pop()
            else:
                places[owner], size = size, size + need
        return places, size

    def _room(self, owner: int) -> int:
        return -(-self.made[owner - len(self.given)].nbytes // _ALIGNED) * _ALIGNED


def watching() -> Watch | None:
    """The watch over what this thread does."""
    found = Watch.current
    return found if found is not None and found.here() else None


def _argument(a: Any) -> tuple[int, int]:
    """The number of the memory that an argument lies in and its place there; -1 and its bits for a number."""
    if isinstance(a, Shadow):
        return (a.owner, a.offset) if a.size else (-1, 0)  # nobody reads what has no elements
    if isinstance(a, (bool, np.bool_)):
        return -1, int(a)
    if isinstance(a, int):
        return -1, (a + (1 << 63)) % (1 << 64) - (1 << 63)
    if isinstance(a, float):
        return -1, struct.unpack("q", struct.pack("d", a))[0]
    if isinstance(a, np.generic) and a.itemsize <= 8:
        return -1, struct.unpack("q", a.tobytes().ljust(8, b"\0"))[0]
    raise Unwatchable(f"an argument of class {type(a).__name__}")
