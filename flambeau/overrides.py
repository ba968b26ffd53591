"""Taking over operations: `__torch_function__` for classes that are like tensors, and modes."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ._core.state import local
from ._interception.overrides import (
    BaseTorchFunctionMode,
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    TorchFunctionMode,
    as_class,
    disabled_torch_function,
    dispatch,
    name_of,
    overloaded,
    quiet,
    unwrapped,
)  # fmt: skip
from ._ops.registry import functions, methods
from ._tensor import Tensor

_convert = as_class
_disabled_torch_function_impl = disabled_torch_function
_get_overloaded_args = overloaded


_HERE = os.path.dirname(__file__)


class _Once(threading.local):
    """Whether the next question for overrides is answered with no."""

    skip = False


_once = _Once()


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether one of the arguments, or a mode, may take over the operation.

    >>> import flambeau as torch
    >>> torch.overrides.has_torch_function((torch.tensor(1.0),))
    False
    """
    if _once.skip:
        _once.skip = False
        return False
    if any(
        [mode not in local.captures for mode in local.function_modes]
    ):  # a recording looks on, and takes over nothing
        return True
    return not local.overrides_off and bool(overloaded(tuple(relevant_args)))


def has_torch_function_unary(argument: Any) -> bool:
    """`has_torch_function` of one argument."""
    return has_torch_function((argument,))


def has_torch_function_variadic(*arguments: Any) -> bool:
    """`has_torch_function` of several arguments."""
    return has_torch_function(arguments)


def redispatch_function(
    func: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None
) -> Any:
    """Calls a function past one level of `__torch_function__`: what a function of Python calls inside is seen again.

    >>> import flambeau as torch
    >>> class Loud(torch.Tensor):
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return torch.overrides.redispatch_function(func, types, args, kwargs)
    >>> def twice(x):
    ...     if torch.overrides.has_torch_function((x,)):
    ...         return torch.overrides.handle_torch_function(twice, (x,), x)
    ...     return torch.add(x, x)
    >>> out = twice(torch.ones(1).as_subclass(Loud))
    twice
    add
    """
    if not inspect.isfunction(func) or func.__code__.co_filename.startswith(_HERE):  # an operation
        with DisableTorchFunction():
            return func(*args, **(kwargs or {}))
    _once.skip = True
    try:
        return func(*args, **(kwargs or {}))
    finally:
        _once.skip = False


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Lets the arguments' classes (or a mode) run a function; TypeError if all of them decline."""
    result = dispatch(public_api, overloaded(tuple(relevant_args)), args, kwargs)
    if result is NotImplemented:
        raise TypeError(
            f"no implementation found for '{name_of(public_api)}': no argument implements __torch_function__"
        )
    return result


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Any], Any]:
    """Makes a function overridable; `dispatcher` gives the arguments that may take it over."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Whether an object is a tensor or has `__torch_function__`.

    >>> import flambeau as torch
    >>> torch.overrides.is_tensor_like([1, 2])
    False
    """
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def get_default_nowrap_functions() -> set[Any]:
    """Functions whose results the default `__torch_function__` leaves plain tensors."""
    return set(unwrapped)


def get_ignored_functions() -> set[Any]:
    """Functions that no class can take over."""
    return {is_tensor_like, has_torch_function, handle_torch_function, name_of}


def get_overridable_functions() -> dict[Any, list[Any]]:
    """The functions that classes can take over, by the namespace they are in."""
    import flambeau  # the package itself is a key

    found: dict[Any, list[Any]] = {flambeau: [], Tensor: []}
    for path, function in functions.items():
        space: Any = flambeau
        *parts, _ = path.split(".")
        for part in parts:
            space = getattr(space, part, None)
        if space is not None:
            found.setdefault(space, []).append(function)
    for name, value in methods.items():  # properties come as what classes and modes are shown of them
        found[Tensor].append(getattr(Tensor, name).__get__ if isinstance(value, property) else value)
    for value in quiet.values():
        if isinstance(value, property):
            found[Tensor] += [value.__get__] if value.fset is None else [value.__get__, value.__set__]
        else:
            found[Tensor].append(value)
    return found


def get_testing_overrides() -> dict[Any, Callable[..., int]]:
    """For every function that classes can take over, another with the same parameters that gives -1.

    >>> import flambeau as torch
    >>> torch.overrides.get_testing_overrides()[torch.add](torch.ones(1), 2)
    -1
    """

    def replaced(function: Any) -> Callable[..., int]:
        def dummy(*args: Any, **kwargs: Any) -> int:
            return -1

        with contextlib.suppress(TypeError, ValueError):
            dummy.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        dummy.__name__ = getattr(function, "__name__", "dummy")
        return dummy

    return {function: replaced(function) for group in get_overridable_functions().values() for function in group}


def is_tensor_method_or_property(func: Any) -> bool:
    """Whether a function is a method or the getter of a property of Tensor."""
    return func in {*[method for _, method in methods.loaded()], *quiet.values()} or getattr(func, "__name__", "") in (
        "__get__",
        "__set__",
    )


def resolve_name(f: Any) -> str | None:
    """The public name of an overridable function."""
    for path, function in functions.loaded():
        if function is f and not path.startswith("Tensor."):
            return "torch." + path
    name = getattr(f, "__name__", "")
    if name in ("__get__", "__set__", "__delete__"):  # of a property
        return next((f"torch.Tensor.{n}.{name}" for n in dir(Tensor) if Tensor.__dict__.get(n) is f.__self__), None)
    for own in (name, f"__{name}__"):
        if getattr(Tensor, own, None) is f:
            return "torch.Tensor." + own
    for name, function in methods.loaded():
        if function is f:
            return "torch.Tensor." + name
    return getattr(f, "__qualname__", None)


@contextlib.contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """A block inside `__torch_dispatch__` that records and dispatches as outside of it."""
    outer = local.grad, local.overrides_off, local.dispatch_off
    local.grad, local.overrides_off, local.dispatch_off = True, False, False
    try:
        yield
    finally:
        local.grad, local.overrides_off, local.dispatch_off = outer


__all__ = [
    "BaseTorchFunctionMode", "DisableTorchFunction", "DisableTorchFunctionSubclass", "TorchFunctionMode",
    "enable_reentrant_dispatch", "get_default_nowrap_functions", "get_ignored_functions", "get_overridable_functions", "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function", "is_tensor_like", "is_tensor_method_or_property", "redispatch_function", "resolve_name",
    "wrap_torch_function",
]  # fmt: skip
