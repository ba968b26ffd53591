"""Convolutions of CPU arrays with any steps, whose images are brought into a form in which channels lie side by side.

The windows of some positions at a time are laid out as rows, which are runs of channels there, and multiplied with the
weights while they stay in the second cache. Gradients of images are made as such rows and added up.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from .._backend.cpu import cpu
from .._core.allocation import empty, zeros
from .._kernel import lanes as kernels
from .._kernel.columns import add_parts, set_all
from .._kernel.conv import lanes, tile_rows
from .conv_arrays import Ints
from .conv_plans import Block, Form, Plan, Step, dense, flat, form_of, parts, view

_INPUTS = 3  # from which windows in lanes are not mostly empty
_WEIGHTS = 1 << 19  # that stay in a core's cache
_OF_IMAGE = 1 << 20  # elements of an image in lanes
_IDLE = 1 << 22  # products in idle lanes, and
_IDLE_COPIES = 1 << 16  # copies of mostly empty vectors, that cost less than other ways' preparations


def suits(
    inputs: int, outputs: int, kernel: Sequence[int], d: Any, groups: int, size: Sequence[int], positions: int,
    turned: bool = False,
) -> bool:  # fmt: skip
    """Whether images have two dimensions and single precision, weights and images are not too large, and few lanes of
    results (which are inputs if `turned`) are idle."""
    if groups != 1 or len(kernel) != 2 or d != np.float32:
        return False
    window = math.prod(kernel)
    made, depth = (inputs, window * outputs) if turned else (outputs, window * inputs)
    idle = -made % kernels.columns("f32")
    return (
        window * inputs * outputs <= _WEIGHTS and math.prod(size) * kernels.pitch("f32", inputs) <= _OF_IMAGE
        and (idle <= made // 8 or positions * depth * idle <= _IDLE)
        and ((outputs if turned else inputs) >= _INPUTS or positions * window <= _IDLE_COPIES)
    )  # fmt: skip


def convolve(x: Any, weight: Any, bias: Any, stride: Ints, padding: Ints, dilation: Ints, counts: Ints) -> Any:
    """See `conv_arrays.convolve`; with a bias."""
    x, weight = dense(x), np.ascontiguousarray(weight)
    out = empty((len(x), len(weight), *counts), x.dtype)
    level = np.zeros(len(weight), x.dtype) if bias is None else np.ascontiguousarray(bias)
    for part in parts(len(x), math.prod(counts)):
        form = form_of(x[part], len(weight), weight.shape[2:], stride, padding, dilation, counts)
        _products(form).run([x[part], weight, level, out[part]])
    return out


def weight_sums(x: Any, g: Any, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints) -> Any:
    """See `conv_arrays.weight_sums`."""
    x, g = dense(x), dense(g)
    out = (empty if len(x) else zeros)((g.shape[1], x.shape[1], *kernel), x.dtype)
    for part in parts(len(x), math.prod(g.shape[2:])):
        made = out if part.start == 0 else np.empty_like(out)
        form = form_of(x[part], g.shape[1], kernel, stride, padding, dilation, g.shape[2:])
        _sums(form).run([x[part], g[part], made])
        if made is not out:
            out += made
    return out


def convolve_transposed(x: Any, weight: Any, bias: Any, stride: Ints, padding: Ints, dilation: Ints, size: Ints) -> Any:
    """See `conv_arrays.convolve_transposed`; with a bias."""
    x, weight = dense(x), np.ascontiguousarray(weight)
    out = empty((len(x), weight.shape[1], *size), x.dtype)
    for part in parts(len(x), math.prod(x.shape[2:])):
        form = form_of(out[part], len(weight), weight.shape[2:], stride, padding, dilation, x.shape[2:])
        _adjoint(form).run([x[part], weight, out[part]])
    if bias is not None:
        out += bias.reshape(-1, 1, 1)
    return out


@functools.lru_cache(64)
def _products(form: Form) -> _Products:
    return _Products(form)


@functools.lru_cache(64)
def _sums(form: Form) -> _Sums:
    return _Sums(form)


@functools.lru_cache(64)
def _adjoint(form: Form) -> _Adjoint:
    return _Adjoint(form)


class _Windows(Plan):
    """What all directions share: operands, and windows as rows."""

    def __init__(self, form: Form, outputs: int):
        super().__init__(form, outputs, form.counts)
        self.down, self.window = form.stride[0], math.prod(form.kernel)
        self.depth = self.window * form.inputs
        self.pitch = kernels.pitch("f32", form.inputs)
        self.row = kernels.pitch("f32", self.depth + max(1, -form.inputs % lanes("f32")))
        self.numbers = np.array([*form.stride, *form.dilation, form.inputs])
        self.shape_of_window = np.empty(form.kernel, np.int8)
        self.x = np.empty((form.images, form.inputs, *form.size), "f4")
        self.g = np.empty((form.images, form.outputs, *form.counts), "f4")
        self.weight = np.empty((form.outputs, form.inputs, *form.kernel), "f4")

    def area(self, rows: int) -> Ints:
        form = self.form
        height, across = (
            (n - 1) * s + (k - 1) * d + 1
            for n, s, k, d in zip((rows, form.counts[1]), form.stride, form.kernel, form.dilation)
        )
        return height, max(across, form.padding[1] + form.size[1])

    def gather(self, x: Any, block: Block, room: Any) -> tuple[list[Any], Any]:
        """Two calls that make the rows of a block's windows, and an array of them."""
        bring, given = self.bring_windows(x, block, room, self.pitch)
        images, one = block.images, block.rows * self.positions[1]
        rows = view(room, self.at[1], (images, one, self.row), (one * self.row, self.row, 1))
        return [
            bring,
            (kernels.gather_windows("f32"), [given, self.grid(block.rows), self.shape_of_window, self.numbers, rows]),
        ], (rows.reshape(images * one, self.row))

    def rows_of(self, block: Block) -> slice:
        return slice(block.row, block.row + block.rows)

    def keep(self, phases: list[list[list[Step]]], operands: list[Any]) -> None:
        super().keep(phases, operands)
        del self.x, self.g, self.weight


