"""Confusion matrices as metrics, and the scores made of them."""

from __future__ import annotations

from typing import Any

from ..._ops.registry import ops
from ..._tensor import Tensor
from ..functional.classification._inputs import AVERAGES
from ..functional.classification._matrices import (
    binary_matrix,
    jaccard_of,
    kappa_of,
    matthews_of,
    multiclass_matrix,
    multilabel_matrix,
    normalized,
)
from ..functional.classification._options import check_options, takes, takes_task
from ..metric import Metric
from ..utilities.checks import check_choice
from .base import ClassificationMetric, TaskMetric


class _Matrix(ClassificationMetric):
    """One state: the matrix of counts."""

    normalize: str | None = None

    def _declare(self) -> None:
        if self._task == "multiclass":
            shape: tuple[int, ...] = (self.num_classes, self.num_classes)
        else:
            shape = (2, 2) if self._task == "binary" else (self.num_labels, 2, 2)
        self.add_state("confmat", ops.zeros(shape).long(), dist_reduce_fx="sum")

    def compute(self) -> Tensor:
        """The matrix, as counts or shares."""
        return normalized(self.confmat, self.normalize)

    def plot(self, val: Any = None, ax: Any = None, add_text: bool = True, labels: list[str] | None = None) -> Any:
        """Draws the matrix with matplotlib; returns the figure and its axes."""
        from ..utilities.plot import plot_confusion_matrix  # needs matplotlib

        value = self.compute() if val is None else val
        if value.dim() != 2:
            return super().plot(value, ax)
        return plot_confusion_matrix(value, ax, labels)


class BinaryConfusionMatrix(_Matrix):
    """[[true negatives, false positives], [false negatives, true positives]]."""

    _task = "binary"
    _takes = takes("threshold ignore_index normalize validate_args")
    _update_options = ("threshold", "ignore_index", "validate_args")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds predictions and targets of one shape."""
        self._check_data(preds, target)
        self.confmat = self.confmat + binary_matrix(preds, target, self.threshold, self.ignore_index)


class MulticlassConfusionMatrix(_Matrix):
    """Rows are true classes, columns predicted ones.

    >>> import flambeau as torch
    >>> metric = MulticlassConfusionMatrix(num_classes=3)
    >>> metric.update(torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 2, 2]))
    >>> metric.compute()
    tensor([[1, 0, 0],
            [0, 1, 0],
            [0, 1, 1]])
    """

    _task = "multiclass"
    _takes = takes("num_classes ignore_index normalize validate_args")
    _update_options = ("num_classes", "ignore_index", "validate_args")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds labels (N, ...), or scores (N, C, ...), and targets (N, ...)."""
        self._check_data(preds, target)
        self.confmat = self.confmat + multiclass_matrix(preds, target, self.num_classes, self.ignore_index)


