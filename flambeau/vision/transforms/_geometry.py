"""Transforms that move pixels: sizes, crops, flips, rotations, warps, and erased rectangles."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

from ... import nn
from ..._core.dtypes import float32
from ..._ops.registry import ops
from ..._tensor import Tensor
from . import functional as F
from .functional import InterpolationMode

_Fill = int | float | Sequence[float] | None


def setup_size(size: Any, error_msg: str = "Please provide only two dimensions (h, w) for size.") -> tuple[int, int]:
    """Height and width, from one number or a sequence of one or two."""
    if isinstance(size, numbers.Number):
        return int(size), int(size)  # type: ignore[call-overload]
    if isinstance(size, Sequence) and len(size) == 1:
        return size[0], size[0]
    if len(size) != 2:
        raise ValueError(error_msg)
    return size


def check_sequence(x: Any, name: str, sizes: Sequence[int] = (2,)) -> None:
    """Raises unless x is a sequence of one of these lengths."""
    lengths = " or ".join(str(n) for n in sizes)
    if not isinstance(x, Sequence):
        raise TypeError(f"{name} should be a sequence of length {lengths}.")
    if len(x) not in sizes:
        raise ValueError(f"{name} should be a sequence of length {lengths}.")


def setup_angle(x: Any, name: str, sizes: Sequence[int] = (2,)) -> list[float]:
    """A range of angles; one number stands for the range around zero."""
    if isinstance(x, numbers.Number):
        if x < 0:  # type: ignore[operator]
            raise ValueError(f"If {name} is a single number, it must be positive.")
        x = [-x, x]  # type: ignore[operator]
    else:
        check_sequence(x, name, sizes)
    return [float(d) for d in x]


def uniform(low: float, high: float) -> float:
    """A number between two others, from the global random stream."""
    return float(ops.empty(1).uniform_(float(low), float(high)).item())


def randint(low: int, high: int) -> int:
    """A whole number from `low` on and below `high`, from the global random stream."""
    return int(ops.randint(low, high, size=(1,)).item())


def fill_for(img: Any, fill: Any) -> Any:
    """For tensors, one number for each channel."""
    if not isinstance(img, Tensor) or fill is None:
        return fill
    channels = F.get_dimensions(img)[0]
    return [float(fill)] * channels if isinstance(fill, (int, float)) else [float(f) for f in fill]


class Resize(nn.Module):
    """The image in another size; one number is the length of the shorter edge.

    >>> import flambeau as torch
    >>> Resize(4)(torch.zeros(3, 8, 16)).shape
    torch.Size([3, 4, 8])
    """

    def __init__(
        self,
        size: int | Sequence[int],
        interpolation: InterpolationMode | int = InterpolationMode.BILINEAR,
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        if not isinstance(size, (int, Sequence)):
            raise TypeError(f"Size should be int or sequence. Got {type(size)}")
        if isinstance(size, Sequence) and len(size) not in (1, 2):
            raise ValueError("If size is a sequence, it should have 1 or 2 values")
        self.size = size
        self.max_size = max_size
        self.interpolation = F.interpolation_mode(interpolation)
        self.antialias = antialias

    def forward(self, img: Any) -> Any:
        return F.resize(img, self.size, self.interpolation, self.max_size, self.antialias)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(size={self.size}, interpolation={self.interpolation.value}, "
            f"max_size={self.max_size}, antialias={self.antialias})"
        )


class CenterCrop(nn.Module):
    """The middle of the image, padded with zeros where the image is smaller."""

    def __init__(self, size: int | Sequence[int]) -> None:
        super().__init__()
        self.size = setup_size(size)

    def forward(self, img: Any) -> Any:
        return F.center_crop(img, self.size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size})"


class Pad(nn.Module):
    """A border around the image."""

    def __init__(self, padding: int | Sequence[int], fill: _Fill = 0, padding_mode: str = "constant") -> None:
        super().__init__()
        F.check_padding(padding, 0 if fill is None else fill, padding_mode)
        self.padding = padding
        self.fill = fill
        self.padding_mode = padding_mode

    def forward(self, img: Any) -> Any:
        return F.pad(img, self.padding, self.fill, self.padding_mode)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(padding={self.padding}, fill={self.fill}, padding_mode={self.padding_mode})"


class RandomCrop(nn.Module):
    """A part of the image at a place of chance, after padding if asked for."""

    def __init__(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: _Fill = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__()
        self.size = tuple(setup_size(size))
        self.padding = padding
        self.pad_if_needed = pad_if_needed
        self.fill = fill
        self.padding_mode = padding_mode

    @staticmethod
    def get_params(img: Any, output_size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Top, left, height and width of a crop."""
        _, h, w = F.get_dimensions(img)
        height, width = output_size
        if h < height or w < width:
            raise ValueError(f"Required crop size {(height, width)} is larger than input image size {(h, w)}")
        if (h, w) == (height, width):
            return 0, 0, h, w
        top = randint(0, h - height + 1)
        return top, randint(0, w - width + 1), height, width

    def forward(self, img: Any) -> Any:
        if self.padding is not None:
            img = F.pad(img, self.padding, self.fill, self.padding_mode)
        _, h, w = F.get_dimensions(img)
        if self.pad_if_needed and w < self.size[1]:
            img = F.pad(img, [self.size[1] - w, 0], self.fill, self.padding_mode)
        if self.pad_if_needed and h < self.size[0]:
            img = F.pad(img, [0, self.size[0] - h], self.fill, self.padding_mode)
        return F.crop(img, *self.get_params(img, self.size))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size}, padding={self.padding})"


