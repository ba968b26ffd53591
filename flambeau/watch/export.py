"""Kept runs in forms that others read: CSV and TensorBoard's event files."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from .store import records, series


def to_csv(path: Path, target: Any) -> None:
    """Writes all numbers of a run to a text file: a line for each step, a column for each name; empty where there is none."""
    found = series(path)
    table: dict[int, dict[str, float]] = {}
    for name, (steps, values) in found.items():
        for step, value in zip(steps, values):
            table.setdefault(step, {})[name] = value
    out = csv.writer(target, lineterminator="\n")
    out.writerow(["step", *found])
    for step in sorted(table):
        row = table[step]
        out.writerow([step, *(f"{row[name]:.6g}" if name in row else "" for name in found)])


def to_tensorboard(path: Path, folder: Path) -> Path:
    """Writes numbers and histograms of a run as an event file, which TensorBoard shows."""
    from ..utils.tensorboard import SummaryWriter  # needs the tensorboard package

    with SummaryWriter(str(folder)) as board:
        for name, (steps, values) in series(path).items():
            for step, value in zip(steps, values):
                board.add_scalar(name, value, step)
        for record in records(path):
            if "h" in record:
                _histogram(board, record)
    return folder


def _histogram(board: Any, record: dict[str, Any]) -> None:
    (low, high), counts = record["r"], record["c"]
    width = (high - low) / len(counts)
    middles = [low + (i + 0.5) * width for i in range(len(counts))]
    board.add_histogram_raw(
        record["n"], low, high, sum(counts), sum(m * c for m, c in zip(middles, counts)),
        sum(m * m * c for m, c in zip(middles, counts)), [low + (i + 1) * width for i in range(len(counts))], counts, record["h"],
    )  # fmt: skip
