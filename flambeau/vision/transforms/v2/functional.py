"""Functions of the second generation: on images, masks and boxes, each by its kind."""

from __future__ import annotations

import warnings
from typing import Any

from ...._core.dtypes import dtype as DType
from ...._core.dtypes import float32
from ...._ops.registry import ops
from ...._tensor import Tensor
from ... import tv_tensors
from ..._images import is_pil
from ...tv_tensors import BoundingBoxes, BoundingBoxFormat, Image, TVTensor
from .. import functional as F1
from ..functional import InterpolationMode as InterpolationMode
from ..functional import pil_to_tensor as pil_to_tensor
from ..functional import to_pil_image as _to_pil_image
from . import _boxes, _image
from ._dispatch import functional
from ._dispatch import register_kernel as register_kernel

NEAREST, BILINEAR = InterpolationMode.NEAREST, InterpolationMode.BILINEAR


def is_pure_tensor(inpt: Any) -> bool:
    """Whether a value is a tensor that does not say what it is."""
    return isinstance(inpt, Tensor) and not isinstance(inpt, TVTensor)


# -- what inputs are -----------------------------------------------------------------------------------------------


def get_dimensions(inpt: Any) -> list[int]:
    """Channels, height and width of an image."""
    return F1.get_dimensions(inpt)


def get_num_channels(inpt: Any) -> int:
    """The number of channels of an image."""
    return F1.get_image_num_channels(inpt)


def get_size(inpt: Any) -> list[int]:
    """Height and width of an image, a mask, or the canvas of boxes."""
    if isinstance(inpt, BoundingBoxes):
        return list(inpt.canvas_size)
    return F1.get_image_size(inpt)[::-1]


get_image_num_channels = get_num_channels
get_image_size = F1.get_image_size


# -- forms -----------------------------------------------------------------------------------------------------------


def to_image(inpt: Any) -> Image:
    """An image of pillow, an array (H, W, C) or a tensor (C, H, W) as an `Image`."""
    if is_pil(inpt):
        inpt = pil_to_tensor(inpt)
    elif not isinstance(inpt, Tensor):
        if not hasattr(inpt, "__array_interface__"):
            raise TypeError(
                f"Input can either be a pure Tensor, a numpy array, or a PIL image, but got {type(inpt)} instead."
            )
        tensor = ops.from_numpy(inpt)
        inpt = (tensor.unsqueeze(-1) if tensor.ndim < 3 else tensor).permute(2, 0, 1).contiguous()
    return Image(inpt)


def to_pil_image(inpt: Any, mode: str | None = None) -> Any:
    """A tensor (C, H, W) or an array (H, W, C) as an image of pillow."""
    return _to_pil_image(inpt.as_subclass(Tensor) if isinstance(inpt, TVTensor) else inpt, mode)


def to_tensor(inpt: Any) -> Tensor:
    """`to_image` and `to_dtype` in one, as in the first generation."""
    warnings.warn("to_tensor is deprecated: use to_image and to_dtype(..., scale=True)", stacklevel=2)
    return F1.to_tensor(inpt)


def _to_dtype_image(image: Tensor, dtype: DType = float32, scale: bool = False) -> Tensor:
    return F1.convert_image_dtype(image, dtype) if scale else image.to(dtype)


def _to_dtype_mask(mask: Tensor, dtype: DType = float32, scale: bool = False) -> Tensor:
    return mask.to(dtype)


def _to_dtype_boxes(boxes: Tensor, format: Any, canvas: Any, dtype: DType = float32, scale: bool = False) -> Any:
    return boxes.to(dtype), canvas


to_dtype = functional(_to_dtype_image, "to_dtype", mask=_to_dtype_mask, boxes=_to_dtype_boxes)


def convert_image_dtype(image: Tensor, dtype: DType = float32) -> Tensor:
    """`to_dtype` with scaling."""
    return to_dtype(image, dtype, scale=True)


