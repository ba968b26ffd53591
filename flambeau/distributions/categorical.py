"""The categorical distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._core.info import finfo
from .._core.sizes import Size
from .._ops.registry import ops
from .._tensor import Tensor
from . import constraints
from ._parameters import ProbsOrLogits, check_one_given
from .distribution import Distribution
from .utils import formula

__all__ = ["Categorical"]


class Categorical(ProbsOrLogits, Distribution):
    """Indices 0 to K - 1, with the weights in the last dimension of `probs` or `logits`.

    >>> import flambeau as torch
    >>> torch.distributions.Categorical(torch.tensor([1.0, 3.0])).probs
    tensor([0.2500, 0.7500])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _binary = False
    _batched = ("probs", "logits")
    _shared = ("_by_probs", "_num_events")

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None):
        check_one_given(probs, logits)
        self._by_probs = probs is not None
        given = probs if probs is not None else logits
        if given.dim() < 1:  # type: ignore[union-attr]
            name = "probs" if self._by_probs else "logits"
            raise ValueError(f"{name} must be at least one-dimensional, got a scalar")
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = ops.log_softmax(logits, -1)
        shape = given.shape  # type: ignore[union-attr]
        self._num_events = shape[-1]
        super().__init__(shape[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    def _unknown(self) -> Tensor:
        return ops.full(self._extended_shape(), math.nan, dtype=self.probs.dtype, device=self.probs.device)

    mean = formula(lambda self: self._unknown())
    mode = formula(lambda self: self.probs.argmax(-1))
    variance = formula(lambda self: self._unknown())

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        if not isinstance(sample_shape, Size):
            sample_shape = Size(sample_shape)
        rows = self.probs.reshape(-1, self._num_events)
        drawn = ops.multinomial(rows, sample_shape.numel(), True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    def _log_prob(self, value: Tensor) -> Tensor:
        index, table = value.long().unsqueeze(-1), self.logits
        if value.shape != self._batch_shape:
            index, table = ops.broadcast_tensors(index, table)
            index = index[..., :1]
        return table.gather(-1, index).squeeze(-1)

    def entropy(self) -> Tensor:
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)  # 0 * -inf would be NaN
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(ops.arange(self._num_events, device=self._param.device), expand)
