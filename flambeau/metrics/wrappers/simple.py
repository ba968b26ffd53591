"""Wrappers that keep extremes, name classes, split outputs, treat several tasks or change what goes in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..._ops.registry import ops
from ..._tensor import Tensor
from ...nn import ModuleDict, ModuleList
from ..collections import MetricCollection
from ..metric import Metric
from .abstract import WrapperMetric


class MinMaxMetric(WrapperMetric):
    """A metric with the smallest and largest figure that it has given: {"raw", "max", "min"}."""

    def __init__(self, base_metric: Metric, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not isinstance(base_metric, Metric):
            raise ValueError(
                f"Expected base metric to be an instance of `torchmetrics.Metric` but received {base_metric}"
            )
        self._base_metric = base_metric
        self.min_val, self.max_val = ops.tensor(float("inf")), ops.tensor(float("-inf"))

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Adds a batch."""
        self._base_metric.update(*args, **kwargs)

    def _with_extremes(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, (int, float)) and not (isinstance(value, Tensor) and value.numel() == 1):
            raise RuntimeError(f"Returned value from base metric should be a float or scalar tensor, but got {value}.")
        value = ops.as_tensor(value)
        self.max_val = ops.maximum(self.max_val.to(value.device), value)
        self.min_val = ops.minimum(self.min_val.to(value.device), value)
        return {"raw": value, "max": self.max_val, "min": self.min_val}

    def compute(self) -> dict[str, Any]:
        """The figure, and the extremes with it."""
        return self._with_extremes(self._base_metric.compute())

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Adds a batch and returns its figure with the extremes."""
        return self._with_extremes(self._base_metric(*args, **kwargs))

    def reset(self) -> None:
        """Resets the metric and the extremes."""
        super().reset()
        self._base_metric.reset()
        self.min_val, self.max_val = ops.tensor(float("inf")), ops.tensor(float("-inf"))


class ClasswiseWrapper(WrapperMetric):
    """Turns a figure per class into a dictionary with a name for each class.

    >>> import flambeau as torch
    >>> from flambeau.metrics.classification import MulticlassAccuracy
    >>> metric = ClasswiseWrapper(MulticlassAccuracy(num_classes=2, average=None), labels=["cat", "dog"])
    >>> metric(torch.tensor([0, 1, 1]), torch.tensor([0, 1, 0]))
    {'multiclassaccuracy_cat': tensor(0.5000), 'multiclassaccuracy_dog': tensor(1.)}
    """

    def __init__(
        self, metric: Metric, labels: list[str] | None = None, prefix: str | None = None, postfix: str | None = None
    ) -> None:
        super().__init__()
        if not isinstance(metric, Metric):
            raise ValueError(f"Expected argument `metric` to be an instance of `torchmetrics.Metric` but got {metric}")
        if labels is not None and not (isinstance(labels, list) and all(isinstance(name, str) for name in labels)):
            raise ValueError(f"Expected argument `labels` to either be `None` or a list of strings but got {labels}")
        self.metric, self.labels, self._prefix, self._postfix = metric, labels, prefix, postfix

    def _named(self, values: Tensor) -> dict[str, Any]:
        prefix, postfix = self._prefix or "", self._postfix or ""
        if not prefix and not postfix:
            prefix = f"{type(self.metric).__name__.lower()}_"
        names = self.labels if self.labels is not None else range(len(values))
        return {f"{prefix}{name}{postfix}": value for name, value in zip(names, values)}

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Adds a batch."""
        self.metric.update(*args, **kwargs)

    def compute(self) -> dict[str, Any]:
        """The figure of each class under its name."""
        return self._named(self.metric.compute())

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Adds a batch and returns its figures by name."""
        return self._named(self.metric(*args, **kwargs))

    def reset(self) -> None:
        """Resets the metric."""
        super().reset()
        self.metric.reset()


class MultioutputWrapper(WrapperMetric):
    """A metric for each output (each index of `output_dim`), their figures stacked.

    `remove_nans` leaves out samples where an output is not a number.
    """

    def __init__(
        self,
        base_metric: Metric,
        num_outputs: int,
        output_dim: int = -1,
        remove_nans: bool = True,
        squeeze_outputs: bool = True,
    ) -> None:
        super().__init__()
        self.metrics = ModuleList([base_metric.clone() for _ in range(num_outputs)])
        self.output_dim, self.remove_nans, self.squeeze_outputs = output_dim, remove_nans, squeeze_outputs

    def _one(self, index: int, values: Sequence[Any]) -> list[Any]:
        """The arguments that concern one output."""
        chosen = [v.narrow(self.output_dim, index, 1) if isinstance(v, Tensor) else v for v in values]
        tensors = [v for v in chosen if isinstance(v, Tensor)]
        if self.remove_nans and tensors:
            lost = ops.stack([v.reshape(v.shape[0], -1).isnan().any(1) for v in tensors]).any(0)
            chosen = [v[~lost] if isinstance(v, Tensor) else v for v in chosen]
        if self.squeeze_outputs:
            chosen = [v.squeeze(self.output_dim) if isinstance(v, Tensor) else v for v in chosen]
        return chosen

    def _each(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """(metric, its arguments, its keywords) for each output."""
        for index, metric in enumerate(self.metrics):
            chosen = self._one(index, [*args, *kwargs.values()])
            yield metric, chosen[: len(args)], dict(zip(kwargs, chosen[len(args) :]))

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Adds a batch."""
        for metric, positional, keywords in self._each(args, kwargs):
            metric.update(*positional, **keywords)

    def compute(self) -> Tensor:
        """The figures of all outputs."""
        return ops.stack([metric.compute() for metric in self.metrics], 0)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Adds a batch and returns its figures."""
        return ops.stack(
            [metric(*positional, **keywords) for metric, positional, keywords in self._each(args, kwargs)], 0
        )

    def reset(self) -> None:
        """Resets all metrics."""
        super().reset()
        for metric in self.metrics:
            metric.reset()


class MultitaskWrapper(WrapperMetric):
    """Metrics by task; predictions and targets come as dictionaries with the same keys."""

    def __init__(
        self, task_metrics: dict[str, Metric | MetricCollection], prefix: str | None = None, postfix: str | None = None
    ) -> None:
        super().__init__()
        if not isinstance(task_metrics, dict):
            raise TypeError(f"Expected argument `task_metrics` to be a dict. Found task_metrics = {task_metrics}")
        for metric in task_metrics.values():
            if not isinstance(metric, (Metric, MetricCollection)):
                raise TypeError(f"Expected each task's metric to be a Metric or a MetricCollection. Found {metric}")
        self.task_metrics = ModuleDict(task_metrics)
        self._prefix, self._postfix = prefix or "", postfix or ""

    def _call(self, method: str, *dictionaries: Mapping[str, Any]) -> dict[str, Any]:
        for given in dictionaries:
            if given.keys() != dict(self.task_metrics.items()).keys():
                raise ValueError(
                    f"Expected arguments to have the keys {list(self.task_metrics.keys())}, but got {list(given.keys())}"
                )
        return {
            f"{self._prefix}{name}{self._postfix}": getattr(metric, method)(*(given[name] for given in dictionaries))
            for name, metric in self.task_metrics.items()
        }

    def update(self, task_preds: dict[str, Any], task_targets: dict[str, Any]) -> None:
        """Adds a batch of each task."""
        self._call("update", task_preds, task_targets)

    def compute(self) -> dict[str, Any]:
        """The figures by task."""
        return self._call("compute")

    def forward(self, task_preds: dict[str, Any], task_targets: dict[str, Any]) -> dict[str, Any]:
        """Adds a batch of each task and returns its figures."""
        return self._call("forward", task_preds, task_targets)

    def reset(self) -> None:
        """Resets the metrics of all tasks."""
        super().reset()
        for metric in self.task_metrics.values():
            metric.reset()


class MetricInputTransformer(WrapperMetric):
    """Base of wrappers that change predictions or targets before a metric sees them."""

    def __init__(self, wrapped_metric: Metric | MetricCollection, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not isinstance(wrapped_metric, (Metric, MetricCollection)):
            raise TypeError(
                f"Expected wrapped metric to be a Metric or a MetricCollection but received {wrapped_metric}"
            )
        self.wrapped_metric = wrapped_metric

    def transform_pred(self, pred: Tensor) -> Tensor:
        """What the metric sees as the prediction."""
        return pred

    def transform_target(self, target: Tensor) -> Tensor:
        """What the metric sees as the target."""
        return target

    def update(self, pred: Tensor, target: Tensor, **kwargs: Any) -> None:
        """Adds a batch."""
        self.wrapped_metric.update(self.transform_pred(pred), self.transform_target(target), **kwargs)

    def compute(self) -> Any:
        """The metric's figure."""
        return self.wrapped_metric.compute()

    def forward(self, pred: Tensor, target: Tensor, **kwargs: Any) -> Any:
        """Adds a batch and returns its figure."""
        return self.wrapped_metric(self.transform_pred(pred), self.transform_target(target), **kwargs)

    def reset(self) -> None:
        """Resets the metric."""
        super().reset()
        self.wrapped_metric.reset()


