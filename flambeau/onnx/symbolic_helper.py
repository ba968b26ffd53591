"""What functions that give operators a form in ONNX are written with: `parse_args`, and the graph that they get."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .._tensor import Tensor
from ..jit._tracer import Value
from .errors import SymbolicValueError

__all__ = ["GraphContext", "GraphValue", "parse_args"]


class GraphValue:
    """An argument of an operator: a value of the graph or a constant."""

    def __init__(self, builder: Any, argument: Any, name: str | None = None):
        self.builder, self.argument, self._name = builder, argument, name

    @property
    def name(self) -> str:
        """The value's name in the graph; a constant is put into it now."""
        if self._name is None:
            plain = isinstance(self.argument, Value) or self.argument is None
            kind = np.float32 if isinstance(self.argument, float) else np.int64
            self._name = self.builder.t(self.argument) if plain else self.builder.constant(self.argument, kind)
        return self._name

    def debugName(self) -> str:
        return self.name

    def type(self) -> Any:
        return self

    def dim(self) -> int | None:
        return len(self.argument.example.shape) if isinstance(self.argument, Value) else None

    def sizes(self) -> Any:
        return list(self.argument.example.shape) if isinstance(self.argument, Value) else None


class GraphContext:
    """The graph: `g.op("Relu", x, alpha_f=1.0)` adds a node. Attributes end with the letter of their type."""

    def __init__(self, builder: Any):
        self.builder, self.opset = builder, builder.opset

    def op(self, opname: str, *raw_args: Any, outputs: int = 1, **kwargs: Any) -> Any:
        """Adds a node; "domain::Name" for other domains."""
        domain, _, name = opname.rpartition("::")
        attributes = {key.rpartition("_")[0]: self._attribute(value) for key, value in kwargs.items()}
        if name == "Constant" and "value" in attributes:
            return GraphValue(self.builder, None, self.builder.constant(attributes["value"], None))
        inputs = [a.name if isinstance(a, GraphValue) else GraphValue(self.builder, a).name for a in raw_args]
        made = self.builder.add(
            name, *inputs, outputs=outputs, domain="" if domain in ("", "onnx") else domain, **attributes
        )
        if outputs == 1:
            return GraphValue(self.builder, None, made)
        return [GraphValue(self.builder, None, m) for m in made]

    @staticmethod
    def _attribute(value: Any) -> Any:
        return value.detach().cpu().numpy() if isinstance(value, Tensor) else value


def _parsed(value: Any, kind: str, name: str) -> Any:
    if kind in ("v", "none"):
        return value
    inner = value.argument if isinstance(value, GraphValue) else value
    if inner is None:
        return None
    if isinstance(inner, Value):
        if isinstance(inner.example, Tensor) and inner.name.startswith("CONSTANTS."):
            inner = inner.example.tolist()
        else:
            raise SymbolicValueError(f"the argument {name!r} must be a constant")
    makers: dict[str, Callable[[Any], Any]] = {
        "i": int, "f": float, "b": bool, "s": str, "is": lambda v: [int(x) for x in v], "fs": lambda v: [float(x) for x in v],
        "t": lambda v: v,
    }  # fmt: skip
    return makers[kind](inner)


def parse_args(*arg_descriptors: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Says what the arguments of an operator are: "v" a value, "i" an integer, "f" a number, "is" integers, "s" text.

    >>> from flambeau.onnx.symbolic_helper import parse_args
    >>> @parse_args("v", "i")
    ... def shifted(g, x, amount):
    ...     return g.op("Add", x, amount)
    >>> shifted.__name__
    'shifted'
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(g: Any, *args: Any, **kwargs: Any) -> Any:
            if len(args) > len(arg_descriptors):
                raise ValueError(f"{function.__name__} takes {len(arg_descriptors)} arguments, not {len(args)}")
            values = [_parsed(a, kind, str(i)) for i, (a, kind) in enumerate(zip(args, arg_descriptors))]
            return function(g, *values, **kwargs)

        return wrapper

    return decorate


def _get_tensor_rank(x: Any) -> int | None:
    return x.dim()


def _get_tensor_sizes(x: Any, allow_nonstatic: bool = True) -> Any:
    return x.sizes()


def _get_tensor_dim_size(x: Any, dim: int) -> Any:
    sizes = x.sizes()
    return None if sizes is None else sizes[dim]


def _is_value(x: Any) -> bool:
    return isinstance(x, GraphValue)


def _is_constant(value: Any) -> bool:
    return not isinstance(value, GraphValue) or not isinstance(value.argument, Value)


def _maybe_get_const(value: Any, descriptor: str) -> Any:
    return _parsed(value, descriptor, "") if _is_constant(value) else value


def _get_const(value: Any, descriptor: str, arg_name: str) -> Any:
    return _parsed(value, descriptor, arg_name)


def _unimplemented(op: str, msg: str, value: Any = None) -> None:
    raise SymbolicValueError(f"ONNX export of {op} failed: {msg}", value)


def _unsqueeze_helper(g: Any, input: Any, axes_i: list[int]) -> Any:
    return GraphValue(g.builder, None, g.builder.unsqueeze(input.name, axes_i))


def _squeeze_helper(g: Any, input: Any, axes_i: list[int]) -> Any:
    return GraphValue(g.builder, None, g.builder.squeeze(input.name, axes_i))
