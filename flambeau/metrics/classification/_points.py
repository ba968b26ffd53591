"""Operating points on curves as metrics: the best value under a condition, and the threshold that gives it."""

from __future__ import annotations

from collections.abc import Callable

from ..._tensor import Tensor
from ..functional.classification._areas import (
    points,
    precision_point,
    recall_point,
    sensitivity_point,
    specificity_point,
)
from ..functional.classification._curves import binary_curve, binary_roc_curve
from ..functional.classification._options import check_options, takes, takes_task
from ._curves import Area, BinaryPrecisionRecallCurve, MulticlassPrecisionRecallCurve, MultilabelPrecisionRecallCurve
from .base import TaskMetric

_OPTIONS = "thresholds ignore_index validate_args"
_OF_TASK = "thresholds num_classes num_labels ignore_index validate_args"


class _Point(Area):
    """An operating point on the curve `_base`."""

    _condition: str  # the option that says how much is needed
    _point: Callable[..., tuple[Tensor, Tensor]]

    def _declare(self) -> None:
        check_options(**{self._condition: self._least})
        super()._declare()

    @property
    def _least(self) -> float:
        return getattr(self, self._condition)


class _BinaryPoint(_Point, BinaryPrecisionRecallCurve):
    def compute(self) -> tuple[Tensor, Tensor]:
        """The value and its threshold."""
        return self._point(self._base(self._data(), self.thresholds), self._least)


class _MulticlassPoint(_Point, MulticlassPrecisionRecallCurve):
    def compute(self) -> tuple[Tensor, Tensor]:
        """The values and their thresholds."""
        return points(self._base, self._point, self._data(), self.num_classes, self.thresholds, self._least)


class _MultilabelPoint(_Point, MultilabelPrecisionRecallCurve):
    def compute(self) -> tuple[Tensor, Tensor]:
        """The values and their thresholds."""
        data = self._data()
        return points(self._base, self._point, data, self.num_labels, self.thresholds, self._least, self.ignore_index)


class _RecallPoint:
    _condition, _point, _base = "min_precision", staticmethod(recall_point), staticmethod(binary_curve)


class BinaryRecallAtFixedPrecision(_RecallPoint, _BinaryPoint):
    """Largest recall with at least the precision `min_precision`, and its threshold."""

    _takes = takes(f"min_precision {_OPTIONS} normalization")


class MulticlassRecallAtFixedPrecision(_RecallPoint, _MulticlassPoint):
    """Largest recall of each class with at least the precision `min_precision`, and the thresholds."""

    _takes = takes(f"num_classes min_precision {_OPTIONS}")


class MultilabelRecallAtFixedPrecision(_RecallPoint, _MultilabelPoint):
    """Largest recall of each label with at least the precision `min_precision`, and the thresholds."""

    _takes = takes(f"num_labels min_precision {_OPTIONS}")


class RecallAtFixedPrecision(TaskMetric):
    """Largest recall with at least the precision `min_precision`; makes the metric of the `task`.

    >>> import flambeau as torch
    >>> metric = RecallAtFixedPrecision(task="binary", min_precision=0.5)
    >>> metric(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
    (tensor(1.), tensor(0.3500))
    """

    _takes = takes_task(f"min_precision {_OF_TASK}")
    _metrics = (BinaryRecallAtFixedPrecision, MulticlassRecallAtFixedPrecision, MultilabelRecallAtFixedPrecision)


class _PrecisionPoint:
    _condition, _point, _base = "min_recall", staticmethod(precision_point), staticmethod(binary_curve)


class BinaryPrecisionAtFixedRecall(_PrecisionPoint, _BinaryPoint):
    """Largest precision with at least the recall `min_recall`, and its threshold."""

    _takes = takes(f"min_recall {_OPTIONS} normalization")


class MulticlassPrecisionAtFixedRecall(_PrecisionPoint, _MulticlassPoint):
    """Largest precision of each class with at least the recall `min_recall`, and the thresholds."""

    _takes = takes(f"num_classes min_recall {_OPTIONS}")


