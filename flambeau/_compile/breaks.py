"""Why a run cannot be a program."""

from __future__ import annotations


class Break(Exception):
    """Something that cannot be part of a compiled program, with the user's line."""

    def __init__(self, reason: str, file: str = "", line: int = 0):
        super().__init__(reason, file, line)
        self.reason, self.file, self.line = reason, file, line

    def __str__(self) -> str:
        return f"{self.reason} ({self.file}:{self.line})" if self.file else self.reason


class Otherwise(Exception):
    """A branch of the function that a program stands for goes another way this time."""
