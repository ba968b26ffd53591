"""Image functions on tensors and on images of pillow: each call goes to the namespace for its kind of image."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np

from ..._core.dtypes import dtype as DType
from ..._core.dtypes import float32, float64
from ..._ops.registry import ops
from ..._tensor import Tensor
from .._images import is_pil
from . import _functional_pil as F_pil
from . import _functional_tensor as F_t
from ._conversion import pil_to_tensor as pil_to_tensor
from ._conversion import to_pil_image as to_pil_image
from ._conversion import to_tensor as to_tensor

_Fill = int | float | Sequence[float] | None


class InterpolationMode(Enum):
    """How values between pixels are found; box, hamming and lanczos are for images of pillow only."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


_PIL_NUMBER = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5, "nearest-exact": 0}
pil_modes_mapping = {mode: _PIL_NUMBER[mode.value] for mode in InterpolationMode}
_FROM_NUMBER = {number: InterpolationMode(name) for name, number in reversed(_PIL_NUMBER.items())} | {
    0: InterpolationMode.NEAREST
}


def interpolation_mode(interpolation: InterpolationMode | int) -> InterpolationMode:
    """The mode itself, or the one that has pillow's number."""
    if isinstance(interpolation, int):
        return _FROM_NUMBER[interpolation]
    if not isinstance(interpolation, InterpolationMode):
        raise TypeError(
            "Argument interpolation should be a InterpolationMode or a corresponding Pillow integer constant"
        )
    return interpolation


def _kind(img: Any) -> Any:
    """The functions for this kind of image."""
    if isinstance(img, Tensor):
        return F_t
    if is_pil(img):
        return F_pil
    raise TypeError(f"img should be PIL Image or Tensor. Got {type(img)}")


def _resampling(img: Any, interpolation: InterpolationMode | int) -> Any:
    """The mode in the form that the functions for this kind of image take."""
    mode = interpolation_mode(interpolation)
    return mode.value if isinstance(img, Tensor) else pil_modes_mapping[mode]


def get_dimensions(img: Any) -> list[int]:
    """Channels, height and width of an image.

    >>> import flambeau as torch
    >>> get_dimensions(torch.zeros(3, 4, 5))
    [3, 4, 5]
    """
    return _kind(img).get_dimensions(img)


def get_image_size(img: Any) -> list[int]:
    """Width and height of an image."""
    return _kind(img).get_image_size(img)


def get_image_num_channels(img: Any) -> int:
    """The number of channels of an image."""
    return _kind(img).get_image_num_channels(img)


