"""Element types: the dtype objects, what NumPy and kernels call them, and PyTorch's promotion rules."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from .state import modes

BOOL, INTEGER, FLOATING, COMPLEX = range(4)


class dtype:
    """The type of a tensor's elements; every one is a single object, compared by identity."""

    __slots__ = (
        "aliases", "category", "code", "is_complex", "is_floating_point", "itemsize", "name",
        "numpy", "wide",
    )  # fmt: skip

    def __init__(self, name: str, numpy: Any, category: int, code: str = "", aliases: tuple[str, ...] = ()):
        self.name, self.numpy, self.category, self.code = name, np.dtype(numpy), category, code
        self.aliases = aliases
        self.is_floating_point = category == FLOATING
        self.is_complex = category == COMPLEX
        self.itemsize = self.numpy.itemsize
        self.wide: dtype = self  # the type that arithmetic is made in

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _by_name, (self.name,)

    def __copy__(self) -> dtype:
        return self

    def __deepcopy__(self, memo: Any) -> dtype:
        return self

    @property
    def abbr(self) -> str:
        """A short name: "f32" for float32."""
        if self is bool_:
            return "b8"
        for kind, letter in (("bfloat", "bf"), ("float", "f"), ("uint", "u"), ("int", "i"), ("complex", "c")):
            rest = self.name.removeprefix(kind)
            if rest != self.name and not (kind in ("int", "uint") and int(rest) < 8):
                return letter + rest.replace("_", "")
        if self.name.startswith("bits"):
            rest = self.name.removeprefix("bits")
            return f"b{rest}" if "x" in rest else f"b{rest}x1"
        return self.name

    @property
    def is_signed(self) -> bool:
        """Whether the type has negative numbers."""
        if self.name.startswith("q"):
            raise RuntimeError("isSignedType not supported for quantized types")
        if self.name.startswith("bits"):
            raise RuntimeError("Bits types are undefined")
        return not (self.category == BOOL or self.name.startswith("uint"))

    def to_real(self) -> dtype:
        """The type of the parts of a complex dtype."""
        return REAL_OF.get(self, self)

    def to_complex(self) -> dtype:
        return COMPLEX_OF.get(self, self)


def _by_name(name: str) -> dtype:
    return BY_NAME[name]


