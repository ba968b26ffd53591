"""Transforms that change the form of inputs: types, dtypes, normalisation, box formats, boxes that make no sense."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ...._core.dtypes import dtype as DType
from ...._core.dtypes import float32
from ...._tensor import Tensor
from ....utils._pytree import tree_flatten, tree_unflatten
from ..._images import is_pil
from ...tv_tensors import BoundingBoxes, BoundingBoxFormat, Image, Mask, TVTensor, Video
from .. import _compose as v1
from .. import functional as F1
from . import functional as F
from ._labels import labels_of
from ._transform import Transform


class ToImage(Transform):
    """Tensors, arrays and images of pillow as `Image`; values stay."""

    def transforms_kind(self, inpt: Any) -> bool:
        return F.is_pure_tensor(inpt) or is_pil(inpt) or isinstance(inpt, np.ndarray)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return F.to_image(inpt)


class ToPILImage(Transform):
    """Tensors and arrays as images of pillow."""

    def __init__(self, mode: str | None = None) -> None:
        super().__init__()
        self.mode = mode

    def transforms_kind(self, inpt: Any) -> bool:
        return F.is_pure_tensor(inpt) or isinstance(inpt, (Image, np.ndarray))

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return F.to_pil_image(inpt, self.mode)


class PILToTensor(Transform):
    """Images of pillow as tensors of their own values."""

    def transforms_kind(self, inpt: Any) -> bool:
        return is_pil(inpt)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return F.pil_to_tensor(inpt)


class ToTensor(Transform):
    """Images of pillow and arrays as tensors within [0, 1]; `ToImage` and `ToDtype` took its place."""

    def __init__(self) -> None:
        warnings.warn("ToTensor is deprecated: use Compose([ToImage(), ToDtype(float32, scale=True)])", stacklevel=2)
        super().__init__()

    def transforms_kind(self, inpt: Any) -> bool:
        return is_pil(inpt) or isinstance(inpt, np.ndarray)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return F1.to_tensor(inpt)


class ToPureTensor(Transform):
    """Images, masks and boxes as ordinary tensors."""

    def transforms_kind(self, inpt: Any) -> bool:
        return isinstance(inpt, TVTensor)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return inpt.as_subclass(Tensor)


class ToDtype(Transform):
    """Images in another dtype (or each kind in its own, by a dict); `scale` maps the ranges of values too."""

    def __init__(self, dtype: Any, scale: bool = False) -> None:
        super().__init__()
        if not isinstance(dtype, (dict, DType)):
            raise ValueError(f"dtype must be a dict or a torch.dtype, got {type(dtype)} instead")
        if isinstance(dtype, dict) and Tensor in dtype and any(k in dtype for k in (Image, Video)):
            warnings.warn("a dict with Tensor and Image: ordinary tensors pass unchanged beside images", stacklevel=2)
        self.dtype = dtype
        self.scale = scale

    def transforms_kind(self, inpt: Any) -> bool:
        return isinstance(inpt, Tensor)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        if isinstance(self.dtype, DType):
            if not (F.is_pure_tensor(inpt) or isinstance(inpt, (Image, Video))):
                return inpt
            wanted: Any = self.dtype
        elif type(inpt) in self.dtype:
            wanted = self.dtype[type(inpt)]
        elif "others" in self.dtype:
            wanted = self.dtype["others"]
        else:
            raise ValueError(f"No dtype was specified for type {type(inpt)}; the dict may say 'others'")
        if wanted is None:
            return inpt
        return self.call(F.to_dtype, inpt, dtype=wanted, scale=self.scale)


class ConvertImageDtype(Transform):
    """Images in another dtype, their values scaled; `ToDtype(dtype, scale=True)` took its place."""

    def __init__(self, dtype: DType = float32) -> None:
        super().__init__()
        self.dtype = dtype

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.call(F.to_dtype, inpt, dtype=self.dtype, scale=True) if not is_pil(inpt) else inpt


class Normalize(Transform):
    """(image - mean) / std, channel by channel."""

    def __init__(self, mean: Any, std: Any, inplace: bool = False) -> None:
        super().__init__()
        self.mean = list(mean)
        self.std = list(std)
        self.inplace = inplace

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        if any(is_pil(inpt) for inpt in flat_inputs):
            raise TypeError(f"{type(self).__name__}() does not support PIL images.")

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.call(F.normalize, inpt, mean=self.mean, std=self.std, inplace=self.inplace)


class LinearTransformation(Transform, v1.LinearTransformation):
    """A flattened image minus a mean, times a square matrix."""

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        if any(is_pil(inpt) for inpt in flat_inputs):
            raise TypeError(f"{type(self).__name__}() does not support PIL images.")

    def transforms_kind(self, inpt: Any) -> bool:
        return F.is_pure_tensor(inpt) or isinstance(inpt, (Image, Video))

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        out = v1.LinearTransformation.forward(self, inpt.as_subclass(Tensor))
        return inpt._like(out) if isinstance(inpt, TVTensor) else out


class RGB(Transform):
    """Grey images with three channels."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.call(F.grayscale_to_rgb, inpt)


