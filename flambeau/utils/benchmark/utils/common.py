"""What is measured, and the result: times with their median and spread."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import floor, log10, sqrt
from typing import Any

import numpy as np

from ...._backend.threads import get_num_threads, set_num_threads

__all__ = [
    "Measurement", "TaskSpec", "ordered_unique", "select_unit", "set_torch_threads", "trim_sigfig", "unit_to_english",
]  # fmt: skip

_MAX_SIGNIFICANT_FIGURES = 4
_NOISY = 0.1  # an interquartile range above this share of the median is worth a warning
_VERY_NOISY = 0.25
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_ENGLISH = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}


@dataclass(init=True, repr=False, eq=True, frozen=True)
class TaskSpec:
    """The code that is timed, and under which names it appears in tables."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label and sub-label, or else the statement."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        if "\n" not in self.stmt:
            return self.stmt + (f": ({self.sub_label})" if self.sub_label else "")
        head = f"stmt: ({self.sub_label})" if self.sub_label else "stmt:"
        return f"{head}\n{textwrap.indent(self.stmt, '  ')}"

    def setup_str(self) -> str:
        """The setup as a part of the text of a measurement."""
        if not self.setup or self.setup == "pass":
            return ""
        return f"setup:\n{textwrap.indent(self.setup, '  ')}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self) -> str:
        """Title, description and setup."""
        parts = [self.title, self.description or ""]
        if self.label is None:
            parts.append(self.setup_str())
        parts = [part for part in parts if part]
        apart = any("\n" in part for part in parts)
        return "\n\n".join(parts) + "\n" if apart else "\n".join(parts)


@dataclass(init=True, repr=False)
class Measurement:
    """Times of a task: each of `raw_times` is the time of `number_per_run` runs, in seconds.

    >>> from flambeau.utils.benchmark import Measurement, TaskSpec
    >>> m = Measurement(10, [0.2, 0.1, 0.3], TaskSpec("f()", "pass"))
    >>> round(m.median, 6), round(m.mean, 6)
    (0.02, 0.02)
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in TaskSpec.__dataclass_fields__:
            return getattr(self.task_spec, name)
        raise AttributeError(f"Measurement has no attribute {name!r}")

    @property
    def times(self) -> list[float]:
        """The time of one run in each measurement, in seconds."""
        return [t / self.number_per_run for t in self.raw_times]

    def _values(self) -> Any:
        if not self.raw_times:
            raise ValueError("a Measurement without times has no statistics")
        return np.asarray(self.times)

    @property
    def median(self) -> float:
        """The middle time of one run."""
        return float(np.median(self._values()))

    @property
    def mean(self) -> float:
        """The average time of one run."""
        return float(np.mean(self._values()))

    def _quartiles(self) -> tuple[float, float]:
        low, high = np.quantile(self._values(), (0.25, 0.75))
        return float(low), float(high)

    @property
    def iqr(self) -> float:
        """The distance between the quartiles: where the middle half of the times lies."""
        low, high = self._quartiles()
        return high - low

    @property
    def significant_figures(self) -> int:
        """How many digits of the median can be trusted, by its 90 % confidence interval."""
        error = 1.645 * (self.iqr / 1.349) / sqrt(len(self.raw_times)) / self.median if self.median else 0.0
        if error <= 0:
            return _MAX_SIGNIFICANT_FIGURES
        return min(max(floor(-log10(error)), 1), _MAX_SIGNIFICANT_FIGURES)

    @property
    def has_warnings(self) -> bool:
        """Whether the times vary much."""
        return not self.meets_confidence()

    def meets_confidence(self, threshold: float = _NOISY) -> bool:
        """Whether the spread is small beside the median."""
        return self.iqr / self.median < threshold if self.median else True

    @property
    def title(self) -> str:
        """The task's title."""
        return self.task_spec.title

    @property
    def env(self) -> str | None:
        """What distinguishes this run from others in a comparison."""
        return self.task_spec.env

    @property
    def as_row_name(self) -> str:
        """The name of the row in a comparison."""
        return self.sub_label or self.stmt or "[Unknown]"

    def __repr__(self) -> str:
        unit, scale = select_unit(self.median)
        times, low_high = self.raw_times, self._quartiles()
        lines = [
            f"<torch.utils.benchmark.utils.common.Measurement object at {id(self):#x}>",
            self.task_spec.summarize(),
        ]
        lines.append(f"  {'Median: ' if len(times) > 1 else ''}{self.median / scale:.2f} {unit}")
        if len(times) >= 4:
            low, high = low_high
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({low / scale:.2f} to {high / scale:.2f})")
        runs = f"{self.number_per_run} runs {'per measurement' if len(times) > 1 else ''}"
        threads = f"{self.num_threads} thread{'s' if self.num_threads > 1 else ''}"
        lines.append(f"  {len(times)} measurement{'s' if len(times) > 1 else ''}, {runs}, {threads}")
        if self.has_warnings:
            share = self.iqr / self.median
            reason = "other work on this machine took part" if share > _VERY_NOISY else "the machine's speed may vary"
            lines += [
                f"  WARNING: Interquartile range is {share * 100:.1f}% of the median measurement.",
                f"           It seems that {reason}.",
            ]
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Puts the times of equal tasks together."""
        groups: dict[TaskSpec, list[Measurement]] = defaultdict(list)
        for m in measurements:
            groups[m.task_spec].append(m)
        merged = []
        for spec, group in groups.items():
            runs = group[0].number_per_run
            times = [t if m.number_per_run == runs else t * runs / m.number_per_run for m in group for t in m.raw_times]
            merged.append(Measurement(runs, times, spec))
        return merged


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which a time reads best, and its length in seconds."""
    power = int(log10(t) // 3) if t > 0 else 0
    unit = {-1: "ms", -2: "us", -3: "ns"}.get(min(power, 0), "ns" if power < -3 else "s")
    return unit, _UNITS[unit]


def unit_to_english(u: str) -> str:
    """The full name of a unit of time."""
    return _ENGLISH[u]


def trim_sigfig(x: float, n: int) -> float:
    """A number rounded to n significant figures."""
    if x == 0:
        return 0.0
    magnitude = floor(log10(abs(x))) + 1
    return float(round(x, n - magnitude))


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """Each element once, in the order of first appearance."""
    return list(dict.fromkeys(elements))


@contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """Uses n threads inside a `with` block."""
    before = get_num_threads()
    try:
        set_num_threads(n)
        yield
    finally:
        set_num_threads(before)
