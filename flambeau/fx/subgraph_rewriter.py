"""`replace_pattern`: finds a pattern in a graph and puts other nodes in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..nn.modules.module import Module
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule, _assign_attr, _copy_attr, _get_attr, _has_attr
from .node import Node, map_arg

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """Where a pattern was found: the node of its result, and the node for each node of the pattern."""

    anchor: Node
    nodes_map: dict[Node, Node]


class ReplacedPatterns(NamedTuple):
    """A match and the nodes that stand there now."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


class _Matcher:
    """Matches a pattern's graph against nodes of another graph, from the results backwards."""

    def __init__(self, pattern: Graph, ignore_literals: bool = False):
        self.pattern, self.ignore_literals = pattern, ignore_literals
        self.inputs = [n for n in pattern.nodes if n.op == "placeholder"]
        output = pattern.output_node()
        self.results = output.all_input_nodes
        # Results that other results are computed from follow from those.
        inner = {n for r in self.results for n in _above(r)}
        self.anchors = [r for r in self.results if r not in inner] or self.results

    def find(self, graph: Graph) -> list[dict[Node, Node]]:
        """All matches that do not overlap, in the order of the graph."""
        if not self.anchors or any(a.op == "placeholder" for a in self.anchors):
            return []
        found, taken = [], set()
        for candidates in self._candidates(graph):
            mapping: dict[Node, Node] = {}
            if not all(self._match(p, c, mapping) for p, c in zip(self.anchors, candidates)):
                continue
            inside = [c for p, c in mapping.items() if p.op != "placeholder"]
            if taken.isdisjoint(inside) and self._closed(mapping):
                taken.update(inside)
                found.append(mapping)
        return found

    def _candidates(self, graph: Graph) -> Any:
        choices = [[n for n in graph.nodes if self._alike(a, n)] for a in self.anchors]
        if len(choices) == 1:
            return ([n] for n in choices[0])
        return _pairings(choices)

    @staticmethod
    def _alike(p: Node, n: Node) -> bool:
        return p.op == n.op and (p.op in ("get_attr", "call_module") or p.target == n.target)

    def _match(self, p: Any, n: Any, mapping: dict[Node, Node]) -> bool:
        if not isinstance(p, Node):
            return not isinstance(n, Node) and (self.ignore_literals or _same(p, n))
        if p.op == "placeholder":
            if isinstance(n, Node) or self.ignore_literals:
                return mapping.setdefault(p, n) is n
            return not isinstance(n, Node) and mapping.setdefault(p, n) == n
        if not isinstance(n, Node):
            return False
        if p in mapping:
            return mapping[p] is n
        if n in mapping.values() or not self._alike(p, n) or not self._same_owner(p, n):
            return False
        mapping[p] = n
        first, second = _flat(p), _flat(n)
        if (
            first is None
            or len(first) != len(second)
            or not all(self._match(a, b, mapping) for a, b in zip(first, second))
        ):
            del mapping[p]
            return False
        return True

    def _same_owner(self, p: Node, n: Node) -> bool:
        """Modules must be of one class, and attributes of one kind."""
        if p.op not in ("call_module", "get_attr"):
            return True
        ours, theirs = self.pattern.owning_module, n.graph.owning_module
        if ours is None or theirs is None:
            return bool(p.target == n.target)
        return type(_get_attr(ours, p.target)) is type(_get_attr(theirs, n.target))

    def _closed(self, mapping: dict[Node, Node]) -> bool:
        """Whether nobody outside uses what is computed inside, results excepted."""
        inside = {c for p, c in mapping.items() if p.op not in ("placeholder", "get_attr")}
        for p, n in mapping.items():
            if p.op in ("placeholder", "get_attr") or p in self.results:
                continue
            if any(user not in inside for user in n.users):
                return False
        return True


def _above(node: Node) -> set[Node]:
    """All nodes that a node is computed from."""
    found: set[Node] = set()
    todo = node.all_input_nodes
    while todo:
        n = todo.pop()
        if n not in found:
            found.add(n)
            todo += n.all_input_nodes
    return found


def _pairings(choices: list[list[Node]]) -> Any:
    if not choices:
        yield []
        return
    for first in choices[0]:
        for rest in _pairings(choices[1:]):
            if first not in rest:
                yield [first, *rest]


def _flat(node: Node) -> Any:
    """Arguments in a row, with the names of named ones and the lengths of containers."""
    made: list[Any] = []

    def add(a: Any) -> None:
        if isinstance(a, (list, tuple)):
            made.append(len(a))
            for x in a:
                add(x)
        elif isinstance(a, dict):
            made.append(tuple(a))
            for x in a.values():
                add(x)
        elif isinstance(a, slice):
            for x in (a.start, a.stop, a.step):
                add(x)
        else:
            made.append(a)

    add(node.args)
    add({k: node.kwargs[k] for k in sorted(node.kwargs)})
    return made


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b)


