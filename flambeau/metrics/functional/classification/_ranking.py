"""Ranking scores of multilabel predictions: how deep the true labels lie in the order of the scores."""

from __future__ import annotations

from ...._ops.registry import ops
from ...._tensor import Tensor
from ._inputs import check_multilabel, labels_last, probabilities
from ._options import check_options


def ranking_input(preds: Tensor, target: Tensor, ignore_index: int | None) -> tuple[Tensor, Tensor]:
    """Scores and labels as (samples, L); ignored labels rank last and are not true."""
    preds, target = labels_last(probabilities(preds)), labels_last(target)
    if ignore_index is not None:
        ignored = target == ignore_index
        preds, target = preds.masked_fill(ignored, -1.0), target.masked_fill(ignored, 0)
    return preds, target


def check_ranking(preds: Tensor, target: Tensor, num_labels: int, ignore_index: int | None) -> None:
    check_options(num_labels=num_labels, ignore_index=ignore_index)
    check_multilabel(preds, target, num_labels, ignore_index)
    if not preds.is_floating_point():
        raise ValueError(f"Expected preds tensor to be floating point, but received input with dtype {preds.dtype}")


def _ranks(preds: Tensor, others: Tensor | None = None) -> Tensor:
    """For each label, how many labels (of those in the mask) score at least as much."""
    order = preds.sort(1)
    if others is None:
        before = ops.searchsorted(order.values, preds.contiguous())
        return preds.shape[1] - before
    weight = others.gather(1, order.indices).long().flip(1).cumsum(1).flip(1)
    weight = ops.cat([weight, ops.zeros_like(weight[:, :1])], 1)
    return weight.gather(1, ops.searchsorted(order.values, preds.contiguous()))


def coverage_of(preds: Tensor, target: Tensor) -> tuple[Tensor, int]:
    """Sum over the samples of the depth at which all true labels are found, and the number of samples."""
    worst = ops.where(target == 1, preds, float("inf")).amin(1, keepdim=True)
    depth = (preds >= worst).sum(1).float()
    return depth.sum(), len(preds)


def ranking_precision_of(preds: Tensor, target: Tensor) -> tuple[Tensor, int]:
    """Sum over the samples of the mean precision at each true label, and the number of samples."""
    true = target == 1
    share = _ranks(preds, true) / _ranks(preds)
    count = true.sum(1)
    score = ops.where(true, share, 0.0).sum(1) / count.clamp(min=1)
    trivial = (count == 0) | (count == preds.shape[1])
    return ops.where(trivial, 1.0, score).sum(), len(preds)


def ranking_loss_of(preds: Tensor, target: Tensor) -> tuple[Tensor, int]:
    """Sum over the samples of the share of pairs in the wrong order, and the number of samples."""
    true = target == 1
    count = true.sum(1)
    pairs = count * (preds.shape[1] - count)
    wrong = ops.where(true, _ranks(preds, ~true), 0).sum(1)
    return (wrong / pairs.clamp(min=1)).sum(), len(preds)


def multilabel_coverage_error(
    preds: Tensor, target: Tensor, num_labels: int, ignore_index: int | None = None, validate_args: bool = True
) -> Tensor:
    """Mean number of labels, in the order of their scores, that are needed to have all true ones."""
    if validate_args:
        check_ranking(preds, target, num_labels, ignore_index)
    total, count = coverage_of(*ranking_input(preds, target, ignore_index))
    return total / count


def multilabel_ranking_average_precision(
    preds: Tensor, target: Tensor, num_labels: int, ignore_index: int | None = None, validate_args: bool = True
) -> Tensor:
    """Mean share of true labels among those ranked at least as high as each true label.

    >>> import flambeau as torch
    >>> multilabel_ranking_average_precision(torch.tensor([[0.75, 0.5, 1.0]]), torch.tensor([[1, 0, 0]]), num_labels=3)
    tensor(0.5000)
    """
    if validate_args:
        check_ranking(preds, target, num_labels, ignore_index)
    total, count = ranking_precision_of(*ranking_input(preds, target, ignore_index))
    return total / count


def multilabel_ranking_loss(
    preds: Tensor, target: Tensor, num_labels: int, ignore_index: int | None = None, validate_args: bool = True
) -> Tensor:
    """Mean share of pairs of a true and a false label that are ranked the wrong way."""
    if validate_args:
        check_ranking(preds, target, num_labels, ignore_index)
    total, count = ranking_loss_of(*ranking_input(preds, target, ignore_index))
    return total / count
