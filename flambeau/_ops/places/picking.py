"""Elements of planes picked by places along each dimension: what padding and resizing to the nearest elements share."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._backend.cpu import cpu
from ..._core.allocation import empty
from ..._core.dtypes import from_numpy_dtype
from ..._core.once import found_once
from ..._kernel.images.resample import add_element, add_planes, pick_element, pick_planes
from ..._kernel.threads import pool
from ..layers.channels import channels_at_end, channels_second, is_channels_last, keeps_channels_last
from ..records.batching import folded
from ..records.primitive import primitive
from ..records.shape_rules import dtype_of
from ..records.tangents import linear
from . import planes


class Places:
    """For each of the last dimensions, of some `size`, the elements that results are taken from."""

    def __init__(self, indices: Sequence[Any], size: tuple[int, ...]):
        missing = 3 - len(size)
        self.indices, self.size, self.counts = indices, size, tuple([len(i) for i in indices])
        three = [np.zeros(1, np.int64)] * missing + [np.ascontiguousarray(i, np.int64) for i in indices]
        self.operands = [constant.view() for constant in (*three, _longest_run(three[-1]))]
        for constant in self.operands:
            constant.flags.writeable = False
        self.planes, self.results = (1,) * missing + size, (1,) * missing + self.counts
        for index, n in zip(indices, size):  # the kernels rely on it
            if len(index) and (index.min() < 0 or index.max() >= n):
                raise IndexError(f"places from {index.min()} to {index.max()} in a dimension of size {n}")

    def __len__(self) -> int:
        return len(self.size)

    @found_once
    def inverse(self) -> tuple[list[Any], list[Any]]:
        """For each element of three dimensions, where it was taken: bounds, and places between them."""
        found = [planes.inverse(index, n) for index, n in zip(self.operands[:3], self.planes)]
        return [bounds for bounds, _ in found], [places for _, places in found]


makers: dict[str, Callable[..., Places]] = {}  # of places that are told in words, by the first word


@functools.lru_cache(1024)
def places_of(words: tuple[Any, ...]) -> Places:
    """Places that are told in words, of which plans know whether they are the same: the name of what makes them, and its arguments."""
    return makers[words[0]](*words[1:])


def _longest_run(index: Any) -> Any:
    """Where the most places that follow each other begin and end."""
    bounds = np.array([0, *(np.flatnonzero(np.diff(index) != 1) + 1), len(index)], np.int64)
    longest = int(np.diff(bounds).argmax())
    return bounds[longest : longest + 2]


_BITS = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}  # elements are moved as they are
_CODES = {"u1": "u8", "u2": "u16", "u4": "u32", "u8": "u64", "c16": "c128"}


@functools.lru_cache(1024)
def _plan(places: Places, shape: tuple[int, ...], d: Any) -> tuple[Any, ...]:
    """How elements of a shape and dtype are picked: (kernel, dtype it knows, shapes of its operand, its result, ours)."""
    lead = shape[: len(shape) - len(places)]
    count, made, bits = math.prod(lead), lead + places.counts, _BITS[d.itemsize]
    size = math.prod(made)
    types, far = (_CODES[bits], *["i64"] * 4, _CODES[bits]), size * d.itemsize >= pool.settings[1]
    call = cpu.sized(size, pick_planes, types, far=far)
    return call, np.dtype(bits), (count, *places.planes), (count, *places.results), made


def _shape(x: Any, places: Places, space: tuple[int, ...]) -> tuple[int, ...]:
    return (*x.shape[: x.ndim - len(places)], *space)


@primitive(
    name="pick", backward_name="UpsampleNearestBackward0",
    meta=lambda x, words: (_shape(x, places_of(words), places_of(words).counts), from_numpy_dtype(x.dtype)),
    grad={"x": lambda g, words: pick_back(g, words)},
    batch=folded(),
    tangent=linear("x"),
)  # fmt: skip
@keeps_channels_last()
def pick(backend: Any, x: Any, words: tuple[Any, ...]) -> Any:
    """out[…, i, j] = x[…, places[0][i], places[1][j]], for the places of `words`."""
    places = places_of(words)
    if backend is cpu and len(places) == 2 and is_channels_last(x):
        return channels_second(_picked(channels_at_end(x), _beside(places, x.shape[1])))
    if backend is not cpu:
        return _pick_each(backend, x, places)
    return _picked(x, places)


def _picked(x: Any, places: Places) -> Any:
    call, bits, given, results, shape = _plan(places, x.shape, x.dtype)
    out = empty(shape, x.dtype)
    if out.size:
        call(x.reshape(given).view(bits), *places.operands, out.reshape(results).view(bits))
    return out


@functools.lru_cache(1024)
def _beside(places: Places, channels: int) -> Places:
    """The same for planes of so many channels side by side, all of which are taken."""
    return Places([*places.indices, np.arange(channels)], (*places.size, channels))


def _pick_each(backend: Any, x: Any, places: Places) -> Any:
    _, bits, _, _, shape = _plan(places, x.shape, x.dtype)
    out, rank = planes.room(backend, x, shape, x.dtype, x.ndim > 3), len(places)
    if out.size:
        code = _CODES[bits.str[1:]]
        call = backend.kernel(pick_element, (code, "i64", "i64", "i64", code))
        rows = planes.rows(backend, [index[:, None] for index in places.operands[:3]])
        call(planes.whole(x.view(bits), rank), *rows, planes.each(out.view(bits), rank))
    return out


@functools.lru_cache(1024)
def _back_plan(places: Places, shape: tuple[int, ...], d: Any) -> tuple[Any, ...]:
    lead = shape[: len(shape) - len(places)]
    count, made, code = math.prod(lead), lead + places.size, from_numpy_dtype(d).code
    call = cpu.sized(math.prod(shape), add_planes, (code, *["i64"] * 4, code))
    return call, (count, *places.results), (count, *places.planes), made


@primitive(
    batch=folded(),
    meta=lambda x, words: (_shape(x, places_of(words), places_of(words).size), dtype_of(x)),
    name="pick_backward",
    grad={"x": lambda g, words: pick(g, words)},
    tangent=linear("x"),
)
@keeps_channels_last()
def pick_back(backend: Any, x: Any, words: tuple[Any, ...]) -> Any:
    """The adjoint of `pick`: elements are added up where they came from."""
    places = places_of(words)
    if backend is cpu and len(places) == 2 and is_channels_last(x):
        return channels_second(_added(channels_at_end(x), _beside(places, x.shape[1])))
    if backend is not cpu:
        return _add_each(backend, x, places)
    return _added(x, places)


def _added(x: Any, places: Places) -> Any:
    call, results, made, shape = _back_plan(places, x.shape, x.dtype)
    out = empty(shape, x.dtype)
    if out.size:
        call(x.reshape(results), *places.operands, out.reshape(made))
    return out


def _add_each(backend: Any, x: Any, places: Places) -> Any:
    shape = (*x.shape[: x.ndim - len(places)], *places.size)
    out, rank, code = backend.empty(shape, x.dtype), len(places), from_numpy_dtype(x.dtype).code
    if out.size:
        bounds, found = places.inverse
        call = backend.kernel(add_element, (code, *["i64"] * 6, code))
        tables = [*planes.rows(backend, bounds), *map(backend.constant, found)]
        call(planes.whole(x, rank), *tables, planes.each(out, rank))
    return out
