"""Scores that are a ratio of counts: accuracy, precision, recall, F, specificity, Hamming distance and others.

Each is one record, `Ratio`; the four functions of a score (binary, multiclass, multilabel, by task) derive from it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...._tensor import Tensor
from ...utilities.data import safe_divide
from ._counts import Counts, checked_binary, checked_multiclass, checked_multilabel
from ._options import REQUIRED, by_task, check_options, described, takes


@dataclass(frozen=True)
class Ratio:
    """A score: (counts, whether they are those of classes that exclude each other) -> numerator, denominator."""

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

    return Ratio(parts)


ACCURACY = Ratio(_accuracy, true_only=True)
HAMMING = Ratio(_accuracy, distance=True)
PRECISION = Ratio(lambda c, _: (c.tp, c.tp + c.fp), true_only=True)
RECALL = Ratio(lambda c, _: (c.tp, c.tp + c.fn), true_only=True)
SPECIFICITY = Ratio(lambda c, _: (c.tn, c.tn + c.fp))
NEGATIVE = Ratio(lambda c, _: (c.tn, c.tn + c.fn), true_only=True)
F1 = Ratio(fbeta(1.0).parts)


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


_TASKS: dict[str, tuple[Callable[..., Counts], str]] = {
    "binary": (checked_binary, "of zeros and ones, or of scores and a threshold"),
    "multiclass": (checked_multiclass, "of labels, or of scores (N, C, ...), averaged over the classes"),
    "multilabel": (checked_multilabel, "of zeros and ones (N, L, ...), or of scores, averaged over the labels"),
}


def _scored(task: str, checked: Callable[..., Counts], names: list[str]) -> Callable[..., Tensor]:
    """(ratio, preds, target, the options of the counts, zero_division) -> the score of a task."""

    def compute(ratio: Ratio, preds: Tensor, target: Tensor, *options: Any) -> Tensor:
        *of_counts, zero_division = options
        given = dict(zip(names, of_counts))
        counts = checked(preds, target, *of_counts)
        return averaged(ratio, counts, given.get("average"), task, zero_division, given.get("top_k", 1))

    return compute


def _functions(name: str, what: str, ratio: Ratio | None = None) -> tuple[Callable[..., Tensor], ...]:
    """The binary, multiclass, multilabel and general function of a score; without a ratio, of F with its `beta`."""
    first = "" if ratio else "beta"

    def score(compute: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def of_ratio(preds: Tensor, target: Tensor, *options: Any) -> Tensor:
            return compute(ratio, preds, target, *options)

        def of_beta(preds: Tensor, target: Tensor, beta: float, *options: Any) -> Tensor:
            check_options(beta=beta)
            return compute(fbeta(beta), preds, target, *options)

        return of_ratio if ratio else of_beta

    made = []
    for task, (checked, said) in _TASKS.items():
        _, _, *names = inspect.signature(checked).parameters
        signature = takes(
            f"preds target {first} {' '.join(names)} zero_division", num_classes=None if ratio else REQUIRED
        )
        made.append(described(score(_scored(task, checked, names)), signature, f"{task}_{name}", f"{what}, {said}."))
    of_task = "threshold num_classes num_labels average multidim_average top_k ignore_index validate_args zero_division"
    return *made, by_task(what, f"{first} {of_task}", *made, average="micro", beta=1.0)


binary_accuracy, multiclass_accuracy, multilabel_accuracy, accuracy = _functions(
    "accuracy", "Share of right predictions", ACCURACY
)
binary_precision, multiclass_precision, multilabel_precision, precision = _functions(
    "precision", "Share of true ones among those predicted", PRECISION
)
binary_recall, multiclass_recall, multilabel_recall, recall = _functions(
    "recall", "Share of true ones that are found", RECALL
)
binary_f1_score, multiclass_f1_score, multilabel_f1_score, f1_score = _functions(
    "f1_score", "Harmonic mean of precision and recall", F1
)
binary_fbeta_score, multiclass_fbeta_score, multilabel_fbeta_score, fbeta_score = _functions(
    "fbeta_score", "F score, with recall `beta` times as important as precision"
)
binary_specificity, multiclass_specificity, multilabel_specificity, specificity = _functions(
    "specificity", "Share of negative ones that are found", SPECIFICITY
)
(
    binary_negative_predictive_value, multiclass_negative_predictive_value, multilabel_negative_predictive_value,
    negative_predictive_value,
) = _functions("negative_predictive_value", "Share of negative ones among those predicted negative", NEGATIVE)  # fmt: skip
binary_hamming_distance, multiclass_hamming_distance, multilabel_hamming_distance, hamming_distance = _functions(
    "hamming_distance", "Share of wrong predictions", HAMMING
)
