"""What is done while a block is recorded, and is no part of it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType, MethodWrapperType
from typing import Any

import numpy as np

from .._backend.meta import empty_meta
from .._core.devices import device
from .._core.dtypes import dtype
from .._core.layouts import layout, memory_format
from .._core.refusals import ValuesRead
from .._core.sizes import Size
from .._core.state import (
    AUTOCAST,
    CAPTURE,
    CUDA,
    DISPATCH,
    FUNCTION_MODE,
    GRAD,
    META,
    OVERRIDE,
    local,
    modes,
    unobserved,
)
from .._dispatch import backend_of
from .._kernel.native.site import Site
from .._ops.records.primitive import Primitive
from .._ops.records.shape_rules import DataDependent
from .._ops.registry import ops
from .._tensor import Tensor, detached, wrap
from .graph import replaced
from .numbers import _Live, plain
from .reach import TRUSTED, class_is_trusted, trust
from .standing import with_others
from .whole import tensors_in


class Unseen:
    """A moment in which nothing is recorded."""

    def __enter__(self) -> None:
        self.quiet = unobserved()
        self.quiet.__enter__()
        self.captures, local.captures = local.captures, ()
        self.function_modes, local.function_modes = local.function_modes, ()
        self.seen = [CAPTURE] * bool(self.captures) + [FUNCTION_MODE] * len(self.function_modes)
        for bit in self.seen:
            modes.leave(bit)

    def __exit__(self, *error: Any) -> None:
        for bit in self.seen:
            modes.enter(bit)
        local.captures, local.function_modes = self.captures, self.function_modes
        self.quiet.__exit__()


class Tried(Unseen):
    """One in which something is done to see what it does: hooks for what it saves are not called either."""

    def __enter__(self) -> None:
        super().__enter__()
        self.hooks, local.saved_hooks = local.saved_hooks, ()

    def __exit__(self, *error: Any) -> None:
        local.saved_hooks = self.hooks
        super().__exit__(*error)


def is_closed(function: Any, args: Any, named: Any) -> bool:
    """Whether a call runs code of this package alone, which recordings need not follow: a function of ours over tensors, numbers and names,
    while nobody else looks at operations. There are hundreds of events in such a call."""
    kind = function.__class__
    if kind is FunctionType:
        inner = getattr(inspect.unwrap(function), "__code__", None)  # users' functions may have a wrapper of ours
        own = inner is not None and all([trust(c.co_filename) == TRUSTED for c in (function.__code__, inner)])
        own = own and function.__name__ not in _HOOKS
    else:
        own = kind is MethodWrapperType or isinstance(getattr(function, "__self__", None), Site)
    usual = not local.function_modes and not modes.on & ~(CAPTURE | FUNCTION_MODE | AUTOCAST)
    return own and usual and all([*map(_is_plain, args), *map(_is_plain, named.values())])


def _is_plain(a: Any) -> bool:
    kind = a.__class__
    if kind is tuple or kind is list:
        return all(map(_is_plain, a))
    if kind is slice:
        return _is_plain((a.start, a.stop, a.step))
    return kind in _PLAIN or (isinstance(a, Tensor) and not a._k & (OVERRIDE | DISPATCH) and class_is_trusted(kind))


_HOOKS = frozenset(("backward", "grad"))  # functions that call what users have left with tensors
_PLAIN = frozenset(
    (Tensor, int, float, bool, complex, str, type(None), type(...), Size, dtype, device, layout, memory_format)
)


def _without(t: Tensor) -> Tensor:
    """A tensor like another one, without elements."""
    return wrap(empty_meta(t._array.shape, t.dtype), t.dtype, META)


def _tried(function: Any, args: Any, named: Any, other: Callable[[Tensor], Tensor]) -> Any:
    """What a function gives for other tensors: shapes and dtypes, or the error."""
    with Tried():
        try:
            out = function(*with_others(tuple(args), other), **with_others(named, other))
        except Exception as error:
            return error
    return [(t._array.shape, t.dtype) for t in tensors_in(out)]


def needs_elements(function: Any, args: Any, named: Any, known: Callable[[Tensor], bool] = lambda t: False) -> bool:
    """Whether a function cannot do without elements, but for those that are `known`."""
    return isinstance(_tried(function, args, named, lambda t: t if known(t) else _without(t)), Exception)


def is_certain(error: Exception, function: Any, args: Any, named: Any) -> bool:
    """Whether a function raises this error whatever the elements of its tensors are."""
    if isinstance(error, ValuesRead):  # of a batch, which has none to be read
        return True
    found = _tried(function, args, named, _without)
    return type(found) is type(error) and str(found) == str(error)


def shape_is_known(function: Any, args: Any, named: Any, numbers: bool = False) -> bool:
    """Whether the results of a function look the same for other elements; `numbers`: tensors without dimensions may be read as such."""
    given = tensors_in((args, named))
    found = _tried(function, args, named, _without) if given else []
    if not isinstance(found, Exception):
        return True
    if isinstance(function, Primitive):
        return not isinstance(found, DataDependent)
    if not numbers or all([t._array.ndim for t in given]):
        return False

    def number(value: int, t: Tensor) -> Tensor:  # that a tensor stands for: an index, a factor
        return _without(t) if t._array.ndim else wrap(np.array(value).astype(t.dtype.numpy), t.dtype)

    found, other = [_tried(function, args, named, functools.partial(number, value)) for value in (0, -1)]
    return not isinstance(found, Exception) and found == other


def shape_holds(function: Any, given: Any, live: Any) -> bool:
    """Whether the results of a function look the same for other numbers than those it is given, where `live` has numbers that change."""
    others = replaced(
        live, _Live, lambda number: plain(number) + 1 if type(plain(number)) is int else plain(number) / 2
    )
    found = [_tried(function, args, named, _without) for args, named in (given, others)]
    return not isinstance(found[0], Exception) and found[0] == found[1]


def other_elements(t: Tensor) -> Tensor:
    """A tensor like another one, with other elements."""
    values = ops.mul(detached(t), 0.9)._array if t.dtype.category >= 2 else t._array  # type: ignore[attr-defined]
    made = wrap(_laid_like(t, values), t.dtype, t._k & (GRAD | CUDA))
    made._edge = t._edge  # what is no leaf may be written to
    return made


def _laid_like(t: Tensor, values: Any) -> Any:
    """Elements in memory of their own, laid out as a tensor's are: which operations run may depend on that."""
    source = t._array
    shape, d, strides = source.shape, source.dtype, source.strides
    length = d.itemsize + sum([max(n - 1, 0) * s for n, s in zip(shape, strides)])
    if min(strides, default=0) < 0:
        return np.array(values, d)
    memory = backend_of(t._k).zeros((length,), np.uint8)
    made = source.__class__(shape, d, memory.data, strides) if t._k & CUDA else np.ndarray(shape, d, memory, 0, strides)
    made[...] = values
    return made
