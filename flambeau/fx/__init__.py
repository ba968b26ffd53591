"""Programs as graphs: tracing, changing and running them (`symbolic_trace`, `Graph`, `GraphModule`, `Interpreter`)."""

from .._core.submodules import submodule
from ._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from .graph import CodeGen, Graph
from .graph_module import GraphModule
from .immutable_collections import immutable_dict, immutable_list
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_arg
from .proxy import Proxy
from .subgraph_rewriter import replace_pattern

__all__ = [
    "PH", "CodeGen", "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "ProxyableClassMeta", "Tracer", "Transformer",
    "has_side_effect", "immutable_dict", "immutable_list", "map_arg", "replace_pattern", "symbolic_trace", "wrap",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Loads parts at their first use."""
    return submodule(__name__, name)
