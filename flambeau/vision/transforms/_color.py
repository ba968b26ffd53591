"""Transforms that change values and leave pixels where they are: colours, blur, contrast."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

from ... import nn
from ..._ops.registry import ops
from ..._tensor import Tensor
from . import functional as F
from ._geometry import setup_size, uniform

_Range = float | tuple[float, float]


def factor_range(
    value: Any, name: str, center: float = 1, bound: tuple[float, float] = (0, math.inf), clip: bool = True
) -> tuple[float, float] | None:
    """The range of a factor; one number stands for the range around `center`; None where nothing would change."""
    if isinstance(value, numbers.Number):
        if value < 0:  # type: ignore[operator]
            raise ValueError(f"If {name} is a single number, it must be non negative.")
        low, high = center - float(value), center + float(value)  # type: ignore[arg-type]
        low = max(low, 0.0) if clip else low
    elif isinstance(value, (tuple, list)) and len(value) == 2:
        low, high = float(value[0]), float(value[1])
    else:
        raise TypeError(f"{name} should be a single number or a list/tuple with length 2.")
    if not bound[0] <= low <= high <= bound[1]:
        raise ValueError(f"{name} values should be between {bound}, but got {[low, high]}.")
    return None if low == high == center else (low, high)


class ColorJitter(nn.Module):
    """Brightness, contrast, saturation and hue changed by chance, in an order of chance."""

    def __init__(self, brightness: _Range = 0, contrast: _Range = 0, saturation: _Range = 0, hue: _Range = 0) -> None:
        super().__init__()
        self.brightness = factor_range(brightness, "brightness")
        self.contrast = factor_range(contrast, "contrast")
        self.saturation = factor_range(saturation, "saturation")
        self.hue = factor_range(hue, "hue", center=0, bound=(-0.5, 0.5), clip=False)

    @staticmethod
    def get_params(
        brightness: Sequence[float] | None,
        contrast: Sequence[float] | None,
        saturation: Sequence[float] | None,
        hue: Sequence[float] | None,
    ) -> tuple[Tensor, float | None, float | None, float | None, float | None]:
        """The order of the changes, and their factors."""
        order = ops.randperm(4)
        b, c, s, h = (None if r is None else uniform(r[0], r[1]) for r in (brightness, contrast, saturation, hue))
        return order, b, c, s, h

    def forward(self, img: Any) -> Any:
        order, *factors = self.get_params(self.brightness, self.contrast, self.saturation, self.hue)
        changes = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)
        for i in order.tolist():
            if factors[i] is not None:
                img = changes[i](img, factors[i])
        return img

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(brightness={self.brightness}, contrast={self.contrast}, "
            f"saturation={self.saturation}, hue={self.hue})"
        )


class Grayscale(nn.Module):
    """The grey version of an image."""

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        self.num_output_channels = num_output_channels

    def forward(self, img: Any) -> Any:
        return F.rgb_to_grayscale(img, num_output_channels=self.num_output_channels)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_output_channels={self.num_output_channels})"


class RandomGrayscale(nn.Module):
    """The grey version of an image with probability p; the number of channels stays."""

    def __init__(self, p: float = 0.1) -> None:
        super().__init__()
        self.p = p

    def forward(self, img: Any) -> Any:
        channels = F.get_dimensions(img)[0]
        return F.rgb_to_grayscale(img, num_output_channels=channels) if ops.rand(1) < self.p else img

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p})"


class GaussianBlur(nn.Module):
    """The image smoothed with a Gaussian of a width of chance."""

    def __init__(self, kernel_size: int | Sequence[int], sigma: float | Sequence[float] = (0.1, 2.0)) -> None:
        super().__init__()
        self.kernel_size = setup_size(kernel_size, "Kernel size should be a tuple/list of two integers")
        if any(k <= 0 or k % 2 == 0 for k in self.kernel_size):
            raise ValueError("Kernel size value should be an odd and positive number.")
        if isinstance(sigma, numbers.Number):
            if sigma <= 0:  # type: ignore[operator]
                raise ValueError("If sigma is a single number, it must be positive.")
            sigma = (sigma, sigma)  # type: ignore[assignment]
        elif isinstance(sigma, Sequence) and len(sigma) == 2:
            if not 0.0 < sigma[0] <= sigma[1]:
                raise ValueError("sigma values should be positive and of the form (min, max).")
        else:
            raise ValueError("sigma should be a single number or a list/tuple with length 2.")
        self.sigma: Sequence[float] = sigma  # type: ignore[assignment]

    @staticmethod
    def get_params(sigma_min: float, sigma_max: float) -> float:
        """The width of the Gaussian."""
        return uniform(sigma_min, sigma_max)

    def forward(self, img: Any) -> Any:
        sigma = self.get_params(self.sigma[0], self.sigma[1])
        return F.gaussian_blur(img, self.kernel_size, [sigma, sigma])

    def __repr__(self) -> str:
        return f"{type(self).__name__}(kernel_size={self.kernel_size}, sigma={self.sigma})"


class _WithChance(nn.Module):
    """Base of the transforms that change an image with probability p, with one argument or none."""

    argument: str | None = None

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def change(self, img: Any) -> Any:
        raise NotImplementedError

    def forward(self, img: Any) -> Any:
        return self.change(img) if ops.rand(1).item() < self.p else img

    def __repr__(self) -> str:
        argument = f"{self.argument}={getattr(self, self.argument)}," if self.argument else ""
        return f"{type(self).__name__}({argument}p={self.p})"


class RandomInvert(_WithChance):
    """The negative with probability p."""

    def change(self, img: Any) -> Any:
        return F.invert(img)


class RandomPosterize(_WithChance):
    """Only the highest bits of the values, with probability p."""

    argument = "bits"

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(p)
        self.bits = bits

    def change(self, img: Any) -> Any:
        return F.posterize(img, self.bits)


class RandomSolarize(_WithChance):
    """The values from a threshold on inverted, with probability p."""

    argument = "threshold"

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.threshold = threshold

    def change(self, img: Any) -> Any:
        return F.solarize(img, self.threshold)


class RandomAdjustSharpness(_WithChance):
    """Sharper or smoother with probability p."""

    argument = "sharpness_factor"

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.sharpness_factor = sharpness_factor

    def change(self, img: Any) -> Any:
        return F.adjust_sharpness(img, self.sharpness_factor)


class RandomAutocontrast(_WithChance):
    """Every channel stretched to the full range, with probability p."""

    def change(self, img: Any) -> Any:
        return F.autocontrast(img)


class RandomEqualize(_WithChance):
    """A flatter histogram with probability p."""

    def change(self, img: Any) -> Any:
        return F.equalize(img)
