"""Augmentation policies: AutoAugment, RandAugment, TrivialAugment and AugMix."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from ... import nn
from ..._ops.registry import ops
from ..._tensor import Tensor
from . import functional as F
from ._augmentation import Space, apply_op, mixing_space, standard_space, wide_space
from ._geometry import fill_for, randint
from ._policies import POLICIES
from .functional import InterpolationMode

__all__ = ["AugMix", "AutoAugment", "AutoAugmentPolicy", "RandAugment", "TrivialAugmentWide"]

_Fill = Sequence[float] | float | None


class AutoAugmentPolicy(Enum):
    """The dataset for which a policy was found."""

    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


class _Augment(nn.Module):
    """Base of the policies. The second generation of transforms shares `augmented` and draws signs otherwise."""

    white = 255.0  # the largest threshold of Solarize
    shown: tuple[str, ...] = ()

    def __init__(self, interpolation: InterpolationMode, fill: _Fill) -> None:
        super().__init__()
        self.interpolation = interpolation
        self.fill = fill

    def augmented(self, img: Any, fill: Any, height: int, width: int) -> Any:
        raise NotImplementedError

    def is_negative(self) -> bool:
        return bool(randint(0, 2))

    def apply_op(self, img: Any, name: str, magnitude: float, fill: Any) -> Any:
        return apply_op(F, img, name, magnitude, self.interpolation, fill)

    def draw(self, space: Space) -> tuple[str, list[float] | None, bool]:
        """An operation, its magnitudes, and whether they have a sign."""
        names = list(space)
        name = names[randint(0, len(names))]
        return (name, *space[name])

    def forward(self, img: Any) -> Any:
        _, height, width = F.get_dimensions(img)
        return self.augmented(img, fill_for(img, self.fill), height, width)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)}' for name in self.shown)})"


class AutoAugment(_Augment):
    """Two operations of a pair drawn from a policy that was learned for a dataset."""

    shown = ("policy", "fill")

    def __init__(
        self,
        policy: AutoAugmentPolicy = AutoAugmentPolicy.IMAGENET,
        interpolation: InterpolationMode = InterpolationMode.NEAREST,
        fill: _Fill = None,
    ) -> None:
        super().__init__(interpolation, fill)
        if not isinstance(policy, AutoAugmentPolicy):
            raise ValueError(f"The provided policy {policy} is not recognized.")
        self.policy = policy
        self.policies = POLICIES[policy.value]

    @staticmethod
    def get_params(transform_num: int) -> tuple[int, Tensor, Tensor]:
        """Which pair, and for each of the two a number for whether it is done and one for its sign."""
        number = randint(0, transform_num)
        return number, ops.rand((2,)), ops.randint(2, (2,))

    def augmented(self, img: Any, fill: Any, height: int, width: int) -> Any:
        number, chances, signs = self.get_params(len(self.policies))
        space = {**standard_space(10, height, width, self.white), "Invert": (None, False)}
        for (name, p, level), chance, sign in zip(self.policies[number], chances.tolist(), signs.tolist()):
            if chance <= p:
                magnitudes, signed = space[name]
                magnitude = 0.0 if magnitudes is None or level is None else magnitudes[level]
                img = self.apply_op(img, name, -magnitude if signed and sign == 0 else magnitude, fill)
        return img


class RandAugment(_Augment):
    """Some operations drawn at random, all of one magnitude."""

    shown = ("num_ops", "magnitude", "num_magnitude_bins", "interpolation", "fill")

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: InterpolationMode = InterpolationMode.NEAREST,
        fill: _Fill = None,
    ) -> None:
        super().__init__(interpolation, fill)
        self.num_ops = num_ops
        self.magnitude = magnitude
        self.num_magnitude_bins = num_magnitude_bins

    def augmented(self, img: Any, fill: Any, height: int, width: int) -> Any:
        space = standard_space(self.num_magnitude_bins, height, width, self.white)
        for _ in range(self.num_ops):
            name, magnitudes, signed = self.draw(space)
            magnitude = 0.0 if magnitudes is None else magnitudes[self.magnitude]
            if signed and self.is_negative():
                magnitude *= -1.0
            img = self.apply_op(img, name, magnitude, fill)
        return img


class TrivialAugmentWide(_Augment):
    """One operation of a magnitude, both drawn at random."""

    shown = ("num_magnitude_bins", "interpolation", "fill")

    def __init__(
        self,
        num_magnitude_bins: int = 31,
        interpolation: InterpolationMode = InterpolationMode.NEAREST,
        fill: _Fill = None,
    ) -> None:
        super().__init__(interpolation, fill)
        self.num_magnitude_bins = num_magnitude_bins

    def augmented(self, img: Any, fill: Any, height: int, width: int) -> Any:
        name, magnitudes, signed = self.draw(wide_space(self.num_magnitude_bins, self.white))
        magnitude = 0.0 if magnitudes is None else magnitudes[randint(0, len(magnitudes))]
        if signed and self.is_negative():
            magnitude *= -1.0
        return self.apply_op(img, name, magnitude, fill)


class AugMix(_Augment):
    """The image mixed with several chains of operations on it."""

    shown = ("severity", "mixture_width", "chain_depth", "alpha", "all_ops", "interpolation", "fill")

    def __init__(
        self,
        severity: int = 3,
        mixture_width: int = 3,
        chain_depth: int = -1,
        alpha: float = 1.0,
        all_ops: bool = True,
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        fill: _Fill = None,
    ) -> None:
        super().__init__(interpolation, fill)
        if not 1 <= severity <= 10:
            raise ValueError(f"The severity must be between [1, 10]. Got {severity} instead.")
        self.severity = severity
        self.mixture_width = mixture_width
        self.chain_depth = chain_depth
        self.alpha = alpha
        self.all_ops = all_ops

    def augmented(self, img: Any, fill: Any, height: int, width: int) -> Any:
        image = img if isinstance(img, Tensor) else F.pil_to_tensor(img)
        batch = image.reshape([1] * max(4 - image.ndim, 0) + list(image.shape))
        mix = self._mixed(batch, fill, height, width).reshape(image.shape).to(image.dtype)
        return mix if isinstance(img, Tensor) else F.to_pil_image(mix)

    def _mixed(self, image: Tensor, fill: Any, height: int, width: int) -> Tensor:
        space = mixing_space(height, width, self.white, self.all_ops)
        n = image.shape[0]
        column = [n] + [1] * (image.ndim - 1)
        shares = ops._sample_dirichlet(ops.tensor([self.alpha, self.alpha]).expand(n, -1))
        weights = ops._sample_dirichlet(ops.tensor([self.alpha] * self.mixture_width).expand(n, -1))
        weights = weights * shares[:, 1].reshape(n, -1)
        mix = shares[:, 0].reshape(column) * image
        for i in range(self.mixture_width):
            chain = image
            for _ in range(self.chain_depth if self.chain_depth > 0 else randint(1, 4)):
                name, magnitudes, signed = self.draw(space)
                magnitude = 0.0 if magnitudes is None else magnitudes[randint(0, self.severity)]
                if signed and self.is_negative():
                    magnitude *= -1.0
                chain = self.apply_op(chain, name, magnitude, fill)
            mix.add_(weights[:, i].reshape(column) * chain)
        return mix
