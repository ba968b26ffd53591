"""Channels to pixels and back."""

from __future__ import annotations

from ..._tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = ["PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(Module):
    """(*, C r², H, W) to (*, C, H r, W r): a picture with more pixels out of channels.

    >>> import flambeau as torch
    >>> torch.nn.PixelShuffle(2)(torch.zeros(1, 8, 3, 5)).shape
    torch.Size([1, 2, 6, 10])
    """

    __constants__ = ["upscale_factor"]
    upscale_factor: int

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """(*, C, H r, W r) to (*, C r², H, W): the reverse of `PixelShuffle`.

    >>> import flambeau as torch
    >>> torch.nn.PixelUnshuffle(2)(torch.zeros(1, 2, 6, 10)).shape
    torch.Size([1, 8, 3, 5])
    """

    __constants__ = ["downscale_factor"]
    downscale_factor: int

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"
