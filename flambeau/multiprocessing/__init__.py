"""Python's `multiprocessing` with tensors: they travel between processes as shared memory, not as copies.

A tensor that was sent and the tensor that arrives are one: writes on either side are seen on the other.
"""

import multiprocessing as _multiprocessing
import multiprocessing.context
from multiprocessing import *  # noqa: F403
from typing import Any

from .reductions import init_reductions
from .spawn import ProcessContext, ProcessExitedException, ProcessRaisedException, SpawnContext, spawn, start_processes

_strategies = {"file_descriptor", "file_system"}
_chosen = ["file_descriptor"]


def get_all_sharing_strategies() -> set[str]:
    """The names that `set_sharing_strategy` takes."""
    return set(_strategies)


def get_sharing_strategy() -> str:
    """The name that was chosen last."""
    return _chosen[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """Chooses how memory is shared. Either name is taken: memory is always handed over by its descriptor, which needs
    no name in the file system, and one descriptor is open for each piece of memory.
    """
    if new_strategy not in _strategies:
        raise AssertionError(f"unknown sharing strategy {new_strategy!r}, expected one of {sorted(_strategies)}")
    _chosen[0] = new_strategy


def __getattr__(name: str) -> Any:
    return getattr(_multiprocessing, name)


__all__ = [
    "ProcessContext", "ProcessExitedException", "ProcessRaisedException", "SpawnContext", "get_all_sharing_strategies",
    "get_sharing_strategy", "set_sharing_strategy", "spawn", "start_processes", *_multiprocessing.__all__,
]  # fmt: skip

init_reductions()
