"""`SubgraphMatcher`: finds the places of a graph that look like a pattern."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from ...._tensor import Tensor
from ....nn.modules.module import Module
from ...graph import Graph
from ...graph_module import _get_attr, _has_attr
from ...node import Node

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """A place that was found: the pattern's results there, and the node (or value) for each node of the pattern."""

    anchors: list[Node]
    nodes_map: dict[Node, Node] = field(default_factory=dict)
    placeholder_nodes: list[Node] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        return InternalMatch(
            self.anchors, dict(self.nodes_map), list(self.placeholder_nodes), list(self.returning_nodes)
        )


class SubgraphMatcher:
    """Finds a pattern in graphs, from its results backwards.

    `match_output` finds it only at the end of a graph, and `match_placeholder` only where its inputs are those of the
    graph. A place counts only if nobody outside uses what is computed inside, the pattern's results excepted.
    Numbers and other constants have to be equal unless `ignore_literals`.

    >>> import flambeau as torch
    >>> from flambeau.fx.passes.utils.matcher_utils import SubgraphMatcher
    >>> graph = torch.fx.symbolic_trace(lambda x: torch.tanh(x).relu() + 1).graph
    >>> pattern = torch.fx.symbolic_trace(lambda x: torch.tanh(x).relu()).graph
    >>> [match.returning_nodes for match in SubgraphMatcher(pattern).match(graph)]
    [[relu]]
    """

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        if not len(pattern.nodes):
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        self.pattern = pattern
        self.match_output, self.match_placeholder = match_output, match_placeholder
        self.remove_overlapping_matches, self.ignore_literals = remove_overlapping_matches, ignore_literals
        for node in pattern.nodes:
            if node.op not in ("output", "placeholder") and not node.users:
                raise AssertionError("SubgraphMatcher cannot be initialized with an pattern with dead code")
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        output = pattern.output_node()
        self.pattern_returning_nodes: list[Node] = output.all_input_nodes
        # Results that others are computed from are found with those.
        self.pattern_anchors = (
            [output]
            if match_output
            else [n for n in self.pattern_returning_nodes if len(n.users) == 1 or set(n.users) == {output}]
        )

    # -- nodes ----------------------------------------------------------------------------------------------------

    def _match_attributes(self, pn: Node, gn: Node) -> bool:
        """Attributes are alike if both are tensors, or both modules."""
        theirs, ours = pn.graph.owning_module, gn.graph.owning_module
        if not _has_attr(theirs, pn.target) or not _has_attr(ours, gn.target):
            return False
        first, second = _get_attr(theirs, pn.target), _get_attr(ours, gn.target)
        return any(isinstance(first, kind) and isinstance(second, kind) for kind in (Tensor, Module))

    def _nodes_are_equal(self, pn: Node, gn: Node, node_name_match: str = "") -> bool:
        if node_name_match and node_name_match in gn.name:
            return True
        if not self.match_placeholder and pn.op == "placeholder":
            return True
        if pn.op != gn.op:
            return False
        if pn.op in ("placeholder", "output"):
            return True
        return self._match_attributes(pn, gn) if pn.op == "get_attr" else pn.target == gn.target

    def _match_literals(self, pn: Any, gn: Any, match: InternalMatch) -> bool:
        if isinstance(pn, Node) and isinstance(gn, Node):
            raise AssertionError("pn and gn cannot both be Node")
        if isinstance(pn, Node):
            if pn.op != "placeholder":
                return False
            if pn in match.nodes_map:
                return bool(match.nodes_map[pn] == gn)
            match.nodes_map[pn] = gn
            return True
        return not isinstance(gn, Node) and (self.ignore_literals or (type(gn) is type(pn) and bool(gn == pn)))

    def _match_nodes(self, pn: Node, gn: Node, match: InternalMatch, node_name_match: str = "") -> bool:
        """Whether a node, and all that it is computed from, looks like one of the pattern; notes what stands for what."""
        if pn in match.nodes_map:
            return match.nodes_map[pn] is gn
        if any(n is gn for n in match.nodes_map.values()) or not self._nodes_are_equal(pn, gn, node_name_match):
            return False
        before = copy.copy(match)
        match.nodes_map[pn] = gn
        if pn.op == "placeholder":
            return True
        given: Any = ((pn.args, dict(pn.kwargs)), (gn.args, dict(gn.kwargs)))
        if len(pn.args) != len(gn.args) or set(pn.kwargs) != set(gn.kwargs):  # defaults may stand there or not
            given = _with_defaults(pn) or given[0], _with_defaults(gn) or given[1]
        alike = self._match_arguments(*given, match)
        if not alike:
            match.nodes_map = before.nodes_map
        return alike

    def _match_arguments(self, p: Any, g: Any, match: InternalMatch) -> bool:
        if isinstance(p, Node) and isinstance(g, Node):
            return self._match_nodes(p, g, match)
        if isinstance(p, (list, tuple)) and isinstance(g, (list, tuple)):
            return len(p) == len(g) and all(self._match_arguments(a, b, match) for a, b in zip(p, g))
        if isinstance(p, dict) and isinstance(g, dict):
            return p.keys() == g.keys() and all(self._match_arguments(p[k], g[k], match) for k in p)
        if isinstance(p, slice) and isinstance(g, slice):
            return self._match_arguments((p.start, p.stop, p.step), (g.start, g.stop, g.step), match)
        return self._match_literals(p, g, match)

    def _is_contained(self, nodes_map: dict[Node, Node]) -> bool:
        """Whether nobody outside uses what is computed inside."""
        inside = {gn: pn for pn, gn in nodes_map.items() if isinstance(gn, Node) and pn.op != "placeholder"}
        return all(
            pn in self.pattern_returning_nodes or pn.op == "get_attr" or all(user in inside for user in gn.users)
            for gn, pn in inside.items()
        )

    # -- graphs ---------------------------------------------------------------------------------------------------

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """All places of a graph that look like the pattern."""
        candidates = [
            [n for n in graph.nodes if self._nodes_are_equal(anchor, n, node_name_match)]
            for anchor in self.pattern_anchors
        ]
        if not candidates or not all(candidates):
            return []
        found: list[InternalMatch] = []

        def extend(match: InternalMatch, i: int) -> None:
            if i == len(candidates):
                match.anchors = [match.nodes_map[pn] for pn in self.pattern_anchors]
                found.append(match)
                return
            for gn in candidates[i]:
                tried = copy.copy(match)
                if self._match_nodes(self.pattern_anchors[i], gn, tried, node_name_match):
                    extend(tried, i + 1)

        extend(InternalMatch(self.pattern_anchors), 0)
        complete = []
        for match in found:
            if any(pn not in match.nodes_map for pn in self.pattern_returning_nodes) or not self._is_contained(
                match.nodes_map
            ):
                continue
            match.placeholder_nodes = [
                match.nodes_map[pn] for pn in self.pattern_placeholder_nodes if pn in match.nodes_map
            ]
            match.returning_nodes = [match.nodes_map[pn] for pn in self.pattern_returning_nodes]
            complete.append(match)
        return self._remove_overlapping_matches(complete) if self.remove_overlapping_matches else complete

    def _remove_overlapping_matches(self, matches: list[InternalMatch]) -> list[InternalMatch]:
        taken: set[Node] = set()
        kept = []
        for match in matches:
            inside = {gn for pn, gn in match.nodes_map.items() if pn.op not in ("placeholder", "output")}
            if taken.isdisjoint(inside):
                taken |= inside
                kept.append(match)
        return kept


def _with_defaults(node: Node) -> list[Any] | None:
    """All arguments of an operator in the order of its schema, defaults included."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return None
    values = []
    for i, argument in enumerate(schema.arguments):
        if i < len(node.args) and not argument.kwarg_only:
            values.append(node.args[i])
        else:
            values.append(node.kwargs.get(argument.name, argument.default_value))
    return values
