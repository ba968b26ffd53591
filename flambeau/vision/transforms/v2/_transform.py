"""The base of the second generation of transforms: any structure of inputs, each transformed by its kind."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from .... import nn
from ...._ops.registry import ops
from ...._tensor import Tensor
from ....utils._pytree import tree_flatten, tree_unflatten
from ..._images import is_pil
from ...tv_tensors import BoundingBoxes, Image, Mask, Video
from ..functional import InterpolationMode
from . import functional as F
from ._dispatch import dispatch


class Transform(nn.Module):
    """Base of the transforms: subclasses give `transform(inpt, params)`, and `make_params(flat_inputs)` if they draw.

    Inputs may be any structure of lists, tuples and dicts. Tensors that do not say what they are pass unchanged, but
    for the first of them where there is no image.
    """

    hidden: tuple[str, ...] = ("training",)  # attributes that are not shown

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        """Raises for inputs that the transform cannot take."""

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """What is drawn once for all inputs."""
        return {}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input, transformed."""
        raise NotImplementedError

    def transforms_kind(self, inpt: Any) -> bool:
        """Whether inputs of this kind are transformed at all."""
        return isinstance(inpt, Tensor) or is_pil(inpt)

    def call(self, functional: Any, inpt: Any, *args: Any, **kwargs: Any) -> Any:
        """A function by the kind of the input; an input that it is not for stays as it is."""
        return dispatch(functional, inpt, args, kwargs, pass_through=True)

    def wanted(self, flat_inputs: list[Any]) -> list[bool]:
        """Which of the inputs are transformed."""
        found = []
        pure_passes = any(isinstance(i, (Image, Video)) or is_pil(i) for i in flat_inputs)
        for inpt in flat_inputs:
            takes = self.transforms_kind(inpt)
            if takes and F.is_pure_tensor(inpt):
                takes, pure_passes = not pure_passes, True
            found.append(takes)
        return found

    def forward(self, *inputs: Any) -> Any:
        flat, spec = tree_flatten(inputs if len(inputs) > 1 else inputs[0])
        self.check_inputs(flat)
        return self.apply_to(flat, spec)

    def apply_to(self, flat: list[Any], spec: Any) -> Any:
        wanted = self.wanted(flat)
        params = self.make_params([inpt for inpt, takes in zip(flat, wanted) if takes])
        return tree_unflatten(
            [self.transform(inpt, params) if takes else inpt for inpt, takes in zip(flat, wanted)], spec
        )

    def extra_repr(self) -> str:
        kinds = (bool, int, float, str, tuple, list, enum.Enum)
        parts = []
        for name, value in vars(self).items():
            if not name.startswith("_") and name not in self.hidden and isinstance(value, kinds):
                parts.append(f"{name}={value.value if isinstance(value, InterpolationMode) else value}")
        return ", ".join(parts)

    def __repr__(self) -> str:
        return nn.Module.__repr__(self)  # the first generation has its own

    def fill_for(self, inpt: Any, fill: Any) -> Any:
        """The fill for this kind of input: `fill` may be a dict by kinds, with "others"."""
        if isinstance(fill, dict):
            fill = fill[type(inpt)] if type(inpt) in fill else fill.get("others", 0)
        return [float(f) for f in fill] if isinstance(fill, (list, tuple)) else fill


class RandomApplied(Transform):
    """Base of the transforms that are done with probability p."""

    def __init__(self, p: float = 0.5) -> None:
        if not 0.0 <= p <= 1.0:
            raise ValueError("`p` should be a floating point value in the interval [0.0, 1.0].")
        super().__init__()
        self.p = p

    def forward(self, *inputs: Any) -> Any:
        inputs = inputs if len(inputs) > 1 else inputs[0]
        flat, spec = tree_flatten(inputs)
        self.check_inputs(flat)
        return inputs if ops.rand(1) >= self.p else self.apply_to(flat, spec)


def query_size(flat_inputs: Sequence[Any]) -> tuple[int, int]:
    """Height and width that all images, masks and canvases have in common."""
    kinds = (Image, Video, Mask, BoundingBoxes)
    sizes = {
        tuple(F.get_size(inpt))
        for inpt in flat_inputs
        if F.is_pure_tensor(inpt) or is_pil(inpt) or isinstance(inpt, kinds)
    }
    return _only(sizes, "height and width")


def query_chw(flat_inputs: Sequence[Any]) -> tuple[int, int, int]:
    """Channels, height and width that all images have in common."""
    found = {
        tuple(F.get_dimensions(inpt))
        for inpt in flat_inputs
        if F.is_pure_tensor(inpt) or is_pil(inpt) or isinstance(inpt, (Image, Video))
    }
    return _only(found, "CxHxW")


def _only(found: set[Any], what: str) -> Any:
    if not found:
        raise TypeError("No image, video, mask, bounding box of keypoint was found in the sample")
    if len(found) > 1:
        raise ValueError(f"Found multiple {what} dimensions in the sample: {sorted(found)}")
    return next(iter(found))
