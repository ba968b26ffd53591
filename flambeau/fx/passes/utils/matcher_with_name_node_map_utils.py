"""A matcher whose pattern names nodes, which then are found by those names."""

from __future__ import annotations

from typing import Any

from ...graph import Graph
from ...graph_module import GraphModule
from ...node import Node
from .matcher_utils import InternalMatch, SubgraphMatcher

__all__ = ["SubgraphMatcherWithNameNodeMap"]


def _split_to_graph_and_name_node_map(gm: GraphModule) -> tuple[GraphModule, dict[str, Node]]:
    """A pattern without the dictionary that it gives last, and the nodes in that dictionary by name."""
    from ....utils import _pytree as pytree  # graphs of plain functions have no trees

    output = gm.graph.output_node()
    names: dict[str, Node] = {}
    given: Any = output.args[0]
    spec = getattr(gm, "_out_spec", None)
    if spec is not None:
        *kept, names = pytree.tree_unflatten(list(given), spec)
        flat, new_spec = pytree.tree_flatten(tuple(kept))
        gm._out_spec = new_spec
        info = gm.graph._codegen.pytree_info  # type: ignore[attr-defined]
        gm.graph._codegen.pytree_info = info._replace(out_spec=new_spec)  # type: ignore[attr-defined]
        output.args = (tuple(flat),)
    else:
        *kept, names = given
        output.args = (tuple(kept),)
    if not isinstance(names, dict):
        raise AssertionError(f"the pattern has to give a dictionary of its nodes last, not {names}")
    gm.recompile()
    return gm, dict(names)


class SubgraphMatcherWithNameNodeMap(SubgraphMatcher):
    """A `SubgraphMatcher` for a pattern that gives a dictionary last: what it names is in the `name_node_map` of a match."""

    def __init__(
        self,
        pattern_gm: GraphModule,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        pattern_gm, names = _split_to_graph_and_name_node_map(pattern_gm)
        self.name_node_map = names
        super().__init__(pattern_gm.graph, match_output, match_placeholder, remove_overlapping_matches, ignore_literals)

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """All places that look like the pattern, each with its named nodes."""
        found = super().match(graph, node_name_match)
        for match in found:
            match.name_node_map = {name: match.nodes_map[node] for name, node in self.name_node_map.items()}
        return found
