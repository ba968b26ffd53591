"""What TorchScript programs may do with values: the attributes, methods and parts that they can reach, and no others."""

from __future__ import annotations

import ast
from typing import Any

from .._tensor import Tensor
from . import _containers
from ._operators import attribute_of_tensor, find

_SUBSCRIPTED = (Tensor, list, tuple, dict, str)


class NamedValue:
    """What named tuples of a program are besides tuples."""

    fields: tuple[str, ...] = ()


class EnumValue:
    """A member of an enumeration of a program."""

    def __init__(self, script: Any, name: str, value: Any):
        self.script, self.name, self.value = script, name, value

    def __repr__(self) -> str:
        return f"{self.script.name}.{self.name}"

    def __deepcopy__(self, memo: Any) -> EnumValue:
        return self


class ScriptObject:
    """An object of a class that a program defines."""

    def __init__(self, script: Any):
        self._script, self._attributes = script, {}  # type: ignore[var-annotated]


def read_attribute(value: Any, name: str) -> Any:
    """`value.name` of a program: parts of modules and objects, fields of named tuples, properties of tensors."""
    if hasattr(value.__class__, "_script_read"):
        return value._script_read(name)
    if isinstance(value, Tensor):
        return attribute_of_tensor(value, name)
    if value.__class__ is ScriptObject and name in value._attributes:
        return value._attributes[name]
    if value.__class__ is EnumValue and name in ("name", "value"):
        return getattr(value, name)
    if isinstance(value, NamedValue) and name in value.fields:
        return getattr(value, name)
    if name in ("type", "index") and value.__class__.__name__ == "device":
        return getattr(value, name)
    fields = getattr(value.__class__, "_fields", ())  # results such as those of max(dim)
    if isinstance(value, tuple) and name in fields:
        return value[fields.index(name)]
    raise RuntimeError(f"the program reads attribute {name!r:.100} of a value of type {type(value).__name__}")


def write_attribute(value: Any, name: str, new: Any) -> None:
    if hasattr(value.__class__, "_script_write"):
        value._script_write(name, new)
    elif value.__class__ is ScriptObject and not name.startswith("__"):
        value._attributes[name] = new
    else:
        raise RuntimeError(f"the program sets attribute {name!r:.100} of a value of type {type(value).__name__}")


def call_method(value: Any, name: str, args: list[Any], named: dict[str, Any]) -> Any:
    """`value.name(...)` of a program."""
    script = value.__dict__.get("_script") if hasattr(value, "__dict__") else None
    if script is not None and (hasattr(value.__class__, "_script_read") or value.__class__ is ScriptObject):
        return script.method(name)(value, *args, **named)
    if isinstance(value, Tensor):
        return find("aten", name)(value, *args, **named)
    for kind, known in _containers.METHODS.items():
        if isinstance(value, kind) and name in known:
            return _containers.OTHERS[name](value, *args, **named)
    raise RuntimeError(f"the program calls {name!r:.100} on a value of type {type(value).__name__}")


def subscript(value: Any, key: Any) -> Any:
    if isinstance(value, _SUBSCRIPTED):
        if isinstance(value, Tensor) and key.__class__ is list:
            key = [k for k in key]
        return value[key]
    script_item = getattr(value.__class__, "_script_item", None)
    if script_item is not None:
        return script_item(value, key)
    raise RuntimeError(f"the program takes a part of a value of type {type(value).__name__}")


def is_of(value: Any, kind: ast.expr) -> bool:
    """Whether a value is of a type that the program names."""
    if isinstance(kind, (ast.Tuple, ast.List)):
        return any(is_of(value, k) for k in kind.elts)
    if isinstance(kind, ast.Subscript):
        base = kind.value.attr if isinstance(kind.value, ast.Attribute) else getattr(kind.value, "id", "")
        inside = kind.slice.elts if isinstance(kind.slice, ast.Tuple) else [kind.slice]
        if base == "Optional":
            return value is None or is_of(value, inside[0])
        if base == "Union":
            return any(is_of(value, k) for k in inside)
        if base in ("List", "list"):
            return isinstance(value, list) and all(is_of(v, inside[0]) for v in value)
        if base in ("Dict", "dict"):
            return isinstance(value, dict) and all(is_of(v, inside[1]) for v in value.values())
        if base in ("Tuple", "tuple"):
            return isinstance(value, tuple) and len(value) == len(inside) and all(map(is_of, value, inside))
        return False
    name = kind.attr if isinstance(kind, ast.Attribute) else getattr(kind, "id", getattr(kind, "value", ""))
    if name == "Tensor":
        return isinstance(value, Tensor)
    if name in ("None", None, "NoneType"):
        return value is None
    if name == "bool":
        return value.__class__ is bool
    kinds = {"int": int, "float": float, "str": str, "list": list, "tuple": tuple, "dict": dict, "complex": complex}
    if name in kinds:
        return isinstance(value, kinds[name]) and not (name == "int" and value.__class__ is bool)
    return name in ("number", "Number") and isinstance(value, (int, float)) and value.__class__ is not bool


def iterated(values: Any) -> Any:
    if isinstance(values, (list, tuple, dict, str, range, zip, enumerate, reversed, Tensor)) or values.__class__ in (
        type({}.keys()), type({}.values()), type({}.items())
    ):  # fmt: skip
        return values
    items = getattr(values.__class__, "_script_iterate", None)
    if items is not None:
        return items(values)
    raise RuntimeError(f"the program goes through a value of type {type(values).__name__}")
