"""`Node`: one value of a graph, what computes it, from which other values, and who uses it."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._library.schema_texts import is_random
from .._names.checks import _assert
from ._names import pretty_target, qualified_name, type_text
from .immutable_collections import immutable_dict, immutable_list
from .operator_schemas import normalize_function, normalize_module

if TYPE_CHECKING:
    from .graph import Graph

__all__ = ["Argument", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg"]

Argument = Any  # numbers, strings, nodes, and tuples, lists, dictionaries and slices of them
Target = Callable[..., Any] | str

_legal_ops = dict.fromkeys(("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root"))
_side_effectful_functions: set[Any] = {builtins.print, operator.setitem, _assert}
_get_qualified_name = qualified_name
_type_repr = type_text


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function whose calls stay in a graph although nobody uses their result. Also a decorator."""
    _side_effectful_functions.add(fn)
    return fn


def map_arg(a: Argument, fn: Callable[[Node], Argument]) -> Argument:
    """An argument with fn applied to every node in it.

    >>> import flambeau as torch
    >>> x = torch.fx.Graph().placeholder("x")
    >>> torch.fx.map_arg([x, (x, 2)], lambda node: node.name)
    ['x', ('x', 2)]
    """
    if not callable(fn):
        raise TypeError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def map_aggregate(a: Argument, fn: Callable[[Argument], Argument]) -> Argument:
    """An argument with fn applied to everything in it that is no container; containers become immutable."""
    if isinstance(a, tuple):
        parts = [map_aggregate(x, fn) for x in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return immutable_list(map_aggregate(x, fn) for x in a)
    if isinstance(a, dict):
        return immutable_dict((k, map_aggregate(v, fn)) for k, v in a.items())
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def _format_arg(arg: Any) -> str:
    """An argument in the printed form of a graph: nodes with a percent sign, strings bare."""
    if isinstance(arg, list):
        return f"[{', '.join(map(_format_arg, arg))}]"
    if isinstance(arg, tuple) and hasattr(arg, "_fields"):
        parts = ", ".join(f"{name}={_format_arg(a)}" for name, a in zip(arg._fields, arg))
        return f"{type(arg).__name__}({parts})"
    if isinstance(arg, tuple):
        return f"({', '.join(map(_format_arg, arg))}{',' if len(arg) == 1 else ''})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{k}: {_format_arg(v)}" for k, v in arg.items()) + "}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


