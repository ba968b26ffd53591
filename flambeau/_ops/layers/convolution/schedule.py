"""Schedules of convolutions whose channels lie side by side: how work is cut, and the calls of kernels that do it.

Some positions at a time are dealt with while they stay in the second cache. Threads share the positions, or the outputs
where there are many of these: each then has weights of its own, which stay in its cache too.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ...._backend.copies import rows_of
from ...._backend.cpu import native_call, start_of
from ...._core import allocation
from ...._core.allocation import empty
from ...._kernel.images import lanes as kernels
from ...._kernel.loops.ufunc import splitting
from ...._kernel.render.tiles import lanes
from ...._kernel.threads import pool
from ..channels import is_channels_last
from .description import Conv, Ints

_BYTES = 1 << 19  # of what products are made from and of the products, dealt with at a time: half a second cache
_WHOLE_BYTES = 1 << 23  # of what products are made from, up to which it is made once for several slices of outputs
_WEIGHT_BYTES = 1 << 21  # of weights that a thread has at a time
_FEWEST = 24  # positions of a block, so that a register tile is filled
_MOST_BLOCKS = 512  # in one schedule
_POSITIONS = 64  # that a block has about
_LINE = 16  # elements that places in memory are multiples of


class Block(NamedTuple):
    """Positions that are dealt with together: images, and rows of positions of each."""

    image: int
    images: int
    row: int
    rows: int


def dense(x: Any) -> Any:
    """Images in planes one after the other; all cores bring channels that lie side by side into them."""
    if x.flags.c_contiguous or x.shape[1] % lanes("f32") or not is_channels_last(x):
        return rows_of(x)
    images, channels, positions = len(x), x.shape[1], math.prod(x.shape[2:])
    out = empty(x.shape, x.dtype)
    given, made = x.transpose(0, 2, 3, 1).reshape(images, -1), out.reshape(images, channels, positions)
    splitting(kernels.from_lanes("f32"))(given, np.arange(positions) * (4 * channels), made)
    return out


def parts(conv: Conv, positions: int) -> Iterator[tuple[slice, Conv]]:
    """Ranges of images, of so many positions each, that one schedule deals with, and their convolutions."""
    step = max(1, _MOST_BLOCKS // max(1, positions // _POSITIONS))
    for start in range(0, conv.images, step):
        count = min(conv.images - start, step)
        yield slice(start, start + count), conv._replace(images=count)


class Step(NamedTuple):
    """Some calls, (ufunc, operands) each, and by how many bytes addresses in each operand of the schedule are moved."""

    calls: list[Any]
    shifts: Ints | None = None


class Schedule(ABC):
    """Calls of kernels for some operands, in rows that threads take. The constructor makes the rows of each phase."""

    down: int  # rows of images from one row of windows to the next
    by_row = False  # whether calls differ from row to row
    keeps = False  # whether a block that is the only one is brought into its form once for all slices of the outputs
    phases: list[list[list[Step]]]

    def __init__(self, conv: Conv, outputs: int, grid: Ints, operands: list[Any]):
        self.conv, self.outputs, self.positions, self.operands = conv, outputs, grid, operands
        self.tables: dict[Any, Any] = {}  # that calls point to
        self.kinds: dict[Any, tuple[list[Any], Ints]] = {}

    @staticmethod
    @abstractmethod
    def shapes(conv: Conv) -> list[Ints]:
        """Of the operands."""

    # -- sizes -------------------------------------------------------------------------------------------------------

    def cut(self, weights: int, given: int, made: int) -> None:
        """Parts of the positions and of the outputs, `ranges` and `slices`; jobs are all pairs of them.

        There are so many weights of an output, elements that they are multiplied with at a position, and products of
        an output there.
        """
        conv, columns = self.conv, kernels.columns("f32")
        panels = -(-self.outputs // columns)
        positions = conv.images * math.prod(self.positions)
        self.panels, self.ranges, least = panels, 1, math.inf
        for wide in range(1, panels + 1):  # panels of a slice
            if wide > 1 and 4 * weights * wide * columns > _WEIGHT_BYTES:
                break
            slices, outputs = -(-panels // wide), wide * columns
            ranges = max(1, conv.cores // slices)
            # in about cycles: what is done once, and for each position
            each = 0.3 * (given + made * outputs) + weights * outputs / 16
            cost = -(-slices * ranges // conv.cores) * (0.75 * weights * outputs + positions / ranges * each)
            if cost < least:
                self.panels, self.ranges, least = wide, ranges, cost
        self.wide = self.panels * columns
        self.slices = -(-panels // self.panels)
        self.made = kernels.pitch("f32", self.wide)
        most = max(_BYTES // (4 * (given + made * self.made)), _FEWEST)
        if self.keeps and self.slices * self.ranges > conv.cores and 4 * given * positions <= _WHOLE_BYTES:
            most = positions
        self.blocks = _blocks(conv.images, self.positions, most, self.ranges)
        self.ranges = min(self.ranges, len(self.blocks))
        self.jobs = self.ranges * self.slices
        self.threads = min(self.jobs, conv.cores)  # each has memory for one job at a time

    def outputs_of(self, number: int) -> slice:
        return slice(number * self.wide, min((number + 1) * self.wide, self.outputs))

    def blocks_of(self, number: int) -> list[Block]:
        count = len(self.blocks)
        return self.blocks[count * number // self.ranges : count * (number + 1) // self.ranges]

    @property
    def most(self) -> Block:
        """As many images and rows as any block has."""
        return Block(0, max(b.images for b in self.blocks), 0, max(b.rows for b in self.blocks))

    def lay(self, *lengths: int) -> None:
        """Parts of a job's memory, of so many elements; they begin at `at`."""
        self.at = np.cumsum([0, *map(_line, lengths)]).tolist()

    # -- operands ----------------------------------------------------------------------------------------------------

    def table(self, key: Any, make: Callable[[], Any]) -> Any:
        """Numbers that calls point to, which stay as they are."""
        if key not in self.tables:
            self.tables[key] = made = np.asarray(make())
            made.flags.writeable = False
        return self.tables[key]

    def places(self, width: int, pitch: int, first: int, count: int, step: int) -> Any:
        """Where each of so many positions of rows goes, in bytes: rows are `pitch` positions of `step` elements apart."""

        def make() -> Any:
            p = np.arange(count)
            return (first + (p // width) * pitch + p % width) * (4 * step)

        return self.table((width, pitch, first, count, step), make)

    def grid(self, rows: int) -> Any:
        """An array that only says how many positions a block has."""
        return self.table(rows, lambda: np.empty((rows, self.positions[1]), np.int8))

    # -- calls -------------------------------------------------------------------------------------------------------

    def bring(self, planes: Any, block: Block, rows: slice, at: Ints, area: Ints, pitch: int, room: Any) -> Any:
        """Rows of the planes of a block's images into lanes, at the beginning of a job's memory: the call, and what it
        makes, (images, *area, pitch). Rows begin `at` a place in the area; zeros are around them."""
        height, across = area
        source = flat(planes[block.image : block.image + block.images, :, rows])
        width = planes.shape[3]
        if (source.shape[2] and at[0] + source.shape[2] // width > height) or at[1] + width > across:
            raise RuntimeError("convolution: rows would reach beyond their block")
        places = self.places(width, across, at[0] * across + at[1], source.shape[2], pitch)
        one = height * across * pitch
        given = view(room, 0, (block.images, one), (one, 1))
        return (kernels.to_lanes("f32"), [source, places, given]), given.reshape(block.images, height, across, pitch)

    def bring_windows(self, x: Any, block: Block, room: Any, pitch: int) -> Any:
        """`bring` for the rows of images that windows of a block cover."""
        first, rows = self.rows_under(block)
        place = rows.start - first, self.conv.padding[1]
        return self.bring(x, block, rows, place, self.area(block.rows), pitch, room)

    def rows_under(self, block: Block) -> tuple[int, slice]:
        """The first row of images, with those above them, that windows of a block cover, and those that exist."""
        first = self.down * block.row - self.conv.padding[0]
        low = min(max(first, 0), self.conv.size[0])
        return first, slice(low, max(low, min(first + self.area(block.rows)[0], self.conv.size[0])))

    def alike(self, kind: tuple[Any, ...], block: Block, order: str, build: Any) -> Step:
        """A block's calls. Blocks of one kind whose rows lie alike have the same but for addresses in images ("x") and
        results ("y"), as the `order` of operands says."""
        conv, (first, given), made = self.conv, self.rows_under(block), self.rows_of(block)
        image = conv.size[1] * (block.image * conv.inputs * conv.size[0] + given.start)
        result = conv.counts[1] * (block.image * conv.outputs * conv.counts[0] + made.start)
        origin = tuple(4 * {"x": image, "y": result}.get(letter, 0) for letter in order)
        key = (*kind, block.images, block.rows, given.start - first, given.stop - given.start, made.stop - made.start)
        if key not in self.kinds:
            self.kinds[key] = build(), origin
        calls, other = self.kinds[key]
        return Step(calls, tuple(a - b for a, b in zip(origin, other)))

    def deal(
        self, order: str, build: Callable[..., list[Any]], before: Callable[..., list[Any]] | None = None,
        sums: Callable[..., list[Any]] | None = None,
    ) -> None:  # fmt: skip
        """Deals jobs to threads, each with channels and memory of its own: what comes `before` its blocks, then what is to
        be built for each, (block, channels, memory, job, number). If these make `sums`, those are written to the last operand at
        the end: by the job that has made all of them, or by all threads when all jobs are done."""
        apart = sums is not None and self.ranges > 1
        out, room = (self.operands[-1], np.empty((self.jobs if apart else self.threads, self.at[-1]), "f4"))
        rows: list[list[Step]] = [[] for _ in range(self.threads)]
        for job in range(self.jobs):
            channels, row, memory = self.outputs_of(job // self.ranges), rows[job % len(rows)], room[job % len(room)]
            if before is not None:
                row.append(Step(before(channels, memory)))
            for number, block in enumerate(self.blocks_of(job % self.ranges)):
                given = functools.partial(build, block, channels, memory, job, number)
                row.append(self.alike((job, number > 0, self.by_row and block.row), block, order, given))
            if sums is not None and not apart:
                row.append(Step(sums(memory[None], memory, out[channels], 0)))
        self.phases, self.operands = [rows], [*self.operands, room]
        if sums is None or not apart:
            return
        shares: list[list[Any]] = [[] for _ in rows]
        for n, number in product(range(self.slices), range(self.threads)):
            made, parts = out[self.outputs_of(n)], room[n * self.ranges : (n + 1) * self.ranges]
            low, high = (len(made) * i // self.threads for i in (number, number + 1))
            shares[number] += sums(parts, room[number], made[low:high], low)
        self.phases.append([[Step(calls)] for calls in shares])

    @abstractmethod
    def rows_of(self, block: Block) -> slice:
        """Rows of results."""

    @abstractmethod
    def area(self, rows: int) -> Ints:
        """What windows of so many rows cover."""


def run(kind: Any, conv: Conv, operands: list[Any]) -> None:
    """All calls of a schedule of this kind, shared by the threads. Operands are dense and have the shapes of the kind."""
    shape, phases, cores, tables = _kept(kind, conv)
    room = empty(shape, operands[0].dtype)
    starts = np.array([start_of(a) for a in (*operands, room)])
    for calls in phases:
        calls.run(starts, cores, operands, tables)


@functools.lru_cache(256)
def _kept(kind: Any, conv: Conv) -> tuple[Ints, list[Calls], int, Any]:
    """(shape of the workspace, phases, threads, what calls point to) of a schedule for operands that are only looked at."""
    made = kind(conv, [np.empty(shape, "f4") for shape in kind.shapes(conv)])
    phases = [Calls(rows, made.operands) for rows in made.phases]
    return made.operands[-1].shape, phases, made.threads, made.tables


class Calls:
    """Rows of calls in the pool's words; those that are addresses in an operand are relative to where it begins."""

    def __init__(self, rows: list[list[Step]], operands: list[Any]):
        self.starts = [start_of(a) for a in operands]
        self.ends = [s + a.nbytes for s, a in zip(self.starts, operands)]
        self.known: dict[int, list[tuple[pool.Call, list[int]]]] = {}  # by steps' calls
        found = [[call for step in row for call in self._moved(step)] for row in rows]
        longest = max(map(len, found))
        idle: tuple[pool.Call, list[int]] = (0, [], [], []), []
        whole = [row + [idle] * (longest - len(row)) for row in found]
        self.words = np.array(pool.sequences([[call for call, _ in row] for row in whole]))
        width = int(self.words[2])
        places = [
            (pool.HEADER + n * width + 1 + k, owner)
            for n, (_, owners) in enumerate(call for row in whole for call in row)
            for k, owner in enumerate(owners)
            if owner >= 0
        ]
        self.where, self.which = np.array(places).T
        self.words[self.where] -= np.array(self.starts)[self.which]

    def _moved(self, step: Step) -> list[tuple[pool.Call, list[int]]]:
        """The pool's descriptions of a step's calls, and to which operand of the schedule each address belongs (or -1)."""
        found = self.known.get(id(step.calls))
        if found is None:
            calls = [described(*call) for call in step.calls]
            found = self.known[id(step.calls)] = [(call, [*map(self._owner, call[1])]) for call in calls]
        shifts = step.shifts
        if shifts is None or not any(shifts):
            return found
        return [
            ((call[0], [a + shifts[o] if o >= 0 else a for a, o in zip(call[1], owners)], *call[2:]), owners)
            for call, owners in found
        ]

    def _owner(self, address: int) -> int:
        return next((i for i, (s, e) in enumerate(zip(self.starts, self.ends)) if s <= address < e), -1)

    def run(self, starts: Any, cores: int, operands: Any, tables: Any) -> None:
        """`starts` are the addresses of the operands; other addresses are in tables."""
        words = self.words.copy()
        words[self.where] += starts[self.which]
        places, kept = self.where, None
        if allocation.watcher is not None:  # who needs to know which operands are others at each call
            fixed = [i for i, a in enumerate(operands) if not a.flags.writeable and a.__class__ is np.ndarray]
            places, kept = places[~np.isin(self.which, fixed)], ([operands[i] for i in fixed], tables)
        pool.run_sequences(start_of(words), cores, places, kept)


def described(call: Any, operands: list[Any]) -> pool.Call:
    """A call in the pool's words."""
    found = native_call(call, operands)
    if found is None:
        raise RuntimeError(f"convolution: operands do not fit {call}")
    return found


def _blocks(images: int, positions: Ints, most: int, ranges: int) -> list[Block]:
    """Several images if they are small, otherwise some rows of positions; as equal as may be."""
    height, width = positions
    if height * width <= most:
        step = min(most // (height * width), -(-images // ranges))
        count = -(-images // step)
        return [Block(a, b - a, 0, height) for a, b in pairwise(images * i // count for i in range(count + 1))]
    count = -(-height // max(1, most // width))
    rows = [height * i // count for i in range(count + 1)]
    return [Block(i, 1, a, b - a) for i in range(images) for a, b in pairwise(rows)]


def _line(length: int) -> int:
    return -(-length // _LINE) * _LINE


def view(room: Any, at: int, shape: Ints, steps: Ints) -> Any:
    """An array in a job's memory, with steps in elements."""
    if at + sum((n - 1) * s for n, s in zip(shape, steps)) >= room.size:
        raise RuntimeError("convolution: a block would reach beyond its memory")
    return as_strided(room[at:], shape, tuple(4 * s for s in steps))


def flat(planes: Any) -> Any:
    """(images, channels, rows, columns) of whole rows as (images, channels, positions)."""
    shape = planes.shape
    return as_strided(planes, (*shape[:2], shape[2] * shape[3]), (*planes.strides[:2], 4))
