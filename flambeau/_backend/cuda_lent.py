"""Memory that other streams use than the one it was made for."""

from __future__ import annotations

import sys
from typing import Any


def _references(entry: list[Any]) -> int:
    return sys.getrefcount(entry[0])


_ALONE = _references([object()])  # of memory that only its entry has


class Lent:
    """Pieces of memory with the streams that were told of. CuPy gives what is free to the stream that it was made for, at once; here a piece
    stays until the work that the other streams had when its last tensor went is done."""

    def __init__(self) -> None:
        self.used: dict[int, list[Any]] = {}  # by identity: the memory, then the streams by address
        self.leaving: list[tuple[Any, list[Any]]] = []  # memory without tensors, and marks in the streams

    def __call__(self, memory: Any, stream: Any) -> None:
        self.look()
        self.used.setdefault(id(memory), [memory, {}])[1][stream.ptr] = stream

    def look(self) -> None:
        """Lets go of what nobody uses any more."""
        for key, entry in list(self.used.items()):
            if _references(entry) <= _ALONE:
                memory, streams = self.used.pop(key)
                self.leaving.append((memory, [stream.record() for stream in streams.values()]))
        self.leaving = [left for left in self.leaving if not all([mark.done for mark in left[1]])]
