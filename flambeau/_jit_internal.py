"""What libraries take from `torch._jit_internal`: marks for compiled functions, questions about annotations, names."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, Dict, Final, List, Optional, Tuple, Union  # noqa: UP035, F401 (programs take them from here)

from ._tensor import Tensor
from .futures import Future
from .jit._annotations import _overload, _overload_method, export, ignore, isinstance, unused
from .jit._scripting import is_scripting
from .jit.annotations import (
    BroadcastingList1,
    BroadcastingList2,
    BroadcastingList3,
    BroadcastingList4,
    BroadcastingList5,
    BroadcastingList6,
)

__all__ = [
    "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "BroadcastingList4", "BroadcastingList5",
    "BroadcastingList6", "Final", "FunctionModifiers", "Future", "boolean_dispatch", "can_compile_class",
    "copy_torchscript_modifier", "export", "get_callable_argument_names", "get_torchscript_modifier", "ignore",
    "is_dict", "is_final", "is_future", "is_ignored_fn", "is_list", "is_optional", "is_scripting", "is_tuple",
    "is_union", "module_has_exports", "should_drop", "unused",
]  # fmt: skip

_isinstance = isinstance
_PRIVATE = (_overload, _overload_method)


class FunctionModifiers:
    """What `export`, `ignore` and `unused` write on a function."""

    UNUSED = "unused"
    IGNORE = "ignore"
    EXPORT = "export"
    DEFAULT = "default"
    COPY_TO_SCRIPT_WRAPPER = "copy"
    _DROP = "drop"


# -- marks -----------------------------------------------------------------------------------------------------------


def _plain(fn: Any) -> Any:
    return getattr(fn, "__func__", fn)


def get_torchscript_modifier(fn: Any) -> str | None:
    """The mark of a function or method; None of what cannot be called."""
    if not callable(fn):
        return None
    return getattr(_plain(fn), "_torchscript_modifier", FunctionModifiers.DEFAULT)


def copy_torchscript_modifier(orig: Any, new: Any) -> None:
    """Gives a function the mark of another."""
    mark = get_torchscript_modifier(orig)
    if mark is not None:
        new._torchscript_modifier = mark


def _copy_to_script_wrapper(fn: Any) -> Any:
    """Marks a method that stays Python and is found on the compiled module."""
    fn._torchscript_modifier = FunctionModifiers.COPY_TO_SCRIPT_WRAPPER
    return fn


def _drop(fn: Any) -> Any:
    """Marks a method that compiled modules do not have."""
    fn._torchscript_modifier = FunctionModifiers._DROP
    return fn


def _is_drop_fn(fn: Any) -> bool:
    return get_torchscript_modifier(fn) == FunctionModifiers._DROP


def should_drop(fn: Any) -> bool:
    """Whether compiled code never calls a function."""
    return get_torchscript_modifier(fn) in (FunctionModifiers.UNUSED, FunctionModifiers._DROP)


def is_ignored_fn(fn: Any) -> bool:
    """Whether a function is left as it is, or out, of compiled code.

    >>> import flambeau as torch
    >>> from flambeau._jit_internal import is_ignored_fn
    >>> is_ignored_fn(torch.jit.ignore(print)), is_ignored_fn(len)
    (False, False)
    >>> is_ignored_fn(torch.jit.unused(lambda: None))
    True
    """
    return get_torchscript_modifier(fn) in (FunctionModifiers.UNUSED, FunctionModifiers.IGNORE, FunctionModifiers._DROP)


def module_has_exports(mod: Any) -> bool:
    """Whether a module has a method marked with `export`."""
    return any(
        get_torchscript_modifier(getattr(mod, name)) == FunctionModifiers.EXPORT
        for name in dir(mod)
        if callable(getattr(mod, name, None))
    )


# -- annotations -----------------------------------------------------------------------------------------------------


def _origin(ann: Any, kind: Any, name: str) -> bool:
    if ann in (kind, getattr(typing, name, None)):
        raise RuntimeError(
            f"Attempted to use {name} without a contained type. Please add a contained type, e.g. {name}[int]"
        )
    return typing.get_origin(ann) is kind


def is_list(ann: Any) -> bool:
    """Whether an annotation is a list of something."""
    return _origin(ann, list, "List")


def is_dict(ann: Any) -> bool:
    """Whether an annotation is a dict of something."""
    return _origin(ann, dict, "Dict")


def is_tuple(ann: Any) -> bool:
    """Whether an annotation is a tuple of something."""
    return _origin(ann, tuple, "Tuple")


def is_future(ann: Any) -> bool:
    """Whether an annotation is a future of something."""
    return _origin(ann, Future, "Future")


def is_union(ann: Any) -> bool:
    """Whether an annotation is one of several."""
    if ann is typing.Union:
        raise RuntimeError(
            "Attempted to use Union without a contained type. Please add a contained type, e.g. Union[int]"
        )
    return typing.get_origin(ann) in (typing.Union, types.UnionType)


def is_optional(ann: Any) -> bool:
    """Whether an annotation is something or None.

    >>> from flambeau._jit_internal import is_optional
    >>> is_optional(int | None), is_optional(int)
    (True, False)
    """
    if ann is typing.Optional:
        raise RuntimeError(
            "Attempted to use Optional without a contained type. Please add a contained type, e.g. Optional[int]"
        )
    inside = typing.get_args(ann)
    return is_union(ann) and len(inside) == 2 and type(None) in inside


def is_final(ann: Any) -> bool:
    """Whether an annotation says that a value never changes."""
    return ann is Final or typing.get_origin(ann) is Final


# -- functions and names ---------------------------------------------------------------------------------------------

_dispatched: dict[Any, dict[str, Any]] = {}


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable[..., Any],
    if_false: Callable[..., Any],
    module_name: str | None,
    func_name: str | None,
) -> Callable[..., Any]:
    """One function for two, between which the value of an argument chooses.

    >>> from flambeau._jit_internal import boolean_dispatch
    >>> both = boolean_dispatch("up", 1, False, lambda x, up: x + 1, lambda x, up=False: x - 1, None, "both")
    >>> both(1), both(1, up=True)
    (0, 2)
    """

    @functools.wraps(if_true if if_true.__doc__ is not None else if_false, assigned=("__doc__",), updated=())
    def fn(*args: Any, **kwargs: Any) -> Any:
        chosen = default
        if arg_name in kwargs:
            chosen = kwargs[arg_name]
        elif arg_index < len(args):
            chosen = args[arg_index]
        return (if_true if chosen else if_false)(*args, **kwargs)

    if if_true.__doc__ is not None and if_false.__doc__ is not None:
        raise RuntimeError("only one function can have a docstring")
    if module_name is not None:
        fn.__module__ = module_name
    if func_name is not None:
        fn.__name__ = func_name
    _dispatched[fn] = {
        "if_true": if_true, "if_false": if_false, "index": arg_index, "default": default, "arg_name": arg_name,
    }  # fmt: skip
    return fn


def _try_get_dispatched_fn(fn: Any) -> dict[str, Any] | None:
    return _dispatched.get(fn) if callable(fn) else None


def _qualified_name(obj: Any, mangle_name: bool = True) -> str:
    """The name of a class or function with its module, as compiled code has it."""
    if hasattr(obj, "_jit_override_qualname"):
        return str(obj._jit_override_qualname)
    name, home = obj.__name__, obj.__module__
    if name == "<lambda>":
        name = "_lambda"
    if home is None:
        raise RuntimeError(f"Could not get qualified name for class '{name}': __module__ can't be None.")
    if "." in name:
        raise RuntimeError(f"Could not get qualified name for class '{name}': '{name}' is not a valid identifier")
    package = __name__.partition(".")[0]
    if home == package or home.startswith(package + "."):
        home = "torch" + home.removeprefix(package)
    home = "" if home == "__main__" else home + "."
    return f"__torch__.{home}{name}" if mangle_name else home + name


def get_callable_argument_names(fn: Any) -> list[str]:
    """The names of arguments that may be given by position or by name; none if there are others."""
    names = []
    for name, parameter in inspect.signature(fn).parameters.items():
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            return []
        names.append(name)
    return names


def can_compile_class(cls: Any) -> bool:
    """Whether all methods of a class are written in Python and may be compiled."""
    if getattr(cls, "_torchscript_modifier", None) == FunctionModifiers.IGNORE:
        return False
    if is_ignored_fn(cls) or issubclass(cls, (Tensor, *(() if cls is not int else (int,)))):
        return False
    routines = [getattr(cls, name) for name in cls.__dict__ if inspect.isroutine(getattr(cls, name))]
    return all(hasattr(fn, "__code__") for fn in routines)
