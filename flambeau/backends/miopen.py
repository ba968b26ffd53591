"""Switches of MIOpen, which is not used."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ._flags import a_bool, for_a_while, switch, with_switches


def flags(immediate: bool = False) -> AbstractContextManager[None]:
    """Sets the switch inside a `with` block."""
    return for_a_while(__name__, {"immediate": immediate})


with_switches(__name__, immediate=switch("immediate", False, a_bool))
