"""The thread that carries calls on while the program does something else. It sleeps while there are none."""

from __future__ import annotations

import threading
import time

from ._work import Work

_PAUSE = 0.0002  # seconds, while others wait for all works there are


class Progress:
    """Looks after works that nobody waits for yet."""

    def __init__(self) -> None:
        self._works: list[Work] = []
        self._there = threading.Condition()
        self._thread: threading.Thread | None = None
        self._ends = False

    def add(self, work: Work) -> None:
        with self._there:
            self._works.append(work)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="flambeau-progress", daemon=True)
                self._thread.start()
            self._there.notify()

    def stop(self, seconds: float) -> bool:
        """Ends the thread, before MPI itself ends under its feet; whether there is nothing left to do."""
        with self._there:
            self._ends = True
            self._there.notify()
        if self._thread is not None:
            self._thread.join(seconds)
        return not self._works and (self._thread is None or not self._thread.is_alive())

    def _run(self) -> None:
        while True:
            with self._there:
                while not self._works and not self._ends:
                    self._there.wait()
                works = list(self._works)
            if not works:
                return
            mine = [work for work in works if work.claim()]  # nobody waits for these
            try:
                for channel in {work.channel for work in mine}:
                    channel.look([work for work in mine if work.channel is channel])
            finally:
                for work in mine:
                    work.release()
            if not mine:
                time.sleep(_PAUSE)
            if any(work.done() for work in works):
                with self._there:
                    self._works = [work for work in self._works if not work.done()]


progress = Progress()
