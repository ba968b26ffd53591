"""Other targets for nodes, and how much memory nodes need."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..graph_module import GraphModule
from ..node import Node
from .shape_prop import ShapeProp, TensorMetadata

__all__ = ["get_size_of_all_nodes", "get_size_of_node", "get_tensor_meta", "replace_target_nodes_with", "size_bytes"]


class size_bytes(NamedTuple):
    """Bytes of what a node gives, and of that with its weights."""

    output_size: int
    total_size: int


def replace_target_nodes_with(
    fx_module: GraphModule, old_op: str, old_target: Any, new_op: str, new_target: Any
) -> None:
    """Lets all nodes of one kind and target have another kind and target. `recompile` makes the code of it."""
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            node.op, node.target = new_op, new_target


def get_size_of_all_nodes(fx_module: GraphModule, args: Any = None) -> None:
    """Writes `node.size_bytes` of all nodes; runs the module on `args` first if these are given."""
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        node.size_bytes = get_size_of_node(fx_module, node)


def get_tensor_meta(node: Node) -> Any:
    """What `ShapeProp` has noted of a node."""
    found = node.meta.get("tensor_meta")
    if not found:
        raise RuntimeError(
            f"Node {node} has no tensor metadata associated with it! Check that shape propagation has run."
        )
    return found


def get_size_of_node(fx_module: GraphModule, node: Node) -> size_bytes:
    """The bytes of a node's result, and with the weights of the module that it calls."""

    def size(found: Any) -> int:
        if isinstance(found, TensorMetadata):
            return found.shape.numel() * found.dtype.itemsize
        return sum(map(size, found)) if isinstance(found, (tuple, list)) else 0

    output = size(get_tensor_meta(node))
    weights = 0
    if node.op == "call_module":
        weights = sum(
            p.numel() * p.element_size() for p in dict(fx_module.named_modules())[str(node.target)].parameters()
        )
    return size_bytes(output, output + weights)
