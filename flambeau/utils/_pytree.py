"""Trees of containers: lists, tuples, dicts and registered classes, taken apart and put together again."""

from __future__ import annotations

import dataclasses
import functools
import json
import types
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from .._core.sizes import Size

Context = Any
PyTree = Any
FlattenFunc = Callable[[Any], tuple[list[Any], Context]]
UnflattenFunc = Callable[[Iterable[Any], Context], Any]
IsLeaf = Callable[[Any], bool] | None


class KeyEntry(Protocol):
    """One step from a container to a child."""

    def get(self, parent: Any) -> Any: ...


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """The step to an element of a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True)
class MappingKey:
    """The step to a value of a mapping."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        return mapping[self.key]


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """The step to an attribute of an object."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        return getattr(obj, self.name)


KeyPath = tuple[KeyEntry, ...]
FlattenWithKeysFunc = Callable[[Any], tuple[list[tuple[KeyEntry, Any]], Context]]


# -- what is a container -------------------------------------------------------------------------------------------


class NodeDef(NamedTuple):
    """How one container class is flattened."""

    type: type
    flatten_fn: FlattenFunc
    unflatten_fn: UnflattenFunc
    flatten_with_keys_fn: FlattenWithKeysFunc | None = None


class _Serialized(NamedTuple):
    name: str
    to_dumpable: Callable[[Context], Any] | None
    from_dumpable: Callable[[Any], Context] | None


SUPPORTED_NODES: dict[Any, NodeDef] = {}
SUPPORTED_SERIALIZED_TYPES: dict[Any, _Serialized] = {}
SERIALIZED_TYPE_TO_PYTHON_TYPE: dict[str, Any] = {}
CONSTANT_NODES: set[type] = set()
STANDARD_DICT_TYPES = frozenset({dict, OrderedDict, defaultdict})
BUILTIN_TYPES = frozenset({tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque})


def register_pytree_node(
    cls: Any,
    flatten_fn: FlattenFunc,
    unflatten_fn: UnflattenFunc,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Context], Any] | None = None,
    from_dumpable_context: Callable[[Any], Context] | None = None,
    flatten_with_keys_fn: FlattenWithKeysFunc | None = None,
) -> None:
    """Makes a class a container; flatten_fn(x) -> (children, context), unflatten_fn(children, context) -> x."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(f"to_dumpable_context and from_dumpable_context of {cls} must be given together")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    if serialized_type_name is not None:
        SUPPORTED_SERIALIZED_TYPES[cls] = _Serialized(serialized_type_name, to_dumpable_context, from_dumpable_context)
        SERIALIZED_TYPE_TO_PYTHON_TYPE[serialized_type_name] = cls


def _register_pytree_node(
    cls: Any, flatten_fn: FlattenFunc, unflatten_fn: UnflattenFunc, *_: Any, **options: Any
) -> None:
    if cls not in SUPPORTED_NODES:
        register_pytree_node(cls, flatten_fn, unflatten_fn, **options)


_private_register_pytree_node = _register_pytree_node


def _deregister_pytree_node(cls: Any) -> None:
    del SUPPORTED_NODES[cls]
    serialized = SUPPORTED_SERIALIZED_TYPES.pop(cls, None)
    if serialized is not None:
        del SERIALIZED_TYPE_TO_PYTHON_TYPE[serialized.name]


