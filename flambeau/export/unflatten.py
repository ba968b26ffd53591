"""The modules of an exported program: its one graph taken apart along the modules that its operators ran in."""

from __future__ import annotations

import itertools
import operator
from typing import Any, NamedTuple

from .._core.symbolic import SymBool, SymFloat, SymInt
from .._tensor import Tensor
from ..fx import Graph, GraphModule, Node
from ..fx._codegen import _PyTreeInfo
from ..fx.graph_module import _assign_attr
from ..nn.modules.module import Module
from ..utils._pytree import GetAttrKey, MappingKey, SequenceKey, tree_flatten, tree_flatten_with_path, tree_unflatten
from .exported_program import ExportedProgram, ModuleCallSignature, _checked_structure, _CodeGen, guards_of
from .graph_signature import ConstantArgument, InputKind, OutputKind

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
        self, program: Program, path: str, depth: int, nodes: list[Node], wanted: list[Any], signature: Any = None
    ):
        self.program, self.path, self.graph, self.whole_path = program, _plain(path), Graph(), path
        self.inputs: list[Node] = []
        self.closed = signature is not None  # what comes in is known
        self.attributes: dict[str, Any] = {}
        self.made: dict[Node, Any] = {}
        self.used: dict[str, int] = {}
        inside = {n for n in wanted if isinstance(n, Node)}
        for i, arg in enumerate(signature.inputs if signature is not None else ()):
            made = self.graph.create_node("placeholder", f"arg_{i}")
            node = _value(arg, program.nodes)
            if isinstance(node, Node):
                made.meta = dict(node.meta)
                self.made.setdefault(node, made)
        for child, group in itertools.groupby(nodes, lambda n: _child(n, depth)):
            run = list(group)
            if child is None:
                for node in run:
                    self.made[node] = self.graph.node_copy(node, self.value)
            else:
                self._call(child, depth, run, inside)
        results = tuple(self.value(n) if isinstance(n, Node) else n for n in wanted)
        self.graph.output(results if len(results) != 1 or depth == 1 or signature is not None else results[0])
        if signature is not None:
            self.graph.set_codegen(_CodeGen(_PyTreeInfo(_names(signature), signature.in_spec, signature.out_spec)))
        self.module = GraphModule(self.attributes, self.graph, _class_name(path))

    def value(self, node: Node) -> Any:
        """The value of a node of the whole graph in this scope."""
        if node in self.made:
            return self.made[node]
        target = self.program.state.get(node)
        if target is not None and not self._owns(target[0]):  # a tied tensor may be the module's own under another path
            target = next((t for t in self.program.state.values() if t[1] is target[1] and self._owns(t[0])), target)
        if self.closed and target is None:
            if not isinstance(node.meta.get("val"), (SymInt, SymFloat, SymBool)) or node.op != "call_function":
                raise NotImplementedError(
                    f"unflatten: {self.path} uses {node.name}, which is no argument of it; it cannot keep the signature of its calls"
                )
            made = self.made[node] = self.graph.node_copy(node, self.value)  # sizes of what it was given
            return made
        first = next((n for n in self.graph.nodes if n.op != "placeholder"), None)
        with self.graph.inserting_before(first) if first is not None else self.graph.inserting_after(None):
            if target is not None and (self._owns(target[0]) or self.closed):
                name = target[0][len(self.path) + 1 :] if self._owns(target[0]) and self.path else target[0]
                if not self._owns(target[0]):
                    name = name.replace(".", "_")
                self.attributes[name] = target[1]
                made = self.graph.create_node("get_attr", name)
            else:
                made = self.graph.create_node("placeholder", node.name, name=node.name)
                made.target = made.name
                self.inputs.append(node)
        made.meta = dict(node.meta)
        self.made[node] = made
        return made

    def _owns(self, path: str) -> bool:
        return not self.path or path.startswith(self.path + ".")

    def _call(self, child: str, depth: int, run: list[Node], inside: set[Node]) -> None:
        own = set(run)
        outs: list[Any] = [n for n in run if n in inside or any(u not in own for u in n.users)]
        signature = self.program.calls.get(child)
        if signature is not None:
            results = [_value(arg, self.program.nodes) for arg in signature.outputs]
            if any(n not in results for n in outs):
                raise NotImplementedError(
                    f"unflatten: {child} gives more than its results; it cannot keep its signature"
                )
            outs = results
        scope = _Scope(self.program, child, depth + 1, run, outs, signature)
        name = _plain(child)
        name = name[len(self.path) + 1 :] if self.path and name.startswith(self.path + ".") else name
        count = self.used.get(name, 0)
        self.used[name] = count + 1
        name = f"{name}@{count}" if count else name
        self.attributes[name] = scope.module
        given, named = tuple(self.value(n) for n in scope.inputs), {}
        ways: list[Any] = [(SequenceKey(i),) for i in range(len(outs))] if len(outs) != 1 else [()]
        if signature is not None:
            leaves = [_value(arg, self.program.nodes) for arg in signature.inputs]
            given, named = signature.in_spec.unflatten([self.value(n) if isinstance(n, Node) else n for n in leaves])
            ways = [way for way, _ in tree_flatten_with_path(signature.out_spec.unflatten(outs))[0]]
        call_name = name.replace(".", "_").replace("@", "_")
        call = self.graph.create_node("call_module", name, tuple(given), dict(named), name=call_name)
        for way, out in zip(ways, outs):
            if not isinstance(out, Node) or out not in own:
                continue
            part = call
            for key in way:
                of = (
                    (getattr, key.name)
                    if isinstance(key, GetAttrKey)
                    else (operator.getitem, getattr(key, "idx", None))
                )
                if isinstance(key, MappingKey):
                    of = operator.getitem, key.key
                part = self.graph.call_function(of[0], (part, of[1]))
            if part is not call:
                part.meta = dict(out.meta)
            self.made[out] = part


