"""`Join`: processes with different numbers of batches. One process has nobody to wait for."""

from __future__ import annotations

from typing import Any

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a process does while others still work."""

    def main_hook(self) -> None:
        """Called instead of each step of the others."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called when all are done."""


class Joinable:
    """Objects that can take part in `Join`."""


class Join:
    """A `with` block in which processes may have different numbers of batches."""

    def __init__(
        self, joinables: list[Any], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: Any
    ):
        self.joinables = joinables

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        pass

    @staticmethod
    def notify_join_context(joinable: Any) -> None:
        """Tells the others that this process still works; there are none."""
