"""Convolutions of CPU arrays with windows of 3x3 and a step of one, by Winograd's transforms of tiles.

Some tiles at a time are brought into a form in which channels lie side by side, transformed, multiplied and brought
back while they stay in the second cache.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from .._backend.cpu import cpu
from .._core.allocation import empty
from .._kernel import lanes as kernels
from .._kernel.conv import lanes, tile_rows
from .._kernel.winograd import (
    COORDINATES,
    join_tiles,
    join_windows,
    spread_gradients,
    spread_tiles,
    spread_windows,
)
from .conv_arrays import Ints
from .conv_plans import Block, Form, Plan, Step, dense, flat, form_of, parts, view

_CHANNELS = 16  # on both sides, from which sparing products makes the transforms good
_TILES = 16  # in all images, from which transforming the weights pays
_INPUTS = 128  # whose windows are transformed at a time
_OUTPUTS = 16  # whose sums are made into windows at a time
_WINDOW = 9  # elements
_LINE = 16  # elements, so that coordinates do not lie a power of two apart


def suits(
    x: Sequence[int], weight: Sequence[int], d: Any, stride: Ints, dilation: Ints, groups: int, counts: Ints
) -> bool:
    """Whether a convolution has the right form, and enough channels and tiles."""
    return (
        tuple(weight[2:]) == (3, 3) and groups == 1 and stride == dilation == (1, 1) and d == np.float32
        and min(weight[0], weight[1]) >= _CHANNELS and min(counts) > 1
        and x[0] * ((counts[0] + 1) // 2) * ((counts[1] + 1) // 2) >= _TILES
    )  # fmt: skip


def convolve(x: Any, weight: Any, bias: Any, padding: Ints, counts: Ints, turned: bool = False) -> Any:
    """Windows of 3x3 of the padded images times the weights (outputs, inputs, 3, 3).

    `turned` weights are (inputs, outputs, 3, 3), and their windows are read backwards.
    """
    x, weight = dense(x), np.ascontiguousarray(weight)
    outputs = weight.shape[1] if turned else weight.shape[0]
    out = empty((len(x), outputs, *counts), x.dtype)
    for part in parts(len(x), math.prod(counts) // 4):
        plan = _products(_form(x[part], outputs, padding, counts), turned)
        level = np.zeros(plan.slices * plan.wide, x.dtype)
        if bias is not None:
            level[:outputs] = bias
        plan.run([x[part], weight, level, out[part]])
    return out


def weight_sums(x: Any, g: Any, padding: Ints) -> Any:
    """What weights (outputs, inputs, 3, 3) get: windows of the padded images times g, summed over all positions."""
    x, g = dense(x), dense(g)
    out = empty((g.shape[1], x.shape[1], 3, 3), x.dtype)
    for part in parts(len(x), math.prod(g.shape[2:]) // 4):
        made = out if part.start == 0 else np.empty_like(out)
        _sums(_form(x[part], g.shape[1], padding, g.shape[2:])).run([x[part], g[part], made])
        if made is not out:
            out += made
    return out


def _form(x: Any, outputs: int, padding: Ints, counts: Sequence[int]) -> Form:
    return form_of(x, outputs, (3, 3), (1, 1), padding, (1, 1), counts)


@functools.lru_cache(64)
def _products(form: Form, turned: bool) -> _Products:
    return _Products(form, turned)


@functools.lru_cache(64)
def _sums(form: Form) -> _Sums:
    return _Sums(form)


class _Tiles(Plan):
    """What both directions share: positions are tiles of 2x2 results."""

    down = 2

    def __init__(self, form: Form):
        super().__init__(form, form.outputs, ((form.counts[0] + 1) // 2, (form.counts[1] + 1) // 2))
        self.pitch = kernels.pitch("f32", form.inputs)
        self.cut(COORDINATES * form.inputs, COORDINATES * self.pitch, COORDINATES)
        most = self.most
        tiles = most.images * most.rows * self.positions[1]
        self.step, self.made_step = tiles * self.pitch + _LINE, tiles * self.made + _LINE
        self.held = max(
            most.images * math.prod(self.area(most.rows)) * self.pitch, 4 * tiles * self.made,
            _WINDOW * max(self.pitch, self.made),
        )  # fmt: skip

    def area(self, rows: int) -> Ints:
        return 2 * rows + 2, 2 * self.positions[1] + 2

    def again(self, job: int) -> bool:
        """Whether a thread has the coordinates of a job's tiles already: those of all tiles, from another job."""
        return len(self.blocks) == 1 and job >= self.threads

    def spread(self, x: Any, block: Block, room: Any, again: bool) -> tuple[list[Any], Any]:
        """Two calls that make the coordinates of a block's tiles, if need be, and an array of all of them."""
        bring, given = self.bring_windows(x, block, room, self.pitch)
        images, one, pitch = block.images, block.rows * self.positions[1], self.pitch
        made = view(room, self.at[1], (images, COORDINATES, one, pitch), (one * pitch, self.step, pitch, 1))
        tiles = view(room, self.at[1], (COORDINATES, images * one, pitch), (self.step, pitch, 1))
        call = cpu.kernel(spread_tiles, ("f32", "i8", "f32"), lanes=lanes("f32"))
        return [] if again else [bring, (call, [given, self.grid(block.rows), made])], tiles

    def rows_of(self, block: Block) -> slice:
        return slice(2 * block.row, min(2 * (block.row + block.rows), self.form.counts[0]))


