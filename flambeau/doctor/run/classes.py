"""Where the attributes of a user's class are assigned in its source."""

from __future__ import annotations

import ast
import functools
import inspect
import os
from typing import Any

from ..._observe.frames import Place, is_user_file
from ..static.source import Source


@functools.lru_cache(maxsize=64)
def source_of(path: str) -> Source | None:
    """The parsed file, if it can be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return Source(path, file.read())
    except (OSError, SyntaxError, UnicodeDecodeError):
        return None


def user_class_file(kind: type) -> str | None:
    """The file of a class that the user wrote."""
    init = next((f for f in vars(kind).values() if inspect.isfunction(f)), None)
    path = init.__code__.co_filename if init is not None else None
    return path if path is not None and is_user_file(path) and os.path.exists(path) else None


def attribute_place(kind: type, name: str) -> Place | None:
    """The line that first assigns `self.name` in a user's class or its bases."""
    for base in kind.__mro__:
        path = user_class_file(base)
        source = source_of(path) if path else None
        if source is None:
            continue
        for (scope, attribute), entries in source.assigned.items():
            if attribute == name and getattr(scope, "name", None) == base.__name__ and entries:
                return path, min(line for line, _, _ in entries)
    return None


_BY_ELEMENT = (
    "softplus",
    "exp",
    "log",
    "sigmoid",
    "tanh",
    "softmax",
    "abs",
    "square",
    "sqrt",
    "relu",
    "elu",
    "clamp",
    "pow",
)


def used_by_element(kind: type, name: str) -> bool:
    """Whether methods of a user's class use `self.name` element by element only: it is no matrix of weights."""
    path = user_class_file(kind)
    source = source_of(path) if path else None
    owner = source.classes.get(kind.__name__) if source is not None else None
    uses = [
        source.parents[node]
        for node in (ast.walk(owner) if owner is not None else ())
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and ast.unparse(node) == f"self.{name}"
        and getattr(source.function(node), "name", "") not in ("__init__", "reset_parameters")
    ]
    return bool(uses) and all(
        (isinstance(use, ast.BinOp) and not isinstance(use.op, ast.MatMult))
        or (isinstance(use, ast.Call) and source.called(use) in _BY_ELEMENT)
        or (isinstance(use, ast.Attribute) and use.attr in _BY_ELEMENT)
        for use in uses
    )


def read_in_methods(kind: type, name: str) -> bool:
    """Whether methods of a user's class read `self.name` as it is, while only __init__ assigns it."""
    path = user_class_file(kind)
    source = source_of(path) if path else None
    owner = source.classes.get(kind.__name__) if source is not None else None
    if source is None or owner is None:
        return False
    init = next((f for f in owner.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"), None)
    lines = [line for line, _, _ in source.assigned.get((owner, name), ())]
    if init is None or not lines or not all(init.lineno <= line <= init.end_lineno for line in lines):
        return False
    for node in ast.walk(owner):
        if (
            isinstance(node, ast.Attribute)
            and node.attr == name
            and isinstance(node.ctx, ast.Load)
            and isinstance(node.value, ast.Name)
        ):
            above = source.parents.get(node)
            moved = isinstance(above, ast.Attribute) and above.attr in (
                "to",
                "cuda",
                "type_as",
                "shape",
                "size",
                "item",
                "tolist",
                "numpy",
            )
            if node.value.id == "self" and source.function(node) is not init and not moved:
                return True
    return False


def place_in(root: Any, path: str) -> Place | None:
    """The line that made a part of a model ("encoder.second.weight"), as far as classes of the user assign it."""
    owner, found = root, None
    for part in path.split("."):
        found = attribute_place(type(owner), part) or found
        owner = getattr(owner, part, None)
        if owner is None:
            break
    return found
