"""The processes of one machine: started together with their variables and logs, watched, ended together."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..elastic.multiprocessing.errors import ProcessFailure

OUT, ERR = 1, 2  # bits of what goes to files (`redirects`) or to files and the terminal (`tee`)
_STREAMS = {OUT: "stdout", ERR: "stderr"}


def chosen(text: str) -> Callable[[int], int]:
    """What "3" or "0:1,1:2" says about each local rank.

    >>> chosen("0:1,1:2")(1), chosen("3")(7), chosen("0:1")(1)
    (2, 3, 0)
    """
    try:
        if ":" not in text:
            everywhere = int(text)
            return lambda rank: everywhere
        table = {int(rank): int(value) for rank, _, value in (pair.partition(":") for pair in text.split(","))}
    except ValueError:
        raise ValueError(f"{text!r} does not say what to do with output: expected 0 to 3, or rank:value,…") from None
    return lambda rank: table.get(rank, 0)


@dataclass
class Logs:
    """Where the output of processes goes. `only` are the local ranks that are shown on the terminal, all if empty."""

    folder: str
    redirects: Callable[[int], int] = lambda rank: 0
    tee: Callable[[int], int] = lambda rank: 0
    only: Sequence[int] = ()
    role: str = "default"


class Worker:
    """A process, its files, and the threads that copy its output."""

    def __init__(self, command: Any, rank: int, env: Mapping[str, str], folder: str, logs: Logs):
        os.makedirs(folder, exist_ok=True)
        self.local_rank, self.error_file = rank, os.path.join(folder, "error.json")
        env = {**env, "TORCHELASTIC_ERROR_FILE": self.error_file}
        self.rank = int(env["RANK"])
        self._copying: list[threading.Thread] = []
        self._end: float | None = None
        if callable(command):
            self._process = _Function(command, env)
            return
        targets: dict[str, Any] = {}
        for bit, name in _STREAMS.items():
            if logs.tee(rank) & bit:
                targets[name] = subprocess.PIPE
            elif logs.redirects(rank) & bit:
                targets[name] = open(os.path.join(folder, f"{name}.log"), "wb")  # noqa: SIM115 (closed below)
            elif logs.only and rank not in logs.only:
                targets[name] = subprocess.DEVNULL
        self._process = subprocess.Popen(command, env=env, **targets)
        for name, target in targets.items():
            if target is subprocess.PIPE:
                shown = not logs.only or rank in logs.only
                arguments = getattr(self._process, name), os.path.join(folder, f"{name}.log"), name, shown, logs.role
                self._copying.append(threading.Thread(target=self._copy, args=arguments, daemon=True))
                self._copying[-1].start()
            elif target is not subprocess.DEVNULL:
                target.close()

    def _copy(self, pipe: Any, path: str, name: str, shown: bool, role: str) -> None:
        terminal = getattr(sys, name)
        with open(path, "wb") as file, pipe:
            for line in pipe:
                file.write(line)
                file.flush()
                if shown:
                    terminal.write(f"[{role}{self.rank}]:{line.decode(errors='replace')}")
                    terminal.flush()

    @property
    def pid(self) -> int:
        return int(self._process.pid or 0)

    def ended(self) -> int | None:
        """The exit code (the negative number of a signal), None while it runs."""
        code = self._process.poll()
        if code is not None and self._end is None:
            self._end = time.time()
            for thread in self._copying:
                thread.join(5.0)
        return code

    def send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, OSError):
            if self._process.poll() is None:
                os.kill(self.pid, number)

    def failure(self) -> ProcessFailure:
        """How it ended, for the error, and when this was seen first."""
        found = ProcessFailure(self.local_rank, self.pid, self.ended() or 0, self.error_file)
        found.timestamp = min(found.timestamp, self._end)
        return found

    def result(self) -> Any:
        """What the function gave, if it is one."""
        return getattr(self._process, "value", None)


class _Function:
    """A function in a process of its own, with the face of `Popen`."""

    def __init__(self, function: Any, env: Mapping[str, str]):
        context = multiprocessing.get_context(function.start_method)
        self._queue = context.SimpleQueue()
        self._process = context.Process(
            target=_call, args=(function.function, function.arguments, dict(env), self._queue)
        )
        self._process.start()
        self.pid, self.value = self._process.pid, None

    def poll(self) -> int | None:
        if self._process.exitcode is not None and not self._queue.empty():
            self.value = self._queue.get()
        return self._process.exitcode


def _call(function: Any, arguments: Any, env: dict[str, str], queue: Any) -> None:
    from ..elastic.multiprocessing.errors import record

    os.environ.update(env)
    try:
        queue.put(record(function)(*arguments))
    except Exception as error:
        sys.last_value = error  # as the interpreter notes what ends it
        raise


class Workers:
    """All processes of this machine in one attempt."""

    def __init__(self, commands: Sequence[Any], envs: Sequence[Mapping[str, str]], logs: Logs, attempt: int):
        folder = os.path.join(logs.folder, f"attempt_{attempt}")
        self.all = [
            Worker(command, rank, env, os.path.join(folder, str(rank)), logs)
            for rank, (command, env) in enumerate(zip(commands, envs))
        ]

    def failed(self) -> bool:
        return any(worker.ended() not in (None, 0) for worker in self.all)

    def done(self) -> bool:
        return all(worker.ended() == 0 for worker in self.all)

    def end(self, number: int = signal.SIGTERM, seconds: float = 30.0) -> None:
        """Passes a signal on, and kills what is still there after some seconds."""
        for worker in self.all:
            worker.send(number)
        limit = time.monotonic() + seconds
        while any(worker.ended() is None for worker in self.all) and time.monotonic() < limit:
            time.sleep(0.02)
        for worker in self.all:
            worker.send(signal.SIGKILL)
        while any(worker.ended() is None for worker in self.all):
            time.sleep(0.02)

    def failures(self) -> dict[int, ProcessFailure]:
        """How those ended that did not end well, by rank."""
        return {worker.rank: worker.failure() for worker in self.all if worker.ended() not in (None, 0)}
