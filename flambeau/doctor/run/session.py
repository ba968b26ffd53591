"""One watched run: what the observers share, and what they found."""

from __future__ import annotations

import time
from typing import Any

from ..._observe.frames import Place, here
from ..._observe.patches import Patches
from ..findings import Finding, Findings


class Enough(BaseException):
    """Ends the program when the doctor has seen enough of it."""


class Session:
    """Counts and findings of a run. `clock` numbers events, so that observers can say what came first."""

    def __init__(self, steps: int | None = None, seconds: float | None = None) -> None:
        self.findings = Findings()
        self.patches = Patches()
        self.limit_steps, self.limit_seconds = steps, seconds
        self.began = time.monotonic()
        self.clock = 0
        self.steps = 0  # of all optimizers
        self.backwards = 0
        self.ended_early = False
        self.failed = False  # the program ended with an error
        self.modules: list[Any] = []  # the modules that are being called, outermost first
        self.fills: dict[int, Place] = {}  # tensors that were filled with one value, and where
        self.made: dict[int, Place] = {}  # modules of some kinds, and where they were made
        self.scaled = False  # whether a GradScaler scales losses
        self.pausing = 0  # the doctor's own work is not observed

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def find(self, id: str, place: Place | None, message: str, confidence: float = 0.9, *evidence: str) -> None:
        """Notes a finding at a place of the user's program (or where it runs now)."""
        place = place or here()
        if place is not None:
            seen = [*evidence, f"seen after step {self.steps}"] if self.steps else list(evidence)
            self.findings.add(
                Finding(id, place[0], place[1], message, confidence, seen or ["seen while the program ran"])
            )

    def enough(self) -> None:
        """Ends the program at its limits."""
        passed = time.monotonic() - self.began
        if (self.limit_steps is not None and self.steps >= self.limit_steps) or (
            self.limit_seconds is not None and passed > self.limit_seconds
        ):
            self.ended_early = True
            raise Enough
