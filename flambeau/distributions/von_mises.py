"""The von Mises distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .._autograd.modes import no_grad
from .._core.dtypes import bool_, float64
from .._core.sizes import Size
from .._ops.registry import ops
from .._tensor import Tensor
from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, formula, lazy_property

__all__ = ["VonMises"]


class VonMises(Distribution):
    """The normal distribution's counterpart on the circle: angles around `loc`.

    Samples are between -pi and pi.
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False
    _batched = ("loc", "concentration")

    def __init__(self, loc: Tensor, concentration: Tensor, validate_args: bool | None = None):
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def _log_prob(self, value: Tensor) -> Tensor:
        # log I0(k) = log i0e(k) + k
        away = ops.cos(value - self.loc) - 1
        return self.concentration * away - math.log(2 * math.pi) - ops.special_i0e(self.concentration).log()

    @lazy_property
    def _loc(self) -> Tensor:
        return self.loc.to(float64)

    @lazy_property
    def _concentration(self) -> Tensor:
        return self.concentration.to(float64)

    @lazy_property
    def _proposal_r(self) -> Tensor:
        """The parameter of the wrapped Cauchy distribution that samples are proposed from (Best and Fisher, 1979)."""
        kappa = self._concentration
        tau = 1 + (1 + 4 * kappa.square()).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        exact = (1 + rho.square()) / (2 * rho)
        return ops.where(kappa < 1e-5, 1 / kappa + kappa, exact)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            r, kappa = self._proposal_r.expand(shape), self._concentration.expand(shape)
            angle = ops.empty(shape, dtype=float64, device=self.loc.device)
            done = ops.zeros(shape, dtype=bool_, device=self.loc.device)
            while not done.all():
                u1, u2, u3 = ops.rand((3, *shape), dtype=float64, device=self.loc.device).unbind()
                z = ops.cos(math.pi * u1)
                f = (1 + r * z) / (r + z)
                c = kappa * (r - f)
                accept = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
                angle = ops.where(accept, (u3 - 0.5).sign() * f.acos(), angle)
                done = done | accept
            wrapped = (angle + math.pi + self._loc) % (2 * math.pi) - math.pi
            return wrapped.to(self.loc.dtype)

    @property
    def mean(self) -> Tensor:
        """The circular mean."""
        return self.loc

    mode = formula(lambda self: self.loc)

    @lazy_property
    def variance(self) -> Tensor:
        """The circular variance."""
        return 1 - ops.special_i1e(self.concentration) / ops.special_i0e(self.concentration)
