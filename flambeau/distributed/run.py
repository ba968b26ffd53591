"""`torchrun`: starts a program in several processes, on one machine or many, and begins again when one fails.

flambeau launch --standalone --nproc-per-node 4 train.py --epochs 10
python -m torch.distributed.run --nnodes 2 --nproc-per-node 4 --rdzv-backend c10d --rdzv-endpoint host:29400 train.py
"""

from __future__ import annotations

import os
import sys
import uuid
from argparse import REMAINDER, ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from .elastic.multiprocessing.errors import record
from .launcher.agent import PORT, Agent, Job
from .launcher.rounds import endpoint, settings

__all__ = ["determine_local_world_size", "get_args_parser", "main", "parse_args", "parse_min_max_nnodes", "run"]


def get_args_parser() -> ArgumentParser:
    """The options of the launcher. Each can also be given by a variable PET_NAME."""
    parser = ArgumentParser(prog="torchrun", description="Run a program in several processes, on one machine or many")

    def option(*names: str, **about: Any) -> None:
        word = next(name for name in names if name.startswith("--"))
        value = os.environ.get("PET_" + word[2:].replace("-", "_").upper())
        if value is not None:
            about["default"] = value == "1" if about.get("action") == "store_true" else about.get("type", str)(value)
        spellings = [name.replace("-", "_") for name in names if name.startswith("--") and "-" in name[2:]]
        parser.add_argument(*names, *["--" + s.lstrip("_") for s in spellings], **about)

    option("--nnodes", default="1:1", help="how many machines, or the least and the most: MIN:MAX")
    option("--nproc-per-node", default="1", help="processes on each machine: a number, auto, cpu or gpu")
    option("--rdzv-backend", default="static", help="how machines meet: static (by --node-rank) or c10d")
    option("--rdzv-endpoint", default="", help="where they meet: host:port")
    option("--rdzv-id", default="none", help="the name of the job")
    option("--rdzv-conf", default="", help="more about the meeting: timeout=600")
    option("--standalone", action="store_true", default=False, help="one machine, at a free port")
    option("--max-restarts", type=int, default=0, help="how often all processes are started again after a failure")
    option("--monitor-interval", type=float, default=0.1, help="seconds between looks at the processes")
    option("--start-method", default="spawn", choices=["spawn", "fork", "forkserver"])
    option("--event-log-handler", default="null")
    option("--role", default="default", help="a name for the processes, in their logs")
    option("-m", "--module", action="store_true", default=False, help="the program is a module, as in python -m")
    option("--no-python", action="store_true", default=False, help="the program is not one of Python's")
    option("--run-path", action="store_true", default=False, help="run the program by runpy.run_path")
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
    option("--virtual-local-rank", action="store_true", default=False)
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


def _command(args: Namespace) -> list[str]:
    """What every process runs."""
    script, rest = args.training_script, list(args.training_script_args)
    if args.no_python:
        if args.module:
            raise ValueError("Don't use both the '--no-python' flag and the '--module' flag at the same time.")
        return [script, *rest]
    python = [os.environ.get("PYTHON_EXEC", sys.executable), "-u"]
    if args.module:
        return [*python, "-m", script, *rest]
    if args.run_path:
        return [*python, "-c", "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')",
                script, *rest]  # fmt: skip
    return [*python, script, *rest]


def job_of(args: Namespace) -> Job:
    """What the options ask for."""
    least, most = parse_min_max_nnodes(args.nnodes)
    conf = settings(args.rdzv_conf)
    static = args.rdzv_backend == "static" and not args.standalone
    if args.rdzv_backend not in ("static", "c10d"):
        raise ValueError(
            f"The rendezvous backend {args.rdzv_backend!r} is not registered: use c10d, which needs no other program, or static"
        )
    alone = args.standalone or (static and most == 1 and args.master_port is None and not args.rdzv_endpoint)
    node, run_id = None, args.rdzv_id
    if alone:
        host, port = "localhost", 0
        run_id = uuid.uuid4().hex if args.rdzv_id == "none" else run_id
    elif static:
        host, port = (
            endpoint(args.rdzv_endpoint, 29500) if args.rdzv_endpoint else (args.master_addr, args.master_port or 29500)
        )
        node = int(conf.get("rank", args.node_rank))
        if least != most:
            raise ValueError(
                "machines that meet statically have numbers: give --nnodes one number, or use --rdzv-backend c10d"
            )
    else:
        host, port = endpoint(args.rdzv_endpoint or "localhost", PORT)
    only = tuple(int(rank) for rank in args.local_ranks_filter.split(",") if rank)
    return Job(
        _command(args), args.training_script, determine_local_world_size(args.nproc_per_node), least, most, node, host, port,
        alone, run_id, args.role, args.max_restarts, args.monitor_interval, tuple(args.signals_to_handle.split(",")),
        args.shutdown_timeout or 30.0, float(conf.get("timeout", conf.get("join_timeout", 600))), args.log_dir,
        str(args.redirects), str(args.tee), only,
    )  # fmt: skip


def run(args: Namespace) -> None:
    """Runs what the options ask for, until all processes are done; raises ChildFailedError if they fail."""
    Agent(job_of(args)).run()


@record
def main(args: Sequence[str] | None = None) -> None:
    """The command line."""
    run(parse_args(args))


if __name__ == "__main__":
    main()
