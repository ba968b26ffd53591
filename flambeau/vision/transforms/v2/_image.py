"""Functions of images that the second generation computes otherwise than the first: other dtypes, other roundings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...._core.dtypes import FLOATING, float32, int64, uint8
from ...._ops.registry import ops
from ...._tensor import Tensor
from ....nn import functional as NF
from ..._images import is_pil
from .. import _functional_tensor as F_t
from .. import functional as F1
from .._color_tensor import channels_of, max_value
from ..functional import InterpolationMode

_NATIVE = (InterpolationMode.BILINEAR, InterpolationMode.BICUBIC)


def resize(
    image: Any,
    size: int | Sequence[int] | None,
    interpolation: InterpolationMode | int = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Any:
    """The image in another size; one number is the length of the shorter edge, None makes the longer one `max_size`."""
    _, h, w = F1.get_dimensions(image)
    wanted = F1.resized_size((h, w), [size] if isinstance(size, int) else size, max_size, allow_none=True)
    mode = F1.interpolation_mode(interpolation)
    if isinstance(image, Tensor) and image.dtype is uint8 and mode in _NATIVE and wanted != [h, w]:
        images, back = F_t.to_batch(image, [float32])
        for shape in ((h, wanted[1]), wanted):  # rounded to whole numbers after each direction, halves upwards
            if tuple(shape) != tuple(images.shape[-2:]):
                options = {"align_corners": False, "antialias": bool(antialias)}
                images = NF.interpolate(images, size=tuple(shape), mode=mode.value, **options)
                images = images.add(0.5).floor().clamp(0, 255)
        return back(images)
    return F1.resize(image, wanted, mode, antialias=True if is_pil(image) else antialias)


def pad(image: Any, padding: Any, fill: Any = None, padding_mode: str = "constant") -> Any:
    """Adds a border; a tensor may have a colour for it."""
    if isinstance(image, Tensor) and padding_mode == "constant" and isinstance(fill, (list, tuple)) and len(fill) > 1:
        F1.check_padding(padding, fill, padding_mode)
        left, right, top, bottom = F_t.parse_padding(padding)
        inside = ops.ones(image.shape[-2:], dtype=uint8, device=image.device)
        color = ops.tensor(list(fill), dtype=image.dtype, device=image.device)[:, None, None]
        return ops.where(NF.pad(inside, [left, right, top, bottom]).bool(), F_t.pad(image, padding), color)
    return F1.pad(image, padding, 0 if fill is None else fill, padding_mode)


def _luminance(image: Tensor) -> Tensor:
    r, g, b = image.unbind(-3)
    return r.mul(0.2989).add(g, alpha=0.587).add(b, alpha=0.114).unsqueeze(-3)


def rgb_to_grayscale(image: Any, num_output_channels: int = 1) -> Any:
    """The grey version of an image, with one or three channels."""
    if is_pil(image):
        return F1.rgb_to_grayscale(image, num_output_channels)
    if num_output_channels not in (1, 3):
        raise ValueError(f"num_output_channels must be 1 or 3, got {num_output_channels}.")
    if channels_of(image) not in (1, 3):
        raise TypeError(f"Input image tensor permitted channel values are 1 or 3, but found {channels_of(image)}")
    gray = image if image.shape[-3] == 1 else _luminance(image).to(image.dtype)
    return gray.expand(*gray.shape[:-3], 3, *gray.shape[-2:]) if num_output_channels == 3 else gray.clone()


def grayscale_to_rgb(image: Any) -> Any:
    """A grey image with three channels."""
    if is_pil(image):
        return image.convert("RGB")
    return image if image.shape[-3] == 3 else image.expand(*image.shape[:-3], 3, *image.shape[-2:])


def adjust_saturation(image: Any, saturation_factor: float) -> Any:
    """0 gives grey, 1 the image, 2 twice its colour."""
    if is_pil(image) or channels_of(image) != 3 or saturation_factor < 0:
        return F1.adjust_saturation(image, saturation_factor)
    floating = image.dtype.category == FLOATING
    gray = _luminance(image) if floating else _luminance(image).floor()
    mixed = image.mul(saturation_factor).add(gray, alpha=1.0 - saturation_factor)
    return mixed.clamp(0, max_value(image.dtype)).to(image.dtype)


def autocontrast(image: Any) -> Any:
    """Every channel stretched to the full range."""
    if is_pil(image) or image.numel() == 0:
        return F1.autocontrast(image) if is_pil(image) else image
    bound = max_value(image.dtype)
    wide = image if image.dtype.category == FLOATING else image.to(float32)
    low, high = wide.amin((-2, -1), keepdim=True), wide.amax((-2, -1), keepdim=True)
    flat = low == high
    spread = ops.where(flat, ops.ones_like(low), (high - low) * (1.0 / bound))
    low = ops.where(flat, ops.zeros_like(low), low)
    return ((wide - low) / spread).clamp(0, bound).to(image.dtype)


def posterize(image: Any, bits: int) -> Any:
    """The image with only the highest bits of its values, or as many levels of [0, 1] as these make."""
    if isinstance(image, Tensor) and image.dtype.category == FLOATING:
        levels = 1 << bits
        return image.mul(levels).floor().clamp(0, levels - 1).mul(1.0 / levels)
    return F1.posterize(image, bits)


def equalize(image: Any) -> Any:
    """The image with as flat a histogram as a map of its values (in 256 steps) can make."""
    if isinstance(image, Tensor) and image.dtype is not uint8:
        whole = F1.convert_image_dtype(image, uint8)
        return F1.convert_image_dtype(F1.equalize(whole), image.dtype)
    return F1.equalize(image)


def gaussian_noise(image: Tensor, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> Tensor:
    """The image with normal noise added."""
    if not isinstance(image, Tensor) or not (image.dtype.category == FLOATING or image.dtype is uint8):
        raise ValueError("gaussian noise needs a tensor of floats or of uint8")
    if sigma < 0:
        raise ValueError(f"sigma shouldn't be negative. Got {sigma}")
    if image.dtype is uint8:
        noise = (ops.randn_like(image, dtype=float32) * sigma + mean) * 255
        out = image + noise.to(int64)
        return (out.clamp(0, 255) if clip else out).to(uint8)
    out = image + (mean + ops.randn_like(image) * sigma)
    return out.clamp(0, 1) if clip else out


def permute_channels(image: Any, permutation: Sequence[int]) -> Any:
    """The image with its channels in another order."""
    tensor = image if isinstance(image, Tensor) else F1.pil_to_tensor(image)
    if tensor.shape[-3] != len(permutation):
        raise ValueError(f"Length of permutation should be equal to number of channels {tensor.shape[-3]}")
    out = tensor[..., list(permutation), :, :]
    return out if isinstance(image, Tensor) else F1.to_pil_image(out)


def perspective(
    image: Any,
    startpoints: Any,
    endpoints: Any,
    interpolation: InterpolationMode | int = InterpolationMode.BILINEAR,
    fill: Any = None,
    coefficients: Sequence[float] | None = None,
) -> Any:
    """The image under the projective map of four points to four others, or of eight numbers."""
    if coefficients is None:
        return F1.perspective(image, startpoints, endpoints, interpolation, fill)
    if startpoints is not None and endpoints is not None:
        raise ValueError("The startpoints/endpoints and the coefficients shouldn't be defined concurrently.")
    return F1.project(image, coefficients, interpolation, fill)


def resized_crop(
    image: Any,
    top: int,
    left: int,
    height: int,
    width: int,
    size: int | Sequence[int],
    interpolation: InterpolationMode | int = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Any:
    """A part of the image in another size."""
    return resize(F1.crop(image, top, left, height, width), size, interpolation, antialias=antialias)


def normalize(image: Tensor, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> Tensor:
    """(image - mean) / std, channel by channel."""
    if not isinstance(image, Tensor):
        raise TypeError(f"normalize needs a tensor, got {type(image)}")
    return F_t.normalize(image, mean, std, inplace)
