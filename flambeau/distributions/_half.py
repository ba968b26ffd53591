"""Distributions of absolute values: the upper half of one that is symmetric around 0."""

from __future__ import annotations

import math

from .._ops.registry import ops
from .._tensor import Tensor
from . import constraints
from .transformed_distribution import TransformedDistribution
from .utils import formula


class Half(TransformedDistribution):
    """The absolute value of a variable of the base distribution."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    scale = formula(lambda self: self.base_dist.scale)
    mode = formula(lambda self: ops.zeros_like(self.scale))

    def _log_prob(self, value: Tensor) -> Tensor:
        value = ops.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        return ops.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Tensor) -> Tensor:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)