def register_dataclass(
    cls: type,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Makes a dataclass a container of its fields, all or the named ones; dropped fields get their defaults again."""
    if not dataclasses.is_dataclass(cls) and field_names is None:
        raise ValueError(f"field_names must be given: {cls} is not a dataclass")
    every = [f.name for f in dataclasses.fields(cls) if f.init] if dataclasses.is_dataclass(cls) else field_names or []
    dropped = set(drop_field_names or ())
    names = field_names if field_names is not None else [name for name in every if name not in dropped]
    if dataclasses.is_dataclass(cls) and {*names, *dropped} != set(every):
        raise ValueError(f"field_names and drop_field_names of {cls} must name its fields {every}")

    def flatten(x: Any) -> tuple[list[Any], Context]:
        present = [name for name in names if getattr(x, name) is not None]
        return [getattr(x, name) for name in present], [present, [name for name in names if name not in present]]

    def flatten_with_keys(x: Any) -> tuple[list[tuple[KeyEntry, Any]], Context]:
        values, context = flatten(x)
        return [(GetAttrKey(name), value) for name, value in zip(context[0], values)], context

    def unflatten(values: Iterable[Any], context: Context) -> Any:
        return cls(**dict(zip(context[0], values)), **dict.fromkeys(context[1]))

    register_pytree_node(
        cls, flatten, unflatten, serialized_type_name=serialized_type_name, flatten_with_keys_fn=flatten_with_keys
    )


def register_constant(cls: type) -> None:
    """Makes objects of a class part of a tree's shape: they have no leaves, and compare with `==`."""
    if cls.__eq__ is object.__eq__:
        raise TypeError("register_constant(cls) expects `cls` to have a non-default `__eq__` implementation.")
    if cls.__hash__ is None or cls.__hash__ is object.__hash__:
        raise TypeError("register_constant(cls) expects `cls` to have a non-default `__hash__` implementation.")
    register_pytree_node(cls, lambda x: ([], x), lambda _, x: x, flatten_with_keys_fn=lambda x: ([], x))
    CONSTANT_NODES.add(cls)


def is_constant_class(cls: type) -> bool:
    """Whether a class was registered with `register_constant`."""
    return cls in CONSTANT_NODES


def _by_position(values: Iterable[Any]) -> list[tuple[KeyEntry, Any]]:
    return [(SequenceKey(i), value) for i, value in enumerate(values)]


def _by_key(mapping: Mapping[Any, Any]) -> list[tuple[KeyEntry, Any]]:
    return [(MappingKey(key), value) for key, value in mapping.items()]


def _list_flatten(d: list[Any]) -> tuple[list[Any], Context]:
    return d, None


def _list_flatten_with_keys(d: list[Any]) -> tuple[list[tuple[KeyEntry, Any]], Context]:
    return _by_position(d), None


def _list_unflatten(values: Iterable[Any], context: Context) -> list[Any]:
    return list(values)


def _tuple_flatten(d: tuple[Any, ...]) -> tuple[list[Any], Context]:
    return list(d), None


_tuple_flatten_with_keys = _list_flatten_with_keys


def _tuple_unflatten(values: Iterable[Any], context: Context) -> tuple[Any, ...]:
    return tuple(values)


def _dict_flatten(d: Mapping[Any, Any]) -> tuple[list[Any], Context]:
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d: Mapping[Any, Any]) -> tuple[list[tuple[KeyEntry, Any]], Context]:
    return _by_key(d), list(d)


def _dict_unflatten(values: Iterable[Any], context: Context) -> dict[Any, Any]:
    return dict(zip(context, values))


def _ordereddict_unflatten(values: Iterable[Any], context: Context) -> OrderedDict[Any, Any]:
    return OrderedDict(zip(context, values))


_ordereddict_flatten, _ordereddict_flatten_with_keys = _dict_flatten, _dict_flatten_with_keys


def _defaultdict_flatten(d: defaultdict[Any, Any]) -> tuple[list[Any], Context]:
    return list(d.values()), [d.default_factory, list(d)]


def _defaultdict_flatten_with_keys(d: defaultdict[Any, Any]) -> tuple[list[tuple[KeyEntry, Any]], Context]:
    return _by_key(d), [d.default_factory, list(d)]


def _defaultdict_unflatten(values: Iterable[Any], context: Context) -> defaultdict[Any, Any]:
    return defaultdict(context[0], zip(context[1], values))


def _deque_flatten(d: deque[Any]) -> tuple[list[Any], Context]:
    return list(d), d.maxlen


def _deque_flatten_with_keys(d: deque[Any]) -> tuple[list[tuple[KeyEntry, Any]], Context]:
    return _by_position(d), d.maxlen


