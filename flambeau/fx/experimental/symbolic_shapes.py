"""Questions about sizes that a compiler may not know. Sizes are numbers here, so that every question has an answer."""

from __future__ import annotations

from typing import Any

__all__ = [
    "GuardOnDataDependentSymNode", "free_symbols", "free_unbacked_symbols", "guard_bool", "guard_float", "guard_int",
    "guard_or_false", "guard_or_true", "guard_size_oblivious", "is_concrete_int", "is_symbolic", "statically_known_false",
    "statically_known_true",
]  # fmt: skip


class GuardOnDataDependentSymNode(RuntimeError):
    """A decision depends on a size that is not known; never raised here."""


def guard_or_false(a: Any) -> bool:
    """Whether a condition holds (a compiler that does not know says no).

    >>> guard_or_false(3 > 2), statically_known_true(2 > 3)
    (True, False)
    """
    return bool(a)


guard_or_true = guard_size_oblivious = guard_bool = statically_known_true = guard_or_false


def statically_known_false(x: Any) -> bool:
    """Whether a condition certainly does not hold."""
    return not x


def guard_int(a: Any) -> int:
    """A size as a number."""
    return int(a)


def guard_float(a: Any) -> float:
    """A number that is no integer."""
    return float(a)


def is_symbolic(val: Any) -> bool:
    """Whether a number is not known yet: never."""
    return False


def is_concrete_int(a: Any) -> bool:
    """Whether a size is known: always."""
    return True


def free_symbols(val: Any) -> set[Any]:
    """The unknowns in a value: none."""
    return set()


free_unbacked_symbols = free_symbols
