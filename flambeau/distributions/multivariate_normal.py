"""The multivariate normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._core.sizes import Size, broadcast_shapes
from .._ops.registry import ops
from .._tensor import Tensor
from . import constraints
from ._parameters import ScaleTril
from ._parameters import precision_to_scale_tril as _precision_to_scale_tril  # noqa: F401 (packages take it)
from .distribution import Distribution
from .utils import _standard_normal, formula

__all__ = ["MultivariateNormal"]


def _batch_mv(bmat: Tensor, bvec: Tensor) -> Tensor:
    """Matrices times vectors."""
    return ops.matmul(bmat, bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL: Tensor, bx: Tensor) -> Tensor:
    """x^T M^-1 x for M = L L^T. Vectors may have more batch dimensions than factors: each factor then serves all of
    its vectors at once.
    """
    more = bx.dim() - bL.dim() + 1
    if more <= 0:
        return ops.linalg_solve_triangular(bL, bx.unsqueeze(-1), upper=False).square().sum((-2, -1))
    n = bx.shape[-1]
    columns = bx.reshape((bx.shape[:more].numel(),) + bx.shape[more:]).movedim(0, -1)
    squares = ops.linalg_solve_triangular(bL, columns, upper=False).square().sum(-2) if n else columns.sum(-2)
    return squares.movedim(-1, 0).reshape(bx.shape[:more] + squares.shape[:-1])


def given_matrix(covariance: Any, precision: Any, scale_tril: Any) -> str:
    """The name of the one matrix that was given."""
    given = {"covariance_matrix": covariance, "precision_matrix": precision, "scale_tril": scale_tril}
    names = [name for name, matrix in given.items() if matrix is not None]
    if len(names) != 1:
        raise ValueError("Exactly one of covariance_matrix, precision_matrix and scale_tril has to be given")
    return names[0]


class MultivariateNormal(ScaleTril, Distribution):
    """The normal distribution of vectors, given by mean and covariance, precision or Cholesky factor.

    >>> import flambeau as torch
    >>> torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2)).log_prob(torch.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    _batched = ("loc", "covariance_matrix", "scale_tril", "precision_matrix")
    _shared = ("_unbroadcasted_scale_tril",)

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional, got a scalar")
        name = given_matrix(covariance_matrix, precision_matrix, scale_tril)
        matrix: Any = {"c": covariance_matrix, "p": precision_matrix, "s": scale_tril}[name[0]]
        if matrix.dim() < 2:
            raise ValueError(f"{name} must be at least two-dimensional, got shape {tuple(matrix.shape)}")
        batch_shape = broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand(batch_shape + (-1,))
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._take_matrix(name, matrix)

    def _wide(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    mean = mode = formula(lambda self: self.loc)

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.square().sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        eps = _standard_normal(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, eps)

    def _log_prob(self, value: Tensor) -> Tensor:
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - self._half_log_det()

    def entropy(self) -> Tensor:
        entropy = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._half_log_det()
        return entropy.expand(self._batch_shape)
