"""Distributions that are given by either probabilities or log-odds."""

from __future__ import annotations

from typing import Any

from .._core.sizes import Size
from .._tensor import Tensor
from .utils import lazy_property, logits_to_probs, probs_to_logits


def check_one_given(probs: Any, logits: Any) -> None:
    if (probs is None) == (logits is None):
        found = "neither" if probs is None else "both"
        raise ValueError(f"Either `probs` or `logits` must be specified, got {found}")


class ProbsOrLogits:
    """Keeps the parameter that was given, and computes the other one when it is asked for.

    The subclass says by `_binary` whether a probability stands alone or is one of those in the last dimension.
    """

    _binary = True

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

    @property
    def param_shape(self) -> Size:
        return self._param.size()

    def _new(self, *args: Any, **named: Any) -> Tensor:
        return self._param.new(*args, **named)


class ByCategorical:
    """Takes the parameters from the categorical distribution that it is made of."""

    _categorical: Any

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    @property
    def probs(self) -> Tensor:
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        return self._categorical.param_shape

    def _new(self, *args: Any, **named: Any) -> Tensor:
        return self._categorical._new(*args, **named)
