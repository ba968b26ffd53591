"""Launching from a program: `elastic_launch(config, function)(*arguments)`."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..elastic.multiprocessing.api import DefaultLogsSpecs, LogsSpecs
from ..elastic.rendezvous import RendezvousParameters
from ..elastic.rendezvous.registry import get_rendezvous_handler
from .agent import Agent

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]


@dataclass
class LaunchConfig:
    """How many machines and processes, and where they meet."""

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: LogsSpecs | None = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "etcd"
    rdzv_configs: dict[str, Any] = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict[str, str] = field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: Any = None
    signals_to_handle: str = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    duplicate_stdout_filters: list[str] | None = None
    duplicate_stderr_filters: list[str] | None = None
    virtual_local_rank: bool = False
    shutdown_timeout: int | None = None

    def __post_init__(self) -> None:
        if self.rdzv_timeout != -1:
            self.rdzv_configs["timeout"] = self.rdzv_timeout
        if self.logs_specs is None:
            self.logs_specs = DefaultLogsSpecs()


def launch_agent(config: LaunchConfig, entrypoint: Callable[..., Any] | str | None, args: list[Any]) -> dict[int, Any]:
    """Runs a function or a program on this machine and those that meet it; the results of the processes here, by rank."""
    config.run_id = config.run_id or uuid.uuid4().hex
    backend, place = config.rdzv_backend, config.rdzv_endpoint
    if config.max_nodes == 1 and not place:
        backend, place = "c10d", "localhost:0"  # a machine that meets nobody
    meeting = RendezvousParameters(
        backend, place, config.run_id, config.min_nodes, config.max_nodes, config.local_addr, **config.rdzv_configs
    )
    return Agent(config, entrypoint or sys.executable, args, get_rendezvous_handler(meeting)).run()


class elastic_launch:
    """A function, or a program, that runs in several processes when it is called.

    >>> from flambeau.distributed.launcher.api import LaunchConfig, elastic_launch
    >>> config = LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=1, max_restarts=0)
    >>> elastic_launch(config, abs)(-3)
    {0: 3}
    """

    def __init__(
        self, config: LaunchConfig, entrypoint: Callable[..., Any] | str | None, health_check_server: Any = None
    ):
        if health_check_server is not None:
            raise NotImplementedError(
                "elastic_launch: a health check server is not asked; watch the launcher's process"
            )
        self._config, self._entrypoint = config, entrypoint

    def __call__(self, *args: Any) -> dict[int, Any]:
        return launch_agent(self._config, self._entrypoint, list(args))
