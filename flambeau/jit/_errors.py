"""Errors of TorchScript programs."""

from __future__ import annotations

import dis
import traceback
from types import TracebackType
from typing import Any


class Error(Exception):
    """An error that a TorchScript program raised."""

    original_msg: Any = ""
    python_class_name = ""


JITException = Error  # the name it has inside of PyTorch
Error.__module__ = __name__.rpartition(".")[0]


class Problem(RuntimeError):
    """Source that is not TorchScript."""


def as_script_error(error: Exception) -> Exception:
    """What a failure of scripted code is for its caller: an `Error` if the code itself raised, else a RuntimeError."""
    tail = error.__traceback__
    while tail is not None and tail.tb_next is not None:
        tail = tail.tb_next
    name = type(error).__name__
    lines = "".join(traceback.format_tb(error.__traceback__))
    head = f"The following operation failed in the TorchScript interpreter.\nTraceback of TorchScript:\n{lines}"
    if tail is not None and _raises(tail):
        made: Exception = Error(f"{head}{type(error).__module__}.{name}: {error}")
        made.original_msg, made.python_class_name = str(error), f"{type(error).__module__}.{name}"  # type: ignore[attr-defined]
        return made
    said = str(error) if isinstance(error, RuntimeError) else f"{name}: {error}"
    return RuntimeError(f"{head}RuntimeError: {said}")


def _raises(place: TracebackType) -> bool:
    """Whether the program itself stopped at a `raise` (or an `assert`), not in an operation."""
    if str(place.tb_frame.f_globals.get("__name__")).partition(".")[0] == __name__.partition(".")[0]:
        return False
    code = place.tb_frame.f_code.co_code
    return dis.opname[code[place.tb_lasti]] == "RAISE_VARARGS"
