"""The Dirichlet distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._autograd.functions import Function
from .._ops.registry import ops
from .._tensor import Tensor
from . import constraints
from .exp_family import ExponentialFamily
from .utils import formula

__all__ = ["Dirichlet"]


def _Dirichlet_backward(x: Tensor, concentration: Tensor, grad_output: Tensor) -> Tensor:
    """The gradient of samples `x` by their concentrations, times `grad_output`."""
    total = concentration.sum(-1, True).expand_as(concentration)
    grad = ops._dirichlet_grad(x, concentration, total)
    return grad * (grad_output - (x * grad_output).sum(-1, True))


class _Dirichlet(Function):
    """Samples as a function of their concentrations."""

    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        x = ops._sample_dirichlet(concentration)
        ctx.save_for_backward(x, concentration)
        return x

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        x, concentration = ctx.saved_tensors
        return _Dirichlet_backward(x, concentration, grad_output)


class Dirichlet(ExponentialFamily):
    """Probabilities (vectors with sum 1) with the given concentrations.

    >>> import flambeau as torch
    >>> torch.distributions.Dirichlet(torch.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    _batched = ("concentration",)

    def __init__(self, concentration: Tensor, validate_args: bool | None = None):
        if concentration.dim() < 1:
            raise ValueError("concentration must be at least one-dimensional, got a scalar")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return ops._sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def _log_prob(self, value: Tensor) -> Tensor:
        return ops.xlogy(self.concentration - 1.0, value).sum(-1) - self._log_normalizer(self.concentration)

    mean = formula(lambda self: self.concentration / self.concentration.sum(-1, keepdim=True))

    @property
    def mode(self) -> Tensor:
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, keepdim=True)
        flat = (self.concentration < 1).all(-1, keepdim=True)  # then a corner
        corner = ops.one_hot(mode.argmax(-1), mode.shape[-1]).to(mode.dtype)
        return ops.where(flat, corner, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def entropy(self) -> Tensor:
        a = self.concentration
        total = a.sum(-1)
        rest = ((a - 1.0) * ops.digamma(a)).sum(-1)
        return self._log_normalizer(a) - (a.shape[-1] - total) * ops.digamma(total) - rest

    _natural_params = property(lambda self: (self.concentration,))

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return ops.lgamma(x).sum(-1) - ops.lgamma(x.sum(-1))
