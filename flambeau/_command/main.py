"""The command `flambeau`: a demonstration, PyTorch programs run unchanged, and facts about the installation."""

from __future__ import annotations

import argparse
import os
import platform
import re
import sys
from collections.abc import Sequence

from .._version import __version__
from .arguments import parser as argument_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    examined = None
    if given[:1] == ["doctor"]:
        from ..doctor.cli import add_arguments as examined  # loads the doctor: only for its own command
    parser = argument_parser(__version__, examined)
    if given[:1] == ["launch"]:  # its options are the launcher's
        return launch(given[1:])
    if given[:1] == ["plan"]:  # with options of its own, too
        from ..distributed._planning import main as plan

        return plan(given[1:], run_program)
    chosen = parser.parse_args(_plain_watch(given))
    if chosen.command is None:
        parser.print_help()
        return 0
    if chosen.command == "demo":
        from .._demo import run as demonstrate  # imports the whole package: only for the command that needs it

        return demonstrate(chosen.epochs, chosen.seed, chosen.directory, chosen.resume)
    if chosen.command == "run":
        if chosen.compile and (chosen.watch is not None or chosen.plot):
            print("flambeau run: steps are not compiled as a whole while their losses are watched", file=sys.stderr)
            chosen.compile = False
        if chosen.watch is not None:
            return watched(chosen)
        if chosen.doctor:
            from ..doctor.program import run_watched  # loads the doctor: only where it is asked for

            return run_watched(chosen.program, chosen.arguments, chosen.module)
        return plotted(chosen) if chosen.plot else run_chosen(chosen)
    if chosen.command == "watch":
        from ..watch.program import serve  # loads the watch: only where it is asked for

        return serve(chosen.folder, chosen.port, chosen.html, chosen.csv, chosen.tensorboard)
    if chosen.command == "warm":
        return warmed(chosen.program, chosen.arguments)
    if chosen.command == "cache":
        return show_cache(chosen.clear, chosen.limit)
    if chosen.command == "doctor":
        from ..doctor.cli import main as examine

        return examine(chosen)
    if chosen.command == "compile":
        return compile_program(chosen.program, chosen.output, chosen.cpu)
    if chosen.command == "summary":
        return show_summary(chosen.model, chosen.input, chosen.depth)
    if chosen.command == "typings":
        return make_typings(chosen.folder)
    return info()


def run_program(program: str, arguments: Sequence[str], module: bool = False, compiled: bool = False) -> int:
    """Runs a script or a module in this process with `torch` standing for flambeau, if wanted as compiled programs."""
    import runpy

    from .. import install_as_torch

    if not module and not os.path.exists(program):
        print(
            f"flambeau run: there is no file {program!r} (for a module use: flambeau run -m {program})", file=sys.stderr
        )
        return 2
    install_as_torch()
    sys.argv = [program, *arguments]
    file = os.path.abspath(program)  # absolute, as `python` gives it
    folder = os.getcwd() if module else os.path.dirname(file)
    sys.path.insert(0, folder)
    if compiled:
        from ..compiler import _found  # which needs the whole package

        _found.start(folder)
    if module:
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    elif compiled:
        _found.run_file(file)
    else:
        runpy.run_path(file, run_name="__main__")
    return 0


def run_chosen(chosen: argparse.Namespace) -> int:
    """Runs the program that the command line names."""
    if chosen.code:
        return run_code(chosen.program, chosen.arguments)
    return run_program(chosen.program, chosen.arguments, chosen.module, chosen.compile)


def _plain_watch(given: list[str]) -> list[str]:
    """`--watch` takes a file only after `=`, so that the program may follow it."""
    if given[:1] == ["run"]:
        for i, word in enumerate(given[1:], 1):
            if not word.startswith("-"):
                break
            if word == "--watch":
                return [*given[:i], "--watch=", *given[i + 1 :]]
    return given


def watched(chosen: argparse.Namespace) -> int:
    """Runs a program while a page shows it."""
    from ..watch.program import run_watched  # loads the watch: only where it is asked for

    name = "-c" if chosen.code else chosen.program
    return run_watched(
        lambda: run_chosen(chosen), name, chosen.arguments, chosen.watch, chosen.watch_port, chosen.doctor
    )


def run_code(text: str, arguments: Sequence[str]) -> int:
    """Runs a text as a program with `torch` standing for flambeau."""
    from .. import install_as_torch

    install_as_torch()
    sys.argv = ["-c", *arguments]
    sys.path.insert(0, "")
    exec(compile(text, "<string>", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})
    return 0


def warmed(program: str, arguments: Sequence[str]) -> int:
    """Runs a program, and says how many kernels it left on disk, and how many it did not need to."""
    from .._kernel.building import ahead, jit
    from .._kernel.building.cache import Cache

    cache = Cache.open()
    before = {path for _, _, path in cache.kept()} if cache is not None else set()
    status = run_program(program, arguments)
    if cache is None:
        print(
            "flambeau warm: there is no private folder to keep kernels in (FLAMBEAU_CACHE_DIR names one)",
            file=sys.stderr,
        )
        return 2
    ahead.finish()
    new = [n for _, n, path in cache.kept() if path not in before]
    brought, compiled = jit.counts()
    print(
        f"{len(new)} kernels more, {sum(new) / 1e6:.1f} MB, in {cache.path}: {compiled} were compiled now, and {brought} pieces came with "
        "flambeau, which need not be kept",
        file=sys.stderr,
    )
    return status


