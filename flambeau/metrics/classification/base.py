"""Base of the classes that only choose: `Accuracy(task="binary")` makes a `BinaryAccuracy`."""

from __future__ import annotations

from typing import Any

from ..functional.classification._inputs import need_number as need_number
from ..functional.classification._inputs import task_of as task_of
from ..metric import Metric


class TaskMetric(Metric):
    """Never has instances: `__new__` of the subclass gives the metric of the task."""

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Only the metric of a task has data."""
        raise NotImplementedError(f"{type(self).__name__} only makes the metric of a task")

    def compute(self) -> Any:
        """Only the metric of a task has a figure."""
        raise NotImplementedError(f"{type(self).__name__} only makes the metric of a task")
