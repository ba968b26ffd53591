"""What processes do together when they write or read a checkpoint: if one fails, all raise."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from typing import Any

from .._groups import current, is_initialized
from .._objects import all_gather_object


class CheckpointException(RuntimeError):
    """What went wrong in the processes of a checkpoint, by rank: the error and where it was raised, or a text."""

    def __init__(self, msg: str, failures: dict[int, Any]):
        super().__init__(msg, failures)
        self._msg, self._failures = msg, failures

    @property
    def failures(self) -> dict[int, Any]:
        """The errors by rank."""
        return self._failures

    def __str__(self) -> str:
        lines = [f"{self._msg} ranks:{list(self._failures)}"]
        for rank, failure in self._failures.items():
            error = failure[0] if isinstance(failure, tuple) else failure
            text = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else error
            lines.append(f"rank {rank}: {text}")
        return "\n".join(lines)


def everyone(function: Callable[[], Any], group: Any, what: str) -> list[Any]:
    """The results of a function in all processes; if it fails in one, all raise."""
    own: Any = None
    wrong: Any = None
    try:
        own = function()
    except Exception as error:
        wrong = error, traceback.extract_tb(error.__traceback__)
    if group is None:
        if wrong is not None:
            raise CheckpointException(f"CheckpointException {what}", {0: wrong}) from wrong[0]
        return [own]
    found: list[Any] = [None] * group.size()
    all_gather_object(found, (own, _sendable(wrong)), group=group)
    failures = {rank: failure for rank, (_, failure) in enumerate(found) if failure is not None}
    if failures:
        raise CheckpointException(f"CheckpointException {what}", failures)
    return [value for value, _ in found]


def _sendable(failure: Any) -> Any:
    """An error that other processes can read."""
    if failure is None:
        return None
    error, where = failure
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return error, where


def group_of(process_group: Any, no_dist: bool) -> Any:
    return current(process_group) if is_initialized() and not no_dist else None
