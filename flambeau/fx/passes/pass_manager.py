"""The older `PassManager`: functions from a module to a module, one after the other."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any

from .infra.pass_manager import _validate_pass_schedule_constraint, this_before_that_pass_constraint

__all__ = [
    "PassManager", "inplace_wrapper", "log_hook", "loop_pass", "these_before_those_pass_constraint",
    "this_before_that_pass_constraint",
]  # fmt: skip

logger = logging.getLogger(__name__)


def inplace_wrapper(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A pass that gives its module, for one that changes it and gives nothing."""

    @wraps(fn)
    def wrapped(gm: Any, *args: Any, **kwargs: Any) -> Any:
        fn(gm, *args, **kwargs)
        return gm

    return wrapped


def log_hook(fn: Callable[..., Any], level: int = logging.INFO) -> Callable[..., Any]:
    """A pass that also logs what it gives."""

    @wraps(fn)
    def wrapped(gm: Any) -> Any:
        result = fn(gm)
        logger.log(level, "Ran pass %s\t Return value: %s", fn, result)
        return result

    return wrapped


def loop_pass(
    base_pass: Callable[[Any], Any], n_iter: int | None = None, predicate: Callable[[Any], bool] | None = None
) -> Callable[[Any], Any]:
    """A pass that runs several times, or as long as a function of its result says."""
    if (n_iter is None) == (predicate is None):
        raise AssertionError("Exactly one of `n_iter`or `predicate` must be specified.")

    @wraps(base_pass)
    def looped(source: Any) -> Any:
        output = source
        if n_iter is not None:
            for _ in range(n_iter):
                output = base_pass(output)
            return output
        assert predicate is not None
        while predicate(output):
            output = base_pass(output)
        return output

    return looped


def these_before_those_pass_constraint(these: Any, those: Any) -> Callable[[Any, Any], bool]:
    """The constraint that passes that `these` wraps come before those that `those` wraps."""

    def allows(a: Any, b: Any) -> bool:
        return not (_inner(a) == those and _inner(b) == these)

    def _inner(f: Any) -> Any:
        return getattr(f, "__wrapped__", f)

    return allows


class PassManager:
    """Calls functions of a module one after the other, each with what the one before gave.

    >>> from flambeau.fx.passes.pass_manager import PassManager
    >>> PassManager([lambda x: x + 1, lambda x: 2 * x])(1)
    4
    """

    def __init__(self, passes: list[Any] | None = None, constraints: list[Any] | None = None) -> None:
        self.passes, self.constraints = list(passes or ()), list(constraints or ())
        self._validated = False

    @classmethod
    def build_from_passlist(cls, passes: list[Any]) -> PassManager:
        """A manager of these passes."""
        return cls(passes)

    def add_pass(self, _pass: Any) -> None:
        """Adds a pass at the end."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Any) -> None:
        """Adds a constraint: whether one pass may come before another."""
        self.constraints.append(constraint)
        self._validated = False

    def remove_pass(self, _passes: list[str]) -> None:
        """Removes the passes of these names."""
        self.passes = [p for p in self.passes if p.__name__ not in _passes]
        self._validated = False

    def replace_pass(self, _target: Any, _replacement: Any) -> None:
        """Takes another pass instead of one."""
        self.passes = [_replacement if p.__name__ == _target.__name__ else p for p in self.passes]
        self._validated = False

    def validate(self) -> None:
        """Raises if the passes are in an order that a constraint forbids."""
        if not self._validated:
            for constraint in self.constraints:
                _validate_pass_schedule_constraint(constraint, self.passes)
            self._validated = True

    def __call__(self, source: Any) -> Any:
        self.validate()
        for fn in self.passes:
            source = fn(source)
        return source
