"""Functions over memory, written in a dialect of Python and compiled to machine code.

`lang` has kernels: arrays in, arrays out. Here are the few functions around them that read objects and tables: words at
addresses, calls of C functions, branches, early returns. All values are integers of 64 bits; an address is one.

    @inline
    def second(m, p):
        return m.word(p, 8)

    address = compile_function(body, ["p"])      # def body(m, p): return second(m, p) + 1
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from . import jit
from .lang import Walker, inline
from .render_llvm import Llvm
from .value import Value

__all__ = ["compile_function", "inline", "render_function"]


class _Text(Llvm):
    """A function that gives a word."""

    def text(self) -> str:
        body = [
            f"define i64 @{self.function_name}({', '.join(self.parameters)}) nounwind {{",
            "entry:", *self.slots, *self.lines, "  ret i64 0", "}",
        ]  # fmt: skip
        return "\n".join([*sorted(self.declarations), *body, *self.metadata, ""])


class Memory:
    """What such a function can do besides arithmetic and control."""

    def __init__(self, r: _Text):
        self.r = r

    def number(self, value: Any) -> Value:
        return value if isinstance(value, Value) else self.r.constant("i64", value)

    def _pointer(self, address: Any, offset: Any) -> str:
        address = self.number(address)
        if isinstance(offset, Value) or offset:
            address = address + offset
        return self.r.value(f"inttoptr i64 {address.name} to ptr", "i64").name

    def word(self, address: Any, offset: Any = 0) -> Value:
        """The word at an address."""
        return self.r.value(f"load i64, ptr {self._pointer(address, offset)}, align 1", "i64")

    def half(self, address: Any, offset: Any = 0) -> Value:
        """A signed number of 32 bits."""
        short = self.r.value(f"load i32, ptr {self._pointer(address, offset)}, align 1", "i32")
        return self.r.cast(short, "i64")

    def put(self, address: Any, offset: Any, value: Any) -> None:
        self.r.emit(f"store i64 {self.number(value).name}, ptr {self._pointer(address, offset)}, align 1")

    def put_single(self, address: Any, offset: Any, value: Any) -> None:
        """Writes the float64 whose bits are `value` as a float32."""
        wide = self.r.value(f"bitcast i64 {value.name} to double", "f64")
        short = self.r.value(f"fptrunc double {wide.name} to float", "f32")
        self.r.emit(f"store float {short.name}, ptr {self._pointer(address, offset)}, align 1")

    def beyond(self, bits: Any) -> Value:
        """Whether the float64 of these bits is one that a float32 cannot hold, or no number."""
        wide = self.r.value(f"bitcast i64 {bits.name} to double", "f64")
        size = self.r.intrinsic("abs", wide)
        return self.r.value(f"fcmp ugt double {size.name}, 3.0e38", "b1")

    def as_float(self, value: Any) -> Value:
        """The bits of the float64 that an integer is."""
        wide = self.r.value(f"sitofp i64 {value.name} to double", "f64")
        return self.r.value(f"bitcast double {wide.name} to i64", "i64")

    def fields(self, address: Any, names: Sequence[str]) -> Any:
        """The words at an address by names; each is read where it is used."""
        return _Fields(self, address, names)

    def space(self, words: int) -> Value:
        """Memory on the stack."""
        return self.r.value(f"ptrtoint ptr {self.r.local_array('i64', words)} to i64", "i64")

    def call(self, function: Any, *args: Any) -> Value:
        """Calls a C function by its name, or by its address; all arguments and the result are words."""
        given = ", ".join(f"i64 {self.number(a).name}" for a in args)
        if isinstance(function, str):
            self.r.declarations.add(f"declare i64 @{function}({', '.join(['i64'] * len(args))})")
            return self.r.value(f"call i64 @{function}({given})", "i64")
        pointer = self.r.value(f"inttoptr i64 {function.name} to ptr", "i64").name
        return self.r.value(f"call i64 {pointer}({given})", "i64")

    def run(self, function: Any, *args: Any) -> None:
        """Calls a C function that gives nothing."""
        given = ", ".join(f"i64 {self.number(a).name}" for a in args)
        if isinstance(function, str):
            self.r.declarations.add(f"declare void @{function}({', '.join(['i64'] * len(args))})")
            self.r.emit(f"call void @{function}({given})")
        else:
            pointer = self.r.value(f"inttoptr i64 {function.name} to ptr", "i64").name
            self.r.emit(f"call void {pointer}({given})")


class _Fields:
    def __init__(self, m: Memory, address: Any, names: Sequence[str]):
        self._m, self._address, self._names = m, address, names

    def __getattr__(self, name: str) -> Value:
        return self._m.word(self._address, 8 * self._names.index(name))


class _Function(Walker):
    """The walk through a whole function: `return` may stand anywhere."""

    def do_Return(self, node: ast.Return) -> None:
        value = self.eval(node.value) if node.value else 0
        name = value.name if isinstance(value, Value) else str(int(value))
        self.r.emit(f"ret i64 {name}")
        self.r.start_block(self.r.label())  # what follows is unreachable


def render_function(name: str, body: Callable[..., Any], parameters: Sequence[str], **options: Any) -> str:
    """The assembly of a function of words; `options` are constants known to it."""
    r = _Text(name, [f"i64 %{p}" for p in parameters])
    given = {p: Value(r, f"%{p}", "i64") for p in parameters}
    first, *_ = body.__code__.co_varnames
    _Function(r, body, {first: Memory(r), **given, **options}).run()
    return r.text()


def compile_function(name: str, body: Callable[..., Any], parameters: Sequence[str], **options: Any) -> int:
    """The address of a function of words."""
    known = [sorted(vars(o).items()) if hasattr(o, "__dict__") else o for o in options.values()]
    key = body.__module__, body.__qualname__, known
    return jit.compile_rendered(name, key, lambda: render_function(name, body, parameters, **options))
