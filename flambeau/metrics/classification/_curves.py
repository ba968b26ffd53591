"""Precision-recall and ROC curves as metrics, areas under them, and operating points on them."""

from __future__ import annotations

from typing import Any

from ..._ops.registry import ops
from ..._tensor import Tensor
from ..functional.classification._areas import (
    auroc_of,
    average_precision_of,
    binary_auroc_of,
    binary_average_precision_of,
    check_max_fpr,
    flattened,
)
from ..functional.classification._curves import (
    binary_curve,
    binary_roc_curve,
    binary_samples,
    check_scores,
    check_thresholds,
    curves,
    matrices_at,
    multiclass_samples,
    multilabel_samples,
    thresholds_tensor,
)
from ..functional.classification._inputs import (
    check_binary,
    check_choice,
    check_count,
    check_multiclass,
    check_multilabel,
)
from ..metric import Metric
from ..utilities.data import dim_zero_cat
from .base import TaskMetric, need_number, task_of

Thresholds = int | list[float] | Tensor | None


class _Curve(Metric):
    """States: lists of scores and labels, or for given thresholds one tensor of confusion matrices."""

    is_differentiable = False
    full_state_update = False
    average: str | None = None
    _base = staticmethod(binary_curve)
    _downward = False
    _axes = ("precision", "recall")

    def _declare(self, thresholds: Thresholds, ignore_index: int | None, validate_args: bool, *classes: int) -> None:
        if validate_args:
            check_thresholds(thresholds, ignore_index)
        self.ignore_index, self.validate_args = ignore_index, validate_args
        at = thresholds_tensor(thresholds)
        self.register_buffer("thresholds", at, persistent=False)
        if at is None:
            self.add_state("preds", [], dist_reduce_fx="cat")
            self.add_state("target", [], dist_reduce_fx="cat")
        else:
            self.add_state("confmat", ops.zeros(len(at), *classes, 2, 2).long(), dist_reduce_fx="sum")

    @property
    def _thresholds_option(self) -> Any:
        return None if self.thresholds is None else self.thresholds.tolist()

    def _add(self, samples: tuple[Tensor, Tensor], ignore_index: int | None = None) -> None:
        if self.thresholds is None:
            self.preds.append(samples[0])
            self.target.append(samples[1])
        else:
            self.confmat = self.confmat + matrices_at(*samples, self.thresholds, ignore_index)

    def _data(self) -> Any:
        return (dim_zero_cat(self.preds), dim_zero_cat(self.target)) if self.thresholds is None else self.confmat

    def plot(self, curve: Any = None, score: Any = None, ax: Any = None) -> Any:
        """Draws the curve with matplotlib; returns the figure and its axes."""
        from ..utilities.plot import plot_curve  # needs matplotlib

        x, y, thresholds = self.compute() if curve is None else curve
        if self._axes == ("precision", "recall"):
            return plot_curve((y, x, thresholds), ax, type(self).__name__, ("recall", "precision"))
        return plot_curve((x, y, thresholds), ax, type(self).__name__, self._axes)


