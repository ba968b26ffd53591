"""Writes kernels as LLVM assembly text. Values are SSA names; variables live in stack slots that LLVM promotes."""

from __future__ import annotations

import math
import platform
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..building import jit
from ..building.llvm import AS_WRITTEN
from .value import COMPUTE, SIZE, Number, Value, is_float, is_integer, is_signed

_TYPE = {
    "b1": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "u8": "i8", "u16": "i16", "u32": "i32",
    "u64": "i64", "f32": "float", "f64": "double", "f16": "half", "bf16": "i16",
}  # fmt: skip
_OVERLOADS = {"half": "f16", "float": "f32", "double": "f64"}
_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "rem": "frem"}
_SIGNED = {"div": "sdiv", "rem": "srem", "shr": "ashr"}
_UNSIGNED = {"div": "udiv", "rem": "urem", "shr": "lshr"}
_FLOAT_COMPARE = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
# How a renderer's intrinsic is spelled: name, and whether the operand type is part of it.
_INTRINSIC = {
    "sqrt": "llvm.sqrt", "abs": "llvm.fabs", "floor": "llvm.floor", "ceil": "llvm.ceil", "trunc": "llvm.trunc",
    "rint": "llvm.roundeven", "fma": "llvm.fma", "copysign": "llvm.copysign",
    "minimum": "llvm.minimum", "maximum": "llvm.maximum", "minnum": "llvm.minnum", "maxnum": "llvm.maxnum",
}  # fmt: skip

_SATURATES = platform.machine().lower() in ("aarch64", "arm64")  # whether this CPU converts floats so, in vectors

_HEAVY = 30  # instructions that are worth vectors even where elements are gathered one by one

_LINE = 64  # bytes of a cache line, and of the longest vectors

NOT_NUMPY = 1  # the data of a loop that NumPy does not call, and that has none of its own


def is_neon() -> bool:
    """Whether vectors are NEON's, whose fused products can only be written to where their addend was."""
    features = jit.cpu_features()
    return features.get("neon", False) and not features.get("sve", False)


def _picked(lanes: range) -> str:
    """The mask of a shuffle."""
    return f"<{len(lanes)} x i32> <{', '.join([f'i32 {lane}' for lane in lanes])}>"


class NoVectors(Exception):
    """An operation of a body has no form for vectors."""


