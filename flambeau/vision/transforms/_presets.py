"""How images are prepared for published models."""

from __future__ import annotations

from typing import Any

from ... import nn
from ..._core.dtypes import float32
from ..._tensor import Tensor
from . import functional as F
from .functional import InterpolationMode


class ImageClassification(nn.Module):
    """Resizes, crops the middle, makes floats of it and normalises.

    >>> import flambeau as torch
    >>> ImageClassification(crop_size=4, resize_size=6)(torch.zeros(3, 12, 12, dtype=torch.uint8)).shape
    torch.Size([3, 4, 4])
    """

    def __init__(
        self,
        *,
        crop_size: int,
        resize_size: int = 256,
        mean: tuple[float, ...] = (0.485, 0.456, 0.406),
        std: tuple[float, ...] = (0.229, 0.224, 0.225),
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.crop_size = [crop_size]
        self.resize_size = [resize_size]
        self.mean = list(mean)
        self.std = list(std)
        self.interpolation = interpolation
        self.antialias = antialias

    def forward(self, img: Any) -> Tensor:
        img = F.resize(img, self.resize_size, interpolation=self.interpolation, antialias=self.antialias)
        img = F.center_crop(img, self.crop_size)
        if not isinstance(img, Tensor):
            img = F.pil_to_tensor(img)
        return F.normalize(F.convert_image_dtype(img, float32), mean=self.mean, std=self.std)

    def __repr__(self) -> str:
        fields = ("crop_size", "resize_size", "mean", "std", "interpolation")
        return "\n".join([f"{type(self).__name__}(", *(f"    {name}={getattr(self, name)}" for name in fields), ")"])

    def describe(self) -> str:
        """What is done, in a sentence."""
        return (
            f"Images (of pillow or tensors, also in batches) are resized to {self.resize_size} with {self.interpolation}, "
            f"cropped in the middle to {self.crop_size}, scaled to [0.0, 1.0] and normalised with mean {self.mean} and "
            f"std {self.std}."
        )
