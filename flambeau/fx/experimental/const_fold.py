"""What a traced module computes from its own attributes alone, computed once."""

from __future__ import annotations

import copy
import operator
import re
from collections.abc import Callable
from typing import Any

from ..._ops.registry import ops
from ..._tensor import Tensor
from ...nn.modules.container import ParameterList
from ...nn.modules.module import Module
from ...nn.parameter import Parameter
from .._symbolic_trace import symbolic_trace
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node

__all__ = ["FoldedGraphModule", "get_unique_attr_name_in_module", "split_const_subgraphs"]


class FoldedGraphModule(GraphModule):
    """A module whose constants come from another graph, which runs before the first call (or by `run_folding`)."""

    def __init__(
        self,
        root: Module,
        graph: Graph,
        const_subgraph: Graph | None = None,
        fx_const_folded_attrs_name: str | None = None,
        device_for_folded_attrs: str = "cuda",
    ) -> None:
        super().__init__(root, graph)
        self.const_subgraph_module = None if const_subgraph is None else GraphModule(root, const_subgraph)
        self.has_folding_been_run = False
        self.fx_const_folded_attrs_name = fx_const_folded_attrs_name
        self.device_for_folded_attrs = device_for_folded_attrs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args)

    def run_folding(self) -> None:
        """Computes the constants."""
        if self.const_subgraph_module is None or self.fx_const_folded_attrs_name is None:
            return
        if self.has_folding_been_run:
            raise AssertionError("folding has already been run")
        self.has_folding_been_run = True
        found = self.const_subgraph_module()
        several = isinstance(found, (tuple, list))
        kept = ParameterList([self._parameter(f) for f in found]) if several else self._parameter(found)
        setattr(self, self.fx_const_folded_attrs_name, kept)

    def _parameter(self, value: Any) -> Parameter:
        if not isinstance(value, Tensor):
            return Parameter(ops.tensor([value], device=self.device_for_folded_attrs), requires_grad=False)
        return Parameter(value.detach(), requires_grad=value.requires_grad)


def get_unique_attr_name_in_module(mod_traced: GraphModule, name: str) -> str:
    """A name like `name` that a module has no attribute of."""
    name = re.sub(r"[^0-9a-zA-Z_]+", "_", name)
    if name[0].isdigit():
        name = f"_{name}"
    while hasattr(mod_traced, name):
        found = re.match(r"(.*)_(\d+)$", name)
        name = f"{name}_1" if found is None else f"{found[1]}_{int(found[2]) + 1}"
    return name


def split_const_subgraphs(
    module: Module | GraphModule,
    skip_folding_node_fn: Callable[[Node], bool] | None = None,
    device_for_folded_attrs: str = "cpu",
) -> FoldedGraphModule:
    """The module with all that depends on no input computed beforehand, but for nodes that `skip_folding_node_fn` names.

    >>> import flambeau as torch
    >>> from flambeau.fx.experimental.const_fold import split_const_subgraphs
    >>> class Scaled(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.scale = torch.nn.Parameter(torch.tensor(3.0))
    ...     def forward(self, x):
    ...         return x * self.scale.exp()
    >>> folded = split_const_subgraphs(Scaled())
    >>> [node.op for node in folded.graph.nodes], folded(torch.zeros(1)).item()
    (['placeholder', 'get_attr', 'call_function', 'output'], 0.0)
    """
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    main = copy.deepcopy(traced.graph)
    root = GraphModule(traced, main)
    folded: dict[Node, None] = {}
    for node in main.nodes:
        if node.op in ("placeholder", "output") or (skip_folding_node_fn is not None and skip_folding_node_fn(node)):
            continue
        if (node.op == "get_attr" or all(n in folded for n in node.all_input_nodes)) and not node.is_impure():
            folded[node] = None
    if all(node.op == "get_attr" for node in folded):
        return FoldedGraphModule(root, main, device_for_folded_attrs=device_for_folded_attrs)
    constants = Graph()
    copies: dict[Node, Node] = {}
    for node in folded:
        copies[node] = constants.node_copy(node, copies.__getitem__)
    given = [n for n in folded if n.op != "get_attr" and any(user not in folded for user in n.users)]
    results = tuple(copies[n] for n in given)
    constants.output(results[0] if len(results) == 1 else results)
    constants.eliminate_dead_code()
    name = get_unique_attr_name_in_module(root, "_FX_CONST_FOLDED_ATTRS")
    setattr(root, name, ParameterList() if len(given) != 1 else Parameter(ops.zeros(())))
    with main.inserting_before(next(n for n in folded if n.op != "get_attr")):
        read = main.get_attr(name)
        for i, node in enumerate(given):
            new = read if len(given) == 1 else main.call_function(operator.getitem, (read, i))
            new.meta = dict(node.meta)
            node.replace_all_uses_with(new, lambda user: user not in folded)
    for node in reversed(folded):
        if not node.users:
            main.erase_node(node)
    return FoldedGraphModule(root, main, constants, name, device_for_folded_attrs)
