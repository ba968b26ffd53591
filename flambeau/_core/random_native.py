"""Machine code for the loops of the CPU random engine, as LLVM assembly. `install` hands over a compiler."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from . import random

_POINTER, _SIZE = ctypes.c_void_p, ctypes.c_int64
_UPPER, _LOWER, _MATRIX = 1 << 31, (1 << 31) - 1, 0x9908B0DF

# Minimax polynomials for log on [sqrt(1/2), sqrt(2)] and for sine and cosine on [-pi/4, pi/4], in float32.
LOG_POLYNOMIAL = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
COS_POLYNOMIAL = 2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2
SIN_POLYNOMIAL = -1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4
PI4_PARTS = 0.78515625, 2.4187564849853515625e-4, 3.77489497744594108e-8
SQRT_HALF_BITS = 0x3F3504F3


def _float(value: Any) -> str:
    """A float32 constant in LLVM's notation: the bits of the float64 of equal value."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', float(np.float32(value))))[0]:016X}"


def _loop(name: str, body: str, start: str, stop: str) -> str:
    """A counted loop that leaves to `{name}_done`; the body names its counter `%{name}`."""
    return f"""
  br label %{name}_enter
{name}_enter:
  %{name}_any = icmp slt i64 {start}, {stop}
  br i1 %{name}_any, label %{name}_body, label %{name}_done
{name}_body:
  %{name} = phi i64 [ {start}, %{name}_enter ], [ %{name}_next, %{name}_body ]
{body}
  %{name}_next = add nuw nsw i64 %{name}, 1
  %{name}_more = icmp slt i64 %{name}_next, {stop}
  br i1 %{name}_more, label %{name}_body, label %{name}_done
{name}_done:"""


def _twist(name: str, offset: int) -> str:
    """One step of the recurrence for word `%{name}`; `offset` leads to its third operand."""
    n = f"%{name}"
    return f"""
  {n}_p0 = getelementptr i32, ptr %state, i64 {n}
  {n}_i1 = add i64 {n}, 1
  {n}_p1 = getelementptr i32, ptr %state, i64 {n}_i1
  {n}_i2 = add i64 {n}, {offset}
  {n}_p2 = getelementptr i32, ptr %state, i64 {n}_i2
  {n}_0 = load i32, ptr {n}_p0
  {n}_1 = load i32, ptr {n}_p1
  {n}_2 = load i32, ptr {n}_p2
{_mixed(n)}
  store i32 {n}_new, ptr {n}_p0"""


def _mixed(n: str) -> str:
    return f"""
  {n}_u = and i32 {n}_0, {_UPPER}
  {n}_l = and i32 {n}_1, {_LOWER}
  {n}_y = or i32 {n}_u, {n}_l
  {n}_h = lshr i32 {n}_y, 1
  {n}_b = and i32 {n}_y, 1
  {n}_s = sub i32 0, {n}_b
  {n}_m = and i32 {n}_s, {_MATRIX}
  {n}_x = xor i32 {n}_2, {n}_h
  {n}_new = xor i32 {n}_x, {n}_m"""


_TEMPER = """
  %ps = getelementptr i32, ptr %from, i64 %t
  %w = load i32, ptr %ps
  %a1 = lshr i32 %w, 11
  %a = xor i32 %w, %a1
  %b1 = shl i32 %a, 7
  %b2 = and i32 %b1, 2636928640
  %b = xor i32 %a, %b2
  %c1 = shl i32 %b, 15
  %c2 = and i32 %c1, 4022730752
  %c = xor i32 %b, %c2
  %d1 = lshr i32 %c, 18
  %d = xor i32 %c, %d1
  %po = getelementptr i32, ptr %to, i64 %t"""


