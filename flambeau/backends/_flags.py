"""Modules whose switches are checked when they are set."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


def switch(
    name: str, default: Any, check: Callable[[str, Any], Any], tell: Callable[[str, Any], None] | None = None
) -> property:
    """A switch of a module or object: `check(name, value)` gives the value to keep or raises; `tell` hears of it."""
    place = "_switch_" + name

    def read(owner: Any) -> Any:
        return owner.__dict__.get(place, default)

    def write(owner: Any, value: Any) -> None:
        owner.__dict__[place] = check(name, value)
        if tell is not None:
            tell(name, owner.__dict__[place])

    return property(read, write)


def a_bool(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise RuntimeError(f"{name} expects a bool, but got {type(value).__name__}")
    return value


def anything(name: str, value: Any) -> Any:
    return value


PRECISIONS = ("none", "ieee", "tf32", "bf16")


def a_precision(name: str, value: Any) -> str:
    if value not in PRECISIONS:
        raise RuntimeError(f"Unknown precision: {value}; known are {', '.join(PRECISIONS)}")
    return str(value)


class Precision:
    """How float32 is computed by one family of operations; kept, without effect on the CPU."""

    fp32_precision = switch("fp32_precision", "none", a_precision)

    def __init__(self, fp32_precision: str = "none"):
        self.fp32_precision = fp32_precision


def with_switches(name: str, **switches: property) -> None:
    """Gives a module switches."""
    kind = type("SwitchedModule", (ModuleType,), dict(switches))
    sys.modules[name].__class__ = kind


@contextmanager
def for_a_while(name: str, wanted: dict[str, Any]) -> Iterator[None]:
    """Sets switches of a module inside a `with` block."""
    module = sys.modules[name]
    before = {key: getattr(module, key) for key in wanted}
    try:
        for key, value in wanted.items():
            if value is not None:  # stays as it is
                setattr(module, key, value)
        yield
    finally:
        for key, value in before.items():
            setattr(module, key, value)


def set_all(name: str, wanted: dict[str, Any]) -> tuple[Any, ...]:
    """Sets the switches that are not None, and gives all earlier values."""
    module = sys.modules[name]
    before = tuple(getattr(module, key) for key in wanted)
    for key, value in wanted.items():
        if value is not None:
            setattr(module, key, value)
    return before
