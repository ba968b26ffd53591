"""Metrics that count true and false positives and negatives, and the ratios of these counts."""

from __future__ import annotations

from typing import Any

from ..._ops.registry import ops
from ..._tensor import Tensor
from ..functional.classification._counts import (
    Counts,
    binary_counts,
    check_counting,
    check_dimensions,
    multiclass_counts,
    multilabel_counts,
    stacked_counts,
)
from ..functional.classification._inputs import check_binary, check_count, check_multiclass, check_multilabel
from ..functional.classification._ratios import (
    ACCURACY,
    F1,
    HAMMING,
    NEGATIVE,
    PRECISION,
    RECALL,
    SPECIFICITY,
    Ratio,
    _check_beta,
    averaged,
    fbeta,
)
from ..metric import Metric
from ..utilities.data import dim_zero_cat
from .base import TaskMetric, need_number, task_of


class _Counting(Metric):
    """Four states of counts; the figure is a ratio of them, or the counts themselves."""

    is_differentiable = False
    full_state_update = False
    plot_lower_bound, plot_upper_bound = 0.0, 1.0
    _task: str
    _ratio: Ratio | None = None
    average: str | None = None
    top_k = 1

    def _declare(self, size: int) -> None:
        """States: numbers that are summed, or lists with an entry per batch of samples."""
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
    """True positives, false positives, true negatives, false negatives and support of zeros and ones."""

    _task = "binary"
    _update_options = ("threshold", "multidim_average", "ignore_index", "validate_args")

    def __init__(
        self,
        threshold: float = 0.5,
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if validate_args:
            check_counting(threshold, None, multidim_average, ignore_index)
        self.threshold, self.multidim_average, self.ignore_index = threshold, multidim_average, ignore_index
        self.validate_args, self.zero_division = validate_args, zero_division
        self._declare(1)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds predictions and targets of one shape."""
        if self.validate_args:
            check_binary(preds, target, self.ignore_index)
            check_dimensions(preds, 2, self.multidim_average)
        self._add(binary_counts(preds, target, self.threshold, self.multidim_average, self.ignore_index))


class MulticlassStatScores(_Counting):
    """Counts (tp, fp, tn, fn, support) of labels, per class or averaged."""

    _task = "multiclass"
    _update_options = ("num_classes", "top_k", "_micro", "multidim_average", "ignore_index", "validate_args")
    plot_legend_name = "Class"

    def __init__(
        self,
        num_classes: int | None = None,
        top_k: int = 1,
        average: str | None = "macro",
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if validate_args:
            if num_classes is not None or average != "micro":
                check_count("num_classes", num_classes)
            check_counting(0.5, average, multidim_average, ignore_index, top_k, num_classes)
        self.num_classes, self.top_k, self.average, self.multidim_average = (
            num_classes,
            top_k,
            average,
            multidim_average,
        )
        self.ignore_index, self.validate_args, self.zero_division = ignore_index, validate_args, zero_division
        self._declare(1 if average == "micro" else num_classes)  # type: ignore[arg-type]

    @property
    def _micro(self) -> bool:
        return self.average == "micro"

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds labels (N, ...), or scores (N, C, ...), and targets (N, ...)."""
        if self.validate_args:
            check_multiclass(preds, target, self.num_classes, self.ignore_index)
            check_dimensions(target, 2, self.multidim_average)
        self._add(
            multiclass_counts(
                preds, target, self.num_classes, self.average, self.top_k, self.multidim_average, self.ignore_index
            )
        )


class MultilabelStatScores(_Counting):
    """Counts (tp, fp, tn, fn, support) of zeros and ones (N, L, ...), per label or averaged."""

    _task = "multilabel"
    _update_options = ("num_labels", "threshold", "multidim_average", "ignore_index", "validate_args")
    plot_legend_name = "Label"

    def __init__(
        self,
        num_labels: int,
        threshold: float = 0.5,
        average: str | None = "macro",
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if validate_args:
            check_count("num_labels", num_labels)
            check_counting(threshold, average, multidim_average, ignore_index)
        self.num_labels, self.threshold, self.average, self.multidim_average = (
            num_labels,
            threshold,
            average,
            multidim_average,
        )
        self.ignore_index, self.validate_args, self.zero_division = ignore_index, validate_args, zero_division
        self._declare(num_labels)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds predictions and targets (N, L, ...)."""
        if self.validate_args:
            check_multilabel(preds, target, self.num_labels, self.ignore_index)
            check_dimensions(preds, 3, self.multidim_average)
        self._add(multilabel_counts(preds, target, self.threshold, self.multidim_average, self.ignore_index))


class _StatScoresTask(TaskMetric):
    """The metric of a task, by the options of all three."""

    _binary: type[Metric]
    _multiclass: type[Metric]
    _multilabel: type[Metric]

    def __new__(  # type: ignore[misc]
        cls,
        task: str,
        threshold: float = 0.5,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: str | None = "micro",
        multidim_average: str = "global",
        top_k: int = 1,
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0,
        **kwargs: Any,
    ) -> Metric:
        task = task_of(task)
        kwargs.update(
            multidim_average=multidim_average, ignore_index=ignore_index, validate_args=validate_args,
            zero_division=zero_division,
        )  # fmt: skip
        if task == "binary":
            return cls._binary(threshold=threshold, **kwargs)
        if task == "multiclass":
            number = need_number("num_classes", num_classes)
            return cls._multiclass(num_classes=number, top_k=top_k, average=average, **kwargs)
        number = need_number("num_labels", num_labels)
        return cls._multilabel(num_labels=number, threshold=threshold, average=average, **kwargs)


class StatScores(_StatScoresTask):
    """Counts (tp, fp, tn, fn, support); makes the metric of the `task`."""

    _binary, _multiclass, _multilabel = BinaryStatScores, MulticlassStatScores, MultilabelStatScores


class BinaryAccuracy(BinaryStatScores):
    """Share of right zeros and ones."""

    higher_is_better = True
    _ratio = ACCURACY


class MulticlassAccuracy(MulticlassStatScores):
    """Share of right labels, averaged over the classes.

    >>> import flambeau as torch
    >>> metric = MulticlassAccuracy(num_classes=3, average="micro")
    >>> metric(torch.tensor([0, 1, 2, 2]), torch.tensor([0, 1, 1, 2])), metric.compute()
    (tensor(0.7500), tensor(0.7500))
    """

    higher_is_better = True
    _ratio = ACCURACY


class MultilabelAccuracy(MultilabelStatScores):
    """Share of right zeros and ones, averaged over the labels."""

    higher_is_better = True
    _ratio = ACCURACY


class Accuracy(_StatScoresTask):
    """Share of right predictions; makes the metric of the `task`.

    >>> import flambeau as torch
    >>> accuracy = Accuracy(task="multiclass", num_classes=3)
    >>> accuracy(torch.tensor([[0.8, 0.1, 0.1], [0.3, 0.3, 0.4]]), torch.tensor([0, 1]))
    tensor(0.5000)
    """

    _binary, _multiclass, _multilabel = BinaryAccuracy, MulticlassAccuracy, MultilabelAccuracy


class BinaryPrecision(BinaryStatScores):
    """Share of true ones among those predicted."""

    higher_is_better = True
    _ratio = PRECISION


class MulticlassPrecision(MulticlassStatScores):
    """Share of right labels among those predicted, averaged over the classes."""

    higher_is_better = True
    _ratio = PRECISION


class MultilabelPrecision(MultilabelStatScores):
    """Share of true ones among those predicted, averaged over the labels."""

    higher_is_better = True
    _ratio = PRECISION


class Precision(_StatScoresTask):
    """Share of true ones among those predicted; makes the metric of the `task`."""

    _binary, _multiclass, _multilabel = BinaryPrecision, MulticlassPrecision, MultilabelPrecision


class BinaryRecall(BinaryStatScores):
    """Share of true ones that are found."""

    higher_is_better = True
    _ratio = RECALL


class MulticlassRecall(MulticlassStatScores):
    """Share of each class that is found, averaged over the classes."""

    higher_is_better = True
    _ratio = RECALL


class MultilabelRecall(MultilabelStatScores):
    """Share of true ones that are found, averaged over the labels."""

    higher_is_better = True
    _ratio = RECALL


class Recall(_StatScoresTask):
    """Share of true ones that are found; makes the metric of the `task`."""

    _binary, _multiclass, _multilabel = BinaryRecall, MulticlassRecall, MultilabelRecall


class BinarySpecificity(BinaryStatScores):
    """Share of zeros that are found."""

    higher_is_better = True
    _ratio = SPECIFICITY


class MulticlassSpecificity(MulticlassStatScores):
    """Share of what is not of a class and is not taken for it, averaged over the classes."""

    higher_is_better = True
    _ratio = SPECIFICITY


class MultilabelSpecificity(MultilabelStatScores):
    """Share of zeros that are found, averaged over the labels."""

    higher_is_better = True
    _ratio = SPECIFICITY


class Specificity(_StatScoresTask):
    """Share of negatives that are found; makes the metric of the `task`."""

    _binary, _multiclass, _multilabel = BinarySpecificity, MulticlassSpecificity, MultilabelSpecificity


class BinaryNegativePredictiveValue(BinaryStatScores):
    """Share of true zeros among those predicted."""

    higher_is_better = True
    _ratio = NEGATIVE


class MulticlassNegativePredictiveValue(MulticlassStatScores):
    """Share of what is not of a class among what is not taken for it, averaged over the classes."""

    higher_is_better = True
    _ratio = NEGATIVE


class MultilabelNegativePredictiveValue(MultilabelStatScores):
    """Share of true zeros among those predicted, averaged over the labels."""

    higher_is_better = True
    _ratio = NEGATIVE


class NegativePredictiveValue(_StatScoresTask):
    """Share of true negatives among those predicted; makes the metric of the `task`."""

    _binary, _multiclass = BinaryNegativePredictiveValue, MulticlassNegativePredictiveValue
    _multilabel = MultilabelNegativePredictiveValue


class BinaryHammingDistance(BinaryStatScores):
    """Share of wrong zeros and ones."""

    higher_is_better = False
    _ratio = HAMMING


class MulticlassHammingDistance(MulticlassStatScores):
    """Share of wrong labels, averaged over the classes."""

    higher_is_better = False
    _ratio = HAMMING


class MultilabelHammingDistance(MultilabelStatScores):
    """Share of wrong zeros and ones, averaged over the labels."""

    higher_is_better = False
    _ratio = HAMMING


class HammingDistance(_StatScoresTask):
    """Share of wrong predictions; makes the metric of the `task`."""

    _binary, _multiclass, _multilabel = BinaryHammingDistance, MulticlassHammingDistance, MultilabelHammingDistance


class BinaryF1Score(BinaryStatScores):
    """Harmonic mean of precision and recall of the ones."""

    higher_is_better = True
    _ratio = F1


class MulticlassF1Score(MulticlassStatScores):
    """Harmonic mean of precision and recall, averaged over the classes."""

    higher_is_better = True
    _ratio = F1


class MultilabelF1Score(MultilabelStatScores):
    """Harmonic mean of precision and recall, averaged over the labels."""

    higher_is_better = True
    _ratio = F1


class F1Score(_StatScoresTask):
    """Harmonic mean of precision and recall; makes the metric of the `task`."""

    _binary, _multiclass, _multilabel = BinaryF1Score, MulticlassF1Score, MultilabelF1Score


class _FBeta(_Counting):
    """The ratio depends on an option: how many times as important recall is as precision."""

    higher_is_better = True

    def __init__(self, beta: float, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.validate_args:
            _check_beta(beta)
        self.beta = beta

    @property
    def _ratio(self) -> Ratio:  # type: ignore[override]
        return fbeta(self.beta)


class BinaryFBetaScore(_FBeta, BinaryStatScores):
    """F score of the ones: `beta`, then the options of `BinaryF1Score`."""


class MulticlassFBetaScore(_FBeta, MulticlassStatScores):
    """F score of labels: `beta`, then the options of `MulticlassF1Score`."""


class MultilabelFBetaScore(_FBeta, MultilabelStatScores):
    """F score of zeros and ones: `beta`, then the options of `MultilabelF1Score`."""


class FBetaScore(_StatScoresTask):
    """F score; makes the metric of the `task`, with the options of `F1Score` after `beta`."""

    _binary, _multiclass, _multilabel = BinaryFBetaScore, MulticlassFBetaScore, MultilabelFBetaScore

    def __new__(cls, task: str, beta: float = 1.0, *args: Any, **kwargs: Any) -> Metric:  # type: ignore[misc]
        return super().__new__(cls, task, *args, beta=beta, **kwargs)
