"""Functions that change more than tensors (an optimizer's step): in a recorded program each is a step that Python takes."""

from __future__ import annotations

import functools
from typing import Any

from .state import CAPTURE, local, modes


def python_step(function: Any) -> Any:
    """Marks such a function."""

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        if modes.on & CAPTURE and local.captures:
            return local.captures[-1].step(call, args, named)
        return function(*args, **named)

    return call


def elements_are_read(of_shape: bool = False) -> None:
    """Says that our own code looks at elements, on which it depends what it does: what a recording is made of, the next run may not do."""
    if modes.on & CAPTURE and local.captures:
        local.captures[-1].asked(of_shape)


def chosen_by_elements(function: Any, users: tuple[Any, ...], args: tuple[Any, ...]) -> Any:
    """`function(*users, *args)`, which calls the users' functions that elements ask for: in a recorded program, one step."""
    if modes.on & CAPTURE and local.captures and hasattr(local.captures[-1], "called"):
        return local.captures[-1].called(function, users, args)
    return function(*users, *args)
