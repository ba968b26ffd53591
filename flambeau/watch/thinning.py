"""Long runs are kept thinner the longer they last, so that their files grow with the logarithm of their length."""

from __future__ import annotations

from typing import Any

FULL = 1 << 16  # rows that are kept as they are


class Thinner:
    """Takes rows (step, columns) and gives those to keep: all of the first, then two for four steps, for eight, and so on.

    Of the steps that two rows stand for, the first row has the smallest and the second the largest values; columns called "time/…"
    have their mean in both.
    """

    def __init__(self, full: int = FULL) -> None:
        self.left = self.full = full
        self.every = 1
        self.waiting: list[tuple[int, dict[str, float]]] = []

    def take(self, step: int, columns: dict[str, float]) -> list[tuple[int, dict[str, float]]]:
        """A row comes; the rows that can be written now."""
        if self.every > 1:
            self.waiting.append((step, columns))
            if len(self.waiting) < self.every:
                return []
            kept = self.rest()
        else:
            kept = [(step, columns)]
        self.left -= len(kept)
        if self.left <= 0:
            self.every = self.every * 2 if self.every > 1 else 4
            self.left = self.full // 2
        return kept

    def rest(self) -> list[tuple[int, dict[str, float]]]:
        """The rows for what has come and was not given yet."""
        group, self.waiting = self.waiting, []
        if len(group) < 3:
            return group
        low: dict[str, float] = {}
        high: dict[str, float] = {}
        for name in {name: None for _, columns in group for name in columns}:
            values = [columns[name] for _, columns in group if name in columns]
            if name.startswith("time/"):
                low[name] = high[name] = sum(values) / len(values)
            else:
                low[name], high[name] = _extremes(values)
        return [(group[0][0], low), (group[-1][0], high)]


def _extremes(values: list[Any]) -> tuple[Any, Any]:
    wrong = [v for v in values if v != v]  # NaN is what must be seen
    return (wrong[0], wrong[0]) if wrong else (min(values), max(values))
