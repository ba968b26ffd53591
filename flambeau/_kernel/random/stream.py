"""Loops of the CPU random engine (`_core/random.py`), which calls them by addresses: the stream of words, and what becomes of words.

Uniform numbers have 24 bits (float32, of one word) or 53 bits (float64, of two words, the high one first). Functions of the C library
are called for float64, and normals in float32 are rounded as PyTorch's vector code rounds, so that results are PyTorch's to the bit.
"""

from __future__ import annotations

import array
import ctypes
import math
import struct
from collections.abc import Callable
from typing import Any

from ..._core.state import BATCHED, modes
from ..building import jit
from ..loops.dialect import compile_function
from ..loops.lang import Array, KernelScope, Walker, independent, inline
from ..native import direct
from ..native.interpreter import slot_offset
from ..native.site import usable
from ..render.llvm import Llvm
from ..render.value import SIZE, Value

_WORDS = 624  # of the state; its position follows
_UPPER, _LOWER, _MATRIX = 1 << 31, (1 << 31) - 1, 0x9908B0DF
# Minimax polynomials for log on [sqrt(1/2), sqrt(2)] and for sine and cosine on [-pi/4, pi/4], in float32.
_LOG = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
_COS = 2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2
_SIN = -1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1
_LN2 = 0.693359375, -2.12194440e-4
_QUARTER_PI = 0.78515625, 2.4187564849853515625e-4, 3.77489497744594108e-8
_SQRT_HALF_BITS = 0x3F3504F3


# -- the stream ----------------------------------------------------------------------------------------------------------


def _mixed(a: Value, b: Value, c: Value) -> Value:
    """One step of the recurrence of mt19937."""
    y = (a & _UPPER) | (b & _LOWER)
    return c ^ (y >> 1) ^ ((y & 1) * _MATRIX)


def _tempered(w: Value) -> Value:
    w = w ^ (w >> 11)
    w = w ^ ((w << 7) & 0x9D2C5680)
    w = w ^ ((w << 15) & 0xEFC60000)
    return w ^ (w >> 18)


def seed(m, state, spare, count, first):
    """All words of a state from the first one; none of them has been drawn."""
    state[0] = m.cast(first, "u32")
    for i in range(1, count):
        before = state[i - 1]
        state[i] = (before ^ (before >> 30)) * 1812433253 + m.cast(i, "u32")
    state[_WORDS] = m.cast(count, "u32")


@inline
def _stream(m, state, out, count, convert):
    """The next words, each converted to an element."""
    done = 0
    at = m.cast(state[_WORDS], "i64")
    while done < count:
        if at >= _WORDS:
            for i in range(0, 227):
                state[i] = _mixed(state[i], state[i + 1], state[i + 397])
            for i in range(227, 623):
                state[i] = _mixed(state[i], state[i + 1], state[i - 227])
            state[623] = _mixed(state[623], state[0], state[396])
            at = 0
        step = m.minimum(count - done, _WORDS - at)
        for t in independent(step):
            out[done + t] = convert(m, _tempered(state[at + t]))
        done += step
        at += step
    state[_WORDS] = m.cast(at, "u32")


def fill(m, state, out, count):
    _stream(m, state, out, count, _as_it_is)


def floats(m, state, out, count, low, high):
    _stream(m, state, out, count, _between(low, high))


def _as_it_is(m: Any, word: Value) -> Value:
    return word


def _between(low: Value, high: Value) -> Callable[[Any, Value], Value]:
    width = high - low
    return lambda m, word: _stretched(m, _uniform(m, word), width, low, high)


def _stretched(m: Any, u: Value, width: Value, low: Value, high: Value) -> Value:
    """[0, 1) taken to [low, high); what rounding takes to the open end becomes `low`."""
    v = m.fma(u, width, low)
    return m.where(v == high, low, v)


def _uniform(m: Any, word: Value) -> Value:
    return m.cast(m.cast(word & 0xFFFFFF, "i32"), "f32") * 2.0**-24


# -- float64 -------------------------------------------------------------------------------------------------------------


def _bits(m: Any, pair: Value) -> Value:
    return m.cast(((pair << 32) | (pair >> 32)) & ((1 << 53) - 1), "i64")


def _double(m: Any, pair: Value) -> Value:
    return m.cast(_bits(m, pair), "f64") * 2.0**-53


def _uniform64(m: Any, words: Any, i: Any) -> Value:
    return _double(m, m.cast(words[2 * i], "u64") | (m.cast(words[2 * i + 1], "u64") << 32))


def doubles(m, words, out, count, low, high):
    width = high - low
    for i in independent(count):
        out[i] = _stretched(m, _double(m, words[i]), width, low, high)


