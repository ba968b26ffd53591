"""Why a run cannot be a program, how often that was so, and who is told."""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter, defaultdict
from typing import Any

# What was recorded (`stats`) and what was not (`graph_break`, by reason) since the program began: `torch._dynamo.utils.counters`.
counters: defaultdict[str, Counter[str]] = defaultdict(Counter)
logs = frozenset(os.environ.get("TORCH_LOGS", "").replace("+", "").split(","))
_log = logging.getLogger("flambeau.compile")


class _Strict(threading.local):
    whole = False  # whether a break is an error now (`torch._dynamo.error_on_graph_break`)


strict = _Strict()


class Break(Exception):
    """Something that cannot be part of a compiled program, with the user's line."""

    def __init__(self, reason: str, file: str = "", line: int = 0, ours: bool = True):
        super().__init__(reason, file, line)
        self.reason, self.file, self.line = reason, file, line
        self.ours = ours  # whether PyTorch records it, as it does most things: then nobody who wants one graph is told
        self.forbidden = strict.whole
        self.passing = False  # whether the next run may be without it
        self.late = False  # whether it is about what the run leaves behind

    def __str__(self) -> str:
        return f"{self.reason} ({self.file}:{self.line})" if self.file else self.reason


class Changing(Break):
    """Numbers that change from call to call: the next run is recorded as one that does not depend on them."""

    def __init__(self) -> None:
        super().__init__("numbers change from call to call")
        self.passing = True


class Otherwise(Exception):
    """A branch of the function that a program stands for goes another way this time."""


def shown(function: Any) -> str:
    """What messages call a function."""
    return getattr(function, "__qualname__", getattr(function, "__name__", str(function)))


def tells(topic: str) -> bool:
    """Whether somebody asked for a topic by TORCH_LOGS."""
    return topic in logs or "dynamo" in logs


def log(topic: str, text: str) -> None:
    """Says something to those who asked for it."""
    if tells(topic):
        _log.warning("[__%s] %s", topic, text)
