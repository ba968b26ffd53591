"""Functions that change more than tensors (an optimizer's step): in a recorded program each is a step that Python takes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .state import CAPTURE, DISPATCH, local, modes


def python_step(function: Any, split: Callable[[Any, Any], Any] | None = None) -> Any:
    """Marks such a function. `split(args, named)` runs what comes first and is the program's own code: it gives the arguments of the rest and
    the result, or None."""

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        if modes.on & CAPTURE and local.captures:
            rest = None if split is None else split(args, named)
            if rest is not None:
                local.captures[-1].step(call, rest[0], {})
                return rest[1]
            return local.captures[-1].step(call, args, named)
        return function(*args, **named)

    return call


def elements_are_read(of_shape: bool = False, of: Any = None) -> None:
    """Says that our own code looks at elements (`of` a tensor), on which it depends what it does: what a recording is made of, the next run
    may not do."""
    if modes.on & CAPTURE and local.captures:
        local.captures[-1].asked(of_shape, of)
    if of is not None:
        tell("elements_read", of)


def only_shapes(name: str) -> None:
    """Said by functions that make results of shapes alone where there are no elements: who records operators has none for it."""
    if modes.on & DISPATCH and any(hasattr(mode, "elements_read") for mode in local.dispatch_modes):
        raise NotImplementedError(f"{name}: cannot be recorded without elements; trace with real tensors")


def tell(what: str, *about: Any) -> None:
    """Calls the method `what` of the modes that record operators."""
    if modes.on & DISPATCH:
        for mode in local.dispatch_modes:
            if hasattr(mode, what):
                getattr(mode, what)(*about)


def chosen_by_elements(function: Any, users: tuple[Any, ...], args: tuple[Any, ...]) -> Any:
    """`function(*users, *args)`, which calls the users' functions that elements ask for: in a recorded program, one step."""
    if modes.on & CAPTURE and local.captures and hasattr(local.captures[-1], "called"):
        return local.captures[-1].called(function, users, args)
    return function(*users, *args)


def followed(function: Any) -> Any:
    """Marks a function inside of which public functions see no plain tensors (a transform): who records those follows it by operators."""

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        follow = getattr(local.function_modes[-1], "follow", None) if local.function_modes else None
        return function(*args, **named) if follow is None else follow(function, args, named)

    return call
