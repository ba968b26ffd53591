"""Whether optional packages are there."""

from __future__ import annotations

import functools
import importlib.util
from types import ModuleType

__all__ = ["dill_available", "import_dill"]


def _check_module_exists(name: str) -> bool:
    """Whether a package could be imported, without importing it."""
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


@functools.lru_cache
def dill_available() -> bool:
    """Whether dill, a pickler of functions, is installed."""
    return _check_module_exists("dill")


@functools.lru_cache
def import_dill() -> ModuleType | None:
    """dill, or None where it is not installed. It does not take over the pickling of others."""
    if not dill_available():
        return None
    import dill

    dill.extend(use_dill=False)
    return dill
