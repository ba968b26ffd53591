"""`MixtureSameFamily`: a mixture of distributions of one kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._autograd.modes import no_grad
from .._core.sizes import Size
from .._ops.registry import ops
from .._tensor import Tensor
from . import constraints
from .categorical import Categorical
from .distribution import Distribution
from .utils import formula

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """Draws a component with a categorical distribution, then a value from that component, which is one of the
    last batch dimension of `component_distribution`.

    >>> import flambeau as torch
    >>> from flambeau.distributions import Categorical, MixtureSameFamily, Normal
    >>> MixtureSameFamily(Categorical(torch.ones(2)), Normal(torch.tensor([0.0, 1.0]), 1.0)).mean
    tensor(0.5000)
    """

    arg_constraints: dict[str, constraints.Constraint] = {}
    has_rsample = False
    _batched = ("_component_distribution", "_mixture_distribution")
    _shared = ("_num_component", "_event_ndims")

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None
    ):
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(f"mixture_distribution: expected a Categorical, got {type(mixture_distribution).__name__}")
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                f"component_distribution: expected a Distribution, got {type(component_distribution).__name__}"
            )
        weights = mixture_distribution.batch_shape
        components = component_distribution.batch_shape[:-1]
        if any(a != b and a != 1 and b != 1 for a, b in zip(reversed(weights), reversed(components))):
            raise ValueError(
                f"mixture_distribution.batch_shape {weights} is not compatible with that of component_distribution "
                f"before its last dimension, {components}"
            )
        count, given = mixture_distribution._num_events, component_distribution.batch_shape[-1]
        if count != given:
            raise ValueError(
                f"mixture_distribution has {count} components, but component_distribution.batch_shape[-1] is {given}"
            )
        self._num_component = count
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(components, event_shape, validate_args=validate_args)

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    mixture_distribution = property(lambda self: self._mixture_distribution)
    component_distribution = property(lambda self: self._component_distribution)

    def _mixed(self, values: Tensor) -> Tensor:
        """The mean over components."""
        return (self._pad_mixture_dimensions(self._mixture_distribution.probs) * values).sum(-1 - self._event_ndims)

    mean = formula(lambda self: self._mixed(self._component_distribution.mean))

    @property
    def variance(self) -> Tensor:
        within = self._mixed(self._component_distribution.variance)
        between = self._mixed((self._component_distribution.mean - self._pad(self.mean)).square())
        return within + between

    def cdf(self, x: Tensor) -> Tensor:
        return (self._component_distribution.cdf(self._pad(x)) * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(x)
        weights = ops.log_softmax(self._mixture_distribution.logits, -1)
        return ops.logsumexp(self._component_distribution.log_prob(self._pad(x)) + weights, -1)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        with no_grad():
            at = len(sample_shape) + len(self._batch_shape)
            chosen = self._mixture_distribution.sample(sample_shape)
            samples = self._component_distribution.sample(sample_shape)
            chosen = chosen.reshape(chosen.shape + (1,) * (self._event_ndims + 1))
            return samples.gather(at, chosen.expand(chosen.shape[: at + 1] + self._event_shape)).squeeze(at)

    def _pad(self, x: Tensor) -> Tensor:
        """A value beside each component."""
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x: Tensor) -> Tensor:
        """Weights with dimensions for batch and event."""
        more = len(self._batch_shape) - len(self._mixture_distribution.batch_shape)
        return x.reshape(x.shape[:-1] + (1,) * more + x.shape[-1:] + (1,) * self._event_ndims)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"