bool_ = dtype("bool", np.bool_, BOOL, "b1")
uint8 = dtype("uint8", np.uint8, INTEGER, "u8")
uint16 = dtype("uint16", np.uint16, INTEGER, "u16")
uint32 = dtype("uint32", np.uint32, INTEGER, "u32")
uint64 = dtype("uint64", np.uint64, INTEGER, "u64")
int8 = dtype("int8", np.int8, INTEGER, "i8")
int16 = dtype("int16", np.int16, INTEGER, "i16", ("short",))
int32 = dtype("int32", np.int32, INTEGER, "i32", ("int",))
int64 = dtype("int64", np.int64, INTEGER, "i64", ("long",))
float16 = dtype("float16", np.float16, FLOATING, "f16", ("half",))
bfloat16 = dtype("bfloat16", ml_dtypes.bfloat16, FLOATING, "bf16")
float32 = dtype("float32", np.float32, FLOATING, "f32", ("float",))
float64 = dtype("float64", np.float64, FLOATING, "f64", ("double",))
complex32 = dtype(
    "complex32", getattr(ml_dtypes, "complex32", "V4"), COMPLEX, "", ("chalf",)
)  # no kernels: a few operations compute in complex64
complex64 = dtype("complex64", np.complex64, COMPLEX, "c64", ("cfloat",))
complex128 = dtype("complex128", np.complex128, COMPLEX, "c128", ("cdouble",))
float8_e4m3fn = dtype("float8_e4m3fn", ml_dtypes.float8_e4m3fn, FLOATING)
float8_e5m2 = dtype("float8_e5m2", ml_dtypes.float8_e5m2, FLOATING)
float8_e4m3fnuz = dtype("float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz, FLOATING)
float8_e5m2fnuz = dtype("float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz, FLOATING)
float8_e8m0fnu = dtype("float8_e8m0fnu", ml_dtypes.float8_e8m0fnu, FLOATING)
float16.wide = bfloat16.wide = float32
complex32.wide = complex64
# integers that stand for other numbers (see quantizers)
quint8 = dtype("quint8", np.uint8, INTEGER)
qint8 = dtype("qint8", np.int8, INTEGER)
qint32 = dtype("qint32", np.int32, INTEGER)
quint4x2 = dtype("quint4x2", np.uint8, INTEGER)
quint2x4 = dtype("quint2x4", np.uint8, INTEGER)
QUANTIZED = frozenset((quint8, qint8, qint32, quint4x2, quint2x4))


def _packed(name: str, kind: Any, category: int = INTEGER, aliases: tuple[str, ...] = ()) -> dtype:
    """A dtype whose arrays NumPy moves but cannot compute with: records of one field."""
    return dtype(name, [(name, kind)], category, "", aliases)


# kept for kernels of a program's own: a few bits in each byte, or bits without a meaning
PACKED = (
    *(_packed(f"uint{n}", np.uint8, aliases=("bit",) if n == 1 else ()) for n in range(1, 8)),
    *(_packed(f"int{n}", np.int8) for n in range(1, 8)),
    *(_packed(name, np.uint8) for name in ("bits8", "bits1x8", "bits2x4", "bits4x2")),
    _packed("bits16", np.uint16), _packed("float4_e2m1fn_x2", np.uint8, FLOATING),
)  # fmt: skip

ALL = (
    bool_, uint8, uint16, uint32, uint64, int8, int16, int32, int64, float16, bfloat16, float32, float64,
    complex32, complex64, complex128, float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz, float8_e8m0fnu,
    quint8, qint8, qint32, quint4x2, quint2x4, *PACKED,
)  # fmt: skip
BY_NAME = {d.name: d for d in ALL}
BY_NUMPY = {d.numpy: d for d in ALL if d not in QUANTIZED}
PYTHON_TYPES: dict[object, dtype] = {float: float64, int: int64, bool: bool_, complex: complex128}
REAL_OF = {complex32: float16, complex64: float32, complex128: float64}
COMPLEX_OF = {float32: complex64, float64: complex128, float16: complex32, bfloat16: complex64}
FLOAT8 = frozenset(d for d in ALL if d.name.startswith("float8"))


def from_numpy_dtype(numpy_dtype: Any) -> dtype:
    """The dtype of a NumPy array; TypeError names the ones that can be, ValueError a foreign order of bytes."""
    found = BY_NUMPY.get(numpy_dtype)
    if found is None:
        found = BY_NUMPY.get(numpy_dtype.newbyteorder("="))
        if found is not None and not numpy_dtype.isnative:
            raise ValueError(
                "given numpy array has byte order different from the native one; convert it with astype first"
            )
        if found is None:
            raise TypeError(
                f"can't convert np.ndarray of type numpy.{numpy_dtype.type.__name__}: no dtype of tensors stands for it; use "
                "numbers or booleans"
            )
    return found


# -- promotion -------------------------------------------------------------------------------------

_SIGNED = [int8, int16, int32, int64]
_BARE_UNSIGNED = (uint16, uint32, uint64)  # they mix with no other integer
_FLOATS = [float16, float32, float64]


def _promote(a: dtype, b: dtype) -> dtype:
    if a is b:
        return a
    if a in QUANTIZED or b in QUANTIZED:
        raise RuntimeError(f"Quantized numbers are not promoted: {a} and {b}; dequantize() them first")
    if a in PACKED or b in PACKED:
        raise RuntimeError(f"Packed bits are not promoted: {a} and {b}")
    if a in FLOAT8 or b in FLOAT8:
        raise RuntimeError(f"Promotion for Float8 Types is not supported, attempted to promote {a} and {b}")
    if a.category > b.category:
        a, b = b, a
    if b.category == COMPLEX:
        if b is complex32:
            if a.category < FLOATING or a is float16:
                return b
            return COMPLEX_OF.get(a, a)
        if a is complex32:
            return b
        if a.category != COMPLEX and a is not float64:
            return b
        return complex128
    if b.category == FLOATING:
        if a.category != FLOATING:
            return b
        if bfloat16 in (a, b):
            other = a if b is bfloat16 else b
            return float32 if other is float16 else other
        return max(a, b, key=_FLOATS.index)
    if a.category == BOOL:
        return b
    if a in _BARE_UNSIGNED or b in _BARE_UNSIGNED:
        raise RuntimeError(
            f"Promotion for uint16, uint32, uint64 types is not supported, attempted to promote {a} and {b}"
        )
    if uint8 in (a, b):
        other = a if b is uint8 else b
        return int16 if other is int8 else other
    return max(a, b, key=_SIGNED.index)


_promotions: dict[tuple[dtype, dtype], dtype] = {}


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest dtype of which both are safely a part.

    >>> import flambeau as torch
    >>> torch.promote_types(torch.int32, torch.float16)
    torch.float16
    """
    if not isinstance(type1, dtype) or not isinstance(type2, dtype):
        raise TypeError(f"promote_types(): expected two dtypes, got {type1!r} and {type2!r}")
    if type1 is type2:
        return type1
    found = _promotions.get((type1, type2))
    if found is None:
        found = _promotions[type1, type2] = _promote(type1, type2)
    return found


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether a result of dtype `from_` may be written into a tensor of dtype `to`.

    >>> import flambeau as torch
    >>> torch.can_cast(torch.float32, torch.int32)
    False
    """
    if not isinstance(from_, dtype) or not isinstance(to, dtype):
        raise TypeError(f"can_cast(): expected two dtypes, got {from_!r} and {to!r}")
    return from_.category <= to.category


class _Default:
    """The dtype of floats that nobody gave one."""

    __slots__ = ("complex", "float")

    def __init__(self) -> None:
        self.float, self.complex = float32, complex64


default = _Default()
modes.default = float32


def set_default_dtype(d: dtype, /) -> None:
    """Sets the dtype of new floating tensors.

    >>> import flambeau as torch
    >>> torch.set_default_dtype(torch.float64); torch.tensor([1.0]).dtype
    torch.float64
    >>> torch.set_default_dtype(torch.float32)
    """
    if not isinstance(d, dtype):
        raise TypeError("invalid dtype object: only floating-point types are supported as the default type")
    if not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    default.float = modes.default = d
    default.complex = COMPLEX_OF.get(d, complex64)


def get_default_dtype() -> dtype:
    """The dtype of new floating tensors."""
    return default.float


def scalar_dtype(value: Any) -> dtype:
    """The dtype that a Python number has as a tensor."""
    kind = value.__class__
    if kind is bool:
        return bool_
    if kind is int:
        return int64
    if kind is float:
        return default.float
    if kind is complex:
        return default.complex
    for python, number in ((bool, bool_), (int, int64), (float, default.float), (complex, default.complex)):
        if isinstance(value, python):
            return number
    if isinstance(value, np.generic):
        category = from_numpy_dtype(value.dtype).category
        return (bool_, int64, default.float, default.complex)[category]
    raise TypeError(f"expected a number, got {type(value).__name__}")