class RandomHorizontalFlip(nn.Module):
    """Left and right exchanged with probability p."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def forward(self, img: Any) -> Any:
        return F.hflip(img) if ops.rand(1) < self.p else img

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p})"


class RandomVerticalFlip(nn.Module):
    """Top and bottom exchanged with probability p."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def forward(self, img: Any) -> Any:
        return F.vflip(img) if ops.rand(1) < self.p else img

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p})"


class RandomPerspective(nn.Module):
    """The image as seen from elsewhere, with probability p."""

    def __init__(
        self,
        distortion_scale: float = 0.5,
        p: float = 0.5,
        interpolation: InterpolationMode | int = InterpolationMode.BILINEAR,
        fill: _Fill = 0,
    ) -> None:
        super().__init__()
        self.p = p
        self.distortion_scale = distortion_scale
        self.interpolation = F.interpolation_mode(interpolation)
        fill = 0 if fill is None else fill
        if not isinstance(fill, (Sequence, numbers.Number)):
            raise TypeError("Fill should be either a sequence or a number.")
        self.fill = fill

    @staticmethod
    def get_params(width: int, height: int, distortion_scale: float) -> tuple[list[list[int]], list[list[int]]]:
        """The corners of the image, and where they go."""
        x, y = int(distortion_scale * (width // 2)), int(distortion_scale * (height // 2))
        near_x, near_y, far_x, far_y = (0, x + 1), (0, y + 1), (width - x - 1, width), (height - y - 1, height)
        corners = ((near_x, near_y), (far_x, near_y), (far_x, far_y), (near_x, far_y))
        endpoints = [[randint(*horizontal), randint(*vertical)] for horizontal, vertical in corners]
        startpoints = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
        return startpoints, endpoints

    def forward(self, img: Any) -> Any:
        fill = fill_for(img, self.fill)
        _, h, w = F.get_dimensions(img)
        if ops.rand(1) < self.p:
            startpoints, endpoints = self.get_params(w, h, self.distortion_scale)
            return F.perspective(img, startpoints, endpoints, self.interpolation, fill)
        return img

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p})"


