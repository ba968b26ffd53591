"""Tracing by running: whether such a trace is under way. flambeau traces with `symbolic_trace` only."""

from __future__ import annotations

from typing import Any

__all__ = ["get_proxy_mode"]


def get_proxy_mode() -> Any:
    """The mode that is recording operations now: None, as there is none."""
    return None
