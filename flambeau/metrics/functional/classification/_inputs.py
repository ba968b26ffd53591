"""Checks of predictions and targets, and what they become: labels, probabilities, flat lists of samples."""

from __future__ import annotations

from ...._ops.registry import ops
from ...._tensor import Tensor
from ...utilities.checks import check_same_shape

AVERAGES = ("micro", "macro", "weighted", "none", None)


def check_integral(name: str, x: Tensor) -> None:
    if x.is_floating_point() or x.is_complex():
        raise ValueError(f"Expected `{name}` to be an int tensor, but got a tensor with dtype {x.dtype}")


def check_zero_one(name: str, x: Tensor, ignore_index: int | None = None) -> None:
    """Labels are 0 or 1 (or the ignored index)."""
    wrong = (x != 0) & (x != 1)
    if ignore_index is not None:
        wrong &= x != ignore_index
    if wrong.any():
        raise RuntimeError(
            f"Detected the following values in `{name}`: {x.unique().tolist()} but expected only the following values "
            f"{[0, 1] if ignore_index is None else [0, 1, ignore_index]}."
        )


def check_binary(preds: Tensor, target: Tensor, ignore_index: int | None) -> None:
    """For binary and multilabel tasks: shapes, types and values."""
    check_same_shape(preds, target)
    check_integral("target", target)
    check_zero_one("target", target, ignore_index)
    if not preds.is_floating_point():
        check_zero_one("preds", preds)


def check_multilabel(preds: Tensor, target: Tensor, num_labels: int, ignore_index: int | None) -> None:
    check_binary(preds, target, ignore_index)
    if preds.dim() < 2 or preds.shape[1] != num_labels:
        raise ValueError(
            f"Expected both `target.shape[1]` and `preds.shape[1]` to be equal to the number of labels {num_labels}, "
            f"but got {tuple(preds.shape)}"
        )


def check_classes(name: str, x: Tensor, num_classes: int, ignore_index: int | None = None) -> None:
    """Labels are 0 … num_classes - 1 (or the ignored index)."""
    wrong = (x < 0) | (x >= num_classes)
    if ignore_index is not None:
        wrong &= x != ignore_index
    if wrong.any():
        raise RuntimeError(
            f"Detected more unique values in `{name}` than expected: the labels must be in 0 … {num_classes - 1}"
            f"{'' if ignore_index is None else f' or {ignore_index}'}, but there is {x[wrong][0].item()}."
        )


def check_multiclass(
    preds: Tensor, target: Tensor, num_classes: int | None, ignore_index: int | None, scores: bool = False
) -> None:
    """Labels beside labels, or scores (N, C, ...) beside labels (N, ...); `scores` says that only these will do."""
    check_integral("target", target)
    if preds.dim() == target.dim() + 1:
        if not preds.is_floating_point():
            raise ValueError("If `preds` have one dimension more than `target`, `preds` should be a float tensor.")
        if num_classes is not None and preds.shape[1] != num_classes:
            raise ValueError(
                f"If `preds` have one dimension more than `target`, `preds.shape[1]` should be equal to number of classes, "
                f"but got {preds.shape[1]} and {num_classes}."
            )
        if preds.shape[0] != target.shape[0] or preds.shape[2:] != target.shape[1:]:
            raise ValueError(
                "If `preds` have one dimension more than `target`, the shape of `preds` should be (N, C, ...), and the "
                f"shape of `target` should be (N, ...), but got {tuple(preds.shape)} and {tuple(target.shape)}."
            )
    elif preds.dim() == target.dim() and not scores:
        if preds.shape != target.shape:
            raise ValueError(
                "The `preds` and `target` should have the same shape, "
                f"got `preds` with shape={tuple(preds.shape)} and `target` with shape={tuple(target.shape)}."
            )
        if preds.is_floating_point():
            raise ValueError("If `preds` and `target` have the same shape, `preds` should be an int tensor.")
        if num_classes is not None:
            check_classes("preds", preds, num_classes)
    else:
        raise ValueError(
            "Either `preds` and `target` both should have the (same) shape (N, ...), or `target` should be (N, ...) and "
            f"`preds` should be (N, C, ...), but got {tuple(preds.shape)} and {tuple(target.shape)}."
        )
    if num_classes is not None:
        check_classes("target", target, num_classes, ignore_index)


def probabilities(preds: Tensor) -> Tensor:
    """Scores between 0 and 1: those given, or through a sigmoid if any lies outside."""
    if preds.numel():
        low, high = preds.aminmax()
        if not (low >= 0 and high <= 1):
            return preds.sigmoid()
    return preds


def class_probabilities(preds: Tensor) -> Tensor:
    """Scores (N, C, ...) between 0 and 1: those given, or through a softmax if any lies outside."""
    if preds.numel():
        low, high = preds.aminmax()
        if not (low >= 0 and high <= 1):
            return preds.softmax(1)
    return preds


def decisions(preds: Tensor, threshold: float) -> Tensor:
    """Zeros and ones: labels as they are, scores by the threshold."""
    return (probabilities(preds) > threshold).long() if preds.is_floating_point() else preds


def kept_samples(preds: Tensor, target: Tensor, ignore_index: int | None) -> tuple[Tensor, Tensor]:
    """Samples without those whose label is to be ignored."""
    if ignore_index is None:
        return preds, target
    kept = target != ignore_index
    return preds[kept], target[kept]


def labels_last(x: Tensor) -> Tensor:
    """(N, C, ...) as (samples, C)."""
    return x.movedim(1, -1).reshape(-1, x.shape[1])


def bincount(x: Tensor, length: int) -> Tensor:
    return ops.bincount(x.reshape(-1), minlength=length)
