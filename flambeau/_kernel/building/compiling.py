"""Which threads compile which parts of kernels at the moment, and what a terminal says of it."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from .modules import Part


class Compiling:
    """Threads compile side by side, each part once. A fork waits until none does, and holds them up meanwhile."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.threads: list[int] = []
        self.parts: dict[str, int] = {}  # the thread that makes a part, by digest

    def acquire(self) -> None:
        self.condition.acquire()
        me = threading.get_ident()
        self.condition.wait_for(lambda: not [t for t in self.threads if t != me])

    def release(self) -> None:
        self.condition.release()

    def begin(self, parts: Sequence[Part]) -> list[Part]:
        """Takes those parts that no other thread makes."""
        me = threading.get_ident()  # a signal handler may ask for what this thread is about to make
        with self.condition:
            mine = [part for part in parts if self.parts.setdefault(part.digest, me) == me]
            self.threads.append(me)
        return mine

    def end(self, parts: Sequence[Part]) -> None:
        with self.condition:
            for part in parts:
                self.parts.pop(part.digest, None)
            self.threads.remove(threading.get_ident())
            self.condition.notify_all()

    def wait(self, parts: Sequence[Part]) -> None:
        """Until no other thread makes one of these."""
        me = threading.get_ident()
        with self.condition:
            self.condition.wait_for(lambda: not [p for p in parts if self.parts.get(p.digest, me) != me])


class Notice:
    """A line on a terminal while kernels are compiled, once that has taken more than a second; never if FLAMBEAU_PROGRESS is 0."""

    def __init__(self) -> None:
        self.count, self.spent, self.start, self.shown = 0, 0.0, 0.0, False
        self.lock, self.threads = threading.RLock(), 0

    def __enter__(self) -> None:
        with self.lock:
            self.count, self.threads = self.count + 1, self.threads + 1
            if self.threads == 1:
                self.start = time.monotonic()
            wanted = self.spent > 1.0 and os.environ.get("FLAMBEAU_PROGRESS") != "0"
            self.shown = self.shown or (wanted and sys.stderr is not None and sys.stderr.isatty())
            if self.shown:
                text = f"flambeau: compiling kernel {self.count} for this processor, kept for later runs"
                sys.stderr.write(f"\r{text}\x1b[K")
                sys.stderr.flush()

    def __exit__(self, *error: Any) -> None:
        with self.lock:
            self.threads -= 1
            if self.threads:
                return
            self.spent += time.monotonic() - self.start
            if self.shown:
                self.shown = False
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()
