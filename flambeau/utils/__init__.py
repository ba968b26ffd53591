"""Tools around tensors."""

from typing import Any

from . import dlpack as dlpack

_LATER = frozenset(
    (
        "benchmark",
        "checkpoint",
        "collect_env",
        "cpp_extension",
        "data",
        "flop_counter",
        "hooks",
        "model_zoo",
        "tensorboard",
    )
)


def __getattr__(name: str) -> Any:
    """Loads the larger parts at their first use."""
    if name in _LATER:
        import importlib

        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