class LambdaInputTransformer(MetricInputTransformer):
    """Changes predictions and targets by given functions."""

    def __init__(
        self,
        wrapped_metric: Metric | MetricCollection,
        transform_pred: Callable[[Tensor], Tensor] | None = None,
        transform_target: Callable[[Tensor], Tensor] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(wrapped_metric, **kwargs)
        for function in (transform_pred, transform_target):
            if function is not None and not callable(function):
                raise TypeError(f"Expected a transformation to be a function but received {function}")
        if transform_pred is not None:
            self.transform_pred = transform_pred  # type: ignore[method-assign]
        if transform_target is not None:
            self.transform_target = transform_target  # type: ignore[method-assign]


class BinaryTargetTransformer(MetricInputTransformer):
    """Turns targets into zeros and ones: one above the threshold."""

    def __init__(self, wrapped_metric: Metric | MetricCollection, threshold: float = 0, **kwargs: Any) -> None:
        super().__init__(wrapped_metric, **kwargs)
        if not isinstance(threshold, (int, float)):
            raise TypeError(f"Expected `threshold` to be a number but received {threshold}")
        self.threshold = threshold

    def transform_target(self, target: Tensor) -> Tensor:
        """Ones above the threshold."""
        return (target > self.threshold).to(target.dtype)
