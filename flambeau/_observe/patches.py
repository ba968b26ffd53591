"""Functions put in the place of others while a program is observed, and back again afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

_ABSENT = object()


class Patches:
    """Wrappers around attributes of modules and classes."""

    def __init__(self) -> None:
        self.done: list[tuple[Any, str, Any]] = []

    def wrap(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Puts `make(original)` in the place of an attribute, if the owner has it."""
        if not hasattr(owner, name):
            return  # also lets a method that waits be made
        before = vars(owner).get(name, _ABSENT)
        original = getattr(owner, name) if before is _ABSENT else before
        self.done.append((owner, name, before))
        wrapper = make(original.__func__ if isinstance(original, staticmethod) else original)
        for attribute in ("__name__", "__qualname__", "__doc__", "__module__"):
            with contextlib.suppress(AttributeError, TypeError):
                setattr(wrapper, attribute, getattr(original, attribute))
        setattr(owner, name, wrapper)

    def restore(self) -> None:
        """Puts all originals back, the last first."""
        while self.done:
            owner, name, before = self.done.pop()
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
