"""Tracebacks that end at the line of the program: what happened inside the package is folded into one line."""

from __future__ import annotations

import os
import sys
import types
from typing import Any

from .advice import teach
from .frames import PACKAGE
from .names import nearest

_KINDS = (RuntimeError, IndexError, ValueError, NotImplementedError, AssertionError, AttributeError)


def folded(trace: types.TracebackType | None) -> tuple[types.TracebackType | None, int]:
    """A traceback without the frames of the package after the program's last one, and how many these were."""
    steps: list[types.TracebackType] = []
    while trace is not None:
        steps.append(trace)
        trace = trace.tb_next
    ours = [s.tb_frame.f_code.co_filename.startswith((PACKAGE, "<frozen runpy>")) for s in steps]
    if all(ours):
        return (steps[0] if steps else None), 0
    shown = [s for s, mine in zip(steps, ours) if not mine]
    inside = sum(ours[ours.index(False) :])  # what lies before the program's first is how it was started
    made: types.TracebackType | None = None
    for s in reversed(shown):
        made = types.TracebackType(made, s.tb_frame, s.tb_lasti, s.tb_lineno)
    return made, inside


def show(kind: type[BaseException], error: BaseException, trace: types.TracebackType | None) -> None:
    """What Python calls for an error that nobody caught."""
    if os.environ.get("FLAMBEAU_FULL_TRACEBACK") == "1":
        _before(kind, error, trace)
        return
    short, left_out = folded(trace)
    meant = explained(error, left_out > 0)
    error.__traceback__ = short
    _before(kind, error, short)
    if meant:
        print(f"Did you mean: {meant!r}?", file=sys.stderr)
    if left_out:
        print(
            f"({left_out} frames inside flambeau are not shown: FLAMBEAU_FULL_TRACEBACK=1 shows them)", file=sys.stderr
        )


def explained(error: BaseException, ours: bool) -> str | None:
    """Adds what to do to an error that nobody caught, if it is one of ours; gives the attribute that was meant, if there is one."""
    if isinstance(error, TypeError) or (ours and isinstance(error, _KINDS)):
        teach(error)
    return _meant(error)


def _meant(error: BaseException) -> str | None:
    """The attribute that was meant, where Python itself does not say it: it gives up on objects with many names."""
    if not isinstance(error, AttributeError) or error.name is None or error.obj is None:
        return None
    known = dir(error.obj)
    return nearest(error.name, known) if len(known) >= 750 else None


_before: Any = sys.__excepthook__


def install() -> None:
    """Takes Python's place in showing errors, unless somebody else already has."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = show
