"""Nested states as one dictionary of tensors and objects, and back."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from ..._tensor import Tensor

Path = tuple[Any, ...]


def _is_one(value: Any) -> bool:
    """Whether a value is stored as one object: everything but dictionaries and lists that hold tensors."""
    if isinstance(value, Mapping):
        return False
    if not isinstance(value, list):
        return True
    return not any(isinstance(v, Tensor) or (isinstance(v, (Mapping, list)) and not _is_one(v)) for v in value)


def flatten(state: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Path]]:
    """Values by names with dots, and the path of each.

    >>> flatten({"a": {"b": 1}, "c": [2, 3]})
    ({'a.b': 1, 'c': [2, 3]}, {'a.b': ('a', 'b'), 'c': ('c',)})
    """
    values: dict[str, Any] = {}
    paths: dict[str, Path] = {}

    def visit(path: Path, value: Any) -> None:
        if path and _is_one(value):
            name = ".".join(map(str, path))
            if name in values:
                raise ValueError(f"duplicated flatten key {name}")
            values[name], paths[name] = value, path
        else:
            for key, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
                visit((*path, key), inner)

    visit((), state)
    return values, paths


def put(state: Any, path: Path, value: Any) -> None:
    """Sets a value of a nested state, making dictionaries and lists on the way."""
    for key, following in itertools.pairwise(path):
        fresh: Any = [] if isinstance(following, int) else {}
        if isinstance(state, list):
            state.extend([None] * (key + 1 - len(state)))
            if state[key] is None:
                state[key] = fresh
        elif state.get(key) is None:
            state[key] = fresh
        state = state[key]
    if isinstance(state, list):
        state.extend([None] * (path[-1] + 1 - len(state)))
    state[path[-1]] = value
