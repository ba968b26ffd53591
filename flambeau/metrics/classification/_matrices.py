"""Confusion matrices as metrics, and the scores made of them."""

from __future__ import annotations

from typing import Any

from ..._ops.registry import ops
from ..._tensor import Tensor
from ..functional.classification._inputs import (
    AVERAGES,
    check_binary,
    check_choice,
    check_count,
    check_multiclass,
    check_multilabel,
)
from ..functional.classification._matrices import (
    binary_matrix,
    check_matrix,
    jaccard_of,
    kappa_of,
    matthews_of,
    multiclass_matrix,
    multilabel_matrix,
    normalized,
)
from ..metric import Metric
from .base import TaskMetric, need_number, task_of


class _Matrix(Metric):
    """One state: the matrix of counts."""

    is_differentiable = False
    full_state_update = False

    def _declare(self, *shape: int) -> None:
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

    _update_options = ("threshold", "ignore_index", "validate_args")

    def __init__(
        self,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        normalize: str | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if validate_args:
            check_matrix(threshold, ignore_index, normalize)
        self.threshold, self.ignore_index, self.normalize, self.validate_args = (
            threshold,
            ignore_index,
            normalize,
            validate_args,
        )
        self._declare(2, 2)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds predictions and targets of one shape."""
        if self.validate_args:
            check_binary(preds, target, self.ignore_index)
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

    _update_options = ("num_classes", "ignore_index", "validate_args")

    def __init__(
        self,
        num_classes: int,
        ignore_index: int | None = None,
        normalize: str | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if validate_args:
            check_count("num_classes", num_classes)
            check_matrix(0.5, ignore_index, normalize)
        self.num_classes, self.ignore_index, self.normalize = num_classes, ignore_index, normalize
        self.validate_args = validate_args
        self._declare(num_classes, num_classes)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds labels (N, ...), or scores (N, C, ...), and targets (N, ...)."""
        if self.validate_args:
            check_multiclass(preds, target, self.num_classes, self.ignore_index)
        self.confmat = self.confmat + multiclass_matrix(preds, target, self.num_classes, self.ignore_index)


class MultilabelConfusionMatrix(_Matrix):
    """A matrix [[tn, fp], [fn, tp]] for each label."""

    _update_options = ("num_labels", "threshold", "ignore_index", "validate_args")

    def __init__(
        self,
        num_labels: int,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        normalize: str | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if validate_args:
            check_count("num_labels", num_labels)
            check_matrix(threshold, ignore_index, normalize)
        self.num_labels, self.threshold, self.ignore_index = num_labels, threshold, ignore_index
        self.normalize, self.validate_args = normalize, validate_args
        self._declare(num_labels, 2, 2)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds predictions and targets (N, L, ...)."""
        if self.validate_args:
            check_multilabel(preds, target, self.num_labels, self.ignore_index)
        self.confmat = self.confmat + multilabel_matrix(
            preds, target, self.num_labels, self.threshold, self.ignore_index
        )


class ConfusionMatrix(TaskMetric):
    """Confusion matrix; makes the metric of the `task`."""

    def __new__(  # type: ignore[misc]
        cls,
        task: str,
        threshold: float = 0.5,
        num_classes: int | None = None,
        num_labels: int | None = None,
        normalize: str | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> Metric:
        task = task_of(task)
        kwargs.update(normalize=normalize, ignore_index=ignore_index, validate_args=validate_args)
        if task == "binary":
            return BinaryConfusionMatrix(threshold, **kwargs)
        if task == "multiclass":
            return MulticlassConfusionMatrix(need_number("num_classes", num_classes), **kwargs)
        return MultilabelConfusionMatrix(need_number("num_labels", num_labels), threshold, **kwargs)


class _Score(_Matrix):
    """A score of the matrix, drawn as a number."""

    higher_is_better = True
    plot_upper_bound = 1.0
    plot = Metric.plot  # type: ignore[assignment]


class _Kappa(_Score):
    weights: str | None

    def compute(self) -> Tensor:
        """Agreement beyond chance."""
        return kappa_of(self.confmat, self.weights)


def _checked_weights(weights: Any) -> Any:
    check_choice("weights", weights, ("linear", "quadratic", "none", None))
    return weights


class BinaryCohenKappa(_Kappa, BinaryConfusionMatrix):
    """Cohen's kappa of zeros and ones."""

    def __init__(
        self,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        weights: str | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(threshold, ignore_index, None, validate_args, **kwargs)
        self.weights = _checked_weights(weights)


class MulticlassCohenKappa(_Kappa, MulticlassConfusionMatrix):
    """Cohen's kappa of labels."""

    def __init__(
        self,
        num_classes: int,
        ignore_index: int | None = None,
        weights: str | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, ignore_index, None, validate_args, **kwargs)
        self.weights = _checked_weights(weights)


class CohenKappa(TaskMetric):
    """Cohen's kappa; makes the metric of the `task` "binary" or "multiclass"."""

    def __new__(  # type: ignore[misc]
        cls,
        task: str,
        threshold: float = 0.5,
        num_classes: int | None = None,
        weights: str | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> Metric:
        kwargs.update(weights=weights, ignore_index=ignore_index, validate_args=validate_args)
        if task_of(task, ("binary", "multiclass")) == "binary":
            return BinaryCohenKappa(threshold, **kwargs)
        return MulticlassCohenKappa(need_number("num_classes", num_classes), **kwargs)


class _Matthews(_Score):
    plot_lower_bound = -1.0

    def compute(self) -> Tensor:
        """Correlation of prediction and truth."""
        return matthews_of(self.confmat)


class BinaryMatthewsCorrCoef(_Matthews, BinaryConfusionMatrix):
    """Matthews' correlation coefficient of zeros and ones."""

    def __init__(
        self, threshold: float = 0.5, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(threshold, ignore_index, None, validate_args, **kwargs)


class MulticlassMatthewsCorrCoef(_Matthews, MulticlassConfusionMatrix):
    """Matthews' correlation coefficient of labels."""

    def __init__(
        self, num_classes: int, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(num_classes, ignore_index, None, validate_args, **kwargs)


class MultilabelMatthewsCorrCoef(_Matthews, MultilabelConfusionMatrix):
    """Matthews' correlation coefficient of zeros and ones, all labels together."""

    def __init__(
        self,
        num_labels: int,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_labels, threshold, ignore_index, None, validate_args, **kwargs)


class MatthewsCorrCoef(TaskMetric):
    """Matthews' correlation coefficient; makes the metric of the `task`."""

    def __new__(  # type: ignore[misc]
        cls,
        task: str,
        threshold: float = 0.5,
        num_classes: int | None = None,
        num_labels: int | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> Metric:
        task = task_of(task)
        kwargs.update(ignore_index=ignore_index, validate_args=validate_args)
        if task == "binary":
            return BinaryMatthewsCorrCoef(threshold, **kwargs)
        if task == "multiclass":
            return MulticlassMatthewsCorrCoef(need_number("num_classes", num_classes), **kwargs)
        return MultilabelMatthewsCorrCoef(need_number("num_labels", num_labels), threshold, **kwargs)


class _Jaccard(_Score):
    plot_lower_bound = 0.0
    average: str | None
    zero_division: float

    def compute(self) -> Tensor:
        """Intersection over union."""
        ignored = self.ignore_index if self.confmat.dim() == 2 and self.average != "binary" else None
        return jaccard_of(self.confmat, self.average, ignored, self.zero_division)

    def _average_by(self, average: str | None, zero_division: float) -> None:
        check_choice("average", average, ("binary", *AVERAGES))
        self.average, self.zero_division = average, zero_division


class BinaryJaccardIndex(_Jaccard, BinaryConfusionMatrix):
    """Intersection over union of the ones."""

    def __init__(
        self,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(threshold, ignore_index, None, validate_args, **kwargs)
        self._average_by("binary", zero_division)


class MulticlassJaccardIndex(_Jaccard, MulticlassConfusionMatrix):
    """Intersection over union per class, averaged as asked."""

    def __init__(
        self,
        num_classes: int,
        average: str | None = "macro",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, ignore_index, None, validate_args, **kwargs)
        self._average_by(average, zero_division)


class MultilabelJaccardIndex(_Jaccard, MultilabelConfusionMatrix):
    """Intersection over union per label, averaged as asked."""

    def __init__(
        self,
        num_labels: int,
        threshold: float = 0.5,
        average: str | None = "macro",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_labels, threshold, ignore_index, None, validate_args, **kwargs)
        self._average_by(average, zero_division)


class JaccardIndex(TaskMetric):
    """Intersection over union; makes the metric of the `task`."""

    def __new__(  # type: ignore[misc]
        cls,
        task: str,
        threshold: float = 0.5,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = "macro",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> Metric:
        task = task_of(task)
        kwargs.update(ignore_index=ignore_index, validate_args=validate_args)
        if task == "binary":
            return BinaryJaccardIndex(threshold, **kwargs)
        if task == "multiclass":
            return MulticlassJaccardIndex(need_number("num_classes", num_classes), average, **kwargs)
        return MultilabelJaccardIndex(need_number("num_labels", num_labels), threshold, average, **kwargs)
