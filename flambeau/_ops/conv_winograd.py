"""Convolutions of CPU arrays with windows of 3x3 and a step of one, by Winograd's transforms of tiles.

Images are copied into planes by the parity of rows and columns, in which the same element of neighbouring tiles are
neighbours. A block of tiles is transformed, multiplied and transformed back while it stays in the second cache.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._backend import threads
from .._backend.cpu import cpu, native_call, start_of
from .._core.allocation import empty
from .._kernel import conv as kernels
from .._kernel import pool
from .._kernel.winograd import COORDINATES, join_tiles, lay_out, spread_tiles, spread_windows
from .conv_arrays import Ints
from .conv_planes import windows_of

_TILE, _STEP = (4, 4), (2, 2)
_CHANNELS = 16  # on both sides, from which sparing products makes the transforms good
_TILES = 192  # in all images, from which transforming the weights pays
_BYTES = 3 << 19  # of transformed tiles and results that are dealt with at a time
_POSITIONS = (96, 512)  # the fewest and the most of them
_BYTES_A_CORE = 1 << 22  # of images laid out at a time
_UNIT = 32  # positions are multiplied in groups of so many, or a half or a quarter of them


class _Block(NamedTuple):
    """Tiles that are dealt with together: images, and rows of tiles of each."""

    image: int
    images: int
    row: int
    rows: int


def suits(
    x: Sequence[int], weight: Sequence[int], d: Any, stride: Ints, dilation: Ints, groups: int, counts: Ints
) -> bool:
    """Whether a convolution has the right form, and enough channels and tiles."""
    return (
        tuple(weight[2:]) == (3, 3) and groups == 1 and stride == dilation == (1, 1) and d == np.float32
        and min(weight[0], weight[1]) >= _CHANNELS and min(counts) > 1
        and x[0] * ((counts[0] + 1) // 2) * ((counts[1] + 1) // 2) >= _TILES
    )  # fmt: skip


def convolve(x: Any, weight: Any, bias: Any, padding: Ints, counts: Ints) -> Any:
    """Windows of 3x3 of the padded images times the weights (outputs, inputs, 3, 3)."""
    tiles = ((counts[0] + 1) // 2, (counts[1] + 1) // 2)
    planes, one = windows_of(_TILE, _STEP, (1, 1), x.shape[1], tiles)
    out = empty((len(x), len(weight), *counts), x.dtype)
    bias = np.zeros(len(weight), x.dtype) if bias is None else bias
    cores = threads.get_num_threads()
    step = min(len(x), max(1, _BYTES_A_CORE * cores // (x.itemsize * planes.image)))
    numbers = np.array([*padding, planes.pitches[0], planes.plane])
    call = cpu.kernel(lay_out, ("f32", "i64", "f32"))
    weights = _transformed(weight)
    buffer = empty((step, planes.image), x.dtype)
    buffer[:, planes.channels * planes.channel :] = 0
    for start in range(0, len(x), step):
        part = x[start : start + step]
        used = buffer[: len(part)]
        target = used[:, : planes.channels * planes.channel].reshape(*part.shape[:2], planes.channel)
        cpu.rows(call, [part, numbers], [target], 4 * target.size)
        _plan(len(part), x.shape[1], len(weight), tuple(counts), cores).run(
            used, one.shifts, weights, bias, out[start : start + step]
        )
    return out


def _transformed(weight: Any) -> Any:
    """The coordinates of windows, (coordinates, panels, inputs, padded rows of a panel)."""
    outputs, inputs = weight.shape[:2]
    rows = kernels.tile_rows(outputs)
    padded, panels = kernels.padded_rows("f32", rows), -(-outputs // rows)
    if panels * rows != outputs:
        whole = np.zeros((panels * rows, *weight.shape[1:]), weight.dtype)
        whole[:outputs] = weight
        weight = whole
    made = empty((COORDINATES, panels, inputs, padded), weight.dtype)
    call = cpu.kernel(spread_windows, ("f32", "f32"), lanes=padded)
    cpu.rows(call, [weight.reshape(panels, rows, *weight.shape[1:])], [made.swapaxes(0, 1)], made.size * 8)
    return made


@functools.lru_cache(64)
def _plan(images: int, inputs: int, outputs: int, counts: Ints, cores: int) -> _Plan:
    return _Plan(images, inputs, outputs, counts, cores)


# the operands of the three calls: shifts, weights and so on are numbered in the order in which `run` has their addresses
_SOURCE, _SHIFTS, _TILES_AT, _WEIGHTS, _OFFSETS, _RESULTS, _BIAS, _PITCH, _OUT = range(9)
_OPERANDS = (
    (0, 1, _SOURCE), (0, 2, _SHIFTS), (0, 3, _TILES_AT),
    (1, 1, _WEIGHTS), (1, 2, _TILES_AT), (1, 3, _OFFSETS), (1, 4, _RESULTS),
    (2, 1, _RESULTS), (2, 2, _BIAS), (2, 3, _PITCH), (2, 4, _OUT),
)  # fmt: skip


class _Plan:
    """The calls of kernels for all blocks of some images, with addresses that are relative to those of their operands.

    A block takes three: its tiles are transformed, multiplied with the weights, and transformed back.
    """

    def __init__(self, images: int, inputs: int, outputs: int, counts: Ints, cores: int):
        self.tiles = ((counts[0] + 1) // 2, (counts[1] + 1) // 2)
        self.planes, one = windows_of(_TILE, _STEP, (1, 1), inputs, self.tiles)
        self.inputs, self.outputs = inputs, outputs
        self.pitch = np.array([self.planes.pitches[0]])
        self.most = min(max(_BYTES // (4 * COORDINATES * (inputs + outputs)), _POSITIONS[0]), _POSITIONS[1])
        blocks = self._blocks(images)
        each = -(-len(blocks) // min(len(blocks), 2 * cores if cores > 1 else 1))
        jobs = -(-len(blocks) // each)
        self.cores = min(jobs, cores)
        kinds: dict[tuple[int, int, int], int] = {}  # images, rows of tiles, rows of the result -> its number
        numbers = [
            kinds.setdefault((b.images, b.rows, min(2 * b.rows, counts[0] - 2 * b.row)), len(kinds)) for b in blocks
        ]
        columns = max(_rounded(n * self._span(rows)) for n, rows, _ in kinds)
        columns += _UNIT // 2 if columns % 128 == 0 else 0  # rows a power of two apart would share few cache lines
        self.offsets = np.arange(inputs) * (columns * 4)
        height = kernels.tile_rows(outputs)
        panels = -(-outputs // height)
        self.shapes = (jobs, COORDINATES, inputs, columns), (jobs, COORDINATES, panels * height, columns)

        # these arrays are only looked at: where they lie, and their strides
        operands = [
            np.empty((images, self.planes.image), "f4"), one.shifts, np.empty(self.shapes[0], "f4"),
            np.empty((COORDINATES, panels, inputs, kernels.padded_rows("f32", height)), "f4"), self.offsets,
            np.empty(self.shapes[1], "f4"), np.empty(outputs, "f4"), self.pitch,
            np.empty((images, outputs, *counts), "f4"),
        ]  # fmt: skip
        reach = max(b.row * self.planes.pitches[0] + self._span(b.rows) + _UNIT for b in blocks) + int(one.shifts.max())
        if (inputs - 1) * self.planes.channel + reach > self.planes.image:
            raise RuntimeError(f"convolution: tiles of {images} images of {counts} would be read beyond their planes")
        templates = [self._calls(height, *kind, *operands) for kind in kinds]
        listed = [call for number in numbers for call in templates[number]]
        listed += [(0, [], [], [])] * (3 * (jobs * each - len(blocks)))
        self.words = np.array(pool.sequences([listed[3 * each * i : 3 * each * (i + 1)] for i in range(jobs)]))
        self.places, self.length = tuple(np.array(_OPERANDS).T), len(blocks)
        calls = self._lines(self.words)
        image, _, row, _ = np.array(blocks).T
        job = np.arange(len(blocks)) // each
        calls[:, 0, 1] += (image * self.planes.image + row * self.planes.pitches[0]) * 4
        calls[:, (0, 1), (3, 2)] += (job * operands[_TILES_AT].strides[0])[:, None]
        calls[:, (1, 2), (4, 1)] += (job * operands[_RESULTS].strides[0])[:, None]
        calls[:, 2, 4] += image * operands[_OUT].strides[0] + row * (2 * operands[_OUT].strides[2])
        self._move(self.words, operands, -1)

    def _lines(self, words: Any) -> Any:
        """The words of the calls, (blocks, 3, words of a call)."""
        return words[pool.HEADER :].reshape(-1, 3, words[2])[: self.length]

    def _move(self, words: Any, operands: list[Any], sign: int) -> None:
        """Adds or takes away the addresses of operands."""
        call, place, operand = self.places
        starts = np.array([start_of(a) for a in operands])
        self._lines(words)[:, call, place] += sign * starts[operand]

    def _blocks(self, images: int) -> list[_Block]:
        """Several images if they are small; otherwise some rows of tiles, so many that few positions are idle."""
        height, width = self.tiles
        span = self.planes.span(self.tiles)
        if span <= self.most:
            step = self.most // span
            return [_Block(i, min(step, images - i), 0, height) for i in range(0, images, step)]
        pitch = self.planes.pitches[0]
        most = max(1, min(height, (self.most - width) // pitch + 1))

        def idle(rows: int) -> float:
            return _rounded((rows - 1) * pitch + width) * -(-height // rows)

        rows = min(range(max(1, most // 2), most + 1), key=lambda n: (idle(n), -n))
        return [_Block(i, 1, r, min(rows, height - r)) for i in range(images) for r in range(0, height, rows)]

    def _span(self, rows: int) -> int:
        """Positions from the first to the last tile of so many rows."""
        return self.planes.span((rows, self.tiles[1]))

    def _calls(
        self, tile: int, images: int, rows: int, height: int, source: Any, shifts: Any, tiles: Any, weights: Any,
        offsets: Any, results: Any, bias: Any, pitch: Any, out: Any,
    ) -> Any:  # fmt: skip
        """The three calls for the first block of such a kind."""
        planes, span = self.planes, self._span(rows)
        tiles, results = tiles[0], results[0]
        made = results[..., : _rounded(span * images)]
        # all that is multiplied gets a value, as what was in memory may be slow to multiply (subnormal numbers)
        filled = span + made.shape[2] - span * images
        given = np.ndarray(
            (images, self.inputs, filled + int(shifts.max())), "f4", source, 0,
            (planes.image * 4, planes.channel * 4, 4),
        )  # fmt: skip
        spread, joined = (
            np.ndarray((images, *a.shape[:2], n), "f4", a, 0, (span * 4, *a.strides))
            for a, n in ((tiles, filled), (results, span))
        )
        return [
            native_call(cpu.kernel(spread_tiles, ("f32", "i64", "f32")), [given, shifts, spread]),
            native_call(kernels.window_products("f32", tile), [weights, tiles.reshape(COORDINATES, -1), offsets, made]),
            native_call(
                cpu.kernel(join_tiles, ("f32", "f32", "i64", "f32")), [joined, bias, pitch, out[:images, :, :height]]
            ),
        ]

    def run(self, source: Any, shifts: Any, weights: Any, bias: Any, out: Any) -> None:
        """All blocks, shared by the threads. Operands are dense and have the sizes of the plan."""
        tiles, results = (empty(shape, out.dtype) for shape in self.shapes)
        words = self.words.copy()
        bias = np.ascontiguousarray(bias)
        operands = [source, shifts, tiles, weights, self.offsets, results, bias, self.pitch, out]
        self._move(words, operands, 1)
        pool.run_sequences(start_of(words), self.cores)


def _rounded(positions: int) -> int:
    return -(-positions // _UNIT) * _UNIT
