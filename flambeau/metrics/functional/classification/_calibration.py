"""How far predicted probabilities are from observed frequencies; hinge losses of margins."""

from __future__ import annotations

from ...._ops.registry import ops
from ...._tensor import Tensor
from ...utilities.data import safe_divide
from ._inputs import check_binary, check_multiclass, class_probabilities, kept_samples, labels_last, probabilities
from ._options import by_task, check_options


def calibration_of(confidences: Tensor, accuracies: Tensor, n_bins: int, norm: str) -> Tensor:
    """Distance of mean confidence and accuracy over bins of confidence: weighted mean, its square, or largest."""
    bins = ops.linspace(0, 1, n_bins + 1, dtype=confidences.dtype, device=confidences.device)
    place = ops.bucketize(confidences, bins[1:-1], right=True)
    count = ops.bincount(place, minlength=n_bins).to(confidences.dtype)
    confidence, accuracy = (
        safe_divide(ops.bincount(place, weights=x, minlength=n_bins).to(x.dtype), count)
        for x in (confidences, accuracies)
    )
    share = count / count.sum()
    gap = (accuracy - confidence).abs()
    if norm == "l1":
        return (gap * share).sum()
    return gap.max() if norm == "max" else (gap**2 * share).sum().sqrt()


def binary_confidences(preds: Tensor, target: Tensor, ignore_index: int | None) -> tuple[Tensor, Tensor]:
    """Probability of a one, and whether it is one."""
    preds, target = kept_samples(preds.reshape(-1), target.reshape(-1), ignore_index)
    preds = probabilities(preds)
    return preds, target.to(preds.dtype)


def multiclass_confidences(preds: Tensor, target: Tensor, ignore_index: int | None) -> tuple[Tensor, Tensor]:
    """Probability of the best class, and whether it is the true one."""
    preds, target = kept_samples(labels_last(preds), target.reshape(-1), ignore_index)
    confidence, best = class_probabilities(preds).max(1)
    return confidence, (best == target).to(confidence.dtype)


def binary_calibration_error(
    preds: Tensor,
    target: Tensor,
    n_bins: int = 15,
    norm: str = "l1",
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> Tensor:
    """Distance of predicted probabilities and observed frequencies in `n_bins` bins.

    >>> import flambeau as torch
    >>> binary_calibration_error(torch.tensor([0.25, 0.25, 0.75, 0.75]), torch.tensor([0, 0, 1, 1]), n_bins=2)
    tensor(0.2500)
    """
    if validate_args:
        check_options(n_bins=n_bins, norm=norm, ignore_index=ignore_index)
        check_binary(preds, target, ignore_index)
    return calibration_of(*binary_confidences(preds, target, ignore_index), n_bins, norm)


def multiclass_calibration_error(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    n_bins: int = 15,
    norm: str = "l1",
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> Tensor:
    """Distance of the best class's probability and how often it is right."""
    if validate_args:
        check_options(num_classes=num_classes, n_bins=n_bins, norm=norm, ignore_index=ignore_index)
        check_multiclass(preds, target, num_classes, ignore_index, scores=True)
    return calibration_of(*multiclass_confidences(preds, target, ignore_index), n_bins, norm)


calibration_error = by_task(
    "Calibration error", "n_bins norm num_classes ignore_index validate_args",
    binary_calibration_error, multiclass_calibration_error,
)  # fmt: skip


def binary_margins(preds: Tensor, target: Tensor, squared: bool, ignore_index: int | None) -> tuple[Tensor, int]:
    """Sum of the hinge losses, and of how many samples."""
    preds, target = kept_samples(preds.reshape(-1), target.reshape(-1), ignore_index)
    preds = probabilities(preds)
    loss = (1 - ops.where(target > 0, preds, -preds)).clamp(min=0)
    return (loss**2 if squared else loss).sum(0), len(target)


def multiclass_margins(
    preds: Tensor, target: Tensor, squared: bool, multiclass_mode: str, ignore_index: int | None
) -> tuple[Tensor, int]:
    """Sum of the hinge losses (per class in the mode "one-vs-all"), and of how many samples."""
    preds, target = kept_samples(labels_last(preds), target.reshape(-1), ignore_index)
    preds = class_probabilities(preds)
    index = target.unsqueeze(1)
    if multiclass_mode == "crammer-singer":
        others = preds.scatter(1, index, float("-inf")).amax(1)
        margin = preds.gather(1, index).squeeze(1) - others
    else:
        margin = (-preds).scatter(1, index, preds.gather(1, index))
    loss = (1 - margin).clamp(min=0)
    return (loss**2 if squared else loss).sum(0), len(target)


def binary_hinge_loss(
    preds: Tensor, target: Tensor, squared: bool = False, ignore_index: int | None = None, validate_args: bool = False
) -> Tensor:
    """Mean hinge loss of scores whose sign is the prediction."""
    if validate_args:
        check_options(squared=squared, ignore_index=ignore_index)
        check_binary(preds, target, ignore_index)
    total, count = binary_margins(preds, target, squared, ignore_index)
    return total / count


def multiclass_hinge_loss(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    squared: bool = False,
    multiclass_mode: str = "crammer-singer",
    ignore_index: int | None = None,
    validate_args: bool = False,
) -> Tensor:
    """Mean hinge loss of the margin to the best wrong class, or one loss for each class against the others."""
    if validate_args:
        check_options(
            num_classes=num_classes, squared=squared, multiclass_mode=multiclass_mode, ignore_index=ignore_index
        )
        check_multiclass(preds, target, num_classes, ignore_index, scores=True)
    total, count = multiclass_margins(preds, target, squared, multiclass_mode, ignore_index)
    return total / count


hinge_loss = by_task(
    "Mean hinge loss", "num_classes squared multiclass_mode ignore_index validate_args",
    binary_hinge_loss, multiclass_hinge_loss,
)  # fmt: skip
