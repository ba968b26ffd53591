"""`torch.ops.profiler`: labels in profiles as operators, which compiled code and older programs call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd.profiler import record_function


def _enter(name: str, args: str | None = None) -> record_function:
    """Begins a label; what it gives ends it."""
    return record_function(name, args).__enter__()


def _exit(handle: record_function) -> None:
    """Ends a label."""
    handle.__exit__(None, None, None)


def _end_with(handle: record_function, future: Any) -> Any:
    """Ends a label when a future is there."""

    def done(finished: Any) -> Any:
        _exit(handle)
        return finished.value()

    return future.then(done)


FUNCTIONS: dict[str, dict[str, Callable[..., Any]]] = {
    "_record_function_enter": {"": _enter},
    "_record_function_enter_new": {"": _enter},
    "_record_function_exit": {"": _exit, "_RecordFunction": _exit},
    "_call_end_callbacks_on_jit_fut": {"": _end_with, "_RecordFunction": _end_with},
}
