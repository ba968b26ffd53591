"""PyTorch's private home of `torch.func`; the names of it that programs import."""

import importlib
from typing import Any

from .. import func as func  # which imports parts of this package: it comes first

_MODULES = (
    "aot_autograd",
    "apis",
    "autograd_function",
    "config",
    "eager_transforms",
    "make_functional",
    "partitioners",
    "utils",
    "vmap",
)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")
