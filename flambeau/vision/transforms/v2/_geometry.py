"""Transforms that move pixels, and with them masks and boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...._ops.registry import ops
from ...tv_tensors import BoundingBoxes, Mask
from .. import _functional_tensor as F_t
from .. import _geometry as v1
from .. import functional as F1
from .._geometry import randint, setup_size
from ..functional import InterpolationMode
from . import functional as F
from ._transform import RandomApplied, Transform, query_size

BILINEAR = InterpolationMode.BILINEAR


class RandomHorizontalFlip(RandomApplied):
    """Left and right exchanged with probability p."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.call(F.horizontal_flip, inpt)


class RandomVerticalFlip(RandomApplied):
    """Top and bottom exchanged with probability p."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.call(F.vertical_flip, inpt)


class Resize(Transform):
    """Another size; one number is the length of the shorter edge, None makes the longer one `max_size`."""

    def __init__(
        self,
        size: int | Sequence[int] | None,
        interpolation: InterpolationMode | int = BILINEAR,
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        if isinstance(size, int):
            size = [size]
        elif isinstance(size, Sequence) and len(size) in (1, 2):
            size = list(size)
        elif size is None:
            if not isinstance(max_size, int):
                raise ValueError(f"max_size must be an integer when size is None, but got {max_size} instead.")
        else:
            raise ValueError(
                f"size can be an integer, a sequence of one or two integers, or None, but got {size} instead."
            )
        self.size = size
        self.interpolation = F1.interpolation_mode(interpolation)
        self.max_size = max_size
        self.antialias = antialias

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.call(F.resize, inpt, self.size, self.interpolation, self.max_size, self.antialias)


class CenterCrop(Transform, v1.CenterCrop):
    """The middle, padded with zeros where the image is smaller."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.call(F.center_crop, inpt, output_size=self.size)


class RandomResizedCrop(Transform, v1.RandomResizedCrop):
    """A part of random area and aspect ratio, in a fixed size."""

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        blank = ops.empty((1, *query_size(flat_inputs)))
        return dict(zip(("top", "left", "height", "width"), self.get_params(blank, self.scale, self.ratio)))

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        options = {"interpolation": self.interpolation, "antialias": self.antialias}
        return self.call(F.resized_crop, inpt, **params, size=self.size, **options)


class FiveCrop(Transform, v1.FiveCrop):
    """The four corners and the middle of images, as a tuple."""

    crops = staticmethod(F.five_crop.image)

    def arguments(self) -> tuple[Any, ...]:
        return (self.size,)

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        if any(isinstance(inpt, (BoundingBoxes, Mask)) for inpt in flat_inputs):
            raise TypeError(f"BoundingBoxes'es and Mask's are not supported by {type(self).__name__}()")

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        made = type(self).crops(inpt, *self.arguments())
        return tuple(inpt._like(part) for part in made) if hasattr(inpt, "_like") else made


class TenCrop(FiveCrop):
    """The four corners and the middle of images and of their mirror images, as a tuple."""

    crops = staticmethod(F.ten_crop.image)

    def __init__(self, size: int | Sequence[int], vertical_flip: bool = False) -> None:
        super().__init__(size)
        self.vertical_flip = vertical_flip

    def arguments(self) -> tuple[Any, ...]:
        return self.size, self.vertical_flip


class Pad(Transform):
    """A border; `fill` may be a dict by kinds of inputs."""

    def __init__(self, padding: int | Sequence[int], fill: Any = 0, padding_mode: str = "constant") -> None:
        super().__init__()
        F1.check_padding(padding, 0, padding_mode)
        self.padding = padding if isinstance(padding, int) else list(padding)
        self.fill = fill
        self.padding_mode = padding_mode

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        fill = self.fill_for(inpt, self.fill)
        return self.call(F.pad, inpt, padding=self.padding, fill=fill, padding_mode=self.padding_mode)


class RandomZoomOut(RandomApplied):
    """The image on a larger canvas, with probability p."""

    def __init__(self, fill: Any = 0, side_range: Sequence[float] = (1.0, 4.0), p: float = 0.5) -> None:
        super().__init__(p)
        self.fill = fill
        v1.check_sequence(side_range, "side_range")
        self.side_range = side_range
        if side_range[0] < 1.0 or side_range[0] > side_range[1]:
            raise ValueError(f"Invalid side range provided {side_range}.")

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = query_size(flat_inputs)
        low, high = self.side_range
        ratio = low + ops.rand(1) * (high - low)
        wide, tall = int(width * ratio), int(height * ratio)
        place = ops.rand(2)
        left, top = int((wide - width) * place[0]), int((tall - height) * place[1])
        return {"padding": [left, top, wide - (left + width), tall - (top + height)]}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.call(F.pad, inpt, **params, fill=self.fill_for(inpt, self.fill))


class RandomRotation(Transform, v1.RandomRotation):
    """Turned by an angle of chance."""

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"angle": self.get_params(self.degrees)}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        options = {"interpolation": self.interpolation, "expand": self.expand, "center": self.center}
        return self.call(F.rotate, inpt, **params, **options, fill=self.fill_for(inpt, self.fill))


class RandomAffine(Transform, v1.RandomAffine):
    """Rotated, translated, scaled and sheared by chance."""

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = query_size(flat_inputs)
        found = self.get_params(self.degrees, self.translate, self.scale, self.shear, [width, height])
        return dict(zip(("angle", "translate", "scale", "shear"), found))

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        options = {"interpolation": self.interpolation, "center": self.center}
        return self.call(F.affine, inpt, **params, **options, fill=self.fill_for(inpt, self.fill))


