"""Relaxed categorical distributions: on the simplex, and differentiable."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .._core.sizes import Size
from .._ops.registry import ops
from .._tensor import Tensor
from . import constraints
from ._parameters import ByCategorical, Relaxed
from .categorical import Categorical
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform
from .utils import broadcast_all, clamp_probs

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


class ExpRelaxedCategorical(ByCategorical, Distribution):
    """The logarithm of a relaxed one-hot variable."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector  # the set of vectors whose exponentials have sum 1 is a part of it
    has_rsample = True
    _batched = ("_categorical",)
    _shared = ("temperature",)

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ):
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        uniforms = clamp_probs(ops.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        gumbels = -((-(uniforms.log())).log())
        return ops.log_softmax((self.logits + gumbels) / self.temperature, -1)

    def _log_prob(self, value: Tensor) -> Tensor:
        n = self._event_shape[0]
        logits, value = broadcast_all(self.logits, value)
        scale = math.lgamma(n) + self.temperature.log() * (n - 1)
        return ops.log_softmax(logits - value * self.temperature, -1).sum(-1) + scale


class RelaxedOneHotCategorical(Relaxed, TransformedDistribution):
    """A differentiable one-hot variable; the lower the temperature, the closer it is to a corner of the simplex."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True
    _batched = ("base_dist",)

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ):
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)
