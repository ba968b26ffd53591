"""Where the time goes: phases of training steps, and the lines of the program that run longest."""

from __future__ import annotations

import linecache
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from ..._observe.frames import Place, is_user_file
from ..._observe.steps import PHASES, Step
from .trial import Trial

_PAUSE = 0.002  # seconds between two looks
_LINES = 10


class Sampler:
    """Looks, every so often, at which line of the program runs; the time since the last look is that line's."""

    def __init__(self) -> None:
        self.lines: dict[Place, float] = {}
        self.of = threading.get_ident()
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Sampler:
        self.thread.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.done.set()
        self.thread.join()

    def _look(self) -> None:
        last = perf_counter()
        while not self.done.wait(_PAUSE):
            frame = sys._current_frames().get(self.of)
            while frame is not None and not is_user_file(frame.f_code.co_filename):
                frame = frame.f_back
            now = perf_counter()
            if frame is not None:
                place = frame.f_code.co_filename, frame.f_lineno
                self.lines[place] = self.lines.get(place, 0.0) + now - last
            last = now


@dataclass
class Profile:
    """Seconds by phase and by line. The first step, which compiles kernels, counts for itself."""

    steps: int = 0
    first: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)
    lines: list[tuple[Place, float]] = field(default_factory=list)
    status = 0

    def as_dict(self) -> dict[str, Any]:
        lines = [{"file": file, "line": line, "seconds": seconds} for (file, line), seconds in self.lines]
        return {"steps": self.steps, "first_step": self.first, "seconds": self.phases, "lines": lines}

    def __str__(self) -> str:
        total, count = sum(self.phases.values()), max(1, self.steps - 1)
        made = [
            f"{self.steps} steps; the first, in which kernels are made, took {self.first:.2f} s; of the others:",
            "",
        ]
        made.append(f"{'phase':12} {'per step':>11} {'share':>8}")
        for name, seconds in self.phases.items():
            if seconds:
                share = seconds / max(total, 1e-12)
                made.append(
                    f"{name:12} {1000 * seconds / count:8.2f} ms {share:7.1%}  {'█' * round(30 * share)}".rstrip()
                )
        all_lines = sum(seconds for _, seconds in self.lines)
        made += ["", "the slowest lines of the whole run"]
        for (file, line), seconds in self.lines[:_LINES]:
            where = f"{os.path.relpath(file)}:{line}"
            text = linecache.getline(file, line).strip()
            made.append(f"{seconds / max(all_lines, 1e-12):7.1%} {seconds:8.2f} s  {where:28} {text[:70]}")
        return "\n".join([*made, "", self.advice(total)]).rstrip()

    def advice(self, total: float) -> str:
        """What the shares suggest."""
        if self.steps < 2 or not total:
            return "There were too few steps to say more."
        share = {name: seconds / total for name, seconds in self.phases.items()}
        if share["loader"] > 0.4:
            return (
                "Most of the time is spent waiting for the loader: num_workers=… lets other processes prepare batches."
            )
        if share["other"] > 0.4:
            return "Much time goes to the program's own Python between the phases: see the lines above."
        if share["evaluation"] > 0.5:
            return "Most of the time is spent on evaluation."
        return ""


def profile(program: str, arguments: Sequence[str], module: bool, steps: int | None, seconds: float | None) -> Profile:
    """Runs a program and measures it."""
    found = Profile(phases=dict.fromkeys(PHASES, 0.0))

    def note(step: Step) -> None:
        found.steps += 1
        if step.number == 1:
            found.first = sum(step.times)
            return
        for name, spent in zip(PHASES, step.times):
            found.phases[name] += spent

    trial, sampler = Trial(steps, seconds), Sampler()
    trial.steps.on_step.insert(0, note)
    trial.run(program, arguments, module, sampler)
    found.lines = sorted(sampler.lines.items(), key=lambda item: -item[1])[:50]
    return found
