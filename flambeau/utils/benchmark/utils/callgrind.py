"""Instruction counts by function, as Callgrind gives them: tables to compare and to filter. Nothing here counts."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from .common import TaskSpec

__all__ = ["CallgrindStats", "CopyIfCallgrind", "FunctionCount", "FunctionCounts"]


class FunctionCount(NamedTuple):
    """Instructions that a function took."""

    count: int
    function: str


@dataclass(repr=False, eq=False, frozen=True)
class FunctionCounts:
    """Instructions by function, the most first; they can be added, subtracted, renamed and filtered.

    >>> from flambeau.utils.benchmark import FunctionCount, FunctionCounts
    >>> a = FunctionCounts((FunctionCount(3, "f"), FunctionCount(5, "g")), inclusive=False)
    >>> (a - a.filter(lambda name: name == "g")).sum()
    3
    """

    _data: tuple[FunctionCount, ...]
    inclusive: bool
    truncate_rows: bool = True
    _linewidth: int | None = None

    def __iter__(self) -> Iterator[FunctionCount]:
        yield from self._data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, item: Any) -> Any:
        found = self._data[item]
        return FunctionCounts(found, self.inclusive, truncate_rows=False) if isinstance(item, slice) else found

    def __repr__(self) -> str:
        width = max((len(str(count)) for count, _ in self), default=0) + 2
        rows = [f"{count:>{width}}  {name}" for count, name in self]
        if self.truncate_rows and len(rows) > 18:
            rows = [*rows[:9], "...".rjust(width), *rows[-9:]]
        head = f"<{type(self).__module__}.{type(self).__name__} object at {id(self):#x}>"
        return "\n".join([head, *rows, "", f"Total: {self.sum()}"])

    def __add__(self, other: FunctionCounts) -> FunctionCounts:
        return self._merge(other, lambda c: c)

    def __sub__(self, other: FunctionCounts) -> FunctionCounts:
        return self._merge(other, lambda c: -c)

    def __mul__(self, other: float) -> FunctionCounts:
        return self._from({name: int(count * other) for count, name in self}, self.inclusive)

    def sum(self) -> int:
        """All instructions."""
        return sum(count for count, _ in self)

    def transform(self, map_fn: Callable[[str], str]) -> FunctionCounts:
        """The counts by other names; those of one name are added."""
        counts: defaultdict[str, int] = defaultdict(int)
        for count, name in self:
            counts[map_fn(name)] += count
        return self._from(counts, self.inclusive)

    def filter(self, filter_fn: Callable[[str], bool]) -> FunctionCounts:
        """The counts of functions whose names are wanted."""
        return FunctionCounts(tuple(item for item in self if filter_fn(item.function)), self.inclusive)

    def denoise(self) -> FunctionCounts:
        """Without the parts of CPython whose counts change from run to run."""
        return self.filter(lambda name: "dictobject.c:lookdict_unicode" not in name)

    def _merge(self, other: FunctionCounts, sign: Callable[[int], int]) -> FunctionCounts:
        if self.inclusive != other.inclusive:
            raise AssertionError("Cannot merge inclusive and exclusive counts.")
        counts: defaultdict[str, int] = defaultdict(int)
        for count, name in self:
            counts[name] += count
        for count, name in other:
            counts[name] += sign(count)
        return self._from(counts, self.inclusive)

    @staticmethod
    def _from(counts: dict[str, int], inclusive: bool) -> FunctionCounts:
        made = (FunctionCount(count, name) for name, count in counts.items() if count)
        return FunctionCounts(tuple(sorted(made, reverse=True)), inclusive)


@dataclass(repr=False, eq=False, frozen=True)
class CallgrindStats:
    """Counts of a statement and of an empty one beside it. `Timer.collect_callgrind` does not make them here."""

    task_spec: TaskSpec
    number_per_run: int
    built_with_debug_symbols: bool
    baseline_inclusive_stats: FunctionCounts
    baseline_exclusive_stats: FunctionCounts
    stmt_inclusive_stats: FunctionCounts
    stmt_exclusive_stats: FunctionCounts
    stmt_callgrind_out: str | None

    def stats(self, inclusive: bool = False) -> FunctionCounts:
        """Counts by function, less those of the empty statement."""
        return self.stmt_inclusive_stats if inclusive else self.stmt_exclusive_stats - self.baseline_exclusive_stats

    def counts(self, *, denoise: bool = False) -> int:
        """All instructions of the statement."""
        found = self.stmt_exclusive_stats
        return (found.denoise() if denoise else found).sum()

    def delta(self, other: CallgrindStats, inclusive: bool = False) -> FunctionCounts:
        """The counts less those of another run."""
        return self.stats(inclusive) - other.stats(inclusive)

    def as_standardized(self) -> CallgrindStats:
        """With file names shortened, so that runs in different places compare."""

        def short(counts: FunctionCounts) -> FunctionCounts:
            return counts.transform(lambda name: re.sub(r"^.+?(?=(?:torch|build|Python|Objects|Modules)/)", "", name))

        return CallgrindStats(
            self.task_spec, self.number_per_run, self.built_with_debug_symbols, short(self.baseline_inclusive_stats),
            short(self.baseline_exclusive_stats), short(self.stmt_inclusive_stats), short(self.stmt_exclusive_stats), None,
        )  # fmt: skip


class CopyIfCallgrind:
    """A global value of a benchmark that would be copied into Callgrind's process, with what it needs there."""

    def __init__(self, value: Any, *, setup: str | None = None) -> None:
        self._value, self._setup = value, setup

    @property
    def value(self) -> Any:
        """The value itself."""
        return self._value

    @property
    def setup(self) -> str | None:
        """The code that makes its class known."""
        return self._setup

    @staticmethod
    def unwrap_all(globals: dict[str, Any]) -> dict[str, Any]:
        """The values without the marks."""
        return {k: (v.value if isinstance(v, CopyIfCallgrind) else v) for k, v in globals.items()}
