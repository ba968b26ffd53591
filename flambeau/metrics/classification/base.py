"""Bases of the classification metrics: their arguments are options of one table, named in the order of the signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..._tensor import Tensor
from ..functional.classification._checks import task_of
from ..functional.classification._inputs import AVERAGES, check_binary, check_multiclass, check_multilabel
from ..functional.classification._options import bound, check_options, options_for
from ..metric import Metric
from ..utilities.checks import check_choice

_FLAGS = inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD, annotation=Any)


def _described(function: Callable[..., Any], options: inspect.Signature, name: str, owner: type, returns: Any) -> Any:
    """The function, told as one with these options and the flags that every metric takes."""
    first = inspect.Parameter("self" if name == "__init__" else "cls", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [first, *options.parameters.values(), _FLAGS]
    function.__signature__ = inspect.Signature(parameters, return_annotation=returns)  # type: ignore[attr-defined]
    function.__annotations__ = {p.name: p.annotation for p in parameters[1:]} | {"return": returns}
    function.__name__, function.__qualname__ = name, f"{owner.__qualname__}.{name}"
    function.__module__ = owner.__module__
    return function


class ClassificationMetric(Metric):
    """A metric of one task: a class names its options with `_takes`, and finds their values as its attributes.

    `_check` looks at options where that is wanted, `_declare` adds the states.
    """

    is_differentiable = False
    full_state_update = False
    _task: str
    _takes: inspect.Signature
    _averages: tuple[Any, ...] = AVERAGES
    average: str | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "_takes" not in cls.__dict__:
            return
        options = cls._takes

        def initialize(self: ClassificationMetric, *args: Any, **kwargs: Any) -> None:
            flags = {name: kwargs.pop(name) for name in [*kwargs] if name not in options.parameters}
            super().__init__(**flags)
            given = bound(options, args, kwargs)
            for name, value in given.items():
                setattr(self, name, value)
            if self.validate_args:
                self._check(given)
            self._declare()

        cls.__init__ = _described(initialize, options, "__init__", cls, None)  # type: ignore[method-assign]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} names no options")

    def _check(self, options: dict[str, Any]) -> None:
        check_options(**options)
        if "average" in options:
            check_choice("average", options["average"], self._averages)

    def _declare(self) -> None:
        raise NotImplementedError

    def _check_data(self, preds: Tensor, target: Tensor, scores: bool = False) -> None:
        """Checks a batch, where that is wanted; `scores` says that labels will not do as predictions."""
        if not self.validate_args:
            return
        if self._task == "binary":
            check_binary(preds, target, self.ignore_index)
        elif self._task == "multiclass":
            check_multiclass(preds, target, self.num_classes, self.ignore_index, scores)
        else:
            check_multilabel(preds, target, self.num_labels, self.ignore_index)


class TaskMetric(Metric):
    """Never has instances: `Accuracy(task="binary")` makes a `BinaryAccuracy`, the one of `_metrics` for that task."""

    _takes: inspect.Signature
    _metrics: tuple[type[ClassificationMetric], ...]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "_takes" not in cls.__dict__:
            return
        options = cls._takes

        def choose(cls: type[TaskMetric], /, *args: Any, **kwargs: Any) -> Metric:
            others = {name: kwargs.pop(name) for name in [*kwargs] if name not in options.parameters}
            given = bound(options, args, kwargs)
            tasks = {metric._task: metric for metric in cls._metrics}
            metric = tasks[task_of(given["task"], tuple(tasks))]
            return metric(**options_for(metric._takes.parameters, given), **others)

        cls.__new__ = staticmethod(_described(choose, options, "__new__", cls, Metric))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} only makes the metric of a task")

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Only the metric of a task has data."""
        raise NotImplementedError(f"{type(self).__name__} only makes the metric of a task")

    def compute(self) -> Any:
        """Only the metric of a task has a figure."""
        raise NotImplementedError(f"{type(self).__name__} only makes the metric of a task")
