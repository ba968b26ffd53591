"""Padding at the ends of dimensions, and rearranging channels and pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.dtypes import BOOL, int64
from .._core.state import CUDA, GRAD
from .._dispatch import backend_of
from .._tensor import Tensor, wrap
from .channels import keeps_channels_last
from .primitive import primitive
from .registry import labelled, ops, public


def _cut(pads: Sequence[Any]) -> tuple[Any, ...]:
    """What is left of an array when negative padding is taken off; `pads` are (before, after) of each dimension."""
    return tuple(slice(max(-a, 0), -max(-b, 0) or None) for a, b in pads)


def _inner(pads: Sequence[Any], shape: Sequence[int]) -> tuple[Any, ...]:
    return tuple(slice(max(a, 0), n - max(b, 0)) for (a, b), n in zip(pads, shape))


@primitive(
    name="constant_pad_nd", grad={"x": lambda g, pads: constant_pad(g, tuple((-a, -b) for a, b in pads), 0)},
    backward_name="ConstantPadNdBackward0",
)  # fmt: skip
@keeps_channels_last()
def constant_pad(backend: Any, x: Any, pads: Any, value: Any) -> Any:
    shape = tuple(n + a + b for n, (a, b) in zip(x.shape, pads))
    made = backend.xp.full(shape, value, x.dtype) if value else backend.zeros(shape, x.dtype)
    made[_inner(pads, shape)] = x[_cut(pads)]
    return made


@public(method=False)
def constant_pad_nd(input: Tensor, pad: Sequence[int], value: Any = 0) -> Tensor:
    """Adds a constant (or takes away, where `pad` is negative) at the ends of the last dimensions.

    >>> import flambeau as torch
    >>> torch.constant_pad_nd(torch.tensor([1, 2]), (1, 0))
    tensor([0, 1, 2])
    """
    shape = input._array.shape
    if len(pad) % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(pad)}")
    if len(pad) // 2 > len(shape):
        raise RuntimeError(
            "pad: Length of pad must be at most two for each dimension of the input; it is "
            f"{len(pad)} while the input has {len(shape)} dimensions."
        )
    pairs = [(0, 0)] * len(shape)
    for i in range(len(pad) // 2):
        pairs[len(shape) - 1 - i] = (int(pad[2 * i]), int(pad[2 * i + 1]))
    for i, (a, b) in enumerate(pairs):
        if shape[i] + a + b < 0:
            raise RuntimeError(
                f"The input size {shape[i]}, plus negative padding {a} and {b} resulted in a negative output size, "
                f"which is invalid. Check dimension {i} of your input."
            )
    return constant_pad(input, tuple(pairs), bool(value) if input.dtype.category == BOOL else value)  # type: ignore[no-any-return]


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


def _pad_by_index(input: Tensor, pad: Sequence[int], mode: str) -> Tensor:
    ndim = input._array.ndim
    for i in range(len(pad) // 2):
        dim, before, after = ndim - 1 - i, int(pad[2 * i]), int(pad[2 * i + 1])
        if before or after:
            sources = _sources(mode, input._array.shape[dim], before, after)
            index = wrap(sources.astype(np.int64), int64)
            if input._k & CUDA:
                index = wrap(backend_of(CUDA).from_numpy(index._array), int64, CUDA)
            input = ops.index_select(input, dim, index)
    return input


def _check_pads(input: Tensor, pad: Sequence[int], mode: str) -> None:
    shape = input._array.shape
    count = len(pad) // 2
    if len(pad) % 2 or not (len(shape) in (count + 1, count + 2) and 1 <= count <= 3):
        raise NotImplementedError(
            "pad: a mode other than 'constant' pads the last 1 to 3 dimensions of an input with a channel dimension before them"
        )
    if any(n == 0 for n in shape[-count:] if mode != "circular") or any(
        n == 0 for n in shape[len(shape) - count - 1 :]
    ):
        raise RuntimeError(f"Expected the input to have non-zero sizes, but got {list(shape)}")
    for i in range(count):
        n, before, after = shape[-1 - i], int(pad[2 * i]), int(pad[2 * i + 1])
        if mode == "reflect" and (before >= n or after >= n):
            raise RuntimeError(
                f"Argument #4: Padding size should be less than the corresponding input dimension, but got: padding "
                f"({before}, {after}) at dimension {len(shape) - 1 - i} of input {list(shape)}"
            )
        if mode == "circular" and (before > n or after > n):
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if n + before + after < 1:
            raise RuntimeError(f"input (of size {n}) is too small for the padding ({before}, {after})")


def _label(
    out: Tensor, input: Tensor, pad: Sequence[int], mode: str = "constant", *more: Any, **named: Any
) -> str | None:
    name = {"reflect": "ReflectionPad", "replicate": "ReplicationPad"}.get(mode)
    return None if name is None else f"{name}{len(pad) // 2}DBackward0"


@public("nn.functional.pad", method=False)
@labelled(_label)
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Pads the last dimensions: with a constant, or by reflecting, repeating the edge, or going round.

    >>> import flambeau as torch
    >>> torch.nn.functional.pad(torch.tensor([[1.0, 2.0]]), (1, 1), mode="replicate")
    tensor([[1., 1., 2., 2.]])
    """
    if len(pad) % 2:
        raise ValueError(f"Padding length must be divisible by 2, got {len(pad)}")
    if len(pad) // 2 > input._array.ndim:
        raise ValueError(f"pad: there are more pairs than the input has dimensions; Padding length {len(pad)}")
    if mode == "constant":
        return constant_pad_nd(input, pad, 0 if value is None else value)
    if value is not None and value != 0:
        raise ValueError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    _check_pads(input, pad, mode)
    if input.dtype.itemsize == 2 and input._k & GRAD:  # gradients of repeated elements are added in single precision
        return ops.to_dtype(_pad_by_index(ops.to_dtype(input, input.dtype.wide), pad, mode), input.dtype)  # type: ignore[no-any-return]
    return _pad_by_index(input, pad, mode)