class RandomCrop(Transform):
    """A part at a place of chance, after padding if asked for."""

    def __init__(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__()
        self.size = setup_size(size)
        self.padding = None
        if padding is not None:
            F1.check_padding(padding, 0, padding_mode)
            left, right, top, bottom = F_t.parse_padding(padding)
            self.padding = [left, top, right, bottom]
        self.pad_if_needed = pad_if_needed
        self.fill = fill
        self.padding_mode = padding_mode

    get_params = staticmethod(v1.RandomCrop.get_params)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        sizes = list(query_size(flat_inputs))
        border = list(self.padding or [0, 0, 0, 0])  # left, top, right, bottom
        sizes = [sizes[0] + border[1] + border[3], sizes[1] + border[0] + border[2]]
        places, padded = [], self.padding is not None
        for axis, wanted in enumerate(self.size):
            if sizes[axis] < wanted:
                if not self.pad_if_needed:
                    raise ValueError(
                        f"Required crop size {tuple(self.size)} is larger than padded input image size {tuple(sizes)}."
                    )
                missing = wanted - sizes[axis]
                border[1 - axis] += missing
                border[3 - axis] += missing
                sizes[axis] += 2 * missing
                padded = True
        for axis, wanted in enumerate(self.size):
            places.append(randint(0, sizes[axis] - wanted + 1) if sizes[axis] > wanted else 0)
        cropped = list(self.size) != sizes
        return {"padding": border if padded else None, "top": places[0], "left": places[1], "cropped": cropped}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        if params["padding"] is not None:
            fill = self.fill_for(inpt, self.fill)
            inpt = self.call(F.pad, inpt, padding=params["padding"], fill=fill, padding_mode=self.padding_mode)
        if params["cropped"]:
            height, width = self.size
            inpt = self.call(F.crop, inpt, params["top"], params["left"], height, width)
        return inpt


class RandomPerspective(RandomApplied, v1.RandomPerspective):
    """As seen from elsewhere, with probability p."""

    def __init__(
        self,
        distortion_scale: float = 0.5,
        p: float = 0.5,
        interpolation: InterpolationMode | int = BILINEAR,
        fill: Any = 0,
    ) -> None:
        if not 0 <= distortion_scale <= 1:
            raise ValueError("Argument distortion_scale value should be between 0 and 1")
        RandomApplied.__init__(self, p)
        self.distortion_scale = distortion_scale
        self.interpolation = F1.interpolation_mode(interpolation)
        self.fill = fill

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = query_size(flat_inputs)
        points = self.get_params(width, height, self.distortion_scale)
        return {"coefficients": F1.perspective_coefficients(*points)}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        options = {"interpolation": self.interpolation, "fill": self.fill_for(inpt, self.fill)}
        return self.call(F.perspective, inpt, startpoints=None, endpoints=None, **options, **params)


class ElasticTransform(Transform, v1.ElasticTransform):
    """As if drawn on cloth: every pixel moved by a smooth displacement of chance."""

    def __init__(
        self,
        alpha: float | Sequence[float] = 50.0,
        sigma: float | Sequence[float] = 5.0,
        interpolation: InterpolationMode | int = BILINEAR,
        fill: Any = 0,
    ) -> None:
        v1.ElasticTransform.__init__(self, alpha, sigma, interpolation)
        self.fill = fill

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"displacement": self.get_params(self.alpha, self.sigma, query_size(flat_inputs))}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        options = {"interpolation": self.interpolation, "fill": self.fill_for(inpt, self.fill)}
        return self.call(F.elastic, inpt, **params, **options)


class ScaleJitter(Transform):
    """Scaled by chance around a target size."""

    def __init__(
        self,
        target_size: tuple[int, int],
        scale_range: tuple[float, float] = (0.1, 2.0),
        interpolation: InterpolationMode | int = BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.target_size = target_size
        self.scale_range = scale_range
        self.interpolation = F1.interpolation_mode(interpolation)
        self.antialias = antialias

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = query_size(flat_inputs)
        low, high = self.scale_range
        scale = low + ops.rand(1) * (high - low)
        ratio = min(self.target_size[1] / height, self.target_size[0] / width) * scale
        return {"size": (int(height * ratio), int(width * ratio))}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.call(F.resize, inpt, **params, interpolation=self.interpolation, antialias=self.antialias)


class RandomShortestSize(Transform):
    """The shorter edge of one of some lengths."""

    def __init__(
        self,
        min_size: list[int] | tuple[int, ...] | int,
        max_size: int | None = None,
        interpolation: InterpolationMode | int = BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.min_size = [min_size] if isinstance(min_size, int) else list(min_size)
        self.max_size = max_size
        self.interpolation = F1.interpolation_mode(interpolation)
        self.antialias = antialias

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = query_size(flat_inputs)
        ratio = self.min_size[randint(0, len(self.min_size))] / min(height, width)
        if self.max_size is not None:
            ratio = min(ratio, self.max_size / max(height, width))
        return {"size": (int(height * ratio), int(width * ratio))}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.call(F.resize, inpt, **params, interpolation=self.interpolation, antialias=self.antialias)


class RandomResize(Transform):
    """The shorter edge of a length of chance."""

    def __init__(
        self,
        min_size: int,
        max_size: int,
        interpolation: InterpolationMode | int = BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.min_size = min_size
        self.max_size = max_size
        self.interpolation = F1.interpolation_mode(interpolation)
        self.antialias = antialias

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"size": [randint(self.min_size, self.max_size)]}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.call(F.resize, inpt, **params, interpolation=self.interpolation, antialias=self.antialias)
