"""The Gumbel distribution."""

from __future__ import annotations

import math

from .._core.info import finfo
from .._ops.registry import ops
from .._tensor import Tensor
from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant, formula

__all__ = ["Gumbel"]


class Gumbel(TransformedDistribution):
    """The Gumbel distribution: of the largest of many values."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    _batched = ("loc", "scale", "base_dist")

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None):
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = finfo(self.loc.dtype)
        tiny, almost = ops.full_like(self.loc, limits.tiny), ops.full_like(self.loc, 1 - limits.eps)
        base = Uniform(tiny, almost, validate_args=validate_args)
        transforms = [
            ExpTransform().inv,
            AffineTransform(0, -ops.ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(self.loc, -self.scale),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def _log_prob(self, value: Tensor) -> Tensor:
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    mean = formula(lambda self: self.loc + self.scale * euler_constant)
    mode = formula(lambda self: self.loc)
    stddev = formula(lambda self: math.pi / math.sqrt(6) * self.scale)
    variance = formula(lambda self: self.stddev.square())

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)