class Node:
    """One value of a graph.

    `op` says how it comes about ("placeholder", "get_attr", "call_function", "call_module", "call_method",
    "output"), `target` what is called or read, `args` and `kwargs` with what; `users` are the nodes that take it as
    an argument, and `meta` is a dictionary for whoever works on the graph.

    >>> import flambeau as torch
    >>> graph = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1).graph
    >>> [(n.op, n.name, n.args) for n in graph.nodes]
    [('placeholder', 'x', ()), ('call_function', 'relu', (x,)), ('call_function', 'add', (relu, 1)), ('output', 'output', (add,))]
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Any,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: Any = None,
    ) -> None:
        if op == "call_function" and not callable(target):
            raise ValueError(
                f"Node [graph = {graph}, name = {name!r}] target {target} has type {type(target).__name__} "
                "but a Callable is expected"
            )
        if op not in ("call_function", "root") and not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = {name!r}] target {target} has type {type(target).__name__} "
                "but a str is expected"
            )
        if op not in _legal_ops:
            raise AssertionError(f"op {op!r} is not in _legal_ops")
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = immutable_dict()
        self._input_nodes: dict[Node, None] = {}
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._prev = self._next = self
        self._erased = False
        self._repr_fn: Callable[[Node], str] | None = None
        self._set(args, kwargs)

    # -- arguments and uses ---------------------------------------------------------------------------------------

    def _set(self, args: Any, kwargs: Any) -> None:
        """New arguments: forget the old uses, note the new ones."""
        for old in self._input_nodes:
            old.users.pop(self, None)
        self._input_nodes = {}

        def note(node: Node) -> Node:
            self._input_nodes[node] = None
            node.users[self] = None
            return node

        self._args = map_arg(args, note)
        self._kwargs = map_arg(kwargs, note)

    @property
    def args(self) -> tuple[Argument, ...]:
        """Positional arguments. Assign a new tuple to change them."""
        return self._args

    @args.setter
    def args(self, a: tuple[Argument, ...]) -> None:
        self._set(tuple(a), self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """Named arguments. Assign a new dictionary to change them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict[str, Argument]) -> None:
        self._set(self._args, dict(k))

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once, in order."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Changes one positional argument."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Puts another positional argument before the one at `idx`."""
        if not 0 <= idx <= len(self.args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Changes or adds one named argument."""
        self.kwargs = {**self.kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Takes another node wherever `old_input` is among the arguments."""

        def swap(n: Node) -> Node:
            return new_input if n is old_input else n

        for hook in self.graph._hooks("_replace_hooks"):
            hook(old=old_input, new=new_input.name, user=self)
        self._set(map_arg(self.args, swap), map_arg(self.kwargs, swap))

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] | None = None, *, propagate_meta: bool = False
    ) -> list[Node]:
        """Lets all users (those that `delete_user_cb` accepts) take another node instead; gives the changed ones."""
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but replace_with already has .meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = [user for user in self.users if delete_user_cb is None or delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # -- place in the graph ---------------------------------------------------------------------------------------

    @property
    def next(self) -> Node:
        """The node after this one."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one."""
        return self._prev

    def _unlink(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def prepend(self, x: Node) -> None:
        """Moves (or puts) x before this node."""
        if x.graph is not self.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is self:
            return
        x._unlink()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x
        self.graph._moved()

    def append(self, x: Node) -> None:
        """Moves (or puts) x behind this node."""
        if x is not self and x is not self._next:
            self._next.prepend(x)

    def __lt__(self, other: Node) -> bool:
        return self.graph._position(self) < self.graph._position(other)

    def __gt__(self, other: Node) -> bool:
        return self.graph._position(self) > self.graph._position(other)

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or self > other

    # -- what it is -----------------------------------------------------------------------------------------------

    @property
    def stack_trace(self) -> str | None:
        """The program's lines that recorded this node, if the tracer kept them."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the node must stay even if nobody uses it: inputs, outputs, and calls that have effects."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            if self.target in _side_effectful_functions or getattr(self.target, "_is_impure", False):
                return True
            if getattr(getattr(self.target, "_op", None), "effect", None) is not None:
                return True
            schema, name = getattr(self.target, "_schema", None), getattr(self.target, "_opname", "")
            if schema is not None:
                gives_nothing = not schema.returns or schema.returns[0].declared == "()"
                return (
                    schema.is_mutable
                    or gives_nothing
                    or name.startswith("_assert")
                    or (impure_random and is_random(name))
                )
            return getattr(self.target, "__name__", "").endswith("_") and not self.target.__name__.endswith("__") and (
                qualified_name(self.target).startswith("torch.")
            )  # fmt: skip
        if self.op == "call_module":
            if self.graph.owning_module is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            module = self.graph.owning_module.get_submodule(self.target)
            return bool(getattr(module, "_is_impure", False))
        return False

    def normalized_arguments(
        self,
        root: Any,
        arg_types: tuple[Any, ...] | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> Any:
        """The arguments with defaults filled in, all by name where asked for; None where the signature is unknown."""
        if self.op == "call_function":
            return normalize_function(self.target, self.args, self.kwargs, None, None, normalize_to_only_use_kwargs)
        if self.op == "call_module":
            return normalize_module(root, self.target, self.args, self.kwargs, normalize_to_only_use_kwargs)
        return None

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)
            self.graph._graph_namespace.rename(self, self.name)

    @staticmethod
    def _pretty_print_target(target: object) -> str:
        return pretty_target(target)

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """The line of this node in the printed graph."""
        kind = f"{type_text(self.type)} " if self.type else ""
        start = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}[target={pretty_target(self.target)}]"
        if self.op == "placeholder":
            if placeholder_names is not None:
                placeholder_names.append(f"{self.target}{f' : {type_text(self.type)}' if self.type else ''}")
                return None
            return start + (f"(default={self.args[0]})" if self.args else "")
        if self.op == "get_attr":
            return start
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {type_text(self.type)}"
            return f"return {self.args[0]}"
        return f"{start}(args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)})"

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn is not None else self.name

    def __reduce__(self) -> Any:
        raise TypeError("a Node is saved as part of its graph: pickle the Graph or the GraphModule")