def _stream(name: str, parameters: str, setup: str, convert: str) -> str:
    """Draw `count` words; `convert` turns word %d into the four bytes that it stores at %po."""
    return f"""
define void @{name}(ptr noalias %state, ptr noalias %out, i64 %count{parameters}) {{
entry:{setup}
  %pos_p = getelementptr i32, ptr %state, i64 624
  %last_p = getelementptr i32, ptr %state, i64 623
  %middle_p = getelementptr i32, ptr %state, i64 396
  %pos_first = load i32, ptr %pos_p
  %pos_wide = zext i32 %pos_first to i64
  br label %outer
outer:
  %done = phi i64 [ 0, %entry ], [ %done_next, %t_done ]
  %pos = phi i64 [ %pos_wide, %entry ], [ %pos_next, %t_done ]
  %left = sub i64 %count, %done
  %finished = icmp sle i64 %left, 0
  br i1 %finished, label %exit, label %check
check:
  %spent = icmp sge i64 %pos, 624
  br i1 %spent, label %refill, label %ready
refill:{_loop("i", _twist("i", 397), "0", "227")}
{_loop("j", _twist("j", -227), "227", "623")}
  %z_0 = load i32, ptr %last_p
  %z_1 = load i32, ptr %state
  %z_2 = load i32, ptr %middle_p{_mixed("%z")}
  store i32 %z_new, ptr %last_p
  br label %ready
ready:
  %at = phi i64 [ %pos, %check ], [ 0, %j_done ]
  %room = sub i64 624, %at
  %fits = icmp slt i64 %left, %room
  %step = select i1 %fits, i64 %left, i64 %room
  %from = getelementptr i32, ptr %state, i64 %at
  %to = getelementptr i32, ptr %out, i64 %done
{_loop("t", _TEMPER + convert, "0", "%step")}
  %done_next = add i64 %done, %step
  %pos_next = add i64 %at, %step
  br label %outer
exit:
  %pos_last = trunc i64 %pos to i32
  store i32 %pos_last, ptr %pos_p
  ret void
}}
"""


def _fill_text(name: str) -> str:
    return _stream(name, "", "", "\n  store i32 %d, ptr %po")


def _floats_text(name: str) -> str:
    convert = f"""
  %k = and i32 %d, 16777215
  %f = sitofp i32 %k to float
  %u = fmul float %f, {_float(2.0**-24)}
  %v = call float @llvm.fma.f32(float %u, float %width, float %low)
  %end = fcmp oeq float %v, %high
  %r = select i1 %end, float %low, float %v
  store float %r, ptr %po"""
    setup = """
  %width = fsub float %high, %low"""
    return "declare float @llvm.fma.f32(float, float, float)" + _stream(
        name, ", float %low, float %high", setup, convert
    )


def _double(n: str, index: str) -> str:
    """%{n}: the float64 in [0, 1) of 53 bits from pair `index` of words, the high word first."""
    return f"""
  %{n}_p = getelementptr i64, ptr %words, i64 {index}
  %{n}_w = load i64, ptr %{n}_p, align 4
  %{n}_h = shl i64 %{n}_w, 32
  %{n}_l = lshr i64 %{n}_w, 32
  %{n}_x = or i64 %{n}_h, %{n}_l
  %{n}_m = and i64 %{n}_x, 9007199254740991
  %{n}_f = sitofp i64 %{n}_m to double
  %{n} = fmul double %{n}_f, {2.0**-53:.30e}"""


def _doubles_text(name: str) -> str:
    body = f"""{_double("u", "%i")}
  %v = call double @llvm.fma.f64(double %u, double %width, double %low)
  %end = fcmp oeq double %v, %high
  %r = select i1 %end, double %low, double %v
  %po = getelementptr double, ptr %out, i64 %i
  store double %r, ptr %po"""
    return f"""
declare double @llvm.fma.f64(double, double, double)
define void @{name}(ptr noalias %words, ptr noalias %out, i64 %count, double %low, double %high) {{
entry:
  %width = fsub double %high, %low
{_loop("i", body, "0", "%count")}
  ret void
}}
"""


def _affine_text(name: str) -> str:
    body = """
  %pi = getelementptr double, ptr %in, i64 %i
  %x = load double, ptr %pi
  %v = call double @llvm.fma.f64(double %x, double %scale, double %shift)
  %po = getelementptr double, ptr %out, i64 %i
  store double %v, ptr %po"""
    return f"""
declare double @llvm.fma.f64(double, double, double)
define void @{name}(ptr noalias %in, ptr noalias %out, i64 %count, double %scale, double %shift) {{
entry:{_loop("i", body, "0", "%count")}
  ret void
}}
"""


