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
import re
from collections.abc import Callable, Sequence
from typing import Any

from ..building import archives, jit
from ..building.llvm import AS_WRITTEN
from ..render.llvm import Llvm
from ..render.value import Value
from ..threads import pool
from .lang import Walker, inline

__all__ = ["compile_function", "compile_module", "inline", "is_kept", "render_function"]


class _Text(Llvm):
    """A function that gives a word."""

    linkage = ""
    beside: Sequence[str] = ()  # names of functions in the same module

    def text(self) -> str:
        body = [
            f"define {self.linkage}i64 @{self.function_name}({', '.join(self.parameters)}) nounwind {AS_WRITTEN} {{",
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
        return self.r.value(self._call("i64", function, args), "i64")

    def run(self, function: Any, *args: Any) -> None:
        """Calls a C function that gives nothing."""
        inside = isinstance(function, str) and function in self.r.beside
        self.r.emit(self._call("i64" if inside else "void", function, args))

    def short(self, function: str, *args: Any) -> Value:
        """Calls a C function that gives a number of 32 bits."""
        return self.r.cast(self.r.value(self._call("i32", function, args), "i32"), "i64")

    def _call(self, result: str, function: Any, args: Sequence[Any]) -> str:
        given = ", ".join(f"i64 {self.number(a).name}" for a in args)
        if not isinstance(function, str):
            return f"call {result} {self.r.value(f'inttoptr i64 {function.name} to ptr', 'i64').name}({given})"
        if function not in self.r.beside:
            self.r.declarations.add(f"declare {result} @{function}({', '.join(['i64'] * len(args))})")
        return f"call {result} @{function}({given})"

    def clear_float_status(self) -> None:
        """Flags of floating-point arithmetic are as if there had been none."""
        self.r._clear_float_status()

    def function(self, name: str) -> Value:
        """The address of a function of the same module."""
        return self.r.value(f"ptrtoint ptr @{name} to i64", "i64")

    # -- what several threads share --------------------------------------------------------------------------------

    def memory(self) -> Value:
        """The address of the module's own memory."""
        return self.r.value("ptrtoint ptr @memory to i64", "i64")

    def add(self, address: Any, value: int) -> Value:
        """Adds to a word that others look at; gives what it was before."""
        return self.r.value(f"atomicrmw add ptr {self._pointer(address, 0)}, i64 {value} seq_cst", "i64")

    def look(self, address: Any) -> Value:
        """A word that others write, in the order of all such words."""
        return self.r.value(f"load atomic i64, ptr {self._pointer(address, 0)} seq_cst, align 8", "i64")

    def glance(self, address: Any) -> Value:
        """A word that others write, in no order."""
        return self.r.value(f"load atomic i64, ptr {self._pointer(address, 0)} monotonic, align 8", "i64")

    def set(self, address: Any, value: Any) -> None:
        """Writes a word that others look at."""
        self.r.emit(f"store atomic i64 {self.number(value).name}, ptr {self._pointer(address, 0)} seq_cst, align 8")

    def swap(self, address: Any, old: int, new: int) -> Value:
        """Writes a word that others look at if it is `old`; 1, or 0 if it is not."""
        place = self._pointer(address, 0)
        pair = self.r.value(f"cmpxchg ptr {place}, i64 {old}, i64 {new} seq_cst seq_cst", "i64").name
        done = self.r.value(f"extractvalue {{ i64, i1 }} {pair}, 1", "b1")
        return self.r.cast(done, "i64")

    def pause(self, instruction: str) -> None:
        """Waits for a moment, by an intrinsic of LLVM."""
        if instruction:
            self.r.declarations.add(f"declare void @{re.sub(' [0-9]+', '', instruction)}")
            self.r.emit(f"call void @{instruction}")


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


def render_function(
    name: str, body: Callable[..., Any], parameters: Sequence[str], beside: Sequence[str] = (), **options: Any
) -> str:
    """The assembly of a function of words; `options` are constants known to it, `beside` functions that are."""
    r = _Text(name, [f"i64 %{p}" for p in parameters])
    r.beside = beside
    if beside and name != beside[-1]:
        r.linkage = "internal "
    given = {p: Value(r, f"%{p}", "i64") for p in parameters}
    first, *others = body.__code__.co_varnames[: body.__code__.co_argcount]
    known = {option: value for option, value in options.items() if option in others}
    _Function(r, body, {first: Memory(r), **given, **known}).run()
    return r.text()


def compile_function(name: str, body: Callable[..., Any], parameters: Sequence[str], **options: Any) -> int:
    """The address of a function of words."""
    key = body.__module__, body.__qualname__, _known(options)
    return _compiled(name, body, key, lambda: render_function(name, body, parameters, **options))


def is_kept(name: str, body: Callable[..., Any], **options: Any) -> bool:
    """Whether such a function has been compiled before."""
    return jit.kept_rendered(name, (body.__module__, body.__qualname__, _known(options))) is not None


def compile_module(functions: dict[Callable[..., Any], list[str]], words: int, **options: Any) -> int:
    """The address of the last of several functions (with the names of their arguments) that know each other and share so many
    words of memory."""
    names = [body.__name__ for body in functions]

    def render() -> str:
        parts = [render_function(body.__name__, body, given, names, **options) for body, given in functions.items()]
        lines = [line for text in parts for line in text.split("\n")]
        declared = sorted({line for line in lines if line.startswith("declare ")})
        rest = [line for line in lines if not line.startswith("declare ")]
        return "\n".join([f"@memory = internal global [{words} x i64] zeroinitializer, align 128", *declared, *rest])

    body = next(reversed(functions))
    return _compiled(names[-1], body, (body.__module__, names, words, _known(options)), render)


def _compiled(name: str, body: Callable[..., Any], key: Any, render: Callable[[], str]) -> int:
    """A function is known by its key only where a change of its file is noticed."""
    if not body.__module__.startswith(archives.MODULES):
        return jit.compile(name, render())
    return jit.compile_rendered(name, key, render)


def _known(options: dict[str, Any]) -> list[Any]:
    return [sorted(vars(o).items()) if hasattr(o, "__dict__") else o for o in options.values()]


pool.compile_with(compile_module)