# -- geometry --------------------------------------------------------------------------------------------------------


def _planes(mask: Tensor) -> Tensor:
    """A mask with a dimension for channels."""
    return mask.unsqueeze(0) if mask.ndim < 3 else mask


def _back(out: Tensor, mask: Tensor) -> Tensor:
    return out.squeeze(0) if mask.ndim < 3 else out


def _resize_mask(
    mask: Tensor, size: Any, interpolation: Any = NEAREST, max_size: int | None = None, antialias: Any = True
) -> Tensor:
    return _back(_image.resize(_planes(mask), size, NEAREST, max_size), mask)


def _pad_mask(mask: Tensor, padding: Any, fill: Any = None, padding_mode: str = "constant") -> Tensor:
    if isinstance(fill, (tuple, list)):
        raise ValueError("Non-scalar fill value is not supported")
    return _back(_image.pad(_planes(mask), padding, fill, padding_mode), mask)


def _resized_crop_mask(
    mask: Tensor, top: int, left: int, height: int, width: int, size: Any, interpolation: Any = NEAREST,
    antialias: Any = True,
) -> Tensor:  # fmt: skip
    return _resize_mask(F1.crop(mask, top, left, height, width), size)


def _rotate_mask(
    mask: Tensor, angle: float, interpolation: Any = NEAREST, expand: bool = False, center: Any = None, fill: Any = None
) -> Tensor:
    return _back(F1.rotate(_planes(mask), angle, NEAREST, expand, center, fill), mask)


def _affine_mask(
    mask: Tensor, angle: float, translate: Any, scale: float, shear: Any, interpolation: Any = NEAREST, fill: Any = None,
    center: Any = None,
) -> Tensor:  # fmt: skip
    return _back(F1.affine(_planes(mask), angle, translate, scale, shear, NEAREST, fill, center), mask)


def _perspective_mask(
    mask: Tensor, startpoints: Any, endpoints: Any, interpolation: Any = NEAREST, fill: Any = None,
    coefficients: Any = None,
) -> Tensor:  # fmt: skip
    return _back(_image.perspective(_planes(mask), startpoints, endpoints, NEAREST, fill, coefficients), mask)


def _elastic_mask(mask: Tensor, displacement: Tensor, interpolation: Any = NEAREST, fill: Any = None) -> Tensor:
    return _back(F1.elastic_transform(_planes(mask), displacement, NEAREST, fill), mask)


horizontal_flip = hflip = functional(F1.hflip, "horizontal_flip", mask=F1.hflip, boxes=_boxes.horizontal_flip)
vertical_flip = vflip = functional(F1.vflip, "vertical_flip", mask=F1.vflip, boxes=_boxes.vertical_flip)
resize = functional(_image.resize, mask=_resize_mask, boxes=_boxes.resize)
crop = functional(F1.crop, mask=F1.crop, boxes=_boxes.crop)
center_crop = functional(F1.center_crop, mask=F1.center_crop, boxes=_boxes.center_crop)
resized_crop = functional(_image.resized_crop, mask=_resized_crop_mask, boxes=_boxes.resized_crop)
pad = functional(_image.pad, mask=_pad_mask, boxes=_boxes.pad)
rotate = functional(F1.rotate, mask=_rotate_mask, boxes=_boxes.rotate)
affine = functional(F1.affine, mask=_affine_mask, boxes=_boxes.affine)
perspective = functional(_image.perspective, mask=_perspective_mask, boxes=_boxes.perspective)
elastic = elastic_transform = functional(F1.elastic_transform, "elastic", mask=_elastic_mask, boxes=_boxes.elastic)
five_crop = functional(F1.five_crop)
ten_crop = functional(F1.ten_crop)


# -- values ----------------------------------------------------------------------------------------------------------


