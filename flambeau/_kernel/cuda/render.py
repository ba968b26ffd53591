"""Writes kernels as CUDA C++ text. The same bodies that become LLVM loops become one thread's work here.

Every value is a local variable declared at the top of the kernel, so that blocks may be joined by `goto`.
"""

from __future__ import annotations

import inspect
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from ..loops.pointwise import load, store
from ..render.symbols import Complex, symbols
from ..render.value import BITS, COMPUTE, PART, SIZE, Number, Value, is_float, is_signed

_TYPE = {
    "b1": "bool", "i8": "signed char", "i16": "short", "i32": "int", "i64": "long long", "u8": "unsigned char",
    "u16": "unsigned short", "u32": "unsigned int", "u64": "unsigned long long", "f32": "float", "f64": "double",
}  # fmt: skip
_UNSIGNED = {"i8": "u8", "i16": "u16", "i32": "u32", "i64": "u64"}
_OPERATOR = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "rem": "%", "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>",
}  # fmt: skip
_WRAPPING = ("add", "sub", "mul", "shl")  # made without sign, where C++ defines what overflow gives
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_FUNCTION = {
    "sqrt": "sqrt", "abs": "fabs", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint", "fma": "fma",
    "copysign": "copysign", "minnum": "fmin", "maxnum": "fmax",
}  # fmt: skip
_BITCAST = {
    ("f32", "i32"): "__float_as_int", ("f32", "u32"): "__float_as_uint", ("i32", "f32"): "__int_as_float",
    ("u32", "f32"): "__uint_as_float", ("f64", "i64"): "__double_as_longlong", ("i64", "f64"): "__longlong_as_double",
    ("f64", "u64"): "__double_as_longlong", ("u64", "f64"): "__longlong_as_double",
}  # fmt: skip
_ADDED = {
    "i32": "int", "i64": "unsigned long long", "u32": "unsigned int", "u64": "unsigned long long", "f32": "float", "f64": "double",
}  # fmt: skip  # what memory adds to at once
KERNEL = 'extern "C" __global__'
_LONG = 400  # lines of a body that is not worth unrolling
_PACK = 16  # bytes that a thread reads or writes at once
# Packs are read and written as words: of structures the compiler makes small stores, which take twice the time.
PACKS = """template <int size> struct Word { struct type { char bytes[size]; }; };
template <> struct Word<1> { typedef unsigned char type; };
template <> struct Word<2> { typedef unsigned short type; };
template <> struct Word<4> { typedef unsigned int type; };
template <> struct Word<8> { typedef uint2 type; };
template <> struct Word<16> { typedef uint4 type; };
template <int size> struct alignas(size < 16 ? size : 16) Pack { union { char bytes[size]; typename Word<size>::type whole; }; };"""
_HALF = """__device__ inline float half_to_float(unsigned short h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
__device__ inline unsigned short float_to_half(float f) {
  unsigned short h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}
"""
# What GPUs since 2020 have an instruction for.
_BFLOAT16 = """__device__ inline unsigned short float_to_bfloat16(float f) {
#if __CUDA_ARCH__ >= 800
  unsigned short h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
#else
  unsigned int u = __float_as_uint(f);
  return f != f ? 0x7FC0 : (u + (((u >> 16) & 1) + 0x7FFF)) >> 16;
#endif
}
"""
_EXTREMA = """__device__ inline float float_maximum(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float c;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
#else
  return a != a || a > b || (a == b && __float_as_int(b) < 0) ? a : b;
#endif
}
__device__ inline float float_minimum(float a, float b) { return -float_maximum(-a, -b); }
"""


