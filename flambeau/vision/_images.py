"""What the package knows of pillow without importing it: whether a value is one of its images, and where its modules are."""

from __future__ import annotations

import importlib
import sys
from typing import Any


def is_pil(value: Any) -> bool:
    """Whether a value is an image of pillow; nothing can be one while pillow is not loaded.

    >>> is_pil(3)
    False
    """
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(value, module.Image)


def pillow(part: str = "Image") -> Any:
    """A module of pillow, the library for image files."""
    try:
        return importlib.import_module(f"PIL.{part}")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"images need pillow, which is not installed ({error}): pip install pillow") from None
