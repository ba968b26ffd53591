"""Errors of workers on their way to the main process."""

from __future__ import annotations

import sys
import traceback
from typing import Any


class _Lines(str):
    """A message that KeyError, which shows the repr of its argument, still prints on several lines."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """An exception as its type and printed traceback, which can go to another process and be raised there."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        kind, value, trace = exc_info or sys.exc_info()
        assert kind is not None, "there is no exception to wrap"
        self.exc_type: Any = kind
        self.exc_name = kind.__name__
        self.exc_msg = "".join(traceback.format_exception(kind, value, trace))
        self.where = where

    def reraise(self) -> None:
        """Raises the exception again, with a message that tells where it came from."""
        kind = self.exc_type
        message = f"Caught {self.exc_name} {self.where}.\nOriginal {self.exc_msg}"
        if kind is KeyError:
            message = _Lines(message)
        elif getattr(kind, "message", None):
            raise kind(message=message)
        try:
            error = kind(message)
        except Exception:
            raise RuntimeError(message) from None  # the type asks for other arguments
        raise error