def _deque_unflatten(values: Iterable[Any], context: Context) -> deque[Any]:
    return deque(values, context)


def _namedtuple_flatten(d: Any) -> tuple[list[Any], Context]:
    return list(d), type(d)


def _namedtuple_flatten_with_keys(d: Any) -> tuple[list[tuple[KeyEntry, Any]], Context]:
    return [(GetAttrKey(name), value) for name, value in zip(d._fields, d)], type(d)


def _namedtuple_unflatten(values: Iterable[Any], context: Context) -> Any:
    return context(*values)


def _register_builtin() -> None:
    kinds: list[tuple[Any, str, Any, Any, Any]] = [
        (tuple, "builtins.tuple", _tuple_flatten, _tuple_unflatten, _tuple_flatten_with_keys),
        (list, "builtins.list", _list_flatten, _list_unflatten, _list_flatten_with_keys),
        (dict, "builtins.dict", _dict_flatten, _dict_unflatten, _dict_flatten_with_keys),
        (OrderedDict, "collections.OrderedDict", _dict_flatten, _ordereddict_unflatten, _dict_flatten_with_keys),
        (deque, "collections.deque", _deque_flatten, _deque_unflatten, _deque_flatten_with_keys),
        (Size, "torch.Size", _tuple_flatten, lambda values, _: Size(values), _tuple_flatten_with_keys),
    ]
    for cls, name, flatten, unflatten, with_keys in kinds:
        register_pytree_node(cls, flatten, unflatten, serialized_type_name=name, flatten_with_keys_fn=with_keys)
    register_pytree_node(
        defaultdict, _defaultdict_flatten, _defaultdict_unflatten, flatten_with_keys_fn=_defaultdict_flatten_with_keys
    )
    register_pytree_node(
        namedtuple, _namedtuple_flatten, _namedtuple_unflatten, flatten_with_keys_fn=_namedtuple_flatten_with_keys
    )


_register_builtin()


def is_namedtuple_class(cls: Any) -> bool:
    """Whether a class is a tuple with named fields."""
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def is_namedtuple_instance(obj: Any) -> bool:
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: Any) -> bool:
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


_is_namedtuple_instance = is_namedtuple_instance


def is_structseq_class(cls: Any) -> bool:
    """Whether a class is one of Python's own records, such as `time.struct_time`."""
    counts = ("n_fields", "n_sequence_fields", "n_unnamed_fields")
    return (
        isinstance(cls, type) and issubclass(cls, tuple) and all(isinstance(getattr(cls, n, None), int) for n in counts)
    )


def is_structseq_instance(obj: Any) -> bool:
    """Whether an object is one of Python's own records.

    >>> import time
    >>> is_structseq_instance(time.localtime()), is_structseq_instance((1, 2))
    (True, False)
    """
    return is_structseq_class(type(obj))


def is_structseq(obj: Any) -> bool:
    """Whether an object is a record of Python's own or a class of them."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def _get_node_type(tree: Any) -> Any:
    cls = tree.__class__
    if cls not in SUPPORTED_NODES and isinstance(tree, tuple) and hasattr(cls, "_fields"):
        return namedtuple
    return cls


def _kind(x: Any) -> Any:
    """The registered class of a container, None for a leaf."""
    kind = _get_node_type(x)
    return kind if kind in SUPPORTED_NODES else None


def tree_is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether a tree is a single leaf."""
    return (is_leaf is not None and is_leaf(tree)) or _kind(tree) is None


_is_leaf = tree_is_leaf


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


def tree_map_only(kind: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None) -> Any:
    """Applies a function to the leaves of one class, or for which a predicate holds."""
    return tree_map(map_only(kind)(func), tree, is_leaf=is_leaf)


def tree_map_only_(kind: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None) -> Any:
    """Calls a function on the leaves of one class for its effects; gives the tree back."""
    return tree_map_(map_only(kind)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(kind: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, kind))


def tree_any_only(kind: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, kind))


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
