"""Several modules called with their own inputs; kernels on different GPUs overlap, since launches do not wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..modules.module import Module

__all__ = ["parallel_apply"]


def parallel_apply(
    modules: Sequence[Module], inputs: Sequence[Any], kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:  # fmt: skip
    """The result of each module on its input."""
    if len(modules) != len(inputs):
        raise AssertionError(f"The number of modules {len(modules)} is not equal to the number of inputs {len(inputs)}")
    named = [{} for _ in modules] if kwargs_tup is None else kwargs_tup
    given = [x if isinstance(x, (list, tuple)) else (x,) for x in inputs]
    return [module(*args, **kwargs) for module, args, kwargs in zip(modules, given, named)]
