"""The half-normal distribution."""

from __future__ import annotations

import math

from .._tensor import Tensor
from ._half import Half
from .normal import Normal
from .transforms import AbsTransform
from .utils import formula

__all__ = ["HalfNormal"]


class HalfNormal(Half):
    """The absolute value of a normal variable around 0."""

    _batched = ("base_dist",)

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None):
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    mean = formula(lambda self: self.scale * math.sqrt(2 / math.pi))
    variance = formula(lambda self: self.scale.square() * (1 - 2 / math.pi))