class RandomResizedCrop(nn.Module):
    """A part of the image of random area and aspect ratio, in a fixed size."""

    def __init__(
        self,
        size: int | Sequence[int],
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: InterpolationMode | int = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.size = setup_size(size)
        if not isinstance(scale, Sequence):
            raise TypeError("Scale should be a sequence")
        if not isinstance(ratio, Sequence):
            raise TypeError("Ratio should be a sequence")
        self.scale = scale
        self.ratio = ratio
        self.interpolation = F.interpolation_mode(interpolation)
        self.antialias = antialias

    @staticmethod
    def get_params(img: Any, scale: Sequence[float], ratio: Sequence[float]) -> tuple[int, int, int, int]:
        """Top, left, height and width of a crop."""
        _, height, width = F.get_dimensions(img)
        low, high = ops.log(ops.tensor(list(ratio))).tolist()
        for _ in range(10):
            area = height * width * uniform(scale[0], scale[1])
            aspect = ops.exp(ops.empty(1).uniform_(low, high)).item()
            w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if 0 < w <= width and 0 < h <= height:
                top = randint(0, height - h + 1)
                return top, randint(0, width - w + 1), h, w
        w, h = width, height  # the largest part in the middle that has a permitted ratio
        if width / height < min(ratio):
            h = round(w / min(ratio))
        elif width / height > max(ratio):
            w = round(h * max(ratio))
        return (height - h) // 2, (width - w) // 2, h, w

    def forward(self, img: Any) -> Any:
        top, left, h, w = self.get_params(img, self.scale, self.ratio)
        return F.resized_crop(img, top, left, h, w, self.size, self.interpolation, antialias=self.antialias)

    def __repr__(self) -> str:
        scale, ratio = (tuple(round(x, 4) for x in v) for v in (self.scale, self.ratio))
        return (
            f"{type(self).__name__}(size={self.size}, scale={scale}, ratio={ratio}, "
            f"interpolation={self.interpolation.value}, antialias={self.antialias})"
        )


class FiveCrop(nn.Module):
    """The four corners and the middle of an image."""

    def __init__(self, size: int | Sequence[int]) -> None:
        super().__init__()
        self.size = setup_size(size)

    def forward(self, img: Any) -> tuple[Any, ...]:
        return F.five_crop(img, self.size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size})"


class TenCrop(nn.Module):
    """The four corners and the middle of an image and of its mirror image."""

    def __init__(self, size: int | Sequence[int], vertical_flip: bool = False) -> None:
        super().__init__()
        self.size = setup_size(size)
        self.vertical_flip = vertical_flip

    def forward(self, img: Any) -> tuple[Any, ...]:
        return F.ten_crop(img, self.size, self.vertical_flip)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size}, vertical_flip={self.vertical_flip})"


class RandomRotation(nn.Module):
    """The image turned by an angle of chance."""

    def __init__(
        self,
        degrees: float | Sequence[float],
        interpolation: InterpolationMode | int = InterpolationMode.NEAREST,
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: _Fill = 0,
    ) -> None:
        super().__init__()
        self.degrees = setup_angle(degrees, "degrees")
        if center is not None:
            check_sequence(center, "center")
        self.interpolation = F.interpolation_mode(interpolation)
        self.expand = expand
        self.center = center
        fill = 0 if fill is None else fill
        if not isinstance(fill, (Sequence, numbers.Number)):
            raise TypeError("Fill should be either a sequence or a number.")
        self.fill = fill

    @staticmethod
    def get_params(degrees: Sequence[float]) -> float:
        """An angle."""
        return uniform(degrees[0], degrees[1])

    def forward(self, img: Any) -> Any:
        fill = fill_for(img, self.fill)
        return F.rotate(img, self.get_params(self.degrees), self.interpolation, self.expand, self.center, fill)

    def __repr__(self) -> str:
        center = f", center={self.center}" if self.center is not None else ""
        return (
            f"{type(self).__name__}(degrees={self.degrees}, interpolation={self.interpolation.value}, "
            f"expand={self.expand}{center}, fill={self.fill})"
        )


