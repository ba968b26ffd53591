"""The Laplace distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .._core.info import finfo
from .._core.sizes import Size
from .._ops.registry import ops
from .._tensor import Tensor
from ._parameters import LocScale
from .distribution import Distribution
from .utils import formula

__all__ = ["Laplace"]


class Laplace(LocScale, Distribution):
    """The Laplace distribution: exponential on both sides of `loc`."""

    variance = formula(lambda self: 2 * self.scale.square())
    stddev = formula(lambda self: math.sqrt(2) * self.scale)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        drawn = ops.empty(shape, dtype=self.loc.dtype, device=self.loc.device)
        u = drawn.uniform_(finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * ops.log1p(-u.abs())

    def _log_prob(self, value: Tensor) -> Tensor:
        return -ops.log(2 * self.scale) - ops.abs(value - self.loc) / self.scale

    def _cdf(self, value: Tensor) -> Tensor:
        away = value - self.loc
        return 0.5 - 0.5 * away.sign() * ops.expm1(-away.abs() / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        away = value - 0.5
        return self.loc - self.scale * away.sign() * ops.log1p(-2 * away.abs())

    def entropy(self) -> Tensor:
        return 1 + ops.log(2 * self.scale)
