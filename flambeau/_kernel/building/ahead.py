"""Kernels that will be needed soon: a thread compiles them while the program goes on.

Whoever needs one of them earlier waits for it (`jit.py`). What has not begun when the program ends is left.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from typing import Any

from ..._core.state import HELPING, MOMENT, held_over_forks
from . import jit, llvm


class _Helper:
    """Tasks in turn, and whether there is a thread for them."""

    def __init__(self) -> None:
        self.lock, self.tasks = threading.RLock(), list[Callable[[], Any]]()
        self.thread: threading.Thread | None = None
        self.busy = threading.RLock()  # held over a task, which may import modules: no child gets them half done
        held_over_forks(self.lock, MOMENT)
        held_over_forks(self.busy, HELPING)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forget)

    def soon(self, task: Callable[[], Any]) -> None:
        """Has a thread do what compiles kernels; this one does it itself where all kernels are gathered."""
        if jit.gathers():
            task()
            return
        with self.lock:
            self.tasks.append(task)
            if self.thread is None:
                self.thread = threading.Thread(target=self._work, name="flambeau compiler")
                self.thread.start()

    def finish(self) -> None:
        """Waits until nothing is left."""
        thread = self.thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def forget(self) -> None:
        """In a child the thread is not there."""
        self.tasks, self.thread = [], None

    def _work(self) -> None:
        while True:
            with self.lock:
                if not self.tasks or not threading.main_thread().is_alive():
                    self.tasks, self.thread = [], None
                    return
                task = self.tasks.pop(0)
            with self.busy, contextlib.suppress(Exception):  # whoever needs the kernel meets the error himself
                task()


def pays() -> bool:
    """Whether this thread has waited for the compiler since that was last asked, and another core can compile what comes next."""
    if not jit.waits.waited:
        return False
    jit.waits.waited = False
    return llvm.cores() > 1


_helper = _Helper()
soon, finish = _helper.soon, _helper.finish
