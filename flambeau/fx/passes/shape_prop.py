"""Shapes, dtypes and strides of all values of a graph, found by running it once."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..._core.layouts import channels_last, channels_last_3d, contiguous_format
from ..._tensor import Tensor
from ..graph_module import GraphModule
from ..interpreter import Interpreter
from ..node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What is known of a value that is a tensor."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    layout = None
    if include_contiguity:
        for candidate in (contiguous_format, channels_last, channels_last_3d):
            if result.dim() < {channels_last: 4, channels_last_3d: 5}.get(candidate, 0):
                continue
            if result.is_contiguous(memory_format=candidate):
                layout = candidate
                break
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, result.stride(), layout, False, {})


class ShapeProp(Interpreter):
    """Runs a graph and writes `node.meta["tensor_meta"]` and `node.meta["type"]`.

    >>> import flambeau as torch
    >>> from flambeau.fx.passes.shape_prop import ShapeProp
    >>> module = torch.fx.symbolic_trace(torch.nn.Linear(3, 2))
    >>> out = ShapeProp(module).propagate(torch.ones(5, 3))
    >>> [tuple(node.meta["tensor_meta"].shape) for node in module.graph.nodes]
    [(5, 3), (2, 3), (2,), (5, 2), (5, 2)]
    """

    def __init__(self, gm: GraphModule, fake_mode: Any = None) -> None:
        super().__init__(gm)

    def run_node(self, n: Node) -> Any:
        """Runs a node and notes what came out."""
        result = super().run_node(n)
        found = []

        def note(a: Any) -> Any:
            if isinstance(a, Tensor):
                found.append(a)
                return _extract_tensor_metadata(a)
            return a

        meta = map_aggregate(result, note)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Runs the graph on example inputs; gives its result."""
        return self.run(*args)
