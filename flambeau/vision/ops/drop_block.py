"""DropBlock: squares (or cubes) of feature maps left out at random while training."""

from __future__ import annotations

from ... import nn
from ..._ops.registry import ops
from ..._tensor import Tensor
from ...nn import functional as F


def _drop(
    name: str, rank: int, input: Tensor, p: float, block_size: int, inplace: bool, eps: float, training: bool
) -> Tensor:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"drop probability has to be between 0 and 1, but got {p}.")
    if input.ndim != rank + 2:
        raise ValueError(f"{name}: input should be {rank + 2} dimensional. Got {input.ndim} dimensions.")
    if not training or p == 0.0:
        return input
    lead, sizes = input.shape[:2], input.shape[2:]
    block = min(block_size, *sizes)
    if block % 2 == 0:
        raise ValueError(f"block size should be odd. Got {block} which is even.")
    # so many blocks are placed that about a part p of the elements is dropped
    gamma = p
    for n in sizes:
        gamma *= n
    gamma /= block**rank
    places = [n - block + 1 for n in sizes]
    for n in places:
        gamma /= n
    noise = ops.empty((*lead, *places), dtype=input.dtype, device=input.device).bernoulli_(gamma)
    noise = F.pad(noise, [block // 2] * (2 * rank), value=0)
    pool = F.max_pool2d if rank == 2 else F.max_pool3d
    noise = 1 - pool(noise, stride=1, kernel_size=block, padding=block // 2)
    scale = noise.numel() / (eps + noise.sum())
    return input.mul_(noise).mul_(scale) if inplace else input * noise * scale


def drop_block2d(
    input: Tensor, p: float, block_size: int, inplace: bool = False, eps: float = 1e-06, training: bool = True
) -> Tensor:
    """Zeroes squares of images (N, C, H, W) with about a part p of their area, and scales the rest."""
    return _drop("drop_block2d", 2, input, p, block_size, inplace, eps, training)


def drop_block3d(
    input: Tensor, p: float, block_size: int, inplace: bool = False, eps: float = 1e-06, training: bool = True
) -> Tensor:
    """Zeroes cubes of volumes (N, C, D, H, W) with about a part p of their volume, and scales the rest."""
    return _drop("drop_block3d", 3, input, p, block_size, inplace, eps, training)


class DropBlock2d(nn.Module):
    """`drop_block2d` as a layer.

    >>> DropBlock2d(0.1, 3)
    DropBlock2d(p=0.1, block_size=3, inplace=False)
    """

    def __init__(self, p: float, block_size: int, inplace: bool = False, eps: float = 1e-06) -> None:
        super().__init__()
        self.p = p
        self.block_size = block_size
        self.inplace = inplace
        self.eps = eps

    def forward(self, input: Tensor) -> Tensor:
        return drop_block2d(input, self.p, self.block_size, self.inplace, self.eps, self.training)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p}, block_size={self.block_size}, inplace={self.inplace})"


class DropBlock3d(DropBlock2d):
    """`drop_block3d` as a layer."""

    def forward(self, input: Tensor) -> Tensor:
        return drop_block3d(input, self.p, self.block_size, self.inplace, self.eps, self.training)
