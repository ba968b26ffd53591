"""Errors of TorchScript programs."""

from __future__ import annotations

from typing import Any

__all__ = ["JITException", "Problem"]


class JITException(RuntimeError):
    """An error that a TorchScript program raised."""

    original_msg: Any = ""
    python_class_name = ""


class Problem(RuntimeError):
    """Source that is not TorchScript."""
