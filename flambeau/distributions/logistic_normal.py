"""The logistic-normal distribution."""

from __future__ import annotations

from .._tensor import Tensor
from . import constraints
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import StickBreakingTransform
from .utils import formula

__all__ = ["LogisticNormal"]


class LogisticNormal(TransformedDistribution):
    """Vectors of n + 1 probabilities made of n normal variables by breaking a stick."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True
    _batched = ("base_dist",)

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None):
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    loc = formula(lambda self: self.base_dist.base_dist.loc)
    scale = formula(lambda self: self.base_dist.base_dist.scale)
