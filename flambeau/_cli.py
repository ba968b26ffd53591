"""The command `flambeau`: a demonstration that trains a small network, and facts about the installation."""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Sequence

from ._version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="flambeau", description="PyTorch's system in Python")
    parser.add_argument("--version", action="version", version=f"flambeau {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="fit a small network on data made in memory and draw its loss curve")
    demo.add_argument("--steps", type=int, default=1500, help="training steps (1500)")
    demo.add_argument("--seed", type=int, default=0, help="of data and weights (0)")
    demo.add_argument("--picture", default="flambeau-demo.png", help="where the curves are saved (flambeau-demo.png)")
    commands.add_parser("info", help="versions, CPU, cache: what a bug report needs")
    chosen = parser.parse_args(arguments)
    if chosen.command == "demo":
        from ._demo import run  # imports the whole package: only for the command that needs it

        return run(chosen.steps, chosen.seed, chosen.picture)
    return info()


def info() -> int:
    """Prints what a bug report needs."""
    import llvmlite.binding as llvm
    import numpy

    from ._kernel import jit

    print(f"flambeau  {__version__}")
    print(f"python    {platform.python_version()} on {platform.platform()}")
    print(f"numpy     {numpy.__version__}, llvm {'.'.join(map(str, llvm.llvm_version_info))}, cpu {llvm.get_host_cpu_name()}")
    print(f"kernels   {jit.cache_directory() or 'kept in memory only'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
