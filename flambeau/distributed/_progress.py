"""The thread that carries calls on while the program does something else. It sleeps while there are none."""

from __future__ import annotations

import threading
import time

from ._work import Work

_PAUSES = 0.00002, 0.001  # seconds between looks: the first, and the longest


class Progress:
    """Looks after works that nobody waits for yet."""

    def __init__(self) -> None:
        self._works: list[Work] = []
        self._there = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, work: Work) -> None:
        with self._there:
            self._works.append(work)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="flambeau-progress", daemon=True)
                self._thread.start()
            self._there.notify()

    def _run(self) -> None:
        pause = _PAUSES[0]
        while True:
            with self._there:
                while not self._works:
                    self._there.wait()
                works = list(self._works)
            done = [work for work in works if work.poll()]
            if done:
                with self._there:
                    self._works = [work for work in self._works if work not in done]
                pause = _PAUSES[0]
            else:
                time.sleep(pause)
                pause = min(pause * 1.5, _PAUSES[1])


progress = Progress()