class MultilabelPrecisionAtFixedRecall(_PrecisionPoint, _MultilabelPoint):
    """Largest precision of each label with at least the recall `min_recall`, and the thresholds."""

    _takes = takes(f"num_labels min_recall {_OPTIONS}")


class PrecisionAtFixedRecall(TaskMetric):
    """Largest precision with at least the recall `min_recall`; makes the metric of the `task`.

    >>> import flambeau as torch
    >>> metric = PrecisionAtFixedRecall(task="binary", min_recall=0.5)
    >>> metric(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
    (tensor(1.), tensor(0.8000))
    """

    _takes = takes_task(f"min_recall {_OF_TASK}")
    _metrics = (BinaryPrecisionAtFixedRecall, MulticlassPrecisionAtFixedRecall, MultilabelPrecisionAtFixedRecall)


class _SensitivityPoint:
    _condition, _point, _base = "min_specificity", staticmethod(sensitivity_point), staticmethod(binary_roc_curve)


class BinarySensitivityAtSpecificity(_SensitivityPoint, _BinaryPoint):
    """Largest sensitivity with at least the specificity `min_specificity`, and its threshold."""

    _takes = takes(f"min_specificity {_OPTIONS} normalization")


class MulticlassSensitivityAtSpecificity(_SensitivityPoint, _MulticlassPoint):
    """Largest sensitivity of each class with at least the specificity `min_specificity`, and the thresholds."""

    _takes = takes(f"num_classes min_specificity {_OPTIONS}")


class MultilabelSensitivityAtSpecificity(_SensitivityPoint, _MultilabelPoint):
    """Largest sensitivity of each label with at least the specificity `min_specificity`, and the thresholds."""

    _takes = takes(f"num_labels min_specificity {_OPTIONS}")


class SensitivityAtSpecificity(TaskMetric):
    """Largest sensitivity with at least the specificity `min_specificity`; makes the metric of the `task`.

    >>> import flambeau as torch
    >>> metric = SensitivityAtSpecificity(task="binary", min_specificity=0.5)
    >>> metric(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
    (tensor(1.), tensor(0.3500))
    """

    _takes = takes_task(f"min_specificity {_OF_TASK}")
    _metrics = (BinarySensitivityAtSpecificity, MulticlassSensitivityAtSpecificity, MultilabelSensitivityAtSpecificity)


class _SpecificityPoint:
    _condition, _point, _base = "min_sensitivity", staticmethod(specificity_point), staticmethod(binary_roc_curve)


class BinarySpecificityAtSensitivity(_SpecificityPoint, _BinaryPoint):
    """Largest specificity with at least the sensitivity `min_sensitivity`, and its threshold."""

    _takes = takes(f"min_sensitivity {_OPTIONS} normalization")


class MulticlassSpecificityAtSensitivity(_SpecificityPoint, _MulticlassPoint):
    """Largest specificity of each class with at least the sensitivity `min_sensitivity`, and the thresholds."""

    _takes = takes(f"num_classes min_sensitivity {_OPTIONS}")


class MultilabelSpecificityAtSensitivity(_SpecificityPoint, _MultilabelPoint):
    """Largest specificity of each label with at least the sensitivity `min_sensitivity`, and the thresholds."""

    _takes = takes(f"num_labels min_sensitivity {_OPTIONS}")


class SpecificityAtSensitivity(TaskMetric):
    """Largest specificity with at least the sensitivity `min_sensitivity`; makes the metric of the `task`.

    >>> import flambeau as torch
    >>> metric = SpecificityAtSensitivity(task="binary", min_sensitivity=0.5)
    >>> metric(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
    (tensor(1.), tensor(0.8000))
    """

    _takes = takes_task(f"min_sensitivity {_OF_TASK}")
    _metrics = (BinarySpecificityAtSensitivity, MulticlassSpecificityAtSensitivity, MultilabelSpecificityAtSensitivity)
