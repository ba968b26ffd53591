"""Questions about sizes that a compiler may not know. Sizes are numbers here, so that every question has an answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ..._tensor import Tensor

__all__ = [
    "CURRENT_NODE_KEY", "SHAPEENV_EVENT_KEY", "ConstraintViolationError", "ConvertIntKey", "DimDynamic", "GuardOnDataDependentSymNode", "ShapeEnv", "Specialization", "StatefulSymbolicContext",
    "StatelessSymbolicContext", "SubclassSymbolicContext", "SymIntEqByExpr", "SymIntSymbolicContext", "SymbolicContext", "TrackedFake", "ValueRangesSLoc",
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

    def __init__(
        self, *, should_record_events: bool | None = None, tracked_fakes: list[Any] | None = None, **kwargs: Any
    ) -> None:
        raise NotImplementedError("ShapeEnv: sizes are numbers here; nothing is traced with sizes that are not known")


@dataclass(frozen=True)
class SymbolicContext:
    """What is said of the sizes of an input before it is traced; base of a program's own."""


class DimDynamic(Enum):
    """What is said of a size: it changes, may change, stays, or follows from another."""

    DYNAMIC, DUCK, STATIC, UNBACKED, INFER_STRIDE, OBLIVIOUS_SIZE = range(6)


@dataclass(frozen=True)
class StatelessSymbolicContext(SymbolicContext):
    """What is said of every size and stride of a tensor."""

    dynamic_sizes: Any
    dynamic_strides: Any = None
    constraint_sizes: Any = None
    constraint_strides: Any = None
    specialize_on: list[list[Any]] | None = None
    view_base_context: SymbolicContext | None = None
    shape_ids: dict[int, str | None] | None = None
    unbacked_bounds: dict[int, tuple[int | None, int | None]] | None = None

    def __post_init__(self) -> None:
        count = len(self.dynamic_sizes)
        for name, usual in (
            ("dynamic_strides", DimDynamic.INFER_STRIDE), ("constraint_sizes", None), ("constraint_strides", None),
        ):  # fmt: skip
            if getattr(self, name) is None:
                object.__setattr__(self, name, [usual] * count)
        if self.specialize_on is None:
            object.__setattr__(self, "specialize_on", [[] for _ in range(count)])
        allowed = (DimDynamic.INFER_STRIDE, DimDynamic.DYNAMIC, DimDynamic.DUCK)
        if not all(stride in allowed for stride in self.dynamic_strides):
            raise AssertionError(f"strides follow from sizes or change, got {self.dynamic_strides}")


@dataclass(frozen=True)
class StatefulSymbolicContext(StatelessSymbolicContext):
    """The same, for a tensor that comes from a certain place."""

    tensor_source: Any = field(kw_only=True)
    shape_env_to_source_to_symbol_cache: dict[int, dict[str, Any]] = field(kw_only=True, default_factory=dict)
    excluded_sizes: tuple[int | None, ...] | None = field(kw_only=True, default=None)


@dataclass(frozen=True)
class SubclassSymbolicContext(StatefulSymbolicContext):
    """The same, for a tensor that holds others."""

    inner_contexts: dict[str, SymbolicContext] = field(default_factory=dict)
    track_outer_size_stride: bool = True


@dataclass(frozen=True)
class SymIntSymbolicContext(SymbolicContext):
    """What is said of a number."""

    constraint: Any


@dataclass(frozen=True)
class TrackedFake:
    """A fake tensor, the place that it stands for, and what is said of its sizes."""

    fake: Any
    source: Any
    symbolic_context: SymbolicContext | None


@dataclass(frozen=True)
class Specialization:
    """A value of a size that a program of its own is made for."""

    source: Any
    check_fn: Any


@dataclass
class ValueRangesSLoc:
    """Where the bounds of a size were found out."""

    lower: Any
    upper: Any


class SymIntEqByExpr:
    """A size that equals another if both are the same expression; nothing is decided by the comparison.

    >>> SymIntEqByExpr(3) == SymIntEqByExpr(3), len({SymIntEqByExpr(3), SymIntEqByExpr(4)})
    (True, 2)
    """

    def __init__(self, val: Any) -> None:
        self.val = getattr(val, "node", val)

    def __repr__(self) -> str:
        return repr(self.val)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SymIntEqByExpr) and repr(self.val) == repr(other.val)

    def __hash__(self) -> int:
        return hash(repr(self.val))


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
