"""Names of PyTorch's compiler that programs touch. Programs run eagerly, so that these are switches without effect."""

from __future__ import annotations

from typing import Any

from ..compiler import cudagraph_mark_step_begin
from . import config

__all__ = ["compile", "config", "cudagraph_mark_step_begin", "list_mode_options", "list_options"]


def compile(gm: Any, example_inputs: Any, options: dict[str, Any] | None = None) -> Any:
    """A graph module as a function; the module itself."""
    return gm


def list_options() -> list[str]:
    """The names of the switches."""
    return sorted(name for name in vars(config) if not name.startswith("_"))


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """The switches that a mode of `torch.compile` sets: none."""
    return {}
