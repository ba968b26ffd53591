"""Handles of CUDA's libraries: what a library needs for itself belongs to one stream."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from .._core.allocation import not_planned

_OWN = 8  # streams with a handle of their own: each keeps tens of megabytes


class Handles:
    """The first streams have a handle of their own, all others share one. Calls of one thread at a time."""

    def __init__(self, backend: Any, library: Callable[[], Any], create: str, assign: str):
        self.backend, self.library, self.create, self.assign = backend, library, create, assign
        self.own: dict[tuple[int, int], int] = {}  # by GPU and stream
        self.shared: int | None = None

    def __call__(self) -> int:
        """The handle of the current stream."""
        stream = self.backend.stream()
        key = self.backend.xp.cuda.runtime.getDevice(), stream
        found = self.own.get(key)
        if found is None:
            if len(self.own) < _OWN:
                found = self.own[key] = self._new()
            else:
                not_planned()  # for which stream it works is told anew each time
                if self.shared is None:
                    self.shared = self._new()
                found = self.shared
            self._check(getattr(self.library(), self.assign)(ctypes.c_int64(found), ctypes.c_int64(stream)))
        return found

    def _new(self) -> int:
        made = ctypes.c_int64()
        self._check(getattr(self.library(), self.create)(ctypes.byref(made)))
        return made.value

    def _check(self, status: int) -> None:
        if status:
            raise RuntimeError(f"{self.create} fails with status {status}")
