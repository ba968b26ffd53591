"""Errors of processes that a launcher started: the process leaves them in a file, the launcher shows them."""

from __future__ import annotations

import functools
import json
import os
import signal
import socket
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]

_FILE = "TORCHELASTIC_ERROR_FILE"
_LINE = 60


@dataclass
class ProcessFailure:
    """How a process ended. Its message and time are those of its error file, if it left one."""

    local_rank: int
    pid: int
    exitcode: int
    error_file: str = ""
    message: Any = field(init=False)
    timestamp: float = field(init=False)

    def __post_init__(self) -> None:
        self.error_file_data: dict[str, Any] = {}
        self.timestamp = time.time()
        if self.exitcode < 0:
            self.message = f"Signal {-self.exitcode} ({self.signal_name()}) received by PID {self.pid}"
        else:
            self.message = "To enable traceback see: torch.distributed.elastic.multiprocessing.errors.record"
        try:
            with open(self.error_file, encoding="utf-8") as file:
                self.error_file_data = json.load(file)
            said = self.error_file_data["message"]
            self.message = said["extraInfo"]["py_callstack"] if isinstance(said, dict) else said
            self.timestamp = float(said["extraInfo"]["timestamp"])
        except (OSError, ValueError, KeyError, TypeError):
            pass  # it left none, or was killed while it wrote

    def signal_name(self) -> str:
        """The name of the signal that ended the process."""
        try:
            return signal.Signals(-self.exitcode).name if self.exitcode < 0 else "<N/A>"
        except ValueError:
            return "<Unknown>"

    def timestamp_isoformat(self) -> str:
        """When it ended."""
        return time.strftime("%Y-%m-%d_%H:%M:%S", time.localtime(self.timestamp))


class ChildFailedError(Exception):
    """Processes that a launcher started have failed, by their ranks; the text shows how each ended, the first one last.

    >>> error = ChildFailedError("train.py", {1: ProcessFailure(1, 1234, -9)})
    >>> [line for line in str(error).splitlines() if "exitcode" in line]
    ['  exitcode  : -9 (pid: 1234) (SIGKILL)']
    """

    def __init__(self, name: str, failures: dict[int, ProcessFailure]):
        if not failures:
            raise AssertionError("ChildFailedError needs the failure of at least one process")
        self.name, self.failures = name, failures
        super().__init__(self.format_msg())

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """The rank that failed first, and how."""
        rank = min(self.failures, key=lambda rank: self.failures[rank].timestamp)
        return rank, self.failures[rank]

    def _about(self, number: int, rank: int) -> str:
        failure = self.failures[rank]
        ended = f"({failure.signal_name()})" if failure.exitcode < 0 else ""
        told = str(failure.message).replace("\n", "\n  ")
        return (
            f"[{number}]:\n  time      : {failure.timestamp_isoformat()}\n  host      : {socket.gethostname()}\n"
            f"  rank      : {rank} (local_rank: {failure.local_rank})\n"
            f"  exitcode  : {failure.exitcode} (pid: {failure.pid}) {ended}\n"
            f"  error_file: {failure.error_file if failure.error_file_data else '<N/A>'}\n  traceback : {told}"
        )

    def format_msg(self, boarder_delim: str = "=", section_delim: str = "-") -> str:
        """The text of the error."""
        first, _ = self.get_first_failure()
        others = [rank for rank in self.failures if rank != first]
        border, section = boarder_delim * _LINE, section_delim * _LINE
        lines = ["", border, f"{self.name} FAILED", section, "Failures:"]
        lines += [self._about(number, rank) for number, rank in enumerate(others, 1)] or ["  <NO_OTHER_FAILURES>"]
        return "\n".join([*lines, section, "Root Cause (first observed failure):", self._about(0, first), border])


class ErrorHandler:
    """Writes what a process raised to the file that the launcher named."""

    def initialize(self) -> None:
        """Called before the process's function."""

    def record_exception(self, e: BaseException) -> None:
        """Leaves the error and its traceback."""
        path = os.environ.get(_FILE)
        if not path:
            return
        told = {
            "message": {
                "message": f"{type(e).__name__}: {e}",
                "extraInfo": {"py_callstack": traceback.format_exc(), "timestamp": str(time.time())},
            }
        }
        with open(path, "w", encoding="utf-8") as file:
            json.dump(told, file)


def get_error_handler() -> ErrorHandler:
    """The handler that `record` uses."""
    return ErrorHandler()


def record(fn: Callable[..., Any], error_handler: ErrorHandler | None = None) -> Callable[..., Any]:
    """Marks the main function of a process: what it raises is left for the launcher to show, and raised."""
    handler = error_handler or get_error_handler()

    @functools.wraps(fn)
    def main(*args: Any, **kwargs: Any) -> Any:
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except ChildFailedError as error:  # of a launcher inside
            handler.record_exception(error)
            raise
        except SystemExit as error:
            if error.code not in (0, None):
                handler.record_exception(error)
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return main
