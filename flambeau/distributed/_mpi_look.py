"""Looks after requests of MPI in machine code: MPI only works while somebody calls it, and the interpreter has other things
to do meanwhile."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

from .._kernel.native.dialect import compile_function


def _look(m, ask, requests, count, status, turns, awake, nap):
    """Looks at requests, so many turns, until one is done. For the first turns it gives its core to others in between, then
    it sleeps."""
    flag = m.space(1)
    for turn in range(turns):
        for i in range(count):
            m.put(flag, 0, 0)
            m.call(ask, m.word(requests, 8 * i), flag, status)
            if m.half(flag) != 0:
                return 1
        if turn < awake:
            m.call("sched_yield")
        else:
            m.call("usleep", nap)
    return 0


@functools.cache
def looking(mpi: Any) -> Callable[[Sequence[int], int, int, int], int]:
    """The function (handles of requests, turns, how many of them awake, microseconds of sleep) that looks whether one of the
    requests is done. Requests stay as they are: who finds one done tests it."""
    address = compile_function(
        "look_at_requests", _look, ["ask", "requests", "count", "status", "turns", "awake", "nap"]
    )
    native = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 7)(address)
    ask = ctypes.cast(ctypes.CDLL(mpi.__file__).MPI_Request_get_status, ctypes.c_void_p).value
    status = mpi.Status()
    about = mpi._addressof(status)

    def look(handles: Sequence[int], turns: int, awake: int, nap: int) -> int:
        words = (ctypes.c_int64 * len(handles))(*handles)
        assert status is not None  # it lives as long as this function
        return native(ask, ctypes.addressof(words), len(handles), about, turns, awake, nap)

    return look
