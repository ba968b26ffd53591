"""Calls to other processes, which are not implemented: `is_available()` is False."""

from __future__ import annotations

from typing import Any

__all__ = ["init_rpc", "is_available", "remote", "rpc_async", "rpc_sync", "shutdown"]


def is_available() -> bool:
    """Whether processes can call each other: no."""
    return False


def _refuse(*args: Any, **kwargs: Any) -> Any:
    """Not available: there are no other processes to call."""
    raise NotImplementedError(
        "torch.distributed.rpc is not implemented: there is one process; call the function itself"
    )


init_rpc = rpc_sync = rpc_async = remote = shutdown = _refuse
