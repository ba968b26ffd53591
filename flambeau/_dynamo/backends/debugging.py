"""Backends that run graphs as they are, and what is said of graphs."""

from __future__ import annotations

from typing import Any

from .. import ExplainOutput, explain

__all__ = ["ExplainOutput", "eager", "eager_noexcept", "explain"]


def eager(gm: Any, fake_tensor_inputs: Any, **options: Any) -> Any:
    """The graph, operation by operation."""
    return gm.forward


eager_noexcept = eager
