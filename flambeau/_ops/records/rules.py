"""Which dtypes an operation takes, computes in and gives."""

from __future__ import annotations

from typing import Any

from ..._core.dtypes import FLOATING, bfloat16, bool_, complex32, complex64, default, dtype, float16, float32

# What PyTorch calls dtypes in its messages.
SCALAR_NAMES = {
    "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long",
    "float16": "Half", "bfloat16": "BFloat16", "float32": "Float", "float64": "Double",
    "complex32": "ComplexHalf", "complex64": "ComplexFloat", "complex128": "ComplexDouble", "uint16": "UInt16", "uint32": "UInt32",
    "uint64": "UInt64", "quint8": "QUInt8", "qint8": "QInt8", "qint32": "QInt32", "quint4x2": "QUInt4x2",
    "quint2x4": "QUInt2x4",
}  # fmt: skip


def type_name(d: dtype) -> str:
    """What a message calls a dtype: "Float" for float32."""
    return SCALAR_NAMES.get(d.name, d.name)


def not_implemented(name: str, d: dtype) -> RuntimeError:
    """PyTorch's error for an op that has no kernel for a dtype (a NotImplementedError, which is a RuntimeError)."""
    return NotImplementedError(f"\"{name}\" not implemented for '{type_name(d)}'")


class Rule:
    """Which dtypes an op takes and gives. `takes` are categories; integers may be computed as floats."""

    __slots__ = ("excluded", "result", "short_complex", "takes", "to_float")

    def __init__(
        self, takes: str = "bifc", to_float: bool = False, result: dtype | str | None = None, excluded: Any = (),
        short_complex: bool = False,
    ):  # fmt: skip
        self.takes = frozenset("bifc".index(t) for t in takes)
        self.to_float, self.result, self.excluded = to_float, result, frozenset(excluded)
        self.short_complex = short_complex  # whether complex32 is taken, and computed in complex64

    def __call__(self, name: str, common: dtype) -> tuple[dtype, dtype]:
        if common is complex32 and self.short_complex:
            compute, kept = complex64, complex32
        elif common.category not in self.takes or not common.code or common in self.excluded:
            raise not_implemented(name, common)
        else:
            compute = kept = default.float if self.to_float and common.category < FLOATING else common
        if self.result is None:
            return compute, kept
        if self.result == "real":
            return compute, kept.to_real()
        return compute, self.result  # type: ignore[return-value]


arithmetic = Rule()
ring = Rule(short_complex=True)  # what PyTorch computes for complex numbers of 16 bits, too
floating = Rule(to_float=True)  # integers become the default float
floating_only = Rule("fc")  # integers are refused
real_floating = Rule("bif", to_float=True)
real_floating_only = Rule("f")
real = Rule("bif")
numeric = Rule("ifc")
real_numeric = Rule("if")
integral = Rule("bi")
comparison = Rule(result=bool_, short_complex=True)
ordering = Rule("bif", result=bool_)


class Equality(Rule):
    """A comparison that also takes the 8-bit floats, for which there are no kernels: they are compared as float32."""

    __slots__ = ()

    def __call__(self, name: str, common: dtype) -> tuple[dtype, dtype]:
        return super().__call__(name, float32 if common.name.startswith("float8") else common)


equality = Equality(result=bool_, short_complex=True)


class Refusing(Rule):
    """A rule that raises RuntimeError with a given message for some categories of dtypes.

    With `each`, no single operand may be of them either.
    """

    __slots__ = ("each", "message", "refused")

    def __init__(self, refused: str, message: str, *args: object, each: bool = False, **options: object):
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.each = each
        self.refused = frozenset("bifc".index(t) for t in refused)
        self.message = message

    def __call__(self, name: str, common: dtype) -> tuple[dtype, dtype]:
        if common.category in self.refused:
            raise RuntimeError(f"{name}: " + self.message)
        return super().__call__(name, common)


class Narrow(Rule):
    """A floating rule without the 16-bit types, for which PyTorch has no kernel."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("bif", to_float=True, excluded=(float16, bfloat16))


narrow = Narrow()
no_bool_difference = Refusing(
    "b",
    "Subtraction, the `-` operator, with a bool tensor is not supported. To invert a mask, use ~ or logical_not(); for "
    "two of them, ^ or logical_xor()",
    "bifc",
    each=True,
    short_complex=True,
)
no_bool_negation = Refusing(
    "b",
    "Negation, the `-` operator, on a bool tensor is not supported. To invert a mask, use ~ or logical_not()",
    "bifc",
    short_complex=True,
)