class Cuda:
    """One function in the making; the counterpart of `render.llvm.Llvm`."""

    own = {
        ("exp", "f32"): "expf",
        ("decay", "f32"): "expf",
    }  # functions of CUDA's that are as exact as our bodies and shorter

    def __init__(self, name: str, parameters: list[str], kind: str = KERNEL):
        self.name, self.parameters, self.kind = name, parameters, kind
        self.lines: list[str] = []
        self.variables: dict[str, list[str]] = {}  # C type -> names
        self.arrays: list[str] = []
        self.helpers: set[str] = set()
        self.count = 0
        self.along = ""  # what counts the iterations of the first independent loop, which threads share

    # -- plumbing ------------------------------------------------------------------------------

    def fresh(self, type: str, prefix: str = "v") -> str:
        self.count += 1
        name = f"{prefix}{self.count}"
        self.variables.setdefault(type, []).append(name)
        return name

    def emit(self, text: str) -> None:
        self.lines.append("  " + text)

    def value(self, text: str, type: str) -> Value:
        name = self.fresh(_TYPE[type])
        self.emit(f"{name} = {text};")
        return Value(self, name, type)

    def label(self) -> str:
        self.count += 1
        return f"b{self.count}"

    def start_block(self, label: str) -> None:
        self.lines.append(f"{label}:;")

    def branch(self, label: str) -> None:
        self.emit(f"goto {label};")

    def branch_if(self, condition: Value, yes: str, no: str) -> None:
        self.emit(f"if ({condition.name}) goto {yes}; else goto {no};")

    def text(self) -> str:
        declared = [f"  {type} {', '.join(names)};" for type, names in self.variables.items()]
        head = f"{self.kind} void {self.name}({', '.join(self.parameters)}) {{"
        return "\n".join([head, *self.arrays, *declared, *self.lines, "}", ""])

    # -- values --------------------------------------------------------------------------------

    def constant(self, type: str, value: Number) -> Value:
        return Value(self, _literal(type, value), type)

    def binary(self, op: str, a: Value, b: Value, flags: str = "") -> Value:
        type = a.type
        if op == "rem" and is_float(type):
            return self.value(f"{_spelled('fmod', type)}({a.name}, {b.name})", type)
        sign = _OPERATOR[op]
        if is_float(type) or type == "b1":
            return self.value(f"{a.name} {sign} {b.name}", type)
        if op in _WRAPPING and type in _UNSIGNED:
            plain = _TYPE[_UNSIGNED[type]]
            return self.value(f"({_TYPE[type]})(({plain}){a.name} {sign} ({plain}){b.name})", type)
        return self.value(f"({_TYPE[type]})({a.name} {sign} {b.name})", type)

    def compare(self, op: str, a: Value, b: Value) -> Value:
        return self.value(f"{a.name} {_COMPARE[op]} {b.name}", "b1")

    def negate(self, a: Value) -> Value:
        if is_float(a.type):
            return self.value(f"-{a.name}", a.type)
        return self.binary("sub", self.constant(a.type, 0), a)

    def select(self, c: Value, a: Value, b: Value) -> Value:
        return self.value(f"{c.name} ? {a.name} : {b.name}", a.type)

    def undivided(self) -> AbstractContextManager[None]:
        """Each thread has one element: its rare form is chosen by a branch in any case."""
        return nullcontext()

    def rare(self, condition: Value, slow: Callable[[], Any], fast: Any, everywhere: bool = False) -> Any:
        """A branch: the threads of a warp hardly ever take it."""
        parts = fast if isinstance(fast, tuple) else (fast,)
        slots = [(self.variable(p.type), p.type) for p in parts]
        for (slot, type), part in zip(slots, parts):
            self.write(slot, type, part)
        with self.when(condition):
            made = slow()
            for (slot, type), part in zip(slots, made if isinstance(fast, tuple) else (made,)):
                self.write(slot, type, part)
        results = tuple(self.read(slot, type) for slot, type in slots)
        return results if isinstance(fast, tuple) else results[0]

    def intrinsic(self, name: str, *args: Value, flags: str = "") -> Value:
        type, first = args[0].type, args[0].name
        if not is_float(type):
            if name == "abs":
                return self.select(args[0] < 0, self.negate(args[0]), args[0])
            return self.select(self.compare("lt" if name == "minimum" else "gt", *args), *args)
        if name in ("minimum", "maximum") and type == "f32":
            self.helpers.add(_EXTREMA)
            return self.value(f"float_{name}({first}, {args[1].name})", type)
        if name in ("minimum", "maximum"):  # NaN wins, and -0 is below 0
            a, b = args
            better = self.compare("lt" if name == "minimum" else "gt", a, b)
            sign = symbols.bits(a if name == "minimum" else b) < 0
            return self.select((a != a) | better | ((a == b) & sign), a, b)
        return self.value(f"{_spelled(_FUNCTION[name], type)}({', '.join(a.name for a in args)})", type)

    def bitcast(self, a: Value, type: str) -> Value:
        if a.type == type:
            return a
        function = _BITCAST.get((a.type, type))
        if function is None:
            return self.value(f"({_TYPE[type]}){a.name}", type)
        return self.value(f"{function}({a.name})", type)

    def cast(self, a: Value, type: str) -> Value:
        if a.type == type:
            return a
        if type == "b1":
            return self.compare("ne", a, self.constant(a.type, 0))
        if is_float(a.type) and not is_float(type):
            return self._saturated(a, type)
        return self.value(f"({_TYPE[type]}){a.name}", type)

    def truncate(self, a: Value, type: str) -> Value:
        """A float that surely is in range as an integer."""
        return self.value(f"({_TYPE[type]}){a.name}", type)

    def _saturated(self, a: Value, type: str) -> Value:
        """A float as an integer: NaN gives 0, what is out of range the nearest that is in it."""
        low = -(1 << (BITS[type] - 1)) if is_signed(type) else 0
        high = (1 << (BITS[type] - is_signed(type))) - 1
        least, most = _literal(type, low), _literal(type, high)
        below, above = _literal(a.type, float(low)), _literal(a.type, float(high + 1))
        x = a.name
        inside = f"{x} <= {below} ? {least} : {x} >= {above} ? {most} : ({_TYPE[type]}){x}"
        return self.value(f"{x} != {x} ? {_literal(type, 0)} : {inside}", type)

    # -- memory --------------------------------------------------------------------------------

    def address(self, pointer: str, offset: Value) -> str:
        """A pointer `offset` bytes further."""
        self.count += 1
        name = f"p{self.count}"
        self.variables.setdefault("char", []).append("*" + name)
        self.emit(f"{name} = {pointer} + {offset.name};")
        return name

    def load(self, pointer: str, type: str) -> Value:
        """A value of the compute type of `type`."""
        if type == "b1":
            return self.value(f"*(const unsigned char*){pointer} != 0", "b1")
        if type in COMPUTE:
            return self._widened(self.value(f"*(const unsigned short*){pointer}", "u16"), type)
        return self.value(f"*(const {_TYPE[type]}*){pointer}", type)

    def store(self, pointer: str, type: str, a: Value) -> None:
        a = self._narrowed(a, type)
        self.emit(f"*({_TYPE[a.type]}*){pointer} = {a.name};")

    def through(self, a: Value, type: str) -> Value:
        """What a store and a load of a type make of a value."""
        a = self._narrowed(a, type)
        return self._widened(a, type) if type in COMPUTE else a

    def _widened(self, bits: Value, type: str) -> Value:
        """The value of a half's bits."""
        if type == "bf16":
            return self.bitcast(self.cast(bits, "u32") << 16, "f32")
        self.helpers.add(_HALF)
        return self.value(f"half_to_float({bits.name})", "f32")

    def _narrowed(self, a: Value, type: str) -> Value:
        """A value as memory of a type holds it: halves as bits."""
        a = self.cast(a, COMPUTE.get(type, type))
        if type not in COMPUTE:
            return a
        name, helper = ("float_to_half", _HALF) if type == "f16" else ("float_to_bfloat16", _BFLOAT16)
        self.helpers.add(helper)
        return self.value(f"{name}({a.name})", "u16")

    def merge(self, pointer: str, type: str, value: Any, how: str, combined: Callable[[Any, Any], Any]) -> None:
        """Memory becomes combined(it, value), whatever other threads make of it meanwhile; `how` is its name."""
        part = PART.get(type)
        if part is not None and how == "add":
            second = self.address(pointer, self.constant("i64", SIZE[part]))
            self.merge(pointer, part, value.re, how, combined)
            self.merge(second, part, value.im, how, combined)
        elif how == "add" and type in _ADDED:
            self.emit(f"atomicAdd(({_ADDED[type]}*){pointer}, ({_ADDED[type]}){self.cast(value, type).name});")
        else:
            self._exchange(pointer, type, lambda old: combined(old, value))

    def _exchange(self, pointer: str, type: str, change: Callable[[Any], Any]) -> None:
        """Changes an element of up to 8 bytes again and again until nobody else has changed its word meanwhile."""
        size = SIZE[type]
        bits = f"u{8 * size}"
        word = _TYPE["u64" if size == 8 else "u32"]
        seen, old, new, shift = self.fresh(word), self.fresh(word), self.fresh(word), self.fresh("int")
        place = self.address(
            f"(char*)((unsigned long long){pointer} & ~{max(size, 4) - 1}ULL)", self.constant("i64", 0)
        )
        self.emit(f"{shift} = 8 * (int)({pointer} - {place});")
        self.emit(f"{seen} = *(volatile {word}*){place};")
        self.emit("do {")
        self.emit(f"{old} = {seen};")
        made = self._bits_of(change(self._of_bits(self.value(f"({_TYPE[bits]})({old} >> {shift})", bits), type)), type)
        if size < 4:
            kept = f"{old} & ~({(1 << 8 * size) - 1}u << {shift})"
            self.emit(f"{new} = ({kept}) | (({word}){made.name} << {shift});")
        else:
            self.emit(f"{new} = {made.name};")
        self.emit(f"if ({new} == {old}) break;")
        self.emit(f"{seen} = atomicCAS(({word}*){place}, {old}, {new});")
        self.emit(f"}} while ({seen} != {old});")

    def _of_bits(self, bits: Value, type: str) -> Any:
        """The value that an element's bits stand for."""
        if type in PART:
            return Complex(
                self._of_bits(self.cast(bits, "u32"), "f32"), self._of_bits(self.cast(bits >> 32, "u32"), "f32")
            )
        if type in COMPUTE:
            return self._widened(bits, type)
        return self.cast(bits, "b1") if type == "b1" else self.bitcast(bits, type)

    def _bits_of(self, value: Any, type: str) -> Value:
        """The bits of an element's value."""
        if type in PART:
            low, high = (self.cast(self._bits_of(v, "f32"), "u64") for v in (value.re, value.im))
            return low | (high << 32)
        made = self._narrowed(value, type)
        bits = f"u{8 * SIZE[type]}"
        return self.cast(made, bits) if type == "b1" else self.bitcast(made, bits)

    def variable(self, type: str) -> str:
        return self.fresh(_TYPE[type], "s")

    def read(self, slot: str, type: str) -> Value:
        return self.value(slot, type)

    def write(self, slot: str, type: str, a: Value) -> None:
        self.emit(f"{slot} = {self.cast(a, type).name};")

    def local_array(self, type: str, count: int) -> str:
        """Scratch memory of one thread."""
        self.count += 1
        name = f"a{self.count}"
        self.arrays.append(
            f"  {_TYPE[COMPUTE.get(type, type)]} {name}_memory[{count}]; char* {name} = (char*){name}_memory;"
        )
        return name

    # -- control -------------------------------------------------------------------------------

    @contextmanager
    def loop(
        self, start: Value, stop: Value, step: int = 1, independent: bool = False, abreast: int = 0, brief: bool = False
    ) -> Iterator[Value]:
        i = self.variable("i64")
        sign = "<" if step > 0 else ">"
        if independent and self.along:
            self.emit(f"{i} = {start.name} + {self.along};")
            self.along = ""
            self.emit(f"if ({i} < {stop.name}) {{")
            yield Value(self, i, "i64")
            self.emit("}")
            return
        self.emit(f"for ({i} = {start.name}; {i} {sign} {stop.name}; {i} += {step}) {{")
        yield Value(self, i, "i64")
        self.emit("}")

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        self.emit(f"if ({condition.name}) {{")
        yield
        self.emit("}")

    def clear_float_status(self) -> None:
        """There are no flags on a GPU."""


