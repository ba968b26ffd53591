"""Contexts that are decorators too."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["context_decorator"]


def context_decorator(ctx: Any, func: Any) -> Any:
    """A function (or all methods' generator steps) that runs inside a fresh context each time.

    `ctx` makes contexts, or is one that is used again.
    """
    again: Callable[[], Any] = ctx if callable(ctx) and not hasattr(ctx, "__enter__") else lambda: ctx
    if inspect.isclass(func):
        raise RuntimeError(f"Cannot decorate classes; decorate the methods of {func.__name__} instead")
    if inspect.isgeneratorfunction(func):
        return _stepwise(again, func)

    @functools.wraps(func)
    def inside(*args: Any, **named: Any) -> Any:
        with again():
            return func(*args, **named)

    return inside


def _stepwise(again: Callable[[], Any], func: Any) -> Any:
    """The context holds while the generator runs, not while its consumer does."""

    @functools.wraps(func)
    def inside(*args: Any, **named: Any) -> Any:
        generator = func(*args, **named)
        step: Callable[[], Any] = functools.partial(next, generator)
        while True:
            try:
                with again():
                    value = step()
            except StopIteration as end:
                return end.value
            try:
                sent = yield value
                step = functools.partial(generator.send, sent)
            except GeneratorExit:
                with again():
                    generator.close()
                raise
            except BaseException as error:
                step = functools.partial(generator.throw, error)

    return inside


class _DecoratorContextManager:
    """A base of contexts: an instance also decorates functions."""

    def __call__(self, orig_func: Any) -> Any:
        return context_decorator(self.clone, orig_func)

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> Any:
        raise NotImplementedError

    def clone(self) -> Any:
        """Another context of the same kind."""
        return self.__class__()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """The same for contexts without arguments: the class itself decorates, too."""

    def __new__(cls, orig_func: Any = None) -> Any:
        made = super().__new__(cls)
        return made if orig_func is None else made(orig_func)
