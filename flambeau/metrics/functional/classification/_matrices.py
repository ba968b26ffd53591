"""Confusion matrices and the scores made of them: Cohen's kappa, Matthews' correlation, Jaccard index."""

from __future__ import annotations

from typing import Any

from ...._ops.registry import ops
from ...._tensor import Tensor
from ...utilities import rank_zero_warn
from ...utilities.checks import check_choice
from ...utilities.data import safe_divide
from ._counts import multiclass_labels
from ._inputs import (
    AVERAGES,
    bincount,
    check_binary,
    check_multiclass,
    check_multilabel,
    decisions,
    kept_samples,
    labels_last,
)
from ._options import by_task, check_options


def binary_matrix(preds: Tensor, target: Tensor, threshold: float, ignore_index: int | None) -> Tensor:
    """[[tn, fp], [fn, tp]]."""
    preds, target = kept_samples(decisions(preds, threshold).reshape(-1), target.reshape(-1), ignore_index)
    return bincount(target.long() * 2 + preds, 4).reshape(2, 2)


def multiclass_matrix(preds: Tensor, target: Tensor, num_classes: int, ignore_index: int | None) -> Tensor:
    """Rows are true classes, columns predicted ones."""
    preds, target = kept_samples(multiclass_labels(preds, target).reshape(-1), target.reshape(-1), ignore_index)
    return bincount(target.long() * num_classes + preds, num_classes**2).reshape(num_classes, num_classes)


def multilabel_matrix(
    preds: Tensor, target: Tensor, num_labels: int, threshold: float, ignore_index: int | None
) -> Tensor:
    """A matrix [[tn, fp], [fn, tp]] for each label."""
    preds, target = labels_last(decisions(preds, threshold)), labels_last(target)
    cells = target.long() * 2 + preds + 4 * ops.arange(num_labels, device=target.device)
    if ignore_index is not None:
        cells = cells[target != ignore_index]
    return bincount(cells, 4 * num_labels).reshape(num_labels, 2, 2)


def normalized(matrix: Tensor, normalize: str | None) -> Tensor:
    """Counts as shares of the rows ("true"), of the columns ("pred") or of all."""
    if normalize in (None, "none"):
        return matrix
    dims: dict[Any, Any] = {"true": -1, "pred": -2, "all": (-2, -1)}
    total = matrix.sum(dims[normalize], keepdim=True)
    if (total == 0).any():
        rank_zero_warn("A sum of the confusion matrix is zero: its shares are set to zero.", UserWarning)
    return safe_divide(matrix, total)


def _checked_binary(
    preds: Tensor, target: Tensor, threshold: float, ignore_index: int | None, validate: bool
) -> Tensor:
    if validate:
        check_options(threshold=threshold, ignore_index=ignore_index)
        check_binary(preds, target, ignore_index)
    return binary_matrix(preds, target, threshold, ignore_index)


def _checked_multiclass(
    preds: Tensor, target: Tensor, num_classes: int, ignore_index: int | None, validate: bool
) -> Tensor:
    if validate:
        check_options(num_classes=num_classes, ignore_index=ignore_index)
        check_multiclass(preds, target, num_classes, ignore_index)
    return multiclass_matrix(preds, target, num_classes, ignore_index)


def _checked_multilabel(
    preds: Tensor, target: Tensor, num_labels: int, threshold: float, ignore_index: int | None, validate: bool
) -> Tensor:
    if validate:
        check_options(num_labels=num_labels, threshold=threshold, ignore_index=ignore_index)
        check_multilabel(preds, target, num_labels, ignore_index)
    return multilabel_matrix(preds, target, num_labels, threshold, ignore_index)


