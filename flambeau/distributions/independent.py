"""`Independent`: batch dimensions taken as dimensions of the event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from .._core.sizes import Size
from .._tensor import Tensor
from . import constraints
from .distribution import Distribution
from .utils import _sum_rightmost, formula

__all__ = ["Independent"]


D = TypeVar("D", bound=Distribution)


class Independent(Distribution, Generic[D]):
    """The last batch dimensions of another distribution, as one event.

    >>> import flambeau as torch
    >>> normal = torch.distributions.Normal(torch.zeros(2, 3), 1.0)
    >>> torch.distributions.Independent(normal, 1).log_prob(torch.zeros(2, 3))
    tensor([-2.7568, -2.7568])
    """

    arg_constraints: dict[str, constraints.Constraint] = {}
    base_dist: D
    _batched = ("base_dist",)
    _shared = ("reinterpreted_batch_ndims",)

    def __init__(self, base_distribution: D, reinterpreted_batch_ndims: int, validate_args: bool | None = None):
        batch_shape = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch_shape):
            raise ValueError(
                f"reinterpreted_batch_ndims ({reinterpreted_batch_ndims}) must not exceed the number of batch "
                f"dimensions of the base distribution ({len(batch_shape)})"
            )
        split = len(batch_shape) - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        event_shape = batch_shape[split:] + base_distribution.event_shape
        super().__init__(batch_shape[:split], event_shape, validate_args=validate_args)

    has_rsample = property(lambda self: self.base_dist.has_rsample)

    @property
    def has_enumerate_support(self) -> bool:
        return False if self.reinterpreted_batch_ndims > 0 else self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        result = self.base_dist.support
        if self.reinterpreted_batch_ndims:
            result = constraints.independent(result, self.reinterpreted_batch_ndims)
        return result

    mean = formula(lambda self: self.base_dist.mean)
    mode = formula(lambda self: self.base_dist.mode)
    variance = formula(lambda self: self.base_dist.variance)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("enumerate_support: the values of several variables are not enumerated")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
