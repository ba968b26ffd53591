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
        "deterministic",
        "flop_counter",
        "hooks",
        "model_zoo",
        "module_tracker",
        "tensorboard",
    )
)


def swap_tensors(t1: Any, t2: Any) -> None:
    """Exchanges what two tensor objects are; every reference to one then sees the other.

    >>> import flambeau as torch
    >>> a, b = torch.zeros(1), torch.ones(2)
    >>> torch.utils.swap_tensors(a, b); a
    tensor([1., 1.])
    """
    names = ("__class__", "__dict__", "dtype", "_array", "_autograd_meta", "_edge", "_k", "_storage", "_view")
    if t1._view is not None or t2._view is not None:
        raise RuntimeError("Cannot swap tensors that are views")
    first, second = ([getattr(t, name) for name in names] for t in (t1, t2))
    for t, values in ((t1, second), (t2, first)):
        for name, value in zip(names, values):
            setattr(t, name, value)


def __getattr__(name: str) -> Any:
    """Loads the larger parts at their first use."""
    if name in _LATER:
        import importlib

        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
