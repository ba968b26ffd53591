"""The Weibull distribution."""

from __future__ import annotations

from .._ops.registry import ops
from .._tensor import Tensor
from . import constraints
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .utils import broadcast_all, euler_constant, formula

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """The Weibull distribution with `scale` and shape `concentration`."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    _batched = ("scale", "concentration", "base_dist")

    def __init__(self, scale: Tensor | float, concentration: Tensor | float, validate_args: bool | None = None):
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(ops.ones_like(self.scale), validate_args=validate_args)
        transforms = [PowerTransform(self.concentration.reciprocal()), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    def _log_moment(self, n: int) -> Tensor:
        return ops.lgamma(1 + n * self.concentration.reciprocal())

    mean = formula(lambda self: self.scale * ops.exp(self._log_moment(1)))

    @property
    def mode(self) -> Tensor:
        c = self.concentration
        return self.scale * ((c - 1) / c).pow(c.reciprocal())

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (ops.exp(self._log_moment(2)) - ops.exp(2 * self._log_moment(1)))

    def entropy(self) -> Tensor:
        inverse = self.concentration.reciprocal()
        return euler_constant * (1 - inverse) + ops.log(self.scale * inverse) + 1
