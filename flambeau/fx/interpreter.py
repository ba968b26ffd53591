"""`Interpreter` runs a graph node by node; `Transformer` makes a new graph of it. Both are made to be subclassed."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from ..nn.modules.module import Module
from ._names import public_path
from ._symbolic_trace import Tracer
from .graph import Graph
from .graph_module import GraphModule
from .node import Argument, Node, Target, map_arg
from .proxy import Proxy

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a graph node by node; each kind of node has a method that subclasses may change.

    >>> import flambeau as torch
    >>> class Negated(torch.fx.Interpreter):
    ...     def call_function(self, target, args, kwargs):
    ...         return -super().call_function(target, args, kwargs)
    >>> Negated(torch.fx.symbolic_trace(lambda x: torch.relu(x))).run(torch.tensor([2.0]))
    tensor([-2.])
    """

    def __init__(self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = module.graph if graph is None else graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.args_iter: Iterator[Any] = iter(())
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        if garbage_collect_values:
            seen: set[Node] = set()
            for node in reversed(self.graph.nodes):
                for used in node.all_input_nodes:
                    if used not in seen:
                        seen.add(used)
                        self.user_to_last_uses.setdefault(node, []).append(used)

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """Runs the graph. `initial_env` has values of nodes that are known already."""
        self.env = dict(initial_env) if initial_env is not None else {}
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    self._explain(node, error)
                raise
            for done in self.user_to_last_uses.get(node, ()):
                del self.env[done]
            if node.op == "output":
                out = self.env[node]
                return self.graph.process_outputs(out) if enable_io_processing else out
        return None

    @staticmethod
    def _explain(node: Node, error: Exception) -> None:
        """Adds to an error's message which node failed."""
        said = f"While executing {node.format_node()}\nOriginal traceback:\n{node.stack_trace}"
        first = f"{error.args[0]}\n\n{said}" if error.args else said
        error.args = (first, *error.args[1:])

    def boxed_run(self, args_list: list[Any]) -> Any:
        """Runs the graph on a list of arguments that it empties, so that they can be freed early."""
        placeholders = [n for n in self.graph.nodes if n.op == "placeholder"]
        if len(args_list) != len(placeholders):
            wrong = "extra" if len(args_list) > len(placeholders) else "missing"
            raise RuntimeError(
                f"Interpreter.boxed_run: {wrong} arguments: the graph has {len(placeholders)} inputs, got {len(args_list)}"
            )
        env = dict(zip(placeholders, args_list))
        args_list.clear()
        return self.run(initial_env=env)

    def run_node(self, n: Node) -> Any:
        """The value of one node."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The next argument, or the parameter's default."""
        assert isinstance(target, str)
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from None

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """A parameter or other attribute of the module."""
        assert isinstance(target, str)
        return self.fetch_attr(target)

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a function."""
        assert not isinstance(target, str)
        return target(*args, **kwargs)

    def call_method(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a method of the first argument."""
        assert isinstance(target, str)
        owner, *rest = args
        return getattr(owner, target)(*rest, **kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a submodule."""
        assert isinstance(target, str)
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The result."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """What the module has at a dotted path."""
        found: Any = self.module
        done: list[str] = []
        for atom in target.split("."):
            if not hasattr(found, atom):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join([*done, atom])}")
            found = getattr(found, atom)
            done.append(atom)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a node with values for nodes."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Argument, n: Node) -> Any:
        """An argument with values for nodes."""

        def load(used: Node) -> Any:
            if used not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {used}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[used]

        return map_arg(args, load)


class _TransformerTracer(Tracer):
    """Appends to the new graph; all modules are leaves."""

    def __init__(self, graph: Graph):
        super().__init__()
        self.graph = graph
        self.tensor_attrs = {}

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return True


class Transformer(Interpreter):
    """Runs a graph with proxies: the methods of a subclass say what stands in the new graph for each old node.

    >>> import flambeau as torch
    >>> class Softer(torch.fx.Transformer):
    ...     def call_function(self, target, args, kwargs):
    ...         target = torch.sigmoid if target is torch.relu else target
    ...         return super().call_function(target, args, kwargs)
    >>> module = Softer(torch.fx.symbolic_trace(lambda x: torch.relu(x))).transform()
    >>> [node.name for node in module.graph.nodes]
    ['x', 'sigmoid', 'output']
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _TransformerTracer(self.new_graph)
        self.tracer.root = module

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """A placeholder of the new graph."""
        assert isinstance(target, str)
        default = args[0] if args else inspect.Signature.empty
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """An attribute, read in the new graph."""
        assert isinstance(target, str)
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """A submodule, called in the new graph."""
        assert isinstance(target, str)
        module = self.fetch_attr(target)
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """A function, called in the new graph."""
        assert not isinstance(target, str)
        if public_path(target) is None and not _has_proxy((args, kwargs)):
            return target(*args, **kwargs)
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The module of the new graph."""
        result = super().run(enable_io_processing=False)
        if result is not None:

            def strip(a: Any) -> Any:
                return a.node if isinstance(a, Proxy) else a

            output = self.graph.output_node()
            made = self.new_graph.output(_mapped(result, strip), type_expr=output.type)
            made.meta = dict(output.meta)
        return GraphModule(self.module, self.new_graph)


def _mapped(a: Any, fn: Any) -> Any:
    if isinstance(a, tuple):
        parts = [_mapped(x, fn) for x in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return [_mapped(x, fn) for x in a]
    if isinstance(a, dict):
        return {k: _mapped(v, fn) for k, v in a.items()}
    return fn(a)


def _has_proxy(a: Any) -> bool:
    found = []
    _mapped(a, lambda x: found.append(x) if isinstance(x, Proxy) else None)
    return bool(found)
