"""Exact match, calibration error, hinge loss and ranking scores as metrics."""

from __future__ import annotations

from typing import Any

from ..._ops.registry import ops
from ..._tensor import Tensor
from ..functional.classification._calibration import (
    binary_confidences,
    binary_margins,
    calibration_of,
    check_calibration,
    check_hinge,
    multiclass_confidences,
    multiclass_margins,
)
from ..functional.classification._counts import check_counting, check_dimensions
from ..functional.classification._exact import multiclass_matches, multilabel_matches
from ..functional.classification._inputs import check_binary, check_count, check_multiclass, check_multilabel
from ..functional.classification._ranking import (
    check_ranking,
    coverage_of,
    ranking_input,
    ranking_loss_of,
    ranking_precision_of,
)
from ..metric import Metric
from ..utilities.data import dim_zero_cat
from .base import TaskMetric, need_number, task_of


class _ExactMatch(Metric):
    is_differentiable = False
    higher_is_better = True
    full_state_update = False
    plot_lower_bound, plot_upper_bound = 0.0, 1.0

    def _declare(self, multidim_average: str, ignore_index: int | None, validate_args: bool) -> None:
        self.multidim_average, self.ignore_index, self.validate_args = multidim_average, ignore_index, validate_args
        samplewise = multidim_average == "samplewise"
        self.add_state("correct", [] if samplewise else ops.zeros(1).long(), "cat" if samplewise else "sum")
        self.add_state("total", ops.zeros(1).long(), "mean" if samplewise else "sum")

    def _add(self, right: Tensor, total: int) -> None:
        if self.multidim_average == "samplewise":
            self.correct.append(right)
            self.total = ops.full_like(self.total, total)
        else:
            self.correct = self.correct + right
            self.total = self.total + total

    def compute(self) -> Tensor:
        """The share so far, or the share of each sample."""
        return dim_zero_cat(self.correct) / self.total


