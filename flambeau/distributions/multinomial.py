"""The multinomial distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._core.sizes import Size
from .._ops.registry import ops
from .._tensor import Tensor
from . import constraints
from ._parameters import ByCategorical
from .binomial import Binomial
from .categorical import Categorical
from .distribution import Distribution
from .utils import broadcast_all, formula

__all__ = ["Multinomial"]


class Multinomial(ByCategorical, Distribution):
    """How often each category occurs in `total_count` draws.

    >>> import flambeau as torch
    >>> torch.distributions.Multinomial(8, torch.tensor([1.0, 3.0])).mean
    tensor([2., 6.])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    total_count: int
    _batched = ("_categorical",)
    _shared = ("total_count",)

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ):
        if not isinstance(total_count, int):
            raise NotImplementedError("Multinomial: total_count must be an int; inhomogeneous counts are not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    @property
    def _binomial(self) -> Binomial:
        """The distribution of each count."""
        return Binomial(self.total_count, probs=self.probs, validate_args=False)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    mean = formula(lambda self: self.probs * self.total_count)
    variance = formula(lambda self: self.total_count * self.probs * (1 - self.probs))

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        drawn = self._categorical.sample(Size((self.total_count,)) + Size(sample_shape)).movedim(0, -1)
        like = {"dtype": self.probs.dtype, "device": self.probs.device}
        counts = ops.zeros(self._extended_shape(sample_shape), **like)
        return counts.scatter_add_(-1, drawn, ops.ones(drawn.shape, **like))

    def entropy(self) -> Tensor:
        n = ops.tensor(float(self.total_count), dtype=self.probs.dtype, device=self.probs.device)
        binomial = self._binomial
        counts = binomial.enumerate_support(expand=False)[1:]
        # the mean of log(count!) over all counts
        spread = (ops.exp(binomial.log_prob(counts)) * ops.lgamma(counts + 1)).sum([0, -1])
        return n * self._categorical.entropy() - ops.lgamma(n + 1) + spread

    def _log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, value)
        logits = logits.masked_fill((value == 0) & (logits == -math.inf), 0)
        ways = ops.lgamma(value.sum(-1) + 1) - ops.lgamma(value + 1).sum(-1)
        return ways + (logits * value).sum(-1)
