"""Processes of one machine: started together with their variables and logs, watched, ended together."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntFlag
from typing import Any

from .errors import ProcessFailure, record

__all__ = [
    "DefaultLogsSpecs", "LogsDest", "LogsSpecs", "MultiprocessContext", "PContext", "ProcessFailure", "RunProcsResult",
    "SignalException", "Std", "SubprocessContext", "to_map",
]  # fmt: skip

_PAUSE = 0.05  # seconds between looks at a file that grows


class SignalException(Exception):
    """The launcher got a signal, which it passes on to its processes."""

    def __init__(self, msg: str, sigval: signal.Signals) -> None:
        super().__init__(msg)
        self.sigval = sigval


# -- output -----------------------------------------------------------------------------------------------------------


class Std(IntFlag):
    """Which streams of a process are meant."""

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = OUT | ERR

    @classmethod
    def from_str(cls, vm: str) -> Std | dict[int, Std]:
        """What "3" says about all processes, or "0:1,1:2" about each.

        >>> Std.from_str("3"), Std.from_str("0:1,1:2")
        (<Std.ALL: 3>, {0: <Std.OUT: 1>, 1: <Std.ERR: 2>})
        """
        if re.fullmatch("[0123]", vm):
            return Std(int(vm))
        if re.fullmatch(r"(\d+:[0123],)*\d+:[0123]", vm):
            return {int(rank): Std(int(value)) for rank, _, value in (pair.partition(":") for pair in vm.split(","))}
        raise ValueError(f"{vm} does not match: <^[0123]$> or <^(\\d:[0123],)*(\\d:[0123])$>")


def to_map(val_or_map: Std | dict[int, Std], local_world_size: int) -> dict[int, Std]:
    """What is said about all processes, or about some of them, for each.

    >>> to_map({0: Std.OUT}, 2)
    {0: <Std.OUT: 1>, 1: <Std.NONE: 0>}
    """
    if isinstance(val_or_map, Std):
        return dict.fromkeys(range(local_world_size), val_or_map)
    return {rank: val_or_map.get(rank, Std.NONE) for rank in range(local_world_size)}


@dataclass
class LogsDest:
    """The files of each process, by local rank; "" for a stream that stays where it is."""

    stdouts: dict[int, str] = field(default_factory=dict)
    stderrs: dict[int, str] = field(default_factory=dict)
    tee_stdouts: dict[int, str] = field(default_factory=dict)
    tee_stderrs: dict[int, str] = field(default_factory=dict)
    error_files: dict[int, str] = field(default_factory=dict)
    filtered_stdout: str = field(default_factory=str)
    filtered_stderr: str = field(default_factory=str)


class LogsSpecs(ABC):
    """What is to happen to the output of processes; `reify` names the files when the processes are known."""

    def __init__(
        self,
        log_dir: str | None = None,
        redirects: Std | dict[int, Std] = Std.NONE,
        tee: Std | dict[int, Std] = Std.NONE,
        local_ranks_filter: set[int] | None = None,
    ) -> None:
        self._root_log_dir, self._redirects, self._tee = log_dir, redirects, tee
        self._local_ranks_filter = local_ranks_filter

    @abstractmethod
    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """The files of processes with these variables."""

    @property
    @abstractmethod
    def root_log_dir(self) -> str:
        """The folder that all lie in."""


class DefaultLogsSpecs(LogsSpecs):
    """Files `log_dir/<run>_<some letters>/attempt_<n>/<local rank>/stdout.log`; a new folder if none is given."""

    def __init__(
        self,
        log_dir: str | None = None,
        redirects: Std | dict[int, Std] = Std.NONE,
        tee: Std | dict[int, Std] = Std.NONE,
        local_ranks_filter: set[int] | None = None,
    ) -> None:
        if log_dir is not None and not os.path.exists(log_dir):
            os.makedirs(log_dir)
        if log_dir is not None and not os.path.isdir(log_dir):
            raise NotADirectoryError(f"log_dir: {log_dir} is a file")
        super().__init__(log_dir or tempfile.mkdtemp(prefix="torchelastic_"), redirects, tee, local_ranks_filter)
        self._run_log_dir: str | None = None

    @property
    def root_log_dir(self) -> str:
        return str(self._root_log_dir)

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        some = next(iter(envs.values()), {})
        if self._run_log_dir is None:
            run = some.get("TORCHELASTIC_RUN_ID", "none")
            self._run_log_dir = tempfile.mkdtemp(prefix=f"{run}_", dir=self.root_log_dir)
        attempt = some.get("TORCHELASTIC_ATTEMPT", some.get("TORCHELASTIC_RESTART_COUNT", "0"))
        folder = os.path.join(self._run_log_dir, f"attempt_{attempt}")
        redirects, tee = to_map(self._redirects, len(envs)), to_map(self._tee, len(envs))
        found = LogsDest(
            filtered_stdout=os.path.join(folder, "filtered_stdout.log"),
            filtered_stderr=os.path.join(folder, "filtered_stderr.log"),
        )
        streams = (
            (Std.OUT, "stdout.log", found.stdouts, found.tee_stdouts),
            (Std.ERR, "stderr.log", found.stderrs, found.tee_stderrs),
        )
        for rank in envs:
            own = os.path.join(folder, str(rank))
            os.makedirs(own, exist_ok=True)
            found.error_files[rank] = os.path.join(own, "error.json")
            hidden = bool(self._local_ranks_filter) and rank not in self._local_ranks_filter  # type: ignore[operator]
            for bit, name, files, teed in streams:
                files[rank] = os.path.join(own, name) if (redirects[rank] | tee[rank]) & bit else ""
                if tee[rank] & bit and not hidden:
                    teed[rank] = files[rank]
                if hidden and not files[rank]:
                    files[rank] = os.devnull
        return found

    def __repr__(self) -> str:
        return (
            f"DefaultLogsSpecs(root_log_dir={self._root_log_dir}, redirects={self._redirects}, tee={self._tee}, "
            f"local_ranks_filter={self._local_ranks_filter})"
        )


class _Tail:
    """Copies the lines of a file that grows, each behind a prefix, until the process that writes it has ended."""

    def __init__(self, path: str, target: Any, prefix: str, ended: Callable[[], bool], wanted: Callable[[str], bool]):
        self._facts = path, target, prefix, ended, wanted
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        path, target, prefix, ended, wanted = self._facts
        with open(path, encoding="utf-8", errors="replace") as file:
            begun = ""
            while True:
                last = ended()  # before the read: what is written until then is read below
                lines = (begun + file.read()).splitlines(keepends=True)
                begun = lines.pop() if lines and not lines[-1].endswith("\n") and not last else ""
                for line in lines:
                    if wanted(line):
                        target.write(prefix + (line if line.endswith("\n") else line + "\n"))
                if lines:
                    target.flush()
                if last:
                    return
                if not lines:
                    time.sleep(_PAUSE)

    def stop(self) -> None:
        """Waits until the last lines are copied; its process has ended."""
        self._thread.join(5.0)


# -- processes --------------------------------------------------------------------------------------------------------


@dataclass
class RunProcsResult:
    """How processes ended, by local rank: the results of functions, or failures."""

    return_values: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, ProcessFailure] = field(default_factory=dict)
    stdouts: dict[int, str] = field(default_factory=dict)
    stderrs: dict[int, str] = field(default_factory=dict)

    def is_failed(self) -> bool:
        """Whether one failed."""
        return len(self.failures) > 0


class PContext(ABC):
    """Processes that run a function or a program, each with arguments and variables of its own, by local rank."""

    def __init__(
        self,
        name: str,
        entrypoint: Callable[..., Any] | str,
        args: dict[int, tuple[Any, ...]],
        envs: dict[int, dict[str, str]],
        logs_specs: LogsSpecs,
        log_line_prefixes: dict[int, str] | None = None,
        duplicate_stdout_filters: list[str] | None = None,
        duplicate_stderr_filters: list[str] | None = None,
    ):
        for what, given in (("args", args), ("envs", envs)):
            if set(given) != set(range(len(args))):
                raise RuntimeError(
                    f"{what}, local rank mapping mismatch, expected: {set(range(len(args)))}, actual: {set(given)}"
                )
        self.name, self.entrypoint, self.args, self.envs, self.nprocs = name, entrypoint, args, envs, len(args)
        self._files = logs_specs.reify(envs)
        self._prefixes = log_line_prefixes or {}
        self._filters = duplicate_stdout_filters, duplicate_stderr_filters
        self._processes: dict[int, Any] = {}  # with the face of Popen
        self._ends: dict[int, float] = {}  # when each was first seen to have ended
        self._tails: list[_Tail] = []
        self._open: list[Any] = []

    def start(self) -> None:
        """Starts all."""
        files = self._files
        for rank, env in self.envs.items():
            outputs = tuple(self._made(group.get(rank, "")) for group in (files.stdouts, files.stderrs))
            env = {**env, "TORCHELASTIC_ERROR_FILE": files.error_files[rank]}
            self._processes[rank] = self._start(rank, env, outputs)
        for rank in self.envs:
            for path, target in ((files.tee_stdouts.get(rank), sys.stdout), (files.tee_stderrs.get(rank), sys.stderr)):
                if path:
                    self._copy(rank, path, target)
        for needles, path, sources in zip(
            self._filters, (files.filtered_stdout, files.filtered_stderr), (files.stdouts, files.stderrs)
        ):
            if needles and path:
                self._open.append(open(path, "w", encoding="utf-8"))  # noqa: SIM115 (closed with the processes)
                for rank, source in sources.items():
                    if source and source != os.devnull:
                        self._copy(rank, source, self._open[-1], needles)

    def _copy(self, rank: int, path: str, target: Any, needles: list[str] | None = None) -> None:
        """Has lines of a file copied, those that contain one of some words or all."""

        def wanted(line: str) -> bool:
            return needles is None or any(word in line for word in needles)

        def ended() -> bool:
            return self._processes[rank].poll() is not None

        prefix = self._prefixes.get(rank, f"[{self.name}{rank}]:")
        self._tails.append(_Tail(path, target, prefix, ended, wanted))

    @staticmethod
    def _made(path: str) -> str:
        if path and path != os.devnull:
            open(path, "wb").close()
        return path

    @abstractmethod
    def _start(self, rank: int, env: Mapping[str, str], outputs: tuple[str, str]) -> Any:
        """Starts one process, with the face of `Popen`."""

    def _ended(self, rank: int) -> int | None:
        """The exit code of a process (the negative number of a signal), None while it runs."""
        code = self._processes[rank].poll()
        if code is not None:
            self._ends.setdefault(rank, time.time())
        return code

    def running(self) -> bool:
        """Whether a process has not ended."""
        return any(self._ended(rank) is None for rank in self._processes)

    def failures(self) -> dict[int, ProcessFailure]:
        """How those ended that did not end well, and when this was seen first."""
        found = {}
        for rank, process in self._processes.items():
            code = self._ended(rank)
            if code:
                failure = found[rank] = ProcessFailure(rank, int(process.pid or 0), code, self._files.error_files[rank])
                failure.timestamp = min(failure.timestamp, self._ends[rank])
        return found

    def poll(self) -> RunProcsResult | None:
        """How the processes ended, if all did or one failed; those that still run are not ended."""
        failures = self.failures()
        if self.running() and not failures:
            return None
        values = {} if failures else {rank: getattr(p, "value", None) for rank, p in self._processes.items()}
        return RunProcsResult(values, failures, self._files.stdouts, self._files.stderrs)

    def wait(self, timeout: float = -1, period: float = 1) -> RunProcsResult | None:
        """How the processes ended, once all did or one failed, whereupon the others are ended; None after `timeout` seconds.

        `timeout` 0 only looks, -1 waits as long as it takes; `period` is how often to look, in seconds.
        """
        limit = None if timeout < 0 else time.monotonic() + timeout
        while True:
            found = self.poll()
            if found is not None:
                if found.is_failed():
                    self.close()
                else:
                    self._finish_logs()
                return found
            if limit is not None and time.monotonic() >= limit:
                return None
            time.sleep(period if limit is None else max(0.0, min(period, limit - time.monotonic())))

    def pids(self) -> dict[int, int]:
        """The numbers of the processes in the system."""
        return {rank: int(process.pid or 0) for rank, process in self._processes.items()}

    def close(self, death_sig: signal.Signals | None = None, timeout: int | float = 30) -> None:
        """Ends what still runs: by a signal, and by force after `timeout` seconds."""
        self._send(signal.SIGTERM if death_sig is None else death_sig)
        limit = time.monotonic() + timeout
        while self.running() and time.monotonic() < limit:
            time.sleep(0.02)
        self._send(signal.SIGKILL)
        while self.running():
            time.sleep(0.02)
        self._finish_logs()

    def _send(self, number: int) -> None:
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError, OSError):
                if process.poll() is None:
                    os.kill(process.pid, number)

    def _finish_logs(self) -> None:
        for tail in self._tails:
            tail.stop()
        for file in self._open:
            file.close()
        self._tails, self._open = [], []


class SubprocessContext(PContext):
    """Processes that run a program: `entrypoint` is its path, the arguments are words."""

    def __init__(
        self,
        name: str,
        entrypoint: str,
        args: dict[int, tuple[Any, ...]],
        envs: dict[int, dict[str, str]],
        logs_specs: LogsSpecs,
        log_line_prefixes: dict[int, str] | None = None,
        numa_options: Any = None,
        duplicate_stdout_filters: list[str] | None = None,
        duplicate_stderr_filters: list[str] | None = None,
    ):
        super().__init__(
            name,
            entrypoint,
            args,
            envs,
            logs_specs,
            log_line_prefixes,
            duplicate_stdout_filters,
            duplicate_stderr_filters,
        )
        refuse_numa(numa_options)

    def _start(self, rank: int, env: Mapping[str, str], outputs: tuple[str, str]) -> Any:
        with contextlib.ExitStack() as files:
            out, err = (files.enter_context(open(path, "ab")) if path else None for path in outputs)
            command = [str(self.entrypoint), *map(str, self.args[rank])]
            return subprocess.Popen(command, env={**os.environ, **env}, stdout=out, stderr=err)


class MultiprocessContext(PContext):
    """Processes that run a function, whose results `wait` gives."""

    def __init__(
        self,
        name: str,
        entrypoint: Callable[..., Any],
        args: dict[int, tuple[Any, ...]],
        envs: dict[int, dict[str, str]],
        start_method: str,
        logs_specs: LogsSpecs,
        log_line_prefixes: dict[int, str] | None = None,
        numa_options: Any = None,
        duplicate_stdout_filters: list[str] | None = None,
        duplicate_stderr_filters: list[str] | None = None,
    ):
        super().__init__(
            name,
            entrypoint,
            args,
            envs,
            logs_specs,
            log_line_prefixes,
            duplicate_stdout_filters,
            duplicate_stderr_filters,
        )
        refuse_numa(numa_options)
        self.start_method = start_method

    def _start(self, rank: int, env: Mapping[str, str], outputs: tuple[str, str]) -> Any:
        return _Function(self.start_method, self.entrypoint, self.args[rank], env, outputs)


def refuse_numa(options: Any) -> None:
    """Raises if processes are to be bound to parts of the machine."""
    if options is not None:
        raise NotImplementedError("processes are not bound to NUMA nodes; start the program under numactl")


class _Function:
    """A function in a process of its own, with the face of `Popen`."""

    def __init__(
        self, start_method: str, function: Any, arguments: Any, env: Mapping[str, str], outputs: tuple[str, str]
    ):
        context = multiprocessing.get_context(start_method)
        self._queue = context.SimpleQueue()
        self._process = context.Process(target=_call, args=(function, arguments, dict(env), outputs, self._queue))
        self._process.start()
        self.pid, self.value = self._process.pid, None
        self._lock = threading.Lock()  # threads that copy output ask as well

    def poll(self) -> int | None:
        with self._lock:
            code = self._process.exitcode
            if not self._queue.empty():  # a process ends when somebody has read its result
                self.value = self._queue.get()
            return code


def _call(function: Any, arguments: Any, env: dict[str, str], outputs: tuple[str, str], queue: Any) -> None:
    os.environ.update(env)
    for stream, number, path in ((sys.stdout, 1, outputs[0]), (sys.stderr, 2, outputs[1])):
        if path:
            stream.flush()
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.dup2(file, number)
            os.close(file)
    try:
        queue.put(record(function)(*arguments))
    except Exception as error:
        sys.last_value = error  # as the interpreter notes what ends it
        raise
