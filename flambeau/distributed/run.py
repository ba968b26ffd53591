"""`torchrun`: starts a program in several processes, on one machine or many, and begins again when one fails.

flambeau launch --standalone --nproc-per-node 4 train.py --epochs 10
python -m torch.distributed.run --nnodes 2 --nproc-per-node 4 --rdzv-backend c10d --rdzv-endpoint host:29400 train.py
"""

from __future__ import annotations

import os
import runpy
import sys
import uuid
from argparse import REMAINDER, ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from typing import Any

from .argparse_util import check_env, env
from .elastic.multiprocessing import DefaultLogsSpecs, LogsSpecs, Std
from .elastic.multiprocessing.errors import record
from .elastic.rendezvous._rounds import settings
from .elastic.utils import macros
from .elastic.utils.logging import get_logger
from .launcher.api import LaunchConfig, elastic_launch

__all__ = [
    "DefaultLogsSpecs", "LaunchConfig", "LogsSpecs", "Std", "check_env", "config_from_args", "determine_local_world_size",
    "elastic_launch", "env", "get_args_parser", "get_logger", "get_rdzv_endpoint", "get_use_env", "macros", "main", "parse_args",
    "parse_min_max_nnodes", "run", "run_script_path",
]  # fmt: skip


def get_args_parser() -> ArgumentParser:
    """The options of the launcher. Each can also be given by a variable PET_NAME."""
    parser = ArgumentParser(prog="torchrun", description="Run a program in several processes, on one machine or many")

    def option(*names: str, **about: Any) -> None:
        about.setdefault("action", env)
        spellings = [name.replace("-", "_") for name in names if name.startswith("--") and "-" in name[2:]]
        parser.add_argument(*names, *["--" + s.lstrip("_") for s in spellings], **about)

    option("--nnodes", default="1:1", help="how many machines, or the least and the most: MIN:MAX")
    option("--nproc-per-node", default="1", help="processes on each machine: a number, auto, cpu or gpu")
    option("--rdzv-backend", default="static", help="how machines meet: static (by --node-rank) or c10d")
    option("--rdzv-endpoint", default="", help="where they meet: host:port")
    option("--rdzv-id", default="none", help="the name of the job")
    option("--rdzv-conf", default="", help="more about the meeting: timeout=600")
    option("--standalone", action=check_env, default=False, help="one machine, at a free port")
    option("--max-restarts", type=int, default=0, help="how often all processes are started again after a failure")
    option("--monitor-interval", type=float, default=0.1, help="seconds between looks at the processes")
    option("--start-method", default="spawn", choices=["spawn", "fork", "forkserver"])
    option("--event-log-handler", default="null")
    option("--role", default="default", help="a name for the processes, in their logs")
    option("-m", "--module", action=check_env, default=False, help="the program is a module, as in python -m")
    option("--no-python", action=check_env, default=False, help="the program is not one of Python's")
    option("--run-path", action=check_env, default=False, help="run the program by runpy.run_path")
    option("--log-dir", default=None, help="where output goes that is redirected")
    option("-r", "--redirects", default="0", help="output to files: 1 stdout, 2 stderr, 3 both; or rank:value,…")
    option("-t", "--tee", default="0", help="output to files and the terminal, in the same way")
    option("--local-ranks-filter", default="", help="the local ranks whose output is shown: 0,1")
    option("--duplicate-stdout-filters", default="")
    option("--duplicate-stderr-filters", default="")
    option("--node-rank", type=int, default=0, help="the number of this machine, if machines meet statically")
    option("--master-addr", default="127.0.0.1", help="machine 0, if machines meet statically")
    option("--master-port", type=int, default=None, help="its port")
    option("--local-addr", default=None)
    option("--logs-specs", default=None)
    option("--numa-binding", default=None)
    option("--signals-to-handle", default="SIGTERM,SIGINT,SIGHUP,SIGQUIT", help="signals that are passed on")
    option("--shutdown-timeout", type=int, default=None, help="seconds that processes have to end")
    option("--virtual-local-rank", action=check_env, default=False)
    parser.add_argument("training_script", help="the program")
    parser.add_argument("training_script_args", nargs=REMAINDER, help="its arguments")
    return parser


def parse_args(args: Sequence[str] | None) -> Namespace:
    """The options of a command line."""
    return get_args_parser().parse_args(args)


def parse_min_max_nnodes(nnodes: str) -> tuple[int, int]:
    """The least and the most number of machines.

    >>> parse_min_max_nnodes("2"), parse_min_max_nnodes("1:4")
    ((2, 2), (1, 4))
    """
    parts = str(nnodes).split(":")
    if len(parts) > 2 or not all(part.isdigit() for part in parts):
        raise RuntimeError(f'nnodes={nnodes} is not in "MIN:MAX" format')
    least, most = int(parts[0]), int(parts[-1])
    if not 0 < least <= most:
        raise RuntimeError(f"nnodes={nnodes}: expected 0 < MIN <= MAX")
    return least, most


