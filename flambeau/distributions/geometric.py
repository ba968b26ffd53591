"""The geometric distribution."""

from __future__ import annotations

from collections.abc import Sequence

from .._autograd.modes import no_grad
from .._core.info import finfo
from .._core.sizes import Size
from .._ops.losses.elements import binary_cross_entropy_with_logits
from .._ops.registry import ops
from .._tensor import Tensor
from . import constraints
from ._parameters import ProbsOrLogits
from .distribution import Distribution
from .utils import broadcast_all, formula

__all__ = ["Geometric"]


class Geometric(ProbsOrLogits, Distribution):
    """The number of failures before the first success of trials with probability `probs`."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer
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
        if self._validate_args and self._by_probs and not (self.probs > 0).all():
            raise ValueError(f"probs of {self!r} has to be positive, but found invalid values: {self.probs}")

    mean = formula(lambda self: 1.0 / self.probs - 1.0)
    mode = formula(lambda self: ops.zeros_like(self.probs))
    variance = formula(lambda self: (1.0 / self.probs - 1.0) / self.probs)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = self.probs
        with no_grad():
            u = ops.empty(shape, dtype=probs.dtype, device=probs.device).uniform_(finfo(probs.dtype).tiny, 1)
            return (u.log() / (-probs).log1p()).floor()

    def _log_prob(self, value: Tensor) -> Tensor:
        value, probs = broadcast_all(value, self.probs)
        probs = probs.masked_fill((probs == 1) & (value == 0), 0)  # 0 * log(0)
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs
