"""Backends that tests of programs use: they count graphs or keep them, and run them as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._core.dtypes import float32
from .._ops.registry import ops
from .._tensor import Tensor
from .utils import same

__all__ = [
    "AotEagerAndRecordGraphs",
    "CompileCounter",
    "CompileCounterWithBackend",
    "EagerAndRecordGraphs",
    "rand_strided",
    "same",
]


class CompileCounter:
    """A backend that counts graphs (`frame_count`) and the calls in them (`op_count`).

    >>> import flambeau as torch
    >>> counter = torch._dynamo.testing.CompileCounter()
    >>> torch.compile(lambda x: x.sin() + 1, backend=counter)(torch.zeros(1))
    tensor([1.])
    >>> counter.frame_count, counter.op_count
    (1, 2)
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Counts from nothing again."""
        self.frame_count = self.op_count = 0
        self.graphs: list[Any] = []

    def __call__(self, gm: Any, example_inputs: Sequence[Tensor]) -> Callable[..., Any]:
        self.frame_count += 1
        self.op_count += sum(node.op.startswith("call_") for node in gm.graph.nodes)
        return gm.forward


class CompileCounterWithBackend(CompileCounter):
    """The same for a backend of a name; it keeps the graphs as well."""

    def __init__(self, backend: str):
        super().__init__()
        self.backend = backend

    def __call__(self, gm: Any, example_inputs: Sequence[Tensor]) -> Callable[..., Any]:
        from . import lookup_backend  # which needs this module first

        super().__call__(gm, example_inputs)
        self.graphs.append(gm)
        return lookup_backend(self.backend)(gm, example_inputs)


class EagerAndRecordGraphs(CompileCounterWithBackend):
    """A backend that keeps graphs and runs them as they are."""

    def __init__(self) -> None:
        super().__init__("eager")


AotEagerAndRecordGraphs = EagerAndRecordGraphs


def rand_strided(
    size: Sequence[int], stride: Sequence[int], dtype: Any = None, device: Any = "cpu", extra_size: int = 0
) -> Tensor:
    """Random elements with given sizes and strides: numbers of the normal distribution, or integers and booleans of 0 and 1."""
    dtype = float32 if dtype is None else dtype
    count = 1 + extra_size + sum((n - 1) * step for n, step in zip(size, stride)) if all(size) else extra_size
    if dtype.is_floating_point or dtype.is_complex:
        whole = ops.randn(count, dtype=dtype, device=device)
    else:
        whole = ops.randint(0, 2, (count,), dtype=dtype, device=device)
    return ops.as_strided(whole, tuple(size), tuple(stride))
