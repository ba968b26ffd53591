"""The agent of one machine: it meets those of the others, starts the processes, watches them, and begins again when one
fails or a machine comes or goes."""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from .._kinds import DistNetworkError
from .._mpi import _PMI
from .._stores import PrefixStore
from .._tcp_store import TCPStore
from ..elastic.multiprocessing.errors import ChildFailedError
from .rounds import Meeting, Round
from .workers import Logs, Workers, chosen

PORT = 29400  # of a meeting whose address has none


class SignalException(Exception):
    """The launcher got a signal, which it passed on to its processes."""

    def __init__(self, msg: str, sigval: signal.Signals):
        super().__init__(msg)
        self.sigval = sigval


@dataclass
class Job:
    """What is run, and how. `command` is a list of words, or a `Function`."""

    command: Any
    name: str
    processes: int
    least: int = 1
    most: int = 1
    node: int | None = None  # a fixed number of this machine
    host: str = "localhost"
    port: int = 0
    standalone: bool = False
    run_id: str = "none"
    role: str = "default"
    max_restarts: int = 0
    interval: float = 0.1
    signals: tuple[str, ...] = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")
    grace: float = 30.0
    timeout: float = 600.0
    log_dir: str | None = None
    redirects: str = "0"
    tee: str = "0"
    only: tuple[int, ...] = ()
    tell_at: int | None = None  # where the command gets an argument --local-rank=N
    env: dict[str, str] = field(default_factory=dict)

    def commands(self) -> list[Any]:
        """What each process here runs."""
        if self.tell_at is None:
            return [self.command] * self.processes
        before, after = self.command[: self.tell_at], self.command[self.tell_at :]
        return [[*before, f"--local-rank={i}", *after] for i in range(self.processes)]


@dataclass
class Function:
    """A function to run in every process, instead of a program."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    start_method: str = "spawn"

    def __call__(self) -> Any:
        return self.function(*self.arguments)


def _own(host: str) -> bool:
    """Whether a name is this machine's."""
    if host in ("localhost", "127.0.0.1", "::1", socket.gethostname()):
        return True
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((socket.gethostbyname(host), 0))  # only an address of this machine can be bound
        return True
    except OSError:
        return False


class Agent:
    """Runs a job on this machine."""

    def __init__(self, job: Job):
        self.job = job
        here = job.standalone or (job.node == 0 if job.node is not None else _own(job.host))
        self.store = self._store(here)
        keys = PrefixStore(f"agents/{job.run_id}", self.store)
        self.meeting = Meeting(keys, job.least, job.most, job.processes, job.node, job.timeout)
        folder = job.log_dir or tempfile.mkdtemp(prefix="torchelastic_")
        os.makedirs(folder, exist_ok=True)
        folder = tempfile.mkdtemp(prefix=f"{job.run_id}_", dir=folder)
        self.logs = Logs(folder, chosen(job.redirects), chosen(job.tee), job.only, job.role)
        self._signal: int | None = None

    def _store(self, here: bool) -> TCPStore:
        """The store that agents and processes meet at: one of this machine's agents keeps it."""
        limit = timedelta(seconds=self.job.timeout)
        if here:
            try:
                return TCPStore(self.job.host, self.job.port, None, True, limit)
            except DistNetworkError:
                if self.job.node is not None or not self.job.port:
                    raise  # otherwise another agent of this machine keeps it
        return TCPStore(self.job.host, self.job.port, None, False, limit)

    def _environments(self, round: Round) -> list[dict[str, str]]:
        """The variables of every process here."""
        job, sizes = self.job, round.sizes
        first, total = sum(sizes[: round.node]), sum(sizes)
        base = {name: value for name, value in os.environ.items() if name not in _PMI}  # those were the agent's own
        shared = {
            **base, "GROUP_RANK": round.node, "GROUP_WORLD_SIZE": len(sizes), "LOCAL_WORLD_SIZE": job.processes,
            "WORLD_SIZE": total, "ROLE_WORLD_SIZE": total, "ROLE_NAME": job.role, "MASTER_ADDR": self.store.host,
            "MASTER_PORT": self.store.port, "TORCHELASTIC_RESTART_COUNT": round.restarts,
            "TORCHELASTIC_MAX_RESTARTS": job.max_restarts, "TORCHELASTIC_RUN_ID": job.run_id,
            "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_ATTEMPT": round.number, **job.env,
        }  # fmt: skip
        if job.processes > 1:
            shared.setdefault("OMP_NUM_THREADS", "1")
        return [
            {k: str(v) for k, v in {**shared, "LOCAL_RANK": i, "RANK": first + i, "ROLE_RANK": first + i}.items()}
            for i in range(job.processes)
        ]

    def run(self) -> dict[int, Any]:
        """The results of the processes here, by rank; raises ChildFailedError or SignalException."""
        before = self._listen()
        try:
            while True:
                round = self.meeting.join()
                workers = Workers(self.job.commands(), self._environments(round), self.logs, round.number)
                try:
                    if self._follow(workers, round):
                        return {worker.rank: worker.result() for worker in workers.all}
                except BaseException:
                    workers.end(self._signal or signal.SIGTERM, self.job.grace)
                    raise
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _listen(self) -> dict[int, Any]:
        """Takes the signals that are to be passed on; what handled them before."""
        if threading.current_thread() is not threading.main_thread():
            return {}

        def note(number: int, frame: Any) -> None:
            self._signal = number

        return {number: signal.signal(number, note) for number in (getattr(signal, n) for n in self.job.signals)}

    def _follow(self, workers: Workers, round: Round) -> bool:
        """Watches processes until they are done (True) or another round begins (False)."""
        told = False
        while True:
            if self._signal is not None:
                number = signal.Signals(self._signal)
                self.meeting.give_up(f"a launcher got {number.name}")
                raise SignalException(f"Process {os.getpid()} got signal: {number.value}", number)
            if workers.failed():
                return self._failed(workers, round)
            if workers.done():
                if not told:
                    self.meeting.finish()
                    told = True
                if self.meeting.finished():
                    self._last(round)
                    return True
            news = self.meeting.news()
            if news == "failed" and not told:
                workers.end(signal.SIGTERM, self.job.grace)
                self._raise(workers)
            if news == "ended" and not told:
                workers.end(signal.SIGTERM, self.job.grace)
                return False
            time.sleep(self.job.interval)

    def _failed(self, workers: Workers, round: Round) -> bool:
        if round.restarts >= self.job.max_restarts:
            self.meeting.give_up("a process failed")
            time.sleep(self.job.interval)  # others of the same fault may end by themselves, with their errors
            workers.end(signal.SIGTERM, self.job.grace)
            self._raise(workers)
        print(
            f"flambeau launch: a process failed; restart {round.restarts + 1} of {self.job.max_restarts}",
            file=sys.stderr,
        )
        self.meeting.fail()
        workers.end(signal.SIGTERM, self.job.grace)
        return False

    def _raise(self, workers: Workers) -> None:
        failures = workers.failures()
        if failures:
            raise ChildFailedError(self.job.name, failures)
        raise RuntimeError("the job failed on another machine: see the output of its launcher")

    def _last(self, round: Round) -> None:
        """The machine with the store leaves last."""
        if len(round.sizes) > 1 and self.store._server is not None:
            time.sleep(1.0)
