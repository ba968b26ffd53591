"""Work of many launches, such as one for each step of time: written down when arrays of a layout come again, carried out by one native call."""

from __future__ import annotations

import array
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._kernel.native.device_entry import carrier
from .._kernel.native.device_plan import call_words
from .cuda_watch import Shadow, Unwatchable, Watch, watching

_KEPT = 512  # lists of launches that are remembered
_SEEN = 4096  # layouts that have come once
_BYTE = np.dtype(np.uint8)


class _List(NamedTuple):
    """Memory goes by numbers: numbers that differ each time, what is given, the results, then one piece for what is needed on the way to them."""

    makers: list[tuple[Any, Any] | None]  # shape and dtype of each result
    size: int  # bytes of memory on the way
    words: array.array[int]
    calls: int
    keep: Any


_NEVER = _List([], 0, array.array("q"), 0, None)  # what cannot be written down


class Launches:
    """The lists of one GPU, by what they were made for."""

    def __init__(self, backend: Any):
        self.backend = backend
        self.lists: dict[Hashable, _List] = {}
        self.seen: dict[Hashable, None] = {}

    def __call__(
        self, key: Hashable, function: Callable[..., Sequence[Any]], arrays: Sequence[Any], numbers: Sequence[int] = ()
    ) -> Sequence[Any]:
        """What `function(*arrays, *numbers)` gives: new arrays, each with memory of its own, or None. What it launches may depend on the layout
        of the arrays, some of which may be None, and on what the key says; numbers (addresses, too) are only handed to kernels."""
        backend = self.backend
        if watching() is not None or not backend.ready():
            return function(*arrays, *numbers)
        stream = backend.stream()
        full = key, stream + backend.choice, *[None if a is None else (a.shape, a.strides, a.dtype) for a in arrays]
        found = self.lists.get(full)
        if found is None:
            if full not in self.seen:  # what comes once is not worth it
                _add(self.seen, full, None, _SEEN)
                return function(*arrays, *numbers)
            try:
                found = self._written(function, arrays, len(numbers))
            except Unwatchable:  # where streams share a handle, for instance
                found = None
            _add(self.lists, full, found or _NEVER, _KEPT)
        if found is None or found is _NEVER:
            return function(*arrays, *numbers)
        make = backend.xp.ndarray
        made = [None if m is None else make(*m) for m in found.makers]
        more = [make((found.size,), _BYTE)] if found.size else []
        memory = [0 if a is None else a.data.ptr for a in (*arrays, *made, *more)]
        bases = array.array("q", [*numbers, *memory])
        places = found.words.buffer_info()[0], found.calls, bases.buffer_info()[0]
        if carrier()(*places, backend.addresses["launch"], stream):
            return function(*arrays, *numbers)  # Python finds out what is wrong
        return made

    def _written(self, function: Callable[..., Sequence[Any]], arrays: Sequence[Any], told: int) -> _List:
        given = [a for a in arrays if a is not None]
        with Watch(self.backend, given) as watch:
            watch.numbers = {}
            words = [watch.number(None) for _ in range(told)]
            shadows = iter(watch.given)
            outs = function(*[None if a is None else next(shadows) for a in arrays], *words)
        places = {w.owner: i for i, w in enumerate(words)}
        places.update(enumerate([told + i for i, a in enumerate(arrays) if a is not None]))
        for i, x in enumerate(outs):
            if x is not None:
                self._check(watch, x, places)
                places[x.owner] = told + len(arrays) + i
        offsets, size = watch.on_the_way(places)
        places.update(dict.fromkeys(offsets, told + len(arrays) + len(outs)))
        calls: list[int] = []
        for kernel, address, sizes, args in watch.calls:
            passed = [(s, v) if s < 0 else (places[s], v + offsets.get(s, 0)) for s, v in args]
            calls += call_words(kernel, address, sizes, passed)
        makers = [None if x is None else (x.shape, x.dtype) for x in outs]
        return _List(makers, size, array.array("q", calls), len(watch.calls), watch.keep)

    def _check(self, watch: Watch, x: Any, places: dict[int, int]) -> None:
        whole = isinstance(x, Shadow) and x._c_contiguous and x.owner not in places
        if not whole or x.nbytes != watch.made[x.owner - len(watch.given)].nbytes:
            raise Unwatchable("a result that is a part of something")


def _add(table: dict[Hashable, Any], key: Hashable, value: Any, most: int) -> None:
    """An entry of a table, in the place of the first one if there are too many."""
    if len(table) >= most:
        table.pop(next(iter(table)), None)  # another thread may take it first
    table[key] = value