def integers(m, words, out, count, low, span):
    """low + word % span."""
    for i in independent(count):
        out[i] = low + m.cast(words[i], "i64") % span


def affine(m, x, out, count, scale, shift):
    for i in independent(count):
        out[i] = m.fma(x[i], scale, shift)


def keep(m, words, out, count, threshold):
    for i in independent(count):
        out[i] = _bits(m, words[i]) < threshold


def exponential(m, words, out, count, factor):
    """-log(1 - u) times a factor."""
    for i in range(count):
        out[i] = m.cast(m.library("log1p", -_double(m, words[i])) * factor, out.type)


def _polar(m: Any, log: Value, angle: Value) -> tuple[Value, Value]:
    """The two normals of radius sqrt(-2 log) at an angle given in turns."""
    radius, theta = m.real_sqrt(log * -2.0), angle * (2.0 * math.pi)
    return radius * m.library("cos", theta), radius * m.library("sin", theta)


def pairs(m, words, out, count):
    """Two uniforms give two normals, one after the other."""
    for i in range(count):
        first, second = _polar(m, m.library("log1p", -_double(m, words[2 * i + 1])), _double(m, words[2 * i]))
        out[2 * i] = first
        out[2 * i + 1] = second


def singles(m, state, words, spare, out, count, mean, std):
    """Normals one by one. What is left of a pair is kept for the next call; before it stands whether there is one."""
    start = m.cast(spare[0], "i64")
    pairs = (count - start + 1) >> 1
    _stream(m, state, words, 4 * pairs, _as_it_is)
    if start > 0:
        out[0] = m.cast(m.fma(spare[1], std, mean), out.type)
        spare[0] = 0.0
    for i in range(pairs):
        at = start + 2 * i
        first, second = _polar(m, m.library("log1p", -_uniform64(m, words, 2 * i + 1)), _uniform64(m, words, 2 * i))
        out[at] = m.cast(m.fma(first, std, mean), out.type)
        if at + 1 < count:
            out[at + 1] = m.cast(m.fma(second, std, mean), out.type)
        else:
            spare[0] = 1.0
            spare[1] = second


def normal64(m, words, out, count, mean, std):
    """Rows of 16: of 16 uniforms, 8 give radii and 8 give angles; `count` is the number of pairs."""
    for i in range(count):
        at = i + (i & -8)
        first, second = _polar(m, m.library("log", 1.0 - _double(m, words[at])), _double(m, words[at + 8]))
        out[at] = m.fma(first, std, mean)
        out[at + 8] = m.fma(second, std, mean)


def swap(m, words, out, count):
    """A permutation: place j is swapped with one of those from it on."""
    for i in independent(count):
        out[i] = i
    for j in range(count - 1):
        k = j + m.cast(words[j] % m.cast(count - j, "u32"), "i64")
        here, there = out[j], out[k]
        out[j] = there
        out[k] = here


# -- normals in float32 --------------------------------------------------------------------------------------------------


def _polynomial(m: Any, coefficients: tuple[float, ...], x: Value) -> Value:
    value: Any = x.r.constant("f32", coefficients[0])
    for c in coefficients[1:]:
        value = m.fma(value, x, c)
    return value


def _log(m: Any, x: Value) -> Value:
    """The natural logarithm of a number in (0, 1]."""
    bits = m.bits(x)
    exponent = (bits - _SQRT_HALF_BITS) >> 23
    f = m.from_bits(bits - (exponent << 23)) - 1.0
    e = m.cast(exponent, "f32")
    square = f * f
    y = m.fma(_polynomial(m, _LOG, f) * f, square, e * _LN2[1]) - square * 0.5
    return (f + y) + e * _LN2[0]


def _cos_sin(m: Any, x: Value) -> tuple[Value, Value]:
    """Cosine and sine of an angle in [0, 2 pi)."""
    octant = (m.cast(x * 1.27323954473516, "i32") + 1) & -2
    j = m.cast(octant, "f32")
    for part in _QUARTER_PI:
        x = m.fma(j, -part, x)
    square = x * x
    cosine = m.fma(_polynomial(m, _COS, square) * square, square, square * -0.5) + 1.0
    sine = m.fma(_polynomial(m, _SIN, square) * square, x, x)
    swapped = (octant & 2) != 0
    return _signed(m, m.where(swapped, sine, cosine), octant + 2), _signed(m, m.where(swapped, cosine, sine), octant)


def _signed(m: Any, value: Value, octant: Value) -> Value:
    """The sign is one bit of the octant, moved to the sign bit of the float."""
    return m.from_bits(m.bits(value) ^ ((octant & 4) << 29))