class ConvertBoundingBoxFormat(Transform):
    """Boxes in another format."""

    def __init__(self, format: BoundingBoxFormat | str) -> None:
        super().__init__()
        self.format = format

    def transforms_kind(self, inpt: Any) -> bool:
        return isinstance(inpt, BoundingBoxes)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return F.convert_bounding_box_format(inpt, new_format=self.format)


class ClampBoundingBoxes(Transform):
    """Boxes cut at the borders of their canvas."""

    def __init__(self, clamping_mode: str | None = "auto") -> None:
        super().__init__()
        self.clamping_mode = clamping_mode

    def transforms_kind(self, inpt: Any) -> bool:
        return isinstance(inpt, BoundingBoxes)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return inpt if self.clamping_mode is None else F.clamp_bounding_boxes(inpt)


class SanitizeBoundingBoxes(Transform):
    """Without boxes that are too small or reach outside, and without their labels and masks."""

    def __init__(
        self, min_size: float = 1.0, min_area: float = 1.0, labels_getter: Callable[[Any], Any] | str | None = "default"
    ) -> None:
        super().__init__()
        if min_size < 1:
            raise ValueError(f"min_size must be >= 1, got {min_size}.")
        if min_area < 1:
            raise ValueError(f"min_area must be >= 1, got {min_area}.")
        self.min_size = min_size
        self.min_area = min_area
        self.labels_getter = labels_getter

    def forward(self, *inputs: Any) -> Any:
        inputs = inputs if len(inputs) > 1 else inputs[0]
        labels = labels_of(inputs, self.labels_getter)
        labels = [] if labels is None else list(labels) if isinstance(labels, (list, tuple)) else [labels]
        flat, spec = tree_flatten(inputs)
        boxes = [inpt for inpt in flat if isinstance(inpt, BoundingBoxes)]
        if len(boxes) != 1:
            raise ValueError(f"exactly one BoundingBoxes is expected among the inputs, got {len(boxes)}")
        if any(not isinstance(label, Tensor) or label.shape[0] != boxes[0].shape[0] for label in labels):
            raise ValueError("labels must be tensors with one label for each box")
        _, valid = F.sanitize_bounding_boxes(boxes[0], min_size=self.min_size, min_area=self.min_area)

        def kept(inpt: Any) -> Any:
            if isinstance(inpt, TVTensor) and (
                isinstance(inpt, BoundingBoxes) or (isinstance(inpt, Mask) and inpt.shape[0] == valid.shape[0])
            ):
                return inpt._like(inpt.as_subclass(Tensor)[valid])
            return inpt[valid] if any(inpt is label for label in labels) else inpt

        return tree_unflatten([kept(inpt) for inpt in flat], spec)
