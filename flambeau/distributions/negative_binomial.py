"""The negative binomial distribution."""

from __future__ import annotations

from collections.abc import Sequence

from .._autograd.modes import no_grad
from .._core.sizes import Size
from .._ops.registry import ops
from .._tensor import Tensor
from . import constraints
from ._parameters import Counted
from .distribution import Distribution
from .gamma import Gamma
from .utils import formula, lazy_property

__all__ = ["NegativeBinomial"]


class NegativeBinomial(Counted, Distribution):
    """The number of successes, of probability `probs`, before `total_count` failures."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _batched = ("total_count", "probs", "logits")
    _shared = ("_by_probs",)

    def __init__(
        self,
        total_count: Tensor | float,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ):
        self._take_counted(total_count, probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    mean = formula(lambda self: self.total_count * ops.exp(self.logits))
    mode = formula(lambda self: ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0))
    variance = formula(lambda self: self.mean / ops.sigmoid(-self.logits))

    @lazy_property
    def _gamma(self) -> Gamma:
        return Gamma(self.total_count, ops.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        with no_grad():
            return ops.poisson(self._gamma.sample(sample_shape))

    def _log_prob(self, value: Tensor) -> Tensor:
        n = self.total_count
        ways = ops.lgamma(n + value) - ops.lgamma(1.0 + value) - ops.lgamma(n)
        ways = ways.masked_fill(n + value == 0.0, 0.0)
        return ways + n * ops.log_sigmoid(-self.logits) + value * ops.log_sigmoid(self.logits)