class Program(NamedTuple):
    """What all scopes know: parameters and constants, nodes by their names, calls that keep their structure."""

    state: dict[Node, tuple[str, Any]]
    nodes: dict[str, Node]
    calls: dict[str, ModuleCallSignature]


def _value(arg: Any, nodes: dict[str, Node]) -> Any:
    """The node, or the constant, that an argument or result is."""
    return arg.value if isinstance(arg, ConstantArgument) else nodes.get(arg.name)  # None where nothing uses it


def _names(signature: ModuleCallSignature) -> list[str]:
    """The names of arguments."""
    if signature.forward_arg_names is not None:
        return signature.forward_arg_names
    placed, named = signature.in_spec.children()
    return [f"arg_{i}" for i in range(placed.num_children)] + list(named.context)


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
        self._writes = sum(s.kind is not OutputKind.USER_OUTPUT for s in ep.graph_signature.output_specs)
        self._targets = [str(s.target) for s in ep.graph_signature.output_specs[: self._writes]]
        self._arguments = [n.name for n in leaves]
        wanted = [r for r in results if isinstance(r, Node)]
        nodes = [n for n in ep.graph.nodes if n.op == "call_function"]
        calls = {c.fqn: c.signature for c in ep.module_call_graph if c.fqn and c.signature is not None}
        program = Program(state, {n.name: n for n in ep.graph.nodes}, calls)
        scope = _Scope(program, "", 1, nodes, list(dict.fromkeys(wanted)))
        self._order, self._results = [leaves.index(n) for n in scope.inputs], results
        self._places = [list(dict.fromkeys(wanted)).index(r) if isinstance(r, Node) else None for r in results]
        object.__setattr__(self, "_whole", scope.module)
        for name, value in scope.attributes.items():
            if name.partition(".")[0] not in self._modules:
                top = name.partition(".")[0]
                self._take(top, getattr(scope.module, top) if "." in name or isinstance(value, Module) else value)
        for path, t in ep.state_dict.items():
            if _at(self, path) is None:
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
        for target, value in zip(self._targets, found):  # new values of buffers and arguments
            given = leaves[self._arguments.index(target)] if target in self._arguments else _at(self, target)
            given.copy_(value)
        return tree_unflatten(found[self._writes :], self._out_spec)


def _tensor_of(ep: ExportedProgram, spec: Any) -> Any:
    return ep.state_dict[spec.target] if spec.target in ep.state_dict else ep.constants[spec.target]


def _at(module: Any, path: str) -> Any:
    """What is at a path, if anything is."""
    for name in path.split("."):
        module = getattr(module, name, None)
    return module


def unflatten(module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None) -> UnflattenedModule:
    """A module with the submodules that were exported, which can be looked at, replaced and run.

    >>> import flambeau as torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    >>> made = torch.export.unflatten(torch.export.export(net, (torch.ones(1, 2),)))
    >>> [name for name, _ in made.named_children()], sorted(made.state_dict())
    (['0', '1'], ['0.bias', '0.weight'])
    """
    return UnflattenedModule(module, flat_args_adapter)
