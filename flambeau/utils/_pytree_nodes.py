"""What is a container: how lists, tuples, dicts and registered classes are taken apart and made again, and keys to parts."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from .._core.sizes import Size

Context = Any
PyTree = Any
FlattenFunc = Callable[[Any], tuple[list[Any], Context]]
UnflattenFunc = Callable[[Iterable[Any], Context], Any]
FlattenFn, UnflattenFn = FlattenFunc, UnflattenFunc
DumpableContext = Any  # what JSON can hold
ToDumpableContextFn = Callable[[Context], DumpableContext]
FromDumpableContextFn = Callable[[DumpableContext], Context]
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
