"""Scores that are a ratio of counts: accuracy, precision, recall, F, specificity, Hamming distance and others.

Each is one record, `Ratio`; the four functions of a score (binary, multiclass, multilabel, by task) derive from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...._tensor import Tensor
from ...utilities.data import safe_divide
from ._counts import Counts, checked_binary, checked_multiclass, checked_multilabel
from ._inputs import need_number, task_of


@dataclass(frozen=True)
class Ratio:
    """A score: (counts, whether they are those of classes that exclude each other) -> numerator, denominator."""

    name: str
    parts: Callable[[Counts, bool], tuple[Tensor, Tensor]]
    distance: bool = False  # the score is what the ratio lacks to one
    true_only: bool = False  # with `top_k` above one, the mean is over classes that occur in the targets

    def __call__(self, counts: Counts, multiclass: bool, zero_division: float = 0.0) -> Tensor:
        score = safe_divide(*self.parts(counts, multiclass), zero_division)
        return 1 - score if self.distance else score


def _accuracy(c: Counts, multiclass: bool) -> tuple[Tensor, Tensor]:
    return (c.tp, c.tp + c.fn) if multiclass else (c.tp + c.tn, c.tp + c.tn + c.fp + c.fn)


def fbeta(beta: float) -> Ratio:
    """The record of an F score."""
    squared = float(beta) ** 2

    def parts(c: Counts, _: bool) -> tuple[Tensor, Tensor]:
        return (1 + squared) * c.tp, (1 + squared) * c.tp + squared * c.fn + c.fp

    return Ratio("fbeta_score", parts)


ACCURACY = Ratio("accuracy", _accuracy, true_only=True)
HAMMING = Ratio("hamming_distance", _accuracy, distance=True)
PRECISION = Ratio("precision", lambda c, _: (c.tp, c.tp + c.fp), true_only=True)
RECALL = Ratio("recall", lambda c, _: (c.tp, c.tp + c.fn), true_only=True)
SPECIFICITY = Ratio("specificity", lambda c, _: (c.tn, c.tn + c.fp))
NEGATIVE = Ratio("negative_predictive_value", lambda c, _: (c.tn, c.tn + c.fn), true_only=True)
F1 = Ratio("f1_score", fbeta(1.0).parts)


def averaged(
    ratio: Ratio, counts: Counts, average: str | None, task: str, zero_division: float = 0.0, top_k: int = 1
) -> Tensor:
    """The score, averaged over the classes in the last dimension as `average` says."""
    multiclass = task == "multiclass"
    if average == "micro":
        if task == "multilabel":
            counts = Counts(*(x.sum(-1) for x in counts))
        return ratio(counts, multiclass, zero_division)
    scores = ratio(counts, multiclass, zero_division)
    if task == "binary" or average in ("none", None):
        return scores
    present = counts.tp + counts.fn
    if average == "weighted":
        weights = present.float()
    else:
        seen = present if ratio.true_only and top_k > 1 else present + counts.fp
        weights = (seen > 0).float() if multiclass else scores * 0 + 1
    return (safe_divide(weights, weights.sum(-1, keepdim=True)) * scores).sum(-1)


def _functions(ratio: Ratio, what: str) -> tuple[Any, Any, Any, Any]:
    """The binary, multiclass, multilabel and general function of a score."""

    def binary(
        preds: Tensor,
        target: Tensor,
        threshold: float = 0.5,
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0,
    ) -> Tensor:
        counts = checked_binary(preds, target, threshold, multidim_average, ignore_index, validate_args)
        return averaged(ratio, counts, None, "binary", zero_division)

    def multiclass(
        preds: Tensor,
        target: Tensor,
        num_classes: int | None = None,
        average: str | None = "macro",
        top_k: int = 1,
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0,
    ) -> Tensor:
        counts = checked_multiclass(
            preds, target, num_classes, average, top_k, multidim_average, ignore_index, validate_args
        )
        return averaged(ratio, counts, average, "multiclass", zero_division, top_k)

    def multilabel(
        preds: Tensor,
        target: Tensor,
        num_labels: int,
        threshold: float = 0.5,
        average: str | None = "macro",
        multidim_average: str = "global",
        ignore_index: int | None = None,
        validate_args: bool = True,
        zero_division: float = 0,
    ) -> Tensor:
        counts = checked_multilabel(
            preds, target, num_labels, threshold, average, multidim_average, ignore_index, validate_args
        )
        return averaged(ratio, counts, average, "multilabel", zero_division)

    def of_task(
        preds: Tensor,
        target: Tensor,
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
    ) -> Tensor:
        task = task_of(task)
        if task == "binary":
            return binary(preds, target, threshold, multidim_average, ignore_index, validate_args, zero_division)
        common = (multidim_average, ignore_index, validate_args, zero_division)
        if task == "multiclass":
            return multiclass(preds, target, need_number("num_classes", num_classes), average, top_k, *common)
        return multilabel(preds, target, need_number("num_labels", num_labels), threshold, average, *common)

    made = {
        f"binary_{ratio.name}": (binary, "of zeros and ones, or of scores and a threshold"),
        f"multiclass_{ratio.name}": (multiclass, "of labels, or of scores (N, C, ...), averaged over the classes"),
        f"multilabel_{ratio.name}": (
            multilabel,
            "of zeros and ones (N, L, ...), or of scores, averaged over the labels",
        ),
        ratio.name: (of_task, 'for `task` "binary", "multiclass" or "multilabel"'),
    }
    for name, (function, said) in made.items():
        function.__name__ = function.__qualname__ = name
        function.__doc__ = f"{what}, {said}."
    return binary, multiclass, multilabel, of_task


binary_accuracy, multiclass_accuracy, multilabel_accuracy, accuracy = _functions(ACCURACY, "Share of right predictions")
binary_precision, multiclass_precision, multilabel_precision, precision = _functions(
    PRECISION, "Share of true ones among those predicted"
)
binary_recall, multiclass_recall, multilabel_recall, recall = _functions(RECALL, "Share of true ones that are found")
binary_f1_score, multiclass_f1_score, multilabel_f1_score, f1_score = _functions(
    F1, "Harmonic mean of precision and recall"
)
binary_specificity, multiclass_specificity, multilabel_specificity, specificity = _functions(
    SPECIFICITY, "Share of negative ones that are found"
)
(
    binary_negative_predictive_value, multiclass_negative_predictive_value, multilabel_negative_predictive_value,
    negative_predictive_value,
) = _functions(NEGATIVE, "Share of negative ones among those predicted negative")  # fmt: skip
binary_hamming_distance, multiclass_hamming_distance, multilabel_hamming_distance, hamming_distance = _functions(
    HAMMING, "Share of wrong predictions"
)


def _check_beta(beta: Any) -> None:
    if not (isinstance(beta, float) and beta > 0):
        raise ValueError(f"Expected argument `beta` to be a float larger than 0, but got {beta}.")


def binary_fbeta_score(preds: Tensor, target: Tensor, beta: float, *args: Any, **kwargs: Any) -> Tensor:
    """F score of zeros and ones, with recall `beta` times as important as precision; options as `binary_f1_score`."""
    _check_beta(beta)
    return _functions(fbeta(beta), "F score")[0](preds, target, *args, **kwargs)


def multiclass_fbeta_score(
    preds: Tensor, target: Tensor, beta: float, num_classes: int, *args: Any, **kwargs: Any
) -> Tensor:
    """F score of labels, averaged over the classes; options as `multiclass_f1_score`."""
    _check_beta(beta)
    return _functions(fbeta(beta), "F score")[1](preds, target, num_classes, *args, **kwargs)


def multilabel_fbeta_score(
    preds: Tensor, target: Tensor, beta: float, num_labels: int, *args: Any, **kwargs: Any
) -> Tensor:
    """F score of zeros and ones (N, L, ...), averaged over the labels; options as `multilabel_f1_score`."""
    _check_beta(beta)
    return _functions(fbeta(beta), "F score")[2](preds, target, num_labels, *args, **kwargs)


def fbeta_score(preds: Tensor, target: Tensor, task: str, beta: float = 1.0, *args: Any, **kwargs: Any) -> Tensor:
    """F score for `task` "binary", "multiclass" or "multilabel"; options as `f1_score`.

    >>> import flambeau as torch
    >>> fbeta_score(torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 2, 2]), "multiclass", beta=2.0, num_classes=3)
    tensor(0.7500)
    """
    _check_beta(beta)
    return _functions(fbeta(beta), "F score")[3](preds, target, task, *args, **kwargs)
