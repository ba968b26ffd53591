"""Transforms made of others or of functions, and those that only change an image's form."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from ... import nn
from ..._core.dtypes import dtype as DType
from ..._ops.registry import ops
from ..._tensor import Tensor
from . import functional as F


def _lines(transforms: Sequence[Any]) -> list[str]:
    return [f"    {t}" for t in transforms]


class Compose:
    """One transform after the other.

    >>> Compose([ToTensor(), Normalize([0.5], [0.5])])
    Compose(
        ToTensor()
        Normalize(mean=[0.5], std=[0.5])
    )
    """

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        for t in self.transforms:
            img = t(img)
        return img

    def __repr__(self) -> str:
        return "\n".join([f"{type(self).__name__}(", *_lines(self.transforms), ")"])


class ToTensor:
    """An image of pillow or an array (H, W, C) as a tensor (C, H, W); values of 8 bits become [0, 1]."""

    def __call__(self, pic: Any) -> Tensor:
        return F.to_tensor(pic)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class PILToTensor:
    """An image of pillow as a tensor (C, H, W) of its own values."""

    def __call__(self, pic: Any) -> Tensor:
        return F.pil_to_tensor(pic)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class ConvertImageDtype(nn.Module):
    """An image tensor in another dtype, its values scaled to that dtype's range."""

    def __init__(self, dtype: DType) -> None:
        super().__init__()
        if not isinstance(dtype, DType):
            raise TypeError("Argument dtype should be of type torch.dtype")
        self.dtype = dtype

    def forward(self, image: Tensor) -> Tensor:
        return F.convert_image_dtype(image, self.dtype)


class ToPILImage:
    """A tensor (C, H, W) or an array (H, W, C) as an image of pillow."""

    def __init__(self, mode: str | None = None) -> None:
        self.mode = mode

    def __call__(self, pic: Any) -> Any:
        return F.to_pil_image(pic, self.mode)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.mode is None else f'mode={self.mode}'})"


class Normalize(nn.Module):
    """(image - mean) / std, channel by channel.

    >>> import flambeau as torch
    >>> Normalize([1.0], [2.0])(torch.full((1, 1, 1), 5.0))
    tensor([[[2.]]])
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> None:
        super().__init__()
        self.mean = mean
        self.std = std
        self.inplace = inplace

    def forward(self, tensor: Tensor) -> Tensor:
        return F.normalize(tensor, self.mean, self.std, self.inplace)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(mean={self.mean}, std={self.std})"


class Lambda:
    """A function as a transform."""

    def __init__(self, lambd: Callable[[Any], Any]) -> None:
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd

    def __call__(self, img: Any) -> Any:
        return self.lambd(img)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class RandomTransforms:
    """Base of the transforms that choose among others, with Python's random numbers."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        if not isinstance(transforms, Sequence):
            raise TypeError("Argument transforms should be a sequence")
        self.transforms = transforms

    def __call__(self, *args: Any) -> Any:
        raise NotImplementedError

    def __repr__(self) -> str:
        return "\n".join([f"{type(self).__name__}(", *_lines(self.transforms), ")"])


class RandomApply(nn.Module):
    """All of some transforms, or none, with probability p."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]], p: float = 0.5) -> None:
        super().__init__()
        self.transforms = transforms
        self.p = p

    def forward(self, img: Any) -> Any:
        if self.p < ops.rand(1):
            return img
        for t in self.transforms:
            img = t(img)
        return img

    def __repr__(self) -> str:
        return "\n".join([f"{type(self).__name__}(", f"    p={self.p}", *_lines(self.transforms), ")"])


class RandomOrder(RandomTransforms):
    """All of some transforms, in an order of chance."""

    def __call__(self, img: Any) -> Any:
        order = list(range(len(self.transforms)))
        random.shuffle(order)
        for i in order:
            img = self.transforms[i](img)
        return img


class RandomChoice(RandomTransforms):
    """One of some transforms, by weights if they are given."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]], p: Sequence[float] | None = None) -> None:
        super().__init__(transforms)
        if p is not None and not isinstance(p, Sequence):
            raise TypeError("Argument p should be a sequence")
        self.p = p

    def __call__(self, *args: Any) -> Any:
        return random.choices(self.transforms, weights=self.p)[0](*args)

    def __repr__(self) -> str:
        return f"{super().__repr__()}(p={self.p})"


class LinearTransformation(nn.Module):
    """A flattened image minus a mean, times a square matrix: whitening, for instance."""

    def __init__(self, transformation_matrix: Tensor, mean_vector: Tensor) -> None:
        super().__init__()
        rows, columns = transformation_matrix.shape
        if rows != columns:
            raise ValueError(f"transformation_matrix should be square. Got {rows} x {columns} rectangular matrix.")
        if mean_vector.shape[0] != columns:
            raise ValueError(
                f"mean_vector should have the same length {mean_vector.shape[0]} as any one of the dimensions of the "
                f"transformation_matrix [{(rows, columns)}]"
            )
        if transformation_matrix.device != mean_vector.device:
            raise ValueError(
                f"Input tensors should be on the same device. Got {transformation_matrix.device} and {mean_vector.device}"
            )
        if transformation_matrix.dtype is not mean_vector.dtype:
            raise ValueError(
                f"Input tensors should have the same dtype. Got {transformation_matrix.dtype} and {mean_vector.dtype}"
            )
        self.transformation_matrix = transformation_matrix
        self.mean_vector = mean_vector

    def forward(self, tensor: Tensor) -> Tensor:
        shape = tensor.shape
        features = shape[-3] * shape[-2] * shape[-1]
        if features != self.transformation_matrix.shape[0]:
            raise ValueError(
                f"Input tensor and transformation matrix have incompatible shape.{list(shape[-3:])} != "
                f"{self.transformation_matrix.shape[0]}"
            )
        if tensor.device != self.mean_vector.device:
            raise ValueError(
                f"Input tensor should be on the same device as transformation matrix and mean vector. Got {tensor.device} "
                f"vs {self.mean_vector.device}"
            )
        flat = tensor.reshape(-1, features) - self.mean_vector
        return ops.mm(flat, self.transformation_matrix.to(flat.dtype)).reshape(shape)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(transformation_matrix={self.transformation_matrix.tolist()}, "
            f"mean_vector={self.mean_vector.tolist()})"
        )
