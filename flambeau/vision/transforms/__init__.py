"""Transforms of images: classes here, functions in `functional`, the second generation in `v2`."""

# ruff: noqa: F403 (each module says in `__all__` what is public)

from __future__ import annotations

import importlib
from types import ModuleType

from . import functional as functional
from .autoaugment import *
from .transforms import *


def __getattr__(name: str) -> ModuleType:
    if name != "v2":  # loaded when first named
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(".v2", __name__)
