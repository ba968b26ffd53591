"""Transforms that change the values of images; masks and boxes stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...._ops.registry import ops
from .. import _color as v1
from .._geometry import uniform
from . import functional as F
from ._transform import RandomApplied, Transform, query_chw


class Grayscale(Transform, v1.Grayscale):
    """The grey version of images."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.call(F.rgb_to_grayscale, inpt, num_output_channels=self.num_output_channels)


class RandomGrayscale(RandomApplied):
    """The grey version of images with probability p; the number of channels stays."""

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"num_output_channels": query_chw(flat_inputs)[0]}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.call(F.rgb_to_grayscale, inpt, **params)


class ColorJitter(Transform, v1.ColorJitter):
    """Brightness, contrast, saturation and hue changed by chance, in an order of chance."""

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        order, *factors = self.get_params(self.brightness, self.contrast, self.saturation, self.hue)
        return {"order": order.tolist(), "factors": factors}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        changes = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)
        for i in params["order"]:
            if params["factors"][i] is not None:
                inpt = self.call(changes[i], inpt, params["factors"][i])
        return inpt


class RandomChannelPermutation(Transform):
    """The channels in an order of chance."""

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"permutation": ops.randperm(query_chw(flat_inputs)[0]).tolist()}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.call(F.permute_channels, inpt, **params)


class RandomPhotometricDistort(Transform):
    """Brightness, contrast, saturation, hue and the order of channels changed, each with probability p."""

    def __init__(
        self,
        brightness: tuple[float, float] = (0.875, 1.125),
        contrast: tuple[float, float] = (0.5, 1.5),
        saturation: tuple[float, float] = (0.5, 1.5),
        hue: tuple[float, float] = (-0.05, 0.05),
        p: float = 0.5,
    ) -> None:
        super().__init__()
        self.brightness = brightness
        self.contrast = contrast
        self.hue = hue
        self.saturation = saturation
        self.p = p

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        params: dict[str, Any] = {}
        for name in ("brightness", "contrast", "saturation", "hue"):
            params[name] = uniform(*getattr(self, name)) if ops.rand(1) < self.p else None
        params["contrast_first"] = bool(ops.rand(()) < 0.5)
        channels = query_chw(flat_inputs)[0]
        params["permutation"] = ops.randperm(channels).tolist() if ops.rand(1) < self.p else None
        return params

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        order = ["brightness", "saturation", "hue"]
        order.insert(1 if params["contrast_first"] else 3, "contrast")
        for name in order:
            if params[name] is not None:
                inpt = self.call(getattr(F, f"adjust_{name}"), inpt, params[name])
        if params["permutation"] is not None:
            inpt = self.call(F.permute_channels, inpt, permutation=params["permutation"])
        return inpt


class GaussianBlur(Transform, v1.GaussianBlur):
    """Smoothed with a Gaussian of a width of chance."""

    def __init__(self, kernel_size: int | Sequence[int], sigma: float | Sequence[float] = (0.1, 2.0)) -> None:
        v1.GaussianBlur.__init__(self, kernel_size, sigma)
        self.sigma = [float(s) for s in self.sigma]

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        sigma = self.get_params(self.sigma[0], self.sigma[1])
        return {"sigma": [sigma, sigma]}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.call(F.gaussian_blur, inpt, self.kernel_size, **params)


class GaussianNoise(Transform):
    """Normal noise added."""

    def __init__(self, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> None:
        super().__init__()
        self.mean = mean
        self.sigma = sigma
        self.clip = clip

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.call(F.gaussian_noise, inpt, mean=self.mean, sigma=self.sigma, clip=self.clip)


class RandomInvert(RandomApplied):
    """The negative with probability p."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.call(F.invert, inpt)


class RandomPosterize(RandomApplied):
    """Only the highest bits of the values, with probability p."""

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(p)
        self.bits = bits

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.call(F.posterize, inpt, bits=self.bits)


class RandomSolarize(RandomApplied):
    """The values from a threshold on inverted, with probability p."""

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.threshold = threshold

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.call(F.solarize, inpt, threshold=self.threshold)


class RandomAdjustSharpness(RandomApplied):
    """Sharper or smoother with probability p."""

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.sharpness_factor = sharpness_factor

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.call(F.adjust_sharpness, inpt, sharpness_factor=self.sharpness_factor)


class RandomAutocontrast(RandomApplied):
    """Every channel stretched to the full range, with probability p."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.call(F.autocontrast, inpt)


class RandomEqualize(RandomApplied):
    """A flatter histogram with probability p."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.call(F.equalize, inpt)
