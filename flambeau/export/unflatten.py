"""The modules of an exported program: its one graph taken apart along the modules that its operators ran in."""

from __future__ import annotations

import itertools
import operator
from typing import Any

from .._tensor import Tensor
from ..fx import Graph, GraphModule, Node
from ..fx.graph_module import _assign_attr
from ..nn.modules.module import Module
from ..utils._pytree import tree_flatten, tree_unflatten
from .exported_program import ExportedProgram, _checked_structure, guards_of
from .graph_signature import InputKind, OutputKind

__all__ = ["FlatArgsAdapter", "UnflattenedModule", "unflatten"]


class FlatArgsAdapter:
    """Changes arguments of another structure into those that a program was exported with; base of a program's own."""

    def adapt(
        self, target_spec: Any, input_spec: Any, input_args: list[Any], metadata: Any = None, obj: Any = None
    ) -> list[Any]:
        """The leaves in the order of `target_spec`."""
        raise NotImplementedError(f"{type(self).__name__} does not say how arguments are changed: write adapt")


class _Scope:
    """The operators of one call of a module, as a graph over what comes from outside and its own parameters."""

    def __init__(
        self, state: dict[Node, tuple[str, Any]], path: str, depth: int, nodes: list[Node], wanted: list[Node]
    ):
        self.state, self.path, self.graph = state, _plain(path), Graph()
        self.inputs: list[Node] = []
        self.attributes: dict[str, Any] = {}
        self.made: dict[Node, Any] = {}
        self.used: dict[str, int] = {}
        inside = set(wanted)
        for child, group in itertools.groupby(nodes, lambda n: _child(n, depth)):
            run = list(group)
            if child is None:
                for node in run:
                    self.made[node] = self.graph.node_copy(node, self.value)
            else:
                self._call(child, depth, run, inside)
        self.graph.output(tuple(self.value(n) for n in wanted))
        self.module = GraphModule(self.attributes, self.graph, _class_name(path))

    def value(self, node: Node) -> Any:
        """The value of a node of the whole graph in this scope."""
        if node in self.made:
            return self.made[node]
        target = self.state.get(node)
        first = next((n for n in self.graph.nodes if n.op != "placeholder"), None)
        with self.graph.inserting_before(first) if first is not None else self.graph.inserting_after(None):
            if target is not None and (not self.path or target[0].startswith(self.path + ".")):
                name = target[0][len(self.path) + 1 :] if self.path else target[0]
                self.attributes[name] = target[1]
                made = self.graph.create_node("get_attr", name)
            else:
                made = self.graph.create_node("placeholder", node.name, name=node.name)
                made.target = made.name
                self.inputs.append(node)
        made.meta = dict(node.meta)
        self.made[node] = made
        return made

    def _call(self, child: str, depth: int, run: list[Node], inside: set[Node]) -> None:
        own = set(run)
        outs = [n for n in run if n in inside or any(u not in own for u in n.users)]
        scope = _Scope(self.state, child, depth + 1, run, outs)
        name = _plain(child)
        name = name[len(self.path) + 1 :] if self.path and name.startswith(self.path + ".") else name
        count = self.used.get(name, 0)
        self.used[name] = count + 1
        name = f"{name}@{count}" if count else name
        self.attributes[name] = scope.module
        given = tuple(self.value(n) for n in scope.inputs)
        call = self.graph.create_node("call_module", name, given, name=name.replace(".", "_").replace("@", "_"))
        for i, out in enumerate(outs):
            part = self.graph.call_function(operator.getitem, (call, i))
            part.meta = dict(out.meta)
            self.made[out] = part


def _plain(path: str) -> str:
    """The path of a module without the number of its call."""
    return path.partition("@")[0]


def _child(node: Node, depth: int) -> str | None:
    paths = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
    return paths[depth] if len(paths) > depth else None


def _class_name(path: str) -> str:
    last = path.rpartition(".")[2].partition("@")[0]
    return last if last.isidentifier() else "InterpreterModule"


class UnflattenedModule(Module):
    """A module with the submodules that were exported; each runs its part of the graph."""

    def __init__(self, export_module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None):
        super().__init__()
        ep = export_module
        if any(s.kind is not OutputKind.USER_OUTPUT for s in ep.graph_signature.output_specs):
            raise NotImplementedError("unflatten: take the program as export gave it, before run_decompositions")
        signature = ep.module_call_graph[0].signature
        assert signature is not None
        self._spec, self._out_spec, self._adapter = signature.in_spec, signature.out_spec, flat_args_adapter
        self._check = _checked_structure(signature.in_spec, list(signature.forward_arg_names or ()))
        specs = {s.arg.name: s for s in ep.graph_signature.input_specs}
        placeholders = [n for n in ep.graph.nodes if n.op == "placeholder"]
        leaves = [n for n in placeholders if specs[n.name].kind is InputKind.USER_INPUT]
        state = {
            n: (str(specs[n.name].target), _tensor_of(ep, specs[n.name])) for n in placeholders if n not in set(leaves)
        }
        self._guards = guards_of(ep, leaves)
        results = list(ep.graph.output_node().args[0])
        wanted = [r for r in results if isinstance(r, Node)]
        nodes = [n for n in ep.graph.nodes if n.op == "call_function"]
        scope = _Scope(state, "", 1, nodes, list(dict.fromkeys(wanted)))
        self._order, self._results = [leaves.index(n) for n in scope.inputs], results
        self._places = [list(dict.fromkeys(wanted)).index(r) if isinstance(r, Node) else None for r in results]
        object.__setattr__(self, "_whole", scope.module)
        for name, value in scope.attributes.items():
            if name.partition(".")[0] not in self._modules:
                top = name.partition(".")[0]
                self._take(top, getattr(scope.module, top) if "." in name or isinstance(value, Module) else value)
        for path, t in ep.state_dict.items():
            if not _has(self, path):
                _assign_attr(t, self, path)

    def _take(self, name: str, value: Any) -> None:
        if isinstance(value, Tensor) and not isinstance(value, Module) and not hasattr(value, "_is_param_of"):
            _assign_attr(value, self, name)
        else:
            setattr(self, name, value)

    @property
    def graph(self) -> Graph:
        """The graph of the outermost module."""
        return self._whole.graph

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        try:
            given, named = self._check(self, args, kwargs)
            leaves = self._spec.flatten_up_to((given, named))
        except ValueError:
            if self._adapter is None:
                raise
            flat, spec = tree_flatten((args, kwargs))
            leaves = self._adapter.adapt(self._spec, spec, flat)
        for text, holds in self._guards:
            if not holds(leaves):
                raise AssertionError(f"Guard failed: {text}")
        out = self._whole(*[leaves[i] for i in self._order])
        found = [r if place is None else out[place] for r, place in zip(self._results, self._places)]
        return tree_unflatten(found, self._out_spec)


def _tensor_of(ep: ExportedProgram, spec: Any) -> Any:
    return ep.state_dict[spec.target] if spec.target in ep.state_dict else ep.constants[spec.target]


def _has(module: Any, path: str) -> bool:
    for name in path.split("."):
        if not hasattr(module, name):
            return False
        module = getattr(module, name)
    return True


def unflatten(module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None) -> UnflattenedModule:
    """A module with the submodules that were exported, which can be looked at, replaced and run.

    >>> import flambeau as torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    >>> made = torch.export.unflatten(torch.export.export(net, (torch.ones(1, 2),)))
    >>> [name for name, _ in made.named_children()], sorted(made.state_dict())
    (['0', '1'], ['0.bias', '0.weight'])
    """
    return UnflattenedModule(module, flat_args_adapter)
