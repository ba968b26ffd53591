"""Tests with parameters: `parametrize` marks a method of a class, `instantiate_parametrized_tests` makes one test of each set of values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..._core.devices import device as _device
from ..._core.dtypes import dtype as _dtype

__all__ = ["instantiate_parametrized_tests", "parametrize", "subtest"]


class subtest:
    """Values of one test, which may have a name and decorators of its own."""

    def __init__(self, arg_values: Any, name: str | None = None, decorators: Any = None) -> None:
        self.arg_values, self.name, self.decorators = arg_values, name, list(decorators or ())


class parametrize:
    """Marks a test that runs for each of the values.

    >>> import unittest
    >>> from flambeau.testing._internal.common_utils import instantiate_parametrized_tests, parametrize
    >>> @instantiate_parametrized_tests
    ... class TestSums(unittest.TestCase):
    ...     @parametrize("x,y", [(1, 2), (0.5, 3)])
    ...     def test_sum(self, x, y):
    ...         self.assertEqual(x + y, y + x)
    >>> [name for name in vars(TestSums) if name.startswith("test")]
    ['test_sum_x_1_y_2', 'test_sum_x_0_5_y_3']
    """

    def __init__(self, arg_str: str, arg_values: Iterable[Any], name_fn: Callable[..., str] | None = None) -> None:
        self.names = [name.strip() for name in arg_str.split(",") if name.strip()]
        self.values, self.name_fn = arg_values, name_fn

    def __call__(self, function: Any) -> Any:
        function.parameters = [self, *getattr(function, "parameters", ())]
        return function

    def sets(self, test: str) -> Iterator[tuple[str, dict[str, Any], list[Any]]]:
        """Name, arguments and decorators of each set of values."""
        found = list(self.values)
        if not found:
            raise ValueError(f"{test}: An empty arg_values was passed to @parametrize: no test would run")
        for number, one in enumerate(found):
            given = one if isinstance(one, subtest) else subtest(one)
            values = list(given.arg_values) if len(self.names) > 1 else [given.arg_values]
            if len(values) != len(self.names):
                raise RuntimeError(
                    f"{test}: Expected # values == # arg names, but got: {len(values)} values and {len(self.names)} names"
                )
            if given.name is not None:
                name = given.name
            elif self.name_fn is not None:
                name = self.name_fn(*values)
            else:
                name = "_".join([_shown(n, v, number) for n, v in zip(self.names, values)])
            yield name, dict(zip(self.names, values)), given.decorators


def _shown(name: str, value: Any, number: int) -> str:
    """A value as a part of a test's name."""
    if isinstance(value, _dtype):
        return value.name
    if isinstance(value, _device):
        return str(value)
    shown = f"{name}_{value}" if isinstance(value, (bool, int, float, str)) else f"{name}{number}"
    return shown.replace(".", "_")


def _made(parameters: list[parametrize], test: str) -> Iterator[tuple[list[str], dict[str, Any], list[Any]]]:
    """The sets of all marks, those of the outermost running fastest."""
    if not parameters:
        yield [], {}, []
        return
    first, *others = parameters
    for names, given, decorators in _made(others, test):
        for name, values, more in first.sets(test):
            yield [name, *names], {**values, **given}, [*decorators, *more]


def _test(function: Any, name: str, given: dict[str, Any]) -> Any:
    @functools.wraps(function)
    def run(self: Any, *args: Any, **named: Any) -> Any:
        return function(self, *args, **given, **named)

    del run.__wrapped__  # whose arguments nobody gives: pytest would look for them
    run.__name__ = run.__qualname__ = name
    return run


def instantiate_parametrized_tests(generic_cls: Any) -> Any:
    """Puts one test for each set of values in the place of tests that `parametrize` marks; gives the class back."""
    for name in sorted(vars(generic_cls)):
        function = vars(generic_cls)[name]
        parameters = getattr(function, "parameters", None)
        if not name.startswith("test") or not parameters:
            continue
        delattr(generic_cls, name)
        for names, given, decorators in _made(parameters, name):
            made = "_".join([name, *names])
            if made in vars(generic_cls):
                raise RuntimeError(f"Redefinition of test {made}: two sets of values have one name")
            test = _test(function, made, given)
            for decorate in decorators:
                test = decorate(test)
            setattr(generic_cls, made, test)
    return generic_cls