class Llvm:
    """One LLVM function in the making."""

    as_written = False  # whether it needs no passes that look for vectors and for what is computed again
    merge: Any = None  # elements that are written belong to one thread

    def __init__(self, name: str, parameters: list[str]):
        self.function_name = name
        self.parameters = parameters
        self.lines: list[str] = []
        self.slots: list[str] = []
        self.declarations: set[str] = set()
        self.metadata: list[str] = []
        self.access_group: str | None = None
        self.brief = False  # whether independent loops with little arithmetic are left as they are written
        self.lanes = 1  # of the vectors that stand for values of `wide` types, and which of them are there in memory
        self.wide: frozenset[str] = frozenset()
        self.mask = ""
        # a list while the conditions of rare cases are gathered and their slow forms left out
        self.rare_conditions: list[Value] | None = None
        self.slow_everywhere = True  # whether all slow forms that were left out are right for every element
        # the number of a lane, and of how many, where fused products find their constant addends in memory: these, by their place
        self.lane_number: tuple[Value, int] | None = None
        self.addends: dict[bytes, int] = {}
        self.count = 0
        self.block = "entry"

    # -- plumbing ------------------------------------------------------------------------------

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def emit(self, text: str) -> None:
        self.lines.append("  " + text)

    def value(self, text: str, type: str) -> Value:
        name = self.fresh()
        self.lines.append(f"  {name} = {text}")
        return Value(self, name, type)

    def label(self) -> str:
        self.count += 1
        return f"b{self.count}"

    def start_block(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label

    def branch(self, label: str) -> None:
        self.emit(f"br label %{label}")

    def branch_if(self, condition: Value, yes: str, no: str) -> None:
        self.emit(f"br i1 {condition.name}, label %{yes}, label %{no}")

    def text(self) -> str:
        # vectors as wide as the machine has them: these loops do nothing but arithmetic
        attributes = 'nounwind "prefer-vector-width"="512"'
        if self.as_written:
            attributes += f" {AS_WRITTEN}"
        if is_neon():  # as for CPUs that take instructions in turn: chains are not written one after the other
            attributes += ' "tune-cpu"="generic"'
        if self.addends:
            table = "".join(f"\\{byte:02X}" for byte in b"".join(self.addends))
            self.declarations.add(f'@addends = internal constant [{len(table) // 3} x i8] c"{table}", align 64')
            self.slots.append('  %addends = call ptr asm "", "=r,0"(ptr @addends)')  # no longer known to be constant
        body = [
            f"define void @{self.function_name}({', '.join(self.parameters)}) {attributes} {{",
            "entry:", *self.slots, *self.lines, "  ret void", "}",
        ]  # fmt: skip
        return "\n".join([*sorted(self.declarations), *body, *self.metadata, ""])

    # -- values --------------------------------------------------------------------------------

    def constant(self, type: str, value: Number) -> Value:
        if type in self.wide:
            with self.vectors(self.lanes, self.mask, frozenset()):
                one = self.constant(type, value)
            return Value(self, f"splat ({_TYPE[type]} {one.name})", type)
        if type == "b1":
            return Value(self, "true" if value else "false", type)
        if not is_float(type):
            return Value(self, str(int(value)), type)
        value = float(value)
        if type == "f32":
            if math.isfinite(value):
                try:
                    value = struct.unpack("f", struct.pack("f", value))[0]
                except OverflowError:
                    value = math.copysign(math.inf, value)
        bits = struct.unpack("<Q", struct.pack("<d", value))[0]
        return Value(self, f"0x{bits:016X}", type)

    def _kind(self, type: str) -> str:
        """How a type is spelled."""
        return f"<{self.lanes} x {_TYPE[type]}>" if type in self.wide else _TYPE[type]

    def _overload(self, type: str) -> str:
        """How it is spelled in names of intrinsics."""
        own = _OVERLOADS.get(_TYPE[type], _TYPE[type])
        return f"v{self.lanes}{own}" if type in self.wide else own

    @contextmanager
    def vectors(self, lanes: int, mask: str = "", wide: frozenset[str] = frozenset(_TYPE)) -> Iterator[None]:
        """Within it, values of `wide` types are vectors of so many lanes; only those of the mask are loaded and stored."""
        outside = self.lanes, self.wide, self.mask
        self.lanes, self.wide, self.mask = lanes, wide, mask
        yield
        self.lanes, self.wide, self.mask = outside

    def in_lanes(self, a: Value) -> Value:
        """One value in all lanes."""
        t, one = self._kind(a.type), _TYPE[a.type]
        first = self.value(f"insertelement {t} poison, {one} {a.name}, i64 0", a.type)
        return self.value(f"shufflevector {t} {first.name}, {t} poison, <{self.lanes} x i32> zeroinitializer", a.type)

    def lane_mask(self, count: Value, lanes: int) -> str:
        """The mask of the first `count` of so many lanes."""
        most = self.constant("i64", lanes)
        with self.vectors(lanes, wide=frozenset(["u8"])):
            held = self.in_lanes(self.value(f"trunc i64 {self.select(count < most, count, most).name} to i8", "u8"))
            numbers = ", ".join(f"i8 {i}" for i in range(lanes))
            return self.value(f"icmp ugt {self._kind('u8')} {held.name}, <{numbers}>", "b1").name

    def any(self, a: Value) -> Value:
        """Whether a bool is true in any lane, of those that are there."""
        found = self.value(f"and {self._kind('b1')} {a.name}, {self.mask}", "b1") if self.mask else a
        bits = self.value(f"bitcast {self._kind('b1')} {found.name} to i{self.lanes}", "u64").name
        return self.value(f"icmp ne i{self.lanes} {bits}, 0", "b1")

    def binary(self, op: str, a: Value, b: Value, flags: str = "") -> Value:
        if is_float(a.type) and op in _FLOAT:
            op = _FLOAT[op]
        elif op in ("div", "rem", "shr"):
            op = (_SIGNED if is_signed(a.type) else _UNSIGNED)[op]
        if a.type in self.wide and op.endswith(("div", "rem")) and op != "fdiv":
            raise NoVectors(op)
        return self.value(f"{op} {flags}{self._kind(a.type)} {a.name}, {b.name}", a.type)

    def compare(self, op: str, a: Value, b: Value) -> Value:
        if is_float(a.type):
            text = f"fcmp {_FLOAT_COMPARE[op]} "
        elif op in ("eq", "ne"):
            text = f"icmp {op} "
        else:
            text = f"icmp {'s' if is_signed(a.type) else 'u'}{op} "
        return self.value(f"{text}{self._kind(a.type)} {a.name}, {b.name}", "b1")

    def negate(self, a: Value) -> Value:
        if is_float(a.type):
            return self.value(f"fneg {self._kind(a.type)} {a.name}", a.type)
        return self.value(f"sub {self._kind(a.type)} {self.constant(a.type, 0).name}, {a.name}", a.type)

    def select(self, c: Value, a: Value, b: Value) -> Value:
        t = self._kind(a.type)
        return self.value(f"select {self._kind('b1')} {c.name}, {t} {a.name}, {t} {b.name}", a.type)

    def rare(self, condition: Value, slow: Callable[[], Any], fast: Any, everywhere: bool = False) -> Any:
        if self.rare_conditions is not None:
            self.rare_conditions.append(condition)
            self.slow_everywhere &= everywhere
            return fast
        if everywhere:
            return slow()
        if not isinstance(fast, tuple):
            return self.select(condition, slow(), fast)
        return tuple(self.select(condition, a, b) for a, b in zip(slow(), fast))

    @contextmanager
    def undivided(self) -> Iterator[None]:
        """Within it, slow forms of rare elements are computed with the others: nobody looks for them first."""
        gathered, self.rare_conditions = self.rare_conditions, None
        yield
        self.rare_conditions = gathered

    def intrinsic(self, name: str, *args: Value, flags: str = "") -> Value:
        type, t = args[0].type, self._kind(args[0].type)
        if name == "fma" and self.lane_number and not args[2].name.startswith("%"):
            args = (*args[:2], self._addend(args[2], *self.lane_number))
        code = self._overload(type)
        if not is_float(type) and name in ("minimum", "maximum"):
            full = f"llvm.{'s' if is_signed(type) else 'u'}{name[:3]}.{code}"
        elif not is_float(type) and name == "abs":
            full = f"llvm.abs.{code}"
            self.declarations.add(f"declare {t} @{full}({t}, i1)")
            return self.value(f"call {t} @{full}({t} {args[0].name}, i1 false)", type)
        else:
            full = f"{_INTRINSIC[name]}.{code}"
        self.declarations.add(f"declare {t} @{full}({', '.join([t] * len(args))})")
        return self.value(f"call {flags}{t} @{full}({', '.join(f'{t} {a.name}' for a in args)})", type)

    def _addend(self, constant: Value, lane: Value, lanes: int) -> Value:
        """A constant, from memory."""
        (number,) = struct.unpack("<d", struct.pack("<Q", int(constant.name, 16)))
        row = struct.pack("<f" if constant.type == "f32" else "<d", number) * lanes
        place = self.addends.setdefault(row, sum(map(len, self.addends)))
        return self.load(self.address("%addends", place + lane * SIZE[constant.type]), constant.type)

    def library_call(self, name: str, result: str, *args: Value) -> Value:
        """A function found by its symbol in the process (libm, for what is rare)."""
        if self.wide:
            raise NoVectors(name)
        types = ", ".join(_TYPE[a.type] for a in args)
        self.declarations.add(f"declare {_TYPE[result]} @{name}({types})")
        given = ", ".join(f"{_TYPE[a.type]} {a.name}" for a in args)
        return self.value(f"call {_TYPE[result]} @{name}({given})", result)

    def bitcast(self, a: Value, type: str) -> Value:
        if _TYPE[a.type] == _TYPE[type]:
            return Value(self, a.name, type)
        return self.value(f"bitcast {self._kind(a.type)} {a.name} to {self._kind(type)}", type)

    def cast(self, a: Value, type: str) -> Value:
        source = a.type
        if source == type:
            return a
        s, t = self._kind(source), self._kind(type)
        if type == "b1":
            return self.compare("ne", a, self.constant(source, 0))
        if is_float(source) and is_float(type):
            return self.value(f"{'fpext' if type == 'f64' else 'fptrunc'} {s} {a.name} to {t}", type)
        if is_float(source):
            return self._saturated(a, type)
        if is_float(type):
            op = "sitofp" if is_integer(source) and is_signed(source) else "uitofp"
            return self.value(f"{op} {s} {a.name} to {t}", type)
        if s == t:
            return Value(self, a.name, type)
        if source == "b1" or SIZE[type] > SIZE[source]:
            op = "sext" if source[0] == "i" else "zext"
            return self.value(f"{op} {s} {a.name} to {t}", type)
        return self.value(f"trunc {s} {a.name} to {t}", type)

    def _saturated(self, a: Value, type: str) -> Value:
        """A float as an integer of any type: the nearest one, 0 for NaN, so that no input is undefined."""
        s, t, source = self._kind(a.type), self._kind(type), a.type
        if _SATURATES:
            full = f"llvm.fpto{'s' if is_signed(type) else 'u'}i.sat.{t}.f{SIZE[source] * 8}"
            self.declarations.add(f"declare {t} @{full}({s})")
            return self.value(f"call {t} @{full}({s} {a.name})", type)
        # without such an instruction LLVM would go on one by one: what is converted is held to the range before
        bits, signed = SIZE[type] * 8, is_signed(type)
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        digits = 24 if source == "f32" else 53
        most = high if bits <= digits else high + 1 - 2 ** (bits - signed - digits)  # the largest that is a float
        held = self.select(a == a, a, self.constant(source, 0.0))
        for bound, less in ((low, True), (most, False)):
            edge = self.constant(source, bound)
            held = self.select(held > edge if less else held < edge, held, edge)
        through = type if bits == 64 else "i64" if type == "u32" else "i32"
        op = "fptoui" if type == "u64" else "fptosi"
        whole = self.cast(self.value(f"{op} {s} {held.name} to {self._kind(through)}", through), type)
        if most == high:
            return whole
        return self.select(a > self.constant(source, most), self.constant(type, high), whole)

    def truncate(self, a: Value, type: str) -> Value:
        """A float that is known to fit a signed integer type; unlike `cast`, it is done in vectors."""
        return self.value(f"fptosi {self._kind(a.type)} {a.name} to {self._kind(type)}", type)

    # -- memory --------------------------------------------------------------------------------

    def address(self, pointer: str, offset: Value) -> str:
        """A pointer `offset` bytes further."""
        return self.value(f"getelementptr i8, ptr {pointer}, i64 {offset.name}", "i64").name

    def _group(self) -> str:
        return f", !llvm.access.group {self.access_group}" if self.access_group else ""

    def load(self, pointer: str, type: str) -> Value:
        """A value of the compute type of `type`; bool is one byte in memory."""
        if type == "b1":
            return self.compare("ne", self._loaded(pointer, "u8"), self.constant("u8", 0))
        if type == "f16":
            raw = self.bitcast(self._loaded(pointer, "u16"), "f16")
            return self.value(f"fpext {self._kind('f16')} {raw.name} to {self._kind('f32')}", "f32")
        if type == "bf16":
            return self._from_bfloat16(self._loaded(pointer, "u16"))
        return self._loaded(pointer, type)

    def _loaded(self, pointer: str, type: str) -> Value:
        if not self.mask:
            return self._joined([self._part(pointer, type, k) for k in range(self._parts(type))], type)
        t = self._kind(type)
        name, masks = f"llvm.masked.load.{self._overload(type)}.p0", self._kind("b1")
        self.declarations.add(f"declare {t} @{name}(ptr, i32, {masks}, {t})")
        given = f"ptr {pointer}, i32 {SIZE[type]}, {masks} {self.mask}, {t} zeroinitializer"
        return self.value(f"call {t} @{name}({given})", type)

    def store(self, pointer: str, type: str, a: Value) -> None:
        a = self.cast(a, COMPUTE.get(type, type))
        if type == "b1":
            a = self.value(f"zext {self._kind('b1')} {a.name} to {self._kind('u8')}", "u8")
        elif type == "f16":
            a = self.value(f"fptrunc {self._kind('f32')} {a.name} to {self._kind('f16')}", "f16")
            a = self.bitcast(a, "u16") if self.mask else a
        elif type == "bf16":
            a = self._round_to_bfloat16(a)
        if not self.mask:
            self._store_parts(pointer, a)
            return
        t = self._kind(a.type)
        name, masks = f"llvm.masked.store.{self._overload(a.type)}.p0", self._kind("b1")
        self.declarations.add(f"declare void @{name}({t}, ptr, i32, {masks})")
        self.emit(f"call void @{name}({t} {a.name}, ptr {pointer}, i32 {SIZE[a.type]}, {masks} {self.mask})")

    # The compiler would write parts of long vectors in any order, which takes half as long again where they go beyond the first cache.

    def _parts(self, type: str) -> int:
        """Into how many lines of memory a value goes."""
        return max(1, self.lanes * SIZE[type] // _LINE) if type in self.wide else 1

    def _part(self, pointer: str, type: str, number: int) -> Value:
        place = self.value(f"getelementptr i8, ptr {pointer}, i64 {_LINE * number}", "i64").name if number else pointer
        with self.vectors(self.lanes // self._parts(type), "", self.wide):
            return self.value(f"load {self._kind(type)}, ptr {place}, align {SIZE[type]}{self._group()}", type)

    def _joined(self, parts: list[Value], type: str) -> Value:
        """Parts of a vector as one."""
        while len(parts) > 1:
            lanes = self.lanes // len(parts)
            t, every = f"<{lanes} x {_TYPE[type]}>", _picked(range(2 * lanes))
            parts = [
                self.value(f"shufflevector {t} {a.name}, {t} {b.name}, {every}", type)
                for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]
        return parts[0]

    def _store_parts(self, pointer: str, a: Value) -> None:
        t, count = self._kind(a.type), self._parts(a.type)
        lanes, end = self.lanes // count, f"align {SIZE[a.type]}{self._group()}"
        if count == 1:
            self.emit(f"store {t} {a.name}, ptr {pointer}, {end}")
            return
        for k in range(count):
            place = self.value(f"getelementptr i8, ptr {pointer}, i64 {_LINE * k}", "i64").name
            own = _picked(range(k * lanes, (k + 1) * lanes))
            part = self.value(f"shufflevector {t} {a.name}, {t} poison, {own}", a.type).name
            self.emit(f"store <{lanes} x {_TYPE[a.type]}> {part}, ptr {place}, {end}")

    def _from_bfloat16(self, bits: Value) -> Value:
        return self.bitcast(self.cast(bits, "u32") << 16, "f32")

    def through(self, a: Value, type: str) -> Value:
        """What a store and a load of a type make of a value."""
        a = self.cast(a, COMPUTE.get(type, type))
        if type == "f16":
            half, single = self._kind("f16"), self._kind("f32")
            short = self.value(f"fptrunc {single} {a.name} to {half}", "f16").name
            return self.value(f"fpext {half} {short} to {single}", "f32")
        if type == "bf16":
            return self._from_bfloat16(self._round_to_bfloat16(a))
        return a

    def _round_to_bfloat16(self, a: Value) -> Value:
        bits = self.bitcast(a, "u32")
        odd = (bits >> 16) & 1
        rounded = (bits + (odd + 0x7FFF)) >> 16
        quiet = self.select(a != a, self.constant("u32", 0x7FC0), rounded)
        return self.cast(quiet, "u16")

    def variable(self, type: str) -> str:
        """A stack slot for a scalar; pair of a name and the type it was made for."""
        if type in self.wide:
            raise NoVectors("a loop within a body")
        name = self.fresh()
        self.slots.append(f"  {name} = alloca {_TYPE[type]}")
        return name

    def read(self, slot: str, type: str) -> Value:
        return self.value(f"load {_TYPE[type]}, ptr {slot}", type)

    def write(self, slot: str, type: str, a: Value) -> None:
        a = self.cast(a, type)
        self.emit(f"store {_TYPE[type]} {a.name}, ptr {slot}")

    def local_array(self, type: str, count: int) -> str:
        """Scratch memory of a fixed size on the stack."""
        name = self.fresh()
        self.slots.append(f"  {name} = alloca [{count} x {_TYPE[type]}], align 64")
        return name

    # -- control -------------------------------------------------------------------------------

    def _node(self, text: str) -> str:
        """The name of a new node of metadata."""
        self.metadata.append(f"!{len(self.metadata)} = {text}")
        return f"!{len(self.metadata) - 1}"

    @contextmanager
    def loop(
        self,
        start: Value,
        stop: Value,
        step: int | Value = 1,
        independent: bool = False,
        abreast: int = 0,
        masked: bool = False,
        brief: bool = False,
    ) -> Iterator[Value]:
        """A counted loop over i64, downwards if the step is a negative number. `independent` promises that no iteration reads what another writes; `abreast` says
        how many vectors are computed side by side (1 where there are hardly more iterations than lanes); `masked`, that
        the last vector may have lanes beyond the end, which are masked. A `brief` loop is left as it is written, which keeps the
        compiler's work small."""
        slot = self.variable("i64")
        self.write(slot, "i64", start)
        head, body, end = self.label(), self.label(), self.label()
        self.branch(head)
        self.start_block(head)
        i = self.read(slot, "i64")
        down = not isinstance(step, Value) and step < 0
        self.branch_if(self.compare("gt" if down else "lt", i, stop), body, end)
        self.start_block(body)
        outer, written = self.access_group, len(self.lines)
        if independent:
            self.access_group = self._node("distinct !{}")
        group = self.access_group
        yield i
        self.access_group = outer
        light = independent and len(self.lines) - written < _HEAVY  # others may wait for their own results
        properties = []
        if brief or (self.brief and light and "%" in start.name + stop.name):
            properties = ['!{!"llvm.loop.vectorize.enable", i1 false}', '!{!"llvm.loop.unroll.disable"}']
        else:
            if independent:
                properties.append(f'!{{!"llvm.loop.parallel_accesses", {group}}}')
            if abreast:
                properties.append(f'!{{!"llvm.loop.interleave.count", i32 {abreast}}}')
            if masked:
                properties.append('!{!"llvm.loop.vectorize.predicate.enable", i1 true}')
        properties = [self._node(text) for text in properties]
        hint = ""
        if properties:
            names = ", ".join([f"!{len(self.metadata)}", *properties])  # the first is the node itself
            hint = f", !llvm.loop {self._node(f'distinct !{{{names}}}')}"
        following = self.value(f"add nsw i64 {i.name}, {step.name if isinstance(step, Value) else step}", "i64")
        self.write(slot, "i64", following)
        self.emit(f"br label %{head}{hint}")
        self.start_block(end)

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        yes, end = self.label(), self.label()
        self.branch_if(condition, yes, end)
        self.start_block(yes)
        yield
        self.branch(end)
        self.start_block(end)

    def clear_float_status(self) -> None:
        """Forget raised floating-point flags, so that NumPy does not warn of what PyTorch stays silent about.

        That costs as much as a short loop: a loop whose data are `NOT_NUMPY` leaves them as they are.
        """
        asked = any(p.endswith("%data") for p in self.parameters)
        data = self.value("ptrtoint ptr %data to i64", "i64") if asked else self.constant("i64", 0)
        with self.when(data != NOT_NUMPY):
            self._clear_float_status()

    def _clear_float_status(self) -> None:
        machine = platform.machine().lower()
        if machine in ("x86_64", "amd64"):
            slot = self.variable("i32")
            self.declarations |= {
                "declare void @llvm.x86.sse.stmxcsr(ptr)", "declare void @llvm.x86.sse.ldmxcsr(ptr)",
            }  # fmt: skip
            self.emit(f"call void @llvm.x86.sse.stmxcsr(ptr {slot})")
            kept = self.read(slot, "i32") & -64
            self.write(slot, "i32", kept)
            self.emit(f"call void @llvm.x86.sse.ldmxcsr(ptr {slot})")
        elif machine in ("aarch64", "arm64"):
            self.emit('call void asm sideeffect "msr fpsr, xzr", "~{memory}"()')
        else:
            self.declarations.add("declare i32 @feclearexcept(i32)")
            self.emit("call i32 @feclearexcept(i32 61)")
