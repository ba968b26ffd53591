"""Scalar values of a kernel under construction: typed, immutable, with Python's operators.

A renderer (`render_llvm`, `render_cuda`) is the only thing that knows how an operation is spelled; a `Value`
is a handle to one result of it. Kernel bodies are ordinary Python functions over these values.
"""

from __future__ import annotations

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

    def _binary(self, op: str, other: Any, swap: bool = False) -> Any:
        if not isinstance(other, (Value, bool, int, float)):
            return NotImplemented
        a, b = self._pair(other)
        if a.type != b.type:  # an integer value met a float literal
            a = self.r.cast(a, b.type)
        if swap:
            a, b = b, a
        if a.type == "b1" and op in ("add", "sub", "mul", "div"):
            raise TypeError(f"{op} of two bool values; cast them first")
        return self.r.binary(op, a, b)

    def _compare(self, op: str, other: Any) -> Any:
        if not isinstance(other, (Value, bool, int, float)):
            return NotImplemented
        a, b = self._pair(other)
        if a.type != b.type:
            a = self.r.cast(a, b.type)
        return self.r.compare(op, a, b)

    def __add__(self, o: Any) -> Any:
        return self._binary("add", o)

    def __radd__(self, o: Any) -> Any:
        return self._binary("add", o, True)

    def __sub__(self, o: Any) -> Any:
        return self._binary("sub", o)

    def __rsub__(self, o: Any) -> Any:
        return self._binary("sub", o, True)

    def __mul__(self, o: Any) -> Any:
        return self._binary("mul", o)

    def __rmul__(self, o: Any) -> Any:
        return self._binary("mul", o, True)

    def __truediv__(self, o: Any) -> Any:
        return self._binary("div", o)

    def __rtruediv__(self, o: Any) -> Any:
        return self._binary("div", o, True)

    def __mod__(self, o: Any) -> Any:
        return self._binary("rem", o)

    def __floordiv__(self, o: Any) -> Any:
        return self._binary("div", o)  # integers: towards zero, as in C

    def __and__(self, o: Any) -> Any:
        return self._binary("and", o)

    def __rand__(self, o: Any) -> Any:
        return self._binary("and", o)

    def __or__(self, o: Any) -> Any:
        return self._binary("or", o)

    def __ror__(self, o: Any) -> Any:
        return self._binary("or", o)

    def __xor__(self, o: Any) -> Any:
        return self._binary("xor", o)

    def __rxor__(self, o: Any) -> Any:
        return self._binary("xor", o)

    def __lshift__(self, o: Any) -> Any:
        return self._binary("shl", o)

    def __rshift__(self, o: Any) -> Any:
        return self._binary("shr", o)

    def __eq__(self, o: Any) -> Any:
        return self._compare("eq", o)

    def __ne__(self, o: Any) -> Any:
        return self._compare("ne", o)

    def __lt__(self, o: Any) -> Any:
        return self._compare("lt", o)

    def __le__(self, o: Any) -> Any:
        return self._compare("le", o)

    def __gt__(self, o: Any) -> Any:
        return self._compare("gt", o)

    def __ge__(self, o: Any) -> Any:
        return self._compare("ge", o)

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