def normalize(tensor: Tensor, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> Tensor:
    """(tensor - mean) / std, channel by channel.

    >>> import flambeau as torch
    >>> normalize(torch.ones(1, 1, 2), [0.5], [0.25])
    tensor([[[2., 2.]]])
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(tensor)}")
    return F_t.normalize(tensor, mean, std, inplace)


def convert_image_dtype(image: Tensor, dtype: DType = float32) -> Tensor:
    """The image in another dtype, its values scaled to that dtype's range.

    >>> import flambeau as torch
    >>> convert_image_dtype(torch.tensor([[[0, 255]]], dtype=torch.uint8))
    tensor([[[0., 1.]]])
    """
    if not isinstance(image, Tensor):
        raise TypeError("Input img should be Tensor Image")
    return F_t.convert_image_dtype(image, dtype)


def resized_size(
    image_size: tuple[int, int], size: Sequence[int] | None, max_size: int | None = None, allow_none: bool = False
) -> list[int]:
    """Height and width after `resize`: one number is for the shorter edge, None makes the longer one `max_size`."""
    h, w = image_size
    if size is not None and len(size) == 2:
        return [size[0], size[1]]
    short, long = (w, h) if w <= h else (h, w)
    if size is None:
        if not allow_none or not isinstance(max_size, int):
            raise ValueError("size can only be None when max_size is an integer")
        new_short, new_long = int(max_size * short / long), max_size
    else:
        new_short, new_long = size[0], int(size[0] * long / short)
        if max_size is not None:
            if max_size <= size[0]:
                raise ValueError(
                    f"max_size = {max_size} must be strictly greater than the requested size for the smaller edge "
                    f"size = {size}"
                )
            if new_long > max_size:
                new_short, new_long = int(max_size * new_short / new_long), max_size
    return [new_long, new_short] if w <= h else [new_short, new_long]


def resize(
    img: Any,
    size: int | Sequence[int],
    interpolation: InterpolationMode | int = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Any:
    """The image in another size; one number is the length of the shorter edge.

    >>> import flambeau as torch
    >>> resize(torch.zeros(3, 4, 8), 2).shape
    torch.Size([3, 2, 4])
    """
    mode = _resampling(img, interpolation)
    if isinstance(size, int):
        size = [size]
    elif len(size) not in (1, 2):
        raise ValueError(f"Size must be an int or a 1 or 2 element tuple/list, not a {len(size)} element tuple/list")
    elif max_size is not None and len(size) != 1:
        raise ValueError("max_size should only be passed if size specifies the length of the smaller edge")
    _, h, w = get_dimensions(img)
    wanted = resized_size((h, w), size, max_size)
    if wanted == [h, w]:
        return img
    if isinstance(img, Tensor):
        return F_t.resize(img, wanted, mode, antialias)
    if antialias is not None and not antialias:
        warnings.warn("images of pillow are always resized with antialiasing", stacklevel=2)
    return F_pil.resize(img, wanted, mode)


def check_padding(padding: Any, fill: Any, padding_mode: str) -> None:
    """Raises for arguments of `pad` that make no sense."""
    if not isinstance(padding, (numbers.Number, tuple, list)):
        raise TypeError("Got inappropriate padding arg")
    if not isinstance(fill, (numbers.Number, tuple, list, type(None))):
        raise TypeError("Got inappropriate fill arg")
    if not isinstance(padding_mode, str):
        raise TypeError("Got inappropriate padding_mode arg")
    if isinstance(padding, (tuple, list)) and len(padding) not in (1, 2, 4):
        raise ValueError(f"Padding must be an int or a 1, 2, or 4 element tuple, not a {len(padding)} element tuple")
    if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
        raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")


def pad(img: Any, padding: int | Sequence[int], fill: _Fill = 0, padding_mode: str = "constant") -> Any:
    """Adds a border: everywhere, (left and right, top and bottom), or (left, top, right, bottom).

    >>> import flambeau as torch
    >>> pad(torch.ones(1, 1, 1), [1, 0], fill=5)
    tensor([[[5., 1., 5.]]])
    """
    check_padding(padding, fill, padding_mode)
    return _kind(img).pad(img, padding, fill=fill, padding_mode=padding_mode)


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """A part of the image; what lies outside of it is zero."""
    return _kind(img).crop(img, top, left, height, width)


def center_crop(img: Any, output_size: int | Sequence[int]) -> Any:
    """The middle of the image, padded with zeros where the image is smaller.

    >>> import flambeau as torch
    >>> center_crop(torch.arange(5).view(1, 1, 5), (1, 3))
    tensor([[[1, 2, 3]]])
    """
    height, width = pair(output_size)
    _, h, w = get_dimensions(img)
    if width > w or height > h:
        left, right = ((width - w) // 2, (width - w + 1) // 2) if width > w else (0, 0)
        top, bottom = ((height - h) // 2, (height - h + 1) // 2) if height > h else (0, 0)
        img = pad(img, [left, top, right, bottom], fill=0)
        _, h, w = get_dimensions(img)
        if (height, width) == (h, w):
            return img
    return crop(img, round((h - height) / 2.0), round((w - width) / 2.0), height, width)


def pair(size: int | Sequence[int]) -> tuple[int, int]:
    """Height and width, from one number or two."""
    if isinstance(size, numbers.Number):
        return int(size), int(size)
    if isinstance(size, Sequence) and len(size) == 1:
        return size[0], size[0]
    height, width = size
    return height, width


def resized_crop(
    img: Any,
    top: int,
    left: int,
    height: int,
    width: int,
    size: int | Sequence[int],
    interpolation: InterpolationMode | int = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Any:
    """A part of the image in another size."""
    return resize(crop(img, top, left, height, width), size, interpolation, antialias=antialias)


def hflip(img: Any) -> Any:
    """The image with left and right exchanged."""
    return _kind(img).hflip(img)


def vflip(img: Any) -> Any:
    """The image with top and bottom exchanged."""
    return _kind(img).vflip(img)


def perspective_coefficients(startpoints: Sequence[Sequence[int]], endpoints: Sequence[Sequence[int]]) -> list[float]:
    """The eight numbers of the projective map that takes four end points to the start points."""
    if len(startpoints) != 4 or len(endpoints) != 4:
        raise ValueError(
            f"Please provide exactly four corners, got {len(startpoints)} startpoints and {len(endpoints)} endpoints."
        )
    rows = []
    for (x, y), (u, v) in zip(endpoints, startpoints):
        rows.append([x, y, 1, 0, 0, 0, -u * x, -u * y])
        rows.append([0, 0, 0, x, y, 1, -v * x, -v * y])
    right = [coordinate for point in startpoints for coordinate in point]
    found = ops.linalg_lstsq(ops.tensor(rows, dtype=float64), ops.tensor(right, dtype=float64)[:, None])
    return [float(np.float32(value)) for value in found.solution[:, 0].tolist()]


def perspective(
    img: Any,
    startpoints: Sequence[Sequence[int]],
    endpoints: Sequence[Sequence[int]],
    interpolation: InterpolationMode | int = InterpolationMode.BILINEAR,
    fill: _Fill = None,
) -> Any:
    """The image under the projective map that takes four points to four others."""
    return project(img, perspective_coefficients(startpoints, endpoints), interpolation, fill)


def project(img: Any, coefficients: Sequence[float], interpolation: InterpolationMode | int, fill: _Fill) -> Any:
    """The image under a projective map of eight numbers."""
    return _kind(img).perspective(img, coefficients, _resampling(img, interpolation), fill=fill)


def five_crop(img: Any, size: int | Sequence[int]) -> tuple[Any, Any, Any, Any, Any]:
    """The four corners and the middle of an image."""
    if not isinstance(size, numbers.Number) and len(size) not in (1, 2):
        raise ValueError("Please provide only two dimensions (h, w) for size.")
    height, width = pair(size)
    _, h, w = get_dimensions(img)
    if width > w or height > h:
        raise ValueError(f"Requested crop size {(height, width)} is bigger than input size {(h, w)}")
    right, bottom = w - width, h - height
    corners = [crop(img, top, left, height, width) for top, left in ((0, 0), (0, right), (bottom, 0), (bottom, right))]
    return (*corners, center_crop(img, [height, width]))


def ten_crop(img: Any, size: int | Sequence[int], vertical_flip: bool = False) -> tuple[Any, ...]:
    """`five_crop` of an image and of its mirror image."""
    return five_crop(img, size) + five_crop(vflip(img) if vertical_flip else hflip(img), size)


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """0 gives black, 1 the image, 2 twice its brightness.

    >>> import flambeau as torch
    >>> adjust_brightness(torch.full((1, 1, 1), 0.25), 2)
    tensor([[[0.5000]]])
    """
    return _kind(img).adjust_brightness(img, brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """0 gives the mean, 1 the image, 2 twice the distance from the mean."""
    return _kind(img).adjust_contrast(img, contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """0 gives grey, 1 the image, 2 twice its colour."""
    return _kind(img).adjust_saturation(img, saturation_factor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """The image with its hues turned by a part of the colour circle, within [-0.5, 0.5]."""
    return _kind(img).adjust_hue(img, hue_factor)


def adjust_gamma(img: Any, gamma: float, gain: float = 1) -> Any:
    """gain * img ** gamma, of values within [0, 1]."""
    return _kind(img).adjust_gamma(img, gamma, gain)


def rotate(
    img: Any,
    angle: float,
    interpolation: InterpolationMode | int = InterpolationMode.NEAREST,
    expand: bool = False,
    center: Sequence[float] | None = None,
    fill: _Fill = None,
) -> Any:
    """The image turned counter-clockwise by an angle in degrees."""
    mode = _resampling(img, interpolation)
    if not isinstance(angle, (int, float)):
        raise TypeError("Argument angle should be int or float")
    if center is not None and not isinstance(center, (list, tuple)):
        raise TypeError("Argument center should be a sequence")
    if is_pil(img):
        return F_pil.rotate(img, angle, mode, expand, center, fill)
    _, h, w = get_dimensions(img)
    origin = [0.0, 0.0] if center is None else [c - 0.5 * n for c, n in zip(center, (w, h))]
    matrix = F_t.inverse_affine_matrix(origin, -angle, [0.0, 0.0], 1.0, [0.0, 0.0])
    return F_t.rotate(img, matrix, mode, expand, fill)


def affine_arguments(angle: Any, translate: Any, scale: Any, shear: Any, center: Any = None) -> tuple[float, ...]:
    """The checked arguments of an affine map, with a shear for both directions."""
    if not isinstance(angle, (int, float)):
        raise TypeError("Argument angle should be int or float")
    if not isinstance(translate, (list, tuple)):
        raise TypeError("Argument translate should be a sequence")
    if len(translate) != 2:
        raise ValueError("Argument translate should be a sequence of length 2")
    if scale <= 0.0:
        raise ValueError("Argument scale should be positive")
    if not isinstance(shear, (numbers.Number, list, tuple)):
        raise TypeError("Shear should be either a single value or a sequence of two values")
    shear = [shear, 0.0] if isinstance(shear, numbers.Number) else list(shear)
    if len(shear) == 1:
        shear = shear * 2
    if len(shear) != 2:
        raise ValueError(f"Shear should be a sequence containing two values. Got {shear}")
    if center is not None and not isinstance(center, (list, tuple)):
        raise TypeError("Argument center should be a sequence")
    return angle, list(translate), scale, shear  # type: ignore[return-value]


def affine(
    img: Any,
    angle: float,
    translate: Sequence[int],
    scale: float,
    shear: float | Sequence[float],
    interpolation: InterpolationMode | int = InterpolationMode.NEAREST,
    fill: _Fill = None,
    center: Sequence[int] | None = None,
) -> Any:
    """The image sheared, rotated clockwise and scaled about its centre, then translated. Angles in degrees."""
    mode = _resampling(img, interpolation)
    angle, translate, scale, shear = affine_arguments(angle, translate, scale, shear, center)
    _, h, w = get_dimensions(img)
    if is_pil(img):  # places from the upper left corner, not from the middle
        origin = [w * 0.5, h * 0.5] if center is None else center
        matrix = F_t.inverse_affine_matrix(origin, angle, translate, scale, shear)  # type: ignore[arg-type]
        return F_pil.affine(img, matrix, mode, fill)
    origin = [0.0, 0.0] if center is None else [c - 0.5 * n for c, n in zip(center, (w, h))]
    matrix = F_t.inverse_affine_matrix(origin, angle, [float(t) for t in translate], scale, shear)  # type: ignore[arg-type]
    return F_t.affine(img, matrix, mode, fill)


def to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """The grey version of an image of pillow, with one or three channels."""
    if not is_pil(img):
        raise TypeError("Input should be PIL Image")
    return F_pil.to_grayscale(img, num_output_channels)


def rgb_to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """The grey version of an image of three channels, with one or three channels."""
    return _kind(img).rgb_to_grayscale(img, num_output_channels)


def erase(img: Tensor, i: int, j: int, h: int, w: int, v: Tensor, inplace: bool = False) -> Tensor:
    """The image with the values `v` in the rectangle from row i and column j on."""
    if not isinstance(img, Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(img)}")
    return F_t.erase(img, i, j, h, w, v, inplace=inplace)


def blur_arguments(kernel_size: Any, sigma: Any) -> tuple[list[int], list[float]]:
    """The checked arguments of a Gaussian blur, for both directions."""
    if not isinstance(kernel_size, (int, list, tuple)):
        raise TypeError(f"kernel_size should be int or a sequence of integers. Got {type(kernel_size)}")
    kernel = [kernel_size] * 2 if isinstance(kernel_size, int) else list(kernel_size)
    if len(kernel) != 2:
        raise ValueError(f"If kernel_size is a sequence its length should be 2. Got {len(kernel)}")
    if any(k % 2 == 0 or k < 0 for k in kernel):
        raise ValueError(f"kernel_size should have odd and positive integers. Got {kernel}")
    if sigma is None:
        sigma = [k * 0.15 + 0.35 for k in kernel]
    if not isinstance(sigma, (int, float, list, tuple)):
        raise TypeError(f"sigma should be either float or sequence of floats. Got {type(sigma)}")
    widths = [float(sigma)] * 2 if isinstance(sigma, (int, float)) else list(sigma)
    if len(widths) == 1:
        widths = widths * 2
    if len(widths) != 2:
        raise ValueError(f"If sigma is a sequence, its length should be 2. Got {len(widths)}")
    if any(s <= 0.0 for s in widths):
        raise ValueError(f"sigma should have positive values. Got {widths}")
    return kernel, widths


def gaussian_blur(img: Any, kernel_size: int | Sequence[int], sigma: float | Sequence[float] | None = None) -> Any:
    """The image smoothed with a Gaussian."""
    kernel, widths = blur_arguments(kernel_size, sigma)
    if isinstance(img, Tensor):
        return F_t.gaussian_blur(img, kernel, widths)
    if not is_pil(img):
        raise TypeError(f"img should be PIL Image or Tensor. Got {type(img)}")
    return to_pil_image(F_t.gaussian_blur(pil_to_tensor(img), kernel, widths), mode=img.mode)


def invert(img: Any) -> Any:
    """The negative of an image."""
    return _kind(img).invert(img)


def posterize(img: Any, bits: int) -> Any:
    """The image with only the highest bits of its values."""
    if not 0 <= bits <= 8:
        raise ValueError(f"The number if bits should be between 0 and 8. Got {bits}")
    return _kind(img).posterize(img, bits)


def solarize(img: Any, threshold: float) -> Any:
    """The image with the values from a threshold on inverted."""
    return _kind(img).solarize(img, threshold)


def adjust_sharpness(img: Any, sharpness_factor: float) -> Any:
    """0 smooths, 1 keeps, more sharpens."""
    return _kind(img).adjust_sharpness(img, sharpness_factor)


def autocontrast(img: Any) -> Any:
    """Every channel stretched to the full range."""
    return _kind(img).autocontrast(img)


def equalize(img: Any) -> Any:
    """The image with as flat a histogram as a map of its values can make."""
    return _kind(img).equalize(img)


def elastic_transform(
    img: Any,
    displacement: Tensor,
    interpolation: InterpolationMode | int = InterpolationMode.BILINEAR,
    fill: _Fill = None,
) -> Any:
    """The image with every pixel moved by a displacement (1, H, W, 2), in units of half the image."""
    if not isinstance(displacement, Tensor):
        raise TypeError("Argument displacement should be a Tensor")
    mode = interpolation_mode(interpolation).value
    tensor = img if isinstance(img, Tensor) else pil_to_tensor(img)
    shape = (1, *tensor.shape[-2:], 2)
    if tuple(displacement.shape) != shape:
        raise ValueError(f"Argument displacement expected shape is {shape}, but got {displacement.shape}")
    out = F_t.elastic_transform(tensor, displacement, mode, fill)
    return out if isinstance(img, Tensor) else to_pil_image(out, mode=img.mode)
