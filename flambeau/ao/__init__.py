"""Architecture optimisation: quantization and pruning."""

from __future__ import annotations

from typing import Any

from .._core.submodules import submodule

__all__ = ["nn", "pruning", "quantization"]


def __getattr__(name: str) -> Any:
    return submodule(__name__, name)
