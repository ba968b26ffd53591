"""A run on disk: a folder with `watch.jsonl`, one JSON object per line, only ever appended to.

Lines are of these kinds, told apart by their first key:

    {"run": {...}}                                   what ran, when, on which versions
    {"x": [steps], "c": {name: [values]}}            numbers over steps; null where there is none
    {"h": step, "n": name, "r": [low, high], "c": [counts]}     a histogram
    {"graph": {...}}, {"images": step, ...}, {"finding": {...}}, {"checkpoint": path, "step": n}, {"state": "running"}

Whoever reads takes whole lines and leaves out what is damaged: a run that was killed is a run that ends early.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAME = "watch.jsonl"


def number(value: float | None) -> str:
    """A number as JSON: six digits are enough for a picture; what is not finite is a text, which JavaScript reads back."""
    if value is None:
        return "null"
    if math.isfinite(value):
        return f"{value:.6g}"
    return '"NaN"' if value != value else '"Infinity"' if value > 0 else '"-Infinity"'


def _column(values: list[float | None]) -> str:
    """Numbers as JSON: all at once where that is possible."""
    try:
        if math.isfinite(sum(values)):  # type: ignore[arg-type]
            return ("%.6g," * len(values) % tuple(values))[:-1]
    except TypeError:  # there is a None among them
        pass
    return ",".join(map(number, values))


def rows(steps: list[int], columns: dict[str, list[float | None]]) -> str:
    """The line for numbers over steps."""
    inside = ",".join(f"{json.dumps(name)}:[{_column(values)}]" for name, values in columns.items())
    return f'{{"x":[{",".join(map(str, steps))}],"c":{{{inside}}}}}'


class Writer:
    """Appends lines to a run's file; each call is one write of whole lines."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.file = open(folder / NAME, "ab", buffering=0)  # noqa: SIM115 (open for the whole run)

    def write(self, *lines: str | dict[str, Any]) -> None:
        texts = [line if isinstance(line, str) else json.dumps(line, separators=(",", ":")) for line in lines]
        if texts:
            self.file.write(("\n".join(texts) + "\n").encode())

    def close(self) -> None:
        self.file.close()


def new_folder(runs: Path, program: str) -> Path:
    """A folder that is not there yet, named after the program and the time."""
    stem = "".join(c if c.isalnum() or c in "-_" else "-" for c in Path(program).stem)[:40] or "run"
    name = f"{stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    for suffix in ("", *(f"-{i}" for i in range(2, 1000))):
        try:
            (runs / (name + suffix)).mkdir(parents=True)
        except FileExistsError:
            continue
        return runs / (name + suffix)
    raise FileExistsError(f"{runs / name}: too many runs of this name")


def lines(path: Path, start: int = 0, most: int = 1 << 62) -> tuple[bytes, int]:
    """Whole lines of a file from a position on, of about `most` bytes, and the position after them."""
    with open(path, "rb") as file:
        file.seek(start)
        data = file.read(min(most, os.path.getsize(path) - start)) if start < os.path.getsize(path) else b""
        if data and not data.endswith(b"\n") and b"\n" not in data:
            data += file.readline()  # one line is longer than what was asked for
    end = data.rfind(b"\n") + 1
    return data[:end], start + end


def records(path: Path) -> Iterator[dict[str, Any]]:
    """What a file holds, line by line."""
    for line in lines(path)[0].splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


def runs_in(folder: Path) -> list[Path]:
    """The runs of a folder (or the folder itself if it is one), the latest first."""
    if (folder / NAME).is_file():
        return [folder]
    found = [path.parent for path in folder.glob(f"*/{NAME}")]
    return sorted(found, key=lambda path: (path / NAME).stat().st_mtime, reverse=True)


def series(path: Path) -> dict[str, tuple[list[int], list[float]]]:
    """All numbers over steps of a run: by name, steps and values."""
    found: dict[str, tuple[list[int], list[float]]] = {}
    for record in records(path):
        if "x" not in record:
            continue
        for name, values in record["c"].items():
            steps, kept = found.setdefault(name, ([], []))
            for step, value in zip(record["x"], values):
                if value is not None:
                    steps.append(step)
                    kept.append(float(value))
    return found
