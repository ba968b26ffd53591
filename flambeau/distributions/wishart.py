"""The Wishart distribution."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from numbers import Number
from typing import Any

from .._autograd.modes import no_grad
from .._core.sizes import Size, broadcast_shapes
from .._ops.registry import ops
from .._tensor import Tensor
from . import constraints
from ._parameters import ScaleTril
from .chi2 import Chi2
from .exp_family import ExponentialFamily
from .multivariate_normal import given_matrix
from .utils import formula

__all__ = ["Wishart"]


_LOG_2 = math.log(2)


def _mvdigamma(x: Tensor, p: int) -> Tensor:
    """The derivative of the logarithm of the multivariate gamma function."""
    steps = ops.arange(p, dtype=x.dtype, device=x.device) / 2
    return ops.digamma(x.unsqueeze(-1) - steps).sum(-1)


class Wishart(ScaleTril, ExponentialFamily):
    """Positive definite matrices: the scatter of `df` normal vectors with the given covariance."""

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _batched = ("df", "covariance_matrix", "scale_tril", "precision_matrix", "_dist_chi2")
    _shared = ("_unbroadcasted_scale_tril",)

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Tensor | float,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ):
        try:
            name = given_matrix(covariance_matrix, precision_matrix, scale_tril)
        except ValueError as error:
            raise AssertionError(str(error)) from None
        matrix: Any = {"c": covariance_matrix, "p": precision_matrix, "s": scale_tril}[name[0]]
        if matrix.dim() < 2:
            raise ValueError(f"{name} must be at least two-dimensional, got shape {tuple(matrix.shape)}")
        p = matrix.shape[-1]
        if isinstance(df, Number):
            df = ops.tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch_shape = broadcast_shapes(matrix.shape[:-2], df.shape)  # type: ignore[union-attr]
        self.df = df.expand(batch_shape)  # type: ignore[union-attr]
        if (self.df <= p - 1).any():
            raise ValueError(f"df must be greater than ndim - 1 = {p - 1}, got {df}")
        if (self.df < p).any():
            warnings.warn("Low df values: singular samples are likely for ndim - 1 < df < ndim.", stacklevel=2)
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        super().__init__(batch_shape, matrix.shape[-2:], validate_args=validate_args)
        self._take_matrix(name, matrix)
        steps = ops.arange(p, dtype=matrix.dtype, device=matrix.device)
        self._dist_chi2 = Chi2(self.df.unsqueeze(-1) - steps)

    def _wide(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape)

    mean = formula(lambda self: self.df[..., None, None] * self.covariance_matrix)

    @property
    def mode(self) -> Tensor:
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        return factor.masked_fill(factor <= 0, math.nan)[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        V = self.covariance_matrix
        diagonal = V.diagonal(dim1=-2, dim2=-1)
        return self.df[..., None, None] * (V.square() + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _bartlett_sampling(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        """Samples by Bartlett's decomposition: a triangle of normals with chi variables on its diagonal."""
        p = self._event_shape[-1]
        noise = self._dist_chi2.rsample(sample_shape).sqrt().diag_embed()
        rows, columns = ops.tril_indices(p, p, -1, device=noise.device)
        shape = Size(sample_shape) + self._batch_shape + (p * (p - 1) // 2,)
        noise[..., rows, columns] = ops.randn(shape, dtype=noise.dtype, device=noise.device)
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def rsample(self, sample_shape: Sequence[int] = Size(), max_try_correction: int | None = None) -> Tensor:
        """Samples; those that rounding made singular are drawn again, up to `max_try_correction` (3) times."""
        sample_shape = Size(sample_shape)
        with no_grad():  # PyTorch draws everything twice: the stream has to move on as far
            self._bartlett_sampling(sample_shape)
        sample = self._bartlett_sampling(sample_shape)
        for _ in range(3 if max_try_correction is None else max_try_correction):
            singular = ~self.support.check(sample)
            if self._batch_shape:
                singular = singular.flatten(len(sample_shape)).any(-1)
            if not singular.any():
                break
            warnings.warn("Wishart: singular samples, which are drawn again", stacklevel=2)
            again = self._bartlett_sampling((int(singular.sum()),))
            sample = sample.clone()
            sample[singular] = again
        return sample

    def _log_prob(self, value: Tensor) -> Tensor:
        nu, p = self.df, self._event_shape[-1]
        trace = ops.cholesky_solve(value, self._unbroadcasted_scale_tril).diagonal(dim1=-2, dim2=-1).sum(-1)
        return (
            -nu * (p * _LOG_2 / 2 + self._half_log_det())
            - ops.mvlgamma(nu / 2, p)
            + (nu - p - 1) / 2 * ops.linalg_slogdet(value).logabsdet
            - trace / 2
        )

    def entropy(self) -> Tensor:
        nu, p = self.df, self._event_shape[-1]
        return (
            (p + 1) * (p * _LOG_2 / 2 + self._half_log_det())
            + ops.mvlgamma(nu / 2, p)
            - (nu - p - 1) / 2 * _mvdigamma(nu / 2, p)
            + p * nu / 2
        )

    _natural_params = property(lambda self: (-self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2))

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        p = self._event_shape[-1]
        half = y + (p + 1) / 2
        return half * (-ops.linalg_slogdet(-2 * x).logabsdet + _LOG_2 * p) + ops.mvlgamma(half, p)
