"""Trees of containers: lists, tuples, dicts and registered classes, taken apart and put together again."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class NodeDef(NamedTuple):
    """How one container class is flattened."""

    type: type
    flatten_fn: Callable[[Any], tuple[list[Any], Any]]
    unflatten_fn: Callable[[Iterable[Any], Any], Any]


SUPPORTED_NODES: dict[type, NodeDef] = {}


def register_pytree_node(cls: type, flatten_fn: Any, unflatten_fn: Any, **_: Any) -> None:
    """Makes a class a container; flatten_fn(x) -> (children, context), unflatten_fn(children, context) -> x."""
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn)


_register_pytree_node = register_pytree_node
register_pytree_node(list, lambda x: (x, None), lambda c, _: list(c))
register_pytree_node(tuple, lambda x: (list(x), None), lambda c, _: tuple(c))
register_pytree_node(dict, lambda x: (list(x.values()), list(x)), lambda c, keys: dict(zip(keys, c)))
register_pytree_node(OrderedDict, lambda x: (list(x.values()), list(x)), lambda c, keys: OrderedDict(zip(keys, c)))
register_pytree_node(
    defaultdict, lambda x: (list(x.values()), (x.default_factory, list(x))), lambda c, k: defaultdict(k[0], zip(k[1], c))
)
register_pytree_node(deque, lambda x: (list(x), x.maxlen), lambda c, maxlen: deque(c, maxlen))
register_pytree_node(namedtuple, lambda x: (list(x), type(x)), lambda c, cls: cls(*c))


class TreeSpec:
    """The shape of a tree: container class, its context, and the shapes of its children."""

    __slots__ = ("children_specs", "context", "num_leaves", "type")

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec]):
        self.type, self.context, self.children_specs = type, context, children_specs
        self.num_leaves = 1 if type is None else sum(c.num_leaves for c in children_specs)

    def is_leaf(self) -> bool:
        return self.type is None

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TreeSpec) and self.type is other.type and self.context == other.context
            and self.children_specs == other.children_specs
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash((self.type, self.num_leaves))

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        return f"TreeSpec({self.type.__name__}, {self.context}, {self.children_specs})"


def LeafSpec() -> TreeSpec:
    """The shape of a single leaf."""
    return TreeSpec(None, None, [])


def _kind(x: Any) -> Any:
    cls = x.__class__
    if cls in SUPPORTED_NODES:
        return cls
    if isinstance(x, tuple) and hasattr(cls, "_fields"):
        return namedtuple
    return None


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree, and its shape.

    >>> from flambeau.utils._pytree import tree_flatten
    >>> tree_flatten({"a": [1, 2], "b": 3})[0]
    [1, 2, 3]
    """
    kind = _kind(tree)
    if kind is None or (is_leaf is not None and is_leaf(tree)):
        return [tree], LeafSpec()
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    leaves: list[Any] = []
    specs = []
    for child in children:
        part, spec = tree_flatten(child, is_leaf)
        leaves += part
        specs.append(spec)
    return leaves, TreeSpec(kind, context, specs)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of a shape with these leaves."""
    iterator = iter(leaves)

    def build(spec: TreeSpec) -> Any:
        if spec.type is None:
            return next(iterator)
        return SUPPORTED_NODES[spec.type].unflatten_fn([build(c) for c in spec.children_specs], spec.context)

    return build(treespec)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of a tree in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """A tree of the same shape with a function applied to its leaves."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_flatten(r, is_leaf)[0] for r in rests]
    return tree_unflatten([func(*args) for args in zip(leaves, *others)], spec)


def tree_map_only(kind: Any, func: Callable[[Any], Any], tree: Any, is_leaf: Any = None) -> Any:
    """Applies a function to the leaves of one class."""
    return tree_map(lambda x: func(x) if isinstance(x, kind) else x, tree, is_leaf=is_leaf)


def tree_all(predicate: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    return all(map(predicate, tree_leaves(tree, is_leaf)))


def tree_any(predicate: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    return any(map(predicate, tree_leaves(tree, is_leaf)))


def broadcast_prefix(prefix: Any, tree: Any) -> list[Any]:
    """The leaves of `prefix`, each repeated for all leaves of `tree` below it; ValueError if they do not fit."""
    kind = _kind(prefix)
    if kind is None:
        return [prefix] * len(tree_leaves(tree))
    if _kind(tree) is not kind:
        raise ValueError(f"{prefix!r} does not fit the structure of the arguments")
    first, context = SUPPORTED_NODES[kind].flatten_fn(prefix)
    second, other = SUPPORTED_NODES[kind].flatten_fn(tree)
    if len(first) != len(second) or (context != other and kind is not namedtuple):
        raise ValueError(f"{prefix!r} does not fit the structure of the arguments")
    return [leaf for p, t in zip(first, second) for leaf in broadcast_prefix(p, t)]
