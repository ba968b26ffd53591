"""A hook to see what communication costs: gradients stay as they are."""

from __future__ import annotations

from typing import Any

from ....futures import Future

__all__ = ["noop_hook"]


def noop_hook(_: Any, bucket: Any) -> Future:
    """Gradients stay in their process; the result is wrong."""
    future = Future()
    future.set_result(bucket.buffer())
    return future
