"""Several modules called with their own inputs; kernels on different GPUs overlap, since launches do not wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._tensor import Tensor
from ..modules.module import Module

__all__ = ["get_a_var", "parallel_apply"]


def get_a_var(obj: Any) -> Tensor | None:
    """The first tensor in nested lists, tuples and dicts; programs ask it for its device."""
    if isinstance(obj, Tensor):
        return obj
    parts = obj.items() if isinstance(obj, dict) else obj if isinstance(obj, (list, tuple)) else ()
    return next((found for found in map(get_a_var, parts) if found is not None), None)


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
