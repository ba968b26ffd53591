"""Pictures of tensors: grids of images, files, and images with boxes or masks drawn on them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from .._autograd.modes import no_grad
from .._core.dtypes import BOOL, FLOATING, uint8
from .._core.dtypes import dtype as DType
from .._ops.registry import ops
from .._tensor import Tensor
from ..nn import functional as F
from ._images import pillow
from .transforms.functional import convert_image_dtype, pil_to_tensor, to_pil_image

__all__ = ["draw_bounding_boxes", "draw_segmentation_masks", "make_grid", "save_image"]

_Color = str | tuple[int, int, int]
_Colors = list[_Color] | _Color | None


def _as_batch(tensor: Tensor | Sequence[Tensor]) -> Tensor:
    """Images as (N, C, H, W), grey ones with three channels."""
    if not isinstance(tensor, Tensor):
        if not isinstance(tensor, (list, tuple)) or not all(isinstance(t, Tensor) for t in tensor):
            raise TypeError(f"tensor or list of tensors expected, got {type(tensor)}")
        tensor = ops.stack(list(tensor), 0)
    if tensor.ndim == 2:
        tensor = tensor.unsqueeze(0)
    if tensor.ndim == 3:
        tensor = tensor.unsqueeze(0)
    return tensor.expand(-1, 3, -1, -1) if tensor.ndim == 4 and tensor.shape[1] == 1 else tensor


def _normalized(images: Tensor, value_range: tuple[float, float] | None, scale_each: bool) -> Tensor:
    """The images with their range of values (all together, or each) as [0, 1]."""
    if value_range is not None:
        if not isinstance(value_range, tuple):
            raise TypeError("value_range has to be a tuple (min, max) if specified. min and max are numbers")
        low: Any = float(value_range[0])
        span: Any = max(float(value_range[1]) - low, 1e-5)
        return images.clamp(low, float(value_range[1])).sub(low).div(span)
    dims = tuple(range(1 if scale_each else 0, images.ndim))
    low, high = images.amin(dims, keepdim=True), images.amax(dims, keepdim=True)
    return (images - low) / (high - low).clamp(min=1e-5)


@no_grad()
def make_grid(
    tensor: Tensor | Sequence[Tensor],
    nrow: int = 8,
    padding: int = 2,
    normalize: bool = False,
    value_range: tuple[float, float] | None = None,
    scale_each: bool = False,
    pad_value: float = 0.0,
) -> Tensor:
    """One image of many, `nrow` in each row.

    >>> import flambeau as torch
    >>> make_grid(torch.zeros(5, 3, 4, 4), nrow=3).shape
    torch.Size([3, 14, 20])
    """
    images = _as_batch(tensor)
    if normalize:
        images = _normalized(images, value_range, scale_each)
    if images.shape[0] == 1:
        return images.squeeze(0)
    count, channels = images.shape[:2]
    across = min(nrow, count)
    down = math.ceil(count / across)
    tiles = F.pad(images, [padding, 0, padding, 0], value=pad_value)  # a border above and to the left of each
    height, width = tiles.shape[-2:]
    if across * down > count:
        empty = ops.full((across * down - count, *tiles.shape[1:]), pad_value, dtype=tiles.dtype, device=tiles.device)
        tiles = ops.cat([tiles, empty])
    grid = tiles.view(down, across, channels, height, width).permute(2, 0, 3, 1, 4)
    return F.pad(grid.reshape(channels, down * height, across * width), [0, padding, 0, padding], value=pad_value)


@no_grad()
def save_image(
    tensor: Tensor | Sequence[Tensor], fp: str | Path | BinaryIO, format: str | None = None, **kwargs: Any
) -> None:
    """Writes images with values within [0, 1] into one picture, arranged by `make_grid`."""
    grid = make_grid(tensor, **kwargs).mul(255).add(0.5).clamp(0, 255).permute(1, 2, 0)
    pillow().fromarray(grid.to("cpu", uint8).contiguous().numpy()).save(fp, format=format)


def _palette(count: int) -> list[tuple[int, int, int]]:
    """Colours that differ."""
    return [(i * (2**25 - 1) % 255, i * (2**15 - 1) % 255, i * (2**21 - 1) % 255) for i in range(count)]


def _parse_colors(colors: _Colors, count: int, dtype: DType = uint8) -> list[Any]:
    """One colour for each of so many objects; as numbers within [0, 1] for floating images."""
    if colors is None:
        found: list[Any] = list(_palette(count))
    elif isinstance(colors, list):
        if len(colors) < count:
            raise ValueError(
                f"Number of colors must be equal or larger than the number of objects, but got {len(colors)} < {count}."
            )
        found = colors
    elif isinstance(colors, (tuple, str)):
        if isinstance(colors, tuple) and len(colors) != 3:
            raise ValueError("If passed as tuple, colors should be an RGB triplet")
        found = [colors] * count
    else:
        raise ValueError("colors must be a tuple or a string, or a list thereof")
    found = [pillow("ImageColor").getrgb(c) if isinstance(c, str) else c for c in found]
    return [tuple(v / 255 for v in c) for c in found] if dtype.category == FLOATING else found


def _check_image(image: Any, channels: tuple[int, ...]) -> None:
    if not isinstance(image, Tensor):
        raise TypeError(f"The image must be a tensor, got {type(image)}")
    if image.dtype is not uint8 and image.dtype.category != FLOATING:
        raise ValueError(f"The image dtype must be uint8 or float, got {image.dtype}")
    if image.ndim != 3:
        raise ValueError("Pass individual images, not batches")
    if image.shape[0] not in channels:
        raise ValueError("Only grayscale and RGB images are supported")


@no_grad()
def draw_bounding_boxes(
    image: Tensor,
    boxes: Tensor,
    labels: list[str | None] | None = None,
    colors: _Colors = None,
    fill: bool | None = False,
    width: int = 1,
    font: str | None = None,
    font_size: int | None = None,
    label_colors: _Colors = None,
) -> Tensor:
    """The image with boxes (N, 4) of corners drawn on it, and their labels inside."""
    _check_image(image, (1, 3))
    if (boxes[:, 0] > boxes[:, 2]).any() or (boxes[:, 1] > boxes[:, 3]).any():
        raise ValueError("Boxes need to be in (xmin, ymin, xmax, ymax) format; box_convert gives them that")
    count = boxes.shape[0]
    if count == 0:
        warnings.warn("boxes doesn't contain any box. No box was drawn", stacklevel=2)
        return image
    if labels is not None and len(labels) != count:
        raise ValueError(
            f"Number of boxes ({count}) and labels ({len(labels)}) mismatch. Please specify labels for each box."
        )
    outlines = _parse_colors(colors, count)
    inks = _parse_colors(label_colors, count) if label_colors else outlines
    if font is None and font_size is not None:
        warnings.warn("Argument 'font_size' will be ignored since 'font' is not set.", stacklevel=2)
    letters = pillow("ImageFont").truetype(font, font_size or 10) if font else pillow("ImageFont").load_default()
    picture = to_pil_image(convert_image_dtype(image, uint8).expand(3, -1, -1))
    draw = pillow("ImageDraw").Draw(picture, "RGBA" if fill else None)
    for box, color, label, ink in zip(boxes.long().tolist(), outlines, labels or [None] * count, inks):
        draw.rectangle(box, width=width, outline=color, fill=(*color, 100) if fill else None)
        if label is not None:
            draw.text((box[0] + width + 1, box[1] + width + 1), label, fill=ink, font=letters)
    return convert_image_dtype(pil_to_tensor(picture), image.dtype)


@no_grad()
def draw_segmentation_masks(image: Tensor, masks: Tensor, alpha: float = 0.8, colors: _Colors = None) -> Tensor:
    """The image with masks (N, H, W) painted over it; `alpha` 0 leaves the image, 1 hides it.

    >>> import flambeau as torch
    >>> masks = torch.tensor([[[True, False]]])
    >>> draw_segmentation_masks(torch.zeros(3, 1, 2), masks, 1.0, (255, 0, 0))[0]
    tensor([[1., 0.]])
    """
    _check_image(image, (3,))
    if masks.ndim == 2:
        masks = masks[None]
    if masks.ndim != 3:
        raise ValueError("masks must be of shape (H, W) or (batch_size, H, W)")
    if masks.dtype.category != BOOL:
        raise ValueError(f"The masks must be of dtype bool. Got {masks.dtype}")
    if masks.shape[-2:] != image.shape[-2:]:
        raise ValueError("The image and the masks must have the same height and width")
    if masks.shape[0] == 0:
        warnings.warn("masks doesn't contain any mask. No mask was drawn", stacklevel=2)
        return image
    painted = image.clone()
    for mask, color in zip(masks, _parse_colors(colors, masks.shape[0], image.dtype)):
        ink = ops.tensor(color, dtype=image.dtype, device=image.device)[:, None, None]
        painted = ops.where(mask, ink, painted)
    painted = ops.where(masks.sum(0) > 1, ops.zeros_like(painted), painted)  # where masks overlap it is black
    return (image * (1 - alpha) + painted * alpha).to(image.dtype)