def binary_confusion_matrix(
    preds: Tensor,
    target: Tensor,
    threshold: float = 0.5,
    normalize: str | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> Tensor:
    """[[true negatives, false positives], [false negatives, true positives]], as counts or shares.

    >>> import flambeau as torch
    >>> binary_confusion_matrix(torch.tensor([0.2, 0.9, 0.7, 0.1]), torch.tensor([0, 1, 0, 1]))
    tensor([[1, 1],
            [1, 1]])
    """
    check_options(normalize=normalize)
    return normalized(_checked_binary(preds, target, threshold, ignore_index, validate_args), normalize)


def multiclass_confusion_matrix(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    normalize: str | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> Tensor:
    """Rows are true classes, columns predicted ones, as counts or shares."""
    check_options(normalize=normalize)
    return normalized(_checked_multiclass(preds, target, num_classes, ignore_index, validate_args), normalize)


def multilabel_confusion_matrix(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    threshold: float = 0.5,
    normalize: str | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> Tensor:
    """A matrix [[tn, fp], [fn, tp]] for each label, as counts or shares."""
    check_options(normalize=normalize)
    return normalized(_checked_multilabel(preds, target, num_labels, threshold, ignore_index, validate_args), normalize)


confusion_matrix = by_task(
    "Confusion matrix", "threshold num_classes num_labels normalize ignore_index validate_args",
    binary_confusion_matrix, multiclass_confusion_matrix, multilabel_confusion_matrix,
)  # fmt: skip


# Cohen's kappa


def kappa_of(matrix: Tensor, weights: str | None = None) -> Tensor:
    """Agreement beyond chance; disagreement counts by the distance of the classes if `weights` says so."""
    matrix = matrix.double()
    n = matrix.shape[0]
    there, predicted = matrix.sum(1), matrix.sum(0)
    expected = there.outer(predicted) / matrix.sum()
    place = ops.arange(n, device=matrix.device).double()
    apart = (place.unsqueeze(1) - place).abs()
    cost = apart**2 if weights == "quadratic" else apart if weights == "linear" else (apart > 0).double()
    return (1 - (cost * matrix).sum() / (cost * expected).sum()).float()


def binary_cohen_kappa(
    preds: Tensor,
    target: Tensor,
    threshold: float = 0.5,
    weights: str | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> Tensor:
    """Cohen's kappa of zeros and ones: agreement beyond that of chance."""
    check_options(weights=weights)
    return kappa_of(_checked_binary(preds, target, threshold, ignore_index, validate_args), weights)


def multiclass_cohen_kappa(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    weights: str | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> Tensor:
    """Cohen's kappa of labels; `weights` "linear" or "quadratic" for classes that have an order."""
    check_options(weights=weights)
    return kappa_of(_checked_multiclass(preds, target, num_classes, ignore_index, validate_args), weights)


cohen_kappa = by_task(
    "Cohen's kappa",
    "threshold num_classes weights ignore_index validate_args",
    binary_cohen_kappa,
    multiclass_cohen_kappa,
)


# Matthews' correlation


def matthews_of(matrix: Tensor) -> Tensor:
    """Correlation of prediction and truth; zero where either is constant, unless they agree or disagree throughout."""
    matrix = (matrix.sum(0) if matrix.dim() == 3 else matrix).double()
    there, predicted = matrix.sum(1), matrix.sum(0)
    hits, total = matrix.diagonal().sum(), matrix.sum()
    covariance = hits * total - (there * predicted).sum()
    spread = (total**2 - (predicted**2).sum()) * (total**2 - (there**2).sum())
    if spread != 0:
        return (covariance / spread.sqrt()).float()
    if matrix.shape[0] == 2 and total != 0:
        return (hits == total).float() - (hits == 0).float()
    return ops.zeros_like(total).float()


def binary_matthews_corrcoef(
    preds: Tensor, target: Tensor, threshold: float = 0.5, ignore_index: int | None = None, validate_args: bool = True
) -> Tensor:
    """Matthews' correlation coefficient of zeros and ones."""
    return matthews_of(_checked_binary(preds, target, threshold, ignore_index, validate_args))


def multiclass_matthews_corrcoef(
    preds: Tensor, target: Tensor, num_classes: int, ignore_index: int | None = None, validate_args: bool = True
) -> Tensor:
    """Matthews' correlation coefficient of labels."""
    return matthews_of(_checked_multiclass(preds, target, num_classes, ignore_index, validate_args))


def multilabel_matthews_corrcoef(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    threshold: float = 0.5,
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> Tensor:
    """Matthews' correlation coefficient of zeros and ones, all labels together."""
    return matthews_of(_checked_multilabel(preds, target, num_labels, threshold, ignore_index, validate_args))


matthews_corrcoef = by_task(
    "Matthews' correlation coefficient", "threshold num_classes num_labels ignore_index validate_args",
    binary_matthews_corrcoef, multiclass_matthews_corrcoef, multilabel_matthews_corrcoef,
)  # fmt: skip


# Jaccard index


def jaccard_of(
    matrix: Tensor, average: str | None, ignore_index: int | None = None, zero_division: float = 0.0
) -> Tensor:
    """Intersection over union per class, averaged as asked; "binary" is that of the ones alone."""
    if average == "binary":
        return safe_divide(matrix[1, 1], matrix[0, 1] + matrix[1, 0] + matrix[1, 1], zero_division)
    if matrix.dim() == 3:  # labels
        both, there = matrix[:, 1, 1], matrix[:, 1].sum(-1)
        union = there + matrix[:, 0, 1]
    else:
        both, there = matrix.diagonal(), matrix.sum(1)
        union = there + matrix.sum(0) - both
    counted = ops.ones_like(both, dtype=safe_divide(both, union).dtype)
    if matrix.dim() == 2 and ignore_index is not None and 0 <= ignore_index < matrix.shape[0]:
        counted[ignore_index] = 0.0
    if average == "micro":
        return safe_divide(both.sum(), (union * counted).sum(), zero_division)
    scores = safe_divide(both, union, zero_division)
    if average in ("none", None):
        return scores
    if average == "weighted":
        counted = there.float()
    elif matrix.dim() == 2:
        counted = counted * (union > 0)
    return (counted * scores / counted.sum()).sum()


def binary_jaccard_index(
    preds: Tensor,
    target: Tensor,
    threshold: float = 0.5,
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0.0,
) -> Tensor:
    """Intersection over union of the ones."""
    matrix = _checked_binary(preds, target, threshold, ignore_index, validate_args)
    return jaccard_of(matrix, "binary", None, zero_division)


def multiclass_jaccard_index(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    average: str | None = "macro",
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0.0,
) -> Tensor:
    """Intersection over union per class, averaged as asked.

    >>> import flambeau as torch
    >>> multiclass_jaccard_index(torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 2, 2]), num_classes=3, average=None)
    tensor([1.0000, 0.5000, 0.5000])
    """
    check_choice("average", average, AVERAGES)
    matrix = _checked_multiclass(preds, target, num_classes, ignore_index, validate_args)
    return jaccard_of(matrix, average, ignore_index, zero_division)


def multilabel_jaccard_index(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    threshold: float = 0.5,
    average: str | None = "macro",
    ignore_index: int | None = None,
    validate_args: bool = True,
    zero_division: float = 0.0,
) -> Tensor:
    """Intersection over union per label, averaged as asked."""
    check_choice("average", average, AVERAGES)
    matrix = _checked_multilabel(preds, target, num_labels, threshold, ignore_index, validate_args)
    return jaccard_of(matrix, average, None, zero_division)


jaccard_index = by_task(
    "Intersection over union", "threshold num_classes num_labels average ignore_index validate_args zero_division",
    binary_jaccard_index, multiclass_jaccard_index, multilabel_jaccard_index,
)  # fmt: skip