def _spelled(name: str, type: str) -> str:
    return name + "f" if type == "f32" else name


def _literal(type: str, value: Number) -> str:
    if type == "b1":
        return "true" if value else "false"
    if not is_float(type):
        number = int(value) % (1 << BITS[type])
        if number < 1 << (BITS[type] - 1) and BITS[type] >= 32:
            return f"{number}{ {'i32': '', 'u32': 'u', 'i64': 'LL', 'u64': 'ULL'}[type] }"
        return f"(({_TYPE[type]}){number}ULL)"
    value = float(value)
    if type == "f32" and math.isfinite(value):
        try:
            value = struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            value = math.copysign(math.inf, value)
    if not math.isfinite(value):
        if type == "f32":
            return f"__uint_as_float(0x{struct.unpack('<I', struct.pack('<f', value))[0]:08X}u)"
        return f"__longlong_as_double(0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}ULL)"
    text = f"{value!r}{'f' if type == 'f32' else ''}"
    return f"({text})" if text[0] == "-" else text


def joined(functions: Sequence[Cuda]) -> str:
    """The text of functions, after that of the helpers they use."""
    helpers = sorted(set[str]().union(*(f.helpers for f in functions)))
    return "\n".join([*helpers, *(f.text() for f in functions)])


# -- kernels ---------------------------------------------------------------------------------------------------------


