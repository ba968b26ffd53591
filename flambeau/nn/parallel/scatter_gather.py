"""Batches cut into parts for several devices, and results joined again; nested containers keep their structure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._ops.registry import ops
from ..._tensor import Tensor

__all__ = ["gather", "scatter", "scatter_kwargs"]


def _same_kind(template: Any, values: Any) -> Any:
    """A list or tuple (also a named one) like another, with other values."""
    return type(template)(*values) if hasattr(template, "_fields") else type(template)(values)


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> list[Any]:
    """One part of the inputs for each device: tensors are cut along `dim`, other values are repeated."""
    count = len(target_gpus)
    if isinstance(inputs, Tensor):
        return [part.to(where) for part, where in zip(inputs.chunk(count, dim), target_gpus)]
    if isinstance(inputs, (list, tuple)) and inputs:
        return [_same_kind(inputs, part) for part in zip(*[scatter(x, target_gpus, dim) for x in inputs])]
    if isinstance(inputs, dict) and inputs:
        parts = zip(*[scatter(x, target_gpus, dim) for x in inputs.values()])
        return [type(inputs)(zip(inputs, part)) for part in parts]
    return [inputs for _ in target_gpus]


def scatter_kwargs(
    inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Parts of positional and keyword arguments, equally many of both."""
    parts = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    length = max(len(parts), len(named))
    parts += [() for _ in range(length - len(parts))]
    named += [{} for _ in range(length - len(named))]
    return tuple(parts), tuple(named)


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """The results of several devices joined along `dim`, on one device."""
    first = outputs[0]
    if isinstance(first, Tensor):
        moved = [t.to(target_device) for t in outputs]
        return ops.stack(moved) if first.ndim == 0 else ops.cat(moved, dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(first) != len(d) for d in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)((key, gather([d[key] for d in outputs], target_device, dim)) for key in first)
    return _same_kind(first, [gather(list(parts), target_device, dim) for parts in zip(*outputs)])