class _Products(_Windows):
    """Windows times weights. Each block takes four calls: rows of images are brought into lanes, windows are laid out,
    multiplied, and results brought into planes."""

    def __init__(self, form: Form):
        super().__init__(form, form.outputs)
        self.cut(self.depth + 1, self.row, 1)
        most = self.most
        positions = most.images * most.rows * self.positions[1]
        weights = self.panels * (self.depth + 1) * kernels.columns("f32")
        held = most.images * math.prod(self.area(most.rows)) * self.pitch
        self.lay(held, positions * self.row, positions * self.made, weights)
        level = np.empty(form.outputs, "f4")
        room = np.empty((self.threads, self.at[-1]), "f4")
        rows: list[list[Step]] = [[] for _ in room]
        for job in range(self.jobs):
            outputs, row, memory = self.outputs_of(job // self.ranges), rows[job % len(rows)], room[job % len(rows)]
            row.append(Step(self._weights(self.weight[outputs], level[outputs], memory)))
            for block in self.blocks_of(job % self.ranges):
                build = functools.partial(self._block, block, self.g[:, outputs], memory)
                row.append(self.alike((job,), block, "x  y ", build))
        self.keep([rows], [self.x, self.weight, level, self.g, room])

    def _weights(self, weight: Any, level: Any, room: Any) -> list[Any]:
        """Panels of the weights of a slice and of their levels, (panels, depth + 1, columns)."""
        columns, depth = kernels.columns("f32"), self.depth
        key = "weights"
        if key not in self.tables:  # elements of windows follow each other, and of each all inputs
            p = np.arange(depth)
            self.tables[key] = ((p % self.window) * self.form.inputs + p // self.window) * (4 * columns)
        calls = []
        for first in range(0, len(weight), columns):
            given, at = weight[first : first + columns], self.at[3] + (first // columns) * (depth + 1) * columns
            made = view(room, at, (depth + 1, columns), (columns, 1))
            target = made[0, :1] if columns - len(given) < lanes("f32") else made.reshape(-1)  # with zeros, if needed
            calls.append((kernels.to_lanes("f32"), [given.reshape(len(given), depth), self.tables[key], target]))
            last = level[first : first + columns]
            none = self.places(1, 0, 0, 1, columns)
            calls.append((kernels.to_lanes("f32"), [last[:, None], none, made[depth, :1]]))
        return calls

    def _block(self, block: Block, out: Any, room: Any) -> list[Any]:
        columns, panels = kernels.columns("f32"), -(-out.shape[1] // kernels.columns("f32"))
        one = block.rows * self.positions[1]
        gather, rows = self.gather(self.x, block, room)
        weights = view(room, self.at[3], (panels, self.depth + 1, columns), ((self.depth + 1) * columns, columns, 1))
        results = view(room, self.at[2], (len(rows), panels * columns), (self.made, 1))
        made = view(room, self.at[2], (block.images, one * self.made), (one * self.made, 1))
        target = flat(out[block.image : block.image + block.images, :, self.rows_of(block)])
        places = self.places(self.positions[1], self.positions[1], 0, one, self.made)
        return [
            *gather,
            (kernels.position_products("f32", tile_rows(len(rows))), [rows, weights, results]),
            (kernels.from_lanes("f32"), [made, places, target]),
        ]


class _Sums(_Windows):
    """Windows times gradients, summed over positions. Each block takes four calls: images are brought into lanes,
    windows laid out, gradients brought into lanes, and multiplied."""

    def __init__(self, form: Form):
        super().__init__(form, form.outputs)
        self.cut(self.row, self.row, 1)
        most = self.most
        positions = most.images * most.rows * self.positions[1]
        self.rows = tile_rows(self.wide)
        self.height = -(-self.wide // self.rows) * self.rows
        held = max(most.images * math.prod(self.area(most.rows)) * self.pitch, positions * self.made + self.height)
        self.lay(held, positions * self.row, 0, self.height * self.row)
        self.adds = [np.array(n) for n in range(2)]
        room = np.empty((self.threads if self.ranges == 1 else self.jobs, self.at[-1]), "f4")
        rows: list[list[Step]] = [[] for _ in range(self.threads)]
        for job in range(self.jobs):
            outputs, row, memory = self.outputs_of(job // self.ranges), rows[job % len(rows)], room[job % len(room)]
            for number, block in enumerate(self.blocks_of(job % self.ranges)):
                build = functools.partial(self._block, block, self.g[:, outputs], memory, self.adds[min(number, 1)])
                row.append(self.alike((job, number > 0), block, "xy  ", build))
            if self.ranges == 1:
                row.append(Step(self._weights(memory[None], memory, self.weight[outputs], 0)))
        phases = [rows]
        if self.ranges > 1:
            phases.append([[Step(self._share(n, room))] for n in range(self.threads)])
        self.keep(phases, [self.x, self.g, self.weight, room])

    def _share(self, number: int, room: Any) -> list[Any]:
        """A thread's calls that add up what jobs have made."""
        calls = []
        for n in range(self.slices):
            made, given = self.weight[self.outputs_of(n)], room[n * self.ranges : (n + 1) * self.ranges]
            low, high = (len(made) * i // self.threads for i in (number, number + 1))
            calls += self._weights(given, room[number], made[low:high], low)
        return calls

    def _weights(self, given: Any, room: Any, out: Any, first: int) -> list[Any]:
        """The sums of some jobs, from the output `first` of their slice on, as weights."""
        if not len(out):
            return []
        begin = given[:, self.at[3] + first * self.row :]
        sums = as_strided(begin, (len(out), len(given), self.row), (4 * self.row, given.strides[0], 4))
        total = sums[:, 0]
        calls = []
        if len(given) > 1:  # where nobody needs windows any more, if there is room
            rows = max(1, self.at[2] // self.row)
            if rows < len(out):
                return [c for a in range(0, len(out), rows)
                        for c in self._weights(given, room, out[a : a + rows], first + a)]  # fmt: skip
            total = view(room, 0, (len(out), self.row), (self.row, 1))
            calls.append((cpu.kernel(add_parts, ("f32", "f32")), [sums, total]))
        if self.window == 1:
            target = out.reshape(len(out), self.depth)
            calls.append((cpu.kernel(add_parts, ("f32", "f32")), [total[:, None, : self.depth], target]))
        else:
            target = as_strided(out, (len(out), self.form.inputs, self.window), (*out.strides[:2], 4))
            places = self.places(self.window, 0, 0, self.window, self.form.inputs)
            calls.append((kernels.from_lanes("f32"), [total, places, target]))
        return calls

    def _block(self, block: Block, g: Any, room: Any, adds: Any) -> list[Any]:
        gather, rows = self.gather(self.x, block, room)
        area = block.rows, self.positions[1]
        bring, held = self.bring(g, block, self.rows_of(block), (0, 0), area, self.made, room)
        gradients = held.reshape(len(rows), self.made)
        height = -(-g.shape[1] // self.rows) * self.rows
        sums = view(room, self.at[3], (height, self.row), (self.row, 1))
        return [*gather, bring, (kernels.channel_sums("f32", self.rows), [gradients, rows, adds, sums])]


class _Adjoint(_Windows):
    """Gradients times weights, added up in windows; what is made are channels of images. Each block takes three calls:
    gradients are brought into lanes, multiplied, and added up; an image is brought into planes when it is complete."""

    def __init__(self, form: Form):
        super().__init__(form, form.inputs)
        self.given = kernels.pitch("f32", form.outputs)
        self.cut(self.window * form.outputs, self.given, self.window)
        self.ranges = min(self.ranges, form.images)
        self.jobs = self.ranges * self.slices
        self.threads = min(self.jobs, form.cores)
        self.step = self.window * self.wide  # products of a position
        most = self.most
        positions = most.images * most.rows * self.positions[1]
        height, self.across = self.area(form.counts[0])
        self.tall = max(height, form.padding[0] + form.size[0])
        weights = self.window * self.panels * form.outputs * kernels.columns("f32")
        images = most.images * self.tall * self.across * self.wide
        self.lay(positions * self.given, positions * self.step, images, weights)
        self.zero = np.zeros((), "f4")
        room = np.empty((self.threads, self.at[-1]), "f4")
        rows: list[list[Step]] = [[] for _ in room]
        for job in range(self.jobs):
            inputs, row, memory = self.outputs_of(job // self.ranges), rows[job % len(rows)], room[job % len(rows)]
            row.append(Step(self._weights(self.weight[:, inputs], memory)))
            for block in self.blocks_of(job % self.ranges):
                build = functools.partial(self._block, block, self.x[:, inputs], memory)
                row.append(self.alike((job, block.row), block, "y x ", build))
        self.keep([rows], [self.g, self.weight, self.x, room])

    def blocks_of(self, number: int) -> list[Block]:
        """Whole images: their rows follow each other."""
        first, last = (self.form.images * n // self.ranges for n in (number, number + 1))
        return [b for b in self.blocks if first <= b.image < last]

    def _weights(self, weight: Any, room: Any) -> list[Any]:
        """Panels of the weights of a slice, (elements of the window, panels, outputs, columns)."""
        columns, outputs = kernels.columns("f32"), self.form.outputs
        places = self.places(self.window, 0, 0, self.window, self.panels * outputs * columns)
        calls: list[Any] = []
        if -weight.shape[1] % columns >= lanes("f32"):  # some lanes are left out
            whole = view(room, self.at[3], (self.window * self.panels * outputs * columns,), (1,))
            calls.append((cpu.kernel(set_all, ("f32", "f32")), [self.zero, whole]))
        for panel in range(-(-weight.shape[1] // columns)):
            given = weight[:, panel * columns : (panel + 1) * columns]
            source = as_strided(given, (outputs, given.shape[1], self.window), (*given.strides[:2], 4))
            made = view(room, self.at[3] + panel * outputs * columns, (outputs, 1), (columns, 1))
            calls.append((kernels.to_lanes("f32"), [source, places, made]))
        return calls

    def _block(self, block: Block, out: Any, room: Any) -> list[Any]:
        form, columns, images = self.form, kernels.columns("f32"), block.images
        width, one = self.positions[1], block.rows * self.positions[1]
        rows = slice(block.row, block.row + block.rows)
        bring, held = self.bring(self.g, block, rows, (0, 0), (block.rows, width), self.given, room)
        panels = self.window * self.panels
        weights = view(room, self.at[3], (panels, form.outputs, columns), (form.outputs * columns, columns, 1))
        products = view(room, self.at[1], (images * one, self.step), (self.step, 1))
        whole = self.tall * self.across * self.wide
        made = view(room, self.at[2], (images, self.tall, self.across, self.wide),
                    (whole, self.across * self.wide, self.wide, 1))  # fmt: skip
        target = made[:, block.row * form.stride[0] :]
        multiply = kernels.position_products("f32", tile_rows(images * one))
        shapes = self.grid(block.rows), self.shape_of_window, self.numbers
        calls = [
            bring,
            (multiply, [held.reshape(-1, self.given), weights, products]),
            (kernels.scatter_windows("f32"), [products.reshape(images, one, self.step), *shapes, target]),
        ]
        if block.row == 0:
            calls.insert(0, (cpu.kernel(set_all, ("f32", "f32")), [self.zero, made.reshape(-1)]))
        if block.row + block.rows == self.positions[0]:
            planes = flat(out[block.image : block.image + images])
            first = form.padding[0] * self.across + form.padding[1]
            places = self.places(form.size[1], self.across, first, planes.shape[2], self.wide)
            calls.append((kernels.from_lanes("f32"), [made.reshape(images, -1), places, planes]))
        return calls
