"""`Graph`: a list of nodes that computes outputs from inputs, and the tools to change it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from inspect import Signature
from typing import Any, NamedTuple

from ._codegen import CodeGen, PythonCode, _PyTreeCodeGen, _PyTreeInfo
from ._names import Namespace, lookup, public_path, qualified_name, short_name
from .node import Argument, Node, Target, map_arg

__all__ = ["CodeGen", "Graph", "PythonCode"]

_Namespace = Namespace
_PRIVATE = (_PyTreeCodeGen, _PyTreeInfo, qualified_name)  # looked for here by those who use them


class _node_list:
    """The nodes of a graph in order; it stays usable while nodes come and go."""

    def __init__(self, graph: Graph, direction: str = "_next"):
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        node = getattr(root, self.direction)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, self.direction)

    def __reversed__(self) -> _node_list:
        return _node_list(self.graph, "_prev" if self.direction == "_next" else "_next")


class _InsertPoint:
    """Where new nodes go until the end of a `with` block."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]):
        self.graph, self._before = graph, graph._insert
        graph._insert = insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        self.graph._insert = self._before


class Graph:
    """A computation as a list of nodes, each after those it uses.

    >>> import flambeau as torch
    >>> graph = torch.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> node = graph.output(graph.call_function(torch.relu, (x,)))
    >>> print(graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})
        return relu
    """

    def __init__(
        self, owning_module: Any = None, tracer_cls: type | None = None, tracer_extras: dict[str, Any] | None = None
    ) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._graph_namespace = Namespace()
        self._owning_module = owning_module
        self._owners = 0
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen = CodeGen()
        self._order: dict[Node, int] | None = None

    @property
    def owning_module(self) -> Any:
        """The GraphModule that runs this graph."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: Any) -> None:
        self._owning_module = mod

    @property
    def nodes(self) -> _node_list:
        """The nodes in order; `reversed(graph.nodes)` works too."""
        return _node_list(self)

    def output_node(self) -> Node:
        """The node of kind "output"."""
        return next(n for n in reversed(self.nodes) if n.op == "output")

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The nodes of a kind, for a target if one is given."""
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def _hooks(self, table: str) -> Any:
        return getattr(self._owning_module, table, ()) if self._owning_module is not None else ()

    def _moved(self) -> None:
        self._order = None

    def _position(self, node: Node) -> int:
        if self._order is None:
            self._order = {n: i for i, n in enumerate(self.nodes)}
        return self._order[node]

    # -- new nodes ------------------------------------------------------------------------------------------------

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A new node at the insert point, with a name made from the target unless one is given."""
        if not isinstance(args, tuple) and args is not None:
            raise AssertionError(f"args must be a tuple, got {type(args)}")
        if not isinstance(kwargs, dict) and kwargs is not None:
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs)}")
        candidate = name if name is not None else short_name(target)
        name = self._graph_namespace.create_name(candidate, None)
        node = Node(self, name, op, target, args or (), kwargs or {}, type_expr)
        self._graph_namespace.associate(name, node)
        self._insert(node)
        self._order = None
        self._len += 1
        for hook in self._hooks("_create_node_hooks"):
            hook(node)
        return node

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = Signature.empty) -> Node:
        """An input."""
        args = () if default_value is Signature.empty else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """A parameter, buffer or other attribute of the module, such as "layer.weight"."""
        if self.owning_module is not None and not _has(self.owning_module, qualified_name):
            warnings.warn(
                f"get_attr of {qualified_name!r}: the owning GraphModule has no such module, parameter or buffer; "
                "add it with add_submodule or register_parameter before the graph runs",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A call of a submodule, such as "encoder.layers.0"."""
        if self.owning_module is not None and not _has(self.owning_module, module_name):
            warnings.warn(
                f"call_module of {module_name!r}: the owning GraphModule has no such submodule; "
                "add it with add_submodule before the graph runs",
                stacklevel=2,
            )
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result: Argument, type_expr: Any = None) -> Node:
        """What the graph gives back."""
        return self.create_node("output", "output", args=(result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x) -> Node:
        """A copy of another graph's node; `arg_transform` gives the node of this graph for each of its arguments."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, dict(kwargs), node.name, node.type)
        made.meta = dict(node.meta)
        return made

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Copies all nodes of another graph but its output, whose value it gives; `val_map` is filled and respected."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                value = map_arg(node.args[0], lambda n: val_map[n])
                return (value, node) if return_output_node else value
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        """The same graph over copied nodes; functions and modules stay as they are."""
        copied = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        copied._codegen = self._codegen
        values: dict[Node, Node] = {}
        result = copied.graph_copy(self, values, return_output_node=True)
        for node, made in values.items():
            made.name = node.name  # those of an exported program may be builtins: `input`
        if memo is not None:
            memo[id(self)] = copied
        if isinstance(result, tuple):
            value, old = result
            made = copied.output(value, type_expr=old.type)
            made.meta = dict(old.meta)
        return copied

    def __reduce__(self) -> Any:
        numbers = {node: i for i, node in enumerate(self.nodes)}
        rows = [_row(node, numbers) for node in self.nodes]
        return _rebuild, (rows, self._tracer_cls, self._tracer_extras, self._codegen)

    # -- changes --------------------------------------------------------------------------------------------------

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """A `with` block whose new nodes go before n; without n, to the front."""
        if n is None:
            return self.inserting_after(self._root)
        self._own(n)
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """A `with` block whose new nodes go behind n; without n, to the end."""
        if n is None:
            return self.inserting_before(self._root)
        self._own(n)
        return _InsertPoint(self, n.append)

    def _own(self, n: Node) -> None:
        if n.graph is not self:
            raise AssertionError("Node to insert at is not in graph.")

    def erase_node(self, to_erase: Node) -> None:
        """Removes a node that nobody uses."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        for hook in self._hooks("_erase_node_hooks"):
            hook(to_erase)
        to_erase._unlink()
        to_erase._erased = True
        to_erase._set((), {})
        self._len -= 1
        self._order = None

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Removes nodes whose results nobody uses and that have no other effect; whether there were any."""
        self.lint()
        impure = is_impure_node if is_impure_node is not None else lambda n: n.is_impure()
        changed = False
        for node in reversed(self.nodes):
            if not node.users and not impure(node):
                self.erase_node(node)
                changed = True
        return changed

    def lint(self) -> None:
        """Checks that nodes come after what they use, have names of their own, and name what the module has."""
        names: set[str] = set()
        seen: set[Node] = set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for argument in node.all_input_nodes:
                if argument.graph is not self:
                    raise RuntimeError(
                        f"Argument '{argument}' of Node '{node}' does not belong to this Graph, but was used as an "
                        f"argument! Copy nodes with node_copy and an arg_transform that gives nodes of this graph\n{self}"
                    )
                if argument not in seen:
                    raise RuntimeError(
                        f"Argument '{argument}' of Node '{node}' was used before it has been defined! Nodes must "
                        f"stand after those that they use\n{self}"
                    )
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen.add(node)
            names.add(node.name)
        if self.owning_module is not None:
            self._lint_targets()

    def _lint_targets(self) -> None:
        for node in self.nodes:
            if node.op not in ("get_attr", "call_module"):
                continue
            place: Any = self.owning_module
            atoms = node.target.split(".")
            for i, atom in enumerate(atoms):
                if not hasattr(place, atom):
                    where = ".".join(atoms[:i])
                    raise RuntimeError(
                        f"Node {node} target {node.target} references nonexistent attribute {atom} of {where}"
                    )
                place = getattr(place, atom)
            if node.op == "call_module" and not callable(place):
                raise RuntimeError(f"Node {node} target {node.target} does not refer to a module that can be called")

    # -- text -----------------------------------------------------------------------------------------------------

    def python_code(self, root_module: str, *, verbose: bool = False, **options: Any) -> PythonCode:
        """The graph as the source of a function whose module is called `root_module`, and the globals it needs."""
        return self._codegen._gen_python_code(self.nodes, root_module, Namespace(), verbose=verbose)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Chooses the object that writes the code."""
        self._codegen = codegen

    def on_generate_code(self, make_transformer: Callable[[Any], Any]) -> AbstractContextManager[None]:
        """Lets a function change the lines of the body whenever code is made; undone at the end of a `with` block."""
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)

        @contextmanager
        def undo() -> Iterator[None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = before

        return undo()

    def process_inputs(self, *args: Any) -> Any:
        """Arguments of the module as values of the placeholders."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """The graph's result as the module gives it back."""
        return self._codegen.process_outputs(out)

    def __str__(self) -> str:
        returned = [""]
        lines = [node.format_node(None, returned) for node in self.nodes]
        return "graph():" + "".join(f"\n    {line}" for line in lines if line is not None)

    def print_tabular(self) -> None:
        """Prints the nodes as a table.

        >>> import flambeau as torch
        >>> torch.fx.symbolic_trace(lambda x: x + 1).graph.print_tabular()
        opcode         name    target                   args    kwargs
        -------------  ------  -----------------------  ------  --------
        placeholder    x       x                        ()      {}
        call_function  add     <built-in function add>  (x, 1)  {}
        output         output  output                   (add,)  {}
        """
        rows = [[n.op, n.name, str(n.target), str(n.args), str(n.kwargs)] for n in self.nodes]
        head = ["opcode", "name", "target", "args", "kwargs"]
        widths = [max(len(h) + 2, *[len(row[i]) for row in rows]) for i, h in enumerate(head)]
        for row in [head, ["-" * w for w in widths], *rows]:
            print("  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip())


class _Value(NamedTuple):
    """Stands for a node in a saved graph."""

    number: int


class _Function(NamedTuple):
    """Stands for one of our functions in a saved graph: most are made at run time and have no name for pickle."""

    path: str


def _row(node: Node, numbers: dict[Node, int]) -> tuple[Any, ...]:
    target = node.target
    if not isinstance(target, str):
        path = public_path(target)
        target = target if path is None else _Function(path)
    args, kwargs = (map_arg(a, lambda n: _Value(numbers[n])) for a in (node.args, node.kwargs))
    return node.op, node.name, target, args, dict(kwargs), node.type, node.meta.get("is_wrapped", False)


def _rebuild(rows: list[tuple[Any, ...]], tracer_cls: Any, tracer_extras: Any, codegen: CodeGen) -> Graph:
    """A graph from its saved form."""
    graph = Graph(tracer_cls=tracer_cls, tracer_extras=tracer_extras)
    graph._codegen = codegen
    made: list[Node] = []

    def decode(a: Any) -> Any:
        if isinstance(a, _Value):
            return made[a.number]
        if isinstance(a, tuple):
            parts = [decode(x) for x in a]
            return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
        if isinstance(a, list):
            return [decode(x) for x in a]
        if isinstance(a, dict):
            return {k: decode(v) for k, v in a.items()}
        return slice(decode(a.start), decode(a.stop), decode(a.step)) if isinstance(a, slice) else a

    for op, name, target, args, kwargs, kind, wrapped in rows:
        function = lookup(target.path) if isinstance(target, _Function) else target
        node = graph.create_node(op, function, decode(args), decode(kwargs), name, kind)
        if wrapped:
            node.meta["is_wrapped"] = True
        made.append(node)
    return graph


def _has(module: Any, path: str) -> bool:
    for atom in path.split("."):
        if not hasattr(module, atom):
            return False
        module = getattr(module, atom)
    return True
