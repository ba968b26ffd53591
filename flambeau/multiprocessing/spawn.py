"""`spawn`: runs a function in several processes and brings their errors back."""

from __future__ import annotations

import ctypes
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

_KILL_AFTER = 30.0  # seconds that a process has after it was told to end
_PR_SET_PDEATHSIG = 1


class ProcessException(Exception):
    """A process did not end as it should: `error_index` is its number, `error_pid` its id."""

    def __init__(self, msg: str, error_index: int, pid: int):
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid, self.pid = msg, error_index, pid, pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """The function raised; the message has the traceback."""

    def __init__(self, msg: str, error_index: int, error_pid: int):
        super().__init__(msg, error_index, error_pid)


class ProcessExitedException(ProcessException):
    """The process ended by a signal or with an exit code."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _end_with_parent() -> None:
    """Lets the system interrupt this process when its parent is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGINT))


def _run(fn: Callable[..., Any], index: int, args: tuple[Any, ...], error_file: str) -> None:
    _end_with_parent()
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the parent is interrupted too
    except Exception as error:
        sys.last_value = error  # as the interpreter notes what ends it: handlers of the exit need not wait for others
        with open(error_file, "w", encoding="utf-8") as file:
            file.write(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """Processes that were started together; `join` waits for them and raises the first error."""

    def __init__(self, processes: list[Any], error_files: list[str]):
        self.processes, self.error_files = processes, error_files
        self.sentinels = {process.sentinel: index for index, process in enumerate(processes)}

    def pids(self) -> list[int]:
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits until a process ends, at most `timeout` seconds; whether all have ended.

        When one fails, the others have `grace_period` seconds to end before they are told to, and the error is raised.
        """
        ready = multiprocessing.connection.wait(list(self.sentinels), timeout) if self.sentinels else []
        failed = None
        for sentinel in ready:
            index = self.sentinels.pop(sentinel)
            self.processes[index].join()
            if self.processes[index].exitcode != 0 and failed is None:
                failed = index
        if failed is None:
            return not self.sentinels
        self._end_all(grace_period)
        self._raise(failed)
        return False

    def _end_all(self, grace_period: float | None) -> None:
        if grace_period:
            self._wait(grace_period)
        for end in ("terminate", "kill"):
            for process in self.processes:
                if process.is_alive():
                    getattr(process, end)()
            self._wait(_KILL_AFTER)

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))

    def _raise(self, index: int) -> None:
        process, error_file = self.processes[index], self.error_files[index]
        if os.path.exists(error_file):
            with open(error_file, encoding="utf-8") as file:
                message = f"process {index} raised:\n\n{file.read()}"
            raise ProcessRaisedException(message, index, process.pid)
        code = process.exitcode
        if code >= 0:
            raise ProcessExitedException(f"process {index} terminated with exit code {code}", index, process.pid, code)
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        message = f"process {index} terminated with signal {name}"
        raise ProcessExitedException(message, index, process.pid, code, name)


SpawnContext = ProcessContext


def start_processes(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Runs `fn(i, *args)` for every i below `nprocs` in a process of its own; waits for them if `join`."""
    context = multiprocessing.get_context(start_method)
    directory = tempfile.TemporaryDirectory(prefix="flambeau-")
    processes, error_files = [], []
    for index in range(nprocs):
        error_file = os.path.join(directory.name, str(index))
        process = context.Process(target=_run, args=(fn, index, args, error_file), daemon=daemon)  # type: ignore[attr-defined]
        process.start()
        processes.append(process)
        error_files.append(error_file)
    made = ProcessContext(processes, error_files)
    made._directory = directory  # type: ignore[attr-defined]  # removed with the context
    if not join:
        return made
    with directory:
        while not made.join():
            pass
    return None


def spawn(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Runs `fn(i, *args)` for every i below `nprocs`, each in a fresh interpreter.

    If one process fails, the others are ended and the error is raised here. Without `join`, the processes are
    returned as soon as they run.
    """
    if start_method != "spawn":
        warnings.warn(
            f"spawn() starts fresh interpreters; for {start_method!r} call start_processes()", FutureWarning, 2
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
