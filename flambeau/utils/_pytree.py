"""Trees of containers: their shapes, taking them apart and putting them together, mapping over their leaves."""

from __future__ import annotations

import functools
import json
import types
from collections import defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ._pytree_nodes import (  # noqa: F401  (programs find all of them here)
    BUILTIN_TYPES,
    CONSTANT_NODES,
    SERIALIZED_TYPE_TO_PYTHON_TYPE,
    STANDARD_DICT_TYPES,
    SUPPORTED_NODES,
    SUPPORTED_SERIALIZED_TYPES,
    Context,
    DumpableContext,
    FlattenFn,
    FlattenFunc,
    FlattenWithKeysFunc,
    FromDumpableContextFn,
    GetAttrKey,
    IsLeaf,
    KeyEntry,
    KeyPath,
    MappingKey,
    NodeDef,
    PyTree,
    SequenceKey,
    ToDumpableContextFn,
    UnflattenFn,
    UnflattenFunc,
    _by_key,
    _by_position,
    _defaultdict_flatten,
    _defaultdict_flatten_with_keys,
    _defaultdict_unflatten,
    _deque_flatten,
    _deque_flatten_with_keys,
    _deque_unflatten,
    _deregister_pytree_node,
    _dict_flatten,
    _dict_flatten_with_keys,
    _dict_unflatten,
    _get_node_type,
    _is_leaf,
    _is_namedtuple_instance,
    _kind,
    _list_flatten,
    _list_flatten_with_keys,
    _list_unflatten,
    _namedtuple_flatten,
    _namedtuple_flatten_with_keys,
    _namedtuple_unflatten,
    _ordereddict_flatten,
    _ordereddict_flatten_with_keys,
    _ordereddict_unflatten,
    _private_register_pytree_node,
    _register_pytree_node,
    _Serialized,
    _tuple_flatten,
    _tuple_flatten_with_keys,
    _tuple_unflatten,
    is_constant_class,
    is_namedtuple,
    is_namedtuple_class,
    is_namedtuple_instance,
    is_structseq,
    is_structseq_class,
    is_structseq_instance,
    register_constant,
    register_dataclass,
    register_pytree_node,
    tree_is_leaf,
)  # fmt: skip

# -- the shape of a tree -------------------------------------------------------------------------------------------


class TreeSpec:
    """The shape of a tree: container class, its context, and the shapes of its children."""

    __slots__ = ("children_specs", "context", "num_children", "num_leaves", "num_nodes", "type")

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec]):
        self.type, self.context, self.children_specs = type, context, children_specs
        self.num_children = len(children_specs)
        self.num_leaves = 1 if type is None else sum(c.num_leaves for c in children_specs)
        self.num_nodes = 1 + sum(c.num_nodes for c in children_specs)

    def is_leaf(self) -> bool:
        return self.type is None

    def children(self) -> list[TreeSpec]:
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        return self.children_specs[index]

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The subtrees of a tree at the leaves of this shape; ValueError if it does not begin with this shape."""
        if self.type is None:
            return [tree]
        kind = _kind(tree)
        both = self.type in STANDARD_DICT_TYPES and kind in STANDARD_DICT_TYPES
        if kind is not self.type and not both:
            raise ValueError(f"Node type mismatch; expected {self.type!r}, but got {type(tree)!r}.")
        children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
        if both:
            keys = self.context[1] if self.type is defaultdict else self.context
            if len(children) != len(keys) or any(key not in tree for key in keys):
                raise ValueError(f"Node keys mismatch; expected {keys!r}, but got {list(tree)!r}.")
            children = [tree[key] for key in keys]
        elif len(children) != self.num_children:
            raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {len(children)}.")
        elif context != self.context and kind is not deque:
            raise ValueError(f"Node context mismatch; expected {self.context!r}, but got {context!r}.")
        return [part for spec, child in zip(self.children_specs, children) for part in spec.flatten_up_to(child)]

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree of this shape with these leaves."""
        leaves = leaves if isinstance(leaves, (list, tuple)) else list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(f"unflatten: got {len(leaves)} leaves for a tree of {self.num_leaves}: {self}")
        return _built(self, iter(leaves))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, TreeSpec) and self.type is other.type and self.context == other.context
            and self.children_specs == other.children_specs
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash((self.type, self.num_leaves))

    def __repr__(self, indent: int = 0) -> str:
        if self.type is None:
            return "*"
        pieces = [spec.__repr__(indent + 2) for spec in self.children_specs]
        inside = (",\n" + " " * (indent + 2)).join(pieces)
        return f"TreeSpec({self.type.__name__}, {self.context}, [{inside}])"