def geometry(operands: int, rank: int) -> list[str]:
    """Parameters that say where elements are: extents but the first, then each operand's strides in bytes."""
    names = [f"n{d}" for d in range(1, rank)] + [f"s{k}_{d}" for k in range(operands) for d in range(rank)]
    return ["long long n"] + ["long long " + name for name in names]


def elements(operands: int, rank: int, index: str, along: str = "", still: frozenset[int] = frozenset()) -> str:
    """The head of one thread's loop over its elements, with the operands' offsets o0, o1, … there. With `along` that many threads, by the
    number `lane`, share an element. Strides in `still`, by number, are 0. Where offsets fit into `index`, which is i32 then, they are computed in it."""
    plain, offset = _TYPE[_UNSIGNED[index] if index == "i32" else index], _TYPE["i32" if index == "i32" else "i64"]
    count, own = f"n * {along}" if along else f"({plain})n", f"i / {along}" if along else "i"
    lines = [
        f"  for ({plain} i = blockIdx.x * ({plain})blockDim.x + threadIdx.x; i < {count}; i += ({plain})gridDim.x * blockDim.x) {{"
    ]
    if along:
        lines.append(f"  {plain} lane = i % {along};")
    if rank > 1:
        lines.append(f"  {plain} rest = {own};")
    for d in range(rank - 1, 0, -1):
        lines.append(f"  {plain} i{d} = rest % ({plain})n{d}; rest /= ({plain})n{d};")
    lines.append(f"  {plain} i0 = {'rest' if rank > 1 else own};")
    for k in range(operands):
        moves = [f"({offset})i{d} * ({offset})s{k}_{d}" for d in range(rank) if k * rank + d not in still]
        lines.append(f"  {offset} o{k} = {' + '.join(moves) or '0'};")
    return "\n".join(lines)


