"""Pause, resume, stop and checkpoints: asked for by the page, obeyed by the program between two steps."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Stopped(KeyboardInterrupt):
    """Ends the program where Ctrl+C would have: what it does about that, it does now."""


class Control:
    """What is wanted of the program. `wanted` is all that a step looks at."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.wanted = False
        self.paused = self.stopping = self.saving = False

    def ask(self, what: str) -> None:
        """Called by the server: pause, resume, stop or checkpoint."""
        with self.changed:
            if what == "pause":
                self.paused = True
            elif what == "resume":
                self.paused = False
            elif what == "stop":
                self.stopping = True
            elif what == "checkpoint":
                self.saving = True
            else:
                raise ValueError(what)
            self.wanted = True
            self.changed.notify_all()

    def obey(self, save: Callable[[], None], state: Callable[[str], None]) -> None:
        """Called by the program between two steps: saves, waits, or ends it."""
        with self.changed:
            said = False
            while True:
                if self.saving:
                    self.saving = False
                    save()
                if self.stopping:
                    self.stopping = False  # once: the program may end in its own way
                    self.wanted = False
                    state("stopping")
                    raise Stopped("stopped from the watch's page")
                if not self.paused:
                    break
                if not said:
                    state("paused")
                    said = True
                self.changed.wait()
            self.wanted = False
        if said:
            state("running")
