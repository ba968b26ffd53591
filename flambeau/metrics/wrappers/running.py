"""`Running`: a metric over the last few updates."""

from __future__ import annotations

from collections import deque
from typing import Any

from ..metric import Metric
from .abstract import WrapperMetric


class Running(WrapperMetric):
    """The figure of another metric over its last `window` updates; a call gives the batch's own.

    >>> from flambeau.metrics import SumMetric
    >>> running = Running(SumMetric(), window=3)
    >>> for value in range(6): running.update(value)
    >>> running.compute()
    tensor(12.)
    """

    def __init__(self, base_metric: Metric, window: int = 5) -> None:
        super().__init__()
        if not isinstance(base_metric, Metric):
            raise ValueError(
                f"Expected argument `metric` to be an instance of `torchmetrics.Metric` but got {base_metric}"
            )
        if not (isinstance(window, int) and window > 0):
            raise ValueError(f"Argument `window` should be a positive integer but got {window}")
        if base_metric.full_state_update is not False:
            raise ValueError(
                "Expected attribute `full_state_update` set to `False` but got "
                f"{base_metric.full_state_update}: the states of single updates must be mergeable."
            )
        self.base_metric, self.window = base_metric, window
        self._batches: deque[dict[str, Any]] = deque(maxlen=window)

    def _keep(self) -> None:
        self._batches.append(self.base_metric.metric_state)
        self.base_metric.reset()

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Takes a batch in; the oldest falls out."""
        self.base_metric.update(*args, **kwargs)
        self._keep()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Takes a batch in and returns its figure."""
        value = self.base_metric(*args, **kwargs)
        self._keep()
        return value

    def compute(self) -> Any:
        """The figure of the last batches."""
        for states in self._batches:
            self.base_metric.merge_state(states)
        try:
            return self.base_metric.compute()
        finally:
            self.base_metric.reset()

    def reset(self) -> None:
        """Forgets all batches."""
        super().reset()
        self.base_metric.reset()
        self._batches.clear()
