"""Questions about sizes that a compiler may not know. Sizes are numbers here, so that every question has an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..._tensor import Tensor

__all__ = [
    "CURRENT_NODE_KEY", "SHAPEENV_EVENT_KEY", "ConstraintViolationError", "ConvertIntKey", "GuardOnDataDependentSymNode", "ShapeEnv", "SymbolicContext",
    "canonicalize_bool_expr", "check_consistent", "compute_unbacked_bindings", "create_contiguous", "free_symbols",
    "free_unbacked_symbols", "guard_bool", "guard_float", "guard_int", "guard_or_false", "guard_or_true", "guard_scalar",
    "guard_size_oblivious", "guarding_hint_or_throw", "has_free_symbols", "has_free_unbacked_symbols", "has_static_value",
    "has_symbolic_sizes_strides", "is_accessor_node", "is_concrete_bool", "is_concrete_float", "is_concrete_int",
    "is_nested_int", "is_symbol_binding_fx_node", "is_symbolic", "optimization_hint", "rebind_unbacked",
    "resolve_unbacked_bindings", "statically_known_false", "statically_known_true", "sym_and", "sym_eq", "sym_or",
]  # fmt: skip

CURRENT_NODE_KEY = "current_node"
SHAPEENV_EVENT_KEY = "shapeenv_event"


class ConstraintViolationError(RuntimeError):
    """A size is not what was said of it."""


class GuardOnDataDependentSymNode(RuntimeError):
    """A decision of a program depends on elements of a tensor."""


def guard_or_false(a: Any) -> bool:
    """Whether a condition holds (a compiler that does not know says no).

    >>> guard_or_false(3 > 2), statically_known_true(2 > 3)
    (True, False)
    """
    return bool(a)


guard_or_true = guard_bool = guard_or_false


def guard_size_oblivious(expr: Any) -> bool:
    """Whether a condition on sizes holds."""
    return bool(expr)


def statically_known_true(x: Any) -> bool:
    """Whether a condition certainly holds."""
    return bool(x)


def statically_known_false(x: Any) -> bool:
    """Whether a condition certainly does not hold."""
    return not x


def guard_int(a: Any) -> int:
    """A size as a number."""
    return int(a)


def guard_float(a: Any) -> float:
    """A number that is no integer."""
    return float(a)


def is_symbolic(val: Any) -> bool:
    """Whether a number is not known yet: never."""
    return False


def is_concrete_int(a: Any) -> bool:
    """Whether a size is known: always."""
    return True


def free_symbols(val: Any) -> set[Any]:
    """The unknowns in a value: none."""
    return set()


free_unbacked_symbols = free_symbols


class ShapeEnv:
    """What a compiler knows of sizes; cannot be made, for programs that ask whether they have one."""

    def __init__(self, **options: Any) -> None:
        raise NotImplementedError("ShapeEnv: sizes are numbers here; nothing is traced with sizes that are not known")


@dataclass(frozen=True)
class SymbolicContext:
    """What is said of the sizes of an input before it is traced; base of a program's own."""


@dataclass(frozen=True)
class ConvertIntKey:
    """In the path to a value: a bool as the integer 0 or 1."""

    def __str__(self) -> str:
        return ".cast_symbool_to_symint_guardless()"

    def get(self, b: bool) -> int:
        """The integer."""
        return 1 if b else 0


def guard_scalar(a: Any) -> Any:
    """A number as a number of Python."""
    if isinstance(a, bool):
        return guard_bool(a)
    if isinstance(a, int):
        return guard_int(a)
    if isinstance(a, float):
        return guard_float(a)
    raise AssertionError(f"unrecognized scalar {a}")


def guarding_hint_or_throw(a: Any) -> Any:
    """A size as a number."""
    return a


def optimization_hint(a: Any, fallback: int | None = None) -> int:
    """The size to optimize for: the size itself."""
    return int(a)


def has_static_value(a: Any) -> bool:
    """Whether a number is known: always."""
    return True


def has_free_symbols(val: Any) -> bool:
    """Whether a value contains unknowns: never."""
    return False


def has_free_unbacked_symbols(x: Any) -> bool:
    """Whether a value contains unknowns that depend on data: never."""
    return False


def has_symbolic_sizes_strides(elem: Any) -> bool:
    """Whether a tensor has sizes that are not known: never."""
    return False


def is_concrete_bool(a: Any) -> bool:
    """Whether a condition is known: always."""
    return True


def is_concrete_float(a: Any) -> bool:
    """Whether a number is known: always."""
    return True


def is_nested_int(s: Any) -> bool:
    """Whether a size is that of a ragged dimension: not as a number."""
    return False


def canonicalize_bool_expr(expr: Any) -> Any:
    """A condition in its usual form; known ones have one form."""
    return expr


def sym_and(x: Any, *others: Any) -> Any:
    """Whether all conditions hold.

    >>> sym_and(True, 2 > 1, False), sym_or(False, 2 > 1)
    (False, True)
    """
    return bool(x) and all(others)


def sym_or(x: Any, *others: Any) -> Any:
    """Whether one of the conditions holds."""
    return bool(x) or any(others)


def sym_eq(x: Any, y: Any) -> bool:
    """Whether sizes, or lists of them, are the same.

    >>> sym_eq((2, 3), [2, 3]), sym_eq((2, 3), (2, 4))
    (False, False)
    >>> sym_eq((2, 3), (2, 3))
    True
    """
    if isinstance(x, (tuple, list)) and isinstance(y, (tuple, list)):
        return type(x) is type(y) and len(x) == len(y) and all(map(sym_eq, x, y))
    if isinstance(x, (int, float)) and isinstance(y, (int, float)):
        return bool(x == y)
    raise AssertionError(f"unexpected sym_eq between {type(x)} {type(y)}")


def create_contiguous(shape: Any) -> list[int]:
    """The strides of a row-major tensor.

    >>> create_contiguous([2, 3, 4])
    [12, 4, 1]
    """
    strides = [1]
    for size in reversed(shape[1:]):
        strides.append(size * strides[-1])
    return strides[::-1] if shape else []


def check_consistent(new: Any, old: Any) -> None:
    """Raises unless a value is like the one from before: tensors of the same shape, numbers of the same value."""
    if isinstance(new, Tensor):
        new, old = new.shape, old.shape
    elif not isinstance(new, (int, float)):
        return
    if new != old:
        raise RuntimeError(f"{old} != {new} (old != new)")


# -- unknowns that depend on data: none is ever bound --------------------------------------------------------------------


def compute_unbacked_bindings(
    shape_env: Any, example_value: object, old_example_value: object = None, peek: bool = False
) -> None:
    """Where a value binds unknowns: nowhere."""


def resolve_unbacked_bindings(shape_env: Any, bindings: Any) -> Any:
    """The bindings, with what is known put in."""
    return bindings


def rebind_unbacked(shape_env: Any, n: Any, result: Any) -> None:
    """Binds the unknowns of a result again; there are none."""


def is_symbol_binding_fx_node(node: Any) -> None:
    """The unknown that a node stands for: none."""


def is_accessor_node(node: Any) -> bool:
    """Whether a node reads a size, a stride, an offset or a number of a tensor.

    >>> import flambeau as torch
    >>> graph = torch.fx.symbolic_trace(lambda x: x.size(0) + 1).graph
    >>> [is_accessor_node(node) for node in graph.nodes]
    [False, True, False, False]
    """
    return node.op == "call_method" and node.target in ("size", "stride", "storage_offset", "item")