def _element(
    body: Callable[..., Any],
    inputs: Sequence[str],
    outputs: Sequence[str],
    compute: Sequence[str],
    numbers: frozenset[int],
) -> tuple[str, list[str]]:
    """The function that computes one element, and its parameters for numbers."""
    types, given, values = [*inputs, *outputs], [], []
    for k in range(len(types)):
        if k not in numbers:
            given.append(f"char* x{k}")
            continue
        part = PART.get(compute[k])
        values += (
            [f"{_TYPE[compute[k]]} x{k}"] if part is None else [f"{_TYPE[part]} x{k}_re", f"{_TYPE[part]} x{k}_im"]
        )
    r = Cuda("element", [*given, *values], "__device__ __forceinline__")

    def operand(k: int) -> Any:
        if k not in numbers:
            return symbols.cast(load(r, f"x{k}", inputs[k]), compute[k])
        part = PART.get(compute[k])
        return (
            Value(r, f"x{k}", compute[k])
            if part is None
            else Complex(Value(r, f"x{k}_re", part), Value(r, f"x{k}_im", part))
        )

    results = body(symbols, *[operand(k) for k in range(len(inputs))])
    for k, value in enumerate(results if isinstance(results, tuple) else (results,), len(inputs)):
        store(r, f"x{k}", types[k], value)
    return joined([r]), values


def render_pointwise(
    name: str,
    body: Callable[..., Any],
    inputs: Sequence[str],
    outputs: Sequence[str],
    compute: Sequence[str],
    rank: int = 1,
    numbers: frozenset[int] = frozenset(),
    index: str = "i64",
) -> str:
    """CUDA text of a pointwise kernel over `rank` merged dimensions.

    Inputs in `numbers` are passed by value in their compute type, after the pointers of the others and of the
    results. `index` is the type that counts elements.
    """
    memory = [k for k in range(len(inputs) + len(outputs)) if k not in numbers]
    element, values = _element(body, inputs, outputs, compute, numbers)
    pointers = [f"char* x{k}" for k in memory]
    places = ", ".join(
        [*(f"x{k} + o{position}" for position, k in enumerate(memory)), *(v.split()[-1] for v in values)]
    )
    parameters = ", ".join([*pointers, *values, *geometry(len(memory), rank)])
    return f"""{element}
{KERNEL} void {name}({parameters}) {{
{elements(len(memory), rank, index)}
  element({places});
  }}
}}
"""


