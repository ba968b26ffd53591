"""Runs a program under the doctor: a script, a module or a notebook, read first and then watched while it runs."""

from __future__ import annotations

import contextlib
import json
import linecache
import os
import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .findings import SHOWN, Finding, Findings
from .static import read

# Where the run decides: if the program went through without an error, what the source suggested was no mistake.
_DECIDED = ("view-after-transpose", "numpy-on-tracked")


@dataclass
class Diagnosis:
    """What an examination gave: all findings, and whether the program failed for a reason that none of them explains."""

    findings: Findings = field(default_factory=Findings)
    failure: str | None = None
    status: int = 0  # with which the program ended itself

    def listed(self, hints: bool = False, off: Sequence[str] = ()) -> list[Finding]:
        return self.findings.listed(hints, off)


def examine(
    program: str, arguments: Sequence[str] = (), *, module: bool = False, run: bool = True, steps: int | None = None,
    seconds: float | None = None, output: Any = None,
) -> Diagnosis:  # fmt: skip
    """Reads a program and, unless told otherwise, runs it for a while; gives what was found."""
    diagnosis = Diagnosis()
    path, text = located(program, module)
    found = read(path, text) if os.path.exists(path) else []
    if run:
        ran, unequal = _run(diagnosis, program, path, text, arguments, module, steps, seconds, output)
        found = [f for f in found if not (ran and f.id in _DECIDED)]
        for finding in found:
            if finding.id == "mean-of-batch-means" and any(
                f"loop at line {line}" in finding.evidence for file, line in unequal if file == path
            ):
                finding.confidence = 0.85  # the loader of that loop has a smaller last batch
    for finding in found:
        diagnosis.findings.add(finding)
    return diagnosis


def located(program: str, module: bool) -> tuple[str, str | None]:
    """The file of a program, and its text if that is not the file's own (a notebook)."""
    path = _path_of(program) if module else os.path.abspath(program)
    if not path.endswith(".ipynb"):
        return path, None
    text = notebook_source(path)
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    return path, text


def _path_of(module: str) -> str:
    import importlib.util

    sys.path.insert(0, os.getcwd())
    spec = importlib.util.find_spec(module)
    if spec is not None and spec.submodule_search_locations:
        spec = importlib.util.find_spec(module + ".__main__")
    return spec.origin if spec is not None and spec.origin else module


def _run(
    diagnosis: Diagnosis, program: str, path: str, text: str | None, arguments: Sequence[str], module: bool,
    steps: int | None, seconds: float | None, output: Any,
) -> tuple[bool, set[Any]]:  # fmt: skip
    """Runs the program and gathers what the observers saw; whether it went through (or was ended by us), and loops over unequal batches."""
    from .. import install_as_torch
    from .run import Enough, Watch

    install_as_torch()
    watch = Watch(steps, seconds)
    went = True
    with as_main(program, path, arguments, output or sys.stderr):
        try:
            with watch:
                execute(program, path, text, module)
        except Enough:
            pass
        except SystemExit as exit:
            diagnosis.status = exit.code if isinstance(exit.code, int) else int(exit.code is not None)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            went = False
            if not watch.errors.explained:
                diagnosis.failure = "".join(traceback.format_exception(error))
    for finding in watch.findings.by_place.values():
        diagnosis.findings.add(finding)
    return went, {place for place in watch.data.unequal() if place}


def execute(program: str, path: str, text: str | None, module: bool) -> None:
    """Runs a program as `python` would."""
    if text is not None:
        exec(compile(text, path, "exec"), {"__name__": "__main__", "__file__": path})
    elif module:
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(path, run_name="__main__")


@contextlib.contextmanager
def as_main(program: str, path: str, arguments: Sequence[str], output: Any) -> Iterator[None]:
    """The arguments and the search path that `python program` would give, and its output away from the report."""
    argv, search = sys.argv, list(sys.path)
    sys.argv = [program, *arguments]
    sys.path.insert(0, os.path.dirname(path))
    try:
        with contextlib.redirect_stdout(output):
            yield
    finally:
        sys.argv = argv
        sys.path[:] = search


def notebook_source(path: str) -> str:
    """The code cells of a notebook, one after the other; lines that are not Python (magics) become comments."""
    with open(path, encoding="utf-8") as file:
        notebook = json.load(file)
    lines: list[str] = []
    for number, cell in enumerate(notebook.get("cells", ()), 1):
        if cell.get("cell_type") == "code":
            lines.append(f"# cell {number}")
            lines.extend(_plain(line) for line in "".join(cell["source"]).splitlines())
    return "\n".join(lines) + "\n"


def _plain(line: str) -> str:
    stripped = line.lstrip()
    return line[: len(line) - len(stripped)] + "pass  # " + stripped if stripped.startswith(("%", "!")) else line


def run_watched(program: str, arguments: Sequence[str], module: bool = False) -> int:
    """Runs a program to its end as `flambeau run` does, and prints what was found on standard error."""
    from .report import as_text

    diagnosis = examine(program, arguments, module=module, output=sys.stdout)
    print(as_text(diagnosis.listed()), file=sys.stderr)
    if diagnosis.failure:
        print(diagnosis.failure, file=sys.stderr, end="")
        return 1
    return diagnosis.status


def any_errors(findings: Sequence[Any]) -> bool:
    return any(f.severity == "error" and f.confidence >= SHOWN for f in findings)
