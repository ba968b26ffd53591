"""Metrics that count true and false positives and negatives, and the ratios of these counts."""

from __future__ import annotations

from typing import Any

from ..._ops.registry import ops
from ..._tensor import Tensor
from ..functional.classification._counts import (
    Counts,
    binary_counts,
    check_dimensions,
    check_multiclass_counting,
    multiclass_counts,
    multilabel_counts,
    stacked_counts,
)
from ..functional.classification._options import takes, takes_task
from ..functional.classification._ratios import (
    ACCURACY,
    F1,
    HAMMING,
    NEGATIVE,
    PRECISION,
    RECALL,
    SPECIFICITY,
    Ratio,
    averaged,
    fbeta,
)
from ..utilities.data import dim_zero_cat
from .base import ClassificationMetric, TaskMetric

_BINARY = "threshold multidim_average ignore_index validate_args zero_division"
_MULTICLASS = "num_classes top_k average multidim_average ignore_index validate_args zero_division"
_MULTILABEL = "num_labels threshold average multidim_average ignore_index validate_args zero_division"
_OF_TASK = "threshold num_classes num_labels average multidim_average top_k ignore_index validate_args zero_division"


class _Counting(ClassificationMetric):
    """Four states of counts; the figure is a ratio of them, or the counts themselves."""

    plot_lower_bound, plot_upper_bound = 0.0, 1.0
    _ratio: Ratio | None = None
    top_k = 1

    def _declare(self) -> None:
        """States: numbers that are summed, or lists with an entry per batch of samples."""
        size = 1 if self._single else self.num_classes if self._task == "multiclass" else self.num_labels
        for name in Counts._fields:
            if self.multidim_average == "samplewise":
                self.add_state(name, [], dist_reduce_fx="cat")
            else:
                self.add_state(name, ops.zeros(size).long(), dist_reduce_fx="sum")

    def _add(self, counts: Counts) -> None:
        for name, count in counts._asdict().items():
            if self.multidim_average == "samplewise":
                getattr(self, name).append(count)
            else:
                setattr(self, name, getattr(self, name) + count)

    def _counts(self) -> Counts:
        return Counts(*(dim_zero_cat(getattr(self, name)) for name in Counts._fields))

    def compute(self) -> Tensor:
        """The figure so far."""
        counts = self._counts()
        if self._single and self.multidim_average == "global":
            counts = Counts(*(x.squeeze(0) for x in counts))
        if self._ratio is None:
            return stacked_counts(counts, self.average, self._task)
        return averaged(self._ratio, counts, self.average, self._task, self.zero_division, self.top_k)

    @property
    def _single(self) -> bool:
        """Whether the counts have no dimension of classes."""
        return self._task == "binary" or (self._task == "multiclass" and self.average == "micro")


class BinaryStatScores(_Counting):
    """True positives, false positives, true negatives, false negatives and support of zeros and ones.

    >>> import flambeau as torch
    >>> metric = BinaryStatScores()
    >>> metric(torch.tensor([1, 0, 1, 1]), torch.tensor([1, 0, 0, 1]))
    tensor([2, 1, 1, 0, 2])
    """

    _task = "binary"
    _takes = takes(_BINARY)
    _update_options = ("threshold", "multidim_average", "ignore_index", "validate_args")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds predictions and targets of one shape."""
        self._check_data(preds, target)
        if self.validate_args:
            check_dimensions(preds, 2, self.multidim_average)
        self._add(binary_counts(preds, target, self.threshold, self.multidim_average, self.ignore_index))


class MulticlassStatScores(_Counting):
    """Counts (tp, fp, tn, fn, support) of labels, per class or averaged."""

    _task = "multiclass"
    _takes = takes(_MULTICLASS, num_classes=None)
    _update_options = ("num_classes", "top_k", "_micro", "multidim_average", "ignore_index", "validate_args")
    plot_legend_name = "Class"

    def _check(self, options: dict[str, Any]) -> None:
        check_multiclass_counting(**options)

    @property
    def _micro(self) -> bool:
        return self.average == "micro"

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds labels (N, ...), or scores (N, C, ...), and targets (N, ...)."""
        self._check_data(preds, target)
        if self.validate_args:
            check_dimensions(target, 2, self.multidim_average)
        self._add(
            multiclass_counts(
                preds, target, self.num_classes, self.average, self.top_k, self.multidim_average, self.ignore_index
            )
        )


