"""Scores of curves: areas under them, and the best operating point under a condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...._ops.registry import ops
from ...._tensor import Tensor
from ...utilities import rank_zero_warn
from ...utilities.checks import check_choice
from ...utilities.data import safe_divide
from ._curves import Curve, Data, binary_curve, binary_data, binary_roc_curve, curves, multiclass_data, multilabel_data
from ._inputs import kept_samples
from ._options import Thresholds, by_task, check_options, described, takes


def area(x: Tensor, y: Tensor) -> Tensor:
    """Area under the line through the points."""
    return ops.trapezoid(y, x)


def step_area(precision: Tensor, recall: Tensor) -> Tensor:
    """Average precision: precision summed over the steps of recall."""
    steps = recall[..., :-1] - recall[..., 1:]
    return (steps * ops.where(steps == 0, 0.0, precision[..., :-1])).sum(-1)


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
    preds, target = data
    return kept_samples(preds.reshape(-1), target.reshape(-1), ignore_index)


AREA_AVERAGES = ("macro", "weighted", "none", None)
LABEL_AREA_AVERAGES = ("micro", *AREA_AVERAGES)


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
    check_options(max_fpr=max_fpr)
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
    check_choice("average", average, AREA_AVERAGES)
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
    check_choice("average", average, LABEL_AREA_AVERAGES)
    data, at = multilabel_data(preds, target, num_labels, thresholds, ignore_index, validate_args)
    if average == "micro":
        return binary_auroc_of(flattened(data, ignore_index), at)
    return auroc_of(data, num_labels, average, at, ignore_index)


auroc = by_task(
    "Area under the ROC curve", "thresholds num_classes num_labels average max_fpr ignore_index validate_args",
    binary_auroc, multiclass_auroc, multilabel_auroc,
)  # fmt: skip


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
    check_choice("average", average, AREA_AVERAGES)
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
    check_choice("average", average, LABEL_AREA_AVERAGES)
    data, at = multilabel_data(preds, target, num_labels, thresholds, ignore_index, validate_args)
    if average == "micro":
        return binary_average_precision_of(flattened(data, ignore_index), at)
    return average_precision_of(data, num_labels, average, at, ignore_index)


average_precision = by_task(
    "Average precision", "thresholds num_classes num_labels average ignore_index validate_args",
    binary_average_precision, multiclass_average_precision, multilabel_average_precision,
)  # fmt: skip


# Operating points


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


def _point_functions(name: str, what: str, base: Callable[..., Curve], point: Point, condition: str) -> Any:
    """The binary, multiclass, multilabel and general function of an operating point under a condition."""

    def binary(preds: Tensor, target: Tensor, least: float, *options: Any) -> tuple[Tensor, Tensor]:
        check_options(**{condition: least})
        return point(base(*binary_data(preds, target, *options)), least)

    def multiclass(preds: Tensor, target: Tensor, number: int, least: float, *options: Any) -> tuple[Tensor, Tensor]:
        check_options(**{condition: least})
        data, at = multiclass_data(preds, target, number, *options)
        return points(base, point, data, number, at, least)

    def multilabel(
        preds: Tensor,
        target: Tensor,
        number: int,
        least: float,
        thresholds: Thresholds,
        ignore_index: Any,
        validate: bool,
    ) -> tuple[Tensor, Tensor]:
        check_options(**{condition: least})
        data, at = multilabel_data(preds, target, number, thresholds, ignore_index, validate)
        return points(base, point, data, number, at, least, ignore_index)

    said = f"{what} (`{condition}`), and the threshold that gives it"
    rest = "thresholds ignore_index validate_args"
    made = (
        described(binary, takes(f"preds target {condition} {rest}"), f"binary_{name}", f"{said}."),
        described(multiclass, takes(f"preds target num_classes {condition} {rest}"), f"multiclass_{name}", f"{said}."),
        described(multilabel, takes(f"preds target num_labels {condition} {rest}"), f"multilabel_{name}", f"{said}."),
    )
    return *made, by_task(said, f"{condition} thresholds num_classes num_labels ignore_index validate_args", *made)


(
    binary_recall_at_fixed_precision, multiclass_recall_at_fixed_precision, multilabel_recall_at_fixed_precision,
    recall_at_fixed_precision,
) = _point_functions(
    "recall_at_fixed_precision", "Largest recall with at least this precision", binary_curve, recall_point,
    "min_precision",
)  # fmt: skip
(
    binary_precision_at_fixed_recall, multiclass_precision_at_fixed_recall, multilabel_precision_at_fixed_recall,
    precision_at_fixed_recall,
) = _point_functions(
    "precision_at_fixed_recall", "Largest precision with at least this recall", binary_curve, precision_point,
    "min_recall",
)  # fmt: skip
(
    binary_sensitivity_at_specificity, multiclass_sensitivity_at_specificity, multilabel_sensitivity_at_specificity,
    sensitivity_at_specificity,
) = _point_functions(
    "sensitivity_at_specificity", "Largest sensitivity with at least this specificity", binary_roc_curve,
    sensitivity_point, "min_specificity",
)  # fmt: skip
(
    binary_specificity_at_sensitivity, multiclass_specificity_at_sensitivity, multilabel_specificity_at_sensitivity,
    specificity_at_sensitivity,
) = _point_functions(
    "specificity_at_sensitivity", "Largest specificity with at least this sensitivity", binary_roc_curve,
    specificity_point, "min_sensitivity",
)  # fmt: skip
