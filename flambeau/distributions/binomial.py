"""The binomial distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._autograd.modes import no_grad
from .._core.sizes import Size
from .._ops.registry import ops
from .._tensor import Tensor
from . import constraints
from ._parameters import Counted
from .distribution import Distribution
from .utils import formula

__all__ = ["Binomial"]


class Binomial(Counted, Distribution):
    """The number of successes among `total_count` trials.

    >>> import flambeau as torch
    >>> torch.distributions.Binomial(4, torch.tensor(0.5)).mean
    tensor(2.)
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True
    _batched = ("total_count", "probs", "logits")
    _shared = ("_by_probs",)

    def __init__(
        self,
        total_count: Tensor | int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ):
        self._take_counted(total_count, probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    mean = formula(lambda self: self.total_count * self.probs)
    mode = formula(lambda self: ops.minimum(((self.total_count + 1) * self.probs).floor(), self.total_count))
    variance = formula(lambda self: self.total_count * self.probs * (1 - self.probs))

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return ops.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def _log_prob(self, value: Tensor) -> Tensor:
        ways = ops.lgamma(self.total_count + 1) - ops.lgamma(value + 1) - ops.lgamma(self.total_count - value + 1)
        return ways + value * self.logits + self.total_count * ops.log_sigmoid(-self.logits)

    def _same_count(self, name: str) -> int:
        count = int(self.total_count.max())
        if int(self.total_count.min()) != count:
            raise NotImplementedError(f"{name}: total counts that differ (inhomogeneous) are not supported")
        return count

    def entropy(self) -> Tensor:
        self._same_count("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count = self._same_count("enumerate_support")
        return self._enumerated(ops.arange(1 + count, dtype=self._param.dtype, device=self._param.device), expand)
