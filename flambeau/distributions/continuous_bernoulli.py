"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .._core.sizes import Size
from .._ops.losses.elements import binary_cross_entropy_with_logits
from .._ops.registry import ops
from .._tensor import Tensor
from . import constraints
from ._parameters import ProbsOrLogits, check_one_given
from .exp_family import ExponentialFamily
from .utils import broadcast_all, clamp_probs, formula, lazy_property, logits_to_probs

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(ProbsOrLogits, ExponentialFamily):
    """Numbers in [0, 1] with density proportional to probs ** x * (1 - probs) ** (1 - x).

    Between the `lims` its formulas divide by almost zero; there, their Taylor series around 1/2 are used.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0
    _batched = ("probs", "logits")
    _shared = ("_by_probs", "_lims")

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ):
        check_one_given(probs, logits)
        self._by_probs = probs is not None
        self._lims = lims
        if self._by_probs:
            (given,) = broadcast_all(probs)
            checked = self._validate_args if validate_args is None else validate_args
            if checked and not self.arg_constraints["probs"].check(given).all():
                raise ValueError(f"The parameter probs has invalid values: {given}")
            self.probs = clamp_probs(given)
        else:
            (self.logits,) = broadcast_all(logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    @lazy_property
    def probs(self) -> Tensor:
        """The parameter, a rounding step away from 0 and 1, where the density has no limit."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _outside_unstable_region(self) -> Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self) -> Tensor:
        """Probabilities, moved out of the region where formulas are unstable."""
        return ops.where(self._outside_unstable_region(), self.probs, self._lims[0] * ops.ones_like(self.probs))

    def _cont_bern_log_norm(self) -> Tensor:
        """The logarithm of the normalising constant."""
        cut = self._cut_probs()
        low = cut <= 0.5
        below, above = ops.where(low, cut, 0.0), ops.where(low, 1.0, cut)
        size = ops.where(low, ops.log1p(-2.0 * below), ops.log(2.0 * above - 1.0))
        exact = ops.log(ops.abs(ops.log1p(-cut) - ops.log(cut))) - size
        x = (self.probs - 0.5).square()
        near = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        return ops.where(self._outside_unstable_region(), exact, near)

    @property
    def mean(self) -> Tensor:
        cut = self._cut_probs()
        exact = cut / (2.0 * cut - 1.0) + 1.0 / (ops.log1p(-cut) - ops.log(cut))
        x = self.probs - 0.5
        near = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.square()) * x
        return ops.where(self._outside_unstable_region(), exact, near)

    stddev = formula(lambda self: self.variance.sqrt())

    @property
    def variance(self) -> Tensor:
        cut = self._cut_probs()
        exact = cut * (cut - 1.0) / (1.0 - 2.0 * cut).square() + 1.0 / (ops.log1p(-cut) - ops.log(cut)).square()
        x = (self.probs - 0.5).square()
        near = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        return ops.where(self._outside_unstable_region(), exact, near)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(ops.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def _log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, value)
        weight = binary_cross_entropy_with_logits(logits, value, reduction="none")
        return self._cont_bern_log_norm() - weight

    def _cdf(self, value: Tensor) -> Tensor:
        cut = self._cut_probs()
        exact = (ops.pow(cut, value) * ops.pow(1.0 - cut, 1.0 - value) + cut - 1.0) / (2.0 * cut - 1.0)
        result = ops.where(self._outside_unstable_region(), exact, value)
        return ops.where(value <= 0.0, 0.0, ops.where(value >= 1.0, 1.0, result))

    def icdf(self, value: Tensor) -> Tensor:
        cut = self._cut_probs()
        exact = ops.log1p(-cut + value * (2.0 * cut - 1.0)) - ops.log1p(-cut)
        return ops.where(self._outside_unstable_region(), exact / (ops.log(cut) - ops.log1p(-cut)), value)

    def entropy(self) -> Tensor:
        zero, one = ops.log1p(-self.probs), ops.log(self.probs)
        return self.mean * (zero - one) - self._cont_bern_log_norm() - zero

    _natural_params = property(lambda self: (self.logits,))

    def _log_normalizer(self, x: Tensor) -> Tensor:
        outside = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = ops.where(outside, x, (self._lims[0] - 0.5) * ops.ones_like(x))
        exact = ops.log(ops.abs(ops.expm1(cut))) - ops.log(ops.abs(cut))
        near = 0.5 * x + x.square() / 24.0 - x.square().square() / 2880.0
        return ops.where(outside, exact, near)