def show_cache(clear: bool, limit: float | None) -> int:
    """Says what is kept on disk, after removing what is asked for, and what came with the package."""
    from .._kernel.building import archives
    from .._kernel.building.cache import MOST, Cache

    cache = Cache.open()
    if cache is None:
        print(
            "flambeau cache: kernels are not kept, there is no private folder for them (FLAMBEAU_CACHE_DIR names one)",
            file=sys.stderr,
        )
        return 2
    if limit is not None and limit < 0:
        print(f"flambeau cache: --limit must not be negative, got {limit:g}", file=sys.stderr)
        return 2
    if clear or limit is not None:
        print(f"{cache.bound(0 if clear or limit is None else int(limit * 1e6))} kernels removed")
    files = cache.kept()
    print(
        f"{len(files)} kernels, {sum([n for _, n, _ in files]) / 1e6:.1f} MB (at most {MOST / 1e6:.0f} are kept), in {cache.path}"
    )
    for archive in archives.usable():
        print(f"{len(archive)} pieces of kernels for {archive.cpu} came with flambeau")
    return 0


def compile_program(program: str, output: str | None, cpu: str | None) -> int:
    """Writes a package of an exported program."""
    from ..export import load  # imports the whole package: only for the command that needs it
    from ..export._package import write_package

    output = output or f"{os.path.splitext(program)[0]}.fbo"
    try:
        write_package(load(program), output, cpu)
    except (OSError, RuntimeError, ValueError) as error:
        print(f"flambeau compile: {error}", file=sys.stderr)
        return 2
    print(f"{output} made, {os.path.getsize(output) >> 10} KiB: torch._inductor.aoti_load_package({output!r}) runs it")
    return 0


def launch(arguments: Sequence[str]) -> int:
    """Runs a program in several processes, in which `torch` stands for flambeau."""
    from .. import install_as_torch

    install_as_torch()
    from ..distributed.elastic.multiprocessing import SignalException
    from ..distributed.elastic.multiprocessing.errors import ChildFailedError
    from ..distributed.run import main as run

    try:
        run(arguments)
    except ChildFailedError as error:
        print(f"flambeau launch:{error}", file=sys.stderr)
        return 1
    except SignalException as error:
        return 128 + error.sigval
    return 0


def plotted(chosen: argparse.Namespace) -> int:
    """Runs a program, and draws at its end the losses that it called `backward` on."""
    from .._observe.steps import Step, Steps, value_of
    from ..drawing import curve

    losses: list[float] = []

    def note(step: Step) -> None:
        losses.extend(value_of([value]) for values in step.losses.values() for value in values)

    steps = Steps()
    steps.on_step.append(note)
    try:
        with steps:
            return run_chosen(chosen)
    finally:
        print(curve(losses, title="loss at every backward"), file=sys.stderr)


def show_summary(where: str, inputs: Sequence[str], depth: int) -> int:
    """Prints the table of a model that a script or a module defines."""
    import importlib
    import runpy

    from .. import install_as_torch

    install_as_torch()
    from ..drawing import summary
    from ..nn import Module

    home, _, name = where.rpartition(":")
    try:
        if where.endswith(".onnx"):
            from ..onnx import load

            found = load(where)
        elif home.endswith(".py"):
            sys.path.insert(0, os.path.dirname(os.path.abspath(home)))
            found = runpy.run_path(home)[name]
        else:
            sys.path.insert(0, os.getcwd())
            found = getattr(importlib.import_module(home), name)
        model = found() if isinstance(found, type) else found
        shapes = [tuple(int(n) for n in text.split(",")) for text in inputs]
    except (OSError, ImportError, KeyError, AttributeError, TypeError, ValueError, RuntimeError) as error:
        print(f"flambeau summary: {where!r} gives no model: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    if not isinstance(model, Module):
        print(f"flambeau summary: {where!r} is a {type(model).__name__}, not a module", file=sys.stderr)
        return 2
    print(summary(model, *shapes, depth=depth))
    return 0


def make_typings(folder: str) -> int:
    """Makes a link `torch` to this package: modules import each other relatively, so its types are right under that name, too."""
    link = os.path.join(folder, "torch")
    os.makedirs(folder, exist_ok=True)
    if os.path.lexists(link):
        print(f"flambeau typings: {link} is there already; remove it first", file=sys.stderr)
        return 2
    os.symlink(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), link, target_is_directory=True)
    print(f"{link} made: pyright finds it in a folder called typings, mypy with MYPYPATH={folder}")
    return 0


def info() -> int:
    """Prints what a bug report needs."""
    import numpy

    from .._kernel.building import archives, jit

    print(f"flambeau  {__version__}")
    print(f"python    {platform.python_version()} on {platform.platform()}")
    try:
        target = jit.target()
        compiler = f"llvm {'.'.join(re.findall(r'[0-9]+', target.llvm))}, cpu {target.cpu}"
    except ImportError:
        compiler = "no llvmlite: only kernels that are there already can be run"
    print(f"numpy     {numpy.__version__}, {compiler}")
    print(f"kernels   {jit.cache_directory() or 'kept in memory only'}")
    for archive in archives.usable():
        print(f"          {len(archive)} pieces for {archive.cpu} came with flambeau")
    return 0


if __name__ == "__main__":
    sys.exit(main())
