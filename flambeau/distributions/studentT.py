"""Student's t-distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .._core.sizes import Size
from .._ops.registry import ops
from .._tensor import Tensor
from . import constraints
from .chi2 import Chi2
from .distribution import Distribution
from .utils import _standard_normal, broadcast_all, formula

__all__ = ["StudentT"]


class StudentT(Distribution):
    """Student's t-distribution with `df` degrees of freedom, moved and scaled."""

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _batched = ("df", "loc", "scale", "_chi2")

    def __init__(
        self,
        df: Tensor | float,
        loc: Tensor | float = 0.0,
        scale: Tensor | float = 1.0,
        validate_args: bool | None = None,
    ):
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.size(), validate_args=validate_args)

    mean = formula(lambda self: self.loc.masked_fill(self.df <= 1, math.nan))
    mode = formula(lambda self: self.loc)

    @property
    def variance(self) -> Tensor:
        spread = self.scale.square() * self.df / (self.df - 2)
        return spread.masked_fill(self.df <= 2, math.inf).masked_fill(self.df <= 1, math.nan)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        x = _standard_normal(shape, dtype=self.df.dtype, device=self.df.device)
        z = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * (x * ops.rsqrt(z / self.df))

    def _log_beta(self) -> Tensor:
        """log B(df / 2, 1 / 2)."""
        return ops.lgamma(0.5 * self.df) + math.lgamma(0.5) - ops.lgamma(0.5 * (self.df + 1.0))

    def _log_prob(self, value: Tensor) -> Tensor:
        y = (value - self.loc) / self.scale
        constant = self.scale.log() + 0.5 * self.df.log() + self._log_beta()
        return -0.5 * (self.df + 1.0) * ops.log1p(y.square() / self.df) - constant

    def entropy(self) -> Tensor:
        half, next_half = 0.5 * self.df, 0.5 * (self.df + 1.0)
        rise = next_half * (ops.digamma(next_half) - ops.digamma(half))
        return self.scale.log() + rise + 0.5 * self.df.log() + self._log_beta()
