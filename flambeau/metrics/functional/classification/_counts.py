"""True and false positives and negatives of binary, multiclass and multilabel predictions."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...._ops.registry import ops
from ...._tensor import Tensor
from ...utilities.checks import check_choice
from ._inputs import AVERAGES, bincount, check_binary, check_multiclass, check_multilabel, decisions
from ._options import by_task, check_options


class Counts(NamedTuple):
    """Per class in the last dimension where there are classes, per sample in the first where that is asked for."""

    tp: Tensor
    fp: Tensor
    tn: Tensor
    fn: Tensor


def check_multiclass_counting(num_classes: int | None, average: str | None, top_k: int, **options: Any) -> None:
    """Without a number of classes only the counts of all classes together are known."""
    if num_classes is not None or average != "micro":
        check_options(num_classes=num_classes)
    check_choice("average", average, AVERAGES)
    check_options(top_k=top_k, **options)
    if num_classes is not None and top_k > num_classes:
        raise ValueError(
            f"Expected argument `top_k` to be smaller or equal to `num_classes` but got {top_k} and {num_classes}"
        )


def check_dimensions(x: Tensor, least: int, multidim_average: str) -> None:
    if multidim_average == "samplewise" and x.dim() < least:
        raise ValueError(f"Expected input to be at least {least}D when multidim_average is set to `samplewise`")


def _tally(preds: Tensor, target: Tensor, kept: Tensor | None, dims: tuple[int, ...]) -> Counts:
    """Counts of zeros and ones, summed over the dimensions."""
    hit, positive = preds == target, target == 1
    cases = (hit & positive, ~hit & ~positive, hit & ~positive, ~hit & positive)
    return Counts(*((case if kept is None else case & kept).sum(dims) for case in cases))


def binary_counts(
    preds: Tensor,
    target: Tensor,
    threshold: float = 0.5,
    multidim_average: str = "global",
    ignore_index: int | None = None,
) -> Counts:
    """Scalars, or one number per sample."""
    preds, target = decisions(preds, threshold).reshape(target.shape[0], -1), target.reshape(target.shape[0], -1)
    kept = None if ignore_index is None else target != ignore_index
    return _tally(preds, target, kept, (0, 1) if multidim_average == "global" else (1,))


def multilabel_counts(
    preds: Tensor,
    target: Tensor,
    threshold: float = 0.5,
    multidim_average: str = "global",
    ignore_index: int | None = None,
) -> Counts:
    """One number per label, or per sample and label."""
    shape = (*target.shape[:2], -1)
    preds, target = decisions(preds, threshold).reshape(shape), target.reshape(shape)
    kept = None if ignore_index is None else target != ignore_index
    return _tally(preds, target, kept, (0, 2) if multidim_average == "global" else (2,))


def multiclass_labels(preds: Tensor, target: Tensor, top_k: int = 1) -> Tensor:
    """The predicted class: the best one, or the true one if it is among the best `top_k`."""
    if preds.dim() == target.dim():
        return preds
    best = preds.argmax(1)
    if top_k == 1:
        return best
    among = (preds.topk(top_k, 1).indices == target.unsqueeze(1)).any(1)
    return ops.where(among, target, best)


def multiclass_counts(
    preds: Tensor,
    target: Tensor,
    num_classes: int | None,
    average: str | None = "macro",
    top_k: int = 1,
    multidim_average: str = "global",
    ignore_index: int | None = None,
) -> Counts:
    """One number per class (per sample and class); with `average="micro"` of all classes together."""
    if num_classes is None:
        num_classes = preds.shape[1] if preds.dim() > target.dim() else 2  # then only the true negatives depend on it
    preds, target = (
        multiclass_labels(preds, target, top_k).reshape(target.shape[0], -1),
        target.reshape(target.shape[0], -1),
    )
    samplewise = multidim_average == "samplewise"
    kept = None if ignore_index is None else target != ignore_index
    if average == "micro":
        dims = (1,) if samplewise else (0, 1)
        hit = preds == target
        tp = (hit if kept is None else hit & kept).sum(dims)
        total = ops.ones_like(target).sum(dims) if kept is None else kept.sum(dims)
        wrong = total - tp
        return Counts(tp, wrong, num_classes * total - (total + wrong), wrong)
    if samplewise:
        offset = ops.arange(0, len(target) * num_classes, num_classes, device=target.device).unsqueeze(1)
        kept = target == target if kept is None else kept  # all
        shape: tuple[int, ...] = (len(target), num_classes)
        total = kept.sum(1, keepdim=True)
        rows = offset.expand_as(target)[kept]
        preds, target = preds[kept] + rows, target[kept] + rows
    else:
        if kept is not None:
            preds, target = preds[kept], target[kept]
        shape, total = (num_classes,), target.numel()
    length = shape[0] * num_classes if samplewise else num_classes
    tp, predicted, there = (
        bincount(x.reshape(-1).long(), length).reshape(shape) for x in (target[preds == target], preds, target)
    )
    return Counts(tp, predicted - tp, total - predicted - there + tp, there - tp)


def stacked_counts(counts: Counts, average: str | None, task: str) -> Tensor:
    """(tp, fp, tn, fn, support) in the last dimension, averaged over the classes."""
    tp, fp, tn, fn = counts
    found = ops.stack([tp, fp, tn, fn, tp + fn], -1)
    if average == "micro":
        return found.sum(-2) if task == "multilabel" else found
    if task == "binary" or average in ("none", None):
        return found
    if average == "macro":
        return found.float().mean(-2)
    weight = (tp + fn).float()
    return (found * (weight / weight.sum(-1, keepdim=True)).unsqueeze(-1)).sum(-2)


def binary_stat_scores(
    preds: Tensor,
    target: Tensor,
    threshold: float = 0.5,
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> Tensor:
    """True positives, false positives, true negatives, false negatives and their support (true ones).

    >>> import flambeau as torch
    >>> binary_stat_scores(torch.tensor([1, 0, 1, 1]), torch.tensor([1, 0, 0, 1]))
    tensor([2, 1, 1, 0, 2])
    """
    counts = checked_binary(preds, target, threshold, multidim_average, ignore_index, validate_args)
    return stacked_counts(counts, None, "binary")


def checked_binary(
    preds: Tensor,
    target: Tensor,
    threshold: float,
    multidim_average: str,
    ignore_index: int | None,
    validate_args: bool,
) -> Counts:
    if validate_args:
        check_options(threshold=threshold, multidim_average=multidim_average, ignore_index=ignore_index)
        check_binary(preds, target, ignore_index)
        check_dimensions(preds, 2, multidim_average)
    return binary_counts(preds, target, threshold, multidim_average, ignore_index)


def checked_multiclass(
    preds: Tensor,
    target: Tensor,
    num_classes: int | None,
    average: str | None,
    top_k: int,
    multidim_average: str,
    ignore_index: int | None,
    validate_args: bool,
) -> Counts:
    if validate_args:
        check_multiclass_counting(
            num_classes, average, top_k, multidim_average=multidim_average, ignore_index=ignore_index
        )
        check_multiclass(preds, target, num_classes, ignore_index)
        check_dimensions(target, 2, multidim_average)
    return multiclass_counts(preds, target, num_classes, average, top_k, multidim_average, ignore_index)


def checked_multilabel(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    threshold: float,
    average: str | None,
    multidim_average: str,
    ignore_index: int | None,
    validate_args: bool,
) -> Counts:
    if validate_args:
        check_choice("average", average, AVERAGES)
        check_options(
            num_labels=num_labels, threshold=threshold, multidim_average=multidim_average, ignore_index=ignore_index
        )
        check_multilabel(preds, target, num_labels, ignore_index)
        check_dimensions(preds, 3, multidim_average)
    return multilabel_counts(preds, target, threshold, multidim_average, ignore_index)


def multiclass_stat_scores(
    preds: Tensor,
    target: Tensor,
    num_classes: int | None = None,
    average: str | None = "macro",
    top_k: int = 1,
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> Tensor:
    """Counts per class in the last dimension: (tp, fp, tn, fn, support), averaged over the classes as asked."""
    counts = checked_multiclass(
        preds, target, num_classes, average, top_k, multidim_average, ignore_index, validate_args
    )
    return stacked_counts(counts, average, "multiclass")


def multilabel_stat_scores(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    threshold: float = 0.5,
    average: str | None = "macro",
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> Tensor:
    """Counts per label in the last dimension: (tp, fp, tn, fn, support), averaged over the labels as asked."""
    counts = checked_multilabel(
        preds, target, num_labels, threshold, average, multidim_average, ignore_index, validate_args
    )
    return stacked_counts(counts, average, "multilabel")


stat_scores = by_task(
    "Counts (tp, fp, tn, fn, support)",
    "threshold num_classes num_labels average multidim_average top_k ignore_index validate_args",
    binary_stat_scores, multiclass_stat_scores, multilabel_stat_scores, average="micro",
)  # fmt: skip
