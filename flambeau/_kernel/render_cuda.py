"""Writes kernels as CUDA C++ text. The same bodies that become LLVM loops become one thread's work here.

Every value is a local variable declared at the top of the kernel, so that blocks may be joined by `goto`.
"""

from __future__ import annotations

import inspect
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .loops import load, store
from .symbols import Complex, symbols
from .value import BITS, COMPUTE, PART, Number, Value, is_float, is_signed

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


class Cuda:
    """One kernel in the making; the counterpart of `render_llvm.Llvm`."""

    def __init__(self, name: str, parameters: list[str]):
        self.name, self.parameters = name, parameters
        self.lines: list[str] = []
        self.variables: dict[str, list[str]] = {}  # C type -> names
        self.arrays: list[str] = []
        self.helpers: set[str] = set()
        self.count = 0

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
        head = f'extern "C" __global__ void {self.name}({", ".join(self.parameters)}) {{'
        return "\n".join([*sorted(self.helpers), head, *self.arrays, *declared, *self.lines, "}", ""])

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

    def rare(self, condition: Value, slow: Callable[[], Any], fast: Any) -> Any:
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

    def intrinsic(self, name: str, *args: Value) -> Value:
        type, first = args[0].type, args[0].name
        if name == "popcount":
            wide = _TYPE["u" + type[1:]]
            count = "__popcll" if BITS[type] == 64 else "__popc"
            return self.value(f"({_TYPE[type]}){count}(({wide}){first})", type)
        if not is_float(type):
            if name == "abs":
                return self.select(args[0] < 0, self.negate(args[0]), args[0])
            return self.select(self.compare("lt" if name == "minimum" else "gt", *args), *args)
        if name in ("minimum", "maximum"):  # NaN wins, and -0 is below 0
            a, b = args
            better = self.compare("lt" if name == "minimum" else "gt", a, b)
            sign = symbols.bits(a if name == "minimum" else b) < 0
            return self.select((a != a) | better | ((a == b) & sign), a, b)
        return self.value(f"{_spelled(_FUNCTION[name], type)}({', '.join(a.name for a in args)})", type)

    def library_call(self, name: str, result: str, *args: Value) -> Value:
        """A function of C's math library, which CUDA has under the same name."""
        return self.value(f"({_TYPE[result]}){name}({', '.join(a.name for a in args)})", result)

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
            bits = self.value(f"*(const unsigned short*){pointer}", "u16")
            if type == "bf16":
                return self.bitcast(self.cast(bits, "u32") << 16, "f32")
            self.helpers.add(_HALF)
            return self.value(f"half_to_float({bits.name})", "f32")
        return self.value(f"*(const {_TYPE[type]}*){pointer}", type)

    def store(self, pointer: str, type: str, a: Value) -> None:
        a = self.cast(a, COMPUTE.get(type, type))
        if type == "f16":
            self.helpers.add(_HALF)
            a = self.value(f"float_to_half({a.name})", "u16")
        elif type == "bf16":
            a = self._round_to_bfloat16(a)
        kind = "unsigned short" if type in COMPUTE else _TYPE[type]
        self.emit(f"*({kind}*){pointer} = {a.name};")

    def _round_to_bfloat16(self, a: Value) -> Value:
        bits = self.bitcast(a, "u32")
        rounded = (bits + (((bits >> 16) & 1) + 0x7FFF)) >> 16
        return self.cast(self.select(a != a, self.constant("u32", 0x7FC0), rounded), "u16")

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
        self.arrays.append(f"  {_TYPE[COMPUTE.get(type, type)]} {name}_memory[{count}]; char* {name} = (char*){name}_memory;")
        return name

    # -- control -------------------------------------------------------------------------------

    @contextmanager
    def loop(self, start: Value, stop: Value, step: int = 1, independent: bool = False) -> Iterator[Value]:
        i = self.variable("i64")
        sign = "<" if step > 0 else ">"
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


# -- kernels ---------------------------------------------------------------------------------------------------------


def _geometry(operands: int, rank: int) -> list[str]:
    """Parameters that say where elements are: extents but the first, then each operand's strides in bytes."""
    names = [f"n{d}" for d in range(1, rank)] + [f"s{k}_{d}" for k in range(operands) for d in range(rank)]
    return ["long long n"] + ["long long " + name for name in names]


