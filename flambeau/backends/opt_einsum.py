"""The switch of `einsum` for the order of contraction; our `einsum` chooses an order itself."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from ._flags import a_bool, for_a_while, set_all, switch, with_switches


def is_available() -> bool:
    """False: the opt_einsum package is not used."""
    return False


def get_opt_einsum() -> Any:
    """None: the opt_einsum package is not used."""
    return None


def _a_strategy(name: str, value: Any) -> Any:
    """Any name is taken, as PyTorch does: the package has more of them with every release."""
    return value


def set_flags(_enabled: bool | None = None, _strategy: str | None = None) -> tuple[Any, ...]:
    """Sets the switches and gives their earlier values."""
    return set_all(__name__, {"enabled": _enabled, "strategy": _strategy})


def flags(enabled: bool | None = None, strategy: str | None = None) -> AbstractContextManager[None]:
    """Sets the switches inside a `with` block."""
    wanted = {"enabled": enabled, "strategy": strategy}
    return for_a_while(__name__, {name: value for name, value in wanted.items() if value is not None})


with_switches(
    __name__, enabled=switch("enabled", False, a_bool), strategy=switch("strategy", None, _a_strategy)
)  # fmt: skip