class BinaryPrecisionRecallCurve(_Curve):
    """Precision, recall and thresholds of scores and zeros and ones; exact, or at given thresholds."""

    _update_options = ("_thresholds_option", "ignore_index", "validate_args", "normalization")

    def __init__(
        self,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        normalization: str | None = "sigmoid",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.normalization = normalization
        self._declare(thresholds, ignore_index, validate_args)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds scores and targets of one shape."""
        if self.validate_args:
            check_scores(preds)
            check_binary(preds, target, self.ignore_index)
        self._add(binary_samples(preds, target, self.ignore_index, self.normalization))

    def compute(self) -> Any:
        """The curve."""
        return self._base(self._data(), self.thresholds)


class MulticlassPrecisionRecallCurve(_Curve):
    """Precision, recall and thresholds of each class against the others, or of one averaged curve."""

    _update_options = ("num_classes", "_micro", "_thresholds_option", "ignore_index", "validate_args")

    def __init__(
        self,
        num_classes: int,
        thresholds: Thresholds = None,
        average: str | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if validate_args:
            check_count("num_classes", num_classes)
            check_choice("average", average, ("micro", "macro", None))
        self.num_classes, self.average, self._micro = num_classes, average, average == "micro"
        self._declare(thresholds, ignore_index, validate_args, *(() if self._micro else (num_classes,)))

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds scores (N, C, ...) and targets (N, ...)."""
        if self.validate_args:
            check_scores(preds)
            check_multiclass(preds, target, self.num_classes, self.ignore_index, scores=True)
        average = "micro" if self._micro else None
        self._add(multiclass_samples(preds, target, self.num_classes, self.ignore_index, average))

    def compute(self) -> Any:
        """The curves."""
        return curves(self._base, self._data(), self.num_classes, self.thresholds, self.average, None, self._downward)


class MultilabelPrecisionRecallCurve(_Curve):
    """Precision, recall and thresholds of each label."""

    _update_options = ("num_labels", "_thresholds_option", "ignore_index", "validate_args")

    def __init__(
        self,
        num_labels: int,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if validate_args:
            check_count("num_labels", num_labels)
        self.num_labels = num_labels
        self._declare(thresholds, ignore_index, validate_args, num_labels)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds scores and targets (N, L, ...)."""
        if self.validate_args:
            check_scores(preds)
            check_multilabel(preds, target, self.num_labels, self.ignore_index)
        self._add(multilabel_samples(preds, target, self.ignore_index), self.ignore_index)

    def compute(self) -> Any:
        """The curves."""
        return curves(
            self._base, self._data(), self.num_labels, self.thresholds, None, self.ignore_index, self._downward
        )


class _CurveTask(TaskMetric):
    _binary: type[Metric]
    _multiclass: type[Metric]
    _multilabel: type[Metric]

    def __new__(  # type: ignore[misc]
        cls,
        task: str,
        thresholds: Thresholds = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> Metric:
        task = task_of(task)
        kwargs.update(thresholds=thresholds, ignore_index=ignore_index, validate_args=validate_args)
        if task == "binary":
            return cls._binary(**kwargs)
        if task == "multiclass":
            return cls._multiclass(num_classes=need_number("num_classes", num_classes), **kwargs)
        return cls._multilabel(num_labels=need_number("num_labels", num_labels), **kwargs)


class PrecisionRecallCurve(_CurveTask):
    """Precision, recall and thresholds; makes the metric of the `task`."""

    _binary, _multiclass = BinaryPrecisionRecallCurve, MulticlassPrecisionRecallCurve
    _multilabel = MultilabelPrecisionRecallCurve


class _Roc(_Curve):
    _base = staticmethod(binary_roc_curve)
    _downward = True
    _axes = ("false positive rate", "true positive rate")


class BinaryROC(_Roc, BinaryPrecisionRecallCurve):
    """False positive rate, true positive rate and thresholds."""


class MulticlassROC(_Roc, MulticlassPrecisionRecallCurve):
    """ROC curves of each class against the others, or one averaged curve."""


class MultilabelROC(_Roc, MultilabelPrecisionRecallCurve):
    """ROC curves of each label."""


class ROC(_CurveTask):
    """False and true positive rates and thresholds; makes the metric of the `task`."""

    _binary, _multiclass, _multilabel = BinaryROC, MulticlassROC, MultilabelROC


class _Area(_Curve):
    """A number made of the curve."""

    higher_is_better = True
    plot_lower_bound, plot_upper_bound = 0.0, 1.0
    plot = Metric.plot  # type: ignore[assignment]


_AVERAGES = ("macro", "weighted", "none", None)


class BinaryAUROC(_Area, BinaryPrecisionRecallCurve):
    """Area under the ROC curve.

    >>> import flambeau as torch
    >>> metric = BinaryAUROC()
    >>> metric.update(torch.tensor([0.1, 0.4]), torch.tensor([0, 0]))
    >>> metric.update(torch.tensor([0.35, 0.8]), torch.tensor([1, 1]))
    >>> metric.compute()
    tensor(0.7500)
    """

    def __init__(
        self,
        max_fpr: float | None = None,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(thresholds, ignore_index, validate_args, **kwargs)
        check_max_fpr(max_fpr)
        self.max_fpr = max_fpr

    def compute(self) -> Tensor:
        """The area."""
        return binary_auroc_of(self._data(), self.thresholds, self.max_fpr)


class _ClassArea(_Area):
    def _init_average(self, average: str | None, allowed: tuple[Any, ...]) -> None:
        if self.validate_args:
            check_choice("average", average, allowed)
        self.average = average


class MulticlassAUROC(_ClassArea, MulticlassPrecisionRecallCurve):
    """Area under the ROC curve of each class against the others, averaged as asked."""

    def __init__(
        self,
        num_classes: int,
        average: str | None = "macro",
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, thresholds, None, ignore_index, validate_args, **kwargs)
        self._init_average(average, _AVERAGES)

    def compute(self) -> Tensor:
        """The areas, or their average."""
        return auroc_of(self._data(), self.num_classes, self.average, self.thresholds)


class MultilabelAUROC(_ClassArea, MultilabelPrecisionRecallCurve):
    """Area under the ROC curve of each label, averaged as asked."""

    def __init__(
        self,
        num_labels: int,
        average: str | None = "macro",
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_labels, thresholds, ignore_index, validate_args, **kwargs)
        self._init_average(average, ("micro", *_AVERAGES))

    def compute(self) -> Tensor:
        """The areas, or their average."""
        data = self._data()
        if self.average == "micro":
            return binary_auroc_of(flattened(data, self.ignore_index), self.thresholds)
        return auroc_of(data, self.num_labels, self.average, self.thresholds, self.ignore_index)


class AUROC(TaskMetric):
    """Area under the ROC curve; makes the metric of the `task`."""

    def __new__(  # type: ignore[misc]
        cls,
        task: str,
        thresholds: Thresholds = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = "macro",
        max_fpr: float | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> Metric:
        task = task_of(task)
        kwargs.update(thresholds=thresholds, ignore_index=ignore_index, validate_args=validate_args)
        if task == "binary":
            return BinaryAUROC(max_fpr, **kwargs)
        if task == "multiclass":
            return MulticlassAUROC(need_number("num_classes", num_classes), average, **kwargs)
        return MultilabelAUROC(need_number("num_labels", num_labels), average, **kwargs)


class BinaryAveragePrecision(_Area, BinaryPrecisionRecallCurve):
    """Precision summed over the steps of recall."""

    def compute(self) -> Tensor:
        """The average precision."""
        return binary_average_precision_of(self._data(), self.thresholds)


class MulticlassAveragePrecision(MulticlassAUROC):
    """Average precision of each class against the others, averaged as asked."""

    def compute(self) -> Tensor:
        """The average precisions, or their average."""
        return average_precision_of(self._data(), self.num_classes, self.average, self.thresholds)


class MultilabelAveragePrecision(MultilabelAUROC):
    """Average precision of each label, averaged as asked."""

    def compute(self) -> Tensor:
        """The average precisions, or their average."""
        data = self._data()
        if self.average == "micro":
            return binary_average_precision_of(flattened(data, self.ignore_index), self.thresholds)
        return average_precision_of(data, self.num_labels, self.average, self.thresholds, self.ignore_index)


class AveragePrecision(TaskMetric):
    """Average precision; makes the metric of the `task`."""

    def __new__(  # type: ignore[misc]
        cls,
        task: str,
        thresholds: Thresholds = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = "macro",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> Metric:
        task = task_of(task)
        kwargs.update(thresholds=thresholds, ignore_index=ignore_index, validate_args=validate_args)
        if task == "binary":
            return BinaryAveragePrecision(**kwargs)
        if task == "multiclass":
            return MulticlassAveragePrecision(need_number("num_classes", num_classes), average, **kwargs)
        return MultilabelAveragePrecision(need_number("num_labels", num_labels), average, **kwargs)