@contextmanager
def _elements(r: Cuda, operands: Sequence[int], rank: int, index: str) -> Iterator[dict[int, Value]]:
    """The loop of one thread over its elements; gives the operands' offsets there."""
    plain = {"u32": "unsigned int", "i64": "long long"}[index]
    i = r.fresh(plain, "i")
    r.emit(f"for ({i} = blockIdx.x * ({plain})blockDim.x + threadIdx.x; {i} < n; {i} += ({plain})gridDim.x * blockDim.x) {{")
    rest, places = Value(r, i, index), {}
    for d in range(rank - 1, 0, -1):
        whole = r.value(f"{rest.name} / ({plain})n{d}", index)
        places[d] = r.value(f"{rest.name} - {whole.name} * ({plain})n{d}", index)
        rest = whole
    places[0] = rest
    offsets = {}
    for k in operands:
        terms = [f"(long long){places[d].name} * s{k}_{d}" for d in range(rank)]
        offsets[k] = r.value(" + ".join(terms), "i64")
    yield offsets
    r.emit("}")


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

    Inputs in `numbers` are passed by value in their compute type; the others, and the results, are pointers with
    strides. `index` is the type that counts elements.
    """
    types = [*inputs, *outputs]
    memory = [k for k in range(len(types)) if k not in numbers]
    parameters = []
    for k in range(len(types)):
        if k in memory:
            parameters.append(f"char* x{k}")
        elif compute[k] in PART:
            parameters += [f"{_TYPE[PART[compute[k]]]} x{k}_re", f"{_TYPE[PART[compute[k]]]} x{k}_im"]
        else:
            parameters.append(f"{_TYPE[compute[k]]} x{k}")
    names = {k: position for position, k in enumerate(memory)}
    r = Cuda(name, [*parameters, *_geometry(len(memory), rank)])

    def operand(k: int, offsets: dict[int, Value]) -> Any:
        if k in names:
            return symbols.cast(load(r, r.address(f"x{k}", offsets[names[k]]), inputs[k]), compute[k])
        part = PART.get(compute[k])
        return Value(r, f"x{k}", compute[k]) if part is None else Complex(Value(r, f"x{k}_re", part), Value(r, f"x{k}_im", part))

    with _elements(r, range(len(memory)), rank, index) as offsets:
        results = body(symbols, *[operand(k, offsets) for k in range(len(inputs))])
        for k, value in enumerate(results if isinstance(results, tuple) else (results,), len(inputs)):
            store(r, r.address(f"x{k}", offsets[names[k]]), types[k], value)
    return r.text()


def render_kernel(name: str, kernel: Any, types: Sequence[str], options: dict[str, Any], rank: int = 1) -> str:
    """CUDA text of a `lang.Kernel`: one thread for each element of the dimensions around its core."""
    from .lang import Array, KernelScope, Walker  # the walker is only needed for such kernels

    operands = [*kernel.inputs, *kernel.outputs]
    cores = [f"long long d_{d}" for d in kernel.dims]
    steps = [f"long long t{k}_{i}" for k, dims in enumerate(operands) for i in range(len(dims))]
    pointers = [f"char* x{k}" for k in range(len(operands))]
    r = Cuda(name, [*pointers, *_geometry(len(operands), rank), *cores, *steps])
    with _elements(r, range(len(operands)), rank, "i64") as offsets:
        arrays = []
        for k, dims in enumerate(operands):
            sizes = [Value(r, f"d_{d}", "i64") for d in dims]
            strides = [Value(r, f"t{k}_{i}", "i64") for i in range(len(dims))]
            arrays.append(Array(r, r.address(f"x{k}", offsets[k]), types[k], sizes, strides))  # type: ignore[arg-type]
        names = list(inspect.signature(kernel.function).parameters)
        given = dict(zip(names, [KernelScope(r), *arrays]))  # type: ignore[arg-type]
        Walker(r, kernel.function, {**given, **options}).run()  # type: ignore[arg-type]
    return r.text()
