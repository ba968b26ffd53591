"""`Timer`: runs a statement often enough to know its time."""

from __future__ import annotations

import textwrap
import timeit
from collections.abc import Callable
from enum import Enum
from time import perf_counter
from typing import Any

from ...._backend.placement import cuda_problem
from .common import Measurement, TaskSpec, set_torch_threads

__all__ = ["Language", "Timer", "timer"]


def timer() -> float:
    """The time in seconds, once the GPU, if in use, has finished."""
    if cuda_problem.cache_info().currsize and cuda_problem() is None:
        from ....cuda import synchronize

        synchronize()
    return perf_counter()


class Language(Enum):
    """The language of a statement; only Python runs here."""

    PYTHON = 0
    CPP = 1


class Timer:
    """Times a statement, given as text; `globals` are the names it sees (and `torch`).

    >>> from flambeau.utils.benchmark import Timer
    >>> measured = Timer("x + 1", setup="x = torch.ones(3)").timeit(10)
    >>> measured.median > 0
    True
    """

    _timer_cls: type = timeit.Timer

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError("Timer: stmt must be a str; functions can be called by name through `globals`")
        if language not in (Language.PYTHON, "py", "python"):
            raise NotImplementedError(f"Timer: only Python statements can be timed, not {language}")
        if global_setup:
            raise ValueError(f"Timer: global_setup is for C++; put Python code into setup: {global_setup!r}")
        import flambeau  # what statements call `torch`

        self._globals = {"torch": flambeau, **(globals or {})}
        stmt, setup = textwrap.dedent(stmt).strip(), textwrap.dedent(setup).strip()
        self._timer = self._timer_cls(stmt=stmt, setup=setup, timer=timer, globals=self._globals)
        self._task_spec = TaskSpec(
            stmt=stmt,
            setup=setup,
            label=label,
            sub_label=sub_label,
            description=description,
            env=env,
            num_threads=num_threads,
        )

    def _timeit(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)

    def timeit(self, number: int = 1000000) -> Measurement:
        """One measurement of `number` runs, after a short warm-up."""
        with set_torch_threads(self._task_spec.num_threads):
            self._timeit(max(int(number // 100), 2))
            return Measurement(number, [self._timeit(number)], self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Not offered: `blocked_autorange` gives repeated measurements."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Callable[[int, float], Any] | None = None) -> None:
        """Not offered: `blocked_autorange` chooses the number of runs."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _block_size(self, min_run_time: float) -> int:
        """So many runs that reading the clock costs nothing beside them, and a block takes a thousandth of the time."""
        overhead = sorted(self._timeit(0) for _ in range(5))[2]
        number = 1
        while True:
            taken = self._timeit(number)
            if overhead / taken <= 1e-4 and taken >= min_run_time / 1000:
                return number
            if taken > min_run_time:
                return number
            number *= 10

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Measurements of equal blocks of runs, until `min_run_time` seconds were spent."""
        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(min_run_time)
            times: list[float] = []
            spent = 0.0
            while spent < min_run_time:
                times.append(self._timeit(number))
                spent += times[-1]
                if callback is not None:
                    callback(number, times[-1])
        return Measurement(number, times, self._task_spec)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Like `blocked_autorange`, but goes on until the spread is below `threshold` or `max_run_time` is over."""
        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(0.05)
            times: list[float] = []
            spent = 0.0
            while spent < max_run_time:
                times.append(self._timeit(number))
                spent += times[-1]
                if callback is not None:
                    callback(number, times[-1])
                measured = Measurement(number, times, self._task_spec)
                if spent >= min_run_time and len(times) > 3 and measured.meets_confidence(threshold):
                    break
        return Measurement(number, times, self._task_spec)

    def collect_callgrind(self, *args: Any, **named: Any) -> None:
        """Not available: instruction counts of an interpreter under Valgrind say little about kernels made at run time."""
        raise NotImplementedError("collect_callgrind: instruction counts are not available; use blocked_autorange")