PyTreeSpec = TreeSpec
_LEAF_SPEC = TreeSpec(None, None, [])


def _built(spec: TreeSpec, leaves: Iterator[Any]) -> Any:
    if spec.type is None:
        return next(leaves)
    return SUPPORTED_NODES[spec.type].unflatten_fn([_built(c, leaves) for c in spec.children_specs], spec.context)


class _LeafMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TreeSpec) and instance.is_leaf()


class LeafSpec(TreeSpec, metaclass=_LeafMeta):
    """The shape of a single leaf."""

    def __new__(cls) -> TreeSpec:  # type: ignore[misc]
        return _LEAF_SPEC

    def __init__(self) -> None:  # the shape is made already
        pass


def treespec_leaf() -> TreeSpec:
    """The shape of a single leaf."""
    return _LEAF_SPEC


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The shape of a tuple whose elements have these shapes."""
    return TreeSpec(tuple, None, list(iterable))


def treespec_dict(mapping: Any = (), /, **kwargs: TreeSpec) -> TreeSpec:
    """The shape of a dict whose values have these shapes."""
    every = dict(mapping, **kwargs)
    return TreeSpec(dict, list(every), list(every.values()))


def treespec_pprint(treespec: TreeSpec) -> str:
    """The shape as the tree would print, with `*` for leaves."""
    star = type("_Leaf", (), {"__repr__": lambda self: "*"})()
    return repr(treespec.unflatten([star] * treespec.num_leaves))


def _to_json(spec: TreeSpec) -> dict[str, Any]:
    if spec.type is None:
        return {"type": None, "context": None, "children_spec": []}
    serialized = SUPPORTED_SERIALIZED_TYPES.get(spec.type)
    if serialized is None:
        raise NotImplementedError(f"{spec.type} has no serialized_type_name: register it with one")
    try:
        context = json.dumps(spec.context) if serialized.to_dumpable is None else serialized.to_dumpable(spec.context)
    except TypeError as error:
        raise TypeError(f"the context of {spec.type} is no JSON: register it with to_dumpable_context") from error
    return {"type": serialized.name, "context": context, "children_spec": [_to_json(c) for c in spec.children_specs]}


def _from_json(data: dict[str, Any]) -> TreeSpec:
    if data["type"] is None:
        return _LEAF_SPEC
    kind = SERIALIZED_TYPE_TO_PYTHON_TYPE.get(data["type"])
    if kind is None:
        raise NotImplementedError(f"no class is registered for the serialized type {data['type']!r}")
    convert = SUPPORTED_SERIALIZED_TYPES[kind].from_dumpable or json.loads
    return TreeSpec(kind, convert(data["context"]), [_from_json(c) for c in data["children_spec"]])


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """The shape as JSON: `[1, {...}]`, 1 being the version of the format."""
    if protocol not in (None, 1):
        raise ValueError(f"treespec_dumps: unknown protocol {protocol}; there is 1")
    return json.dumps([1, _to_json(treespec)])


def treespec_loads(serialized: str) -> TreeSpec:
    """The shape that `treespec_dumps` wrote."""
    protocol, data = json.loads(serialized)
    if protocol != 1:
        raise ValueError(f"treespec_loads: unknown protocol {protocol}; there is 1")
    return _from_json(data)


# -- taking apart and putting together -----------------------------------------------------------------------------


def _flatten(tree: Any, leaves: list[Any], is_leaf: IsLeaf) -> TreeSpec:
    kind = _kind(tree)
    if kind is None or (is_leaf is not None and is_leaf(tree)):
        leaves.append(tree)
        return _LEAF_SPEC
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten(child, leaves, is_leaf) for child in children])


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree, and its shape.

    >>> from flambeau.utils._pytree import tree_flatten
    >>> tree_flatten({"a": [1, 2], "b": 3})[0]
    [1, 2, 3]
    """
    leaves: list[Any] = []
    spec = _flatten(tree, leaves, is_leaf)
    return leaves, spec


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of a shape with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"tree_unflatten: treespec must be a TreeSpec, got {type(treespec)}")
    return treespec.unflatten(leaves)


