"""Parameters that several distributions have: probabilities or log-odds, a place and a scale, a Cholesky factor."""

from __future__ import annotations

from typing import Any

from .._ops.registry import ops
from .._tensor import Tensor
from . import constraints
from .utils import broadcast_all, formula, lazy_property, logits_to_probs, probs_to_logits


def check_one_given(probs: Any, logits: Any) -> None:
    if (probs is None) == (logits is None):
        found = "neither" if probs is None else "both"
        raise ValueError(f"Either `probs` or `logits` must be specified, got {found}")


class ProbsOrLogits:
    """Keeps the parameter that was given, and computes the other one when it is asked for.

    The subclass says by `_binary` whether a probability stands alone or is one of those in the last dimension.
    """

    _binary = True

    def _take(self, probs: Any, logits: Any, *others: Any) -> tuple[Tensor, ...]:
        """Keeps the one that is given; returns the other parameters, broadcast with it."""
        check_one_given(probs, logits)
        self._by_probs = probs is not None
        *broadcast, given = broadcast_all(*others, probs if self._by_probs else logits)
        setattr(self, "probs" if self._by_probs else "logits", given)
        return tuple(broadcast)

    @lazy_property
    def logits(self) -> Tensor:
        """Log-odds, or unnormalised log-probabilities."""
        return probs_to_logits(self.probs, is_binary=self._binary)

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities."""
        return logits_to_probs(self.logits, is_binary=self._binary)

    @property
    def _param(self) -> Tensor:
        """The one that was given."""
        return self.__dict__["probs" if self._by_probs else "logits"]

    _by_probs: bool

    param_shape = property(lambda self: self._param.size())

    def _new(self, *args: Any, **named: Any) -> Tensor:
        return self._param.new(*args, **named)


class Counted(ProbsOrLogits):
    """Has a number of trials too, of the other parameter's dtype."""

    def _take_counted(self, total_count: Any, probs: Any, logits: Any) -> None:
        (count,) = self._take(probs, logits, total_count)
        self.total_count = count.to(self._param.dtype)


class LocScale:
    """A place `loc` on the real line, and a scale around it."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _batched: tuple[str, ...] | None = ("loc", "scale")

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)  # type: ignore[call-arg]

    mean = mode = formula(lambda self: self.loc)


class ScaleTril:
    """Is given by a covariance, by its inverse or by its Cholesky factor, of which the last is kept."""

    _unbroadcasted_scale_tril: Tensor

    def _take_matrix(self, name: str, matrix: Tensor) -> None:
        """Keeps the factor of the matrix, whose name says what it is."""
        if name == "covariance_matrix":
            matrix = ops.linalg_cholesky(matrix)
        elif name == "precision_matrix":
            matrix = precision_to_scale_tril(matrix)
        self._unbroadcasted_scale_tril = matrix

    def _wide(self, matrix: Tensor) -> Tensor:
        """The matrix for each distribution of the batch."""
        raise NotImplementedError

    @lazy_property
    def scale_tril(self) -> Tensor:
        return self._wide(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        return self._wide(ops.matmul(self._unbroadcasted_scale_tril, self._unbroadcasted_scale_tril.mT))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        return self._wide(ops.cholesky_inverse(self._unbroadcasted_scale_tril))

    def _half_log_det(self) -> Tensor:
        """Half the logarithm of the covariance's determinant."""
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def precision_to_scale_tril(P: Tensor) -> Tensor:
    """The Cholesky factor of P^-1, from that of P with rows and columns in reverse order."""
    reverse = ops.linalg_cholesky(ops.flip(P, (-2, -1)))
    inverse = ops.flip(reverse, (-2, -1)).mT
    eye = ops.eye(P.shape[-1], dtype=P.dtype, device=P.device)
    return ops.linalg_solve_triangular(inverse, eye.expand(P.shape), upper=False)


class Relaxed:
    """Takes the parameters from the distribution that is transformed."""

    base_dist: Any

    temperature = formula(lambda self: self.base_dist.temperature)
    logits = formula(lambda self: self.base_dist.logits)
    probs = formula(lambda self: self.base_dist.probs)


class ByCategorical:
    """Takes the parameters from the categorical distribution that it is made of."""

    _categorical: Any

    _param = formula(lambda self: self._categorical._param)
    probs = formula(lambda self: self._categorical.probs)
    logits = formula(lambda self: self._categorical.logits)
    param_shape = property(lambda self: self._categorical.param_shape)

    def _new(self, *args: Any, **named: Any) -> Tensor:
        return self._categorical._new(*args, **named)
