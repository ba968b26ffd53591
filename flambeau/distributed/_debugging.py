"""Switches and figures for those who look for mistakes in distributed programs."""

from __future__ import annotations

import os
import pdb
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ._groups import get_rank
from ._kinds import DebugLevel

__all__ = ["Logger", "breakpoint", "get_debug_level", "record_comm", "set_debug_level", "set_debug_level_from_env"]

_level = [DebugLevel.OFF]


def get_debug_level() -> DebugLevel:
    """How much is checked and told."""
    return _level[0]


def set_debug_level(debug_level: DebugLevel) -> None:
    """How much is checked and told. It has no effect in a world of one process."""
    _level[0] = debug_level


def set_debug_level_from_env() -> None:
    """Takes the level from TORCH_DISTRIBUTED_DEBUG."""
    text = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    if text not in DebugLevel.__members__:
        raise RuntimeError("The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL.")
    _level[0] = DebugLevel[text]


def breakpoint(rank: int = 0, skip: int = 0, timeout_s: int = 3600) -> None:
    """Stops in the debugger, on one process."""
    if get_rank() == rank:
        pdb.Pdb().set_trace(sys._getframe(1))


@contextmanager
def record_comm(name: str) -> Iterator[None]:
    """Names the calls inside of a `with` block for profilers."""
    yield


class Logger:
    """Figures of `DistributedDataParallel` for those who run many jobs; not kept here."""

    def __init__(self, *args: Any, **kwargs: Any):
        raise NotImplementedError("Logger: no figures are kept; use torch.profiler")
