"""Metrics of plain numbers: their sum, mean, largest, smallest, all of them, and means over the last few."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._core import dtypes
from .._ops.registry import ops
from .._tensor import Tensor
from .metric import Metric
from .utilities import rank_zero_warn
from .utilities.data import dim_zero_cat
from .wrappers.running import Running

_STRATEGIES = ("error", "warn", "ignore", "disable")


class BaseAggregator(Metric):
    """Base: one state, and what happens to values that are not a number.

    `nan_strategy`: "error" raises, "warn" and "ignore" drop them, a number replaces them, "disable" does not look.
    """

    def __init__(
        self,
        fn: str | Callable[..., Any],
        default_value: Tensor | list[Any],
        nan_strategy: str | float = "error",
        state_name: str = "value",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if nan_strategy not in _STRATEGIES and not isinstance(nan_strategy, float):
            raise ValueError(
                f"Arg `nan_strategy` should either be a float or one of {_STRATEGIES} but got {nan_strategy}."
            )
        self.nan_strategy = nan_strategy
        self.add_state(state_name, default=default_value, dist_reduce_fx=fn)
        self.state_name = state_name

    def _as_tensor(self, x: Any) -> Tensor:
        if not isinstance(x, Tensor):
            return ops.tensor(x, dtype=self._dtype, device=self._device)
        return x if x.dtype is self._dtype else x.to(self._dtype)

    def _cast_and_nan_check_input(self, x: Any, weight: Any = 1.0) -> tuple[Tensor, Tensor]:
        """Value and weight as tensors of one shape, without what is not a number."""
        x = self._as_tensor(x)
        weight = self._as_tensor(weight).broadcast_to(x.shape)
        if self.nan_strategy == "disable":
            return x, weight
        lost = x.isnan() | weight.isnan()
        if not lost.any():
            return x, weight
        if isinstance(self.nan_strategy, float):
            return x.masked_fill(lost, self.nan_strategy), weight.masked_fill(lost, 1.0)
        if self.nan_strategy == "error":
            raise RuntimeError("Encountered `nan` values in tensor")
        if self.nan_strategy == "warn":
            rank_zero_warn("Encountered `nan` values in tensor. Will be removed.", UserWarning)
        return x[~lost], weight[~lost]

    def compute(self) -> Any:
        """The aggregate so far."""
        return getattr(self, self.state_name)


class MaxMetric(BaseAggregator):
    """Largest of all values.

    >>> largest = MaxMetric()
    >>> largest.update([1.0, 3.0]); largest.update(2.0); largest.compute()
    tensor(3.)
    """

    full_state_update = True

    def __init__(self, nan_strategy: str | float = "warn", **kwargs: Any) -> None:
        super().__init__(
            "max", ops.tensor(-float("inf"), dtype=dtypes.default.float), nan_strategy, "max_value", **kwargs
        )

    def update(self, value: float | Tensor) -> None:
        """Takes values in."""
        value, _ = self._cast_and_nan_check_input(value)
        if value.numel():
            self.max_value = ops.maximum(self.max_value, value.max())


class MinMetric(BaseAggregator):
    """Smallest of all values."""

    full_state_update = True

    def __init__(self, nan_strategy: str | float = "warn", **kwargs: Any) -> None:
        super().__init__(
            "min", ops.tensor(float("inf"), dtype=dtypes.default.float), nan_strategy, "min_value", **kwargs
        )

    def update(self, value: float | Tensor) -> None:
        """Takes values in."""
        value, _ = self._cast_and_nan_check_input(value)
        if value.numel():
            self.min_value = ops.minimum(self.min_value, value.min())


class SumMetric(BaseAggregator):
    """Sum of all values."""

    full_state_update = False

    def __init__(self, nan_strategy: str | float = "warn", **kwargs: Any) -> None:
        super().__init__("sum", ops.tensor(0.0, dtype=dtypes.default.float), nan_strategy, "sum_value", **kwargs)

    def update(self, value: float | Tensor) -> None:
        """Takes values in."""
        value, _ = self._cast_and_nan_check_input(value)
        self.sum_value = self.sum_value + value.sum()


class CatMetric(BaseAggregator):
    """All values, one after the other."""

    full_state_update = False

    def __init__(self, nan_strategy: str | float = "warn", **kwargs: Any) -> None:
        super().__init__("cat", [], nan_strategy, **kwargs)

    def update(self, value: float | Tensor) -> None:
        """Takes values in."""
        value, _ = self._cast_and_nan_check_input(value)
        if value.numel():
            self.value.append(value)

    def compute(self) -> Any:
        """All values so far."""
        return dim_zero_cat(self.value) if isinstance(self.value, list) and self.value else self.value


class MeanMetric(BaseAggregator):
    """Mean of all values, each with its weight.

    >>> mean = MeanMetric()
    >>> mean.update([1.0, 2.0], weight=[3.0, 1.0]); mean.compute()
    tensor(1.2500)
    """

    full_state_update = False

    def __init__(self, nan_strategy: str | float = "warn", **kwargs: Any) -> None:
        super().__init__("sum", ops.tensor(0.0, dtype=dtypes.default.float), nan_strategy, "mean_value", **kwargs)
        self.add_state("weight", default=ops.tensor(0.0, dtype=dtypes.default.float), dist_reduce_fx="sum")

    def update(self, value: float | Tensor, weight: float | Tensor | None = None) -> None:
        """Takes values in; the weights are broadcast to them."""
        value, weight = self._cast_and_nan_check_input(value, 1.0 if weight is None else weight)
        self.mean_value = self.mean_value + (value * weight).sum()
        self.weight = self.weight + weight.sum()

    def compute(self) -> Tensor:
        """The mean so far."""
        return self.mean_value / self.weight


class RunningMean(Running):
    """Mean over the last `window` updates."""

    def __init__(self, window: int = 5, nan_strategy: str | float = "warn", **kwargs: Any) -> None:
        super().__init__(MeanMetric(nan_strategy=nan_strategy, **kwargs), window)


class RunningSum(Running):
    """Sum over the last `window` updates.

    >>> running = RunningSum(window=2)
    >>> for value in (1.0, 2.0, 3.0): running.update(value)
    >>> running.compute()
    tensor(5.)
    """

    def __init__(self, window: int = 5, nan_strategy: str | float = "warn", **kwargs: Any) -> None:
        super().__init__(SumMetric(nan_strategy=nan_strategy, **kwargs), window)
