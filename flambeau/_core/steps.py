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