# -- channels and pixels -------------------------------------------------------------------------------------------


@public("pixel_shuffle", "nn.functional.pixel_shuffle", method=False)
@labelled("PixelShuffleBackward0")
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(…, C r², H, W) to (…, C, H r, W r)."""
    shape, r = input._array.shape, upscale_factor
    if len(shape) < 3:
        raise RuntimeError(
            f"pixel_shuffle expects input to have at least 3 dimensions, but got input with {len(shape)} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    *lead, c, h, w = shape
    if c % (r * r):
        raise RuntimeError(
            f"pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={c} is not divisible by {r * r}"
        )
    n = len(lead)
    parts = ops.reshape(input, (*lead, c // (r * r), r, r, h, w))
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return ops.reshape(ops.permute(parts, order), (*lead, c // (r * r), h * r, w * r))  # type: ignore[no-any-return]


@public("pixel_unshuffle", "nn.functional.pixel_unshuffle", method=False)
@labelled("PixelUnshuffleBackward0")
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(…, C, H r, W r) to (…, C r², H, W)."""
    shape, r = input._array.shape, downscale_factor
    if len(shape) < 3:
        raise RuntimeError(
            f"pixel_unshuffle expects input to have at least 3 dimensions, but got input with {len(shape)} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    *lead, c, h, w = shape
    if h % r or w % r:
        raise RuntimeError(
            f"pixel_unshuffle expects height and width to be divisible by downscale_factor, but got {h}, {w} and {r}"
        )
    n = len(lead)
    parts = ops.reshape(input, (*lead, c, h // r, r, w // r, r))
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return ops.reshape(ops.permute(parts, order), (*lead, c * r * r, h // r, w // r))  # type: ignore[no-any-return]


@public(
    "channel_shuffle",
    "nn.functional.channel_shuffle",
    "native_channel_shuffle",
    "nn.functional.native_channel_shuffle",
    method=False,
)
@labelled("ChannelShuffleBackward0")
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Takes the channels of `groups` groups in turn."""
    shape = input._array.shape
    if len(shape) < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(shape)}")
    if groups <= 0:
        raise RuntimeError(f"channel_shuffle: groups must be positive, got {groups}")
    if shape[1] % groups:
        raise RuntimeError(
            f"channel_shuffle: channels must be divisible by groups, got {shape[1]} channels and {groups} groups."
        )
    parts = ops.reshape(input, (shape[0], groups, shape[1] // groups, *shape[2:]))
    return ops.reshape(ops.transpose(parts, 1, 2), shape)  # type: ignore[no-any-return]
