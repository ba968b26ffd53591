"""What the doctor teaches about one mistake."""

from __future__ import annotations

from dataclasses import dataclass

ERROR, WARNING = "error", "warning"


@dataclass(frozen=True)
class Lesson:
    """One mistake: what it is called, how bad it is, why it matters, how it is mended, and both forms of a short example."""

    id: str
    severity: str
    title: str
    why: str
    fix: str
    wrong: str
    right: str
