"""Looks after requests of MPI in machine code: MPI only works while somebody calls it, and the interpreter has other things
to do meanwhile."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from .._kernel.loops.dialect import compile_function

SET_SLACK, GET_SLACK = 29, 30  # of Linux' prctl: by how many nanoseconds a thread may wake late, usually 50,000
EXACT = 1000
MONOTONIC = 1  # the clock of that name
CROWDED = 200_000  # nanoseconds after which a core that was offered to others has been taken: there are more programs than cores


def _look(m, ask, slack, requests, count, status, turns, awake, nap):
    """Looks at requests, so many turns, until one is done (1). For the first turns it gives its core to others in between,
    unless they keep it (2); then it sleeps."""
    flag = m.space(1)
    clock = m.space(2)
    usual = 0
    for turn in range(turns):
        for i in range(count):
            m.put(flag, 0, 0)
            m.call(ask, m.word(requests, 8 * i), flag, status)
            if m.half(flag) != 0:
                if usual > 0:
                    m.short(slack, SET_SLACK, usual)
                return 1
        if turn < awake:
            m.call("clock_gettime", MONOTONIC, clock)
            begin = m.word(clock) * 1000000000 + m.word(clock, 8)
            m.call("sched_yield")
            m.call("clock_gettime", MONOTONIC, clock)
            if m.word(clock) * 1000000000 + m.word(clock, 8) - begin > CROWDED:
                return 2
        else:
            if usual == 0:
                usual = m.short(slack, GET_SLACK)
                m.short(slack, SET_SLACK, EXACT)
            m.call("usleep", nap)
    if usual > 0:
        m.short(slack, SET_SLACK, usual)
    return 0


@functools.cache
def looking(mpi: Any) -> Callable[[Sequence[int], int, int, int], int]:
    """The function (handles of requests, turns, how many of them awake, microseconds of sleep) that looks whether one of the
    requests is done (1), or whether others need the core (2). Requests stay as they are: who finds one done tests it."""
    words = ["ask", "slack", "requests", "count", "status", "turns", "awake", "nap"]
    address = compile_function("look_at_requests", _look, words)
    native = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 8)(address)
    system = ctypes.CDLL(None)
    prctl = system.prctl if sys.platform == "linux" else system.getpid  # which is of no consequence
    slack = ctypes.cast(prctl, ctypes.c_void_p).value
    ask = ctypes.cast(ctypes.CDLL(mpi.__file__).MPI_Request_get_status, ctypes.c_void_p).value
    status = mpi.Status()
    about = mpi._addressof(status)

    def look(handles: Sequence[int], turns: int, awake: int, nap: int) -> int:
        words = (ctypes.c_int64 * len(handles))(*handles)
        assert status is not None  # it lives as long as this function
        return native(ask, slack, ctypes.addressof(words), len(handles), about, turns, awake, nap)

    return look
