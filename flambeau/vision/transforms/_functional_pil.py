"""Image functions on images of pillow, mostly by its own operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._images import pillow
from ._color_tensor import check_factor


def get_dimensions(img: Any) -> list[int]:
    """Channels, height and width."""
    width, height = img.size
    return [len(img.getbands()), height, width]


def get_image_size(img: Any) -> list[int]:
    """Width and height."""
    return list(img.size)


def get_image_num_channels(img: Any) -> int:
    """The number of channels."""
    return len(img.getbands())


def hflip(img: Any) -> Any:
    return img.transpose(pillow().Transpose.FLIP_LEFT_RIGHT)


def vflip(img: Any) -> Any:
    return img.transpose(pillow().Transpose.FLIP_TOP_BOTTOM)


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    return pillow("ImageEnhance").Brightness(img).enhance(brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    return pillow("ImageEnhance").Contrast(img).enhance(contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    return pillow("ImageEnhance").Color(img).enhance(saturation_factor)


def adjust_sharpness(img: Any, sharpness_factor: float) -> Any:
    return pillow("ImageEnhance").Sharpness(img).enhance(sharpness_factor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    mode = img.mode
    if mode in {"L", "1", "I", "F"}:
        return img
    hue, saturation, value = img.convert("HSV").split()
    turned = np.array(hue, dtype=np.uint8) + np.uint8(int(hue_factor * 255) % 256)  # wraps around
    return pillow().merge("HSV", (pillow().fromarray(turned), saturation, value)).convert(mode)


def adjust_gamma(img: Any, gamma: float, gain: float = 1) -> Any:
    check_factor("gamma", gamma)
    mode = img.mode
    table = [int((255 + 1 - 1e-3) * gain * pow(value / 255.0, gamma)) for value in range(256)]
    img = img.convert("RGB")
    return img.point(table * 3).convert(mode)


def pad(
    img: Any, padding: int | Sequence[int], fill: float | Sequence[float] | None = 0, padding_mode: str = "constant"
) -> Any:
    left, top, right, bottom = _sides(padding)
    if padding_mode == "constant":
        options = _fill_option(fill, img, "fill")
        if img.mode == "P":
            palette = img.getpalette()
            image = pillow("ImageOps").expand(img, border=(left, top, right, bottom), **options)
            image.putpalette(palette)
            return image
        return pillow("ImageOps").expand(img, border=(left, top, right, bottom), **options)
    cut = [max(-n, 0) for n in (left, top, right, bottom)]
    if any(cut):
        img = img.crop((cut[0], cut[1], img.width - cut[2], img.height - cut[3]))
        left, top, right, bottom = (max(n, 0) for n in (left, top, right, bottom))
    pixels = np.asarray(img)
    sides = ((top, bottom), (left, right)) + ((0, 0),) * (pixels.ndim - 2)
    result = pillow().fromarray(np.pad(pixels, sides, mode=padding_mode))  # type: ignore[call-overload]
    if img.mode == "P":
        result.putpalette(img.getpalette())
    return result


def _sides(padding: int | Sequence[int]) -> tuple[int, int, int, int]:
    """Left, top, right and bottom, from one, two or four numbers."""
    if isinstance(padding, int):
        return (padding,) * 4
    if len(padding) == 1:
        return (padding[0],) * 4
    if len(padding) == 2:
        return padding[0], padding[1], padding[0], padding[1]
    return tuple(padding)  # type: ignore[return-value]


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    return img.crop((left, top, left + width, top + height))


def resize(img: Any, size: Sequence[int], interpolation: int = 2) -> Any:
    if not (isinstance(size, Sequence) and len(size) == 2):
        raise TypeError(f"Got inappropriate size arg: {size}")
    return img.resize(tuple(size[::-1]), interpolation)


def _fill_option(fill: Any, img: Any, name: str = "fillcolor") -> dict[str, Any]:
    """The colour for what lies outside of an image, in the form that pillow wants."""
    bands = len(img.getbands())
    if fill is None:
        fill = 0
    if isinstance(fill, (int, float)) and bands > 1:
        fill = (fill,) * bands
    if isinstance(fill, (list, tuple)):
        if len(fill) == 1:
            fill = tuple(fill) * bands
        elif len(fill) != bands:
            raise ValueError(
                f"The number of elements in 'fill' does not match the number of channels of the image ({len(fill)} != {bands})"
            )
        fill = tuple(fill)
    if img.mode != "F":
        fill = tuple(int(x) for x in fill) if isinstance(fill, tuple) else int(fill)
    if isinstance(fill, tuple) and len(fill) == 1:
        fill = fill[0]
    return {name: fill}


def affine(img: Any, matrix: Sequence[float], interpolation: int = 0, fill: Any = None) -> Any:
    size = img.size
    return img.transform(size, pillow().Transform.AFFINE, matrix, interpolation, **_fill_option(fill, img))


def rotate(
    img: Any, angle: float, interpolation: int = 0, expand: bool = False, center: Any = None, fill: Any = None
) -> Any:
    return img.rotate(angle, interpolation, expand, center, **_fill_option(fill, img))


def perspective(img: Any, perspective_coeffs: Sequence[float], interpolation: int = 3, fill: Any = None) -> Any:
    options = _fill_option(fill, img)
    return img.transform(img.size, pillow().Transform.PERSPECTIVE, perspective_coeffs, interpolation, **options)


def to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    gray = img.convert("L")
    return gray if num_output_channels == 1 else pillow().merge("RGB", [gray] * 3)


rgb_to_grayscale = to_grayscale


def invert(img: Any) -> Any:
    return pillow("ImageOps").invert(img)


def posterize(img: Any, bits: int) -> Any:
    return pillow("ImageOps").posterize(img, bits)


def solarize(img: Any, threshold: int) -> Any:
    return pillow("ImageOps").solarize(img, threshold)


def autocontrast(img: Any) -> Any:
    return pillow("ImageOps").autocontrast(img)


def equalize(img: Any) -> Any:
    return pillow("ImageOps").equalize(img)
