"""Splitting work over the cores: a small pool of Python threads around calls that release the GIL."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .._core.config import checked_count
from .._kernel.building.jit import cache_size
from .._kernel.native.site import forget_all
from .._kernel.render.streaming import past
from .._kernel.render.tiles import vectors
from .._kernel.threads import pool
from .._kernel.threads.pool import MOST_THREADS, settings

# Work is counted in elements that an operation reads, combines with a few others and writes. From so many on other threads are asked
# to help, which takes the interpreter about 10 µs (a pointwise operation takes 40 to 80 for so many), and Python's own may run meanwhile.
# Native loops, which need no interpreter to hand parts over, do so from half of that on.
WORTHWHILE = 2 * pool.WORTHWHILE
# How many multiplications of a product of matrices, whose operands lie in registers, take as long as one such element.
PRODUCTS = 4
_X86 = platform.machine().lower() in ("x86_64", "amd64")


def _cores() -> int:
    """How many threads there are by default: as many as cores, or as OMP_NUM_THREADS says, which launchers set."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdigit() and int(given):
        return min(int(given), MOST_THREADS)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


class _Pool:
    """Workers that wait for one job each; made at first use, and again in a forked child."""

    def __init__(self) -> None:
        self.size = _cores()
        self.workers: list[_Worker] = []
        self.lock = threading.Lock()

    def run(self, jobs: Sequence[Callable[[], Any]]) -> None:
        """Runs all jobs, the last one in the calling thread; the first error is raised when all have ended."""
        if len(jobs) == 1 or not self.lock.acquire(blocking=False):  # already inside a parallel region
            for job in jobs:
                job()
            return
        try:
            while len(self.workers) < len(jobs) - 1:
                self.workers.append(_Worker())
            busy = self.workers[: len(jobs) - 1]
            for worker, job in zip(busy, jobs):
                worker.start(job)
            error = None
            try:
                jobs[-1]()
            except BaseException as problem:
                error = problem
            for worker in busy:
                error = worker.wait() or error
            if error is not None:
                raise error
        finally:
            self.lock.release()


class _Worker:
    def __init__(self) -> None:
        self.ready, self.done = threading.Lock(), threading.Lock()
        self.ready.acquire()
        self.done.acquire()
        self.job: Callable[[], Any] | None = None
        self.error: BaseException | None = None
        threading.Thread(target=self._serve, daemon=True, name="flambeau-worker").start()

    def _serve(self) -> None:
        while True:
            self.ready.acquire()
            try:
                assert self.job is not None
                self.job()
            except BaseException as error:
                self.error = error
            self.job = None
            self.done.release()

    def start(self, job: Callable[[], Any]) -> None:
        self.error, self.job = None, job
        self.ready.release()

    def wait(self) -> BaseException | None:
        self.done.acquire()
        return self.error


_pool = _Pool()


def _tell_kernels(count: int) -> None:
    """How many threads loops may use, and from which size on light ones take a large result's way to memory.

    Past the caches saves reading the result's memory first, which is what holds a few cores of ARM up. Many cores are
    faster when the results stay in a shared cache that can hold them. A few cores of x86 wait longer for memory that is
    written past the caches than for lines that were asked for early (copies of 8 MB by two cores: 745 and 425 µs; of
    256 MB: 30 and 26 ms). Light loops of a few cores of ARM gain from smaller results on (4 MB by one core, µs: abs 252 and 183,
    relu and a sum 470 and 407; three in a row, whose results a shared cache would keep, 1000 and 1030; of 2 MB 481 and 550);
    those of x86 lose (4 MB by two cores: 5 - x 156 and 214, div 245 and 282).
    """
    few = count <= 4
    settings[0] = count
    settings[1] = (5 << 20 if _X86 else 1 << 23) if few else max(1 << 23, cache_size(3) // 2)
    settings[2] = min(settings[1], 1 << 22) if few and not _X86 else settings[1]
    past.value = not (few and _X86)


_tell_kernels(_pool.size)


def _after_fork() -> None:
    global _pool
    size, _pool = _pool.size, _Pool()
    _pool.size = size


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def set_num_threads(count: int) -> None:
    """Sets how many threads one operation may use; no operation uses more than 256.

    >>> import flambeau as torch
    >>> before = torch.get_num_threads(); torch.set_num_threads(1); torch.get_num_threads()
    1
    >>> torch.set_num_threads(before)
    """
    checked_count("set_num_threads", count)
    before, _pool.size = _pool.size, min(count, MOST_THREADS)
    _tell_kernels(_pool.size)
    if _pool.size != before:
        forget_all()  # plans say how many threads share their work


def get_num_threads() -> int:
    """How many threads one operation may use."""
    return _pool.size


def run(jobs: Sequence[Callable[[], Any]]) -> None:
    """Runs callables side by side and waits for all of them."""
    _pool.run(jobs)


def over(parts: Sequence[tuple[int, int]], function: Callable[..., Any], *given: Any) -> None:
    """Calls function(start, stop, *given) for parts of a range, side by side."""
    if len(parts) == 1:
        function(*parts[0], *given)
    else:
        _pool.run([partial(function, *part, *given) for part in parts])


def parts(work: int) -> int:
    """Into how many parts so many elements are worth cutting for the native pool: at most one for each thread."""
    return max(1, min(_pool.size, work // pool.SHARE))


def pay(work: int) -> bool:
    """Whether so much work is worth more than one thread."""
    return work >= WORTHWHILE


def worth(work: int) -> int:
    """How many threads the work of a product is worth, which machine code hands over, if each needs half of what is worth two: some 15 µs,
    in which wider vectors multiply more. (A training step of five small products by two cores with NEON: 225 µs, and 153 if all are cut.)
    """
    work = work * 64 // vectors()[0]
    return 1 if work < WORTHWHILE else work // (WORTHWHILE // 2)


def count(work: int) -> int:
    """How many threads do so much work: one or all."""
    return 1 if work < WORTHWHILE else _pool.size


def ranges(length: int, least: int = 1, work: int = WORTHWHILE) -> list[tuple[int, int]]:
    """Cuts range(length) into at most one part for each thread, each at least `least` long; into one if `work` is worth no more."""
    return [(0, length)] if work < WORTHWHILE else _cut(length, min(_pool.size, length // max(least, 1)))


def parts_of(length: int, work: int) -> list[tuple[int, int]]:
    """The same into some parts for each thread, so that one which starts late does less; fewer for many threads, as describing
    a part takes the interpreter some microseconds."""
    busy = count(work)
    each = 1 if busy == 1 or busy > 8 else 2 if busy > 4 or work < 8 * WORTHWHILE else 4
    return _cut(length, min(each * busy, length))


def _cut(length: int, parts: int) -> list[tuple[int, int]]:
    parts = max(parts, 1)
    return [(length * i // parts, length * (i + 1) // parts) for i in range(parts)]
