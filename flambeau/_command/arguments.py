"""What the command `flambeau` understands. Nothing of the package is imported here: `flambeau --help` reads this file alone."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def parser(version: str, examined: Callable[[argparse.ArgumentParser], None] | None = None) -> argparse.ArgumentParser:
    """The parser of the command line; `examined` adds the options of `flambeau doctor`."""
    found = argparse.ArgumentParser(prog="flambeau", description="PyTorch's system in Python")
    found.add_argument("--version", action="version", version=f"flambeau {version}")
    commands = found.add_subparsers(dest="command")
    demo = commands.add_parser(
        "demo", help="train a small network on digits that are drawn here, and draw what it learnt"
    )
    demo.add_argument("--epochs", type=int, default=6, help="passes over the data (6)")
    demo.add_argument("--seed", type=int, default=0, help="of data and weights (0)")
    demo.add_argument("--directory", default=".", help="where the checkpoint and the pictures are saved (here)")
    demo.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    run = commands.add_parser("run", help="run a program that says `import torch`, unchanged, on flambeau")
    run.add_argument("-m", action="store_true", dest="module", help="the program is a module, as in python -m")
    run.add_argument(
        "--compile",
        action="store_true",
        help="run training steps and modules as compiled programs where that pays; says which",
    )
    run.add_argument("--doctor", action="store_true", help="report mistakes of the program when it ends")
    run.add_argument("--plot", action="store_true", help="draw the losses that backward was called on, at the end")
    run.add_argument(
        "--watch",
        metavar="FILE.html",
        help="show the run in a page of this machine while it goes; with =FILE.html, write one after it",
    )
    run.add_argument("--watch-port", type=int, default=0, metavar="N", help="of the page's address (a free one)")
    run.add_argument("-c", action="store_true", dest="code", help="the program is given as text, as in python -c")
    run.add_argument("program", help="path of a script, name of a module after -m, or text after -c")
    run.add_argument("arguments", nargs=argparse.REMAINDER, help="of the program")
    doctor = commands.add_parser("doctor", help="find the classic mistakes of a training program")
    if examined is not None:
        examined(doctor)
    compiling = commands.add_parser(
        "compile",
        help="an exported program (.pt2) with its machine code as one file, which runs without its source and LLVM",
    )
    compiling.add_argument("program", help="file that torch.export.save wrote, here or in PyTorch")
    compiling.add_argument("-o", "--output", help="where the package is written (the same name with .fbo)")
    compiling.add_argument("--cpu", help="the CPU that the code is for: x86-64-v3, neoverse-n1, … (this one)")
    commands.add_parser(
        "launch", add_help=False, help="run a PyTorch program in several processes, as torchrun does (launch --help)"
    )
    commands.add_parser(
        "plan",
        add_help=False,
        help="what a program's training step would need on a cluster, for each strategy (plan --help)",
    )
    table = commands.add_parser("summary", help="a table of a model: modules, shapes, parameters")
    table.add_argument(
        "model",
        help="where it is: script.py:Name or package.module:Name, a module or a class without arguments, or an ONNX file",
    )
    table.add_argument(
        "--input", action="append", default=[], help="shape of an input, as in 1,3,32,32; may be repeated"
    )
    table.add_argument("--depth", type=int, default=3, help="of the modules that are shown (3)")
    typings = commands.add_parser(
        "typings", help="let mypy and pyright find flambeau's types where programs say `import torch`"
    )
    typings.add_argument(
        "folder", nargs="?", default="typings", help="where the link is made (typings, where pyright looks)"
    )
    warm = commands.add_parser("warm", help="run a program once so that its kernels are kept, as for a container image")
    warm.add_argument("program", help="path of a script")
    warm.add_argument("arguments", nargs=argparse.REMAINDER, help="of the program")
    kept = commands.add_parser("cache", help="kernels that are kept on disk: how many, how large; clear or bound them")
    kept.add_argument("--clear", action="store_true", help="remove all of them")
    kept.add_argument(
        "--limit", type=float, metavar="MB", help="remove those not used for longest beyond so many megabytes"
    )
    watching = commands.add_parser("watch", help="show and compare runs that were kept by run --watch")
    watching.add_argument("folder", nargs="?", default="runs", help="of runs, or of one run (runs)")
    watching.add_argument("--port", type=int, default=0, help="of the page's address (a free one)")
    watching.add_argument("--html", metavar="FILE", help="write the runs as one page instead")
    watching.add_argument("--csv", metavar="FILE", help="write the numbers of one run as a table instead")
    watching.add_argument("--tensorboard", metavar="FOLDER", help="write event files instead")
    commands.add_parser("info", help="versions, CPU, cache: what a bug report needs")
    return found
