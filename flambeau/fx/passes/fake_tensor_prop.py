"""Fake tensors for all values of a graph: shapes, dtypes and devices without memory."""

from __future__ import annotations

from typing import Any

from ..._subclasses.fake_tensor import FakeTensorMode
from ..._tensor import Tensor
from ..graph_module import GraphModule
from ..interpreter import Interpreter
from ..node import Node, map_aggregate

__all__ = ["FakeTensorProp"]


class FakeTensorProp(Interpreter):
    """Runs a graph with fake tensors and writes what comes out to `node.meta["val"]`.

    >>> import flambeau as torch
    >>> from flambeau.fx.passes.fake_tensor_prop import FakeTensorProp
    >>> module = torch.fx.symbolic_trace(lambda x: x @ x.T)
    >>> out = FakeTensorProp(module).propagate(torch.ones(3, 2))
    >>> [tuple(node.meta["val"].shape) for node in module.graph.nodes if node.op != "output"]
    [(3, 2), (2, 3), (3, 3)]
    """

    def __init__(self, module: GraphModule, mode: FakeTensorMode | None = None) -> None:
        super().__init__(module)
        self._mode = FakeTensorMode() if mode is None else mode

    def run_node(self, n: Node) -> Any:
        """Runs a node and notes what came out."""
        result = super().run_node(n)
        values: list[Any] = []

        def note(value: Any) -> Any:
            values.append(value)
            return value.detach() if isinstance(value, Tensor) else value

        noted = map_aggregate(result, note)
        if any(isinstance(v, (Tensor, int, float, bool)) for v in values):
            n.meta["val"] = noted
        return result

    def propagate(self, *args: Any) -> Any:
        """Runs the graph on example inputs, of which only the shapes matter; gives its result."""
        return self.propagate_dont_convert_inputs(
            *(self._mode.from_tensor(a) if isinstance(a, Tensor) else a for a in args)
        )

    def propagate_dont_convert_inputs(self, *args: Any) -> Any:
        """The same for inputs that are fake already."""
        with self._mode:
            return self.run(*args)