class RandomAffine(nn.Module):
    """The image rotated, translated, scaled and sheared by chance."""

    def __init__(
        self,
        degrees: float | Sequence[float],
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: float | Sequence[float] | None = None,
        interpolation: InterpolationMode | int = InterpolationMode.NEAREST,
        fill: _Fill = 0,
        center: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.degrees = setup_angle(degrees, "degrees")
        if translate is not None:
            check_sequence(translate, "translate")
            if any(not 0.0 <= t <= 1.0 for t in translate):
                raise ValueError("translation values should be between 0 and 1")
        self.translate = translate
        if scale is not None:
            check_sequence(scale, "scale")
            if any(s <= 0 for s in scale):
                raise ValueError("scale values should be positive")
        self.scale = scale
        self.shear = None if shear is None else setup_angle(shear, "shear", (2, 4))
        self.interpolation = F.interpolation_mode(interpolation)
        fill = 0 if fill is None else fill
        if not isinstance(fill, (Sequence, numbers.Number)):
            raise TypeError("Fill should be either a sequence or a number.")
        self.fill = fill
        if center is not None:
            check_sequence(center, "center")
        self.center = center

    @staticmethod
    def get_params(
        degrees: Sequence[float],
        translate: Sequence[float] | None,
        scale_ranges: Sequence[float] | None,
        shears: Sequence[float] | None,
        img_size: Sequence[int],
    ) -> tuple[float, tuple[int, int], float, tuple[float, float]]:
        """Angle, translations, scale and shears."""
        angle = uniform(degrees[0], degrees[1])
        moved = (0, 0)
        if translate is not None:
            x, y = float(translate[0] * img_size[0]), float(translate[1] * img_size[1])
            moved = (round(uniform(-x, x)), round(uniform(-y, y)))
        scale = 1.0 if scale_ranges is None else uniform(scale_ranges[0], scale_ranges[1])
        shear_x = shear_y = 0.0
        if shears is not None:
            shear_x = uniform(shears[0], shears[1])
            if len(shears) == 4:
                shear_y = uniform(shears[2], shears[3])
        return angle, moved, scale, (shear_x, shear_y)

    def forward(self, img: Any) -> Any:
        fill = fill_for(img, self.fill)
        _, h, w = F.get_dimensions(img)
        found = self.get_params(self.degrees, self.translate, self.scale, self.shear, [w, h])
        return F.affine(img, *found, interpolation=self.interpolation, fill=fill, center=self.center)

    def __repr__(self) -> str:
        text = f"{type(self).__name__}(degrees={self.degrees}"
        for name in ("translate", "scale", "shear"):
            value = getattr(self, name)
            text += f", {name}={value}" if value is not None else ""
        if self.interpolation is not InterpolationMode.NEAREST:
            text += f", interpolation={self.interpolation.value}"
        text += f", fill={self.fill}" if self.fill != 0 else ""
        text += f", center={self.center}" if self.center is not None else ""
        return text + ")"


class ElasticTransform(nn.Module):
    """The image as if drawn on cloth: every pixel moved by a smooth displacement of chance."""

    def __init__(
        self,
        alpha: float | Sequence[float] = 50.0,
        sigma: float | Sequence[float] = 5.0,
        interpolation: InterpolationMode | int = InterpolationMode.BILINEAR,
        fill: _Fill = 0,
    ) -> None:
        super().__init__()
        self.alpha = self._both(alpha, "alpha")
        self.sigma = self._both(sigma, "sigma")
        self.interpolation = F.interpolation_mode(interpolation)
        self.fill = [float(fill)] if isinstance(fill, (int, float)) else [float(f) for f in fill or (0,)]

    @staticmethod
    def _both(value: Any, name: str) -> list[float]:
        if not isinstance(value, (float, Sequence)):
            raise TypeError(f"{name} should be float or a sequence of floats. Got {type(value)}")
        if isinstance(value, Sequence):
            if len(value) not in (1, 2):
                raise ValueError(f"{name} is a sequence its length should be 1 or 2. Got {len(value)}")
            if any(not isinstance(v, float) for v in value):
                raise TypeError(f"{name} should be a sequence of floats. Got {value}")
        values = [float(value)] if isinstance(value, float) else list(value)
        return values * 2 if len(values) == 1 else values

    @staticmethod
    def get_params(alpha: Sequence[float], sigma: Sequence[float], size: Sequence[int]) -> Tensor:
        """The displacement (1, H, W, 2), in units of half the image."""
        both = []
        for strength, smoothness, n in zip(alpha, sigma, reversed(size)):
            d = ops.rand([1, 1, *size]) * 2 - 1
            if smoothness > 0.0:
                kernel = int(8 * smoothness + 1)
                kernel += kernel % 2 == 0
                d = F.gaussian_blur(d, [kernel, kernel], list(sigma))
            both.append(d * strength / n)
        return ops.cat(both, 1).permute(0, 2, 3, 1)

    def forward(self, img: Any) -> Any:
        _, h, w = F.get_dimensions(img)
        return F.elastic_transform(img, self.get_params(self.alpha, self.sigma, [h, w]), self.interpolation, self.fill)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(alpha={self.alpha}, sigma={self.sigma}, interpolation={self.interpolation}, "
            f"fill={self.fill})"
        )


class RandomErasing(nn.Module):
    """A rectangle of an image tensor overwritten, with probability p."""

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: float | str | Sequence[float] = 0,
        inplace: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(value, (numbers.Number, str, tuple, list)):
            raise TypeError("Argument value should be either a number or str or a sequence")
        if isinstance(value, str) and value != "random":
            raise ValueError("If value is str, it should be 'random'")
        if not isinstance(scale, Sequence):
            raise TypeError("Scale should be a sequence")
        if not isinstance(ratio, Sequence):
            raise TypeError("Ratio should be a sequence")
        if scale[0] < 0 or scale[1] > 1:
            raise ValueError("Scale should be between 0 and 1")
        if p < 0 or p > 1:
            raise ValueError("Random erasing probability should be between 0 and 1")
        self.p = p
        self.scale = scale
        self.ratio = ratio
        self.value = value
        self.inplace = inplace

    @staticmethod
    def find_rectangle(
        shape: Sequence[int], scale: Sequence[float], ratio: Sequence[float], value: Sequence[float] | None
    ) -> tuple[int, int, int, int, Tensor] | None:
        """Top, left, height, width and the new values; None where ten tries found no place."""
        channels, height, width = shape
        low, high = ops.log(ops.tensor(list(ratio))).tolist()
        for _ in range(10):
            area = height * width * uniform(scale[0], scale[1])
            aspect = ops.exp(ops.empty(1).uniform_(low, high)).item()
            h, w = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if h < height and w < width:
                if value is None:
                    new = ops.empty([channels, h, w], dtype=float32).normal_()
                else:
                    new = ops.tensor(list(value))[:, None, None]
                top = randint(0, height - h + 1)
                return top, randint(0, width - w + 1), h, w, new
        return None

    @classmethod
    def get_params(
        cls, img: Tensor, scale: Sequence[float], ratio: Sequence[float], value: Sequence[float] | None = None
    ) -> tuple[int, int, int, int, Tensor]:
        """Top, left, height, width and the new values; the image itself where no place was found."""
        shape = img.shape[-3:]
        return cls.find_rectangle(shape, scale, ratio, value) or (0, 0, shape[1], shape[2], img)

    def forward(self, img: Tensor) -> Tensor:
        if ops.rand(1) < self.p:
            value: Any = self.value
            if isinstance(value, (int, float)):
                value = [float(value)]
            elif isinstance(value, str):
                value = None
            elif isinstance(value, (list, tuple)):
                value = [float(v) for v in value]
            if value is not None and len(value) not in (1, img.shape[-3]):
                raise ValueError(
                    "If value is a sequence, it should have either a single value or "
                    f"{img.shape[-3]} (number of input channels)"
                )
            return F.erase(img, *self.get_params(img, self.scale, self.ratio, value), self.inplace)
        return img

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(p={self.p}, scale={self.scale}, ratio={self.ratio}, value={self.value}, "
            f"inplace={self.inplace})"
        )
