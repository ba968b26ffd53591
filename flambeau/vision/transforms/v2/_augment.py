"""Transforms that erase parts of images or mix the samples of a batch, and the learned policies."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...._core.dtypes import FLOATING, float32
from ...._ops.registry import ops
from ...._tensor import Tensor
from ....nn.functional import one_hot
from ....utils._pytree import tree_flatten, tree_unflatten
from ..._images import is_pil
from ...tv_tensors import BoundingBoxes, Image, Mask, TVTensor, Video
from .. import _geometry as geometry_v1
from .. import autoaugment as v1
from .._augmentation import apply_op, standard_space
from .._color_tensor import max_value
from .._geometry import randint
from . import functional as F
from ._labels import labels_of
from ._transform import RandomApplied, Transform, query_chw, query_size


class RandomErasing(RandomApplied):
    """A rectangle of images overwritten, with probability p."""

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: Any = 0.0,
        inplace: bool = False,
    ) -> None:
        geometry_v1.RandomErasing(p, scale, ratio, value)  # raises for bad arguments
        super().__init__(p)
        self.scale = scale
        self.ratio = ratio
        if isinstance(value, (int, float)):
            self.value: list[float] | None = [float(value)]
        else:
            self.value = None if isinstance(value, str) else [float(v) for v in value]
        self.inplace = inplace

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        shape = query_chw(flat_inputs)
        if self.value is not None and len(self.value) not in (1, shape[0]):
            raise ValueError(
                f"If value is a sequence, it should have either a single value or {shape[0]} (number of inpt channels)"
            )
        found = geometry_v1.RandomErasing.find_rectangle(shape, self.scale, self.ratio, self.value)
        return {} if found is None else dict(zip("ijhwv", found))

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.call(F.erase, inpt, **params, inplace=self.inplace) if params else inpt


class _Mixing(Transform):
    """Base of MixUp and CutMix: which inputs are batches and which their labels."""

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        num_classes: int | None = None,
        labels_getter: Callable[[Any], Any] | str = "default",
    ) -> None:
        super().__init__()
        self.alpha = float(alpha)
        self.num_classes = num_classes
        self._labels_getter = labels_getter

    def share(self) -> float:
        """How much of the first of two samples stays, by a beta distribution."""
        return float(ops._sample_dirichlet(ops.tensor([[self.alpha, self.alpha]]))[..., 0])

    def forward(self, *inputs: Any) -> Any:
        inputs = inputs if len(inputs) > 1 else inputs[0]
        flat, spec = tree_flatten(inputs)
        if any(is_pil(inpt) or isinstance(inpt, (BoundingBoxes, Mask)) for inpt in flat):
            raise ValueError(f"{type(self).__name__}() does not support PIL images, bounding boxes and masks.")
        labels = labels_of(inputs, self._labels_getter)
        if not isinstance(labels, Tensor):
            raise ValueError(f"The labels must be a tensor, but got {type(labels)} instead.")
        floats = labels.dtype.category == FLOATING
        if labels.ndim not in (1, 2) or (labels.ndim == 2 and not floats):
            raise ValueError(
                f"labels should be index based with shape (batch_size,) or probability based with shape "
                f"(batch_size, num_classes), but got a tensor of shape {labels.shape} instead."
            )
        if labels.ndim == 1 and self.num_classes is None:
            raise ValueError("num_classes must be passed if the labels are index-based (1D)")
        takes = [inpt is not labels and self._is_batch(inpt, labels) for inpt in flat]
        params = self.make_params([inpt for inpt, taken in zip(flat, takes) if taken])
        made = [
            self.mixed_labels(inpt, params["share"])
            if inpt is labels
            else self.transform(inpt, params)
            if taken
            else inpt
            for inpt, taken in zip(flat, takes)
        ]
        return tree_unflatten(made, spec)

    @staticmethod
    def _is_batch(inpt: Any, labels: Tensor) -> bool:
        if not (F.is_pure_tensor(inpt) or isinstance(inpt, (Image, Video))):
            return False
        if inpt.ndim != (5 if isinstance(inpt, Video) else 4):
            raise ValueError(f"Expected a batched input with 4 dims, but got {inpt.ndim} dimensions instead.")
        if inpt.shape[0] != labels.shape[0]:
            raise ValueError(
                "The batch size of the image or video does not match the batch size of the labels: "
                f"{inpt.shape[0]} != {labels.shape[0]}."
            )
        return True

    def mixed_labels(self, labels: Tensor, share: float) -> Tensor:
        if labels.ndim == 1:
            labels = one_hot(labels, num_classes=self.num_classes)
        if labels.dtype.category != FLOATING:
            labels = labels.to(float32)
        return labels.roll(1, 0).mul(1.0 - share).add(labels.mul(share))


class MixUp(_Mixing):
    """Each sample of a batch mixed with the one before it, their labels too."""

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"share": self.share()}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        share = params["share"]
        plain = inpt.as_subclass(Tensor)
        out = plain.roll(1, 0).mul(1.0 - share).add(plain.mul(share))
        return inpt._like(out) if isinstance(inpt, TVTensor) else out


class CutMix(_Mixing):
    """A rectangle of each sample of a batch taken from the one before it, their labels mixed accordingly."""

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        share = self.share()
        height, width = query_size(flat_inputs)
        x, y = randint(0, width), randint(0, height)
        half = 0.5 * math.sqrt(1.0 - share)
        half_width, half_height = int(half * width), int(half * height)
        left, right = max(x - half_width, 0), min(x + half_width, width)
        top, bottom = max(y - half_height, 0), min(y + half_height, height)
        kept = 1.0 - (right - left) * (bottom - top) / (width * height)
        return {"box": (left, top, right, bottom), "share": kept}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        left, top, right, bottom = params["box"]
        plain = inpt.as_subclass(Tensor)
        out = plain.clone()
        out[..., top:bottom, left:right] = plain.roll(1, 0)[..., top:bottom, left:right]
        return inpt._like(out) if isinstance(inpt, TVTensor) else out


class _Augment(Transform):
    """Base of the policies: they find the one image of a sample and change it."""

    white = 1.0
    fill: Any

    def is_negative(self) -> bool:
        return bool(ops.rand(()) <= 0.5)

    def apply_op(self, img: Any, name: str, magnitude: float, fill: Any) -> Any:
        if name == "Solarize":
            magnitude *= max_value(img.dtype) if isinstance(img, Tensor) else 255.0
        return apply_op(F, img, name, magnitude, self.interpolation, fill)

    def forward(self, *inputs: Any) -> Any:
        flat, spec = tree_flatten(inputs if len(inputs) > 1 else inputs[0])
        if any(isinstance(inpt, (BoundingBoxes, Mask)) for inpt in flat):
            raise TypeError(f"Inputs of type BoundingBoxes and Mask are not supported by {type(self).__name__}()")
        places = [i for i, takes in enumerate(self.wanted(flat)) if takes]
        if len(places) != 1:
            raise (TypeError if not places else ValueError)(
                f"{type(self).__name__}: expected one image, found {len(places)}"
            )
        image = flat[places[0]]
        height, width = F.get_size(image)
        flat[places[0]] = self.augmented(image, self.fill_for(image, self.fill), height, width)
        return tree_unflatten(flat, spec)


class AutoAugment(_Augment, v1.AutoAugment):
    """Two operations of a pair drawn from a policy that was learned for a dataset."""

    hidden = ("training", "policies")

    def augmented(self, img: Any, fill: Any, height: int, width: int) -> Any:
        space = {**standard_space(10, height, width, self.white), "Invert": (None, False)}
        for name, p, level in self.policies[randint(0, len(self.policies))]:
            if not ops.rand(()) <= p:
                continue
            magnitudes, signed = space[name]
            magnitude = 0.0 if magnitudes is None or level is None else magnitudes[level]
            if signed and magnitudes is not None and self.is_negative():
                magnitude *= -1
            img = self.apply_op(img, name, magnitude, fill)
        return img


class RandAugment(_Augment, v1.RandAugment):
    """Some operations drawn at random, all of one magnitude."""


class TrivialAugmentWide(_Augment, v1.TrivialAugmentWide):
    """One operation of a magnitude, both drawn at random."""


class AugMix(_Augment, v1.AugMix):
    """The image mixed with several chains of operations on it."""

    def augmented(self, img: Any, fill: Any, height: int, width: int) -> Any:
        out = v1.AugMix.augmented(
            self, img.as_subclass(Tensor) if isinstance(img, TVTensor) else img, fill, height, width
        )
        return img._like(out) if isinstance(img, TVTensor) else out
