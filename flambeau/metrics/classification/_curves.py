"""Precision-recall and ROC curves as metrics, and areas under them."""

from __future__ import annotations

from typing import Any

from ..._ops.registry import ops
from ..._tensor import Tensor
from ..functional.classification._areas import (
    AREA_AVERAGES,
    LABEL_AREA_AVERAGES,
    auroc_of,
    average_precision_of,
    binary_auroc_of,
    binary_average_precision_of,
    flattened,
)
from ..functional.classification._curves import (
    CURVE_AVERAGES,
    binary_curve,
    binary_roc_curve,
    binary_samples,
    check_scores,
    curves,
    matrices_at,
    multiclass_samples,
    multilabel_samples,
    thresholds_tensor,
)
from ..functional.classification._options import check_options, takes, takes_task
from ..metric import Metric
from ..utilities.data import dim_zero_cat
from .base import ClassificationMetric, TaskMetric


class _Curve(ClassificationMetric):
    """States: lists of scores and labels, or for given thresholds one tensor of confusion matrices."""

    _base = staticmethod(binary_curve)
    _downward = False
    _axes = ("precision", "recall")

    def _declare(self) -> None:
        at = thresholds_tensor(self.__dict__.pop("thresholds"))
        self.register_buffer("thresholds", at, persistent=False)
        if at is None:
            self.add_state("preds", [], dist_reduce_fx="cat")
            self.add_state("target", [], dist_reduce_fx="cat")
        else:
            self.add_state("confmat", ops.zeros(len(at), *self._classes, 2, 2).long(), dist_reduce_fx="sum")

    @property
    def _classes(self) -> tuple[int, ...]:
        """The number of curves that are counted apart, if there are several."""
        return ()

    def _check_data(self, preds: Tensor, target: Tensor, scores: bool = True) -> None:
        if self.validate_args:
            check_scores(preds)
        super()._check_data(preds, target, scores)

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

    _task = "binary"
    _takes = takes("thresholds ignore_index validate_args normalization")
    _update_options = ("_thresholds_option", "ignore_index", "validate_args", "normalization")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds scores and targets of one shape."""
        self._check_data(preds, target)
        self._add(binary_samples(preds, target, self.ignore_index, self.normalization))

    def compute(self) -> Any:
        """The curve."""
        return self._base(self._data(), self.thresholds)


class MulticlassPrecisionRecallCurve(_Curve):
    """Precision, recall and thresholds of each class against the others, or of one averaged curve."""

    _task = "multiclass"
    _takes = takes("num_classes thresholds average ignore_index validate_args", average=None)
    _averages: tuple[Any, ...] = CURVE_AVERAGES
    _update_options = ("num_classes", "_micro", "_thresholds_option", "ignore_index", "validate_args")

    @property
    def _micro(self) -> bool:
        return self.average == "micro"

    @property
    def _classes(self) -> tuple[int, ...]:
        return () if self._micro else (self.num_classes,)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds scores (N, C, ...) and targets (N, ...)."""
        self._check_data(preds, target)
        average = "micro" if self._micro else None
        self._add(multiclass_samples(preds, target, self.num_classes, self.ignore_index, average))

    def compute(self) -> Any:
        """The curves."""
        return curves(self._base, self._data(), self.num_classes, self.thresholds, self.average, None, self._downward)


