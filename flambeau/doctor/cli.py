"""The command `flambeau doctor`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from .catalog import LESSONS
from .fixes import offer
from .report import FORMATS, explained, listed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("-m", action="store_true", dest="module", help="the program is a module, as in python -m")
    parser.add_argument("--format", choices=sorted(FORMATS), help="text, json or sarif (text)")
    parser.add_argument("--static", action="store_true", help="only read the source, do not run it")
    parser.add_argument("--hints", action="store_true", default=None, help="show unsure findings, too")
    parser.add_argument("--steps", type=int, help="end after so many optimizer steps ")
    parser.add_argument("--time", type=float, help="end after so many seconds (60)")
    parser.add_argument("--full", action="store_true", help="run the program to its end")
    parser.add_argument("--list", action="store_true", help="list the mistakes that the doctor knows")
    parser.add_argument("--explain", metavar="ID", help="print the lesson about one mistake")
    parser.add_argument("--diff", action="store_true", help="print the mechanical fixes as a diff")
    parser.add_argument("--fix", action="store_true", help="apply the mechanical fixes, after asking")
    parser.add_argument("--yes", action="store_true", help="with --fix: do not ask")
    parser.add_argument(
        "--overfit", type=int, metavar="N", help="train on N samples again and again: does the loss fall to zero?"
    )
    parser.add_argument("--find-lr", action="store_true", help="raise the learning rate step by step, and suggest one")
    parser.add_argument("--svg", metavar="FILE", help="with --find-lr: where the curve is drawn (PROGRAM-find-lr.svg)")
    parser.add_argument(
        "--profile", action="store_true", help="where the time goes: phases of steps, the slowest lines"
    )
    parser.add_argument("program", nargs="?", help="path of a script or notebook, or name of a module after -m")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="of the program")


def main(chosen: argparse.Namespace) -> int:
    """Runs the command; the exit status is 1 where there are errors."""
    if chosen.list:
        print(listed())
        return 0
    if chosen.explain:
        if chosen.explain not in LESSONS:
            print(
                f"flambeau doctor: there is no mistake {chosen.explain!r} (see flambeau doctor --list)", file=sys.stderr
            )
            return 2
        print(explained(chosen.explain))
        return 0
    if not chosen.program:
        print("flambeau doctor: which program? (see flambeau doctor --help)", file=sys.stderr)
        return 2
    if not chosen.module and not os.path.exists(chosen.program):
        print(f"flambeau doctor: there is no file {chosen.program!r}", file=sys.stderr)
        return 2
    if chosen.overfit is not None or chosen.find_lr or chosen.profile:
        return _try(chosen)
    return _examine(chosen)


def _try(chosen: argparse.Namespace) -> int:
    """Runs one of the trials; the exit status is 1 where it ends badly, and 2 where it could not be made."""
    from .trials import overfit, profile, rates
    from .trials.trial import Failed

    if chosen.overfit is not None and chosen.overfit < 1:
        print(f"flambeau doctor: --overfit takes a number of samples above 0, got {chosen.overfit}", file=sys.stderr)
        return 2
    program = chosen.program, chosen.arguments, chosen.module
    try:
        if chosen.overfit is not None:
            made: Any = overfit.overfit(*program, chosen.overfit, chosen.steps or 200, chosen.time or 120.0)
        elif chosen.find_lr:
            made = rates.find_rate(*program, chosen.steps or 100, chosen.time or 120.0)
            name = os.path.splitext(os.path.basename(chosen.program))[0]
            made.draw(chosen.svg or f"{name}-find-lr.svg")
        else:
            steps, seconds = _limits(chosen, configuration(os.getcwd()))
            made = profile.profile(*program, steps, seconds)
    except Failed as error:
        print(f"flambeau doctor: {error}", file=sys.stderr)
        return 2
    print(json.dumps(made.as_dict(), indent=2) if chosen.format == "json" else made)
    return made.status


def _examine(chosen: argparse.Namespace) -> int:
    from .program import any_errors, examine

    settings = configuration(os.getcwd())
    off: Sequence[str] = settings.get("ignore", ())
    steps, seconds = _limits(chosen, settings)
    diagnosis = examine(
        chosen.program, chosen.arguments, module=chosen.module, run=not chosen.static, steps=steps, seconds=seconds
    )
    hints = settings.get("hints", False) if chosen.hints is None else chosen.hints
    found = diagnosis.listed(hints, off)
    if chosen.diff or chosen.fix:
        return offer(found, chosen.fix, not chosen.yes)
    print(FORMATS[chosen.format or settings.get("format", "text")](found))
    if diagnosis.failure:
        print(f"The program failed while it was watched:\n{diagnosis.failure}", file=sys.stderr)
    return 1 if any_errors(found) else 2 if diagnosis.failure else 0


def _limits(chosen: argparse.Namespace, settings: dict[str, Any]) -> tuple[Any, Any]:
    """After how many steps and seconds the program ends. Small programs run to their end."""
    if chosen.full:
        return None, None
    steps = chosen.steps if chosen.steps is not None else settings.get("steps")
    seconds = chosen.time if chosen.time is not None else settings.get("time", 60.0)
    return steps, seconds


def configuration(folder: str) -> dict[str, Any]:
    """The table [tool.flambeau.doctor] of the nearest pyproject.toml."""
    while True:
        path = os.path.join(folder, "pyproject.toml")
        if os.path.exists(path):
            try:
                import tomllib
            except ImportError:  # before Python 3.11
                return {}
            with open(path, "rb") as file:
                return tomllib.load(file).get("tool", {}).get("flambeau", {}).get("doctor", {})
        above = os.path.dirname(folder)
        if above == folder:
            return {}
        folder = above
