"""Convolutions of CPU arrays with any steps, whose images are brought into a form in which channels lie side by side.

The windows of some positions at a time, which are runs of channels there, are multiplied with the weights while they stay in the
second cache: where images lie, or, if runs or rows of results are short, laid out as rows. Gradients of images are made as such rows
and added up, or, in steps of one, by windows over the results.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ...._backend.copies import rows_of
from ...._backend.cpu import cpu
from ...._core.allocation import empty, zeros
from ...._kernel.images import lanes as kernels
from ...._kernel.images.columns import add_parts, set_all
from ...._kernel.render import tiles
from ...._kernel.render.tiles import lanes
from .description import Conv, Ints, nothing
from .planes import add_bias
from .schedule import Block, Schedule, dense, flat, parts, run, view

_INPUTS = 3  # from which windows in lanes are not mostly empty
_WEIGHTS = 1 << 19  # that stay in a core's cache
_OF_IMAGE = (
    1 << 21
)  # elements of an image in lanes; of one that is made half as many, as a thread has all of it at once
_LONG, _WIDE = 16, 6  # channels and positions of a row from which windows are read where images lie
_IDLE_COPIES = 1 << 16  # copies of mostly empty vectors that cost less than other ways' preparations


def suits(conv: Conv, role: str) -> bool:
    """Whether images have two dimensions and single precision, and weights and images are not too large. Where many lanes of what is made
    are idle, other ways take longer yet to lay out windows."""
    if not conv.is_large or conv.groups > 1 or len(conv.kernel) != 2 or conv.dtype != np.float32:
        return False
    given = conv.outputs if role == "adjoint" else conv.inputs
    return (
        conv.window * conv.inputs * conv.outputs <= _WEIGHTS
        and math.prod(conv.size) * kernels.pitch("f32", conv.inputs)
        <= (_OF_IMAGE >> 1 if role == "adjoint" else _OF_IMAGE)
        and (given >= _INPUTS or conv.images * conv.positions * conv.window <= _IDLE_COPIES)
    )


def _reads_in_place(conv: Conv) -> bool:
    """Whether windows are multiplied where images lie, as their rows are long runs there and tiles lie within rows of results."""
    return conv.inputs >= _LONG and conv.counts[1] >= _WIDE


def products(conv: Conv, x: Any, weight: Any, bias: Any) -> Any:
    """Products of all windows of the images with the weight."""
    return _convolve(conv, x, weight, bias)


def _convolve(conv: Conv, x: Any, weight: Any, bias: Any) -> Any:
    x, weight, out = dense(x), rows_of(weight), empty(conv.result_shape, x.dtype)
    level = nothing(conv.outputs, x.dtype) if bias is None else rows_of(bias)
    for some, part in parts(conv, conv.positions):
        run(_Products, part, [x[some], weight, level, out[some]])
    return out


def adjoint(conv: Conv, g: Any, weight: Any, bias: Any) -> Any:
    """Results times the weight, added up over windows of images; in steps of one a convolution of results by windows that are read
    backwards, if windows need not be laid out."""
    if max(conv.stride) == 1 and min(conv.around) >= 0:
        turned = conv._replace(
            inputs=conv.outputs, outputs=conv.inputs, size=conv.counts, counts=conv.size, padding=conv.around
        )
        if _reads_in_place(turned):
            return _convolve(turned, g, weight[:, :, ::-1, ::-1].swapaxes(0, 1), bias)
    g, weight, out = dense(g), rows_of(weight), empty(conv.image_shape, g.dtype)
    for some, part in parts(conv, conv.positions):
        run(_Adjoint, part, [g[some], weight, out[some]])
    add_bias(out, bias)
    return out


def sums(conv: Conv, x: Any, g: Any) -> Any:
    """Windows of images times results, summed over all images and positions."""
    x, g, out = dense(x), dense(g), (empty if conv.images else zeros)(conv.weight_shape, x.dtype)
    for some, part in parts(conv, conv.positions):
        made = out if some.start == 0 else np.empty_like(out)
        run(_Sums, part, [x[some], g[some], made])
        if made is not out:
            out += made
    return out


class _Windows(Schedule):
    """What all directions share: windows as rows."""

    def __init__(self, conv: Conv, outputs: int, operands: list[Any]):
        super().__init__(conv, outputs, conv.counts, operands)
        self.down, self.window, self.depth = conv.stride[0], conv.window, conv.depth
        self.pitch = kernels.pitch("f32", conv.inputs)
        self.row = kernels.pitch("f32", self.depth + max(1, -conv.inputs % lanes("f32")))
        self.numbers = self.table("numbers", lambda: [*conv.stride, *conv.dilation, conv.inputs])
        self.shape_of_window = self.table("window", lambda: np.empty(conv.kernel, np.int8))

    def area(self, rows: int) -> Ints:
        conv = self.conv
        height, across = (
            (n - 1) * s + (k - 1) * d + 1
            for n, s, k, d in zip((rows, conv.counts[1]), conv.stride, conv.kernel, conv.dilation)
        )
        return height, max(across, conv.padding[1] + conv.size[1])

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


class _Products(_Windows):
    """Windows times weights. Each block takes a few calls: rows of images are brought into lanes, windows are laid out (or read in place),
    multiplied, and results brought into planes."""

    @staticmethod
    def shapes(conv: Conv) -> list[Ints]:
        return [conv.image_shape, conv.weight_shape, (conv.outputs,), conv.result_shape]

    def __init__(self, conv: Conv, operands: list[Any]):
        super().__init__(conv, conv.outputs, operands)
        self.in_place = _reads_in_place(conv)
        self.cut(self.depth + 1, math.prod(conv.stride) * self.pitch if self.in_place else self.row, 1)
        most = self.most
        positions = most.images * most.rows * self.positions[1]
        weights = self.panels * (self.depth + 1) * kernels.columns("f32")
        held = most.images * math.prod(self.area(most.rows)) * self.pitch
        self.lay(held, 0 if self.in_place else positions * self.row, positions * self.made, weights)
        self.deal("x  y ", self._block, self._weights)

    def _weights(self, outputs: slice, room: Any) -> list[Any]:
        """Panels of the weights of a slice and of their levels, (panels, depth + 1, columns)."""
        weight, level = (a[outputs] for a in self.operands[1:3])
        columns, depth = kernels.columns("f32"), self.depth
        p = np.arange(depth)  # elements of windows follow each other, and of each all inputs
        order = self.table("weights", lambda: ((p % self.window) * self.conv.inputs + p // self.window) * (4 * columns))
        calls = []
        for first in range(0, len(weight), columns):
            given, at = weight[first : first + columns], self.at[3] + (first // columns) * (depth + 1) * columns
            made = view(room, at, (depth + 1, columns), (columns, 1))
            target = made[0, :1] if columns - len(given) < lanes("f32") else made.reshape(-1)  # with zeros, if needed
            calls.append((kernels.to_lanes("f32"), [given.reshape(len(given), depth), order, target]))
            last = level[first : first + columns]
            none = self.places(1, 0, 0, 1, columns)
            calls.append((kernels.to_lanes("f32"), [last[:, None], none, made[depth, :1]]))
        return calls

    def _block(self, block: Block, outputs: slice, room: Any, job: int, number: int) -> list[Any]:
        x, out = self.operands[0], self.operands[3][:, outputs]
        columns, panels = kernels.columns("f32"), -(-out.shape[1] // kernels.columns("f32"))
        images, width, one = block.images, self.positions[1], block.rows * self.positions[1]
        weights = view(room, self.at[3], (panels, self.depth + 1, columns), ((self.depth + 1) * columns, columns, 1))
        if self.in_place:
            bring, given = self.bring_windows(x, block, room, self.pitch)
            windows = given, self.grid(block.rows), self.shape_of_window, self.numbers
            results = view(room, self.at[2], (images, one, panels * columns), (one * self.made, self.made, 1))
            multiply = kernels.window_products("f32", kernels.position_rows(width))
            calls = [bring, (multiply, [*windows, weights, results])]
        else:
            calls, rows = self.gather(x, block, room)
            results = view(room, self.at[2], (len(rows), panels * columns), (self.made, 1))
            multiply = kernels.position_products("f32", kernels.position_rows(len(rows)))
            calls.append((multiply, [rows, weights, results]))
        made = view(room, self.at[2], (images, one * self.made), (one * self.made, 1))
        target = flat(out[block.image : block.image + images, :, self.rows_of(block)])
        places = self.places(width, width, 0, one, self.made)
        return [*calls, (kernels.from_lanes("f32"), [made, places, target])]


class _Sums(_Windows):
    """Windows times gradients, summed over positions. Each block takes a few calls: images are brought into lanes, windows laid out (or
    read in place, where channels fill their lanes), gradients brought into lanes, and multiplied."""

    @staticmethod
    def shapes(conv: Conv) -> list[Ints]:
        return [conv.image_shape, conv.result_shape, conv.weight_shape]

    def __init__(self, conv: Conv, operands: list[Any]):
        super().__init__(conv, conv.outputs, operands)
        self.in_place = self.pitch == conv.inputs
        self.cut(self.row, math.prod(conv.stride) * self.pitch if self.in_place else self.row, 1)
        most = self.most
        positions = most.images * most.rows * self.positions[1]
        self.rows = tiles.height(self.wide)
        self.height = -(-self.wide // self.rows) * self.rows
        held, given = most.images * math.prod(self.area(most.rows)) * self.pitch, positions * self.made + self.height
        if self.in_place:
            self.lay(held, given, 0, self.height * self.row)
        else:  # gradients take the place of images that are laid out
            self.lay(max(held, given), positions * self.row, 0, self.height * self.row)
        self.adds = self.table("adds", lambda: np.arange(2))
        self.deal("xy  ", self._block, sums=self._weights)

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
            target = as_strided(out, (len(out), self.conv.inputs, self.window), (*out.strides[:2], 4))
            places = self.places(self.window, 0, 0, self.window, self.conv.inputs)
            calls.append((kernels.from_lanes("f32"), [total, places, target]))
        return calls

    def _block(self, block: Block, outputs: slice, room: Any, job: int, number: int) -> list[Any]:
        x, g, adds = self.operands[0], self.operands[1][:, outputs], self.adds[min(number, 1), ...]
        images, area = block.images, (block.rows, self.positions[1])
        height = -(-g.shape[1] // self.rows) * self.rows
        sums = view(room, self.at[3], (height, self.row), (self.row, 1))
        if self.in_place:
            bring, given = self.bring_windows(x, block, room, self.pitch)
            second, held = self.bring(g, block, self.rows_of(block), (0, 0), area, self.made, room[self.at[1] :])
            windows = given, self.grid(block.rows), self.shape_of_window, self.numbers
            gradients = held.reshape(images, math.prod(area), self.made)
            return [bring, second, (kernels.window_sums("f32", self.rows), [gradients, *windows, adds, sums])]
        gather, rows = self.gather(x, block, room)
        bring, held = self.bring(g, block, self.rows_of(block), (0, 0), area, self.made, room)
        gradients = held.reshape(len(rows), self.made)
        return [*gather, bring, (kernels.channel_sums("f32", self.rows), [gradients, rows, adds, sums])]


class _Adjoint(_Windows):
    """Gradients times weights, added up in windows; what is made are channels of images. Each block takes three calls:
    gradients are brought into lanes, multiplied, and added up; an image is brought into planes when it is complete."""

    by_row = True

    @staticmethod
    def shapes(conv: Conv) -> list[Ints]:
        return [conv.result_shape, conv.weight_shape, conv.image_shape]

    def __init__(self, conv: Conv, operands: list[Any]):
        super().__init__(conv, conv.inputs, operands)
        self.given = kernels.pitch("f32", conv.outputs)
        self.cut(self.window * conv.outputs, self.given, self.window)
        self.ranges = min(self.ranges, conv.images)
        self.jobs = self.ranges * self.slices
        self.threads = min(self.jobs, conv.cores)
        self.step = self.window * self.wide  # products of a position
        most = self.most
        positions = most.images * most.rows * self.positions[1]
        height, self.across = self.area(conv.counts[0])
        self.tall = max(height, conv.padding[0] + conv.size[0])
        weights = self.window * self.panels * conv.outputs * kernels.columns("f32")
        images = most.images * self.tall * self.across * self.wide
        self.lay(positions * self.given, positions * self.step, images, weights)
        self.zero = self.table("zero", lambda: np.zeros((), "f4"))
        self.deal("y x ", self._block, self._weights)

    def blocks_of(self, number: int) -> list[Block]:
        """Whole images: their rows follow each other."""
        first, last = (self.conv.images * n // self.ranges for n in (number, number + 1))
        return [b for b in self.blocks if first <= b.image < last]

    def _weights(self, inputs: slice, room: Any) -> list[Any]:
        """Panels of the weights of a slice, (elements of the window, panels, outputs, columns)."""
        weight = self.operands[1][:, inputs]
        columns, outputs = kernels.columns("f32"), self.conv.outputs
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

    def _block(self, block: Block, inputs: slice, room: Any, job: int, number: int) -> list[Any]:
        g, out = self.operands[0], self.operands[2][:, inputs]
        conv, columns, images = self.conv, kernels.columns("f32"), block.images
        width, one = self.positions[1], block.rows * self.positions[1]
        rows = slice(block.row, block.row + block.rows)
        bring, held = self.bring(g, block, rows, (0, 0), (block.rows, width), self.given, room)
        panels = self.window * self.panels
        weights = view(room, self.at[3], (panels, conv.outputs, columns), (conv.outputs * columns, columns, 1))
        products = view(room, self.at[1], (images * one, self.step), (self.step, 1))
        whole = self.tall * self.across * self.wide
        made = view(room, self.at[2], (images, self.tall, self.across, self.wide),
                    (whole, self.across * self.wide, self.wide, 1))  # fmt: skip
        target = made[:, block.row * conv.stride[0] :]
        multiply = kernels.position_products("f32", kernels.position_rows(images * one))
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
            first = conv.padding[0] * self.across + conv.padding[1]
            places = self.places(conv.size[1], self.across, first, planes.shape[2], self.wide)
            calls.append((kernels.from_lanes("f32"), [made.reshape(images, -1), places, planes]))
        return calls
