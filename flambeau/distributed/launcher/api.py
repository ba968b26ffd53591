"""Launching from a program: `elastic_launch(config, function)(*arguments)`."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .agent import PORT, Agent, Function, Job
from .rounds import endpoint

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]


@dataclass
class LaunchConfig:
    """How many machines and processes, and where they meet."""

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: Any = None
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


def launch_agent(config: LaunchConfig, entrypoint: Callable[..., Any] | str | None, args: list[Any]) -> dict[int, Any]:
    """Runs a function or a program on this machine and those that meet it; the results of the processes here, by rank."""
    if callable(entrypoint):
        command: Any = Function(entrypoint, tuple(args), config.start_method)
        name = getattr(entrypoint, "__qualname__", str(entrypoint))
    else:
        command, name = [str(entrypoint), *map(str, args)], str(entrypoint)
    alone = config.max_nodes == 1 and not config.rdzv_endpoint
    host, port = ("localhost", 0) if alone else endpoint(config.rdzv_endpoint, PORT)
    node = config.rdzv_configs.get("rank", config.rdzv_configs.get("node_rank"))
    job = Job(
        command, name, config.nproc_per_node, config.min_nodes, config.max_nodes, None if node is None else int(node),
        host, port, alone, config.run_id or uuid.uuid4().hex, config.role, config.max_restarts, config.monitor_interval,
        tuple(config.signals_to_handle.split(",")),
        timeout=float(config.rdzv_configs.get("timeout", config.rdzv_timeout if config.rdzv_timeout > 0 else 600)),
    )  # fmt: skip
    return Agent(job).run()


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
        self._config, self._entrypoint = config, entrypoint or sys.executable

    def __call__(self, *args: Any) -> dict[int, Any]:
        return launch_agent(self._config, self._entrypoint, list(args))
