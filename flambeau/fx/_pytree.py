"""Containers taken apart along a given shape: what generated code does with arguments that are containers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..utils._pytree import TreeSpec, tree_flatten

__all__ = ["register_pytree_flatten_spec", "tree_flatten_spec"]

FlattenFuncSpec = Callable[[Any, TreeSpec], list[Any]]
SUPPORTED_NODES: dict[type, FlattenFuncSpec] = {}


def register_pytree_flatten_spec(cls: type, flatten_fn_spec: FlattenFuncSpec, *_: Any) -> None:
    """Says how values of a class are taken apart along a spec."""
    SUPPORTED_NODES[cls] = flatten_fn_spec


def tree_flatten_spec(pytree: Any, spec: TreeSpec) -> list[Any]:
    """The leaves of a value that has the shape `spec`.

    >>> from flambeau.utils._pytree import tree_flatten
    >>> tree_flatten_spec([5, {"a": 6}], tree_flatten([1, {"a": 2}])[1])
    [5, 6]
    """
    if spec.is_leaf():
        return [pytree]
    take_apart = SUPPORTED_NODES.get(spec.type)
    if take_apart is not None:
        children = take_apart(pytree, spec)
    elif isinstance(pytree, dict):
        children = [pytree[key] for key in spec.context]
    elif isinstance(pytree, (list, tuple)):
        children = list(pytree)[: len(spec.children_specs)]
    else:
        return tree_flatten(pytree)[0]
    return [leaf for child, part in zip(children, spec.children_specs) for leaf in tree_flatten_spec(child, part)]