def _polar(radius: str) -> str:
    """The two normals %c and %s of radius sqrt(-2 %log) and angle 2 pi %angle, by the C library."""
    return f"""
  %square = fmul double {radius}, -2.0
  %radius = call double @llvm.sqrt.f64(double %square)
  %theta = fmul double %angle, {2 * np.pi:.30e}
  %cosine = call double @cos(double %theta)
  %sine = call double @sin(double %theta)
  %c = fmul double %radius, %cosine
  %s = fmul double %radius, %sine"""


_LIBRARY = """
declare double @llvm.fma.f64(double, double, double)
declare double @llvm.sqrt.f64(double)
declare double @log(double)
declare double @log1p(double)
declare double @cos(double)
declare double @sin(double)"""


def _pairs_text(name: str) -> str:
    body = f"""
  %first = shl i64 %i, 1
  %second = add i64 %first, 1{_double("angle", "%first")}{_double("u", "%second")}
  %minus = fneg double %u
  %log = call double @log1p(double %minus){_polar("%log")}
  %pc = getelementptr double, ptr %out, i64 %first
  %psn = getelementptr double, ptr %out, i64 %second
  store double %c, ptr %pc
  store double %s, ptr %psn"""
    return f"""{_LIBRARY}
define void @{name}(ptr noalias %words, ptr noalias %out, i64 %count) {{
entry:{_loop("i", body, "0", "%count")}
  ret void
}}
"""


def _exponential_text(name: str, wide: bool) -> str:
    """-log(1 - u) times a factor, by the C library."""
    kind, rounded = ("double", "") if wide else ("float", "\n  %n = fptrunc double %v to float")
    body = f"""{_double("u", "%i")}
  %minus = fneg double %u
  %log = call double @log1p(double %minus)
  %v = fmul double %log, %factor{rounded}
  %po = getelementptr {kind}, ptr %out, i64 %i
  store {kind} {"%v" if wide else "%n"}, ptr %po"""
    return f"""{_LIBRARY}
define void @{name}(ptr noalias %words, ptr noalias %out, i64 %count, double %factor) {{
entry:{_loop("i", body, "0", "%count")}
  ret void
}}
"""


def _normal64_text(name: str) -> str:
    """Rows of 16, as in `_normal_text`, in float64; `count` is the number of pairs."""
    body = f"""
  %row = and i64 %i, -8
  %first = add i64 %i, %row
  %second = add i64 %first, 8{_double("u", "%first")}{_double("angle", "%second")}
  %rest = fsub double 1.0, %u
  %log = call double @log(double %rest){_polar("%log")}
  %cr = call double @llvm.fma.f64(double %c, double %std, double %mean)
  %sr = call double @llvm.fma.f64(double %s, double %std, double %mean)
  %pc = getelementptr double, ptr %out, i64 %first
  %psn = getelementptr double, ptr %out, i64 %second
  store double %cr, ptr %pc
  store double %sr, ptr %psn"""
    return f"""{_LIBRARY}
define void @{name}(ptr noalias %words, ptr noalias %out, i64 %count, double %mean, double %std) {{
entry:{_loop("i", body, "0", "%count")}
  ret void
}}
"""


def _keep_text(name: str) -> str:
    body = f"""{_double("u", "%i")}
  %b = icmp ult i64 %u_m, %threshold
  %r = zext i1 %b to i8
  %po = getelementptr i8, ptr %out, i64 %i
  store i8 %r, ptr %po"""
    return f"""
define void @{name}(ptr noalias %words, ptr noalias %out, i64 %count, i64 %threshold) {{
entry:{_loop("i", body, "0", "%count")}
  ret void
}}
"""


def _swap_text(name: str) -> str:
    identity = """
  %pi = getelementptr i64, ptr %out, i64 %i
  store i64 %i, ptr %pi"""
    swap = """
  %pw = getelementptr i32, ptr %words, i64 %j
  %w = load i32, ptr %pw
  %range = sub i64 %count, %j
  %range32 = trunc i64 %range to i32
  %z = urem i32 %w, %range32
  %zw = zext i32 %z to i64
  %k = add i64 %j, %zw
  %pj = getelementptr i64, ptr %out, i64 %j
  %pk = getelementptr i64, ptr %out, i64 %k
  %vj = load i64, ptr %pj
  %vk = load i64, ptr %pk
  store i64 %vk, ptr %pj
  store i64 %vj, ptr %pk"""
    return f"""
define void @{name}(ptr noalias %words, ptr noalias %out, i64 %count) {{
entry:
  %steps = sub i64 %count, 1
{_loop("i", identity, "0", "%count")}
{_loop("j", swap, "0", "%steps")}
  ret void
}}
"""


