"""Whose code runs: the frames of programs that called into this package."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def is_ours(frame: Any) -> bool:
    """Whether a frame runs code of this package."""
    return bool(frame.f_code.co_filename.startswith(PACKAGE))


def users_frame() -> Any:
    """The innermost frame that runs other code than this package's; None if there is none."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return frame


def users_line() -> tuple[str, int] | None:
    """The file and line of that frame."""
    frame = users_frame()
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def called_from(part: str) -> bool:
    """Whether a part of this package, such as "distributions", is what asks, on behalf of the program."""
    frame: Any = sys._getframe(1)
    while frame is not None and is_ours(frame):
        if frame.f_code.co_filename.startswith(PACKAGE + part):
            return True
        frame = frame.f_back
    return False


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """Warns at the line of the program that called into this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and is_ours(frame):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)