def _graph_of(a: Any) -> Graph:
    if isinstance(a, GraphModule):
        return a.graph
    return a if isinstance(a, Graph) else symbolic_trace(a).graph


def replace_pattern(
    gm: GraphModule, pattern: Callable[..., Any] | GraphModule, replacement: Callable[..., Any] | GraphModule
) -> list[Match]:
    """Puts `replacement` wherever `pattern` is found; both are functions or modules of the same inputs.

    >>> import flambeau as torch
    >>> module = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    >>> found = torch.fx.replace_pattern(module, lambda x: torch.relu(x), lambda x: x.clamp(min=0))
    >>> print(module.code.strip())
    def forward(self, x):
        clamp = x.clamp(min = 0);  x = None
        add = clamp + 1;  clamp = None
        return add
    """
    return [Match(m.anchor, m.nodes_map) for m in replace_pattern_with_filters(gm, pattern, replacement)]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Any,
    replacement: Any = None,
    match_filters: list[Callable[..., bool]] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[..., Graph] | None = None,
) -> list[ReplacedPatterns]:
    """The same, for matches that all `match_filters(match, graph, pattern_graph)` accept."""
    original, wanted = gm.graph, _graph_of(pattern)
    matcher = _Matcher(wanted, ignore_literals)
    new = _graph_of(replacement) if replacement is not None else None
    changed: dict[Node, Node] = {}
    done = []
    for mapping in matcher.find(original):
        anchor = matcher.anchors[0]
        if not all(f(Match(anchor, mapping), original, wanted) for f in match_filters or ()):
            continue
        graph = new if new is not None else replacement_callback(Match(anchor, mapping), original, wanted)  # type: ignore[misc]
        assert graph is not None
        # Inputs that are results of an earlier match have new nodes by now.
        mapping = {p: changed.get(n, n) if isinstance(n, Node) else n for p, n in mapping.items()}
        done.append(ReplacedPatterns(anchor, mapping, _replace(original, matcher, mapping, graph, changed)))
    if done and isinstance(replacement, Module):
        _bring_attributes(gm, replacement)
    elif done and new is not None and new.owning_module is not None:
        _bring_attributes(gm, new.owning_module)
    gm.recompile()
    return done


def _replace(
    graph: Graph, matcher: _Matcher, mapping: dict[Node, Node], new: Graph, changed: dict[Node, Node]
) -> list[Node]:
    """Copies the replacement in front of the first user of the match and removes the match."""
    inputs = [n for n in new.nodes if n.op == "placeholder"]
    if len(inputs) != len(matcher.inputs):
        raise RuntimeError(f"the pattern has {len(matcher.inputs)} inputs, its replacement {len(inputs)}")
    values: dict[Node, Any] = {new_in: mapping.get(old_in) for new_in, old_in in zip(inputs, matcher.inputs)}
    last = max(mapping[r] for r in matcher.results)
    users = [u for r in matcher.results for u in mapping[r].users if u not in mapping.values()]
    place = min(users, default=last.next)
    with graph.inserting_before(place):
        made: list[Node] = []
        result = None
        for node in new.nodes:
            if node.op == "placeholder":
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: values[n])
                continue
            values[node] = graph.node_copy(node, lambda n: values[n])
            made.append(values[node])
    flat = result if isinstance(result, (list, tuple)) else [result]
    olds = matcher.pattern.output_node().args[0]
    for old, replacement in zip(olds if isinstance(olds, (list, tuple)) else [olds], flat):
        mapping[old].replace_all_uses_with(replacement)
        changed[mapping[old]] = replacement
    for p in reversed(matcher.pattern.nodes):
        n = mapping.get(p)
        if p.op not in ("placeholder", "output") and isinstance(n, Node) and not n.users and not n._erased:
            graph.erase_node(n)
    return made


def _bring_attributes(gm: GraphModule, source: Module) -> None:
    """Submodules and parameters that only the replacement has; those that nobody uses any more go."""
    gm.delete_all_unused_submodules()
    for node in gm.graph.nodes:
        if node.op in ("call_module", "get_attr") and not _has_attr(gm, node.target):
            if not _has_attr(source, node.target):
                raise RuntimeError(
                    f'Attempted to create a "{node.op}" node during subgraph rewriting with target {node.target}, but the referenced attribute does not exist in the replacement module'
                )
            try:
                _copy_attr(source, gm, node.target)
            except AttributeError:
                _assign_attr(_get_attr(source, node.target), gm, node.target)
