"""What the unchanged tests do: which of them come through which lines of the package, how long each takes, which fail.

`mutate.py` asks this before it changes anything. The lessons can be kept in a file: only the tests of files that are new or
changed run again then, and lines that moved since are found by what stands on them.
Loaded by pytest (`-p lessons`) with MUTATE_RECORD set, this file writes down what it sees there (Python 3.12 or newer).
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import sys
import time
from difflib import SequenceMatcher
from itertools import zip_longest
from pathlib import Path
from typing import Any

# --- inside a process that learns -----------------------------------------------------------------------------------

_record = os.environ.get("MUTATE_RECORD")
if _record:
    _tool, _lines, _failed, _started = 4, set(), set(), [0.0]
    sys.monitoring.use_tool_id(_tool, "mutate")

    def _line(code: Any, line: int) -> Any:
        if "/flambeau/" in code.co_filename:
            _lines.add((code.co_filename.rpartition("/flambeau/")[2], line))
        return sys.monitoring.DISABLE

    sys.monitoring.register_callback(_tool, sys.monitoring.events.LINE, _line)
    from flambeau._kernel.building import jit
    from flambeau._kernel.loops import lang

    jit._sources = lambda: None  # each test has its kernels' sources read, also those that are compiled already
    _source = lang._source

    def _reading(function: Any) -> Any:
        """Kernels are read, not run: a test that has one compiled comes through all of its lines."""
        code = function.__code__
        last = code.co_firstlineno + max((line or 0) - code.co_firstlineno for *_, line in code.co_lines())
        for line in range(code.co_firstlineno, last + 1):
            _line(code, line)
        return _source(function)

    lang._source = _reading

    def pytest_runtest_logstart(nodeid: str) -> None:
        _lines.clear()
        _started[0] = time.perf_counter()
        sys.monitoring.set_events(_tool, sys.monitoring.events.LINE)
        sys.monitoring.restart_events()

    def pytest_runtest_logreport(report: Any) -> None:
        if report.failed:
            _failed.add(report.nodeid)

    def pytest_runtest_logfinish(nodeid: str) -> None:
        sys.monitoring.set_events(_tool, 0)
        seconds = round(time.perf_counter() - _started[0], 3)
        found: dict[str, int] = {}
        for file, line in _lines:
            found[file] = found.get(file, 0) | 1 << line
        row = {"test": nodeid, "failed": nodeid in _failed, "seconds": seconds, "lines": found}
        with open(_record, "a") as file:
            file.write(json.dumps({**row, "lines": {name: hex(bits) for name, bits in found.items()}}) + "\n")


# --- what was learned -----------------------------------------------------------------------------------------------


class Lessons:
    """Rows about tests: `lines` maps a file of the package to an integer whose bits are the numbers of its lines."""

    def __init__(self, root: Path):
        self.root = root
        self.rows: list[dict[str, Any]] = []
        self.learned: dict[str, str] = {}  # test files and the digests of what they held

    def add(self, file: str, record: Path) -> None:
        """Takes over what a process wrote that ran a test file."""
        self.learned[file] = self._digest(file)
        for text in record.read_text().splitlines() if record.exists() else []:
            row = json.loads(text)
            row["lines"] = {name: int(bits, 16) for name, bits in row["lines"].items()}
            self.rows.append(row)

    def _digest(self, file: str) -> str:
        return hashlib.sha256((self.root / file).read_bytes()).hexdigest()

    def unknown(self, files: list[str]) -> list[str]:
        """Those test files that must still be run."""
        return [file for file in files if self.learned.get(file) != self._digest(file)]

    def save(self, path: Path) -> None:
        sources = {p.relative_to(self.root / "flambeau").as_posix(): p.read_text() for p in self._package()}
        rows = [{**row, "lines": {name: hex(bits) for name, bits in row["lines"].items()}} for row in self.rows]
        with gzip.open(path, "wt", compresslevel=4) as file:
            json.dump({"learned": self.learned, "sources": sources, "rows": rows}, file)

    def load(self, path: Path) -> None:
        with gzip.open(path, "rt") as file:
            kept = json.load(file)
        known = {name: digest for name, digest in kept["learned"].items() if (self.root / name).exists()}
        self.learned = {name: digest for name, digest in known.items() if self._digest(name) == digest}
        moved = {}
        for source in self._package():
            name = source.relative_to(self.root / "flambeau").as_posix()
            before, after = kept["sources"].get(name, "").splitlines(), source.read_text().splitlines()
            if before != after:
                moved[name] = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
        for row in kept["rows"]:
            if row["test"].split("::")[0] in self.learned:
                lines = {name: int(bits, 16) for name, bits in row["lines"].items()}
                for name in lines.keys() & moved.keys():
                    lines[name] = sum(
                        (lines[name] >> old + 1 & (1 << size) - 1) << new + 1 for old, new, size in moved[name]
                    )
                self.rows.append({**row, "lines": lines})

    def _package(self) -> list[Path]:
        return sorted((self.root / "flambeau").rglob("*.py"))

    @property
    def failing(self) -> list[str]:
        return [row["test"] for row in self.rows if row["failed"]]

    def through(self, file: str, bits: int, folders: list[str]) -> list[dict[str, Any]]:
        """The tests of some folders that come through any of the lines of a file, those that fail anyway left out."""
        starts = tuple(f"tests/{folder}/" for folder in folders)
        return [
            row
            for row in self.rows
            if not row["failed"] and row["lines"].get(file, 0) & bits and row["test"].startswith(starts)
        ]

    def of_files(self, files: set[str]) -> list[dict[str, Any]]:
        return [row for row in self.rows if not row["failed"] and row["test"].split("::")[0] in files]

    def like(self, stem: str, folders: list[str]) -> list[dict[str, Any]]:
        """The tests of the files of some folders that are named most like a file of the package."""
        files = {row["test"].split("::")[0] for row in self.rows}
        own = [file for file in files if file.startswith(tuple(f"tests/{folder}/" for folder in folders))]
        own.sort(key=lambda file: (-_likeness(stem, file), file))
        return self.of_files(set(own[:4]))


def _likeness(stem: str, file: str) -> float:
    return SequenceMatcher(None, stem, Path(file).stem.removeprefix("test_")).ratio()


def selection(rows: list[dict[str, Any]], stem: str, most: int, seconds: float) -> list[str]:
    """Tests for a change, within a number and a time.

    Those of files named like the changed one come first, all of them if half of the time is enough. Then one function of
    every other file, a second of each, and so on, so that many kinds of programs are asked; of a file's functions those
    that come through few other lines before the rest, of a function's tests the cheapest first.
    """
    functions: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: row["seconds"]):
        functions.setdefault(row["test"].split("[")[0], []).append(row)
    likeness = {name: _likeness(stem, name.split("::")[0]) for name in functions}

    def order(name: str) -> tuple[float, int]:
        return -likeness[name], sum(b.bit_count() for b in functions[name][0]["lines"].values())

    own = sorted((name for name in functions if likeness[name] > 0.6), key=order)
    files: dict[str, list[str]] = {}
    for name in sorted(functions.keys() - own, key=lambda name: order(name)[1]):
        files.setdefault(name.split("::")[0], []).append(name)
    others = [name for turn in zip_longest(*files.values()) for name in turn if name is not None]
    taken = _by_turns([functions[name] for name in own], most, seconds / 2)
    left = seconds - sum(row["seconds"] for row in taken)
    return [row["test"] for row in taken + _by_turns([functions[name] for name in others], most, left)]


def _by_turns(waiting: list[list[dict[str, Any]]], most: int, seconds: float) -> list[dict[str, Any]]:
    taken: list[dict[str, Any]] = []
    while waiting and len(taken) < most and seconds > 0:
        for rest in waiting:
            row = rest.pop(0)
            if not taken or row["seconds"] <= seconds:
                taken.append(row)
                seconds -= row["seconds"]
        waiting = [rest for rest in waiting if rest]
    return taken[:most]
