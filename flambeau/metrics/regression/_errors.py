"""Errors of predicted numbers as metrics: states are sums over the samples."""

from __future__ import annotations

from typing import Any

from ..._ops.registry import ops
from ..._tensor import Tensor
from ..functional.regression._errors import (
    _LEAST,
    absolute_sums,
    check_normalization,
    check_outputs,
    deviance_sums,
    log_cosh_sums,
    log_sums,
    minkowski_sums,
    normalizer_of,
    outputs,
    percentage_sums,
    squared_sums,
    success_of,
    success_sums,
    symmetric_sums,
    weighted_sums,
)
from ..metric import Metric
from ..utilities.exceptions import TorchMetricsUserError


class Sums(Metric):
    """Base: the states are sums that `_sums` gives for a batch."""

    is_differentiable = True
    higher_is_better: bool | None = False
    full_state_update = False
    plot_lower_bound: float | None = 0.0

    def _declare(self, names: tuple[str, ...], count: str | None = "total", *shape: int) -> None:
        for name in names:
            self.add_state(name, ops.zeros(shape), dist_reduce_fx="sum")
        if count:
            self.add_state(count, ops.tensor(0), dist_reduce_fx="sum")
        self._names = (*names, count) if count else names

    def _sums(self, preds: Tensor, target: Tensor) -> tuple[Any, ...]:
        raise NotImplementedError

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds predictions and targets of one shape."""
        for name, value in zip(self._names, self._sums(preds, target)):
            setattr(self, name, getattr(self, name) + value)


class MeanSquaredError(Sums):
    """Mean squared error, or with `squared=False` its root; for each of `num_outputs` columns.

    >>> import flambeau as torch
    >>> metric = MeanSquaredError()
    >>> metric.update(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
    >>> metric.update(torch.tensor([3.0, 4.0]), torch.tensor([3.0, 4.0]))
    >>> metric.compute()
    tensor(1.)
    """

    def __init__(self, squared: bool = True, num_outputs: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not isinstance(squared, bool):
            raise ValueError(f"Expected argument `squared` to be a boolean but got {squared}")
        check_outputs(num_outputs)
        self.squared, self.num_outputs = squared, num_outputs
        self._declare(("sum_squared_error",), "total", num_outputs)

    def _sums(self, preds: Tensor, target: Tensor) -> tuple[Any, ...]:
        return squared_sums(preds, target, self.num_outputs)

    def compute(self) -> Tensor:
        """The error so far."""
        mean = self.sum_squared_error / self.total
        return mean if self.squared else mean.sqrt()


class MeanAbsoluteError(Sums):
    """Mean absolute error; for each of `num_outputs` columns."""

    def __init__(self, num_outputs: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_outputs(num_outputs)
        self.num_outputs = num_outputs
        self._declare(("sum_abs_error",), "total", num_outputs)

    def _sums(self, preds: Tensor, target: Tensor) -> tuple[Any, ...]:
        return absolute_sums(preds, target, self.num_outputs)

    def compute(self) -> Tensor:
        """The error so far."""
        return self.sum_abs_error / self.total


class MeanAbsolutePercentageError(Sums):
    """Mean of |error| / |target|."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._declare(("sum_abs_per_error",))

    def _sums(self, preds: Tensor, target: Tensor) -> tuple[Any, ...]:
        return percentage_sums(preds, target)

    def compute(self) -> Tensor:
        """The error so far."""
        return self.sum_abs_per_error / self.total


class SymmetricMeanAbsolutePercentageError(MeanAbsolutePercentageError):
    """Mean of 2 |error| / (|target| + |prediction|)."""

    def _sums(self, preds: Tensor, target: Tensor) -> tuple[Any, ...]:
        return symmetric_sums(preds, target)


class WeightedMeanAbsolutePercentageError(Sums):
    """Sum of |error| over the sum of |target|."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._declare(("sum_abs_error", "sum_scale"), None)

    def _sums(self, preds: Tensor, target: Tensor) -> tuple[Any, ...]:
        return weighted_sums(preds, target)

    def compute(self) -> Tensor:
        """The error so far."""
        return self.sum_abs_error / self.sum_scale.clamp(min=_LEAST)


class MeanSquaredLogError(Sums):
    """Mean of (log(1 + prediction) - log(1 + target))²."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._declare(("sum_squared_log_error",))

    def _sums(self, preds: Tensor, target: Tensor) -> tuple[Any, ...]:
        return log_sums(preds, target)

    def compute(self) -> Tensor:
        """The error so far."""
        return self.sum_squared_log_error / self.total


class LogCoshError(Sums):
    """Mean of log cosh(error); for each of `num_outputs` columns."""

    def __init__(self, num_outputs: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_outputs(num_outputs)
        self.num_outputs = num_outputs
        self._declare(("sum_log_cosh_error",), "total", num_outputs)

    def _sums(self, preds: Tensor, target: Tensor) -> tuple[Any, ...]:
        return log_cosh_sums(preds, target, self.num_outputs)

    def compute(self) -> Tensor:
        """The error so far."""
        return self.sum_log_cosh_error / self.total


class MinkowskiDistance(Sums):
    """(sum of |error|^p)^(1/p)."""

    def __init__(self, p: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not (isinstance(p, (float, int)) and p >= 1):
            raise TorchMetricsUserError(f"Argument ``p`` must be a float or int greater than 1, but got {p}")
        self.p = p
        self._declare(("minkowski_dist_sum",), None)

    def _sums(self, preds: Tensor, target: Tensor) -> tuple[Any, ...]:
        return minkowski_sums(preds, target, self.p)

    def compute(self) -> Tensor:
        """The distance so far."""
        return self.minkowski_dist_sum ** (1.0 / self.p)


class TweedieDevianceScore(Sums):
    """Mean Tweedie deviance; `power` 0 is that of the normal distribution, 1 Poisson, 2 gamma."""

    higher_is_better = None

    def __init__(self, power: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if 0 < power < 1:
            raise ValueError(f"Deviance Score is not defined for power={power}.")
        self.power = power
        self._declare(("sum_deviance_score",), "num_observations")

    def _sums(self, preds: Tensor, target: Tensor) -> tuple[Any, ...]:
        return deviance_sums(preds, target, self.power)

    def compute(self) -> Tensor:
        """The deviance so far."""
        return self.sum_deviance_score / self.num_observations


class CriticalSuccessIndex(Sums):
    """Hits over hits, misses and false alarms, of values at or above the threshold."""

    is_differentiable = False
    higher_is_better = True

    def __init__(self, threshold: float, keep_sequence_dim: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.threshold, self.keep_sequence_dim = float(threshold), keep_sequence_dim
        self._names = ("hits", "misses", "false_alarms")
        for name in self._names:
            if keep_sequence_dim is None:
                self.add_state(name, ops.tensor(0), dist_reduce_fx="sum")
            else:
                self.add_state(name, [], dist_reduce_fx="cat")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds predictions and targets of one shape."""
        found = success_sums(preds, target, self.threshold, self.keep_sequence_dim)
        for name, value in zip(self._names, found):
            if self.keep_sequence_dim is None:
                setattr(self, name, getattr(self, name) + value)
            else:
                getattr(self, name).append(value)

    def compute(self) -> Tensor:
        """The index so far."""
        states = (getattr(self, name) for name in self._names)
        return success_of(*(ops.cat(state) if isinstance(state, list) else state for state in states))


class NormalizedRootMeanSquaredError(Sums):
    """Root mean squared error over the target's mean, range, standard deviation or length ("l2")."""

    def __init__(self, normalization: str = "mean", num_outputs: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_normalization(normalization)
        check_outputs(num_outputs)
        self.normalization, self.num_outputs = normalization, num_outputs
        self._declare(("sum_squared_error", "sum_target", "target_squared"), "total", num_outputs)
        self.add_state("min_val", ops.full((num_outputs,), float("inf")), dist_reduce_fx="min")
        self.add_state("max_val", ops.full((num_outputs,), float("-inf")), dist_reduce_fx="max")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds predictions and targets of one shape."""
        total, count = squared_sums(preds, target, self.num_outputs)
        target = outputs(preds, target, self.num_outputs)[1]
        self.sum_squared_error = self.sum_squared_error + total
        self.sum_target = self.sum_target + target.sum(0)
        self.target_squared = self.target_squared + (target**2).sum(0)
        self.total = self.total + count
        self.min_val = ops.minimum(self.min_val, target.amin(0))
        self.max_val = ops.maximum(self.max_val, target.amax(0))

    def compute(self) -> Tensor:
        """The error so far."""
        mean = self.sum_target / self.total
        parts = (self.total, mean, self.min_val, self.max_val, self.target_squared)
        return (self.sum_squared_error / self.total).sqrt() / normalizer_of(self.normalization, *parts)
