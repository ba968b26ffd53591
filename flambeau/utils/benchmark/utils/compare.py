"""`Compare`: measurements side by side in a table."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from math import floor, log10
from typing import Any

from .common import Measurement, ordered_unique, select_unit, trim_sigfig, unit_to_english

__all__ = ["Colorize", "Compare"]

_BEST, _GOOD, _VALUE, _WORSE, _WORST = "\033[92m\033[1m", "\033[34m", "", "\033[2m\033[91m", "\033[31m\033[1m"
_END = "\033[0m\033[0m"


class Colorize(Enum):
    """What a value's colour compares it with."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class _Table:
    """The measurements of one label: a column for each description, a row for each sub-label, environment and thread count."""

    def __init__(self, results: list[Measurement], colorize: Colorize, trim: bool, warn: bool):
        self.results, self.colorize, self.trim, self.warn = results, colorize, trim, warn
        self.unit, self.scale = select_unit(min(r.median for r in results))
        self.columns = ordered_unique(r.description for r in results)
        self.cells = {self._place(r): r for r in results}
        self.rows = ordered_unique(self._place(r)[:3] for r in results)
        order = {key: i for i, key in enumerate(self.rows)}
        threads = sorted({row[0] for row in self.rows})
        envs = ordered_unique(row[1] for row in self.rows)
        self.rows.sort(key=lambda row: (threads.index(row[0]), envs.index(row[1]), order[row]))

    @staticmethod
    def _place(r: Measurement) -> tuple[Any, ...]:
        return r.num_threads, r.env, r.as_row_name, r.description

    def _text(self, r: Measurement | None) -> str:
        if r is None:
            return ""
        value, digits = r.median / self.scale, 1
        if self.trim:
            figures = r.significant_figures
            value = trim_sigfig(value, figures)
            digits = max(0, figures - 1 - floor(log10(abs(value)))) if value else 0
        noisy = self.warn and r.has_warnings
        return f"{value:.{digits}f}" + (f" (! {r.iqr / r.median * 100:.0f}%)" if noisy else "")

    def _colored(self, text: str, r: Measurement | None) -> str:
        if r is None or self.colorize is Colorize.NONE:
            return text
        place = self._place(r)
        if self.colorize is Colorize.ROWWISE:
            rivals = [m for key, m in self.cells.items() if key[:3] == place[:3]]
        else:
            rivals = [m for key, m in self.cells.items() if key[3] == place[3]]
        ratio = r.median / min(m.median for m in rivals)
        for limit, color in ((1.05, _BEST), (1.1, _GOOD), (1.5, _VALUE), (5.0, _WORSE)):
            if ratio <= limit:
                return f"{color}{text}{_END}" if color else text
        return f"{_WORST}{text}{_END}"

    def text(self) -> str:
        envs = ordered_unique(row[1] for row in self.rows)
        shown = {env: f"({env})" if env and len(envs) > 1 else "" for env in envs}
        width = max(len(s) for s in shown.values())
        lead = width + 4 if width else 6
        names = max(len(row[2]) for row in self.rows)
        widths, texts = [], {}
        for column in self.columns:
            found = [self._text(self.cells.get((*row, column))) for row in self.rows]
            texts[column] = dict(zip(self.rows, found))
            widths.append(max(len(s) for s in (*found, column or "")))

        def line(first: str, cells: Iterable[str]) -> str:
            return first + "".join(f"  |  {cell}" for cell in cells)

        head = line(" " * (lead + names), [(c or "").center(w) for c, w in zip(self.columns, widths)])
        lines = [f"[{(' ' + (self.results[0].label or '') + ' ').center(len(head) - 2, '-')}]", head]
        threads: Any = None
        last: Any = object()
        for row in self.rows:
            if row[0] != threads:
                threads, last = row[0], object()
                lines.append(f"{threads} threads: ".ljust(len(head), "-"))
            env = shown[row[1]] if row[1] != last else ""
            last = row[1]
            cells = [
                self._colored(texts[c][row].center(w), self.cells.get((*row, c))) for c, w in zip(self.columns, widths)
            ]
            first = (f"  {env.ljust(width)}  " if width else " " * 6) + row[2].ljust(names)
            lines.append(line(first, cells))
        lines += ["", f"Times are in {unit_to_english(self.unit)}s ({self.unit})."]
        if self.warn and any(r.has_warnings for r in self.results):
            lines.append("(! XX%) Measurement has high variance, where XX is the IQR / median * 100.")
        return "\n".join(lines) + "\n"


class Compare:
    """Tables of measurements: one for each label, a row for each sub-label, a column for each description.

    >>> from flambeau.utils.benchmark import Compare, Measurement, TaskSpec
    >>> task = TaskSpec("f(x)", "pass", label="f", sub_label="small", description="ours")
    >>> Compare([Measurement(1, [0.002], task)]).print()
    [------- f --------]
                 |  ours
    1 threads: ---------
          small  |  2.0
    <BLANKLINE>
    Times are in milliseconds (ms).
    <BLANKLINE>
    """

    def __init__(self, results: list[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._trim_significant_figures = self._highlight_warnings = False
        self._colorize = Colorize.NONE

    def __str__(self) -> str:
        return "\n".join(self._render())

    def extend_results(self, results: list[Measurement]) -> None:
        """Adds measurements."""
        for r in results:
            if not isinstance(r, Measurement):
                raise ValueError(f"Compare takes only Measurements, not {type(r)}")
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Shows only the digits that can be trusted."""
        self._trim_significant_figures = True

    def colorize(self, rowwise: bool = False) -> None:
        """Shows the best values of each column (or row) in green, slow ones in red."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Marks values that vary much."""
        self._highlight_warnings = True

    def print(self) -> None:
        """Prints the tables."""
        print(str(self))

    def _render(self) -> list[str]:
        groups: dict[Any, list[Measurement]] = {}
        for r in Measurement.merge(self._results):
            groups.setdefault(r.label, []).append(r)
        return [
            _Table(group, self._colorize, self._trim_significant_figures, self._highlight_warnings).text()
            for group in groups.values()
        ]
