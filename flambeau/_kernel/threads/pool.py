"""A pool of native threads for kernels: work is handed over in about a microsecond, without the interpreter.

The pool is a few functions (`pool_functions`) over POSIX threads. Workers spin for a moment after each piece of work
and then sleep. Whoever starts work joins in it, and waits only for workers that have entered: a worker that the
system keeps from running holds nobody up. `splitting`, `gridded` and `spreading` make ufunc loops that cut their work themselves,
`drive` cuts operands that have further dimensions, `run_calls` runs several kernels.
"""

from __future__ import annotations

import ctypes
import os
import platform
import threading
from array import array
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from ..._core import allocation
from ..._core.state import STARTING, held_over_forks

MOST_OPERANDS = 16
APART = 8192  # bytes between the scratch memory of threads: one core must not prefetch what another writes
# Elements from which a loop is worth a second thread, and how many each thread should get at least.
WORTHWHILE, SHARE = 1 << 17, 1 << 15
EACH = 4  # parts for each thread: one that starts late, or whose core others use, too, does fewer of them
MOST_THREADS = 256  # that work on one operation
# How many threads one operation may use, and the bytes from which large results go their own way to memory: those of any loop, and
# those of light ones, which wait for nothing else.
settings = array("q", [1, 1 << 62, 1 << 62])
# How to wait for a moment, and how often before going to sleep: about a fifth of a millisecond in all.
_INTEL, _ARM = ("llvm.x86.sse2.pause()", 4000), ("llvm.aarch64.hint(i32 1)", 40000)
_PAUSE = {"x86_64": _INTEL, "amd64": _INTEL, "aarch64": _ARM, "arm64": _ARM}

MOST_DIMS = 8
# A ufunc's loop with its arguments: its address, operand addresses, extents, steps.
Call = tuple[int, list[int], list[int], list[int]]
_ZEROS = [0] * 48
_state: dict[str, Any] = {}
_lock = threading.RLock()
held_over_forks(_lock, STARTING)  # Python's own locks of modules are not


def compile_with(compile_module: Callable[..., int]) -> None:
    """Tells how the pool's functions are compiled, by those who write loops that call the pool."""
    _state["compile"] = compile_module


def _pool() -> Any:
    """The pool's entry; compiled with the first large operation."""
    found = _state.get("entry")
    return _started() if found is None else found


def _started() -> Any:
    with _lock:
        if "entry" in _state:
            return _state["entry"]
        from .pool_functions import FUNCTIONS, memory

        pause, patience = _PAUSE.get(platform.machine().lower(), ("", 1000))
        address = _state["compile"](
            FUNCTIONS, memory(MOST_THREADS), pause=pause, patience=patience, most=MOST_THREADS, worthwhile=WORTHWHILE,
            share=SHARE, each=EACH,
        )  # fmt: skip
        found = _state["entry"] = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(address)
        return found


def entry() -> int:
    """The address of the function that is given words and a number of threads (negative for `sequences`)."""
    return ctypes.cast(_pool(), ctypes.c_void_p).value or 0


def run(words: int, threads: int) -> None:
    """Runs what words at this address describe, in so many threads (negative for `sequences`)."""
    _pool()(words, threads)


def _after_fork() -> None:
    """A forked child has none of its parent's threads."""
    if "entry" in _state:
        _state["entry"](None, 0)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def splitting(kernel: int, operands: int, sizes: int, weight: int = 1, results: int = 0) -> tuple[int, Any]:
    """A ufunc loop, as (address, its data), that runs `kernel` on parts of a long range side by side.

    `sizes` counts the loop's extents, 1 and the core dimensions. `weight` is what one element costs in those of an
    addition. Of a pointwise loop `results` counts the last operands, which are written: one that lies across another operand is not cut.
    """
    if "split" not in _state:
        _state["split"] = _pool()(None, 1)
    data = array("q", [kernel, operands, sizes, settings.buffer_info()[0], weight, results])
    return _state["split"], data


def weight(address: int, data: Any) -> int:
    """What an element costs a loop that `splitting` made; 0 for other loops."""
    return int(data[4]) if data is not None and address == _state.get("split") else 0


def gridded(
    kernel: int,
    places: list[tuple[int, int]],
    room: int,
    room_bytes: int,
    grid: tuple[int, int, int],
    units: tuple[int, int],
    threads: int,
) -> tuple[int, Any]:
    """A loop over (batch, m, k, n, s), as (address, its data), that runs `kernel` on a grid of parts side by side.

    `grid` says into how many parts batch, m and n are cut, the latter at multiples of `units`. `places` gives for each
    operand which of the loop's steps belong to m and n (-1 for none). Operand `room` is scratch memory: each of the
    threads has its own `room_bytes` of it.
    """
    if "grid" not in _state:
        _state["grid"] = _pool()(None, 2)
    words = [kernel, len(places), room, room_bytes, *grid, *units, threads, *[n for pair in places for n in pair]]
    return _state["grid"], array("q", words)


def runner() -> int:
    """The address of run(function, argument, count, threads), for kernels that cut their work themselves.

    It calls function(argument, i, number of the thread) for every i below `count` on the threads and returns when all are done.
    """
    if "run" not in _state:
        _state["run"] = _pool()(None, 3)
    return _state["run"]


