"""`FileCheck`: looks for pieces of text in order."""

from __future__ import annotations

import re
from typing import Any


class FileCheck:
    """Checks that pieces of text follow each other; each method adds a check, `run` makes them.

    >>> FileCheck().check("mul").check_not("exp").check("add").run("mul, sub, add")
    >>> FileCheck().check("exp").run("mul")
    Traceback (most recent call last):
    RuntimeError: Expected to find "exp" but did not find it in:
    mul
    """

    def __init__(self) -> None:
        self._checks: list[tuple[Any, ...]] = []

    def _add(self, *check: Any) -> FileCheck:
        self._checks.append(check)
        return self

    def check(self, test_string: str) -> FileCheck:
        """The text comes somewhere after the last find."""
        return self._add("check", test_string)

    def check_not(self, test_string: str) -> FileCheck:
        """The text does not come between the finds before and after this check."""
        return self._add("not", test_string)

    def check_same(self, test_string: str) -> FileCheck:
        """The text comes after the last find, in its line."""
        return self._add("same", test_string)

    def check_next(self, test_string: str) -> FileCheck:
        """The text comes in the line after the last find."""
        return self._add("next", test_string)

    def check_count(self, test_string: str, count: int, exactly: bool = False) -> FileCheck:
        """The text comes `count` times; with `exactly`, not once more."""
        return self._add("count", test_string, count, exactly)

    def check_dag(self, test_string: str) -> FileCheck:
        """Neighbouring checks of this kind may be met in any order."""
        return self._add("dag", test_string)

    def check_source_highlighted(self, test_string: str) -> FileCheck:
        """The text comes with a line of ~~~~ under it."""
        return self._add("highlight", test_string)

    def check_regex(self, pattern: str) -> FileCheck:
        """A regular expression is found after the last find."""
        return self._add("regex", pattern)

    def run(self, test_string: Any) -> None:
        """Makes the checks on a text; RuntimeError where one fails."""
        text = str(test_string)
        place = 0
        forbidden: list[str] = []
        latest = 0  # the end of the last neighbouring "dag" check
        for check in self._checks:
            kind, wanted = check[:2]
            if kind == "not":
                forbidden.append(wanted)
                continue
            start = place
            if kind == "dag":
                found = self._find(text, wanted, start)
                latest = max(latest, found + len(wanted))
                self._refuse(text, forbidden, start, found)
                continue
            place, latest = max(place, latest), 0
            found, place = self._one(text, check, place)
            self._refuse(text, forbidden, start, found)
            forbidden = []
        self._refuse(text, forbidden, max(place, latest), len(text))

    @staticmethod
    def _find(text: str, wanted: str, start: int, end: int | None = None) -> int:
        found = text.find(wanted, start, len(text) if end is None else end)
        if found < 0:
            raise RuntimeError(f'Expected to find "{wanted}" but did not find it in:\n{text[start:end]}')
        return found

    def _one(self, text: str, check: tuple[Any, ...], place: int) -> tuple[int, int]:
        """Where a check is met: start and end."""
        kind, wanted = check[:2]
        line_end = text.find("\n", place)
        line_end = len(text) if line_end < 0 else line_end
        if kind == "same":
            found = self._find(text, wanted, place, line_end)
        elif kind == "next":
            after = text.find("\n", line_end + 1)
            found = self._find(text, wanted, min(line_end + 1, len(text)), len(text) if after < 0 else after)
        elif kind == "count":
            found = first = -1
            for _ in range(check[2]):
                found = self._find(text, wanted, place)
                first = found if first < 0 else first
                place = found + len(wanted)
            if check[3]:
                self._refuse(text, [wanted], place, len(text))
            return (first if first >= 0 else place), place
        elif kind == "regex":
            match = re.compile(wanted).search(text, place)
            if match is None:
                raise RuntimeError(f'Expected to find the pattern "{wanted}" but did not find it in:\n{text[place:]}')
            return match.start(), match.end()
        elif kind == "highlight":
            found = self._find(text, wanted, place)
            below = text.find("\n", found)
            self._find(text, "~" * len(wanted), below if below >= 0 else len(text))
        else:
            found = self._find(text, wanted, place)
        return found, found + len(wanted)

    @staticmethod
    def _refuse(text: str, forbidden: list[str], start: int, end: int) -> None:
        for unwanted in forbidden:
            if text.find(unwanted, start, end) >= 0:
                raise RuntimeError(f'Expected to not find "{unwanted}" but found it in:\n{text[start:end]}')
