"""Tools around tensors."""

from typing import Any

from . import dlpack as dlpack


def __getattr__(name: str) -> Any:
    """Loads the larger parts at their first use."""
    if name == "data":
        import importlib

        return importlib.import_module(".data", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
