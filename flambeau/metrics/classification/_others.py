"""Exact match, calibration error, hinge loss and ranking scores as metrics."""

from __future__ import annotations

from ..._ops.registry import ops
from ..._tensor import Tensor
from ..functional.classification._calibration import (
    binary_confidences,
    binary_margins,
    calibration_of,
    multiclass_confidences,
    multiclass_margins,
)
from ..functional.classification._counts import check_dimensions
from ..functional.classification._exact import multiclass_matches, multilabel_matches
from ..functional.classification._options import takes, takes_task
from ..functional.classification._ranking import (
    check_ranking,
    coverage_of,
    ranking_input,
    ranking_loss_of,
    ranking_precision_of,
)
from ..utilities.data import dim_zero_cat
from .base import ClassificationMetric, TaskMetric


class _ExactMatch(ClassificationMetric):
    higher_is_better = True
    plot_lower_bound, plot_upper_bound = 0.0, 1.0

    def _declare(self) -> None:
        samplewise = self.multidim_average == "samplewise"
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

    _task = "multiclass"
    _takes = takes("num_classes multidim_average ignore_index validate_args")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds labels (N, ...), or scores (N, C, ...), and targets (N, ...)."""
        self._check_data(preds, target)
        if self.validate_args:
            check_dimensions(target, 2, self.multidim_average)
        self._add(*multiclass_matches(preds, target, self.multidim_average, self.ignore_index))


class MultilabelExactMatch(_ExactMatch):
    """Share of samples (N, L, ...) that have all labels right."""

    _task = "multilabel"
    _takes = takes("num_labels threshold multidim_average ignore_index validate_args")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds predictions and targets (N, L, ...)."""
        self._check_data(preds, target)
        if self.validate_args:
            check_dimensions(preds, 3, self.multidim_average)
        self._add(*multilabel_matches(preds, target, self.threshold, self.multidim_average, self.ignore_index))


class ExactMatch(TaskMetric):
    """Share of samples that are right throughout; makes the metric of the `task` "multiclass" or "multilabel".

    >>> import flambeau as torch
    >>> metric = ExactMatch(task="multiclass", num_classes=3)
    >>> metric(torch.tensor([[0, 1], [2, 1]]), torch.tensor([[0, 1], [2, 2]]))
    tensor(0.5000)
    """

    _takes = takes_task("threshold num_classes num_labels multidim_average ignore_index validate_args")
    _metrics = (MulticlassExactMatch, MultilabelExactMatch)


class _Calibration(ClassificationMetric):
    higher_is_better = False
    plot_lower_bound, plot_upper_bound = 0.0, 1.0

    def _declare(self) -> None:
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

    _task = "binary"
    _takes = takes("n_bins norm ignore_index validate_args")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds scores and targets of one shape."""
        self._check_data(preds, target)
        self._add(*binary_confidences(preds, target, self.ignore_index))


class MulticlassCalibrationError(_Calibration):
    """Distance of the best class's probability and how often it is right."""

    _task = "multiclass"
    _takes = takes("num_classes n_bins norm ignore_index validate_args")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds scores (N, C, ...) and targets (N, ...)."""
        self._check_data(preds, target, scores=True)
        self._add(*multiclass_confidences(preds, target, self.ignore_index))


class CalibrationError(TaskMetric):
    """Calibration error; makes the metric of the `task` "binary" or "multiclass".

    >>> import flambeau as torch
    >>> metric = CalibrationError(task="binary", n_bins=2)
    >>> metric(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
    tensor(0.0875)
    """

    _takes = takes_task("n_bins norm num_classes ignore_index validate_args")
    _metrics = (BinaryCalibrationError, MulticlassCalibrationError)


class _Hinge(ClassificationMetric):
    is_differentiable = True
    higher_is_better = False
    plot_lower_bound, plot_upper_bound = 0.0, 1.0

    def _declare(self) -> None:
        by_class = self._task == "multiclass" and self.multiclass_mode != "crammer-singer"
        self.add_state("measures", ops.zeros((self.num_classes,) if by_class else ()), dist_reduce_fx="sum")
        self.add_state("total", ops.tensor(0), dist_reduce_fx="sum")

    def _add(self, measures: Tensor, total: int) -> None:
        self.measures = self.measures + measures
        self.total = self.total + total

    def compute(self) -> Tensor:
        """The mean loss so far."""
        return self.measures / self.total


class BinaryHingeLoss(_Hinge):
    """Mean hinge loss of scores whose sign is the prediction."""

    _task = "binary"
    _takes = takes("squared ignore_index validate_args")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds scores and targets of one shape."""
        self._check_data(preds, target)
        self._add(*binary_margins(preds, target, self.squared, self.ignore_index))


class MulticlassHingeLoss(_Hinge):
    """Mean hinge loss of the margin to the best wrong class, or one loss for each class against the others."""

    _task = "multiclass"
    _takes = takes("num_classes squared multiclass_mode ignore_index validate_args")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds scores (N, C, ...) and targets (N, ...)."""
        self._check_data(preds, target, scores=True)
        self._add(*multiclass_margins(preds, target, self.squared, self.multiclass_mode, self.ignore_index))


class HingeLoss(TaskMetric):
    """Mean hinge loss; makes the metric of the `task` "binary" or "multiclass".

    >>> import flambeau as torch
    >>> HingeLoss(task="binary")(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
    tensor(0.8375)
    """

    _takes = takes_task("num_classes squared multiclass_mode ignore_index validate_args")
    _metrics = (BinaryHingeLoss, MulticlassHingeLoss)


class _Ranking(ClassificationMetric):
    plot_lower_bound = 0.0
    _task = "multilabel"
    _takes = takes("num_labels ignore_index validate_args")
    _sum = staticmethod(coverage_of)

    def _declare(self) -> None:
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
    """Mean number of labels, in the order of their scores, that are needed to have all true ones.

    >>> import flambeau as torch
    >>> metric = MultilabelCoverageError(num_labels=3)
    >>> metric(torch.tensor([[0.75, 0.5, 1.0], [0.2, 0.9, 0.4]]), torch.tensor([[1, 0, 0], [0, 1, 1]]))
    tensor(2.)
    """

    higher_is_better = False


class MultilabelRankingAveragePrecision(_Ranking):
    """Mean share of true labels among those ranked at least as high as each true label.

    >>> import flambeau as torch
    >>> metric = MultilabelRankingAveragePrecision(num_labels=3)
    >>> metric(torch.tensor([[0.75, 0.5, 1.0], [0.2, 0.9, 0.4]]), torch.tensor([[1, 0, 0], [0, 1, 1]]))
    tensor(0.7500)
    """

    higher_is_better = True
    _sum = staticmethod(ranking_precision_of)


class MultilabelRankingLoss(_Ranking):
    """Mean share of pairs of a true and a false label that are ranked the wrong way.

    >>> import flambeau as torch
    >>> metric = MultilabelRankingLoss(num_labels=3)
    >>> metric(torch.tensor([[0.75, 0.5, 1.0], [0.2, 0.9, 0.4]]), torch.tensor([[1, 0, 0], [0, 1, 1]]))
    tensor(0.2500)
    """

    higher_is_better = False
    _sum = staticmethod(ranking_loss_of)