def normal(m, words, out, rows, mean, std):
    """Rows of 16 words into rows of 16 normals."""
    for row in range(rows):
        for lane in independent(8, abreast=2):
            at = row * 16 + lane
            radius = m.real_sqrt(_log(m, 1.0 - _uniform(m, words[at])) * -2.0)
            cosine, sine = _cos_sin(m, _uniform(m, words[at + 8]) * (2.0 * math.pi))
            out[at] = m.fma(radius * cosine, std, mean)
            out[at + 8] = m.fma(radius * sine, std, mean)


# -- functions -----------------------------------------------------------------------------------------------------------

_LONG = 1 << 14  # elements from which others may have the interpreter meanwhile
_C_TYPES: dict[str, Any] = {"i64": ctypes.c_int64, "f32": ctypes.c_float, "f64": ctypes.c_double}
_LLVM_TYPES = {"i64": "i64", "f32": "float", "f64": "double"}
# The function, the types of the elements of its arrays, and those of the numbers after them, of which the first is how many elements.
_LOOPS: dict[str, tuple[Callable[..., None], tuple[str, ...], tuple[str, ...]]] = {
    "seed": (seed, ("u32", "u32"), ("i64", "i64")),
    "fill": (fill, ("u32", "u32"), ("i64",)),
    "floats": (floats, ("u32", "f32"), ("i64", "f32", "f32")),
    "doubles": (doubles, ("u64", "f64"), ("i64", "f64", "f64")),
    "affine": (affine, ("f64", "f64"), ("i64", "f64", "f64")),
    "keep": (keep, ("u64", "b1"), ("i64", "i64")),
    "swap": (swap, ("u32", "i64"), ("i64",)),
    "integers": (integers, ("u32", "i64"), ("i64", "i64", "i64")),
    "normal": (normal, ("u32", "f32"), ("i64", "f32", "f32")),
    "normal64": (normal64, ("u64", "f64"), ("i64", "f64", "f64")),
    "singles": (singles, ("u32", "u32", "f64", "f32"), ("i64", "f64", "f64")),
    "pairs": (pairs, ("u64", "f64"), ("i64",)),
    "exponential32": (exponential, ("u64", "f32"), ("i64", "f64")),
    "exponential64": (exponential, ("u64", "f64"), ("i64", "f64")),
}


def _render(symbol: str, name: str) -> str:
    body, arrays, numbers = _LOOPS[name]
    given = body.__code__.co_varnames[1 : body.__code__.co_argcount]
    types = [*["ptr noalias"] * len(arrays), *[_LLVM_TYPES[t] for t in numbers]]
    r = Llvm(symbol, [f"{t} %{n}" for t, n in zip(types, given)])
    names: dict[str, Any] = {n: Array(r, f"%{n}", t, [], [r.constant("i64", SIZE[t])]) for n, t in zip(given, arrays)}
    names.update((n, Value(r, f"%{n}", t)) for n, t in zip(given[len(arrays) :], numbers))
    Walker(r, body, {"m": KernelScope(r), **names}).run()
    return r.text()


def _render_called(symbol: str, name: str) -> str:
    """Assembly of a function that Python calls with numbers: it hands them on to the loop whose address its `self` begins with, and gives
    None, whose address comes next. Other threads of the interpreter run while a long loop does."""
    lines, given = [], []
    _, arrays, numbers = _LOOPS[name]
    for j, t in enumerate((*["ptr"] * len(arrays), *numbers)):
        lines += [f"  %q{j} = getelementptr i64, ptr %array, i64 {j}", f"  %o{j} = load i64, ptr %q{j}, align 8"]
        if t[0] == "f":
            lines.append(f"  %d{j} = call double @PyFloat_AsDouble(i64 %o{j})")
            lines += [f"  %f{j} = fptrunc double %d{j} to float"] if t == "f32" else []
            given.append(f"float %f{j}" if t == "f32" else f"double %d{j}")
        else:
            lines.append(f"  %v{j} = call i64 @PyLong_AsLong(i64 %o{j})")
            lines += [f"  %p{j} = inttoptr i64 %v{j} to ptr"] if t == "ptr" else []
            given.append(f"ptr %p{j}" if t == "ptr" else f"i64 %v{j}")
    run = f"  call void %loop({', '.join(given)})"
    return "\n".join([
        "declare i64 @PyLong_AsLong(i64)", "declare double @PyFloat_AsDouble(i64)", "declare i64 @PyErr_Occurred()",
        "declare i64 @PyEval_SaveThread()", "declare void @PyEval_RestoreThread(i64)", "declare void @Py_IncRef(i64)",
        f"define i64 @{symbol}(i64 %self, i64 %args, i64 %given) nounwind {{", "  %words = add i64 %self, BYTES",
        "  %first = inttoptr i64 %words to ptr", "  %loop = load ptr, ptr %first, align 1",
        "  %second = getelementptr i64, ptr %first, i64 1", "  %none = load i64, ptr %second, align 1",
        "  %array = inttoptr i64 %args to ptr", *lines, "  %problem = call i64 @PyErr_Occurred()",
        "  %wrong = icmp ne i64 %problem, 0", "  br i1 %wrong, label %raise, label %go", "raise:", "  ret i64 0", "go:",
        f"  %long = icmp sgt i64 %v{len(arrays)}, {_LONG}", "  br i1 %long, label %free, label %held", "free:",
        "  %thread = call i64 @PyEval_SaveThread()", run, "  call void @PyEval_RestoreThread(i64 %thread)", "  br label %done",
        "held:", run, "  br label %done", "done:", "  call void @Py_IncRef(i64 %none)", "  ret i64 %none", "}", "",
    ])  # fmt: skip