class MultilabelPrecisionRecallCurve(_Curve):
    """Precision, recall and thresholds of each label."""

    _task = "multilabel"
    _takes = takes("num_labels thresholds ignore_index validate_args")
    _update_options = ("num_labels", "_thresholds_option", "ignore_index", "validate_args")

    @property
    def _classes(self) -> tuple[int, ...]:
        return (self.num_labels,)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds scores and targets (N, L, ...)."""
        self._check_data(preds, target)
        self._add(multilabel_samples(preds, target, self.ignore_index), self.ignore_index)

    def compute(self) -> Any:
        """The curves."""
        return curves(
            self._base, self._data(), self.num_labels, self.thresholds, None, self.ignore_index, self._downward
        )


class _CurveTask(TaskMetric):
    _takes = takes_task("thresholds num_classes num_labels ignore_index validate_args")


class PrecisionRecallCurve(_CurveTask):
    """Precision, recall and thresholds; makes the metric of the `task`.

    >>> import flambeau as torch
    >>> curve = PrecisionRecallCurve(task="binary", thresholds=[0.25, 0.5])
    >>> precision, recall, _ = curve(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
    >>> precision, recall
    (tensor([0.6667, 1.0000, 1.0000]), tensor([1.0000, 0.5000, 0.0000]))
    """

    _metrics = (BinaryPrecisionRecallCurve, MulticlassPrecisionRecallCurve, MultilabelPrecisionRecallCurve)


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
    """False and true positive rates and thresholds; makes the metric of the `task`.

    >>> import flambeau as torch
    >>> ROC(task="binary", thresholds=3)(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
    (tensor([0., 0., 1.]), tensor([0.0000, 0.5000, 1.0000]), tensor([1.0000, 0.5000, 0.0000]))
    """

    _metrics = (BinaryROC, MulticlassROC, MultilabelROC)


class Area(_Curve):
    """A number made of the curve, or of each class's curve; the curves themselves are not averaged."""

    higher_is_better = True
    plot_lower_bound, plot_upper_bound = 0.0, 1.0
    plot = Metric.plot  # type: ignore[assignment]
    _micro = False


class BinaryAUROC(Area, BinaryPrecisionRecallCurve):
    """Area under the ROC curve.

    >>> import flambeau as torch
    >>> metric = BinaryAUROC()
    >>> metric.update(torch.tensor([0.1, 0.4]), torch.tensor([0, 0]))
    >>> metric.update(torch.tensor([0.35, 0.8]), torch.tensor([1, 1]))
    >>> metric.compute()
    tensor(0.7500)
    """

    _takes = takes("max_fpr thresholds ignore_index validate_args normalization")

    def _declare(self) -> None:
        check_options(max_fpr=self.max_fpr)
        super()._declare()

    def compute(self) -> Tensor:
        """The area."""
        return binary_auroc_of(self._data(), self.thresholds, self.max_fpr)


class MulticlassAUROC(Area, MulticlassPrecisionRecallCurve):
    """Area under the ROC curve of each class against the others, averaged as asked."""

    _takes = takes("num_classes average thresholds ignore_index validate_args")
    _averages = AREA_AVERAGES

    def compute(self) -> Tensor:
        """The areas, or their average."""
        return auroc_of(self._data(), self.num_classes, self.average, self.thresholds)


class MultilabelAUROC(Area, MultilabelPrecisionRecallCurve):
    """Area under the ROC curve of each label, averaged as asked."""

    _takes = takes("num_labels average thresholds ignore_index validate_args")
    _averages = LABEL_AREA_AVERAGES

    def compute(self) -> Tensor:
        """The areas, or their average."""
        data = self._data()
        if self.average == "micro":
            return binary_auroc_of(flattened(data, self.ignore_index), self.thresholds)
        return auroc_of(data, self.num_labels, self.average, self.thresholds, self.ignore_index)


class AUROC(TaskMetric):
    """Area under the ROC curve; makes the metric of the `task`.

    >>> import flambeau as torch
    >>> AUROC(task="binary")(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
    tensor(0.7500)
    """

    _takes = takes_task("thresholds num_classes num_labels average max_fpr ignore_index validate_args")
    _metrics = (BinaryAUROC, MulticlassAUROC, MultilabelAUROC)


class BinaryAveragePrecision(Area, BinaryPrecisionRecallCurve):
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
    """Average precision; makes the metric of the `task`.

    >>> import flambeau as torch
    >>> AveragePrecision(task="binary")(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
    tensor(0.8333)
    """

    _takes = takes_task("thresholds num_classes num_labels average ignore_index validate_args")
    _metrics = (BinaryAveragePrecision, MulticlassAveragePrecision, MultilabelAveragePrecision)
