"""The inverse gamma distribution."""

from __future__ import annotations

import math

from .._ops.registry import ops
from .._tensor import Tensor
from . import constraints
from .gamma import Gamma
from .transformed_distribution import TransformedDistribution
from .transforms import PowerTransform
from .utils import formula

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """One over a gamma variable of shape `concentration` and inverse scale `rate`."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _batched = ("base_dist",)

    def __init__(self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None):
        base = Gamma(concentration, rate, validate_args=validate_args)
        inverse = PowerTransform(-ops.ones((), dtype=base.rate.dtype, device=base.rate.device))
        super().__init__(base, inverse, validate_args=validate_args)

    concentration = formula(lambda self: self.base_dist.concentration)
    rate = formula(lambda self: self.base_dist.rate)

    @property
    def mean(self) -> Tensor:
        mean = self.rate / (self.concentration - 1)
        return ops.where(self.concentration > 1, mean, math.inf)

    mode = formula(lambda self: self.rate / (self.concentration + 1))

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        return ops.where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + ops.lgamma(a) - (1 + a) * ops.digamma(a)