def _render_step(symbol: str, name: str) -> str:
    """Assembly of a function of words: the address of the loop, and what it is given, all floats as float64."""
    lines, given = [], []
    _, arrays, numbers = _LOOPS[name]
    for j, t in enumerate((*["ptr"] * len(arrays), *numbers)):
        wide = "double" if t[0] == "f" else "i64" if t == "i64" else "ptr"
        lines += [f"  %q{j} = getelementptr i64, ptr %array, i64 {j + 1}", f"  %v{j} = load {wide}, ptr %q{j}, align 8"]
        lines += [f"  %s{j} = fptrunc double %v{j} to float"] if t == "f32" else []
        given.append(f"float %s{j}" if t == "f32" else f"{wide} %v{j}")
    return "\n".join([
        f"define i64 @{symbol}(i64 %words, i64 %threads) nounwind {{", "  %array = inttoptr i64 %words to ptr",
        "  %loop = load ptr, ptr %array, align 8", *lines, f"  call void %loop({', '.join(given)})", "  ret i64 0", "}", "",
    ])  # fmt: skip


def _take(m, words, threads):
    missing = m.number(1)
    overrides = m.call("PyLong_AsLong", m.word(m.word(words, 24)))
    if ((overrides & m.word(words, 32)) == 0) & (m.word(m.word(words, 40)) == m.word(words, 48)):
        got = m.call("PyObject_Vectorcall", m.word(words), words + 8, 1, 0)
        m.run("Py_DecRef", got)
        if got == m.word(words, 16):
            missing = 0
    return missing


def _give(m, words, threads):
    m.run("Py_DecRef", m.call("PyObject_Vectorcall", m.word(words), words, 0, 0))
    return 0


class Loops:
    """The compiled loops as attributes, each made at its first use, and `address`: where an array's memory begins."""

    def __getattr__(self, name: str) -> Any:
        if name == "address":
            self.address = direct.address_function()
            return self.address
        if name not in _LOOPS:
            raise AttributeError(name)
        symbol, place = f"random_{name}", self.loop(name)
        function: Any
        if usable():  # ctypes takes a microsecond to hand numbers over
            called = f"call_{symbol}"
            function = direct.bound_text(called, _render_called(called, name), struct.pack("2q", place, id(None)))
        else:
            _, arrays, numbers = _LOOPS[name]
            function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays), *[_C_TYPES[t] for t in numbers])(place)
        setattr(self, name, function)
        return function

    def loop(self, name: str) -> int:
        """The address of a loop."""
        symbol = f"random_{name}"
        return jit.compile_rendered(symbol, (symbol,), lambda: _render(symbol, name))

    def step(self, name: str, *given: int | float) -> tuple[int, array.array[int]]:
        """A call of a loop as part of a plan: the address of a function of words, and these words."""
        symbol = f"step_{name}"
        step = jit.compile_rendered(symbol, (symbol,), lambda: _render_step(symbol, name))
        bits = [struct.unpack("q", struct.pack("d", v))[0] if isinstance(v, float) else v for v in given]
        return step, array.array("q", [self.loop(name), *bits])

    def take(self, lock: Any) -> tuple[int, array.array[int]]:
        """A step that takes a lock with this method. It fails if another thread has it, and while `vmap` or who watches calls has to know of draws."""
        places = [id(modes) + slot_offset(slot) for slot in map(vars(type(modes)).get, ("overrides", "watching"))]
        words = [id(lock), id(False), id(True), places[0], BATCHED, places[1], id(None)]
        return compile_function("take", _take, ["words", "threads"]), array.array("q", words)

    def give(self, lock: Any) -> tuple[int, array.array[int]]:
        """A step that gives it back."""
        return compile_function("give", _give, ["words", "threads"]), array.array("q", [id(lock)])
