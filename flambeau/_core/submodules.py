"""Parts of packages that are loaded when a program first names them."""

from __future__ import annotations

import importlib
from types import ModuleType


def submodule(package: str, name: str) -> ModuleType:
    """What a package's `__getattr__` gives: PyTorch has most of its modules loaded from the start, so that programs name them
    (`torch.utils._pytree.tree_map`) without an import of their own."""
    whole = f"{package}.{name}"
    try:
        return importlib.import_module(whole)
    except ModuleNotFoundError as error:
        if error.name != whole:
            raise  # it is there, but what it needs is not
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
