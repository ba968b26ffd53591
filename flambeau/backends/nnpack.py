"""NNPACK, which is not used."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from ._flags import a_bool, for_a_while, set_all, switch, with_switches


def is_available() -> bool:
    """False."""
    return False


def set_flags(_enabled: bool) -> tuple[Any, ...]:
    """Sets the switch and gives its earlier value."""
    return set_all(__name__, {"enabled": _enabled})


def flags(enabled: bool = False) -> AbstractContextManager[None]:
    """Sets the switch inside a `with` block."""
    return for_a_while(__name__, {"enabled": enabled})


with_switches(__name__, enabled=switch("enabled", True, a_bool))
