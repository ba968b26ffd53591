"""Questions about PyTorch's graph capture; nothing is captured with tensors that have no data here."""

from __future__ import annotations

from typing import Any


def active_fake_mode() -> None:
    """The mode in which tensors have no data: none."""


def detect_fake_mode(inputs: Any = None) -> None:
    """The mode that made tensors without data: none."""
