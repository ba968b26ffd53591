"""`__torch_function__`: classes and modes that take over operations.

Nothing here runs until a tensor of a class that overrides is made or a mode is on: `modes.overrides` says so.
"""

from __future__ import annotations

import functools
import inspect
from inspect import CO_VARARGS
from sys import getrefcount
from types import CodeType, FunctionType
from typing import Any

from .._core.state import AUTOCAST, BATCHED, DISPATCH, FUNCTION_MODE, OVERRIDE, QUANTIZED, local, modes
from .._dispatch import handlers
from .._ops import registry
from .._ops.quantized.quantization import take_over
from .._ops.registry import ops
from .._tensor import Tensor
from .._tensor.constructors import recast
from .torch_dispatch import dispatches, take_function


def disabled_torch_function(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """The `__torch_function__` of classes whose results are plain tensors, such as Parameter."""
    off, local.overrides_off = local.overrides_off, True
    try:
        return func(*args, **(kwargs or {}))
    finally:
        local.overrides_off = off


def default_torch_function(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """What a subclass of Tensor does if it says nothing else: the same operation, with results of the subclass."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    result = disabled_torch_function(cls, func, types, args, kwargs)
    return result if func in unwrapped else as_class(result, cls)


unwrapped: set[Any] = set()  # functions whose results stay plain tensors: reading `.grad` and `._base`


def as_class(result: Any, cls: type, inside: int = 0) -> Any:
    """Results as tensors of a subclass, inside tuples and lists too."""
    if cls is Tensor:
        return result
    if isinstance(result, Tensor):
        if isinstance(result, cls):
            return result
        fresh = type(result) is Tensor and getrefcount(result) <= _FRESH + inside
        return recast(result, cls) if fresh else ops.as_subclass(result, cls)
    if isinstance(result, (tuple, list)):
        parts = [as_class(r, cls, 1) for r in result]
        if type(result) in (tuple, list):
            return type(result)(parts)
        return type(result)._make(parts) if hasattr(result, "_make") else type(result)(parts)
    return result


def _references(result: Any) -> int:
    return getrefcount(result)


def _fresh() -> int:
    """How many have a result that its caller gives to a function and nobody else has: three, two of them loans from Python 3.14 on."""
    result = object()
    return _references(result)


_FRESH = _fresh()


def _own_function(kind: type) -> Any:
    """The `__torch_function__` of a class if it takes part in operations, otherwise None."""
    found = getattr(kind, "__torch_function__", None)
    if found is None or getattr(found, "__func__", found) is disabled_torch_function:
        return None
    return found


_NEVER = frozenset((Tensor, int, float, bool, str, type(None)))  # classes that take nothing over


_DEPTH = 8  # of lists in lists in which arguments are looked for: deeper ones are data, or hold themselves


def overloaded(args: Any, depth: int = _DEPTH) -> list[Any]:
    """The arguments that may take over an operation, one for each class, subclasses first."""
    found: list[Any] = []
    kinds: set[type] = set()
    for a in args:
        kind = type(a)
        if kind in _NEVER or kind in kinds:
            continue
        if kind is list or kind is tuple:
            inner = [b for b in a if type(b) is not Tensor] if depth else None
            candidates = overloaded(inner, depth - 1) if inner else ()
        else:
            candidates = (a,) if not isinstance(a, type) and _own_function(kind) is not None else ()
        for candidate in candidates:
            if type(candidate) in kinds:
                continue
            kinds.add(type(candidate))
            place = next((i for i, b in enumerate(found) if issubclass(type(candidate), type(b))), len(found))
            found.insert(place, candidate)
    return found


_PLAIN = (Tensor, int, float, str, type(None))


def overridden(function: Any, args: Any, named: Any) -> Any:
    """The result that a mode or an argument's class gives for a call; NotImplemented if none takes it over."""
    if modes.overrides == QUANTIZED:  # it stays on from the first quantized tensor of a program on
        return take_over(function, args, named)
    if modes.overrides == BATCHED:  # inside `vmap`, and nothing else is on
        return ops.on_batches(function, args, named) if local.batches else NotImplemented
    if local.profiler is not None:
        result = local.profiler.call(function, args, named)
        if result is not NotImplemented:
            return result
    if local.function_modes and local.batches:  # modes are asked before a call becomes one on batches
        result = watched(function, args, named)
        if result is not NotImplemented:
            return result
    if local.batches:
        result = ops.on_batches(function, args, named)
        if result is not NotImplemented:
            return result
    if modes.overrides & QUANTIZED:
        result = take_over(function, args, named)
        if result is not NotImplemented:
            return result
    if local.autocast is not None:
        result = local.autocast.run(function, args, named)
        if result is not NotImplemented:
            return result
        if modes.overrides & ~BATCHED == AUTOCAST and not named and all([isinstance(a, _PLAIN) for a in args]):
            return result  # nobody else is there to take it over
    result = watched(function, args, named)
    if result is NotImplemented and modes.overrides & DISPATCH:
        return take_function(function, args, named)
    return result


def watched(function: Any, args: Any, named: Any) -> Any:
    """The same of modes and classes alone."""
    if local.overrides_off:
        return dispatch(function, [], args, named) if local.function_modes else NotImplemented
    return dispatch(function, overloaded((*args, *named.values()) if named else args), args, named)


def dispatch(function: Any, found: list[Any], args: Any, named: Any) -> Any:
    """Offers a call to the innermost mode, then to the classes of the arguments `found`."""
    while hasattr(function, "public"):  # behind a short path: programs know that one
        function = function.public
    stack = local.function_modes
    if not found and not stack:
        return NotImplemented
    kinds = tuple(type(a) for a in found)
    if stack:
        mode = stack[-1]
        local.function_modes = stack[:-1]
        try:
            result = mode.__torch_function__(function, kinds, args, named or {})
        finally:
            local.function_modes = stack
        if result is not NotImplemented:
            return result
    for a in found:
        result = a.__torch_function__(function, kinds, args, named or {})
        if result is not NotImplemented:
            return result
    if not found:
        return NotImplemented
    names = ", ".join(kind.__name__ for kind in kinds)
    raise TypeError(
        f"Multiple dispatch failed for '{name_of(function)}'; all __torch_function__ handlers returned NotImplemented: {names}"
    )


def name_of(function: Any) -> str:
    return f"torch.{getattr(function, '__name__', function)}"


def _handle(op: Any, args: tuple[Any, ...], k: int) -> Any:
    """For records that are called directly: pointwise operations and primitives without a wrapper."""
    if not local.function_modes and local.overrides_off:
        return NotImplemented
    function = _public_form(op, len(args))
    return (watched if local.batches else overridden)(function, args, {})  # the dispatcher maps records itself


@functools.cache
def _public_form(op: Any, count: int) -> Any:
    """The function that programs know for a call of a record, if it takes as many arguments by position: `clone` takes fewer."""
    found = getattr(op, "public", None) or ops.__dict__.get(op.name)
    if found is None:
        return op.call
    code = getattr(found, "__code__", None)  # native ones have none, and take what their records do
    fits = code is None or code.co_flags & CO_VARARGS or code.co_argcount >= count
    return found if fits and not _in_another_order(op, found) else op.call


def _in_another_order(op: Any, function: Any) -> bool:
    """Whether a function takes what its record takes in other places: `scatter_add` has its dimension second, its record last."""
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return False
    return any([name in names and names.index(name) != i for i, name in enumerate(op.names)])


# -- subclasses --------------------------------------------------------------------------------------------------


def _watched(name: str, plain: Any) -> Any:
    """A property or method of Tensor as an overriding class has it: it asks the class first."""
    if isinstance(plain, property):
        return property(
            lambda self: _ask(plain.__get__, plain.fget, (self,), {}),
            None if plain.fset is None else lambda self, value: _ask(plain.__set__, plain.fset, (self, value), {}),
            None if plain.fdel is None else lambda self: _ask(plain.__delete__, plain.fdel, (self,), {}),
        )

    def method(self: Any, *args: Any, **named: Any) -> Any:
        return _ask(plain, plain, (self, *args), named)

    method.__name__ = method.__qualname__ = name
    return method


def _ask(shown: Any, plain: Any, args: Any, named: Any) -> Any:
    """`plain(*args)`, unless somebody takes it over, who is given `shown`: for properties `Tensor.shape.__get__`."""
    result = overridden(shown, args, named)
    return plain(*args, **named) if result is NotImplemented else result


# -- modes and attributes ------------------------------------------------------------------------------------------


class _Attributes:
    """Attributes that ask nobody, so that they cost nothing, made to ask the modes while one is on.

    Programs compare what a mode is given with `Tensor.item` or `Tensor.shape.__get__`: so these stay the objects that
    they are, and get other code while a mode is on somewhere.
    """

    def __init__(self) -> None:
        self.asking: dict[int, tuple[Any, Any, Any]] = {}  # by identity: function, its own code, the code that asks
        self.known: list[tuple[Any, Any]] = []  # (what modes are given, the function with its own code)

    def add(self, name: str, value: Any) -> None:
        parts = (
            ((value.fget, value.__get__), (value.fset, value.__set__), (value.fdel, value.__delete__))
            if isinstance(value, property)
            else ((value, value),)
        )
        for function, shown in parts:
            if not isinstance(function, FunctionType) or id(function) in self.asking:
                continue
            own = function.__code__
            plain = FunctionType(own, function.__globals__, name, function.__defaults__, function.__closure__)
            plain.__kwdefaults__ = function.__kwdefaults__
            function.__globals__.setdefault("_ask_modes", self.ask)
            code = _asking(own.co_freevars)
            constants = tuple(len(self.known) if c == _NUMBER else c for c in code.co_consts)
            code = code.replace(co_consts=constants, co_name=own.co_name, co_filename=own.co_filename)
            self.asking[id(function)] = function, own, code
            self.known.append((shown, plain))

    def ask(self, number: int, args: Any, named: Any) -> Any:
        shown, plain = self.known[number]
        if local.function_modes:
            result = watched(shown, args, named)
            if result is not NotImplemented:
                return result
        return plain(*args, **named)

    def watch(self, on: bool) -> None:
        for function, own, code in self.asking.values():
            function.__code__ = code if on else own


_NUMBER = 1 << 40  # stands for an attribute's number in the code below


@functools.cache
def _asking(free: tuple[str, ...]) -> CodeType:
    """The code that asks, for functions with these free variables. It names them: only code that takes its variables from
    the function leaves a frame whose locals a debugger may look at."""
    given = "".join([f"    {name} = None\n" for name in free])
    never = f"        if 0: {', '.join(free)}\n" if free else ""
    inner = f"    def asking(*args, **named):\n{never}        return _ask_modes({_NUMBER}, args, named)\n"
    made: dict[str, Any] = {}
    exec(f"def outer():\n{given}{inner}    return asking", made)
    return made["outer"]().__code__


attributes = _Attributes()
modes.when_watched = attributes.watch
# Attributes of Tensor that ask no class by themselves, so that they cost plain tensors nothing. Filled by `attach`.
quiet: dict[str, Any] = {}
_TENSOR_VALUED = ("data", "grad", "contiguous")


def _init_subclass(cls: Any, **named: Any) -> None:
    """Prepares a subclass of Tensor: does it override, and which attributes must then ask it."""
    super(Tensor, cls).__init_subclass__(**named)
    own = _own_function(cls)
    below = dispatches(cls)
    if below and getattr(own, "__func__", own) is default_torch_function:  # the results are what its dispatch returns
        cls.__torch_function__, own = classmethod(disabled_torch_function), None
    cls._class_k = (OVERRIDE if own is not None else 0) | (DISPATCH if below else 0)
    if own is None:
        return
    all_of_them = getattr(own, "__func__", own) is not default_torch_function
    for name, plain in quiet.items():
        if not all_of_them and name not in _TENSOR_VALUED:
            continue
        holder = next((c for c in cls.__mro__ if name in c.__dict__), None)
        if holder is Tensor:
            setattr(cls, name, _watched(name, plain))


def watch(name: str, plain: Any) -> None:
    """Lets classes made from now on, and modes, take over an attribute that asks nobody by itself."""
    quiet[name] = plain
    attributes.add(name, plain)


def attach(plain_attributes: dict[str, Any]) -> None:
    """Connects this protocol to Tensor, the registry and the dispatcher."""
    for name, plain in plain_attributes.items():
        watch(name, plain)
    unwrapped.update(plain_attributes[name].__get__ for name in ("grad", "_grad", "_base"))
    for name, plain in plain_attributes.items():  # classes that override look at the names of what they are given
        own = getattr(plain, "__name__", name)
        if not isinstance(plain, property) and not own.startswith("__") and own not in registry.methods:
            plain.__name__ = name
    Tensor.__torch_function__ = classmethod(default_torch_function)  # type: ignore[assignment]
    Tensor.__init_subclass__ = classmethod(_init_subclass)  # type: ignore[assignment]
    handlers[OVERRIDE] = handlers[FUNCTION_MODE] = _handle
    registry.overridden, registry.watched = overridden, watched


# -- switches ----------------------------------------------------------------------------------------------------


class DisableTorchFunctionSubclass:
    """Inside, classes do not take over operations; modes still do."""

    def __enter__(self) -> None:
        self._outer, local.overrides_off = local.overrides_off, True

    def __exit__(self, *error: Any) -> None:
        local.overrides_off = self._outer


class DisableTorchFunction:
    """Inside, neither classes nor modes take over operations."""

    def __enter__(self) -> None:
        self._outer = local.overrides_off, local.function_modes
        local.overrides_off, local.function_modes = True, ()

    def __exit__(self, *error: Any) -> None:
        local.overrides_off, local.function_modes = self._outer


class _DisableTorchDispatch:
    """Inside, nobody's `__torch_dispatch__` is asked: operations on a subclass run on its own memory."""

    def __enter__(self) -> None:
        self._outer, local.dispatch_off = local.dispatch_off, True

    def __exit__(self, *error: Any) -> None:
        local.dispatch_off = self._outer


class TorchFunctionMode:
    """A context in which every operation is given to `__torch_function__(func, types, args, kwargs)`.

    >>> import flambeau as torch
    >>> from flambeau.overrides import TorchFunctionMode
    >>> class Log(TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return func(*args, **(kwargs or {}))
    >>> with Log():
    ...     x = torch.sin(torch.tensor(0.0))
    tensor
    sin
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Any:
        local.function_modes = (*local.function_modes, self)
        modes.enter(FUNCTION_MODE)
        return self

    def __exit__(self, *error: Any) -> None:
        local.function_modes = local.function_modes[:-1]
        modes.leave(FUNCTION_MODE)

    @classmethod
    def push(cls, *args: Any, **named: Any) -> Any:
        return cls(*args, **named)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))