def determine_local_world_size(nproc_per_node: str) -> int:
    """How many processes a machine runs: a number, "cpu", "gpu" or "auto" (GPUs if there are any, else CPUs)."""
    text = str(nproc_per_node)
    if text.isdigit() and int(text) > 0:
        return int(text)
    from ..cuda import device_count, is_available

    if text == "gpu" and not is_available():
        raise ValueError("Cuda is not available.")
    if text == "gpu" or (text == "auto" and is_available()):
        return device_count()
    if text in ("cpu", "auto"):
        return os.cpu_count() or 1
    raise ValueError(f"Unsupported nproc_per_node value: {nproc_per_node}")


def get_use_env(args: Namespace) -> bool:
    """Whether processes learn their local rank from a variable only; the older launcher also gives them an argument."""
    return getattr(args, "use_env", True)


def get_rdzv_endpoint(args: Namespace) -> str:
    """Where machines meet."""
    if args.rdzv_backend == "static" and not args.rdzv_endpoint:
        return f"{args.master_addr}:{args.master_port or 29500}"
    return args.rdzv_endpoint


def _command(args: Namespace) -> tuple[Callable[..., Any] | str, list[str]]:
    """What every process runs, and with which arguments."""
    rest = list(args.training_script_args)
    if not get_use_env(args):
        rest.insert(0, f"--local-rank={macros.local_rank}")
    if args.run_path:
        return run_script_path, [args.training_script, *rest]
    if args.no_python:
        if args.module:
            raise ValueError("Don't use both the '--no-python' flag and the '--module' flag at the same time.")
        return args.training_script, rest
    words = ["-u", "-m"] if args.module else ["-u"]
    return os.environ.get("PYTHON_EXEC", sys.executable), [*words, args.training_script, *rest]


def run_script_path(training_script: str, *training_script_args: str) -> None:
    """Runs a program in this process, as Python runs the file that it is given."""
    sys.argv = [training_script, *training_script_args]
    runpy.run_path(training_script, run_name="__main__")


def config_from_args(args: Namespace) -> tuple[LaunchConfig, Callable[..., Any] | str, list[str]]:
    """What the options ask for, the function or program that processes run, and its arguments.

    >>> config, command, arguments = config_from_args(parse_args(["--nproc-per-node", "2", "train.py", "--epochs", "3"]))
    >>> config.nproc_per_node, arguments
    (2, ['-u', 'train.py', '--epochs', '3'])
    """
    least, most = parse_min_max_nnodes(args.nnodes)
    conf, backend, place, run_id = settings(args.rdzv_conf), args.rdzv_backend, get_rdzv_endpoint(args), args.rdzv_id
    named = args.master_port is not None or args.rdzv_endpoint
    if args.standalone or (backend == "static" and most == 1 and not named):
        backend, place = "c10d", "localhost:0"
        run_id = uuid.uuid4().hex if run_id == "none" else run_id
    elif backend == "static":
        conf.setdefault("rank", args.node_rank)
    elif not place:
        place = "localhost"
    if args.logs_specs is not None:
        raise NotImplementedError(
            "--logs-specs names a plugin, which are not looked for; use LaunchConfig(logs_specs=…)"
        )
    shown = {int(rank) for rank in args.local_ranks_filter.split(",") if rank}
    logs = DefaultLogsSpecs(args.log_dir, Std.from_str(str(args.redirects)), Std.from_str(str(args.tee)), shown or None)
    config = LaunchConfig(
        least, most, determine_local_world_size(args.nproc_per_node), logs, run_id, args.role, place, backend, conf,
        max_restarts=args.max_restarts, monitor_interval=args.monitor_interval, start_method=args.start_method,
        local_addr=args.local_addr, event_log_handler=args.event_log_handler, numa_options=args.numa_binding,
        log_line_prefix_template=os.environ.get("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"),
        signals_to_handle=args.signals_to_handle, duplicate_stdout_filters=_words(args.duplicate_stdout_filters),
        duplicate_stderr_filters=_words(args.duplicate_stderr_filters), virtual_local_rank=args.virtual_local_rank,
        shutdown_timeout=args.shutdown_timeout,
    )  # fmt: skip
    return config, *_command(args)


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def run(args: Namespace) -> None:
    """Runs what the options ask for, until all processes are done; raises ChildFailedError if they fail."""
    config, entrypoint, arguments = config_from_args(args)
    elastic_launch(config, entrypoint)(*arguments)


@record
def main(args: Sequence[str] | None = None) -> None:
    """The command line."""
    run(parse_args(args))


if __name__ == "__main__":
    main()