normalize = functional(_image.normalize)
erase = functional(F1.erase)
invert = functional(F1.invert)
posterize = functional(_image.posterize)
solarize = functional(F1.solarize)
autocontrast = functional(_image.autocontrast)
equalize = functional(_image.equalize)
adjust_brightness = functional(F1.adjust_brightness)
adjust_contrast = functional(F1.adjust_contrast)
adjust_saturation = functional(_image.adjust_saturation)
adjust_hue = functional(F1.adjust_hue)
adjust_gamma = functional(F1.adjust_gamma)
adjust_sharpness = functional(F1.adjust_sharpness)
gaussian_blur = functional(F1.gaussian_blur)
gaussian_noise = functional(_image.gaussian_noise)
rgb_to_grayscale = to_grayscale = functional(_image.rgb_to_grayscale)
grayscale_to_rgb = functional(_image.grayscale_to_rgb)
permute_channels = functional(_image.permute_channels)


# -- boxes -----------------------------------------------------------------------------------------------------------


def convert_bounding_box_format(
    inpt: Tensor,
    old_format: BoundingBoxFormat | str | None = None,
    new_format: BoundingBoxFormat | str | None = None,
    inplace: bool = False,
) -> Tensor:
    """Boxes in another format; ordinary tensors need to be told the old one."""
    if new_format is None:
        raise TypeError("convert_bounding_box_format() missing 1 required argument: 'new_format'")
    new = BoundingBoxFormat[new_format.upper()] if isinstance(new_format, str) else new_format
    if isinstance(inpt, BoundingBoxes):
        if old_format is not None:
            raise ValueError("For bounding box tv_tensor inputs, `old_format` must not be passed.")
        out = _boxes.convert(inpt.as_subclass(Tensor), inpt.format, new)
        return tv_tensors.wrap(out, like=inpt, format=new)
    if old_format is None:
        raise ValueError("For pure tensor inputs, `old_format` has to be passed.")
    old = BoundingBoxFormat[old_format.upper()] if isinstance(old_format, str) else old_format
    return _boxes.convert(inpt, old, new)


def clamp_bounding_boxes(
    inpt: Tensor, format: BoundingBoxFormat | None = None, canvas_size: tuple[int, int] | None = None, **_: Any
) -> Tensor:
    """Boxes cut at the borders of their canvas; ordinary tensors need to be told format and canvas."""
    if isinstance(inpt, BoundingBoxes):
        if format is not None or canvas_size is not None:
            raise ValueError("For bounding box tv_tensor inputs, `format` and `canvas_size` must not be passed.")
        return tv_tensors.wrap(_boxes.clamp(inpt.as_subclass(Tensor), inpt.format, inpt.canvas_size), like=inpt)
    if format is None or canvas_size is None:
        raise ValueError("For pure tensor inputs, `format` and `canvas_size` have to be passed.")
    return _boxes.clamp(inpt, format, canvas_size)


def sanitize_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat | None = None,
    canvas_size: tuple[int, int] | None = None,
    min_size: float = 1.0,
    min_area: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """The boxes that are large enough and inside of their canvas, and which ones they are."""
    if isinstance(bounding_boxes, BoundingBoxes):
        format, canvas_size = bounding_boxes.format, bounding_boxes.canvas_size
    elif format is None or canvas_size is None:
        raise ValueError("format and canvas_size have to be passed with an ordinary tensor")
    plain = bounding_boxes.as_subclass(Tensor)
    x1, y1, x2, y2 = _boxes.to_corners(plain, format).unbind(-1)
    width, height = x2 - x1, y2 - y1
    valid = (width >= min_size) & (height >= min_size) & (width * height >= min_area)
    valid &= (x1 >= 0) & (x2 <= canvas_size[1]) & (y1 >= 0) & (y2 <= canvas_size[0])
    kept = plain[valid]
    if isinstance(bounding_boxes, BoundingBoxes):
        return tv_tensors.wrap(kept, like=bounding_boxes), valid
    return kept, valid
