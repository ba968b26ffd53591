"""Switches of oneDNN, which is not used here; they are kept and can be read."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from ._flags import Precision, a_bool, a_precision, anything, for_a_while, set_all, switch, with_switches

VERBOSE_OFF, VERBOSE_ON, VERBOSE_ON_CREATION = 0, 1, 2
matmul, conv, rnn = Precision(), Precision(), Precision()


def is_available() -> bool:
    """False: kernels are our own."""
    return False


def is_acl_available() -> bool:
    """False."""
    return False


class verbose:
    """Would print what oneDNN does; there is nothing to print."""

    def __init__(self, level: int):
        self.level = level

    def __enter__(self) -> verbose:
        return self

    def __exit__(self, *error: Any) -> None:
        pass


def set_flags(
    _enabled: bool | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str | None = None,
) -> tuple[Any, ...]:
    """Sets several switches and gives their earlier values."""
    return set_all(
        __name__,
        {
            "enabled": _enabled, "deterministic": _deterministic, "allow_tf32": _allow_tf32,
            "fp32_precision": _fp32_precision,
        },
    )  # fmt: skip


def flags(
    enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True, fp32_precision: str = "none"
) -> AbstractContextManager[None]:
    """Sets the switches inside a `with` block."""
    wanted = {
        "enabled": enabled,
        "deterministic": deterministic,
        "allow_tf32": allow_tf32,
        "fp32_precision": fp32_precision,
    }
    return for_a_while(__name__, wanted)


with_switches(
    __name__, enabled=switch("enabled", True, a_bool), deterministic=switch("deterministic", False, a_bool),
    allow_tf32=switch("allow_tf32", None, anything), fp32_precision=switch("fp32_precision", "none", a_precision),
)  # fmt: skip
