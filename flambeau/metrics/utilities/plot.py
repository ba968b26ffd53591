"""Figures of metrics' values with matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..._tensor import Tensor


def _axes(ax: Any) -> tuple[Any, Any]:
    import matplotlib.pyplot as plt  # optional: only for drawing

    return (ax.get_figure(), ax) if ax is not None else plt.subplots()


def plot_values(
    value: Any, ax: Any, name: str, lower: float | None = None, upper: float | None = None
) -> tuple[Any, Any]:
    """A point per scalar, a line per series, one series for each element of a vector or entry of a dictionary."""
    figure, ax = _axes(ax)
    steps = list(value) if isinstance(value, Sequence) else [value]
    if isinstance(steps[0], Mapping):
        series = {key: [float(step[key]) for step in steps] for key in steps[0]}
    else:
        rows = [step.reshape(-1).tolist() if isinstance(step, Tensor) else [float(step)] for step in steps]
        series = {name if len(rows[0]) == 1 else f"{name} {i}": list(line) for i, line in enumerate(zip(*rows))}
    for label, line in series.items():
        ax.plot(range(len(line)), line, marker="o", linestyle="-" if len(line) > 1 else "none", label=str(label))
    if lower is not None or upper is not None:
        ax.set_ylim(bottom=lower, top=upper)
    ax.set_ylabel(name)
    ax.legend()
    return figure, ax


def plot_confusion_matrix(matrix: Tensor, ax: Any = None, labels: Sequence[Any] | None = None) -> tuple[Any, Any]:
    """A picture of the matrix with the numbers written in."""
    figure, ax = _axes(ax)
    rows = matrix.tolist()
    ax.imshow(rows)
    for i, row in enumerate(rows):
        for j, number in enumerate(row):
            ax.text(j, i, f"{number:.3g}", ha="center", va="center", color="white")
    names = labels if labels is not None else range(len(rows))
    ax.set_xticks(range(len(rows)), [str(name) for name in names])
    ax.set_yticks(range(len(rows)), [str(name) for name in names])
    ax.set_xlabel("predicted")
    ax.set_ylabel("true")
    return figure, ax


def plot_curve(curve: tuple[Any, Any, Any], ax: Any, name: str, labels: tuple[str, str]) -> tuple[Any, Any]:
    """A line for a curve (x, y, thresholds), or one for each class."""
    figure, ax = _axes(ax)
    many = isinstance(curve[0], list) or curve[0].dim() > 1
    pairs = zip(curve[0], curve[1]) if many else [(curve[0], curve[1])]
    for i, (x, y) in enumerate(pairs):
        ax.plot(x.tolist(), y.tolist(), label=f"{name} {i}" if many else name)
    ax.set_xlabel(labels[0])
    ax.set_ylabel(labels[1])
    ax.legend()
    return figure, ax