class MulticlassExactMatch(_ExactMatch):
    """Share of samples (N, ...) whose labels are all right."""

    def __init__(
        self,
        num_classes: int,
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if validate_args:
            check_count("num_classes", num_classes)
            check_counting(0.5, None, multidim_average, ignore_index)
        self.num_classes = num_classes
        self._declare(multidim_average, ignore_index, validate_args)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds labels (N, ...), or scores (N, C, ...), and targets (N, ...)."""
        if self.validate_args:
            check_multiclass(preds, target, self.num_classes, self.ignore_index)
            check_dimensions(target, 2, self.multidim_average)
        self._add(*multiclass_matches(preds, target, self.multidim_average, self.ignore_index))


class MultilabelExactMatch(_ExactMatch):
    """Share of samples (N, L, ...) that have all labels right."""

    def __init__(
        self,
        num_labels: int,
        threshold: float = 0.5,
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if validate_args:
            check_count("num_labels", num_labels)
            check_counting(threshold, None, multidim_average, ignore_index)
        self.num_labels, self.threshold = num_labels, threshold
        self._declare(multidim_average, ignore_index, validate_args)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds predictions and targets (N, L, ...)."""
        if self.validate_args:
            check_multilabel(preds, target, self.num_labels, self.ignore_index)
            check_dimensions(preds, 3, self.multidim_average)
        self._add(*multilabel_matches(preds, target, self.threshold, self.multidim_average, self.ignore_index))


class ExactMatch(TaskMetric):
    """Share of samples that are right throughout; makes the metric of the `task` "multiclass" or "multilabel"."""

    def __new__(  # type: ignore[misc]
        cls,
        task: str,
        threshold: float = 0.5,
        num_classes: int | None = None,
        num_labels: int | None = None,
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> Metric:
        kwargs.update(multidim_average=multidim_average, ignore_index=ignore_index, validate_args=validate_args)
        if task_of(task, ("multiclass", "multilabel")) == "multiclass":
            return MulticlassExactMatch(need_number("num_classes", num_classes), **kwargs)
        return MultilabelExactMatch(need_number("num_labels", num_labels), threshold, **kwargs)


class _Calibration(Metric):
    is_differentiable = False
    higher_is_better = False
    full_state_update = False
    plot_lower_bound, plot_upper_bound = 0.0, 1.0

    def _declare(self, n_bins: int, norm: str, ignore_index: int | None, validate_args: bool) -> None:
        if validate_args:
            check_calibration(n_bins, norm, ignore_index)
        self.n_bins, self.norm, self.ignore_index, self.validate_args = n_bins, norm, ignore_index, validate_args
        self.add_state("confidences", [], dist_reduce_fx="cat")
        self.add_state("accuracies", [], dist_reduce_fx="cat")

    def _add(self, confidences: Tensor, accuracies: Tensor) -> None:
        self.confidences.append(confidences)
        self.accuracies.append(accuracies)

    def compute(self) -> Tensor:
        """The error so far."""
        return calibration_of(dim_zero_cat(self.confidences), dim_zero_cat(self.accuracies), self.n_bins, self.norm)


class BinaryCalibrationError(_Calibration):
    """Distance of predicted probabilities and observed frequencies in bins of probability."""

    def __init__(
        self,
        n_bins: int = 15,
        norm: str = "l1",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._declare(n_bins, norm, ignore_index, validate_args)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds scores and targets of one shape."""
        if self.validate_args:
            check_binary(preds, target, self.ignore_index)
        self._add(*binary_confidences(preds, target, self.ignore_index))


class MulticlassCalibrationError(_Calibration):
    """Distance of the best class's probability and how often it is right."""

    def __init__(
        self,
        num_classes: int,
        n_bins: int = 15,
        norm: str = "l1",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_classes = num_classes
        self._declare(n_bins, norm, ignore_index, validate_args)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds scores (N, C, ...) and targets (N, ...)."""
        if self.validate_args:
            check_multiclass(preds, target, self.num_classes, self.ignore_index, scores=True)
        self._add(*multiclass_confidences(preds, target, self.ignore_index))


class CalibrationError(TaskMetric):
    """Calibration error; makes the metric of the `task` "binary" or "multiclass"."""

    def __new__(  # type: ignore[misc]
        cls,
        task: str,
        n_bins: int = 15,
        norm: str = "l1",
        num_classes: int | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> Metric:
        kwargs.update(n_bins=n_bins, norm=norm, ignore_index=ignore_index, validate_args=validate_args)
        if task_of(task, ("binary", "multiclass")) == "binary":
            return BinaryCalibrationError(**kwargs)
        return MulticlassCalibrationError(need_number("num_classes", num_classes), **kwargs)


class _Hinge(Metric):
    is_differentiable = True
    higher_is_better = False
    full_state_update = False
    plot_lower_bound, plot_upper_bound = 0.0, 1.0

    def _declare(self, *shape: int) -> None:
        self.add_state("measures", ops.zeros(shape), dist_reduce_fx="sum")
        self.add_state("total", ops.tensor(0), dist_reduce_fx="sum")

    def _add(self, measures: Tensor, total: int) -> None:
        self.measures = self.measures + measures
        self.total = self.total + total

    def compute(self) -> Tensor:
        """The mean loss so far."""
        return self.measures / self.total


class BinaryHingeLoss(_Hinge):
    """Mean hinge loss of scores whose sign is the prediction."""

    def __init__(
        self, squared: bool = False, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if validate_args:
            check_hinge(squared, ignore_index=ignore_index)
        self.squared, self.ignore_index, self.validate_args = squared, ignore_index, validate_args
        self._declare()

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds scores and targets of one shape."""
        if self.validate_args:
            check_binary(preds, target, self.ignore_index)
        self._add(*binary_margins(preds, target, self.squared, self.ignore_index))


class MulticlassHingeLoss(_Hinge):
    """Mean hinge loss of the margin to the best wrong class, or one loss for each class against the others."""

    def __init__(
        self,
        num_classes: int,
        squared: bool = False,
        multiclass_mode: str = "crammer-singer",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if validate_args:
            check_count("num_classes", num_classes)
            check_hinge(squared, multiclass_mode, ignore_index)
        self.num_classes, self.squared, self.multiclass_mode = num_classes, squared, multiclass_mode
        self.ignore_index, self.validate_args = ignore_index, validate_args
        self._declare(*(() if multiclass_mode == "crammer-singer" else (num_classes,)))

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds scores (N, C, ...) and targets (N, ...)."""
        if self.validate_args:
            check_multiclass(preds, target, self.num_classes, self.ignore_index, scores=True)
        self._add(*multiclass_margins(preds, target, self.squared, self.multiclass_mode, self.ignore_index))


class HingeLoss(TaskMetric):
    """Mean hinge loss; makes the metric of the `task` "binary" or "multiclass"."""

    def __new__(  # type: ignore[misc]
        cls,
        task: str,
        num_classes: int | None = None,
        squared: bool = False,
        multiclass_mode: str = "crammer-singer",
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> Metric:
        kwargs.update(squared=squared, ignore_index=ignore_index, validate_args=validate_args)
        if task_of(task, ("binary", "multiclass")) == "binary":
            return BinaryHingeLoss(**kwargs)
        return MulticlassHingeLoss(need_number("num_classes", num_classes), multiclass_mode=multiclass_mode, **kwargs)


class _Ranking(Metric):
    is_differentiable = False
    full_state_update = False
    plot_lower_bound = 0.0
    _sum = staticmethod(coverage_of)

    def __init__(
        self, num_labels: int, ignore_index: int | None = None, validate_args: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.num_labels, self.ignore_index, self.validate_args = num_labels, ignore_index, validate_args
        self.add_state("measure", ops.tensor(0.0), dist_reduce_fx="sum")
        self.add_state("total", ops.tensor(0.0), dist_reduce_fx="sum")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds scores and targets (N, L, ...)."""
        if self.validate_args:
            check_ranking(preds, target, self.num_labels, self.ignore_index)
        measure, total = self._sum(*ranking_input(preds, target, self.ignore_index))
        self.measure = self.measure + measure
        self.total = self.total + total

    def compute(self) -> Tensor:
        """The mean over all samples so far."""
        return self.measure / self.total


class MultilabelCoverageError(_Ranking):
    """Mean number of labels, in the order of their scores, that are needed to have all true ones."""

    higher_is_better = False


class MultilabelRankingAveragePrecision(_Ranking):
    """Mean share of true labels among those ranked at least as high as each true label."""

    higher_is_better = True
    _sum = staticmethod(ranking_precision_of)


class MultilabelRankingLoss(_Ranking):
    """Mean share of pairs of a true and a false label that are ranked the wrong way."""

    higher_is_better = False
    _sum = staticmethod(ranking_loss_of)
