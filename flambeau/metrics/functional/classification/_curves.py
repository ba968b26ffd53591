"""Precision-recall and ROC curves: exact over all scores, or at given thresholds from matrices that can be summed.

Data is a pair (scores, labels) for exact curves, and for given thresholds a tensor (T, 2, 2) or (T, C, 2, 2) of
confusion matrices; all scores below are functions of that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...._ops.registry import ops
from ...._tensor import Tensor
from ...utilities import rank_zero_warn
from ...utilities.checks import check_choice
from ...utilities.data import safe_divide
from ._inputs import (
    check_binary,
    check_multiclass,
    check_multilabel,
    class_probabilities,
    kept_samples,
    labels_last,
    probabilities,
)
from ._options import Thresholds, by_task, check_options

CURVE_AVERAGES = ("micro", "macro", None)
Data = tuple[Tensor, Tensor] | Tensor
Curve = tuple[Any, Any, Any]


def thresholds_tensor(thresholds: Thresholds, device: Any = None) -> Tensor | None:
    """The thresholds as a tensor; a number means so many from 0 to 1."""
    if isinstance(thresholds, int):
        return ops.linspace(0, 1, thresholds, device=device)
    if isinstance(thresholds, list):
        return ops.tensor(thresholds, device=device)
    return thresholds


def check_scores(preds: Tensor) -> None:
    if not preds.is_floating_point():
        raise ValueError(
            f"Expected argument `preds` to be an floating tensor with probability/logit scores, but got tensor with dtype {preds.dtype}"
        )


def binary_samples(
    preds: Tensor, target: Tensor, ignore_index: int | None, normalization: str | None = "sigmoid"
) -> tuple[Tensor, Tensor]:
    """Probabilities and labels in one dimension, without ignored ones."""
    preds, target = kept_samples(preds.reshape(-1), target.reshape(-1), ignore_index)
    return (probabilities(preds) if normalization == "sigmoid" else preds), target.long()


def multiclass_samples(
    preds: Tensor, target: Tensor, num_classes: int, ignore_index: int | None, average: str | None = None
) -> tuple[Tensor, Tensor]:
    """Probabilities (samples, C) and labels; with `average="micro"` those of all pairs of sample and class."""
    preds, target = kept_samples(labels_last(preds), target.reshape(-1).long(), ignore_index)
    preds = class_probabilities(preds)
    if average == "micro":
        return preds.reshape(-1), _one_hot(target, num_classes).reshape(-1)
    return preds, target


def multilabel_samples(preds: Tensor, target: Tensor, ignore_index: int | None) -> tuple[Tensor, Tensor]:
    """Probabilities and labels (samples, L)."""
    return labels_last(probabilities(preds)), labels_last(target).long()


def _one_hot(target: Tensor, num_classes: int) -> Tensor:
    return (target.unsqueeze(1) == ops.arange(num_classes, device=target.device)).long()


def matrices_at(preds: Tensor, labels: Tensor, thresholds: Tensor, ignore_index: int | None = None) -> Tensor:
    """Confusion matrices (T, 2, 2) of scores (N,), or (T, C, 2, 2) of scores (N, C), at each threshold.

    The scores are put into the buckets between the thresholds and counted; what lies above each threshold is a sum
    over buckets, so that time grows with samples + thresholds and not with their product.
    """
    alone = preds.dim() == 1
    if alone:
        preds, labels = preds.unsqueeze(1), labels.unsqueeze(1)
    elif labels.dim() == 1:
        labels = _one_hot(labels, preds.shape[1])
    classes, count = preds.shape[1], len(thresholds)
    order = thresholds.argsort()
    bucket = ops.searchsorted(thresholds[order].to(preds.dtype), preds.contiguous(), right=True)
    cell = (ops.arange(classes, device=preds.device) * 2 + labels) * (count + 1) + bucket
    cell = cell[labels != ignore_index] if ignore_index is not None else cell.reshape(-1)
    filled = ops.bincount(cell, minlength=classes * 2 * (count + 1)).reshape(classes, 2, count + 1)
    above = filled.flip(-1).cumsum(-1).flip(-1)[..., 1:]  # (C, 2, T): samples of each label at or above the threshold
    below = filled.sum(-1, keepdim=True) - above
    found = ops.stack([below, above], -1).permute(2, 0, 1, 3)[order.argsort()]
    return found[:, 0] if alone else found


def curve_counts(preds: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """False positives, true positives and the score, at each different score from the highest on."""
    order = preds.argsort(descending=True)
    preds, target = preds[order], target[order]
    last = ops.cat([preds[1:] != preds[:-1], ops.ones_like(preds[:1]) == 1]).nonzero().squeeze(1)
    tps = target.cumsum(0)[last]
    return 1 + last - tps, tps, preds[last]


def binary_curve(data: Data, thresholds: Tensor | None, alone: bool = True) -> Curve:
    """Precision, recall and thresholds, from the lowest threshold on.

    Without positive targets recall is one with a warning, or not a number if there are other classes (not `alone`).
    """
    if isinstance(data, Tensor):
        tps, fps, fns = data[..., 1, 1], data[..., 0, 1], data[..., 1, 0]
        precision, recall = tps / (tps + fps), tps / (tps + fns)
        ends = precision.new_ones((1, *precision.shape[1:]))
        precision, recall = ops.cat([precision, ends]), ops.cat([recall, ends * 0])
        return (precision, recall, thresholds) if precision.dim() == 1 else (precision.T, recall.T, thresholds)
    fps, tps, scores = curve_counts(*data)
    precision = tps / (tps + fps)
    if alone and len(tps) and tps[-1] == 0:
        rank_zero_warn("There are no positive targets: recall is set to one for all thresholds.", UserWarning)
        recall = ops.ones_like(precision)
    else:
        recall = tps / tps[-1:]
    ends = precision.new_ones(1)
    return ops.cat([precision.flip(0), ends]), ops.cat([recall.flip(0), ends * 0]), scores.flip(0)


def binary_roc_curve(data: Data, thresholds: Tensor | None) -> Curve:
    """False positive rate, true positive rate and thresholds, from the highest threshold on."""
    if isinstance(data, Tensor):
        tps, fps, fns, tns = data[..., 1, 1], data[..., 0, 1], data[..., 1, 0], data[..., 0, 0]
        tpr, fpr = safe_divide(tps, tps + fns).flip(0), safe_divide(fps, fps + tns).flip(0)
        downward = thresholds.flip(0)  # type: ignore[union-attr]
        return (fpr, tpr, downward) if tpr.dim() == 1 else (fpr.T, tpr.T, downward)
    fps, tps, scores = curve_counts(*data)
    rates = []
    for counts, what in ((fps, "negative"), (tps, "positive")):
        counts = ops.cat([counts.new_zeros(1), counts])
        if counts[-1] <= 0:
            rank_zero_warn(f"There are no {what} targets: their rate is set to zero for all thresholds.", UserWarning)
        rates.append(safe_divide(counts, counts[-1:]))
    return rates[0], rates[1], ops.cat([scores.new_ones(1), scores])


def per_class(data: tuple[Tensor, Tensor], number: int, ignore_index: int | None = None) -> list[tuple[Tensor, Tensor]]:
    """The binary problems that a multiclass (labels (N,)) or multilabel problem (labels (N, L)) is made of."""
    preds, target = data
    found = []
    for i in range(number):
        column, label = preds[:, i], (target == i).long() if target.dim() == 1 else target[:, i]
        found.append(kept_samples(column, label, ignore_index if target.dim() > 1 else None))
    return found


def _interpolated(x: Tensor, xs: Tensor, ys: Tensor) -> Tensor:
    """Values at x on the line through the points; where two points have one x, that of the first of the last pair."""
    slope = safe_divide(ys[1:] - ys[:-1], xs[1:] - xs[:-1])
    place = ((x.unsqueeze(1) >= xs).sum(1) - 1).clamp(0, len(slope) - 1)
    return ys[place] + slope[place] * (x - xs[place])


def curves(
    curve: Callable[..., Curve],
    data: Data,
    number: int,
    thresholds: Tensor | None,
    average: str | None = None,
    ignore_index: int | None = None,
    downward: bool = False,
) -> Curve:
    """Curves of each class: tensors with a row each for given thresholds, else lists; or one curve averaged of them."""
    if average == "micro":
        return curve(data, thresholds)
    if isinstance(data, Tensor):
        x, y, at = curve(data, thresholds)
        every = at.repeat(number)
    else:
        others = {"alone": False} if curve is binary_curve and data[1].dim() == 1 else {}
        x, y, at = map(list, zip(*(curve(part, None, **others) for part in per_class(data, number, ignore_index))))
        every = ops.cat(at)
    if average != "macro":
        return x, y, at
    shared = ops.cat(list(x)).sort().values
    mean = sum(_interpolated(shared, xs, ys) for xs, ys in zip(x, y)) / number
    return shared, mean, every.sort(descending=downward).values


# Inputs of the three tasks, checked and brought into the form of `Data`


def binary_data(
    preds: Tensor, target: Tensor, thresholds: Thresholds, ignore_index: int | None, validate_args: bool = True
) -> tuple[Data, Tensor | None]:
    if validate_args:
        check_options(thresholds=thresholds, ignore_index=ignore_index)
        check_scores(preds)
        check_binary(preds, target, ignore_index)
    at = thresholds_tensor(thresholds, preds.device)
    samples = binary_samples(preds, target, ignore_index)
    return (samples, None) if at is None else (matrices_at(*samples, at), at)


def multiclass_data(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    thresholds: Thresholds,
    ignore_index: int | None,
    validate_args: bool = True,
    average: str | None = None,
) -> tuple[Data, Tensor | None]:
    if validate_args:
        check_options(num_classes=num_classes, thresholds=thresholds, ignore_index=ignore_index)
        check_scores(preds)
        check_multiclass(preds, target, num_classes, ignore_index, scores=True)
    at = thresholds_tensor(thresholds, preds.device)
    samples = multiclass_samples(preds, target, num_classes, ignore_index, average)
    return (samples, None) if at is None else (matrices_at(*samples, at), at)


def multilabel_data(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    thresholds: Thresholds,
    ignore_index: int | None,
    validate_args: bool = True,
) -> tuple[Data, Tensor | None]:
    if validate_args:
        check_options(num_labels=num_labels, thresholds=thresholds, ignore_index=ignore_index)
        check_scores(preds)
        check_multilabel(preds, target, num_labels, ignore_index)
    at = thresholds_tensor(thresholds, preds.device)
    samples = multilabel_samples(preds, target, ignore_index)
    return (samples, None) if at is None else (matrices_at(*samples, at, ignore_index), at)


# The curves as functions


def binary_precision_recall_curve(
    preds: Tensor,
    target: Tensor,
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> Curve:
    """Precision, recall and thresholds (one fewer), from the lowest threshold on.

    >>> import flambeau as torch
    >>> binary_precision_recall_curve(torch.tensor([0.25, 0.5, 0.75]), torch.tensor([0, 1, 1]))
    (tensor([0.6667, 1.0000, 1.0000, 1.0000]), tensor([1.0000, 1.0000, 0.5000, 0.0000]), tensor([0.2500, 0.5000, 0.7500]))
    """
    return binary_curve(*binary_data(preds, target, thresholds, ignore_index, validate_args))


def multiclass_precision_recall_curve(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    thresholds: Thresholds = None,
    average: str | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> Curve:
    """Curves of each class against the others, as lists (exact) or rows (given thresholds), or one averaged curve."""
    check_choice("average", average, CURVE_AVERAGES)
    data, at = multiclass_data(preds, target, num_classes, thresholds, ignore_index, validate_args, average)
    return curves(binary_curve, data, num_classes, at, average)


def multilabel_precision_recall_curve(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> Curve:
    """Curves of each label, as lists (exact) or rows (given thresholds)."""
    data, at = multilabel_data(preds, target, num_labels, thresholds, ignore_index, validate_args)
    return curves(binary_curve, data, num_labels, at, None, ignore_index)


def binary_roc(
    preds: Tensor,
    target: Tensor,
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> Curve:
    """False positive rate, true positive rate and thresholds, from the highest threshold on."""
    return binary_roc_curve(*binary_data(preds, target, thresholds, ignore_index, validate_args))


def multiclass_roc(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    thresholds: Thresholds = None,
    average: str | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> Curve:
    """ROC curves of each class against the others, or one averaged curve."""
    check_choice("average", average, CURVE_AVERAGES)
    data, at = multiclass_data(preds, target, num_classes, thresholds, ignore_index, validate_args, average)
    return curves(binary_roc_curve, data, num_classes, at, average, downward=True)


def multilabel_roc(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> Curve:
    """ROC curves of each label."""
    data, at = multilabel_data(preds, target, num_labels, thresholds, ignore_index, validate_args)
    return curves(binary_roc_curve, data, num_labels, at, None, ignore_index, downward=True)


_OF_TASK = "thresholds num_classes num_labels average ignore_index validate_args"
precision_recall_curve = by_task(
    "Precision, recall and thresholds", _OF_TASK,
    binary_precision_recall_curve, multiclass_precision_recall_curve, multilabel_precision_recall_curve, average=None,
)  # fmt: skip
roc = by_task(
    "False and true positive rates and thresholds", _OF_TASK, binary_roc, multiclass_roc, multilabel_roc, average=None
)