def tree_iter(tree: Any, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves of a tree, one after another."""
    if tree_is_leaf(tree, is_leaf):
        yield tree
    else:
        for child in SUPPORTED_NODES[_kind(tree)].flatten_fn(tree)[0]:
            yield from tree_iter(child, is_leaf)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a tree in order."""
    return tree_flatten(tree, is_leaf)[0]


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """The leaves of all arguments."""
    return tree_leaves((args, kwargs))


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """The shape of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """A tree of the same shape with a function applied to its leaves, and to what other trees have there."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(r) for r in rests]
    return _built(spec, iter([func(*args) for args in zip(leaves, *others)]))


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Calls a function on the leaves for its effects; gives the tree back."""
    leaves, spec = tree_flatten(tree, is_leaf)
    for args in zip(leaves, *[spec.flatten_up_to(r) for r in rests]):
        func(*args)
    return tree


def map_only(kind: Any, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """A decorator: the function applies to one class, or where a predicate holds; all else stays."""
    if isinstance(kind, (type, tuple, types.UnionType)):

        def chosen(x: Any) -> bool:
            return isinstance(x, kind)
    elif callable(kind):
        chosen = kind
    else:
        raise TypeError(f"expected a class, a tuple of classes or a predicate, got {kind!r}")

    def wrapper(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @functools.wraps(func)
        def wrapped(x: Any) -> Any:
            return func(x) if chosen(x) else x

        return wrapped

    return wrapper


def tree_map_only(type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None) -> Any:
    """Applies a function to the leaves of one class, or for which a predicate holds."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None) -> Any:
    """Calls a function on the leaves of one class for its effects; gives the tree back."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(type_or_types: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(type_or_types: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


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


def _broadcast_to_and_flatten(tree: Any, treespec: TreeSpec, is_leaf: IsLeaf = None) -> list[Any] | None:
    """`broadcast_prefix` against a shape; None if they do not fit."""
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    kind = _kind(tree)
    if treespec.type is not kind:
        return None
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    result: list[Any] = []
    for child, spec in zip(children, treespec.children_specs):
        part = _broadcast_to_and_flatten(child, spec, is_leaf)
        if part is None:
            return None
        result += part
    return result


# -- paths ---------------------------------------------------------------------------------------------------------


def _generate_key_paths(key_path: KeyPath, tree: Any, is_leaf: IsLeaf = None) -> Iterator[tuple[KeyPath, Any]]:
    if tree_is_leaf(tree, is_leaf):
        yield key_path, tree
        return
    handler = SUPPORTED_NODES[_kind(tree)].flatten_with_keys_fn
    if handler is None:
        raise ValueError(f"{type(tree)} was registered without flatten_with_keys_fn: it has no paths")
    for key, child in handler(tree)[0]:
        yield from _generate_key_paths((*key_path, key), child, is_leaf)


def tree_leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """The leaves of a tree, each with its path from the root."""
    return list(_generate_key_paths((), tree, is_leaf))


def tree_flatten_with_path(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """`tree_leaves_with_path`, and the shape of the tree."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """As `tree_map`; the function gets the path of the leaf first.

    >>> from flambeau.utils._pytree import keystr, tree_map_with_path
    >>> tree_map_with_path(lambda path, x: keystr(path), {"a": [1, 2]})
    {'a': ["['a'][0]", "['a'][1]"]}
    """
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(r) for r in rests]
    return _built(spec, iter([func(path, leaf, *rest) for (path, leaf), *rest in zip(pairs, *others)]))


def keystr(kp: KeyPath) -> str:
    """A path as Python code."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """What lies at a path."""
    for key in kp:
        obj = key.get(obj)
    return obj
