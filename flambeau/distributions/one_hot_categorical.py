"""The categorical distribution over one-hot vectors."""

from __future__ import annotations

from collections.abc import Sequence

from .._core.sizes import Size
from .._ops.registry import ops
from .._tensor import Tensor
from . import constraints
from ._parameters import ByCategorical
from .categorical import Categorical
from .distribution import Distribution
from .utils import formula

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(ByCategorical, Distribution):
    """One-hot vectors, with the weights in the last dimension of `probs` or `logits`."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True
    _batched = ("_categorical",)

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None):
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    def _one_hot(self, indices: Tensor) -> Tensor:
        return ops.one_hot(indices, self._event_shape[0]).to(self.probs.dtype)

    mean = formula(lambda self: self.probs)
    mode = formula(lambda self: self._one_hot(self._categorical.mode))
    variance = formula(lambda self: self.probs * (1 - self.probs))

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        return self._one_hot(self._categorical.sample(sample_shape))

    def _log_prob(self, value: Tensor) -> Tensor:
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._event_shape[0]
        values = ops.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((n,) + (1,) * len(self._batch_shape) + (n,))
        return values.expand((n,) + self._batch_shape + (n,)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot samples whose gradient is that of the probabilities (the straight-through estimator)."""

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
