"""`ExponentialFamily`: densities exp(<t(x), theta> - F(theta) + k(x)), with entropy from the log normaliser F."""

from __future__ import annotations

from typing import Any

from .. import autograd
from .._tensor import Tensor
from .distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Base of distributions with natural parameters and a differentiable log normaliser."""

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        """The tensors that the log normaliser is a function of."""
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        """The mean of k(x)."""
        raise NotImplementedError

    def _normalizer_and_slopes(self) -> tuple[Tensor, list[Tensor], tuple[Tensor, ...]]:
        """F, the natural parameters as leaves, and the gradient of F by them: the mean of t(x)."""
        parameters = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*parameters)
        slopes = autograd.grad(normalizer.sum(), parameters, create_graph=True)
        return normalizer, parameters, slopes

    def entropy(self) -> Tensor:
        carrier = self._mean_carrier_measure
        normalizer, parameters, slopes = self._normalizer_and_slopes()
        result = normalizer - carrier
        for parameter, slope in zip(parameters, slopes):
            # parameters of one distribution may have different shapes, as a matrix and a number
            result = result - (parameter * slope).reshape(self._batch_shape + (-1,)).sum(-1)
        return result
