"""Operating points on curves as metrics: the best value under a condition, and the threshold that gives it."""

from __future__ import annotations

from typing import Any

from ..._tensor import Tensor
from ..functional.classification._areas import (
    check_least,
    points,
    precision_point,
    recall_point,
    sensitivity_point,
    specificity_point,
)
from ..functional.classification._curves import binary_curve, binary_roc_curve
from ..metric import Metric
from ._curves import (
    BinaryPrecisionRecallCurve,
    MulticlassPrecisionRecallCurve,
    MultilabelPrecisionRecallCurve,
    Thresholds,
    _Area,
    _CurveTask,
)


class _Point(_Area):
    """An operating point: the condition's name differs, its place in the signature does not."""

    _least: str  # name of the condition, as users write it
    _point = staticmethod(recall_point)

    def _set_least(self, value: Any) -> None:
        check_least(self._least, value)
        setattr(self, self._least, value)

    def _wanted(self) -> float:
        return getattr(self, self._least)


def _condition(name: str, first: Any, kwargs: dict[str, Any]) -> Any:
    """The condition, given in its place or by its name."""
    if name in kwargs:
        return kwargs.pop(name)
    if first is None:
        raise TypeError(f"missing required argument: '{name}'")
    return first


class _BinaryPoint(_Point, BinaryPrecisionRecallCurve):
    def __init__(
        self,
        least: float | None = None,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        least = _condition(self._least, least, kwargs)
        super().__init__(thresholds, ignore_index, validate_args, **kwargs)
        self._set_least(least)

    def compute(self) -> tuple[Tensor, Tensor]:
        """The value and its threshold."""
        return self._point(self._base(self._data(), self.thresholds), self._wanted())


class _MulticlassPoint(_Point, MulticlassPrecisionRecallCurve):
    def __init__(
        self,
        num_classes: int,
        least: float | None = None,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        least = _condition(self._least, least, kwargs)
        super().__init__(num_classes, thresholds, None, ignore_index, validate_args, **kwargs)
        self._set_least(least)

    def compute(self) -> tuple[Tensor, Tensor]:
        """The values and their thresholds."""
        return points(self._base, self._point, self._data(), self.num_classes, self.thresholds, self._wanted())


class _MultilabelPoint(_Point, MultilabelPrecisionRecallCurve):
    def __init__(
        self,
        num_labels: int,
        least: float | None = None,
        thresholds: Thresholds = None,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        least = _condition(self._least, least, kwargs)
        super().__init__(num_labels, thresholds, ignore_index, validate_args, **kwargs)
        self._set_least(least)

    def compute(self) -> tuple[Tensor, Tensor]:
        """The values and their thresholds."""
        data = self._data()
        return points(
            self._base, self._point, data, self.num_labels, self.thresholds, self._wanted(), self.ignore_index
        )


class _PointTask(_CurveTask):
    def __new__(cls, task: str, least: float | None = None, *args: Any, **kwargs: Any) -> Metric:  # type: ignore[misc]
        least = _condition(cls._binary._least, least, kwargs)  # type: ignore[attr-defined]
        return super().__new__(cls, task, *args, least=least, **kwargs)


class _RecallPoint:
    _least, _point, _base = "min_precision", staticmethod(recall_point), staticmethod(binary_curve)


class BinaryRecallAtFixedPrecision(_RecallPoint, _BinaryPoint):
    """Largest recall with at least the precision `min_precision`, and its threshold."""


class MulticlassRecallAtFixedPrecision(_RecallPoint, _MulticlassPoint):
    """Largest recall of each class with at least the precision `min_precision`, and the thresholds."""


class MultilabelRecallAtFixedPrecision(_RecallPoint, _MultilabelPoint):
    """Largest recall of each label with at least the precision `min_precision`, and the thresholds."""


class RecallAtFixedPrecision(_PointTask):
    """Largest recall with at least the precision `min_precision`; makes the metric of the `task`."""

    _binary, _multiclass = BinaryRecallAtFixedPrecision, MulticlassRecallAtFixedPrecision
    _multilabel = MultilabelRecallAtFixedPrecision


class _PrecisionPoint:
    _least, _point, _base = "min_recall", staticmethod(precision_point), staticmethod(binary_curve)


class BinaryPrecisionAtFixedRecall(_PrecisionPoint, _BinaryPoint):
    """Largest precision with at least the recall `min_recall`, and its threshold."""


class MulticlassPrecisionAtFixedRecall(_PrecisionPoint, _MulticlassPoint):
    """Largest precision of each class with at least the recall `min_recall`, and the thresholds."""


class MultilabelPrecisionAtFixedRecall(_PrecisionPoint, _MultilabelPoint):
    """Largest precision of each label with at least the recall `min_recall`, and the thresholds."""


class PrecisionAtFixedRecall(_PointTask):
    """Largest precision with at least the recall `min_recall`; makes the metric of the `task`."""

    _binary, _multiclass = BinaryPrecisionAtFixedRecall, MulticlassPrecisionAtFixedRecall
    _multilabel = MultilabelPrecisionAtFixedRecall


class _SensitivityPoint:
    _least, _point, _base = "min_specificity", staticmethod(sensitivity_point), staticmethod(binary_roc_curve)


class BinarySensitivityAtSpecificity(_SensitivityPoint, _BinaryPoint):
    """Largest sensitivity with at least the specificity `min_specificity`, and its threshold."""


class MulticlassSensitivityAtSpecificity(_SensitivityPoint, _MulticlassPoint):
    """Largest sensitivity of each class with at least the specificity `min_specificity`, and the thresholds."""


class MultilabelSensitivityAtSpecificity(_SensitivityPoint, _MultilabelPoint):
    """Largest sensitivity of each label with at least the specificity `min_specificity`, and the thresholds."""


class SensitivityAtSpecificity(_PointTask):
    """Largest sensitivity with at least the specificity `min_specificity`; makes the metric of the `task`."""

    _binary, _multiclass = BinarySensitivityAtSpecificity, MulticlassSensitivityAtSpecificity
    _multilabel = MultilabelSensitivityAtSpecificity


class _SpecificityPoint:
    _least, _point, _base = "min_sensitivity", staticmethod(specificity_point), staticmethod(binary_roc_curve)


class BinarySpecificityAtSensitivity(_SpecificityPoint, _BinaryPoint):
    """Largest specificity with at least the sensitivity `min_sensitivity`, and its threshold."""


class MulticlassSpecificityAtSensitivity(_SpecificityPoint, _MulticlassPoint):
    """Largest specificity of each class with at least the sensitivity `min_sensitivity`, and the thresholds."""


class MultilabelSpecificityAtSensitivity(_SpecificityPoint, _MultilabelPoint):
    """Largest specificity of each label with at least the sensitivity `min_sensitivity`, and the thresholds."""


class SpecificityAtSensitivity(_PointTask):
    """Largest specificity with at least the sensitivity `min_sensitivity`; makes the metric of the `task`."""

    _binary, _multiclass = BinarySpecificityAtSensitivity, MulticlassSpecificityAtSensitivity
    _multilabel = MultilabelSpecificityAtSensitivity
