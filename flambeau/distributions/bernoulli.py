"""The Bernoulli distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .._autograd.modes import no_grad
from .._core.sizes import Size
from .._ops.losses.elements import binary_cross_entropy_with_logits
from .._ops.registry import ops
from .._tensor import Tensor
from . import constraints
from ._parameters import ProbsOrLogits
from .exp_family import ExponentialFamily
from .utils import _softplus, broadcast_all, formula

__all__ = ["Bernoulli"]


class Bernoulli(ProbsOrLogits, ExponentialFamily):
    """1 with probability `probs` (log-odds `logits`), else 0.

    >>> import flambeau as torch
    >>> torch.distributions.Bernoulli(0.25).log_prob(torch.tensor(1.0)).exp()
    tensor(0.2500)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0
    _batched = ("probs", "logits")
    _shared = ("_by_probs",)

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ):
        self._take(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    mean = formula(lambda self: self.probs)

    @property
    def mode(self) -> Tensor:
        mode = (self.probs >= 0.5).to(self.probs.dtype)
        return mode.masked_fill(self.probs == 0.5, math.nan)

    variance = formula(lambda self: self.probs * (1 - self.probs))

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        with no_grad():
            return ops.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def _log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(ops.arange(2, dtype=self._param.dtype, device=self._param.device), expand)

    _natural_params = property(lambda self: (ops.logit(self.probs),))

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return _softplus(x)
