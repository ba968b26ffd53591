"""How ONNX operators are run: a function for each, which `operator` registers where it is defined.

Sizes are computed with NumPy's arrays (`on_sizes`), so that programs over shapes are no programs over tensors: compilation and
traces see plain numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..errors import OnnxModelError

Form = Callable[..., Any]


class Operator(NamedTuple):
    """A function (node, inputs…) -> result or tuple of results. `lists` are inputs that it takes as lists of numbers, `fixed`
    those that training does not change, `raw` says that it takes sizes as they are."""

    run: Form
    lists: tuple[int, ...]
    fixed: tuple[int, ...]
    raw: bool


OPERATORS: dict[tuple[str, str], Operator] = {}  # (domain, name)
SIZES: dict[str, Form] = {}  # forms for operands that are all sizes


def operator(
    *names: str, lists: tuple[int, ...] = (), fixed: tuple[int, ...] = (), raw: bool = False, domain: str = ""
) -> Callable[[Form], Form]:
    """Registers how operators are run."""

    def decorate(function: Form) -> Form:
        for name in names:
            OPERATORS[domain, name] = Operator(function, lists, fixed, raw)
        return function

    return decorate


def on_sizes(*names: str) -> Callable[[Form], Form]:
    """Registers how operators are computed on sizes: arrays of numbers. NotImplemented leaves it to the form for tensors."""

    def decorate(function: Form) -> Form:
        SIZES.update(dict.fromkeys(names, function))
        return function

    return decorate


class Node:
    """A node of a graph: what is computed, from which values, with which attributes."""

    def __init__(self, kind: str, domain: str, name: str, opset: int, inputs: list[str], outputs: list[str]):
        self.kind, self.domain, self.name, self.opset = kind, domain, name, opset
        self.inputs, self.outputs = inputs, outputs
        self.attributes: dict[str, Any] = {}
        self.drops: list[str] = []  # values that nobody needs after this node

    def __str__(self) -> str:
        return f"the node {self.name!r} ({self.kind})" if self.name else f"a node {self.kind} that gives {self.outputs}"

    # -- attributes of a type ----------------------------------------------------------------------------------------

    def _get(self, name: str, kinds: Any, default: Any) -> Any:
        found = self.attributes.get(name, default)
        if found is not default and not isinstance(found, kinds):
            raise OnnxModelError(f"the attribute {name!r} is a {type(found).__name__}")
        return found

    def int(self, name: str, default: Any = None) -> Any:
        return self._get(name, int, default)

    def flag(self, name: str, default: bool = False) -> bool:
        return bool(self._get(name, int, default))

    def float(self, name: str, default: Any = None) -> Any:
        return self._get(name, (float, int), default)

    def text(self, name: str, default: Any = None) -> Any:
        return self._get(name, str, default)

    def list(self, name: str, default: Any = None) -> Any:
        return self._get(name, list, default)

    def get(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)


def axis_of(axis: Any, rank: int) -> int:
    """An axis counted from the front."""
    if not -rank <= axis < max(rank, 1):
        raise OnnxModelError(f"the axis {axis} is outside of a tensor with {rank} dimensions")
    return int(axis) % max(rank, 1)


def array_of(values: Any) -> np.ndarray[Any, Any]:
    """Sizes as an array; those that a trace or an export follows stay what they are."""
    plain = all(type(v) is int for v in values)
    made = np.empty(len(values), np.int64 if plain else object)
    made[:] = values
    return made
