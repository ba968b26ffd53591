"""`TransformedDistribution`: a distribution, and transforms applied to its samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._autograd.modes import no_grad
from .._core.sizes import Size
from .._tensor import Tensor
from . import constraints
from .distribution import Distribution
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import _sum_rightmost

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """Samples of a base distribution after one or several transforms.

    >>> import flambeau as torch
    >>> from flambeau.distributions import ExpTransform, Normal, TransformedDistribution
    >>> TransformedDistribution(Normal(0.0, 1.0), ExpTransform()).cdf(torch.tensor(1.0))
    tensor(0.5000)
    """

    arg_constraints: dict[str, constraints.Constraint] = {}
    base_dist: Any
    _batched = ("base_dist",)
    _shared = ("transforms",)

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | list[Transform],
        validate_args: bool | None = None,
    ):
        self.transforms = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(self.transforms, list) or not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError(f"transforms: expected a Transform or a list of Transforms, got {transforms!r}")

        shape = base_distribution.batch_shape + base_distribution.event_shape
        base_event = len(base_distribution.event_shape)
        whole = ComposeTransform(self.transforms)
        if len(shape) < whole.domain.event_dim:
            raise ValueError(
                f"base_distribution: the transforms need at least {whole.domain.event_dim} dimensions, got shape {shape}"
            )
        image = whole.forward_shape(shape)
        needed = whole.inverse_shape(image)
        if shape != needed:
            base_distribution = base_distribution.expand(needed[: len(needed) - base_event])
        more = whole.domain.event_dim - base_event
        if more > 0:
            base_distribution = Independent(base_distribution, more)
        self.base_dist = base_distribution

        growth = whole.codomain.event_dim - whole.domain.event_dim
        event_dim = max(whole.codomain.event_dim, base_event + growth)
        image, cut = Size(image), len(image) - event_dim
        super().__init__(image[:cut], image[cut:], validate_args=validate_args)

    def _expand_into(self, new: Any, shape: Size) -> None:
        for name in self._batched or ():
            if name != "base_dist":
                new.__dict__[name] = self.__dict__[name].expand(shape)
        for name in (*self._shared, "transforms"):
            if name in self.__dict__:
                new.__dict__[name] = self.__dict__[name]
        needed = ComposeTransform(self.transforms).inverse_shape(shape + self._event_shape)
        new.base_dist = self.base_dist.expand(needed[: len(needed) - len(self.base_dist.event_shape)])

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self._event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    has_rsample = property(lambda self: self.base_dist.has_rsample)

    def _forward(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        with no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        return self._forward(self.base_dist.rsample(sample_shape))

    def _log_prob(self, value: Tensor) -> Tensor:
        event_dim = len(self._event_shape)
        total: Any = 0.0
        y = value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            change = transform.log_abs_det_jacobian(x, y)
            total = total - _sum_rightmost(change, event_dim - transform.domain.event_dim)
            y = x
        return total + _sum_rightmost(self.base_dist.log_prob(y), event_dim - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value: Tensor) -> Tensor:
        """1 - value if the transforms turn the order around."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._forward(self.base_dist.icdf(self._monotonize_cdf(value)))
