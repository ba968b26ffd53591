"""Convolutions of CPU arrays with windows of 3x3 and a step of one, by Winograd's transforms of tiles.

Some tiles at a time are brought into a form in which channels lie side by side, transformed, multiplied and brought
back while they stay in the second cache.
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
from ...._kernel.images.winograd import (
    coordinates,
    join_tiles,
    join_windows,
    spread_gradients,
    spread_tiles,
    spread_windows,
)
from ...._kernel.render import tiles
from ...._kernel.render.tiles import lanes
from .description import Conv, Ints, output_size
from .schedule import Block, Schedule, dense, flat, parts, run, view

_CHANNELS = 16  # on both sides, from which sparing products makes the transforms good
_TILES = 16  # in all images, from which transforming the weights pays
_WORTH = 0.85  # of the products with small tiles, that large ones may take where they are used
_INPUTS = 128  # whose windows are transformed at a time
_OUTPUTS = 16  # whose sums are made into windows at a time
_WINDOW = 9  # elements
_LINE = 16  # elements, so that coordinates do not lie a power of two apart


def suits(conv: Conv, role: str) -> bool:
    """Whether a convolution has the right form, and enough channels and tiles."""
    made = conv.size if role == "adjoint" else conv.counts
    if (
        not conv.is_large or conv.kernel != (3, 3) or conv.groups > 1 or conv.stride != (1, 1) or conv.dilation != (1, 1)
        or conv.dtype != np.float32 or min(conv.inputs, conv.outputs) < _CHANNELS or min(made) < 2
        or conv.images * ((made[0] + 1) // 2) * ((made[1] + 1) // 2) < _TILES
    ):  # fmt: skip
        return False
    if role == "adjoint":
        return min(conv.around) >= 0
    return role == "products" or output_size(conv.size, (3, 3), (1, 1), conv.padding, (1, 1)) == made


def tiles_of(results: Ints, size: int) -> Ints:
    """How many tiles there are in rows and columns."""
    return -(-results[0] // size), -(-results[1] // size)


def size_of(conv: Conv, least: int) -> int:
    """How many results each way a tile has: four where that spares products, of which large tiles take fewer, and there are at least so
    many tiles that these matter more than windows, of which they have more coordinates."""
    large, small = (conv.images * math.prod(tiles_of(conv.counts, size)) for size in (4, 2))
    return 4 if large >= least and coordinates(4) * large <= _WORTH * coordinates(2) * small else 2


def products(conv: Conv, x: Any, weight: Any, bias: Any) -> Any:
    """Products of all windows of the images with the weight."""
    return _convolve(_Products, conv, x, weight, bias)


def adjoint(conv: Conv, g: Any, weight: Any, bias: Any) -> Any:
    """A convolution of results by windows that are read backwards."""
    turned = conv._replace(
        inputs=conv.outputs, outputs=conv.inputs, size=conv.counts, counts=conv.size, padding=conv.around
    )
    return _convolve(_Turned, turned, g, weight, bias)


def _convolve(kind: type[_Products], conv: Conv, x: Any, weight: Any, bias: Any) -> Any:
    x, weight, out = dense(x), rows_of(weight), empty(conv.result_shape, x.dtype)
    level = zeros(_wide(conv), x.dtype)
    if bias is not None:
        level[: conv.outputs] = bias
    kind = kind if size_of(conv, _TILES // 2) == 2 else _LARGE[kind]
    for some, part in parts(conv, conv.positions // kind.size**2):
        run(kind, part, [x[some], weight, level, out[some]])
    return out


def _wide(conv: Conv) -> int:
    """The outputs, and as many more as fill the last lanes."""
    return -(-conv.outputs // kernels.columns("f32")) * kernels.columns("f32")


def sums(conv: Conv, x: Any, g: Any) -> Any:
    """Windows of images times results, summed over all images and positions."""
    x, g, out = dense(x), dense(g), empty(conv.weight_shape, x.dtype)
    kind: Any = _Sums if size_of(conv, _TILES) == 2 else _LARGE[_Sums]
    for some, part in parts(conv, conv.positions // kind.size**2):
        made = out if some.start == 0 else np.empty_like(out)
        run(kind, part, [x[some], g[some], made])
        if made is not out:
            out += made
    return out


class _Tiles(Schedule):
    """What both directions share: positions are tiles of `size` x `size` results."""

    size = 2
    keeps = True

    def __init__(self, conv: Conv, operands: list[Any]):
        self.down, self.coordinates = self.size, coordinates(self.size)
        super().__init__(conv, conv.outputs, tiles_of(conv.counts, self.size), operands)
        self.pitch = kernels.pitch("f32", conv.inputs)
        self.cut(self.coordinates * conv.inputs, self.coordinates * self.pitch, self.coordinates)
        most = self.most
        tiles = most.images * most.rows * self.positions[1]
        self.step, self.made_step = tiles * self.pitch + _LINE, tiles * self.made + _LINE
        self.held = max(
            most.images * math.prod(self.area(most.rows)) * self.pitch, self.size**2 * tiles * self.made,
            _WINDOW * max(self.pitch, self.made),
        )  # fmt: skip

    def area(self, rows: int) -> Ints:
        return self.size * rows + 2, self.size * self.positions[1] + 2

    def spread(self, x: Any, block: Block, room: Any, job: int) -> tuple[list[Any], Any]:
        """Two calls that make the coordinates of a block's tiles, and an array of all of them.

        If there is one block, a thread has its coordinates from another job already.
        """
        again = len(self.blocks) == 1 and job >= self.threads
        bring, given = self.bring_windows(x, block, room, self.pitch)
        images, one, pitch = block.images, block.rows * self.positions[1], self.pitch
        made = view(room, self.at[1], (images, self.coordinates, one, pitch), (one * pitch, self.step, pitch, 1))
        tiles = view(room, self.at[1], (self.coordinates, images * one, pitch), (self.step, pitch, 1))
        call = self.transform(spread_tiles, ("f32", "i8", "f32"))
        return [] if again else [bring, (call, [given, self.grid(block.rows), made])], tiles

    def transform(self, kernel: Any, types: tuple[str, ...], **options: Any) -> Any:
        """A kernel over lanes in the memory of jobs, which follow each other there."""
        return cpu.kernel(kernel, types, lanes=lanes("f32"), size=self.size, adjacent=True, **options)

    def rows_of(self, block: Block) -> slice:
        return slice(self.size * block.row, min(self.size * (block.row + block.rows), self.conv.counts[0]))


class _Products(_Tiles):
    """Tiles times weights. Each block takes five calls: rows of images are brought into lanes, transformed, multiplied,
    transformed back, and brought into planes."""

    turned = False  # whether weights are (inputs, outputs, 3, 3)

    @staticmethod
    def shapes(conv: Conv) -> list[Ints]:
        return [conv.image_shape, conv.weight_shape, (_wide(conv),), conv.result_shape]

    def __init__(self, conv: Conv, operands: list[Any]):
        super().__init__(conv, operands)
        self.weight_step = self.panels * conv.inputs * kernels.columns("f32") + _LINE
        self.lay(self.held, *(self.coordinates * n for n in (self.step, self.made_step, self.weight_step)))
        self.deal("x  y ", self._block, self._weights)

    def _weights(self, outputs: slice, room: Any) -> list[Any]:
        """The coordinates of the windows of a slice, (coordinates, panels, inputs, columns); some inputs at a time,
        which are brought into lanes where images will be."""
        columns, inputs = kernels.columns("f32"), self.conv.inputs
        windows = (self.operands[1].swapaxes(0, 1) if self.turned else self.operands[1])[outputs]
        made = view(room, self.at[3], (self.panels, self.coordinates, inputs, columns),
                     (inputs * columns, self.weight_step, columns, 1))  # fmt: skip
        rows, used = len(windows), -(-len(windows) // columns) * columns
        step = max(1, min(_INPUTS, self.at[1] // (_WINDOW * used)))
        call = self.transform(spread_windows, ("f32", "f32"), turned=self.turned)
        calls = []
        for first in range(0, inputs, step):
            given = windows[:, first : first + step]
            count = given.shape[1]
            held = view(room, 0, (count, _WINDOW, used), (_WINDOW * used, used, 1))
            if self.turned:  # windows of an input lie side by side
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

    def _block(self, block: Block, outputs: slice, room: Any, job: int, number: int) -> list[Any]:
        x, level, out = self.operands[0], self.operands[2][outputs.start :], self.operands[3][:, outputs]
        images, rows, width, columns = block.images, block.rows, self.positions[1], kernels.columns("f32")
        one, size, inputs, panels = rows * width, self.size, self.conv.inputs, -(-out.shape[1] // columns)
        used = panels * columns
        spread, tiles = self.spread(x, block, room, job)
        weights = view(room, self.at[3], (self.coordinates, panels, inputs, columns),
                        (self.weight_step, inputs * columns, columns, 1))  # fmt: skip
        steps = self.made_step, self.made, 1
        results = view(room, self.at[2], (self.coordinates, images * one, used), steps)
        joined = view(room, self.at[2], (images, self.coordinates, one, used), (one * self.made, *steps))
        made = view(room, 0, (images, size * rows, size * width, self.made),
                     (size * size * one * self.made, size * width * self.made, self.made, 1))  # fmt: skip
        target = flat(out[block.image : block.image + images, :, self.rows_of(block)])
        places = self.places(self.conv.counts[1], size * width, 0, target.shape[2], self.made)
        return [
            *spread,
            (kernels.position_products("f32", kernels.position_rows(images * one)), [tiles, weights, results]),
            (self.transform(join_tiles, ("f32", "f32", "i8", "f32")),
             [joined, level[:used], self.grid(rows), made[..., :used]]),
            (kernels.from_lanes("f32"), [made.reshape(images, -1), places, target]),
        ]  # fmt: skip


class _Turned(_Products):
    """The same with weights (inputs, outputs, 3, 3), whose windows are read backwards."""

    turned = True

    @staticmethod
    def shapes(conv: Conv) -> list[Ints]:
        return [conv.image_shape, (conv.inputs, conv.outputs, 3, 3), (_wide(conv),), conv.result_shape]


class _Sums(_Tiles):
    """Tiles times gradients, summed over tiles. Each block takes five calls: rows of images and gradients are brought
    into lanes and transformed, and multiplied. A job that has all tiles makes windows of its sums itself."""

    @staticmethod
    def shapes(conv: Conv) -> list[Ints]:
        return [conv.image_shape, conv.result_shape, conv.weight_shape]

    def __init__(self, conv: Conv, operands: list[Any]):
        super().__init__(conv, operands)
        self.rows = tiles.height(self.wide)
        self.height = -(-self.wide // self.rows) * self.rows
        gradients = self.coordinates * self.made_step + self.height  # tiles at the edge read further
        self.lay(self.held, self.coordinates * self.step, gradients, self.coordinates * self.height * self.pitch)
        self.adds = self.table("adds", lambda: np.arange(2))
        self.deal("xy  ", self._block, sums=self._windows)

    def _windows(self, parts: Any, room: Any, out: Any, first: int) -> list[Any]:
        """The sums of some jobs, from the output `first` of their slice on, as windows."""
        pitch, inputs, calls = self.pitch, self.conv.inputs, []
        step = max(1, min(_OUTPUTS, self.at[1] // (_WINDOW * pitch)))
        for start in range(0, len(out), step):
            made = out[start : start + step]
            begin = parts[:, self.at[3] + (first + start) * pitch :]
            given = as_strided(begin, (len(made), len(parts), self.coordinates, pitch),
                               (4 * pitch, parts.strides[0], 4 * self.height * pitch, 4))  # fmt: skip
            held = view(room, 0, (len(made), _WINDOW, pitch), (_WINDOW * pitch, pitch, 1))
            target = as_strided(made, (len(made), inputs, _WINDOW), (*made.strides[:2], 4))
            places = self.places(_WINDOW, 0, 0, _WINDOW, pitch)
            calls.append((self.transform(join_windows, ("f32", "f32")), [given, held]))
            calls.append((kernels.from_lanes("f32"), [held.reshape(len(made), -1), places, target]))
        return calls

    def _block(self, block: Block, channels: slice, room: Any, job: int, number: int) -> list[Any]:
        x, g, adds = self.operands[0], self.operands[1][:, channels], self.adds[min(number, 1), ...]
        images, rows, width = block.images, block.rows, self.positions[1]
        one, outputs = rows * width, g.shape[1]
        spread, tiles = self.spread(x, block, room, job)
        bring, held = self.bring(
            g, block, self.rows_of(block), (0, 0), (self.size * rows, self.size * width), self.made, room
        )
        steps_of = self.made_step, self.made, 1
        transformed = view(room, self.at[2], (images, self.coordinates, one, self.made), (one * self.made, *steps_of))
        gradients = view(room, self.at[2], (self.coordinates, images * one, self.made), steps_of)
        height = -(-outputs // self.rows) * self.rows
        sums = view(room, self.at[3], (self.coordinates, height, self.pitch), (self.height * self.pitch, self.pitch, 1))
        return [
            *spread,
            bring,
            (self.transform(spread_gradients, ("f32", "i8", "f32")),
             [held, self.grid(rows), transformed]),
            (kernels.channel_sums("f32", self.rows), [gradients, tiles, adds, sums]),
        ]  # fmt: skip


class _LargeProducts(_Products):
    size = 4


class _LargeTurned(_Turned):
    size = 4


class _LargeSums(_Sums):
    size = 4


_LARGE: dict[Any, Any] = {_Products: _LargeProducts, _Turned: _LargeTurned, _Sums: _LargeSums}
