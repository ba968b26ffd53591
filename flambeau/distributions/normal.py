"""The normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .._autograd.modes import no_grad
from .._core.sizes import Size
from .._ops.registry import ops
from .._tensor import Tensor
from ._parameters import LocScale
from .exp_family import ExponentialFamily
from .utils import _standard_normal, formula

__all__ = ["Normal"]


_HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)


class Normal(LocScale, ExponentialFamily):
    """The normal distribution with mean `loc` and standard deviation `scale`.

    >>> import flambeau as torch
    >>> torch.distributions.Normal(0.0, 1.0).log_prob(torch.tensor(0.0))
    tensor(-0.9189)
    """

    _mean_carrier_measure = 0

    stddev = formula(lambda self: self.scale)
    variance = formula(lambda self: self.scale.square())

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        with no_grad():
            if not sample_shape:
                return ops.normal(self.loc, self.scale)
            shape = self._extended_shape(sample_shape)
            return ops.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.loc + _standard_normal(shape, dtype=self.loc.dtype, device=self.loc.device) * self.scale

    def _log_prob(self, value: Tensor) -> Tensor:
        z = (value - self.loc) / self.scale
        return z * z * -0.5 - self.scale.log() - _HALF_LOG_2_PI

    def _cdf(self, value: Tensor) -> Tensor:
        return 0.5 * (1 + ops.erf((value - self.loc) / (self.scale * math.sqrt(2))))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * ops.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + _HALF_LOG_2_PI + self.scale.log()

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        variance = self.variance
        return self.loc / variance, -0.5 / variance

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return -0.25 * x * x / y + 0.5 * ops.log(-math.pi / y)