class _Vector:
    """Writes straight-line code over vectors of eight lanes."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def emit(self, text: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def real(self, op: str, a: str, b: str) -> str:
        return self.emit(f"{op} <8 x float> {a}, {b}")

    def whole(self, op: str, a: str, b: str) -> str:
        return self.emit(f"{op} <8 x i32> {a}, {b}")

    def convert(self, op: str, a: str, source: str, target: str) -> str:
        return self.emit(f"{op} <8 x {source}> {a} to <8 x {target}>")

    def fused(self, a: str, b: str, c: str) -> str:
        arguments = ", ".join(f"<8 x float> {x}" for x in (a, b, c))
        return self.emit(f"call <8 x float> @llvm.fma.v8f32({arguments})")

    def select(self, mask: str, a: str, b: str) -> str:
        return self.emit(f"select <8 x i1> {mask}, <8 x float> {a}, <8 x float> {b}")

    def polynomial(self, coefficients: tuple[Any, ...], x: str) -> str:
        value = splat(coefficients[0])
        for coefficient in coefficients[1:]:
            value = self.fused(value, x, splat(coefficient))
        return value

    def uniform(self, words: str) -> str:
        low = self.whole("and", words, count(0xFFFFFF))
        return self.real("fmul", self.convert("sitofp", low, "i32", "float"), splat(2.0**-24))

    def log(self, x: str) -> str:
        """Natural logarithms of float32 in (0, 1], with the roundings of PyTorch's vector code."""
        bits = self.convert("bitcast", x, "float", "i32")
        above = self.whole("sub", bits, count(SQRT_HALF_BITS))
        exponent = self.whole("ashr", above, count(23))
        scaled = self.whole("sub", bits, self.whole("shl", exponent, count(23)))
        m = self.real("fsub", self.convert("bitcast", scaled, "i32", "float"), splat(1))
        e = self.convert("sitofp", exponent, "i32", "float")
        square = self.real("fmul", m, m)
        y = self.real("fmul", self.polynomial(LOG_POLYNOMIAL, m), m)
        y = self.fused(y, square, self.real("fmul", e, splat(LN2_LOW)))
        y = self.real("fsub", y, self.real("fmul", square, splat(0.5)))
        return self.real("fadd", self.real("fadd", m, y), self.real("fmul", e, splat(LN2_HIGH)))

    def cos_sin(self, x: str) -> tuple[str, str]:
        """Cosines and sines of float32 in [0, 2 pi), with the roundings of PyTorch's vector code."""
        turns = self.real("fmul", x, splat(1.27323954473516))
        octant = self.convert("fptosi", turns, "float", "i32")
        octant = self.whole("and", self.whole("add", octant, count(1)), count(-2))
        j = self.convert("sitofp", octant, "i32", "float")
        for part in PI4_PARTS:
            x = self.fused(j, splat(-part), x)
        square = self.real("fmul", x, x)
        cosine = self.real("fmul", self.polynomial(COS_POLYNOMIAL, square), square)
        cosine = self.fused(cosine, square, self.real("fmul", square, splat(-0.5)))
        cosine = self.real("fadd", cosine, splat(1))
        sine = self.real("fmul", self.polynomial(SIN_POLYNOMIAL, square), square)
        sine = self.fused(sine, x, x)
        bit = self.whole("and", octant, count(2))
        swapped = self.emit(f"icmp ne <8 x i32> {bit}, zeroinitializer")
        turned = self.whole("add", octant, count(2))
        return (
            self.signed(self.select(swapped, sine, cosine), turned),
            self.signed(self.select(swapped, cosine, sine), octant),
        )

    def signed(self, value: str, octant: str) -> str:
        sign = self.whole("shl", self.whole("and", octant, count(4)), count(29))
        bits = self.whole("xor", self.convert("bitcast", value, "float", "i32"), sign)
        return self.convert("bitcast", bits, "i32", "float")


