"""A part of a graph as a module, and whether two graphs are alike."""

from __future__ import annotations

from typing import Any

from ....nn.modules.module import Module
from ...graph import Graph
from ...graph_module import GraphModule, _assign_attr, _get_attr
from .matcher_utils import SubgraphMatcher

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]


class HolderModule(Module):
    """A module of given submodules and nothing else."""

    def __init__(self, d: dict[str, Any]) -> None:
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


def lift_subgraph_as_module(
    gm: GraphModule, subgraph: Graph, comp_name: str = "", class_name: str = "GraphModule"
) -> tuple[GraphModule, dict[str, str]]:
    """A module of a graph whose modules and attributes are those of `gm`, and their names in `gm` by new ones."""
    holder = HolderModule({})
    names: dict[str, str] = {}
    for node in subgraph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        target = str(node.target)
        found: Any = _get_attr(gm, target)
        _assign_attr(found, holder, target)
        names[f"{comp_name}.{target}"] = target
    return GraphModule(holder, subgraph, class_name), names


def compare_graphs(left: Graph, right: Graph) -> bool:
    """Whether two graphs compute the same by the same calls.

    >>> import flambeau as torch
    >>> first, second = (torch.fx.symbolic_trace(f).graph for f in (lambda x: x.relu(), lambda y: y.relu()))
    >>> compare_graphs(first, second)
    True
    """
    return len(SubgraphMatcher(left, match_output=True, match_placeholder=True).match(right)) > 0
