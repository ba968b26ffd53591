"""Processes that a launcher starts: `start_processes(…).wait()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import errors
from .api import (
    DefaultLogsSpecs,
    LogsDest,
    LogsSpecs,
    MultiprocessContext,
    PContext,
    ProcessFailure,
    RunProcsResult,
    SignalException,
    Std,
    SubprocessContext,
    to_map,
)

__all__ = [
    "DefaultLogsSpecs", "LogsDest", "LogsSpecs", "MultiprocessContext", "PContext", "ProcessFailure", "RunProcsResult",
    "SignalException", "Std", "SubprocessContext", "errors", "start_processes", "to_map",
]  # fmt: skip


def start_processes(
    name: str,
    entrypoint: Callable[..., Any] | str,
    args: dict[int, tuple[Any, ...]],
    envs: dict[int, dict[str, str]],
    logs_specs: LogsSpecs,
    log_line_prefixes: dict[int, str] | None = None,
    start_method: str = "spawn",
    numa_options: Any = None,
    duplicate_stdout_filters: list[str] | None = None,
    duplicate_stderr_filters: list[str] | None = None,
) -> PContext:
    """Starts copies of a function or a program, each with arguments and variables of its own.

    `duplicate_stdout_filters` are words: lines that contain one of them are also written to one file for all processes.

    >>> from flambeau.distributed.elastic.multiprocessing import DefaultLogsSpecs, start_processes
    >>> context = start_processes("trainer", abs, {0: (-1,), 1: (-2,)}, {0: {}, 1: {}}, DefaultLogsSpecs())
    >>> context.wait().return_values
    {0: 1, 1: 2}
    """
    shared = {
        "duplicate_stdout_filters": duplicate_stdout_filters,
        "duplicate_stderr_filters": duplicate_stderr_filters,
    }
    context: PContext
    if isinstance(entrypoint, str):
        context = SubprocessContext(name, entrypoint, args, envs, logs_specs, log_line_prefixes, numa_options, **shared)
    else:
        context = MultiprocessContext(
            name, entrypoint, args, envs, start_method, logs_specs, log_line_prefixes, numa_options, **shared
        )
    try:
        context.start()
    except BaseException:
        context.close()
        raise
    return context
