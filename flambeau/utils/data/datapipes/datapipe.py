"""The base classes of pipes, the registry of their steps as methods, and `DataChunk`."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, TypeVar

from ..dataset import Dataset, IterableDataset

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class _Steps:
    """What both kinds of pipes have: registered steps are found as methods."""

    functions: ClassVar[dict[str, Callable[..., Any]]]
    reduce_ex_hook: ClassVar[Callable[..., Any] | None] = None
    getstate_hook: ClassVar[Callable[..., Any] | None] = None

    def __getattr__(self, name: str) -> Any:
        step = type(self).functions.get(name)
        if step is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return functools.update_wrapper(functools.partial(step, self), step)

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: Any, enable_df_api_tracing: bool = False
    ) -> None:
        """Makes a class of pipes a method of all pipes of this kind."""
        if function_name in cls.functions:
            raise Exception(f"there is already a step {function_name!r}")

        @functools.wraps(cls_to_register, updated=())
        def step(source: Any, *args: Any, **kwargs: Any) -> Any:
            return cls_to_register(source, *args, **kwargs)

        cls.functions[function_name] = step

    def __getstate__(self) -> Any:
        hook = type(self).getstate_hook
        return self.__dict__ if hook is None else hook(self.__dict__)

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)

    def __reduce_ex__(self, protocol: Any) -> Any:
        hook = type(self).reduce_ex_hook
        if hook is not None:
            try:
                return hook(self)
            except NotImplementedError:
                pass
        return super().__reduce_ex__(protocol)

    @classmethod
    def set_getstate_hook(cls, hook_fn: Any) -> None:
        if cls.getstate_hook is not None and hook_fn is not None:
            raise RuntimeError("there is already a getstate_hook")
        cls.getstate_hook = hook_fn

    @classmethod
    def set_reduce_ex_hook(cls, hook_fn: Any) -> None:
        if cls.reduce_ex_hook is not None and hook_fn is not None:
            raise RuntimeError("there is already a reduce_ex_hook")
        cls.reduce_ex_hook = hook_fn

    def __repr__(self) -> str:
        return type(self).__qualname__

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *type(self).functions]


class IterDataPipe(_Steps, IterableDataset[_T_co]):
    """A stream of samples made from other streams: subclasses define `__iter__`.

    A pipe has one reader at a time: a new iterator makes the one before it invalid.

    >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(5)).filter(lambda n: n % 2 == 0).map(lambda n: n * 10))
    [0, 20, 40]
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}
    _valid_iterator_id: int = 0
    _number_of_samples_yielded: int = 0

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__iter__" in vars(cls):
            cls.__iter__ = _with_one_reader(cls.__iter__)  # type: ignore[method-assign]

    def __iter__(self) -> Iterator[_T_co]:
        return self

    def reset(self) -> None:
        """Called when a new iterator is made: subclasses put themselves back to the beginning."""


def _with_one_reader(function: Callable[..., Any]) -> Callable[..., Any]:
    """An `__iter__` that resets its pipe, counts, and ends the iterators before it."""

    @functools.wraps(function)
    def begin(self: Any) -> Any:
        self._valid_iterator_id += 1
        self._number_of_samples_yielded = 0
        self.reset()
        made = function(self)
        return made if made is self else _read(self, made, self._valid_iterator_id)

    return begin


def _read(pipe: Any, samples: Iterator[Any], number: int) -> Iterator[Any]:
    for sample in samples:
        if pipe._valid_iterator_id != number:
            raise RuntimeError(
                "This iterator has been invalidated because another iterator has been created from the same "
                f"pipe, {pipe!r}: make a pipe for each reader"
            )
        pipe._number_of_samples_yielded += 1
        yield sample


class DFIterDataPipe(IterDataPipe[Any]):
    """A stream of data frames."""

    def _is_dfpipe(self) -> bool:
        return True


class MapDataPipe(_Steps, Dataset[_T_co]):
    """Samples found by a key, made from others: subclasses define `__getitem__`.

    >>> from flambeau.utils.data.datapipes.map import SequenceWrapper
    >>> SequenceWrapper(["a", "b"]).map(str.upper)[1]
    'B'
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}


class DataChunk(list[_T]):
    """Samples that belong together: what `batch` makes and `unbatch` takes apart."""

    def __init__(self, items: Iterable[_T]) -> None:
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent: str = "") -> str:
        return indent + "[" + ", ".join(map(str, iter(self))) + "]"

    def __iter__(self) -> Iterator[_T]:
        yield from super().__iter__()

    def raw_iterator(self) -> Iterator[_T]:
        yield from self.items


def element_type(pipe: Any) -> Any:
    """The type in `class Pipe(IterDataPipe[type])`, if it is a plain class."""
    for base in getattr(type(pipe), "__orig_bases__", ()):
        for argument in typing.get_args(base):
            return argument if isinstance(argument, type) else None
    return None
