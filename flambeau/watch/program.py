"""Runs a program under the watch, and serves runs that were kept."""

from __future__ import annotations

import contextlib
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .._version import __version__
from .control import Stopped
from .export import to_csv, to_tensorboard
from .page import page
from .recorder import Recorder
from .server import Server
from .store import NAME, new_folder, runs_in


def run_watched(
    run: Callable[[], int], program: str, arguments: Sequence[str], target: str, port: int, doctor: bool
) -> int:
    """Runs a program while a page shows it; with a target, writes a page after it instead."""
    about = {
        "program": program, "arguments": list(arguments), "flambeau": __version__, "python": platform.python_version(),
        "machine": platform.machine(),
    }  # fmt: skip
    runs = Path(tempfile.mkdtemp(prefix="flambeau-watch-")) if target else Path("runs")
    folder = new_folder(runs, program)
    watch: Any = contextlib.nullcontext()
    if doctor:
        from ..doctor.run import Watch  # loads the doctor: only where it is asked for

        watch = Watch()
    recorder = Recorder(folder, about, watch if doctor else None)
    server = None
    if not target:
        server = Server(runs, folder.name, recorder.control, port).start()
        print(f"flambeau watch: {server.address}", file=sys.stderr, flush=True)
    try:
        with recorder, watch:
            status = run()
    except Stopped:
        print("flambeau watch: stopped from the page", file=sys.stderr)
        status = 0
    finally:
        if server is not None:
            server.close()
            print(f"flambeau watch: kept in {folder}; flambeau watch {runs} shows it again", file=sys.stderr)
        else:
            Path(target).write_text(
                page(runs=[folder], title=f"{Path(program).name}: flambeau watch"), encoding="utf-8"
            )
            shutil.rmtree(runs)
            print(f"flambeau watch: {target} written", file=sys.stderr)
        if doctor:
            from ..doctor.report import as_text

            print(as_text(watch.findings.listed()), file=sys.stderr)
    return status


def serve(
    folder: str, port: int = 0, html: str | None = None, csv: str | None = None, tensorboard: str | None = None
) -> int:
    """Shows the runs of a folder until it is interrupted, or writes them as one page, as CSV, as event files."""
    runs = runs_in(Path(folder))
    if not runs:
        print(f"flambeau watch: there are no runs in {folder!r}; flambeau run --watch makes them", file=sys.stderr)
        return 2
    if html or csv or tensorboard:
        return _write(runs, html, csv, tensorboard)
    parent = runs[0].parent if runs[0] == Path(folder) else Path(folder)
    server = Server(parent, port=port).start()
    print(f"flambeau watch: {len(runs)} runs at {server.address} (end with Ctrl+C)", file=sys.stderr, flush=True)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        server.close(0)
    return 0


def _write(runs: list[Path], html: str | None, csv: str | None, tensorboard: str | None) -> int:
    if html:
        Path(html).write_text(page(runs=runs[:20]), encoding="utf-8")
    if csv:
        if len(runs) > 1:
            print(f"flambeau watch: --csv takes one run: {', '.join(run.name for run in runs[:5])}, …", file=sys.stderr)
            return 2
        with open(csv, "w", encoding="utf-8", newline="") as file:
            to_csv(runs[0] / NAME, file)
    if tensorboard:
        try:
            for run in runs:
                to_tensorboard(run / NAME, Path(tensorboard) / run.name)
        except ImportError as error:
            print(f"flambeau watch: {error}", file=sys.stderr)
            return 2
    return 0