class MultilabelConfusionMatrix(_Matrix):
    """A matrix [[tn, fp], [fn, tp]] for each label."""

    _task = "multilabel"
    _takes = takes("num_labels threshold ignore_index normalize validate_args")
    _update_options = ("num_labels", "threshold", "ignore_index", "validate_args")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds predictions and targets (N, L, ...)."""
        self._check_data(preds, target)
        self.confmat = self.confmat + multilabel_matrix(
            preds, target, self.num_labels, self.threshold, self.ignore_index
        )


class ConfusionMatrix(TaskMetric):
    """Confusion matrix; makes the metric of the `task`.

    >>> import flambeau as torch
    >>> ConfusionMatrix(task="binary")(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
    tensor([[2, 0],
            [1, 1]])
    """

    _takes = takes_task("threshold num_classes num_labels normalize ignore_index validate_args")
    _metrics = (BinaryConfusionMatrix, MulticlassConfusionMatrix, MultilabelConfusionMatrix)


class _Score(_Matrix):
    """A score of the matrix, drawn as a number."""

    higher_is_better = True
    plot_upper_bound = 1.0
    plot = Metric.plot  # type: ignore[assignment]


class _Kappa(_Score):
    def _declare(self) -> None:
        check_options(weights=self.weights)
        super()._declare()

    def compute(self) -> Tensor:
        """Agreement beyond chance."""
        return kappa_of(self.confmat, self.weights)


class BinaryCohenKappa(_Kappa, BinaryConfusionMatrix):
    """Cohen's kappa of zeros and ones."""

    _takes = takes("threshold ignore_index weights validate_args")


class MulticlassCohenKappa(_Kappa, MulticlassConfusionMatrix):
    """Cohen's kappa of labels."""

    _takes = takes("num_classes ignore_index weights validate_args")


class CohenKappa(TaskMetric):
    """Cohen's kappa; makes the metric of the `task` "binary" or "multiclass".

    >>> import flambeau as torch
    >>> CohenKappa(task="multiclass", num_classes=3)(torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 2, 2]))
    tensor(0.6364)
    """

    _takes = takes_task("threshold num_classes weights ignore_index validate_args")
    _metrics = (BinaryCohenKappa, MulticlassCohenKappa)


class _Matthews(_Score):
    plot_lower_bound = -1.0

    def compute(self) -> Tensor:
        """Correlation of prediction and truth."""
        return matthews_of(self.confmat)


class BinaryMatthewsCorrCoef(_Matthews, BinaryConfusionMatrix):
    """Matthews' correlation coefficient of zeros and ones."""

    _takes = takes("threshold ignore_index validate_args")


class MulticlassMatthewsCorrCoef(_Matthews, MulticlassConfusionMatrix):
    """Matthews' correlation coefficient of labels."""

    _takes = takes("num_classes ignore_index validate_args")


class MultilabelMatthewsCorrCoef(_Matthews, MultilabelConfusionMatrix):
    """Matthews' correlation coefficient of zeros and ones, all labels together."""

    _takes = takes("num_labels threshold ignore_index validate_args")


class MatthewsCorrCoef(TaskMetric):
    """Matthews' correlation coefficient; makes the metric of the `task`.

    >>> import flambeau as torch
    >>> metric = MatthewsCorrCoef(task="multiclass", num_classes=3)
    >>> metric(torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 2, 2]))
    tensor(0.7000)
    """

    _takes = takes_task("threshold num_classes num_labels ignore_index validate_args")
    _metrics = (BinaryMatthewsCorrCoef, MulticlassMatthewsCorrCoef, MultilabelMatthewsCorrCoef)


class _Jaccard(_Score):
    plot_lower_bound = 0.0
    _averages = ("binary", *AVERAGES)

    def _declare(self) -> None:
        check_choice("average", self.average, self._averages)
        super()._declare()

    def compute(self) -> Tensor:
        """Intersection over union."""
        ignored = self.ignore_index if self.confmat.dim() == 2 and self.average != "binary" else None
        return jaccard_of(self.confmat, self.average, ignored, self.zero_division)


class BinaryJaccardIndex(_Jaccard, BinaryConfusionMatrix):
    """Intersection over union of the ones."""

    _takes = takes("threshold ignore_index validate_args zero_division")
    average = "binary"


class MulticlassJaccardIndex(_Jaccard, MulticlassConfusionMatrix):
    """Intersection over union per class, averaged as asked.

    >>> import flambeau as torch
    >>> metric = MulticlassJaccardIndex(num_classes=3, average=None)
    >>> metric(torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 2, 2]))
    tensor([1.0000, 0.5000, 0.5000])
    """

    _takes = takes("num_classes average ignore_index validate_args zero_division")


class MultilabelJaccardIndex(_Jaccard, MultilabelConfusionMatrix):
    """Intersection over union per label, averaged as asked."""

    _takes = takes("num_labels threshold average ignore_index validate_args zero_division")


class JaccardIndex(TaskMetric):
    """Intersection over union; makes the metric of the `task`.

    >>> import flambeau as torch
    >>> metric = JaccardIndex(task="multiclass", num_classes=3)
    >>> metric(torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 2, 2]))
    tensor(0.6667)
    """

    _takes = takes_task("threshold num_classes num_labels average ignore_index validate_args zero_division")
    _metrics = (BinaryJaccardIndex, MulticlassJaccardIndex, MultilabelJaccardIndex)
