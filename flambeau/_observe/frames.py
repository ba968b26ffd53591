"""Whose line it is: the nearest frame that belongs to the user's program, not to flambeau or a library."""

from __future__ import annotations

import os
import sys
import sysconfig
from types import FrameType, TracebackType

from .._errors.frames import PACKAGE

_LIBRARIES = tuple(
    os.path.abspath(path) + os.sep for key, path in sysconfig.get_paths().items() if key in ("stdlib", "platstdlib", "purelib", "platlib")
)  # fmt: skip
_known: dict[str, bool] = {}
Place = tuple[str, int]


def is_user_file(name: str) -> bool:
    """Whether a file belongs to the user's program."""
    known = _known.get(name)
    if known is None:
        path = os.path.abspath(name)
        known = _known[name] = not (
            name.startswith("<")
            or path.startswith(PACKAGE)
            or path.startswith(_LIBRARIES)
            or f"{os.sep}site-packages{os.sep}" in path
        )
    return known


def user_frame(depth: int = 2) -> FrameType | None:
    """The nearest frame of the user's program."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def here() -> Place | None:
    """File and line of the user's program that runs now."""
    frame = user_frame(2)
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def place_of(trace: TracebackType | None) -> Place | None:
    """The innermost line of the user's program in a traceback."""
    place = None
    while trace is not None:
        if is_user_file(trace.tb_frame.f_code.co_filename):
            place = (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return place
