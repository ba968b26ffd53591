"""The generalised Pareto distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._core.sizes import Size
from .._ops.registry import ops
from .._tensor import Tensor
from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, formula

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """Exceedances over `loc`; `concentration` is the shape: heavy-tailed above 0, exponential at 0, bounded below."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True
    _batched = ("loc", "scale", "concentration")

    def __init__(
        self,
        loc: Tensor | float,
        scale: Tensor | float,
        concentration: Tensor | float,
        validate_args: bool | None = None,
    ):
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def _split(self) -> tuple[Tensor, Tensor]:
        """Where the shape is (almost) 0, and the shape with 1 in those places."""
        flat = ops.isclose(self.concentration, ops.zeros_like(self.concentration))
        return flat, ops.where(flat, 1.0, self.concentration)

    def _z(self, x: Tensor) -> Tensor:
        return (x - self.loc) / self.scale

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(ops.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def _log_prob(self, value: Tensor) -> Tensor:
        z = self._z(value)
        flat, shape = self._split()
        return ops.where(flat, -z, -(1 / shape + 1) * ops.log1p(shape * z)) - self.scale.log()

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of exceeding a value."""
        if self._validate_args:
            self._validate_sample(value)
        z = self._z(value)
        flat, shape = self._split()
        return ops.where(flat, -z, -ops.log1p(shape * z) / shape)

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of `cdf`."""
        return ops.log1p(-ops.exp(self.log_survival_function(value)))

    def cdf(self, value: Tensor) -> Tensor:
        return ops.exp(self.log_cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        flat, shape = self._split()
        log_left = ops.log1p(-value)
        return self.loc + self.scale * ops.where(flat, -log_left, ops.expm1(-shape * log_left) / shape)

    @property
    def mean(self) -> Tensor:
        mean = self.loc + self.scale / (1 - self.concentration)
        return ops.where(self.concentration < 1, mean, math.nan)

    @property
    def variance(self) -> Tensor:
        c = self.concentration
        return ops.where(c < 0.5, self.scale.square() / ((1 - c).square() * (1 - 2 * c)), math.nan)

    mode = formula(lambda self: self.loc)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        end = ops.where(self.concentration < 0, self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(self.loc, end)
