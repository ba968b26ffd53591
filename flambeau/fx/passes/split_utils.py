"""A graph taken apart by the tags of its nodes."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...nn.modules.module import Module
from ..graph import Graph
from ..graph_module import GraphModule, _assign_attr, _get_attr
from ..node import Node, map_arg
from .tools_common import CALLABLE_NODE_OPS, is_node_output_tensor
from .utils.common import HolderModule

if TYPE_CHECKING:
    from .splitter_base import Subgraph

__all__ = [
    "Component", "getattr_recursive", "move_non_tensor_nodes_on_boundary", "setattr_recursive", "split_by_tags",
]  # fmt: skip


def getattr_recursive(obj: object, name: str) -> Any:
    """What an object has at a dotted path; None if there is no such place."""
    found: Any = obj
    for atom in name.split("."):
        if isinstance(found, Module) and not hasattr(found, atom):
            return None
        found = getattr(found, atom)
    return found


def setattr_recursive(obj: object, attr: str, value: object) -> None:
    """Puts a value at a dotted path."""
    path, _, last = attr.rpartition(".")
    setattr(getattr_recursive(obj, path) if path else obj, last, value)


@dataclass
class Component:
    """A part: its graph, its place among the parts, what it takes and gives (nodes of the whole), and its module."""

    graph: Graph
    order: int
    name: str
    input_placeholders: list[Node] = field(default_factory=list)
    orig_inputs: list[Node] = field(default_factory=list)
    orig_outputs: list[Node] = field(default_factory=list)
    getattr_maps: dict[Node, Node] = field(default_factory=dict)
    constructor_args: list[str] = field(default_factory=list)
    gm: GraphModule | None = None


def split_by_tags(
    gm: GraphModule,
    tags: list[str],
    return_fqn_mapping: bool = False,
    return_tuple: bool = False,
    GraphModuleCls: type[GraphModule] = GraphModule,
) -> Any:
    """A module with a submodule for each of these tags, which are in the order of their run; `node.tag` says where a node goes.

    With `return_fqn_mapping` also the new name of each submodule and attribute by its old one.

    >>> import flambeau as torch
    >>> from flambeau.fx.passes.split_utils import split_by_tags
    >>> whole = torch.fx.symbolic_trace(lambda x: x.sin().cos())
    >>> for node in whole.graph.find_nodes(op="call_method"):
    ...     node.tag = "first" if node.name == "sin" else "second"
    >>> print(split_by_tags(whole, ["first", "second"]).code.strip())
    def forward(self, x):
        first = self.first(x);  x = None
        second = self.second(first);  first = None
        return second
    """
    parts = {tag: Component(Graph(), i, tag) for i, tag in enumerate(tags)}
    home: dict[Node, Component] = {}
    copies: dict[Node, Node] = {}  # nodes of parts, by those of the whole
    names: dict[str, str] = {}
    main = Graph()
    in_main: dict[Node, Node] = {}
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            in_main[node] = main.node_copy(node)
            continue
        if node.op == "output":
            break
        if node.op == "get_attr":  # each part reads the attributes that it needs
            continue
        part = home[node] = parts[node.tag]
        upstream = [home[n].order for n in node.all_input_nodes if n in home]
        if max(upstream, default=part.order) > part.order:
            raise AssertionError(
                f"Component {part.name} order must be >= max of its upstream components, "
                f"order={part.order} and max={max(upstream)}"
            )
        for given in node.all_input_nodes:
            if given.op == "get_attr":
                if given not in part.getattr_maps:
                    part.getattr_maps[given] = part.graph.node_copy(given)
                    names[str(given.target)] = f"{part.name}.{given.target}"
            elif home.get(given) is not part and given not in part.orig_inputs:
                part.orig_inputs.append(given)
                made = part.graph.placeholder(given.name, given.type)
                made.meta = dict(given.meta)
                part.input_placeholders.append(made)
        if node.op == "call_module":
            names[str(node.target)] = f"{part.name}.{node.target}"
        inside = dict(zip(part.orig_inputs, part.input_placeholders)) | part.getattr_maps

        def stand_in(n: Node, inside: dict[Node, Node] = inside) -> Node:
            return inside[n] if n in inside else copies[n]

        copies[node] = part.graph.node_copy(node, stand_in)
    for node, part in home.items():
        if any(home.get(user) is not part for user in node.users):
            part.orig_outputs.append(node)
    root = HolderModule({})
    for part in parts.values():
        results = tuple(copies[n] for n in part.orig_outputs)
        single = len(results) == 1 and not return_tuple
        part.graph.output(results[0] if single else results)
        _inputs_first(part)
        part.gm = GraphModuleCls(_attributes(gm, part.graph), part.graph)
        root.add_module(part.name, part.gm)
        call = main.create_node("call_module", part.name, tuple(in_main[n] for n in part.orig_inputs), {}, part.name)
        for i, node in enumerate(part.orig_outputs):
            in_main[node] = call if single else main.call_function(operator.getitem, (call, i))
            in_main[node].meta = dict(node.meta)
    output = gm.graph.output_node()
    for node in output.all_input_nodes:
        if node.op == "get_attr" and node not in in_main:
            in_main[node] = main.node_copy(node)
            _assign_attr(_get_attr(gm, str(node.target)), root, str(node.target))
    main.output(map_arg(output.args[0], in_main.__getitem__)).meta = dict(output.meta)
    main._codegen = gm.graph._codegen
    made = GraphModuleCls(root, main)
    return (made, names) if return_fqn_mapping else made


def _inputs_first(part: Component) -> None:
    first = part.graph._root
    for node in part.input_placeholders:
        first.append(node)
        first = node


def _attributes(gm: GraphModule, graph: Graph) -> dict[str, Any]:
    targets = [str(n.target) for n in graph.nodes if n.op in ("call_module", "get_attr")]
    return {target: _get_attr(gm, target) for target in targets}


def move_non_tensor_nodes_on_boundary(subgraphs: Sequence[Subgraph]) -> None:
    """Moves nodes that give no tensors from the end of an accelerator's part to the part that uses them.

    Raises if another part of the accelerator, or a second part, uses such a value.
    """
    home = {node: part for part in subgraphs for node in part.nodes}
    for part in subgraphs:
        if not part.is_acc:
            continue
        todo = list(reversed(part.nodes))
        for node in todo:
            if node.op not in CALLABLE_NODE_OPS or is_node_output_tensor(node):
                continue
            users = [home[user] for user in node.users if user in home]
            beside = [other for other in users if other is not part]
            if not beside or any(other is part for other in users):
                continue
            target = beside[0]
            if any(other is not target for other in beside):
                continue
            part.nodes.remove(node)
            target.nodes.insert(0, node)
            home[node] = target