class _Products(_Tiles):
    """Tiles times weights. Each block takes five calls: rows of images are brought into lanes, transformed, multiplied,
    transformed back, and brought into planes."""

    def __init__(self, form: Form, turned: bool):
        super().__init__(form)
        self.weight_step = self.panels * form.inputs * kernels.columns("f32") + _LINE
        self.lay(self.held, *(COORDINATES * n for n in (self.step, self.made_step, self.weight_step)))
        x = np.empty((form.images, form.inputs, *form.size), "f4")
        weight = np.empty(((form.inputs, form.outputs) if turned else (form.outputs, form.inputs)) + (3, 3), "f4")
        level = np.empty(self.slices * self.wide, "f4")
        out = np.empty((form.images, form.outputs, *form.counts), "f4")
        room = np.empty((self.threads, self.at[-1]), "f4")
        windows = weight.swapaxes(0, 1) if turned else weight
        rows: list[list[Step]] = [[] for _ in room]
        for job in range(self.jobs):
            outputs, row, memory = self.outputs_of(job // self.ranges), rows[job % len(rows)], room[job % len(rows)]
            row.append(Step(self._weights(windows[outputs], memory, turned)))
            for block in self.blocks_of(job % self.ranges):
                given = block, x, level[outputs.start :], out[:, outputs], memory, self.again(job)
                row.append(self.alike((job,), block, "x  y ", functools.partial(self._block, *given)))
        self.keep([rows], [x, weight, level, out, room])

    def _weights(self, windows: Any, room: Any, turned: bool) -> list[Any]:
        """The coordinates of the windows of a slice, (coordinates, panels, inputs, columns); some inputs at a time,
        which are brought into lanes where images will be."""
        columns, inputs = kernels.columns("f32"), self.form.inputs
        made = view(room, self.at[3], (self.panels, COORDINATES, inputs, columns),
                     (inputs * columns, self.weight_step, columns, 1))  # fmt: skip
        rows, used = len(windows), -(-len(windows) // columns) * columns
        step = max(1, min(_INPUTS, self.at[1] // (_WINDOW * used)))
        call = cpu.kernel(spread_windows, ("f32", "f32"), lanes=lanes("f32"), turned=turned)
        calls = []
        for first in range(0, inputs, step):
            given = windows[:, first : first + step]
            count = given.shape[1]
            held = view(room, 0, (count, _WINDOW, used), (_WINDOW * used, used, 1))
            if turned:  # windows of an input lie side by side
                source = as_strided(given, (count, rows, _WINDOW), (*given.strides[1::-1], 4))
                target = held.reshape(count, -1)
            else:
                source = as_strided(given, (rows, count * _WINDOW), (given.strides[0], 4))
                target = held.reshape(-1)
            if used - rows < lanes("f32"):  # no lanes are left out, so that nothing needs to be zero
                target = target[..., :1]
            places = self.places(source.shape[-1], 0, 0, source.shape[-1], used)
            calls.append((kernels.to_lanes("f32"), [source, places, target]))
            for panel in range(used // columns):
                part = held[..., panel * columns : (panel + 1) * columns]
                calls.append((call, [part, made[panel, :, first : first + count]]))
        return calls

    def _block(self, block: Block, x: Any, level: Any, out: Any, room: Any, again: bool) -> list[Any]:
        images, rows, width, columns = block.images, block.rows, self.positions[1], kernels.columns("f32")
        one, inputs, panels = rows * width, self.form.inputs, -(-out.shape[1] // columns)
        used = panels * columns
        spread, tiles = self.spread(x, block, room, again)
        weights = view(room, self.at[3], (COORDINATES, panels, inputs, columns),
                        (self.weight_step, inputs * columns, columns, 1))  # fmt: skip
        steps = self.made_step, self.made, 1
        results = view(room, self.at[2], (COORDINATES, images * one, used), steps)
        joined = view(room, self.at[2], (images, COORDINATES, one, used), (one * self.made, *steps))
        made = view(room, 0, (images, 2 * rows, 2 * width, self.made),
                     (4 * one * self.made, 2 * width * self.made, self.made, 1))  # fmt: skip
        target = flat(out[block.image : block.image + images, :, self.rows_of(block)])
        places = self.places(self.form.counts[1], 2 * width, 0, target.shape[2], self.made)
        return [
            *spread,
            (kernels.position_products("f32", tile_rows(images * one)), [tiles, weights, results]),
            (cpu.kernel(join_tiles, ("f32", "f32", "i8", "f32"), lanes=lanes("f32")),
             [joined, level[:used], self.grid(rows), made[..., :used]]),
            (kernels.from_lanes("f32"), [made.reshape(images, -1), places, target]),
        ]  # fmt: skip


class _Sums(_Tiles):
    """Tiles times gradients, summed over tiles. Each block takes five calls: rows of images and gradients are brought
    into lanes and transformed, and multiplied. A job that has all tiles makes windows of its sums itself."""

    def __init__(self, form: Form):
        super().__init__(form)
        self.rows = tile_rows(self.wide)
        self.height = -(-self.wide // self.rows) * self.rows
        gradients = COORDINATES * self.made_step + self.height  # tiles at the edge read further
        self.lay(self.held, COORDINATES * self.step, gradients, COORDINATES * self.height * self.pitch)
        self.adds = [np.array(n) for n in range(2)]
        x = np.empty((form.images, form.inputs, *form.size), "f4")
        g = np.empty((form.images, form.outputs, *form.counts), "f4")
        out = np.empty((form.outputs, form.inputs, 3, 3), "f4")
        room = np.empty((self.threads if self.ranges == 1 else self.jobs, self.at[-1]), "f4")
        rows: list[list[Step]] = [[] for _ in range(self.threads)]
        for job in range(self.jobs):
            outputs, row, memory = self.outputs_of(job // self.ranges), rows[job % len(rows)], room[job % len(room)]
            for number, block in enumerate(self.blocks_of(job % self.ranges)):
                given = block, x, g[:, outputs], memory, self.adds[min(number, 1)], self.again(job)
                row.append(self.alike((job, number > 0), block, "xy  ", functools.partial(self._block, *given)))
            if self.ranges == 1:
                row.append(Step(self._windows(memory[None], memory, out[outputs])))
        phases = [rows]
        if self.ranges > 1:
            phases.append([[Step(self._share(n, room, out))] for n in range(self.threads)])
        self.keep(phases, [x, g, out, room])

    def _share(self, number: int, room: Any, out: Any) -> list[Any]:
        """A thread's calls that add up what jobs have made."""
        calls = []
        for n in range(self.slices):
            made, parts = out[self.outputs_of(n)], room[n * self.ranges : (n + 1) * self.ranges]
            low, high = (len(made) * i // self.threads for i in (number, number + 1))
            calls += self._windows(parts, room[number], made[low:high], low)
        return calls

    def _windows(self, parts: Any, room: Any, out: Any, first: int = 0) -> list[Any]:
        """The sums of some jobs, from the output `first` of their slice on, as windows."""
        pitch, inputs, calls = self.pitch, self.form.inputs, []
        step = max(1, min(_OUTPUTS, self.at[1] // (_WINDOW * pitch)))
        for start in range(0, len(out), step):
            made = out[start : start + step]
            begin = parts[:, self.at[3] + (first + start) * pitch :]
            given = as_strided(begin, (len(made), len(parts), COORDINATES, pitch),
                               (4 * pitch, parts.strides[0], 4 * self.height * pitch, 4))  # fmt: skip
            held = view(room, 0, (len(made), _WINDOW, pitch), (_WINDOW * pitch, pitch, 1))
            target = as_strided(made, (len(made), inputs, _WINDOW), (*made.strides[:2], 4))
            places = self.places(_WINDOW, 0, 0, _WINDOW, pitch)
            calls.append((cpu.kernel(join_windows, ("f32", "f32"), lanes=lanes("f32")), [given, held]))
            calls.append((kernels.from_lanes("f32"), [held.reshape(len(made), -1), places, target]))
        return calls

    def _block(self, block: Block, x: Any, g: Any, room: Any, adds: Any, again: bool) -> list[Any]:
        images, rows, width = block.images, block.rows, self.positions[1]
        one, outputs = rows * width, g.shape[1]
        spread, tiles = self.spread(x, block, room, again)
        bring, held = self.bring(g, block, self.rows_of(block), (0, 0), (2 * rows, 2 * width), self.made, room)
        steps_of = self.made_step, self.made, 1
        transformed = view(room, self.at[2], (images, COORDINATES, one, self.made), (one * self.made, *steps_of))
        gradients = view(room, self.at[2], (COORDINATES, images * one, self.made), steps_of)
        height = -(-outputs // self.rows) * self.rows
        sums = view(room, self.at[3], (COORDINATES, height, self.pitch), (self.height * self.pitch, self.pitch, 1))
        return [
            *spread,
            bring,
            (cpu.kernel(spread_gradients, ("f32", "i8", "f32"), lanes=lanes("f32")),
             [held, self.grid(rows), transformed]),
            (kernels.channel_sums("f32", self.rows), [gradients, tiles, adds, sums]),
        ]  # fmt: skip
