"""The garbage collector: moments without it, and who refers to an object."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .state import MOMENT, held_over_forks

_BEGINS = (
    30_000  # objects that a program which has done nothing yet has less of: Python's own are 5,000, with NumPy 17,000
)


class uncollected:
    """A moment without garbage collection, which would run finalizers of the program in whatever thread it happens to.

    Of several that overlap, the last to end puts things back as the first found them. One that an interrupt tore apart is over when its
    object is gone, and the next one notices.
    """

    # An exception of a signal handler may come between any two instructions: the lock is let go of in a `finally` that begins before it is
    # taken. On Python 3.14 `with lock` has a gap between taking it and its block, and so has a comprehension within the block.

    def __enter__(self) -> None:
        lock = _collector.lock
        try:
            lock.acquire()
            if not _collector.open():
                _collector.on = gc.isenabled()
            _collector.moments.append(weakref.ref(self))
            gc.disable()
        finally:
            try:  # noqa: SIM105 - a Python function that begins first could be interrupted
                lock.release()
            except RuntimeError:
                pass  # an interrupt ended the wait for it

    def __exit__(self, *error: Any) -> None:
        lock = _collector.lock
        try:
            lock.acquire()
            _collector.close(self)
        finally:
            try:  # noqa: SIM105 - a Python function that begins first could be interrupted
                lock.release()
            except RuntimeError:
                pass  # an interrupt ended the wait for it


class _Collector:
    """Which moments without garbage collection are open, and whether it goes on after the last."""

    def __init__(self) -> None:
        self.lock, self.on, self.kept = threading.RLock(), False, 0
        self.moments: list[weakref.ref[uncollected]] = []

    def open(self) -> bool:
        """Whether any is open; if not, garbage is collected again."""
        self.moments = [r for r in self.moments if r() is not None]
        if not self.moments and self.on:
            gc.enable()
            self.on = False
        return bool(self.moments)

    def close(self, one: uncollected) -> None:
        self.moments = [r for r in self.moments if r() is not one]
        self.open()

    def forget(self) -> None:
        """In a child the threads that opened them are not there."""
        self.moments = []
        self.open()


_collector = _Collector()
held_over_forks(_collector.lock, MOMENT)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_collector.forget)


@contextmanager
def beginning() -> Iterator[None]:
    """The import of the package, whose modules, classes and functions are no garbage as long as the process lives.

    No collection looks for some meanwhile, and later ones leave out what was made, which would take them longer than the import itself
    takes to run: several look through everything when the process ends. That is only for programs that begin with the import, as what
    they had before would be left out, too.
    """
    begins = len(gc.get_objects()) < _BEGINS and not gc.get_freeze_count()
    with uncollected():
        yield
        if begins:
            gc.freeze()
            _collector.kept = gc.get_freeze_count()


def referrers(objects: list[Any]) -> Iterator[Any]:
    """What refers to some objects: all of the process is looked through, what is frozen too, which the collector leaves out."""
    frozen = gc.get_freeze_count()
    again = frozen > _collector.kept  # by the program: what the import left out is not worth all that there is by now
    if frozen:
        gc.unfreeze()
        _collector.kept = 0
    try:
        for i in range(0, len(objects), 8):
            # (A tuple of arguments would be found, too: Python 3.13 makes another one of it.)
            a = [*objects[i : i + 8], *objects[:1] * 8]
            yield from (one for one in gc.get_referrers(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]) if one is not a)
    finally:
        if again:
            gc.freeze()
