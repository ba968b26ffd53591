"""The agent of one machine: it meets those of the others, starts the processes, watches them, and begins again when one
fails or a machine comes or goes."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from string import Template
from typing import TYPE_CHECKING, Any

from .._mpi import _PMI
from .._stores import PrefixStore
from ..elastic.multiprocessing import PContext, SignalException, start_processes
from ..elastic.multiprocessing.errors import ChildFailedError
from ..elastic.rendezvous import RendezvousHandler, RendezvousInfo
from ..elastic.rendezvous._rounds import Meeting, Round
from ..elastic.utils import macros

if TYPE_CHECKING:
    from .api import LaunchConfig


def _name(entrypoint: Callable[..., Any] | str, args: list[Any]) -> str:
    """What errors call the job: the function, the program, or what Python runs."""
    if callable(entrypoint):
        return getattr(entrypoint, "__qualname__", str(entrypoint))
    if entrypoint != sys.executable:
        return entrypoint
    return next((arg for arg in map(str, args) if not arg.startswith("-")), entrypoint)


class Agent:
    """Runs a job on this machine: a function, or the path of a program, with arguments for each process."""

    def __init__(
        self, config: LaunchConfig, entrypoint: Callable[..., Any] | str, args: list[Any], handler: RendezvousHandler
    ):
        self.config, self.entrypoint, self.args, self.handler = config, entrypoint, args, handler
        self.name = _name(entrypoint, args)
        self.grace = 30.0 if config.shutdown_timeout is None else float(config.shutdown_timeout)
        self.meeting: Meeting
        self._signal: int | None = None

    def _meet(self) -> tuple[RendezvousInfo, Round]:
        """Meets the other machines, and learns how many processes each has."""
        own = getattr(self.handler, "meeting", None)  # our handlers meet in rounds already
        if own is not None:
            self.meeting = own
            self.meeting.processes = self.config.nproc_per_node
            info = self.handler.next_rendezvous()
            return info, self.meeting.round  # type: ignore[return-value]
        info = self.handler.next_rendezvous()
        seconds = float(self.config.rdzv_configs.get("timeout", 600))
        size, keys = info.world_size, PrefixStore("agents", info.store)
        self.meeting = Meeting(keys, size, size, self.config.nproc_per_node, info.rank, seconds)
        return info, self.meeting.join()

    def _environments(self, info: RendezvousInfo, round: Round) -> dict[int, dict[str, str]]:
        """The variables of every process here."""
        config, sizes = self.config, round.sizes
        first, total = sum(sizes[: round.node]), sum(sizes)
        base = {name: value for name, value in os.environ.items() if name not in _PMI}  # those were the agent's own
        place: Any = info.bootstrap_store_info
        shared = {
            **base, "GROUP_RANK": round.node, "GROUP_WORLD_SIZE": len(sizes), "LOCAL_WORLD_SIZE": config.nproc_per_node,
            "WORLD_SIZE": total, "ROLE_WORLD_SIZE": total, "ROLE_NAME": config.role, "MASTER_ADDR": place.master_addr,
            "MASTER_PORT": place.master_port, "TORCHELASTIC_RESTART_COUNT": round.restarts,
            "TORCHELASTIC_MAX_RESTARTS": config.max_restarts, "TORCHELASTIC_RUN_ID": config.run_id,
            "TORCHELASTIC_USE_AGENT_STORE": str(self.handler.use_agent_store), "TORCHELASTIC_ATTEMPT": round.number,
        }  # fmt: skip
        if config.nproc_per_node > 1:
            shared.setdefault("OMP_NUM_THREADS", "1")
        return {
            i: {k: str(v) for k, v in {**shared, "LOCAL_RANK": i, "RANK": first + i, "ROLE_RANK": first + i}.items()}
            for i in range(config.nproc_per_node)
        }

    def _start(self, envs: dict[int, dict[str, str]]) -> PContext:
        """Starts the processes of this machine."""
        config, prefixes = self.config, {}
        for i, env in envs.items():
            words = {"role_name": config.role, "local_rank": str(i), "rank": env["RANK"]}
            template = config.log_line_prefix_template
            prefixes[i] = Template(template).safe_substitute(words) if template else f"[{config.role}{env['RANK']}]:"
        return start_processes(
            config.role, self.entrypoint, {i: tuple(macros.substitute(self.args, str(i))) for i in envs}, envs,
            config.logs_specs, prefixes, config.start_method, config.numa_options, config.duplicate_stdout_filters,
            config.duplicate_stderr_filters,
        )  # fmt: skip

    def run(self) -> dict[int, Any]:
        """The results of the processes here, by rank; raises ChildFailedError or SignalException."""
        if self.config.virtual_local_rank:
            raise NotImplementedError("virtual_local_rank: processes are told their own local rank; leave it out")
        before = self._listen()
        try:
            while True:
                info, round = self._meet()
                envs = self._environments(info, round)
                workers = self._start(envs)
                try:
                    if self._follow(workers, round):
                        found: Any = workers.wait(0)
                        return {int(envs[i]["RANK"]): value for i, value in found.return_values.items()}
                except BaseException:
                    workers.close(signal.Signals(self._signal or signal.SIGTERM), self.grace)
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

        wanted = [getattr(signal, name) for name in self.config.signals_to_handle.split(",")]
        return {number: signal.signal(number, note) for number in wanted}

    def _follow(self, workers: PContext, round: Round) -> bool:
        """Watches processes until they are done (True) or another round begins (False)."""
        told = False
        while True:
            if self._signal is not None:
                number = signal.Signals(self._signal)
                self.meeting.give_up(f"a launcher got {number.name}")
                raise SignalException(f"Process {os.getpid()} got signal: {number.value}", number)
            found = workers.poll()
            if found is not None and found.is_failed():
                return self._failed(workers, round)
            if found is not None:
                if not told:
                    self.meeting.finish()
                    told = True
                if self.meeting.finished():
                    self._last(round)
                    return True
            news = self.meeting.news()
            if news == "failed" and not told:
                workers.close(signal.SIGTERM, self.grace)
                self._raise(workers)
            if (news == "ended" or self._wanted_elsewhere()) and not told:
                workers.close(signal.SIGTERM, self.grace)
                return False
            time.sleep(self.config.monitor_interval)

    def _wanted_elsewhere(self) -> bool:
        """Whether machines wait at a meeting that is not in rounds, which tell it themselves."""
        return not hasattr(self.handler, "meeting") and self.handler.num_nodes_waiting() > 0

    def _failed(self, workers: PContext, round: Round) -> bool:
        if round.restarts >= self.config.max_restarts:
            self.meeting.give_up("a process failed")
            time.sleep(
                self.config.monitor_interval
            )  # others of the same fault may end by themselves, with their errors
            workers.close(signal.SIGTERM, self.grace)
            self._raise(workers)
        print(
            f"flambeau launch: a process failed; restart {round.restarts + 1} of {self.config.max_restarts}",
            file=sys.stderr,
        )
        self.meeting.fail()
        workers.close(signal.SIGTERM, self.grace)
        return False

    def _raise(self, workers: PContext) -> None:
        failures = workers.failures()
        if failures:
            raise ChildFailedError(self.name, {int(workers.envs[i]["RANK"]): f for i, f in failures.items()})
        raise RuntimeError("the job failed on another machine: see the output of its launcher")

    def _last(self, round: Round) -> None:
        """The machine with the store leaves last."""
        store: Any = getattr(self.handler, "store", None)
        if len(round.sizes) > 1 and store is not None and store._server is not None:
            time.sleep(1.0)
