"""Which attributes of modules are constants of a script."""

from __future__ import annotations

import inspect
import sys
import typing
from typing import Any

from ..nn.modules.module import Module

_LAYERS = f"{__name__.partition('.')[0]}.nn."


def is_layer(module: Any) -> bool:
    """Whether a module is a layer of ours."""
    return (type(module).__module__ or "").startswith(_LAYERS)


def finals_of(module: Module) -> dict[str, Any]:
    """The attributes of a module that its class declares constant: annotated as `Final`, or named in `__constants__`."""
    kind = type(module)
    names = {
        name: None for base in reversed(kind.__mro__) for name, hint in annotations_of(base).items() if _is_final(hint)
    }
    found = {name: getattr(module, name, ...) for name in (*names, *getattr(kind, "__constants__", ()))}
    return {name: tuple(v) if isinstance(v, list) else v for name, v in found.items() if may_be_constant(v)}


def annotations_of(kind: type) -> dict[str, Any]:
    """The annotations that a class itself has. From Python 3.14 on they are made when somebody asks; names that are not there stay names."""
    if sys.version_info < (3, 14):
        return inspect.get_annotations(kind)
    import annotationlib

    found: dict[str, Any] = annotationlib.get_annotations(kind, format=annotationlib.Format.FORWARDREF)
    return found


def _is_final(hint: Any) -> bool:
    if isinstance(hint, str):
        return hint.partition("[")[0].rpartition(".")[2] == "Final"
    return hint is typing.Final or typing.get_origin(hint) is typing.Final


def may_be_constant(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(may_be_constant, value))
    return value is None or isinstance(value, (bool, int, float, str))
