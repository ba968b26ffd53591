"""Mistakes in calls of operations among each other, which mypy finds by the stub of `ops`. It is checked, not run."""

from typing import Any

from flambeau._ops.registry import ops


def calls(x: Any) -> None:
    ops.sum(ops.tanh(ops.add(x, 2)), 0, keepdim=True)
    ops.summ(x)  # an operation that no family declares
    ops.sum(x, dims=1)  # an argument that it does not have
    ops.matmul(x)  # one too few
    ops.tanh(x, x)  # one too many
