"""Exact match: the share of samples whose labels are all right."""

from __future__ import annotations

from ...._tensor import Tensor
from ._counts import check_dimensions, multiclass_labels
from ._inputs import check_multiclass, check_multilabel, decisions, labels_last
from ._options import by_task, check_options


def multiclass_matches(
    preds: Tensor, target: Tensor, multidim_average: str = "global", ignore_index: int | None = None
) -> tuple[Tensor, int]:
    """How many samples match in all places, and of how many; per sample if asked for."""
    hit = multiclass_labels(preds, target) == target
    if ignore_index is not None:
        hit = hit | (target == ignore_index)
    right = hit.reshape(len(hit), -1).all(1).long()
    return (right, 1) if multidim_average == "samplewise" else (right.sum(), len(right))


def multilabel_matches(
    preds: Tensor, target: Tensor, threshold: float, multidim_average: str = "global", ignore_index: int | None = None
) -> tuple[Tensor, int]:
    """How many samples have all labels right, and of how many; per sample over its places if asked for."""
    hit = decisions(preds, threshold) == target
    if ignore_index is not None:
        hit = hit | (target == ignore_index)
    right = labels_last(hit).all(1).long()
    if multidim_average == "samplewise":
        right = right.reshape(len(hit), -1)
        return right.sum(1), right.shape[1]
    return right.sum(), len(right)


def multiclass_exact_match(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> Tensor:
    """Share of samples (N, ...) whose labels are all right.

    >>> import flambeau as torch
    >>> multiclass_exact_match(torch.tensor([[0, 1], [2, 1]]), torch.tensor([[0, 1], [2, 2]]), num_classes=3)
    tensor(0.5000)
    """
    if validate_args:
        check_options(num_classes=num_classes, multidim_average=multidim_average, ignore_index=ignore_index)
        check_multiclass(preds, target, num_classes, ignore_index)
        check_dimensions(target, 2, multidim_average)
    right, total = multiclass_matches(preds, target, multidim_average, ignore_index)
    return right / total


def multilabel_exact_match(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    threshold: float = 0.5,
    multidim_average: str = "global",
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> Tensor:
    """Share of samples (N, L, ...) that have all labels right."""
    if validate_args:
        check_options(
            num_labels=num_labels, threshold=threshold, multidim_average=multidim_average, ignore_index=ignore_index
        )
        check_multilabel(preds, target, num_labels, ignore_index)
        check_dimensions(preds, 3, multidim_average)
    right, total = multilabel_matches(preds, target, threshold, multidim_average, ignore_index)
    return right / total


exact_match = by_task(
    "Share of samples whose labels are all right",
    "num_classes num_labels threshold multidim_average ignore_index validate_args",
    multiclass_exact_match, multilabel_exact_match,
)  # fmt: skip
