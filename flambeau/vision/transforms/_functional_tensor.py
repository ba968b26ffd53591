"""Image functions on tensors of shape (..., C, H, W): geometry by resampling, cropping and padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..._core.dtypes import FLOATING, float32, float64, uint8
from ..._core.dtypes import dtype as DType
from ..._ops.registry import ops
from ..._tensor import Tensor
from ...nn import functional as F
from ._color_tensor import (  # noqa: F401 (one namespace for the functions on tensors)
    adjust_brightness,
    adjust_contrast,
    adjust_gamma,
    adjust_hue,
    adjust_saturation,
    autocontrast,
    channels_of,
    convert_image_dtype,
    equalize,
    invert,
    max_value,
    normalize,
    posterize,
    rgb_to_grayscale,
    solarize,
)
from ._color_tensor import blend as _blend


def get_dimensions(img: Tensor) -> list[int]:
    """Channels, height and width."""
    return [channels_of(img), img.shape[-2], img.shape[-1]]


def get_image_size(img: Tensor) -> list[int]:
    """Width and height."""
    return [img.shape[-1], img.shape[-2]]


def get_image_num_channels(img: Tensor) -> int:
    """The number of channels; an image of two dimensions has one."""
    return channels_of(img)


def hflip(img: Tensor) -> Tensor:
    return img.flip(-1)


def vflip(img: Tensor) -> Tensor:
    return img.flip(-2)


def crop(img: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    """A part of the image; what lies outside of it is zero."""
    h, w = img.shape[-2:]
    right, bottom = left + width, top + height
    part = img[..., max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
    if left < 0 or top < 0 or right > w or bottom > h:
        outside = [min(max(-left, 0), width), min(max(right - max(w, left), 0), width)]
        outside += [min(max(-top, 0), height), min(max(bottom - max(h, top), 0), height)]
        part = F.pad(part, outside)
    return part


def parse_padding(padding: int | Sequence[int]) -> tuple[int, int, int, int]:
    """Left, right, top and bottom, from one, two or four numbers."""
    if isinstance(padding, int):
        return (padding,) * 4
    if len(padding) == 1:
        return (padding[0],) * 4
    if len(padding) == 2:
        return padding[0], padding[0], padding[1], padding[1]
    left, top, right, bottom = padding
    return left, right, top, bottom


def _symmetric(img: Tensor, left: int, right: int, top: int, bottom: int) -> Tensor:
    """The image with its mirror images, the edge repeated; negative numbers cut."""
    h, w = img.shape[-2:]
    if any(n < 0 for n in (left, right, top, bottom)):
        img = crop(img, max(-top, 0), max(-left, 0), h + min(top, 0) + min(bottom, 0), w + min(left, 0) + min(right, 0))
        left, right, top, bottom = (max(n, 0) for n in (left, right, top, bottom))
        h, w = img.shape[-2:]
    rows = [*range(top - 1, -1, -1), *range(h), *range(-1, -bottom - 1, -1)]
    columns = [*range(left - 1, -1, -1), *range(w), *range(-1, -right - 1, -1)]
    row, column = ops.tensor(rows, device=img.device), ops.tensor(columns, device=img.device)
    return img[..., row[:, None], column[None, :]]


def pad(
    img: Tensor, padding: int | Sequence[int], fill: float | Sequence[float] | None = 0, padding_mode: str = "constant"
) -> Tensor:
    """Adds a border of one value, of the edge, or of mirror images."""
    left, right, top, bottom = parse_padding(padding)
    if padding_mode == "symmetric":
        return _symmetric(img, left, right, top, bottom)
    if padding_mode == "constant":
        return F.pad(img, [left, right, top, bottom], value=_one_number(fill))
    mode = "replicate" if padding_mode == "edge" else padding_mode
    images, back = to_batch(img, [float32, float64])
    return back(F.pad(images, [left, right, top, bottom], mode=mode))


def _one_number(fill: Any) -> float:
    if fill is None:
        return 0.0
    if isinstance(fill, (list, tuple)):
        if len(fill) != 1:
            raise ValueError(f"a tensor can only be padded with one number, got {fill}")
        return float(fill[0])
    return float(fill)


def to_batch(img: Tensor, dtypes: Sequence[DType]) -> tuple[Tensor, Any]:
    """The image as (N, C, H, W) in one of the dtypes, and the function that brings results back to its form."""
    dtype, before = img.dtype, img.shape[:-3]
    images = img
    if img.ndim < 4:
        images = img.unsqueeze(0)
    elif img.ndim > 4:
        images = img.reshape(-1, *img.shape[-3:])
    if dtype not in dtypes:
        images = images.to(dtypes[0])

    def back(out: Tensor) -> Tensor:
        if img.ndim < 4:
            out = out.squeeze(0)
        elif img.ndim > 4:
            out = out.reshape(*before, *out.shape[-3:])
        if out.dtype is not dtype:
            if dtype.category != FLOATING:
                out = out.round()
            out = out.to(dtype)
        return out

    return images, back


def resize(img: Tensor, size: Sequence[int], interpolation: str = "bilinear", antialias: bool | None = True) -> Tensor:
    """The image in another size."""
    if interpolation not in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        raise ValueError("This interpolation mode is unsupported with Tensor input")
    smooth = interpolation in ("bilinear", "bicubic")
    images, back = to_batch(img, [float32, float64])
    out = F.interpolate(
        images,
        size=tuple(size),
        mode=interpolation,
        align_corners=False if smooth else None,
        antialias=bool(antialias) and smooth,
    )
    if interpolation == "bicubic" and img.dtype is uint8:
        out = out.clamp(0, 255)
    return back(out)


def _check_resampling(interpolation: str, allowed: tuple[str, ...] = ("nearest", "bilinear")) -> None:
    if interpolation not in allowed:
        raise ValueError(f"Resampling mode '{interpolation}' is unsupported with Tensor input")


def _check_fill(img: Tensor, fill: Any) -> None:
    if fill is not None and not isinstance(fill, (int, float, tuple, list)):
        raise TypeError(f"Got inappropriate fill arg: {type(fill).__name__}")
    if isinstance(fill, (tuple, list)) and len(fill) > 1 and len(fill) != channels_of(img):
        raise ValueError(
            "The number of elements in 'fill' cannot broadcast to match the number of channels of the image "
            f"({len(fill)} != {channels_of(img)})"
        )


def sample(img: Tensor, grid: Tensor, mode: str, fill: float | Sequence[float] | None) -> Tensor:
    """The image at the points of a grid (1, H, W, 2); `fill` outside of it."""
    _check_fill(img, fill)
    images, back = to_batch(img, [grid.dtype])
    n, _, height, width = images.shape
    grid = grid.expand(n, *grid.shape[1:])
    if fill is None:
        return back(F.grid_sample(images, grid, mode=mode, padding_mode="zeros", align_corners=False))
    inside = ops.ones((n, 1, height, width), dtype=images.dtype, device=images.device)
    out = F.grid_sample(ops.cat([images, inside], 1), grid, mode=mode, padding_mode="zeros", align_corners=False)
    out, inside = out[:, :-1], out[:, -1:]
    value = ops.tensor(fill if isinstance(fill, (tuple, list)) else [float(fill)], dtype=out.dtype, device=out.device)
    value = value.view(1, -1, 1, 1)
    if mode == "nearest":
        return back(ops.where(inside < 0.5, value.expand(out.shape), out))
    return back(out * inside + (1.0 - inside) * value)


def _grid_dtype(img: Tensor) -> DType:
    return img.dtype if img.dtype.category == FLOATING else float32


def affine_grid(theta: Tensor, width: int, height: int, out_width: int, out_height: int) -> Tensor:
    """Where the pixels of the result lie in the image, for a map of places relative to the centres."""
    line = {"dtype": theta.dtype, "device": theta.device}
    x = ops.linspace(0.5 - 0.5 * out_width, 0.5 * out_width - 0.5, out_width, **line)
    y = ops.linspace(0.5 - 0.5 * out_height, 0.5 * out_height - 0.5, out_height, **line)
    shape = (out_height, out_width)
    base = ops.stack([x.expand(shape), y.unsqueeze(-1).expand(shape), ops.ones(shape, **line)], -1)
    scaled = theta.transpose(1, 2) / ops.tensor([0.5 * width, 0.5 * height], **line)
    return base.view(1, -1, 3).bmm(scaled).view(1, out_height, out_width, 2)


def _theta(matrix: Sequence[float], img: Tensor) -> Tensor:
    return ops.tensor(list(matrix), dtype=_grid_dtype(img), device=img.device).reshape(1, 2, 3)


def affine(
    img: Tensor,
    matrix: Sequence[float],
    interpolation: str = "nearest",
    fill: int | float | Sequence[float] | None = None,
) -> Tensor:
    """The image under the inverse of an affine map, given by six numbers."""
    _check_resampling(interpolation)
    h, w = img.shape[-2:]
    return sample(img, affine_grid(_theta(matrix, img), w, h, w, h), interpolation, fill)


def affine_output_size(matrix: Sequence[float], width: int, height: int) -> tuple[int, int]:
    """The width and height that hold all of a transformed image."""
    corners = ops.tensor(
        [[x * width, y * height, 1.0] for x, y in ((-0.5, -0.5), (-0.5, 0.5), (0.5, 0.5), (0.5, -0.5))]
    )
    moved = corners @ ops.tensor(list(matrix)).view(2, 3).T
    half = ops.tensor([width * 0.5, height * 0.5])
    tolerance = 1e-4  # a corner may lie a little outside of a whole pixel
    low = ((moved.amin(0) + half) / tolerance).trunc() * tolerance
    high = ((moved.amax(0) + half) / tolerance).trunc() * tolerance
    out_width, out_height = (high.ceil() - low.floor()).tolist()
    return int(out_width), int(out_height)


def rotate(
    img: Tensor,
    matrix: Sequence[float],
    interpolation: str = "nearest",
    expand: bool = False,
    fill: int | float | Sequence[float] | None = None,
) -> Tensor:
    """The image under the inverse of a rotation, given by six numbers; `expand` keeps all of it."""
    _check_resampling(interpolation)
    h, w = img.shape[-2:]
    out_width, out_height = affine_output_size(matrix, w, h) if expand else (w, h)
    return sample(img, affine_grid(_theta(matrix, img), w, h, out_width, out_height), interpolation, fill)


def perspective_grid(coefficients: Sequence[float], width: int, height: int, dtype: DType, device: Any) -> Tensor:
    """Where the pixels of a result of this size lie in the image, for a projective map of eight numbers."""
    line = {"dtype": dtype, "device": device}
    c = list(coefficients)
    top = ops.tensor([c[0:3], c[3:6]], **line).T / ops.tensor([0.5 * width, 0.5 * height], **line)
    bottom = ops.tensor([[c[6], c[7], 1.0]] * 2, **line).T
    x = ops.linspace(0.5, width - 0.5, width, **line)
    y = ops.linspace(0.5, height - 0.5, height, **line)
    shape = (height, width)
    base = ops.stack([x.expand(shape), y.unsqueeze(-1).expand(shape), ops.ones(shape, **line)], -1).view(-1, 3)
    return ((base @ top) / (base @ bottom) - 1.0).view(1, height, width, 2)


def perspective(
    img: Tensor,
    perspective_coeffs: Sequence[float],
    interpolation: str = "bilinear",
    fill: int | float | Sequence[float] | None = None,
) -> Tensor:
    """The image under a projective map."""
    _check_resampling(interpolation)
    h, w = img.shape[-2:]
    return sample(img, perspective_grid(perspective_coeffs, w, h, _grid_dtype(img), img.device), interpolation, fill)


def gaussian_weights(size: int, sigma: float, dtype: DType, device: Any) -> Tensor:
    """A row of a Gaussian, with sum 1."""
    half = (size - 1) * 0.5
    x = ops.linspace(-half, half, size, dtype=dtype, device=device)
    density = ops.exp(-0.5 * (x / sigma).pow(2))
    return density / density.sum()


def gaussian_blur(img: Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> Tensor:
    """The image smoothed with a Gaussian; its border is mirrored."""
    dtype = _grid_dtype(img)
    x, y = (gaussian_weights(k, s, dtype, img.device) for k, s in zip(kernel_size, sigma))
    images, back = to_batch(img, [dtype])
    channels = images.shape[-3]
    kernel = (y[:, None] * x[None, :]).expand(channels, 1, len(y), len(x))
    half_x, half_y = kernel_size[0] // 2, kernel_size[1] // 2
    padded = F.pad(images, [half_x, half_x, half_y, half_y], mode="reflect")
    return back(F.conv2d(padded, kernel, groups=channels))


def blurred_inside(img: Tensor) -> Tensor:
    """The image with its inner pixels smoothed by a small kernel."""
    dtype = _grid_dtype(img)
    kernel = ops.tensor([[1.0, 1.0, 1.0], [1.0, 5.0, 1.0], [1.0, 1.0, 1.0]], dtype=dtype, device=img.device)
    images, back = to_batch(img, [dtype])
    channels = images.shape[-3]
    inner = back(F.conv2d(images, (kernel / kernel.sum()).expand(channels, 1, 3, 3), groups=channels))
    result = img.clone()
    result[..., 1:-1, 1:-1] = inner
    return result


def adjust_sharpness(img: Tensor, sharpness_factor: float) -> Tensor:
    """0 smooths, 1 keeps, more sharpens."""
    if sharpness_factor < 0:
        raise ValueError(f"sharpness_factor ({sharpness_factor}) is not non-negative.")
    if img.shape[-1] <= 2 or img.shape[-2] <= 2:
        return img
    return _blend(img, blurred_inside(img), sharpness_factor)


def elastic_transform(
    img: Tensor,
    displacement: Tensor,
    interpolation: str = "bilinear",
    fill: int | float | Sequence[float] | None = None,
) -> Tensor:
    """The image with every pixel moved by a displacement (1, H, W, 2) in units of half the image."""
    _check_resampling(interpolation)
    dtype = _grid_dtype(img)
    grid = identity_grid(img.shape[-2:], img.device).to(dtype) + displacement.to(dtype).to(img.device)
    return sample(img, grid, interpolation, fill)


def identity_grid(size: Sequence[int], device: Any = None) -> Tensor:
    """The grid that leaves an image as it is."""
    lines = [ops.linspace((1 - n) / n, (n - 1) / n, n, device=device) for n in size]
    y, x = ops.meshgrid(*lines, indexing="ij")
    return ops.stack([x, y], -1).unsqueeze(0)


def erase(img: Tensor, i: int, j: int, h: int, w: int, v: Tensor, inplace: bool = False) -> Tensor:
    """The image with the values `v` in a rectangle."""
    if not inplace:
        img = img.clone()
    img[..., i : i + h, j : j + w] = v
    return img


def inverse_affine_matrix(
    center: Sequence[float], angle: float, translate: Sequence[float], scale: float, shear: Sequence[float]
) -> list[float]:
    """Six numbers of the inverse of: shear, rotate and scale about `center`, then translate. Angles in degrees."""
    rotation, shear_x, shear_y = math.radians(angle), math.radians(shear[0]), math.radians(shear[1])
    a = math.cos(rotation - shear_y) / math.cos(shear_y)
    b = -math.cos(rotation - shear_y) * math.tan(shear_x) / math.cos(shear_y) - math.sin(rotation)
    c = math.sin(rotation - shear_y) / math.cos(shear_y)
    d = -math.sin(rotation - shear_y) * math.tan(shear_x) / math.cos(shear_y) + math.cos(rotation)
    (cx, cy), (tx, ty) = center, translate
    rows = [d / scale, -b / scale, -c / scale, a / scale]  # the inverse of [[a, b], [c, d]], whose determinant is 1
    return [
        rows[0], rows[1], rows[0] * (-cx - tx) + rows[1] * (-cy - ty) + cx,
        rows[2], rows[3], rows[2] * (-cx - tx) + rows[3] * (-cy - ty) + cy,
    ]  # fmt: skip
