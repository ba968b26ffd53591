"""Errors of processes that a launcher started."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["ChildFailedError", "ProcessFailure", "record"]


class ProcessFailure:
    """How a process ended."""

    def __init__(self, local_rank: int, pid: int, exitcode: int, error_file: str = ""):
        self.local_rank, self.pid, self.exitcode, self.error_file = local_rank, pid, exitcode, error_file


class ChildFailedError(Exception):
    """A process that a launcher started has failed."""

    def __init__(self, name: str, failures: dict[int, ProcessFailure]):
        self.name, self.failures = name, failures
        super().__init__(
            f"{name} FAILED: " + ", ".join(f"rank {r}: exit code {f.exitcode}" for r, f in failures.items())
        )


def record(fn: Callable[..., Any], error_handler: Any = None) -> Callable[..., Any]:
    """Marks the main function of a process; the function itself."""
    return fn
