"""Rows of the exporter's table as functions of the graph that custom forms get."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..jit._tracer import Node, Value
from ._table import row_of


def forms(opset: int) -> Callable[[str], Any]:
    """The attributes of a module `symbolic_opsetN`: the operators by name."""

    def find(name: str) -> Any:
        row = row_of(name)
        if row is None or name.startswith("__"):
            raise AttributeError(f"there is no form of {name!r} for opset {opset}")

        def form(g: Any, *args: Any, **named: Any) -> Any:
            from .symbolic_helper import GraphValue

            given = [a.argument if isinstance(a, GraphValue) else a for a in args]
            first = next((a for a in given if isinstance(a, Value)), None)
            made = row(
                g.builder,
                Node(name, given, [Value("Tensor", first.example if first else None)], named=named),
                *given,
                **named,
            )
            if isinstance(made, (list, tuple)):
                return [GraphValue(g.builder, None, m) for m in made]
            return GraphValue(g.builder, None, made)

        form.__name__ = name
        return form

    return find
