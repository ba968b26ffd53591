"""The half-Cauchy distribution."""

from __future__ import annotations

import math

from .._ops.registry import ops
from .._tensor import Tensor
from ._half import Half
from .cauchy import Cauchy
from .transforms import AbsTransform
from .utils import formula

__all__ = ["HalfCauchy"]


class HalfCauchy(Half):
    """The absolute value of a Cauchy variable around 0."""

    _batched = ("base_dist",)

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None):
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return ops.full(self._extended_shape(), math.inf, dtype=self.scale.dtype, device=self.scale.device)

    variance = formula(lambda self: self.base_dist.variance)