def splat(value: Any) -> str:
    return "<" + ", ".join([f"float {_float(value)}"] * 8) + ">"


def count(value: int) -> str:
    return "<" + ", ".join([f"i32 {value}"] * 8) + ">"


def _normal_text(name: str) -> str:
    """Rows of 16 words into rows of 16 normals."""
    v = _Vector()
    start = v.emit("shl i64 %i, 4")
    half = v.emit(f"add i64 {start}, 8")
    loaded = []
    for at in (start, half):
        place = v.emit(f"getelementptr i32, ptr %words, i64 {at}")
        loaded.append(v.uniform(v.emit(f"load <8 x i32>, ptr {place}, align 4")))
    log = v.log(v.real("fsub", splat(1), loaded[0]))
    radius = v.real("fmul", log, splat(-2))
    radius = v.emit(f"call <8 x float> @llvm.sqrt.v8f32(<8 x float> {radius})")
    angle = v.real("fmul", loaded[1], splat(2 * np.pi))
    for at, wave in zip((start, half), v.cos_sin(angle), strict=True):
        value = v.fused(v.real("fmul", radius, wave), "%std8", "%mean8")
        place = v.emit(f"getelementptr float, ptr %out, i64 {at}")
        v.lines.append(f"  store <8 x float> {value}, ptr {place}, align 4")
    body = "\n".join(v.lines)
    spread = "<8 x float> poison, <8 x i32> zeroinitializer"
    return f"""
declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare <8 x float> @llvm.sqrt.v8f32(<8 x float>)
define void @{name}(ptr noalias %words, ptr noalias %out, i64 %rows, float %mean, float %std) {{
entry:
  %mean1 = insertelement <8 x float> poison, float %mean, i64 0
  %mean8 = shufflevector <8 x float> %mean1, {spread}
  %std1 = insertelement <8 x float> poison, float %std, i64 0
  %std8 = shufflevector <8 x float> %std1, {spread}
{_loop("i", body, "0", "%rows")}
  ret void
}}
"""


_FLOAT, _DOUBLE = ctypes.c_float, ctypes.c_double
_ARRAYS = (_POINTER, _POINTER, _SIZE)
_KERNELS: dict[str, tuple[Callable[[str], str], tuple[Any, ...]]] = {
    "fill": (_fill_text, _ARRAYS),
    "floats": (_floats_text, (*_ARRAYS, _FLOAT, _FLOAT)),
    "doubles": (_doubles_text, (*_ARRAYS, _DOUBLE, _DOUBLE)),
    "affine": (_affine_text, (*_ARRAYS, _DOUBLE, _DOUBLE)),
    "keep": (_keep_text, (*_ARRAYS, _SIZE)),
    "swap": (_swap_text, _ARRAYS),
    "normal": (_normal_text, (*_ARRAYS, _FLOAT, _FLOAT)),
    "normal64": (_normal64_text, (*_ARRAYS, _DOUBLE, _DOUBLE)),
    "pairs": (_pairs_text, _ARRAYS),
    "exponential32": (lambda name: _exponential_text(name, False), (*_ARRAYS, _DOUBLE)),
    "exponential64": (lambda name: _exponential_text(name, True), (*_ARRAYS, _DOUBLE)),
}


class Kernels:
    """The compiled loops as attributes, each made at its first use."""

    def __init__(self, compile: Callable[[str, str], int], find_address: Callable[[], Any]) -> None:
        self._compile, self._find_address = compile, find_address

    def __getattr__(self, name: str) -> Any:
        if name == "address":  # of an array's memory
            self.address = self._find_address()
            return self.address
        if name not in _KERNELS:
            raise AttributeError(name)
        text, parameters = _KERNELS[name]
        symbol = f"random_{name}"
        function = ctypes.CFUNCTYPE(None, *parameters)(self._compile(symbol, text(symbol)))
        setattr(self, name, function)
        return function


def install(compile: Callable[[str, str], int], find_address: Callable[[], Any] = lambda: random.address) -> None:
    """Use machine code from now on; `compile(name, text)` gives the address of the function.

    `find_address` gives a function of an array: where its memory begins.
    """
    random.use_kernels(Kernels(compile, find_address))
