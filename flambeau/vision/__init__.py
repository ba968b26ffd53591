"""Images: datasets, transforms, models and operations, with torchvision's names. Each part is loaded when first named."""

from __future__ import annotations

import importlib
from types import ModuleType

from .version import __version__ as __version__

_PARTS = ("datasets", "io", "models", "ops", "transforms", "tv_tensors", "utils")
_image_backend = "PIL"


def set_image_backend(backend: str) -> None:
    """Names the library that loads images; only "PIL" is there."""
    if backend != "PIL":
        raise ValueError(f"Invalid backend '{backend}'. Options are 'PIL'")


def get_image_backend() -> str:
    """The library that loads images.

    >>> get_image_backend()
    'PIL'
    """
    return _image_backend


def disable_beta_transforms_warning() -> None:
    """Does nothing: no transform warns of being new. Programs written for older versions call it."""


def __getattr__(name: str) -> ModuleType:
    if name not in _PARTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module("." + name, __name__)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PARTS})
