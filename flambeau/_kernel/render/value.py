"""Scalar values of a kernel under construction: typed, immutable, with Python's operators.

A renderer (`llvm`, that of `cuda`) is the only thing that knows how an operation is spelled; a `Value`
is a handle to one result of it. Kernel bodies are ordinary Python functions over these values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Number = bool | int | float

# Width in bits and class of every scalar type. f16, bf16 exist in memory only: they compute as f32.
BITS = {
    "b1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "u8": 8, "u16": 16, "u32": 32, "u64": 64,
    "f16": 16, "bf16": 16, "f32": 32, "f64": 64,
}  # fmt: skip
SIZE = {name: max(bits // 8, 1) for name, bits in BITS.items()} | {"c64": 8, "c128": 16}
COMPUTE = {"f16": "f32", "bf16": "f32"}
PART = {"c64": "f32", "c128": "f64"}


def inline(function: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function whose body is walked in place, with loops and branches, where a kernel calls it."""
    function.__kernel_inline__ = True  # type: ignore[attr-defined]
    return function


def is_float(type: str) -> bool:
    return type[0] == "f"


def is_signed(type: str) -> bool:
    return type[0] in "if"


def is_integer(type: str) -> bool:
    return type[0] in "iu"


def promote(a: str, b: str) -> str:
    """The type in which an operation of two values is made."""
    if a == b:
        return a
    if is_float(a) != is_float(b):
        return a if is_float(a) else b
    if BITS[a] != BITS[b]:
        return a if BITS[a] > BITS[b] else b
    return a if a[0] == "u" else b


def _binary(op: str, swap: bool = False) -> Any:
    """An operator of values and numbers."""

    def operator(self: Value, other: Any) -> Any:
        if not isinstance(other, (Value, bool, int, float)):
            return NotImplemented
        a, b = self._alike(other)
        if swap:
            a, b = b, a
        if a.type == "b1" and op in ("add", "sub", "mul", "div"):
            raise TypeError(f"{op} of two bool values; cast them first")
        return self.r.binary(op, a, b)

    return operator


def _compared(op: str) -> Any:
    """A comparison of values and numbers."""

    def operator(self: Value, other: Any) -> Any:
        if not isinstance(other, (Value, bool, int, float)):
            return NotImplemented
        return self.r.compare(op, *self._alike(other))

    return operator


class Value:
    """One scalar result; `type` is a key of BITS."""

    __slots__ = ("name", "r", "type")

    def __init__(self, r: Any, name: str, type: str):
        self.r, self.name, self.type = r, name, type

    def __repr__(self) -> str:
        return f"<{self.type} {self.name}>"

    def __bool__(self) -> bool:
        raise TypeError("a kernel value has no truth at build time; use where() or an if statement")

    def _pair(self, other: Any) -> tuple[Value, Value]:
        if not isinstance(other, Value):
            return self, self.r.constant(_literal_type(self.type, other), other)
        if other.type == self.type:
            return self, other
        common = promote(self.type, other.type)
        return self.r.cast(self, common), self.r.cast(other, common)

    def _alike(self, other: Any) -> tuple[Value, Value]:
        """Both of one type: an integer value may meet a float literal."""
        a, b = self._pair(other)
        return (a if a.type == b.type else self.r.cast(a, b.type)), b

    __add__, __radd__ = _binary("add"), _binary("add", True)
    __sub__, __rsub__ = _binary("sub"), _binary("sub", True)
    __mul__, __rmul__ = _binary("mul"), _binary("mul", True)
    __truediv__, __rtruediv__ = _binary("div"), _binary("div", True)
    __mod__, __floordiv__ = _binary("rem"), _binary("div")  # integers: towards zero, as in C
    __and__ = __rand__ = _binary("and")
    __or__ = __ror__ = _binary("or")
    __xor__ = __rxor__ = _binary("xor")
    __lshift__, __rshift__ = _binary("shl"), _binary("shr")
    __eq__, __ne__ = _compared("eq"), _compared("ne")
    __lt__, __le__, __gt__, __ge__ = _compared("lt"), _compared("le"), _compared("gt"), _compared("ge")

    def __neg__(self) -> Value:
        return self.r.negate(self)

    def __pos__(self) -> Value:
        return self

    __hash__ = object.__hash__

    def __invert__(self) -> Value:
        return self.r.binary("xor", self, self.r.constant(self.type, True if self.type == "b1" else -1))


def _literal_type(type: str, value: Number) -> str:
    """A literal takes the type of the value it meets; a float literal turns integers to float."""
    if isinstance(value, float) and not is_float(type):
        return "f32"
    return type if type != "b1" or isinstance(value, bool) else "i64"
