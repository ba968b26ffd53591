"""Decorators of pipes: as methods of others, as not deterministic, and with checked samples."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from .datapipe import IterDataPipe, MapDataPipe, element_type


class functional_datapipe:
    """Makes a class of pipes a method of all pipes of its kind.

    >>> from flambeau.utils.data import IterDataPipe, functional_datapipe
    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
    >>> @functional_datapipe("doubled_in_this_example")
    ... class Doubled(IterDataPipe):
    ...     def __init__(self, source):
    ...         self.source = source
    ...     def __iter__(self):
    ...         return (2 * sample for sample in self.source)
    >>> list(IterableWrapper([1, 2]).doubled_in_this_example())
    [2, 4]
    """

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name, self.enable_df_api_tracing = name, enable_df_api_tracing

    def __call__(self, cls: Any) -> Any:
        for kind in (IterDataPipe, MapDataPipe):
            if issubclass(cls, kind):
                kind.register_datapipe_as_function(self.name, cls, self.enable_df_api_tracing)
        return cls


_determinism = False


class guaranteed_datapipes_determinism:
    """A block in which pipes that are not deterministic cannot be made."""

    def __init__(self) -> None:
        global _determinism
        self.prev, _determinism = _determinism, True

    def __enter__(self) -> None:
        pass

    def __exit__(self, *problem: object) -> None:
        global _determinism
        _determinism = self.prev


class non_deterministic:
    """Marks a class of pipes as not deterministic: always, or when a function of its arguments says so."""

    def __init__(self, arg: Any) -> None:
        self.cls: Any = None
        self.decides: Callable[..., bool] = lambda *args, **kwargs: True
        if inspect.isclass(arg) and issubclass(arg, IterDataPipe):
            self.cls = arg
        elif callable(arg) and not inspect.isclass(arg):
            self.decides = arg
        else:
            raise TypeError(f"non_deterministic decorates a class of iterable pipes, but got {arg!r}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.cls is not None:
            return self._made(*args, **kwargs)
        if not (len(args) == 1 and inspect.isclass(args[0]) and issubclass(args[0], IterDataPipe)):
            raise TypeError(f"non_deterministic decorates a class of iterable pipes, but got {args!r}")
        self.cls = args[0]
        return self._made

    def _made(self, *args: Any, **kwargs: Any) -> Any:
        if _determinism and self.decides(*args, **kwargs):
            raise TypeError(f"{self.cls.__name__} is not deterministic, which was ruled out here")
        return self.cls(*args, **kwargs)


def argument_validation(f: Callable[..., Any]) -> Callable[..., Any]:
    """Checks that arguments declared as pipes are pipes."""
    signature = inspect.signature(f)
    kinds = {
        "IterDataPipe": IterDataPipe,
        "MapDataPipe": MapDataPipe,
        IterDataPipe: IterDataPipe,
        MapDataPipe: MapDataPipe,
    }
    wanted = {name: kinds[p.annotation] for name, p in signature.parameters.items() if p.annotation in kinds}

    @functools.wraps(f)
    def checked(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        for name, kind in wanted.items():
            if name in given and not isinstance(given[name], kind):
                raise TypeError(f"{f.__qualname__}: expected {name} to be a {kind.__name__}, got {given[name]!r}")
        return f(*args, **kwargs)

    return checked


_validation = True


class runtime_validation_disabled:
    """A block in which `runtime_validation` checks nothing."""

    def __init__(self) -> None:
        global _validation
        self.prev, _validation = _validation, False

    def __enter__(self) -> None:
        pass

    def __exit__(self, *problem: object) -> None:
        global _validation
        _validation = self.prev


def runtime_validation(f: Callable[..., Any]) -> Callable[..., Any]:
    """Checks that an `__iter__` gives samples of the type in `IterDataPipe[type]`."""

    @functools.wraps(f)
    def checked(self: Any) -> Iterator[Any]:
        kind = element_type(self)
        for sample in f(self):
            if _validation and kind is not None and not isinstance(sample, kind):
                raise RuntimeError(f"{type(self).__name__}: expected {kind.__name__}, got {sample!r}")
            yield sample

    return checked
