"""Sizes that follow each other or come in steps: a module that takes no other value of one size alone may take others of two together
(`x + y[1:]`), or every second one (`x.view(-1, 2)`). Both are found by recordings with other sizes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from .._core.expressions import Expr, symbol
from .._dynamo.exc import UserError

_FAR = (12, 48)  # what is tried first: a size that comes in steps most likely takes one of these, or its own double
_TRIED = 3  # sizes that must do


def specialized(label: str, size: int, name: str | None) -> UserError:
    """The error for a size that was to change and cannot."""
    fix = f"\nSuggested fixes:\n  {name} = {size}" if name else ""
    return UserError(
        f'Constraints violated ({label})! For more information, run with TORCH_LOGS="+dynamic".\n  - You marked {label} as '
        f"dynamic but your code specialized it to be a constant ({size}). If you're using mark_dynamic, either remove it or use "
        f"maybe_mark_dynamic. If you're using Dim.DYNAMIC, replace it with either Dim.STATIC or Dim.AUTO.{fix}"
    )


def settle(study: Any) -> None:
    """Joins sizes that follow each other, finds the steps of others, and gives up those that cannot change."""
    for s in [s for s in study.symbols if s not in study.found]:
        if s not in study.symbols:
            continue
        tried = s.samples(2)
        if tried and all(study.follows({s.name: n}) for n in tried):
            continue
        if not (tried and _related(study, s, tried)) and not _stepped(study, s):
            _give_up(study, s)


def _related(study: Any, s: Any, tried: list[int]) -> bool:
    """Joins a size with one that it changes with, or with several that are equal."""
    others = [t for t in study.symbols if t is not s and t not in study.found]
    for t in sorted(others, key=lambda t: t.value != s.value):
        for factor, offset in _relations(s.value, t.value):
            both = [n for n in tried if t.takes(factor * n + offset)]
            if both and all(study.follows({s.name: n, t.name: factor * n + offset}) for n in both):
                _join(study, s, t, factor, offset)
                return True
    for value in dict.fromkeys([s.value, *[t.value for t in others]]):
        equal, offset = [t for t in others if t.value == value], value - s.value
        for group in [*(itertools.combinations(equal, 2) if 2 < len(equal) < 6 else ()), equal]:
            both = [n for n in tried if all(t.takes(n + offset) for t in group)]
            if (
                len(group) > 1
                and both
                and study.follows({s.name: both[0], **{t.name: both[0] + offset for t in group}})
            ):
                for t in group[1:]:
                    _join(study, t, group[0], 1, 0)
                _join(study, s, group[0], 1, offset)
                return True
    return False


def _relations(value: int, other: int) -> Iterator[tuple[int, int]]:
    """(factor, offset) that may lead from one size to another."""
    yield 1, other - value
    if other != value and other % value == 0:
        yield other // value, 0


def _stepped(study: Any, s: Any) -> bool:
    """Finds the step of a size, which may be that of all that are equal to it, too."""
    equal = [t for t in study.symbols if t is not s and t not in study.found and t.value == s.value]
    groups = [[s], *[[s, t] for t in equal], *([[s, *equal]] if len(equal) > 1 else [])]
    for group in groups:
        far = [n for n in (*_FAR, s.value) if all(t.takes(s.value + n) for t in group)]
        reached = [n for n in far if study.follows({t.name: s.value + n for t in group})]
        steps = {d for n in reached for d in range(2, min(n, 64) + 1) if n % d == 0}
        for step in sorted(steps):
            tried = [s.value + i * step for i in range(1, _TRIED + 1)]
            tried = [n for n in tried if all(t.takes(n) for t in group)]
            if len(tried) > 1 and all(study.follows({t.name: n for t in group}) for n in tried):
                _take_steps(_join_all(study, group), step)
                return True
    return False


def _take_steps(s: Any, step: int) -> None:
    """Makes a size step * symbol + rest; one that was given a name must be written so by the program itself."""
    rest = s.value % step
    if s.wish.name:
        shown = f"{step}*_{s.label}" + (f" + {rest}" if rest else "")
        raise UserError(
            f'Constraints violated ({s.label})! For more information, run with TORCH_LOGS="+dynamic".\n  - Not all values of '
            f"{s.label} = {s.places[0][0].text} in the specified range satisfy the generated guard "
            f"Mod({s.places[0][0].text}, {step}) == {rest}\nSuggested fixes:\n  _{s.label} = Dim('_{s.label}')\n  {s.label} = {shown}"
        )
    _substitute(s, symbol(s.name) * step + rest)
    s.value //= step
    s.low, s.high = -(-max(s.low - rest, 0) // step), None if s.high is None else (s.high - rest) // step
    s.limits = [s.low, s.high]


def _substitute(s: Any, e: Expr) -> None:
    s.places[:] = [(place, found.replaced({s.name: e})) for place, found in s.places]


def _join_all(study: Any, group: list[Any]) -> Any:
    """Makes several equal sizes one, which it gives."""
    head = next((s for s in group if s.wish.name), group[0])
    for s in group:
        if s is not head:
            _join(study, s, head, 1, 0)
    return head


def _join(study: Any, s: Any, t: Any, factor: int, offset: int) -> None:
    """Makes two symbols one, as t = factor * s + offset; those that were given different names must not follow each other."""
    if s.wish.name and t.wish.name:
        a, b = (s, t) if factor > 1 or offset else sorted((s, t), key=study.symbols.index)
        fix = _linear(a.label, factor, offset)
        theirs = f"{a.label} = {a.places[0][0].text}"
        told = (
            f"and {theirs} must always be equal"
            if fix == a.label
            else (f"must always be related to the values of {theirs} by {b.label} = {fix}")
        )
        raise UserError(
            f'Constraints violated ({b.label})! For more information, run with TORCH_LOGS="+dynamic".\n  - The values of '
            f"{b.label} = {b.places[0][0].text} {told}.\nSuggested fixes:\n  {b.label} = {fix}"
        )
    keep, drop, e = s, t, symbol(s.name) * factor + offset
    if not s.wish.name and factor == 1 and not offset:
        keep, drop, e = t, s, symbol(t.name)
    low, high = drop.low - offset, None if drop.high is None else (drop.high - offset) // factor
    keep.low = max(keep.low, -(-low // factor))
    keep.high = high if keep.high is None else keep.high if high is None else min(keep.high, high)
    if not keep.wish.name:
        keep.limits = [keep.low, keep.high]
    _substitute(drop, e)
    keep.places += drop.places
    keep.places.sort(key=lambda found: (found[0].leaf, found[0].dim))
    study.symbols.remove(drop)


def _linear(text: str, factor: int, offset: int) -> str:
    shown = text if factor == 1 else f"{factor}*{text}"
    return f"{shown} {'+' if offset > 0 else '-'} {abs(offset)}" if offset else shown


def _give_up(study: Any, s: Any) -> None:
    if not s.wish.soft:
        raise specialized(s.label, s.value, s.wish.name)
    study.symbols.remove(s)
