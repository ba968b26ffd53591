"""MKL, which is not used: NumPy's BLAS multiplies matrices."""

from __future__ import annotations

from typing import Any

VERBOSE_OFF, VERBOSE_ON = 0, 1


def is_available() -> bool:
    """False."""
    return False


class verbose:
    """Would print what MKL does; there is nothing to print."""

    def __init__(self, enable: int):
        self.enable = enable

    def __enter__(self) -> verbose:
        return self

    def __exit__(self, *error: Any) -> None:
        pass
