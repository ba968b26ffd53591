"""The Poisson distribution."""

from __future__ import annotations

from collections.abc import Sequence

from .._autograd.modes import no_grad
from .._core.sizes import Size
from .._ops.registry import ops
from .._tensor import Tensor
from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_all, formula

__all__ = ["Poisson"]


class Poisson(ExponentialFamily):
    """Counts of events that happen with a given rate."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    _batched = ("rate",)

    def __init__(self, rate: Tensor | float, validate_args: bool | None = None):
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    mean = formula(lambda self: self.rate)
    mode = formula(lambda self: self.rate.floor())
    variance = formula(lambda self: self.rate)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        with no_grad():
            return ops.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def _log_prob(self, value: Tensor) -> Tensor:
        rate, value = broadcast_all(self.rate, value)
        return ops.xlogy(value, rate) - rate - ops.lgamma(value + 1)

    _natural_params = property(lambda self: (self.rate.log(),))

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return ops.exp(x)