def render_dense(
    name: str,
    body: Callable[..., Any],
    inputs: Sequence[str],
    outputs: Sequence[str],
    compute: Sequence[str],
    numbers: frozenset[int] = frozenset(),
    single: frozenset[int] = frozenset(),
) -> str:
    """CUDA text of a pointwise kernel over contiguous operands, of which those in `single` have one element.

    Threads take as many elements at once as make `_PACK` bytes of the widest operand, if addresses allow it.
    """
    types = [*inputs, *outputs]
    memory = [k for k in range(len(types)) if k not in numbers]
    moving = [k for k in memory if k not in single]
    element, values = _element(body, inputs, outputs, compute, numbers)
    count = 1 if element.count("\n") > _LONG else _PACK // max(SIZE[types[k]] for k in moving)
    passed = [v.split()[-1] for v in values]
    parameters = ", ".join([*(f"char* x{k}" for k in memory), *values, "long long n"])
    lines = [f"  {_pack(SIZE[types[k]])} one{k} = *({_pack(SIZE[types[k]])}*)x{k};" for k in sorted(single)]

    def call(place: Callable[[int], str]) -> str:
        return f"element({', '.join([*(f'(char*)&one{k}' if k in single else place(k) for k in memory), *passed])});"

    if count > 1:
        together = " | ".join(f"(unsigned long long)x{k}" for k in moving)
        lines += [f"  long long packs = (({together}) & {_PACK - 1}) == 0 ? n / {count} : 0;"]
        lines += ["  for (long long i = first; i < packs; i += step) {"]
        lines += [f"  Pack<{SIZE[types[k]] * count}> a{k};" for k in moving]
        lines += [f"  a{k}.whole = (({_whole(types[k], count)}*)x{k})[i];" for k in moving if k < len(inputs)]
        lines += [
            "  #pragma unroll",
            f"  for (int j = 0; j < {count}; ++j) " + call(lambda k: f"a{k}.bytes + j * {SIZE[types[k]]}"),
        ]
        lines += [f"  (({_whole(types[k], count)}*)x{k})[i] = a{k}.whole;" for k in moving if k >= len(inputs)]
        lines += ["  }", f"  for (long long i = packs * {count} + first; i < n; i += step) "]
    else:
        lines += ["  for (long long i = first; i < n; i += step) "]
    lines[-1] += call(lambda k: f"x{k} + i * {SIZE[types[k]]}")
    body_text = "\n".join(lines)
    return f"""{element}
{PACKS}
{KERNEL} void {name}({parameters}) {{
  long long first = blockIdx.x * (long long)blockDim.x + threadIdx.x, step = gridDim.x * (long long)blockDim.x;
{body_text}
}}
"""


def _pack(size: int) -> str:
    return f"Pack<{size}>"


def _whole(type: str, count: int) -> str:
    return f"Word<{SIZE[type] * count}>::type"


def render_kernel(
    name: str,
    kernel: Any,
    types: Sequence[str],
    options: dict[str, Any],
    rank: int = 1,
    index: str = "i64",
    still: frozenset[int] = frozenset(),
) -> str:
    """CUDA text of a `lang.Kernel`: one thread for each element of the dimensions around its core, or for each iteration of its loop.

    An operand of type "place" is no memory (`lang.Place`). Strides in `still`, by number, are 0: they cost nothing."""
    from ..loops.lang import Array, KernelScope, Place, Walker  # the walker is only needed for such kernels

    operands = [*kernel.inputs, *kernel.outputs]
    cores = [f"long long d_{d}" for d in kernel.dims]
    steps = [f"long long t{k}_{i}" for k, dims in enumerate(operands) for i in range(len(dims))]
    pointers = [f"char* x{k}" for k in range(len(operands))]
    along = f"d_{kernel.along}" if kernel.along else ""
    lane = ["long long lane"] if along else []
    r = Cuda("element", [*pointers, *cores, *steps, *lane], "__device__")
    r.along = "lane" if along else ""
    arrays: list[Any] = []
    for k, dims in enumerate(operands):
        if types[k] == "place":
            arrays.append(Place(r, f"x{k}"))
            continue
        sizes = [Value(r, f"d_{d}", "i64") for d in dims]
        strides = [Value(r, f"t{k}_{i}", "i64") for i in range(len(dims))]
        arrays.append(Array(r, f"x{k}", types[k], sizes, strides))  # type: ignore[arg-type]
    names = list(inspect.signature(kernel.function).parameters)
    given = dict(zip(names, [KernelScope(r), *arrays]))
    Walker(r, kernel.function, {**given, **options}).run()  # type: ignore[arg-type]
    known = [p.split()[-1] for p in (*cores, *steps, *lane)]
    places = ", ".join([*(f"x{k} + o{k}" for k in range(len(operands))), *known])
    return f"""{joined([r])}
{KERNEL} void {name}({", ".join([*pointers, *geometry(len(operands), rank), *cores, *steps])}) {{
{elements(len(operands), rank, "i64" if along else index, along, still)}
  element({places});
  }}
}}
"""
