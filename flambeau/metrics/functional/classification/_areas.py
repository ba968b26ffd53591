"""Scores of curves: areas under them, and the best operating point under a condition."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ...._ops.registry import ops
from ...._tensor import Tensor
from ...utilities import rank_zero_warn
from ...utilities.data import safe_divide
from ._curves import (
    Curve,
    Data,
    Thresholds,
    binary_curve,
    binary_data,
    binary_roc_curve,
    curves,
    multiclass_data,
    multilabel_data,
)
from ._inputs import check_choice, need_number, task_of


def area(x: Tensor, y: Tensor) -> Tensor:
    """Area under the line through the points."""
    return ops.trapezoid(y, x)


def step_area(precision: Tensor, recall: Tensor) -> Tensor:
    """Average precision: precision summed over the steps of recall."""
    steps = recall[..., :-1] - recall[..., 1:]
    return (steps * ops.where(steps == 0, 0.0, precision[..., :-1])).sum(-1)


def check_max_fpr(max_fpr: Any) -> None:
    if max_fpr is not None and not (isinstance(max_fpr, float) and 0 < max_fpr <= 1):
        raise ValueError(f"Arguments `max_fpr` should be a float in range (0, 1], but got: {max_fpr}")


def binary_auroc_of(data: Data, thresholds: Tensor | None, max_fpr: float | None = None) -> Tensor:
    """Area under the ROC curve, up to `max_fpr` and standardised to 0.5 … 1 if that is given."""
    fpr, tpr, _ = binary_roc_curve(data, thresholds)
    if max_fpr is None or max_fpr == 1 or fpr.sum() == 0 or tpr.sum() == 0:
        return area(fpr, tpr)
    limit = fpr.new_tensor([max_fpr])
    stop = int(ops.searchsorted(fpr, limit, right=True))
    weight = (limit - fpr[stop - 1]) / (fpr[stop] - fpr[stop - 1])
    reached = tpr[stop - 1] + weight * (tpr[stop] - tpr[stop - 1])
    partial = area(ops.cat([fpr[:stop], limit]), ops.cat([tpr[:stop], reached]))
    least = 0.5 * max_fpr**2
    return 0.5 * (1 + (partial - least) / (max_fpr - least))


def averaged_area(scores: Tensor, average: str | None, support: Tensor) -> Tensor:
    """The areas of the classes, their mean, or their mean by support; what is not a number is left out."""
    if average in (None, "none"):
        return scores
    lost = scores.isnan()
    if lost.any():
        rank_zero_warn("The score of one or more classes is `nan`: they are left out of the average.", UserWarning)
    if average == "macro":
        return scores[~lost].mean()
    weights = support[~lost].float()
    return (scores[~lost] * safe_divide(weights, weights.sum())).sum()


def support_of(data: Data, number: int) -> Tensor:
    """Number of true samples of each class."""
    if isinstance(data, Tensor):
        return data[0, :, 1].sum(-1)
    target = data[1]
    return ops.bincount(target, minlength=number) if target.dim() == 1 else (target == 1).sum(0)


def auroc_of(
    data: Data, number: int, average: str | None, thresholds: Tensor | None, ignore_index: int | None = None
) -> Tensor:
    """Area under the ROC curve of each class, averaged as asked."""
    fpr, tpr, _ = curves(binary_roc_curve, data, number, thresholds, None, ignore_index)
    scores = ops.stack([area(x, y) for x, y in zip(fpr, tpr)])
    return averaged_area(scores, average, support_of(data, number))


def binary_average_precision_of(data: Data, thresholds: Tensor | None) -> Tensor:
    """Average precision; at given thresholds, zero without positive targets."""
    precision, recall, _ = binary_curve(data, thresholds)
    return step_area(precision, recall.nan_to_num() if isinstance(data, Tensor) else recall)


def average_precision_of(
    data: Data, number: int, average: str | None, thresholds: Tensor | None, ignore_index: int | None = None
) -> Tensor:
    """Average precision of each class, averaged as asked."""
    precision, recall, _ = curves(binary_curve, data, number, thresholds, None, ignore_index)
    if isinstance(data, Tensor):
        recall = recall.nan_to_num()  # at given thresholds, a class without samples scores zero
    scores = ops.stack([step_area(p, r) for p, r in zip(precision, recall)])
    return averaged_area(scores, average, support_of(data, number))


def flattened(data: Data, ignore_index: int | None = None) -> Data:
    """All labels of a multilabel problem as one binary problem."""
    if isinstance(data, Tensor):
        return data.sum(1)
    preds, target = (x.reshape(-1) for x in data)
    if ignore_index is None:
        return preds, target
    kept = target != ignore_index
    return preds[kept], target[kept]


_AVERAGES = ("macro", "weighted", "none", None)
_LABEL_AVERAGES = ("micro", *_AVERAGES)


def binary_auroc(
    preds: Tensor,
    target: Tensor,
    max_fpr: float | None = None,
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> Tensor:
    """Area under the ROC curve.

    >>> import flambeau as torch
    >>> binary_auroc(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
    tensor(0.7500)
    """
    check_max_fpr(max_fpr)
    return binary_auroc_of(*binary_data(preds, target, thresholds, ignore_index, validate_args), max_fpr)


def multiclass_auroc(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    average: str | None = "macro",
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> Tensor:
    """Area under the ROC curve of each class against the others, averaged as asked."""
    check_choice("average", average, _AVERAGES)
    data, at = multiclass_data(preds, target, num_classes, thresholds, ignore_index, validate_args)
    return auroc_of(data, num_classes, average, at)


def multilabel_auroc(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    average: str | None = "macro",
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> Tensor:
    """Area under the ROC curve of each label, averaged as asked, or of all labels together ("micro")."""
    check_choice("average", average, _LABEL_AVERAGES)
    data, at = multilabel_data(preds, target, num_labels, thresholds, ignore_index, validate_args)
    if average == "micro":
        return binary_auroc_of(flattened(data, ignore_index), at)
    return auroc_of(data, num_labels, average, at, ignore_index)


def auroc(
    preds: Tensor,
    target: Tensor,
    task: str,
    thresholds: Thresholds = None,
    num_classes: int | None = None,
    num_labels: int | None = None,
    average: str | None = "macro",
    max_fpr: float | None = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> Tensor:
    """Area under the ROC curve of a binary, multiclass or multilabel task."""
    task = task_of(task)
    rest = (thresholds, ignore_index, validate_args)
    if task == "binary":
        return binary_auroc(preds, target, max_fpr, *rest)
    if task == "multiclass":
        return multiclass_auroc(preds, target, need_number("num_classes", num_classes), average, *rest)
    return multilabel_auroc(preds, target, need_number("num_labels", num_labels), average, *rest)


def binary_average_precision(
    preds: Tensor,
    target: Tensor,
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> Tensor:
    """Precision summed over the steps of recall."""
    return binary_average_precision_of(*binary_data(preds, target, thresholds, ignore_index, validate_args))


def multiclass_average_precision(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    average: str | None = "macro",
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> Tensor:
    """Average precision of each class against the others, averaged as asked."""
    check_choice("average", average, _AVERAGES)
    data, at = multiclass_data(preds, target, num_classes, thresholds, ignore_index, validate_args)
    return average_precision_of(data, num_classes, average, at)


def multilabel_average_precision(
    preds: Tensor,
    target: Tensor,
    num_labels: int,
    average: str | None = "macro",
    thresholds: Thresholds = None,
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> Tensor:
    """Average precision of each label, averaged as asked, or of all labels together ("micro")."""
    check_choice("average", average, _LABEL_AVERAGES)
    data, at = multilabel_data(preds, target, num_labels, thresholds, ignore_index, validate_args)
    if average == "micro":
        return binary_average_precision_of(flattened(data, ignore_index), at)
    return average_precision_of(data, num_labels, average, at, ignore_index)


def average_precision(
    preds: Tensor,
    target: Tensor,
    task: str,
    thresholds: Thresholds = None,
    num_classes: int | None = None,
    num_labels: int | None = None,
    average: str | None = "macro",
    ignore_index: int | None = None,
    validate_args: bool = True,
) -> Tensor:
    """Average precision of a binary, multiclass or multilabel task."""
    task = task_of(task)
    rest = (thresholds, ignore_index, validate_args)
    if task == "binary":
        return binary_average_precision(preds, target, *rest)
    if task == "multiclass":
        return multiclass_average_precision(preds, target, need_number("num_classes", num_classes), average, *rest)
    return multilabel_average_precision(preds, target, need_number("num_labels", num_labels), average, *rest)


# Operating points


def check_least(name: str, value: Any) -> None:
    if not isinstance(value, float) or not 0 <= value <= 1:
        raise ValueError(f"Expected argument `{name}` to be a float in the [0,1] range, but got {value}")


def _reached(wanted: Tensor, condition: Tensor, thresholds: Tensor, least: float) -> tuple[Tensor, Tensor, Tensor]:
    """The points of a curve where the condition holds."""
    size = min(len(wanted), len(thresholds))
    wanted, condition = wanted[:size], condition[:size]
    chosen = (condition >= least) & ~wanted.isnan()
    return wanted[chosen], condition[chosen], thresholds[chosen]


def _recall_or_precision(wanted: Tensor, condition: Tensor, thresholds: Tensor, least: float) -> tuple[Tensor, Tensor]:
    """Of equal values that with the best condition is taken; zero is reached by no threshold."""
    wanted, condition, thresholds = _reached(wanted, condition, thresholds, least)
    if not len(wanted) or wanted.max() == 0:
        return wanted.new_zeros(()), thresholds.new_full((), float("nan"))
    top = wanted == wanted.max()
    condition, thresholds = condition[top], thresholds[top]
    return wanted.max(), thresholds[condition == condition.max()].max()


def recall_point(curve: Curve, least: float) -> tuple[Tensor, Tensor]:
    """Largest recall with at least this precision, and its threshold."""
    precision, recall, thresholds = curve
    return _recall_or_precision(recall, precision, thresholds, least)


def precision_point(curve: Curve, least: float) -> tuple[Tensor, Tensor]:
    """Largest precision with at least this recall, and its threshold."""
    precision, recall, thresholds = curve
    return _recall_or_precision(precision, recall, thresholds, least)


def _rate(wanted: Tensor, condition: Tensor, thresholds: Tensor, least: float) -> tuple[Tensor, Tensor]:
    """Of equal values that with the highest threshold is taken; a million stands for none."""
    wanted, _, thresholds = _reached(wanted, condition, thresholds, least)
    if not len(wanted):
        return wanted.new_zeros(()), thresholds.new_full((), 1e6)
    best = wanted.argmax()
    return wanted[best], thresholds[best]


def sensitivity_point(curve: Curve, least: float) -> tuple[Tensor, Tensor]:
    """Largest true positive rate with at least this specificity, and its threshold."""
    fpr, tpr, thresholds = curve
    return _rate(tpr, 1 - fpr, thresholds, least)


def specificity_point(curve: Curve, least: float) -> tuple[Tensor, Tensor]:
    """Largest specificity with at least this true positive rate, and its threshold."""
    fpr, tpr, thresholds = curve
    return _rate(1 - fpr, tpr, thresholds, least)


Point = Callable[[Curve, float], tuple[Tensor, Tensor]]


def points(
    base: Callable[..., Curve],
    point: Point,
    data: Data,
    number: int,
    at: Tensor | None,
    least: float,
    ignore_index: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The operating points of all classes: values and thresholds."""
    x, y, thresholds = curves(base, data, number, at, None, ignore_index)
    each = thresholds if isinstance(thresholds, list) else [thresholds] * number
    found = [point(curve, least) for curve in zip(x, y, each)]
    return ops.stack([value for value, _ in found]), ops.stack([t for _, t in found])


def _point_functions(
    base: Callable[..., Curve], point: Point, name: str, least_name: str, what: str
) -> tuple[Any, ...]:
    """The binary, multiclass, multilabel and general function of an operating point."""

    def binary(
        preds: Tensor,
        target: Tensor,
        least: float,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
    ) -> tuple[Tensor, Tensor]:
        check_least(least_name, least)
        return point(base(*binary_data(preds, target, thresholds, ignore_index, validate_args)), least)

    def multiclass(
        preds: Tensor,
        target: Tensor,
        num_classes: int,
        least: float,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
    ) -> tuple[Tensor, Tensor]:
        check_least(least_name, least)
        data, at = multiclass_data(preds, target, num_classes, thresholds, ignore_index, validate_args)
        return points(base, point, data, num_classes, at, least)

    def multilabel(
        preds: Tensor,
        target: Tensor,
        num_labels: int,
        least: float,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
    ) -> tuple[Tensor, Tensor]:
        check_least(least_name, least)
        data, at = multilabel_data(preds, target, num_labels, thresholds, ignore_index, validate_args)
        return points(base, point, data, num_labels, at, least, ignore_index)

    def of_task(
        preds: Tensor,
        target: Tensor,
        task: str,
        least: float,
        thresholds: Thresholds = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
    ) -> tuple[Tensor, Tensor]:
        task = task_of(task)
        rest = (least, thresholds, ignore_index, validate_args)
        if task == "binary":
            return binary(preds, target, *rest)
        if task == "multiclass":
            return multiclass(preds, target, need_number("num_classes", num_classes), *rest)
        return multilabel(preds, target, need_number("num_labels", num_labels), *rest)

    return tuple(
        _renamed(function, prefix + name, least_name, what)
        for prefix, function in (
            ("binary_", binary),
            ("multiclass_", multiclass),
            ("multilabel_", multilabel),
            ("", of_task),
        )
    )


def _renamed(function: Callable[..., Any], name: str, least_name: str, what: str) -> Callable[..., Any]:
    """The function with its condition under the name that users know (`min_recall` and the like)."""

    def named(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        if least_name in kwargs:
            kwargs["least"] = kwargs.pop(least_name)
        return function(*args, **kwargs)

    signature = inspect.signature(function)
    parameters = [p.replace(name=least_name) if p.name == "least" else p for p in signature.parameters.values()]
    named.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    named.__name__ = named.__qualname__ = name
    named.__doc__ = f"{what} (`{least_name}`), and the threshold that gives it."
    return named


(
    binary_recall_at_fixed_precision, multiclass_recall_at_fixed_precision, multilabel_recall_at_fixed_precision,
    recall_at_fixed_precision,
) = _point_functions(
    binary_curve, recall_point, "recall_at_fixed_precision", "min_precision", "Largest recall with at least this precision"
)  # fmt: skip
(
    binary_precision_at_fixed_recall, multiclass_precision_at_fixed_recall, multilabel_precision_at_fixed_recall,
    precision_at_fixed_recall,
) = _point_functions(
    binary_curve, precision_point, "precision_at_fixed_recall", "min_recall", "Largest precision with at least this recall"
)  # fmt: skip
(
    binary_sensitivity_at_specificity, multiclass_sensitivity_at_specificity, multilabel_sensitivity_at_specificity,
    sensitivity_at_specificity,
) = _point_functions(
    binary_roc_curve, sensitivity_point, "sensitivity_at_specificity", "min_specificity",
    "Largest sensitivity with at least this specificity",
)  # fmt: skip
(
    binary_specificity_at_sensitivity, multiclass_specificity_at_sensitivity, multilabel_specificity_at_sensitivity,
    specificity_at_sensitivity,
) = _point_functions(
    binary_roc_curve, specificity_point, "specificity_at_sensitivity", "min_sensitivity",
    "Largest specificity with at least this sensitivity",
)  # fmt: skip
