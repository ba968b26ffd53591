"""Architecture optimisation: quantization and pruning."""

from __future__ import annotations

from typing import Any

__all__ = ["nn", "pruning", "quantization"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        import importlib

        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
