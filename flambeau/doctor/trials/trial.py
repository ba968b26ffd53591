"""What trials share: the program runs for so many steps, whatever its loops say, and saves nothing meanwhile."""

from __future__ import annotations

import contextlib
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ... import install_as_torch
from ..._observe.steps import Step, Steps
from ...optim import lr_scheduler
from ...utils import data as loading
from ..program import as_main, execute, located
from ..run.session import Enough


class Failed(Exception):
    """A trial could not be made; says why."""


class Trial:
    """Runs a program until `steps` optimizer steps or `seconds` are over.

    With `endless`, loops over loaders go on until then: endless(passes) gives batches from a function that begins a pass. Nothing is
    saved, since what the program would save is not what it should.
    """

    def __init__(
        self, steps: int | None, seconds: float | None, endless: Callable[[Any], Iterator[Any]] | None = None
    ) -> None:
        self.limit_steps, self.limit_seconds, self.endless = steps, seconds, endless
        self.steps = Steps()
        self.steps.on_step.append(self._stepped)
        self.began = 0.0
        self.loaders = 0
        self.ended = ""  # why the program ended before it was told to

    def run(self, program: str, arguments: Sequence[str], module: bool, within: Any = None) -> None:
        """Runs the program; an error of its own is a failure of the trial."""
        path, text = located(program, module)
        install_as_torch()
        if self.endless is not None:
            package = sys.modules[__name__.partition(".")[0]]
            self.steps.patches.wrap(loading.DataLoader, "__iter__", self._iterated)
            self.steps.patches.wrap(package, "save", lambda original: lambda *args, **named: None)
            self.steps.patches.wrap(lr_scheduler.LRScheduler, "step", _at_most)
        self.began = time.monotonic()
        try:
            with as_main(program, path, arguments, sys.stderr), self.steps, within or contextlib.nullcontext():
                execute(program, path, text, module)
        except Enough:
            return
        except (SystemExit, KeyboardInterrupt) as end:
            self.ended = f"the program ended itself ({type(end).__name__})"
        except Exception as error:
            raise Failed(f"the program failed:\n{''.join(traceback.format_exception(error))}") from None

    def _stepped(self, step: Step) -> None:
        passed = time.monotonic() - self.began
        if (self.limit_steps is not None and step.number >= self.limit_steps) or (
            self.limit_seconds is not None and passed > self.limit_seconds
        ):
            raise Enough

    def _iterated(self, original: Any) -> Any:
        def iterate(loader: Any) -> Iterator[Any]:
            assert self.endless is not None
            self.loaders += 1
            before = -1
            while before < self.steps.number:  # a pass without steps is an evaluation, which ends
                before = self.steps.number
                yield from self.endless((loader, original))

        return iterate


def _at_most(original: Any) -> Any:
    """A scheduler's step; one that is planned for fewer steps stays where it is."""

    def step(*args: Any, **named: Any) -> None:
        with contextlib.suppress(ValueError):
            original(*args, **named)

    return step