def run_calls(calls: list[Call], threads: int) -> None:
    """Runs ufunc loops side by side."""
    work = sequences([[call] for call in calls])
    run_sequences(work.buffer_info()[0], threads)


def sequences(rows: list[list[Call]]) -> Any:
    """Words that describe rows of calls, of which each row runs one after the other; rows are equally long.

    A header (rows, calls in each, words of a call, where in it extents and steps are), then the calls: address of the
    loop, addresses of its operands, extents, steps.
    """
    calls = [call for row in rows for call in row]
    operands = max([len(call[1]) for call in calls])
    extents = max([len(call[2]) for call in calls])
    steps = max([len(call[3]) for call in calls])
    words = [len(rows), len(rows[0]), 1 + operands + extents + steps, 1 + operands, 1 + operands + extents]
    for kernel, one, two, three in calls:
        words.append(kernel)
        words += one if len(one) == operands else one + _ZEROS[: operands - len(one)]
        words += two if len(two) == extents else two + _ZEROS[: extents - len(two)]
        words += three if len(three) == steps else three + _ZEROS[: steps - len(three)]
    return array("q", words)


HEADER = 5  # words of the header of `sequences`


def run_shares(words: Any, threads: int, places: list[int], inside: list[int]) -> None:
    """Runs rows of calls whose operands are at `places` among the words, and that have addresses of these words at `inside`."""
    start = words.buffer_info()[0]
    if allocation.watcher is not None and allocation.watcher.here():
        allocation.watcher.work(words[:], -threads, places, [(p, words[p] - start) for p in inside])
    _pool()(start, -threads)


def run_sequences(work: int, threads: int, places: list[int] | None = None, kept: Any = None) -> None:
    """Runs rows of calls side by side; `work` is the address of words as `sequences` makes them.

    If some operands are constants, which `kept` keeps, `places` says where the others are."""
    if allocation.watcher is not None and allocation.watcher.here():
        rows, calls, each, operands, _ = (ctypes.c_int64 * HEADER).from_address(work)
        words = array("q", (ctypes.c_int64 * (HEADER + rows * calls * each)).from_address(work))
        if places is None:
            starts = range(HEADER, len(words), each)
            places = [s + i for s in starts for i in range(1, operands) if words[s + i]]
        allocation.watcher.work(words, -threads, places, (), kept)
    _pool()(work, -threads)


def drive(
    kernel: int,
    threads: int,
    jobs: int,
    addresses: list[int],
    length: int,
    steps: list[int],
    sizes: tuple[int, ...] = (),
    shape: tuple[int, ...] = (),
    strides: list[tuple[int, ...]] | None = None,
) -> None:
    """Runs a ufunc loop over memory, cut into `jobs` parts that `threads` threads share.

    The loop has `length` iterations with `steps` (bytes, for each operand; then the strides of core dimensions, whose
    extents are `sizes`). With `shape`, the loop is run for every index of these outer dimensions, `strides[operand]`
    apart. The caller answers for bounds: every address reached must belong to its operand.
    """
    count = len(addresses)
    if not shape or strides is None:
        bounds = [length * i // jobs for i in range(jobs + 1)]
        run_calls(
            [
                (kernel, [a + start * s for a, s in zip(addresses, steps)], [stop - start, *sizes], steps)
                for start, stop in pairwise(bounds)
            ],
            threads,
        )
        return
    run_walk(walk(kernel, jobs, count, length, steps, sizes, shape, strides), addresses, threads)


_ADDRESSES = 7  # where in the words of `walk` the operands' addresses begin


def walk(
    kernel: int,
    jobs: int,
    operands: int,
    length: int,
    steps: list[int],
    sizes: tuple[int, ...],
    shape: tuple[int, ...],
    strides: list[tuple[int, ...]],
) -> Any:
    """Words that describe a loop over outer dimensions, as `drive` has them, for any operands that lie so."""
    rows = 1
    for n in shape:
        rows *= n
    words = [kernel, operands, rows, settings.buffer_info()[0], jobs, len(shape), 1 + len(sizes)]
    words += _ZEROS[:MOST_OPERANDS]  # as `part` reads
    words += steps + _ZEROS[: 48 - len(steps)]
    words += [length, *sizes] + _ZEROS[: 15 - len(sizes)]
    words += [*shape] + _ZEROS[: MOST_DIMS - len(shape)]
    for line in strides:
        words += [*line] + _ZEROS[: MOST_DIMS - len(line)]
    return array("q", words)


def run_walk(words: Any, addresses: list[int], threads: int) -> None:
    """Runs what `walk` describes on operands."""
    work = words[:]  # other threads may use the same description
    work[_ADDRESSES : _ADDRESSES + len(addresses)] = array("q", addresses)
    if allocation.watcher is not None and allocation.watcher.here():
        allocation.watcher.work(work, threads, range(_ADDRESSES, _ADDRESSES + len(addresses)))
    _pool()(work.buffer_info()[0], threads)


def spreading(words: Any) -> tuple[int, Any]:
    """What `walk` describes as a ufunc loop, (address, its data), which looks at nothing but its operands."""
    if "spread" not in _state:
        _state["spread"] = _pool()(None, 4)
    return _state["spread"], words
