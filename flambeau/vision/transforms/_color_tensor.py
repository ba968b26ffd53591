"""Image functions on tensors of shape (..., C, H, W): dtypes, colours, brightness, histograms."""

from __future__ import annotations

from collections.abc import Sequence

from ..._core.dtypes import BOOL, FLOATING, float32, float64, int32, int64, uint8
from ..._core.dtypes import dtype as DType
from ..._core.info import iinfo
from ..._ops.registry import ops
from ..._tensor import Tensor
from ...nn import functional as F


def max_value(dtype: DType) -> int:
    """What white is in an image of this dtype."""
    return 1 if dtype.category in (FLOATING, BOOL) else iinfo(dtype).max


def channels_of(img: Tensor) -> int:
    """The number of channels; an image of two dimensions has one."""
    return 1 if img.ndim == 2 else img.shape[-3]


def _check_channels(img: Tensor, permitted: Sequence[int]) -> None:
    if channels_of(img) not in permitted:
        raise TypeError(
            f"Input image tensor permitted channel values are {list(permitted)}, but found {channels_of(img)}"
        )


def convert_image_dtype(image: Tensor, dtype: DType = float32) -> Tensor:
    """The image in another dtype, its values scaled to that dtype's range."""
    if image.dtype is dtype:
        return image
    if image.dtype.category == FLOATING:
        if dtype.category == FLOATING:
            return image.to(dtype)
        if (image.dtype is float32 and dtype in (int32, int64)) or (image.dtype is float64 and dtype is int64):
            raise RuntimeError(f"The cast from {image.dtype} to {dtype} cannot be performed safely.")
        return image.mul(max_value(dtype) + 1.0 - 1e-3).to(dtype)  # every integer gets an interval of equal size
    largest = max_value(image.dtype)
    if dtype.category == FLOATING:
        return image.to(dtype) / largest
    wanted = max_value(dtype)
    if largest > wanted:
        return (image // ((largest + 1) // (wanted + 1))).to(dtype)
    return image.to(dtype) * ((wanted + 1) // (largest + 1))


def rgb_to_grayscale(img: Tensor, num_output_channels: int = 1) -> Tensor:
    """The luminance of an image of three channels; repeated in three channels if asked for."""
    if img.ndim < 3:
        raise TypeError(f"Input image tensor should have at least 3 dimensions, but found {img.ndim}")
    _check_channels(img, (1, 3))
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    if img.shape[-3] == 1:
        return img.clone()
    r, g, b = img.unbind(-3)
    gray = (0.2989 * r + 0.587 * g + 0.114 * b).to(img.dtype).unsqueeze(-3)
    return gray.expand(*img.shape[:-3], 3, *img.shape[-2:]) if num_output_channels == 3 else gray


def blend(img: Tensor, other: Tensor, ratio: float) -> Tensor:
    """`ratio` of the image and the rest of the other, within the range of the dtype."""
    ratio = float(ratio)
    return (ratio * img + (1.0 - ratio) * other).clamp(0, max_value(img.dtype)).to(img.dtype)


def check_factor(name: str, factor: float) -> None:
    if factor < 0:
        raise ValueError(f"{name} ({factor}) is not non-negative.")


def adjust_brightness(img: Tensor, brightness_factor: float) -> Tensor:
    """0 gives black, 1 the image, 2 twice its brightness."""
    check_factor("brightness_factor", brightness_factor)
    _check_channels(img, (1, 3))
    return blend(img, ops.zeros_like(img), brightness_factor)


def adjust_contrast(img: Tensor, contrast_factor: float) -> Tensor:
    """0 gives the mean, 1 the image, 2 twice the distance from the mean."""
    check_factor("contrast_factor", contrast_factor)
    _check_channels(img, (1, 3))
    dtype = img.dtype if img.dtype.category == FLOATING else float32
    gray = rgb_to_grayscale(img) if channels_of(img) == 3 else img
    return blend(img, gray.to(dtype).mean(dim=(-3, -2, -1), keepdim=True), contrast_factor)


def adjust_saturation(img: Tensor, saturation_factor: float) -> Tensor:
    """0 gives grey, 1 the image, 2 twice its colour."""
    check_factor("saturation_factor", saturation_factor)
    _check_channels(img, (1, 3))
    return img if channels_of(img) == 1 else blend(img, rgb_to_grayscale(img), saturation_factor)


def adjust_hue(img: Tensor, hue_factor: float) -> Tensor:
    """The image with its hues turned by a part of the colour circle."""
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    _check_channels(img, (1, 3))
    if channels_of(img) == 1:
        return img
    hue, saturation, value = _to_hsv(convert_image_dtype(img, float32) if img.dtype is uint8 else img)
    return convert_image_dtype(_from_hsv((hue + hue_factor) % 1.0, saturation, value), img.dtype)


def _to_hsv(img: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r, g, b = img.unbind(-3)
    high, low = img.amax(-3), img.amin(-3)
    gray = high == low
    one = ops.ones_like(high)
    spread = high - low
    saturation = spread / ops.where(gray, one, high)
    divisor = ops.where(gray, one, spread)
    red, green, blue = (high - r) / divisor, (high - g) / divisor, (high - b) / divisor
    is_red = high == r
    is_green = (high == g) & ~is_red
    hue = is_red * (blue - green) + is_green * (2.0 + red - blue) + ~(is_red | is_green) * (4.0 + green - red)
    return ops.fmod(hue / 6.0 + 1.0, 1.0), saturation, high


def _from_hsv(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    sector = ops.floor(hue * 6.0)
    f = hue * 6.0 - sector
    p = (value * (1.0 - saturation)).clamp(0.0, 1.0)
    q = (value * (1.0 - saturation * f)).clamp(0.0, 1.0)
    t = (value * (1.0 - saturation * (1.0 - f))).clamp(0.0, 1.0)
    index = (sector.to(int64) % 6).unsqueeze(0)
    by_sector = ((value, q, p, p, t, value), (t, value, value, q, p, p), (p, p, t, value, value, q))
    return ops.stack([ops.stack(choices).gather(0, index).squeeze(0) for choices in by_sector], -3)


def adjust_gamma(img: Tensor, gamma: float, gain: float = 1) -> Tensor:
    """gain * img ** gamma, of values within [0, 1]."""
    check_factor("gamma", gamma)
    result = img if img.dtype.category == FLOATING else convert_image_dtype(img, float32)
    return convert_image_dtype((gain * result**gamma).clamp(0, 1), img.dtype)


def invert(img: Tensor) -> Tensor:
    """The negative of an image."""
    _check_dimensions(img)
    _check_channels(img, (1, 3))
    return max_value(img.dtype) - img


def _check_dimensions(img: Tensor) -> None:
    if img.ndim < 3:
        raise TypeError(f"Input image tensor should have at least 3 dimensions, but found {img.ndim}")


def posterize(img: Tensor, bits: int) -> Tensor:
    """The image with only the highest bits of its values."""
    _check_dimensions(img)
    if img.dtype is not uint8:
        raise TypeError(f"Only torch.uint8 image tensors are supported, but found {img.dtype}")
    _check_channels(img, (1, 3))
    return img & (256 - (1 << (8 - bits)))


def solarize(img: Tensor, threshold: float) -> Tensor:
    """The image with the values from a threshold on inverted."""
    _check_dimensions(img)
    _check_channels(img, (1, 3))
    if threshold > max_value(img.dtype):
        raise TypeError("Threshold should be less than bound of img.")
    return ops.where(img >= threshold, invert(img), img)


def autocontrast(img: Tensor) -> Tensor:
    """Every channel stretched to the full range."""
    _check_dimensions(img)
    _check_channels(img, (1, 3))
    bound = max_value(img.dtype)
    dtype = img.dtype if img.dtype.category == FLOATING else float32
    low = img.amin(dim=(-2, -1), keepdim=True).to(dtype)
    high = img.amax(dim=(-2, -1), keepdim=True).to(dtype)
    flat = high == low
    one = ops.ones_like(low)
    scale = ops.where(flat, one, ops.where(flat, one, high - low).reciprocal() * bound)
    low = ops.where(flat, ops.zeros_like(low), low)
    return ((img - low) * scale).clamp(0, bound).to(img.dtype)


def equalize(img: Tensor) -> Tensor:
    """Every channel with a histogram that is as flat as a map of its values can make it."""
    _check_channels(img, (1, 3))
    if img.dtype is not uint8:
        raise TypeError(f"Only torch.uint8 image tensors are supported, but found {img.dtype}")
    if img.numel() == 0:
        return img
    planes = img.reshape(-1, img.shape[-2] * img.shape[-1]).to(int64)
    counts = ops.zeros((planes.shape[0], 256), dtype=int64, device=img.device).scatter_add_(
        1, planes, ops.ones_like(planes)
    )
    last = planes.amax(1, keepdim=True)  # its pixels do not count for the step
    step = (planes.shape[1] - counts.gather(1, last)) // 255
    table = (counts.cumsum(1) + step // 2) // step.clamp(min=1)
    table = F.pad(table, [1, 0])[:, :-1].clamp(0, 255)
    mapped = ops.where(step == 0, planes, table.gather(1, planes))
    return mapped.to(uint8).reshape(img.shape)


def normalize(tensor: Tensor, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> Tensor:
    """(tensor - mean) / std, channel by channel."""
    if tensor.dtype.category != FLOATING:
        raise TypeError(f"Input tensor should be a float tensor. Got {tensor.dtype}.")
    if tensor.ndim < 3:
        raise ValueError(
            f"Expected tensor to be a tensor image of size (..., C, H, W). Got tensor.size() = {tensor.size()}"
        )
    shift, scale = (ops.as_tensor(v, dtype=tensor.dtype, device=tensor.device) for v in (mean, std))
    if (scale == 0).any():
        raise ValueError(f"std evaluated to zero after conversion to {tensor.dtype}, leading to division by zero.")
    shift, scale = (v.view(-1, 1, 1) if v.ndim == 1 else v for v in (shift, scale))
    if inplace:
        return tensor.sub_(shift).div_(scale)
    return tensor.sub(shift).div_(scale)
