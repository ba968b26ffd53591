"""Padding at the ends of dimensions, and rearranging channels and pixels."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._backend.copies import place, row_major
from ..._core.allocation import fill
from ..._core.dtypes import BY_NUMPY
from ..._core.state import GRAD
from ..._tensor import Tensor
from ..making.factory import float_of
from ..places.picking import Places, makers, pick
from ..records.batching import folded, leading, padded
from ..records.casting import checked_number, number_array
from ..records.primitive import primitive
from ..records.shape_rules import dtype_of, same
from ..records.tangents import linear
from ..registry import ops, public, relabel
from .channels import keeps_channels_last


@functools.lru_cache(1024)
def _regions(shape: tuple[int, ...], pads: Any) -> tuple[Any, Any, Any, bool]:
    """The shape of a padded array, where the old elements lie in it, what negative padding leaves of those, and whether they are all."""
    padded = tuple(n + a + b for n, (a, b) in zip(shape, pads))
    inner = tuple(slice(max(a, 0), n - max(b, 0)) for (a, b), n in zip(pads, padded))
    left = tuple(slice(max(-a, 0), -max(-b, 0) or None) for a, b in pads)
    return padded, inner, left, all(max(pair) <= 0 for pair in pads)


@primitive(
    meta=lambda x, pads, value: (_regions(x.shape, pads)[0], dtype_of(x)),
    name="constant_pad_nd", grad={"x": lambda g, pads: constant_pad(g, tuple((-a, -b) for a, b in pads), 0)},
    backward_name="ConstantPadNdBackward0",
    batch=padded,
    tangent=lambda op, args, out, tangents: op(tangents[0], args[1], 0),  # what is put around does not change
)  # fmt: skip
@keeps_channels_last()
def constant_pad(backend: Any, x: Any, pads: Any, value: Any) -> Any:
    shape, inner, left, full = _regions(x.shape, pads)
    made = backend.empty(shape, x.dtype) if value or full else backend.zeros(shape, x.dtype)
    if value and not full:
        fill(made, number_array(value, BY_NUMPY[x.dtype]))
    place(made[(..., *inner)], x[(..., *left)])
    return made


@functools.lru_cache(1024)
def _pairs(shape: tuple[int, ...], pad: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """(before, after) of each dimension, after PyTorch's checks."""
    if len(pad) % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(pad)}")
    if len(pad) // 2 > len(shape):
        raise RuntimeError(
            "pad: Length of pad must be at most two for each dimension of the input; it is "
            f"{len(pad)} while the input has {len(shape)} dimensions."
        )
    pairs = [(0, 0)] * len(shape)
    for i in range(len(pad) // 2):
        pairs[len(shape) - 1 - i] = (pad[2 * i], pad[2 * i + 1])
    for i, (a, b) in enumerate(pairs):
        if shape[i] + a + b < 0:
            raise RuntimeError(
                f"The input size {shape[i]}, plus negative padding {a} and {b} resulted in a negative output size, "
                f"which is invalid. Check dimension {i} of your input."
            )
    return tuple(pairs)


@public(method=False)
def constant_pad_nd(input: Tensor, pad: Sequence[int], value: Any = 0) -> Tensor:
    """Adds a constant (or takes away, where `pad` is negative) at the ends of the last dimensions.

    >>> import flambeau as torch
    >>> torch.constant_pad_nd(torch.tensor([1, 2]), (1, 0))
    tensor([0, 1, 2])
    """
    pairs = _pairs(input._array.shape, tuple([int(n) for n in pad]))
    return constant_pad(input, pairs, checked_number(value, input.dtype))


def _sources(mode: str, size: int, before: int, after: int) -> Any:
    """For each place of the padded dimension, the place in the input it is taken from."""
    place = np.arange(-before, size + after)
    if mode == "replicate":
        return place.clip(0, max(size - 1, 0))
    if mode == "circular":  # what negative padding takes away does not come round again
        first = max(-before, 0)
        return (place - first) % max(size - first - max(-after, 0), 1) + first
    period = max(2 * (size - 1), 1)
    place = np.abs(place) % period
    return np.minimum(place, period - place) if size > 1 else place * 0


@functools.lru_cache(1024)
def _places(mode: str, shape: tuple[int, ...], pads: tuple[int, ...]) -> tuple[Any, ...]:
    """Where the elements of a padded tensor come from, in words, after PyTorch's checks."""
    _check_pads(shape, pads, mode)
    count = len(pads) // 2
    size = shape[len(shape) - count :]
    pairs = [pads[2 * i : 2 * i + 2] for i in reversed(range(count))]
    return ("padded", mode, *[number for n, pair in zip(size, pairs) for number in (n, *pair)])


def _padded_places(mode: str, *numbers: int) -> Places:
    """For (size, before, after) of each dimension."""
    rows = [numbers[i : i + 3] for i in range(0, len(numbers), 3)]
    return Places([_sources(mode, *row) for row in rows], tuple([row[0] for row in rows]))


makers["padded"] = _padded_places


def _not_padded(rank: int, shape: Sequence[int]) -> str:
    return (
        f"Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with possibly 0 batch size and other non-zero "
        f"dimensions for input, but got: {list(shape)}"
    )


def define_pads(mode: str, name: str) -> dict[str, Any]:
    """PyTorch's operators of one mode, by name: one for each number of dimensions."""

    def define(rank: int) -> Any:
        def padded(input: Tensor, padding: Sequence[int]) -> Tensor:
            if len(padding) != 2 * rank:
                raise RuntimeError(f"padding size is expected to be {2 * rank}, but got: {len(padding)}")
            if input._array.ndim not in (rank + 1, rank + 2):
                raise RuntimeError(_not_padded(rank, input._array.shape))
            return pad(input, padding, mode)

        padded.__name__ = padded.__qualname__ = f"{name}{rank}d"
        return padded

    return {f"{name}{rank}d": define(rank) for rank in (1, 2, 3)}


def _check_pads(shape: tuple[int, ...], pad: Sequence[int], mode: str) -> None:
    count = len(pad) // 2
    if len(pad) % 2 or not (len(shape) in (count + 1, count + 2) and 1 <= count <= 3):
        raise NotImplementedError(
            f"Padding size {len(pad)} is not supported for {len(shape)}D input tensor: a mode other than 'constant' pads the "
            "last 1 to 3 dimensions of an input with a channel dimension before them"
        )
    if any(n == 0 for n in shape[-count:] if mode != "circular") or any(
        n == 0 for n in shape[len(shape) - count - 1 :]
    ):
        raise RuntimeError(_not_padded(count, shape))
    kept = [n + before + after for n, before, after in zip(reversed(shape), pad[::2], pad[1::2])]
    for i in range(count):
        n, before, after = shape[-1 - i], int(pad[2 * i]), int(pad[2 * i + 1])
        if mode == "reflect" and (before >= n or after >= n):
            raise RuntimeError(
                f"Argument #4: Padding size should be less than the corresponding input dimension, but got: padding "
                f"({before}, {after}) at dimension {len(shape) - 1 - i} of input {list(shape)}"
            )
        if mode == "circular" and (before > n or after > n):
            raise RuntimeError("Padding value causes wrapping around more than once.")
        # a dimension may end up without elements if another one does not, or if places go round
        if kept[i] < 0 or (mode != "circular" and max(kept) < 1):
            raise RuntimeError(f"input (of size {n}) is too small for the padding ({before}, {after})")


def _label(mode: str, count: int) -> str:
    if mode == "circular":
        return "torch::autograd::CopySlices"
    return f"{'Reflection' if mode == 'reflect' else 'Replication'}Pad{count}DBackward0"


@public("nn.functional.pad", method=False, planned=True)
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Pads the last dimensions: with a constant, or by reflecting, repeating the edge, or going round.

    >>> import flambeau as torch
    >>> torch.nn.functional.pad(torch.tensor([[1.0, 2.0]]), (1, 1), mode="replicate")
    tensor([[1., 1., 2., 2.]])
    """
    if len(pad) % 2:
        raise RuntimeError(f"Padding length must be divisible by 2, got {len(pad)}")
    if len(pad) // 2 > input._array.ndim:
        raise RuntimeError(
            f"Padding length should be less than or equal to two times the input dimension, got {len(pad)} numbers for "
            f"{input._array.ndim} dimensions"
        )
    if mode == "constant":
        return constant_pad_nd(input, pad, 0 if value is None else float_of(value, "pad", "value"))
    if value is not None and value != 0:
        raise ValueError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    pads = tuple([int(n) for n in pad])
    places = _places(mode, input._array.shape, pads)
    if mode == "circular":
        input = ops.contiguous(input)
    if mode == "circular" and input.dtype.itemsize == 2 and input._k & GRAD:  # gradients are added in single precision
        out = ops.to_dtype(pick(ops.to_dtype(input, input.dtype.wide), places), input.dtype)
    else:
        out = pick(input, places)
    return relabel(out, _label(mode, len(pads) // 2))


# -- channels and pixels -------------------------------------------------------------------------------------------


@functools.lru_cache(1024)
def _shuffling(shape: tuple[int, ...], r: int, back: bool) -> tuple[Any, Any, Any]:
    """How pixels are rearranged: (parts of the dimensions, their new order, the shape of the result)."""
    *lead, c, h, w = shape
    n = len(lead)
    if back:
        order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
        return (*lead, c, h // r, r, w // r, r), order, (*lead, c * r * r, h // r, w // r)
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return (*lead, c // (r * r), r, r, h, w), order, (*lead, c // (r * r), h * r, w * r)


def _shuffled(x: Any, r: int, back: bool) -> Any:
    parts, order, shape = _shuffling(x.shape, r, back)
    return row_major(x.reshape(parts).transpose(order)).reshape(shape)


@primitive(
    batch=leading,
    meta=lambda x, r: (_shuffling(x.shape, r, False)[2], dtype_of(x)),
    name="pixel_shuffle",
    grad={"x": lambda g, r: unshuffle_pixels(g, r)},
    tangent=linear("x"),
)
@keeps_channels_last()
def shuffle_pixels(backend: Any, x: Any, r: int) -> Any:
    return _shuffled(x, r, False)


@primitive(
    batch=leading,
    meta=lambda x, r: (_shuffling(x.shape, r, True)[2], dtype_of(x)),
    name="pixel_unshuffle",
    grad={"x": lambda g, r: shuffle_pixels(g, r)},
    tangent=linear("x"),
)
@keeps_channels_last()
def unshuffle_pixels(backend: Any, x: Any, r: int) -> Any:
    return _shuffled(x, r, True)


@public("pixel_shuffle", "nn.functional.pixel_shuffle", method=False, planned=True)
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(…, C r², H, W) to (…, C, H r, W r)."""
    shape, r = input._array.shape, upscale_factor
    if len(shape) < 3:
        raise RuntimeError(
            f"pixel_shuffle expects input to have at least 3 dimensions, but got input with {len(shape)} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    if r * r >= 1 << 63:
        raise ValueError(
            f"pixel_shuffle: upscale_factor factor is too large: the square of {r} does not fit into 64 bits"
        )
    c = shape[-3]
    if c % (r * r):
        raise RuntimeError(
            f"pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={c} is not divisible by {r * r}"
        )
    return shuffle_pixels(input, r)


@public("pixel_unshuffle", "nn.functional.pixel_unshuffle", method=False, planned=True)
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(…, C, H r, W r) to (…, C r², H, W)."""
    shape, r = input._array.shape, downscale_factor
    if len(shape) < 3:
        raise RuntimeError(
            f"pixel_unshuffle expects input to have at least 3 dimensions, but got input with {len(shape)} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    h, w = shape[-2:]
    if h % r or w % r:
        raise RuntimeError(
            f"pixel_unshuffle expects height and width to be divisible by downscale_factor, but got {h}, {w} and {r}"
        )
    return unshuffle_pixels(input, r)


@primitive(
    meta=same,
    name="channel_shuffle",
    grad={"x": lambda g, groups: shuffle_channels(g, g._array.shape[1] // groups if g._array.shape[1] else groups)},
    batch=folded(),
    tangent=linear("x"),
)
@keeps_channels_last()
def shuffle_channels(backend: Any, x: Any, groups: int) -> Any:
    n, channels, *size = x.shape
    parts = x.reshape(n, groups, channels // groups, *size).swapaxes(1, 2)
    return row_major(parts).reshape(x.shape)


@public(
    "channel_shuffle",
    "nn.functional.channel_shuffle",
    "native_channel_shuffle",
    "nn.functional.native_channel_shuffle",
    method=False,
    planned=True,
)
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Takes the channels of `groups` groups in turn."""
    shape = input._array.shape
    if len(shape) < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(shape)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    if shape[1] % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {shape[1]} channels and {groups} groups."
        )
    return shuffle_channels(input, groups)


SCHEMAS = """
constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor
replication_pad3d|reflection_pad3d(Tensor self, SymInt[6] padding) -> Tensor
replication_pad1d|reflection_pad1d(Tensor self, SymInt[2] padding) -> Tensor
replication_pad2d|reflection_pad2d(Tensor self, SymInt[4] padding) -> Tensor
pad(Tensor self, SymInt[] pad, str mode="constant", float? value=None) -> Tensor
pixel_shuffle(Tensor self, int upscale_factor) -> Tensor
pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor
channel_shuffle(Tensor self, SymInt groups) -> Tensor
"""
