"""`MetricTracker`: the figures of a metric over several runs, such as epochs, and the best of them."""

from __future__ import annotations

from typing import Any

from ..._ops.registry import ops
from ..._tensor import Tensor
from ...nn import ModuleList
from ..collections import MetricCollection
from ..metric import Metric
from ..utilities import rank_zero_warn


class MetricTracker(ModuleList):
    """Keeps a copy of a metric or collection for each step that `increment` begins.

    >>> from flambeau.metrics import SumMetric
    >>> tracker = MetricTracker(SumMetric(), maximize=True)
    >>> for value in (1.0, 3.0, 2.0):
    ...     tracker.increment()
    ...     tracker.update(value)
    >>> tracker.compute_all(), tracker.best_metric(return_step=True)
    (tensor([1., 3., 2.]), (3.0, 1))
    """

    def __init__(self, metric: Metric | MetricCollection, maximize: bool | list[bool] | None = None) -> None:
        super().__init__()
        if not isinstance(metric, (Metric, MetricCollection)):
            raise TypeError(
                f"Metric arg need to be an instance of a torchmetrics `Metric` or `MetricCollection` but got {metric}"
            )
        self._base_metric = metric
        if maximize is None:
            maximize = self._directions(metric)
        elif isinstance(maximize, list) and not isinstance(metric, MetricCollection):
            raise ValueError("Argument `maximize` should be a single bool when `metric` is a single Metric")
        elif isinstance(maximize, list) and len(maximize) != len(metric):
            raise ValueError("The len of argument `maximize` should match the length of the metric collection")
        elif not isinstance(maximize, (bool, list)):
            raise ValueError("Argument `maximize` should either be a single bool or list of bool")
        self.maximize = maximize
        self._increment_called = False

    @staticmethod
    def _directions(metric: Metric | MetricCollection) -> bool | list[bool]:
        members = list(metric.values(copy_state=False)) if isinstance(metric, MetricCollection) else [metric]
        better = [member.higher_is_better for member in members]
        if None in better:
            raise AttributeError("A metric does not say whether higher is better: give the argument `maximize`.")
        return better if isinstance(metric, MetricCollection) else bool(better[0])

    @property
    def n_steps(self) -> int:
        """Steps so far."""
        return len(self._steps())

    def _steps(self) -> list[Any]:
        return [module for name, module in self._modules.items() if name.isdigit()]

    def increment(self) -> None:
        """Begins a step."""
        self._increment_called = True
        fresh = self._base_metric.clone()
        fresh.reset()
        self.add_module(str(self.n_steps), fresh)

    def _current(self, method: str) -> Any:
        if not self._increment_called:
            raise ValueError(f"`{method}` cannot be called before `.increment()` has been called.")
        return self._steps()[-1]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Adds a batch to the present step and returns its figure."""
        return self._current("forward")(*args, **kwargs)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Adds a batch to the present step."""
        self._current("update").update(*args, **kwargs)

    def compute(self) -> Any:
        """The figure of the present step."""
        return self._current("compute").compute()

    def compute_all(self) -> Any:
        """The figures of all steps, stacked; of a collection, by name."""
        self._current("compute_all")
        results = [step.compute() for step in self._steps()]
        if isinstance(results[0], dict):
            return {name: ops.stack([result[name] for result in results]) for name in results[0]}
        if isinstance(results[0], Tensor):
            return ops.stack(results)
        return results

    def reset(self) -> None:
        """Resets the present step."""
        self._current("reset").reset()

    def reset_all(self) -> None:
        """Resets all steps."""
        for step in self._steps():
            step.reset()

    def best_metric(self, return_step: bool = False) -> Any:
        """The best figure, with `return_step` also its step; None for a figure that is not a single number."""
        found = self.compute_all()
        if not isinstance(found, dict):
            value, step = self._best(found, bool(self.maximize))
            return (value, step) if return_step else value
        wishes = self.maximize if isinstance(self.maximize, list) else [self.maximize] * len(found)
        best = {name: self._best(values, wish) for (name, values), wish in zip(found.items(), wishes)}
        values = {name: value for name, (value, _) in best.items()}
        return (values, {name: step for name, (_, step) in best.items()}) if return_step else values

    @staticmethod
    def _best(values: Any, maximize: bool) -> tuple[Any, Any]:
        if not isinstance(values, Tensor) or values.dim() != 1:
            rank_zero_warn(
                "The best figure is that of single numbers; the metric gives others. Returning None.", UserWarning
            )
            return None, None
        value, step = values.max(0) if maximize else values.min(0)
        return value.item(), int(step)