class MultilabelStatScores(_Counting):
    """Counts (tp, fp, tn, fn, support) of zeros and ones (N, L, ...), per label or averaged."""

    _task = "multilabel"
    _takes = takes(_MULTILABEL)
    _update_options = ("num_labels", "threshold", "multidim_average", "ignore_index", "validate_args")
    plot_legend_name = "Label"

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds predictions and targets (N, L, ...)."""
        self._check_data(preds, target)
        if self.validate_args:
            check_dimensions(preds, 3, self.multidim_average)
        self._add(multilabel_counts(preds, target, self.threshold, self.multidim_average, self.ignore_index))


class _StatScoresTask(TaskMetric):
    """The metric of a task, by the options of all three."""

    _takes = takes_task(_OF_TASK, average="micro")


class StatScores(_StatScoresTask):
    """Counts (tp, fp, tn, fn, support); makes the metric of the `task`.

    >>> import flambeau as torch
    >>> StatScores(task="multiclass", num_classes=3)(torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 2, 2]))
    tensor([3, 1, 7, 1, 4])
    """

    _metrics = (BinaryStatScores, MulticlassStatScores, MultilabelStatScores)


class _Accuracy(_Counting):
    higher_is_better = True
    _ratio = ACCURACY


class BinaryAccuracy(_Accuracy, BinaryStatScores):
    """Share of right zeros and ones."""


class MulticlassAccuracy(_Accuracy, MulticlassStatScores):
    """Share of right labels, averaged over the classes.

    >>> import flambeau as torch
    >>> metric = MulticlassAccuracy(num_classes=3, average="micro")
    >>> metric(torch.tensor([0, 1, 2, 2]), torch.tensor([0, 1, 1, 2])), metric.compute()
    (tensor(0.7500), tensor(0.7500))
    """


class MultilabelAccuracy(_Accuracy, MultilabelStatScores):
    """Share of right zeros and ones, averaged over the labels."""


class Accuracy(_StatScoresTask):
    """Share of right predictions; makes the metric of the `task`.

    >>> import flambeau as torch
    >>> accuracy = Accuracy(task="multiclass", num_classes=3)
    >>> accuracy(torch.tensor([[0.8, 0.1, 0.1], [0.3, 0.3, 0.4]]), torch.tensor([0, 1]))
    tensor(0.5000)
    """

    _metrics = (BinaryAccuracy, MulticlassAccuracy, MultilabelAccuracy)


class _Precision(_Counting):
    higher_is_better = True
    _ratio = PRECISION


class BinaryPrecision(_Precision, BinaryStatScores):
    """Share of true ones among those predicted."""


class MulticlassPrecision(_Precision, MulticlassStatScores):
    """Share of right labels among those predicted, averaged over the classes."""


class MultilabelPrecision(_Precision, MultilabelStatScores):
    """Share of true ones among those predicted, averaged over the labels."""


class Precision(_StatScoresTask):
    """Share of true ones among those predicted; makes the metric of the `task`.

    >>> import flambeau as torch
    >>> metric = Precision(task="multiclass", num_classes=3, average="macro")
    >>> metric(torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 2, 2]))
    tensor(0.8333)
    """

    _metrics = (BinaryPrecision, MulticlassPrecision, MultilabelPrecision)


class _Recall(_Counting):
    higher_is_better = True
    _ratio = RECALL


class BinaryRecall(_Recall, BinaryStatScores):
    """Share of true ones that are found."""


class MulticlassRecall(_Recall, MulticlassStatScores):
    """Share of each class that is found, averaged over the classes."""


class MultilabelRecall(_Recall, MultilabelStatScores):
    """Share of true ones that are found, averaged over the labels."""


class Recall(_StatScoresTask):
    """Share of true ones that are found; makes the metric of the `task`.

    >>> import flambeau as torch
    >>> metric = Recall(task="multiclass", num_classes=3, average="macro")
    >>> metric(torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 2, 2]))
    tensor(0.8333)
    """

    _metrics = (BinaryRecall, MulticlassRecall, MultilabelRecall)


class _Specificity(_Counting):
    higher_is_better = True
    _ratio = SPECIFICITY


class BinarySpecificity(_Specificity, BinaryStatScores):
    """Share of zeros that are found."""


class MulticlassSpecificity(_Specificity, MulticlassStatScores):
    """Share of what is not of a class and is not taken for it, averaged over the classes."""


class MultilabelSpecificity(_Specificity, MultilabelStatScores):
    """Share of zeros that are found, averaged over the labels."""


class Specificity(_StatScoresTask):
    """Share of negatives that are found; makes the metric of the `task`.

    >>> import flambeau as torch
    >>> metric = Specificity(task="multiclass", num_classes=3, average="macro")
    >>> metric(torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 2, 2]))
    tensor(0.8889)
    """

    _metrics = (BinarySpecificity, MulticlassSpecificity, MultilabelSpecificity)


class _NegativePredictiveValue(_Counting):
    higher_is_better = True
    _ratio = NEGATIVE


class BinaryNegativePredictiveValue(_NegativePredictiveValue, BinaryStatScores):
    """Share of true zeros among those predicted."""


class MulticlassNegativePredictiveValue(_NegativePredictiveValue, MulticlassStatScores):
    """Share of what is not of a class among what is not taken for it, averaged over the classes."""


class MultilabelNegativePredictiveValue(_NegativePredictiveValue, MultilabelStatScores):
    """Share of true zeros among those predicted, averaged over the labels."""


class NegativePredictiveValue(_StatScoresTask):
    """Share of true negatives among those predicted; makes the metric of the `task`.

    >>> import flambeau as torch
    >>> metric = NegativePredictiveValue(task="multiclass", num_classes=3, average="macro")
    >>> metric(torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 2, 2]))
    tensor(0.8889)
    """

    _metrics = (BinaryNegativePredictiveValue, MulticlassNegativePredictiveValue, MultilabelNegativePredictiveValue)


class _HammingDistance(_Counting):
    higher_is_better = False
    _ratio = HAMMING


class BinaryHammingDistance(_HammingDistance, BinaryStatScores):
    """Share of wrong zeros and ones."""


class MulticlassHammingDistance(_HammingDistance, MulticlassStatScores):
    """Share of wrong labels, averaged over the classes."""


class MultilabelHammingDistance(_HammingDistance, MultilabelStatScores):
    """Share of wrong zeros and ones, averaged over the labels."""


class HammingDistance(_StatScoresTask):
    """Share of wrong predictions; makes the metric of the `task`.

    >>> import flambeau as torch
    >>> metric = HammingDistance(task="multiclass", num_classes=3, average="macro")
    >>> metric(torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 2, 2]))
    tensor(0.1667)
    """

    _metrics = (BinaryHammingDistance, MulticlassHammingDistance, MultilabelHammingDistance)


class _F1Score(_Counting):
    higher_is_better = True
    _ratio = F1


class BinaryF1Score(_F1Score, BinaryStatScores):
    """Harmonic mean of precision and recall of the ones."""


class MulticlassF1Score(_F1Score, MulticlassStatScores):
    """Harmonic mean of precision and recall, averaged over the classes."""


class MultilabelF1Score(_F1Score, MultilabelStatScores):
    """Harmonic mean of precision and recall, averaged over the labels."""


class F1Score(_StatScoresTask):
    """Harmonic mean of precision and recall; makes the metric of the `task`.

    >>> import flambeau as torch
    >>> metric = F1Score(task="multiclass", num_classes=3, average="macro")
    >>> metric(torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 2, 2]))
    tensor(0.7778)
    """

    _metrics = (BinaryF1Score, MulticlassF1Score, MultilabelF1Score)


class _FBeta(_Counting):
    """The ratio depends on an option: how many times as important recall is as precision."""

    higher_is_better = True

    @property
    def _ratio(self) -> Ratio:  # type: ignore[override]
        return fbeta(self.beta)


class BinaryFBetaScore(_FBeta, BinaryStatScores):
    """F score of the ones, with recall `beta` times as important as precision."""

    _takes = takes(f"beta {_BINARY}")


class MulticlassFBetaScore(_FBeta, MulticlassStatScores):
    """F score of labels, with recall `beta` times as important as precision."""

    _takes = takes(f"beta {_MULTICLASS}", num_classes=None)


class MultilabelFBetaScore(_FBeta, MultilabelStatScores):
    """F score of zeros and ones (N, L, ...), with recall `beta` times as important as precision."""

    _takes = takes(f"beta {_MULTILABEL}")


class FBetaScore(_StatScoresTask):
    """F score, with recall `beta` times as important as precision; makes the metric of the `task`.

    >>> import flambeau as torch
    >>> metric = FBetaScore(task="multiclass", beta=2.0, num_classes=3)
    >>> metric(torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 2, 2]))
    tensor(0.7500)
    """

    _takes = takes_task(f"beta {_OF_TASK}", beta=1.0, average="micro")
    _metrics = (BinaryFBetaScore, MulticlassFBetaScore, MultilabelFBetaScore)
