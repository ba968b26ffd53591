"""Kernels written as small Python functions: loops, branches and array elements become machine code.

The source of a kernel is walked once for each set of operand types. Whatever is known while walking (Python
numbers, types, options) is computed then; only what depends on `Value`s is written down. Supported: assignment,
`for … in range(…)`, `while`, `if`, `break`, `continue`, subscripts of arrays, calls of other Python functions
(executed while walking) and of functions marked `@inline` (walked in place; `return` may stand anywhere in them).
"""

from __future__ import annotations

import ast
import dis
import functools
import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

from ..building import archives, jit
from ..render.llvm import Llvm
from ..render.symbols import Complex, symbols
from ..render.value import PART, SIZE, Value, inline, is_float
from .keys import is_constant
from .pointwise import _PARAMETERS, _pointer, _word, load, store
from .ufunc import make_ufunc


class Array:
    """One operand inside a kernel: its elements by core index, its core sizes as `shape`."""

    __slots__ = ("pointer", "r", "shape", "strides", "type")

    def __init__(self, r: Llvm, pointer: str, type: str, shape: list[Any], strides: list[Any]):
        self.r, self.pointer, self.type, self.shape, self.strides = r, pointer, type, shape, strides

    @property
    def n(self) -> Any:
        return self.shape[-1]

    @property
    def dense(self) -> bool:
        """Whether the kernel is being written for elements that follow each other; it is written for any others, too."""
        return not self.strides[-1].name.startswith("%")

    def _address(self, index: Any) -> str:
        index = index if isinstance(index, tuple) else (index,)
        if len(index) != len(self.strides):
            raise IndexError(f"{len(index)} indices for an operand of {len(self.strides)} core dimensions")
        pointer = self.pointer
        for i, stride in zip(index, self.strides):
            if i.__class__ is int and i == 0:
                continue
            i = i if isinstance(i, Value) else self.r.constant("i64", i)
            pointer = self.r.address(pointer, self.r.cast(i, "i64") * stride)
        return pointer

    def following(self, dimension: int, *first: Any) -> Iterator[Array]:
        """From an index on, what begins there, then what begins one further along a dimension, and so on: a sum each instead of products."""
        pointer = self._address(first)
        while True:
            yield Array(self.r, pointer, self.type, self.shape, self.strides)
            pointer = self.r.address(pointer, self.strides[dimension])

    def __getitem__(self, index: Any) -> Any:
        return load(self.r, self._address(index), self.type)

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(value, (Value, Complex)):
            value = self.r.constant(PART.get(self.type, "f32" if self.type in ("f16", "bf16") else self.type), value)
        store(self.r, self._address(index), self.type, value)

    def merge(
        self, index: Any, value: Any, how: str, combined: Callable[[Any, Any], Any], where: Value | None = None
    ) -> None:
        """An element becomes combined(element, value), which goes by the name `how`: at once, if other threads may be at it. Only `where`
        a condition holds; the element is there in any case."""
        pointer = self._address(index)
        if self.r.merge is None:
            old = load(self.r, pointer, self.type)
            new = combined(old, value)
            store(self.r, pointer, self.type, new if where is None else symbols.where(where, new, old))
            return
        with nullcontext() if where is None else self.r.when(where):
            self.r.merge(pointer, self.type, value, how, combined)


class Place:
    """An operand that is no memory: its only element is the number of bytes to where it would lie."""

    __slots__ = ("pointer", "r")

    def __init__(self, r: Any, pointer: str):
        self.r, self.pointer = r, pointer

    def __getitem__(self, index: tuple[()]) -> Value:
        return Value(self.r, f"((long long){self.pointer})", "i64")


class Local:
    """Scratch array on the stack of a kernel, made by `m.local(type, count)`."""

    __slots__ = ("pointer", "r", "type")

    def __init__(self, r: Llvm, type: str, count: int):
        self.r, self.type, self.pointer = r, type, r.local_array(type, count)

    def _at(self, index: Any) -> str:
        index = index if isinstance(index, Value) else self.r.constant("i64", index)
        return self.r.address(self.pointer, self.r.cast(index, "i64") * SIZE[self.type])

    def __getitem__(self, index: Any) -> Any:
        return self.r.load(self._at(index), self.type)

    def __setitem__(self, index: Any, value: Any) -> None:
        value = value if isinstance(value, Value) else self.r.constant(self.type, value)
        self.r.store(self._at(index), self.type, value)


class Variable:
    """A name that is assigned more than once: a stack slot (two of them for complex)."""

    def __init__(self, r: Llvm, value: Any):
        self.r = r
        self.type = value.type
        parts = [value.re, value.im] if isinstance(value, Complex) else [value]
        self.slots = [(r.variable(p.type), p.type) for p in parts]

    def read(self) -> Any:
        parts = [self.r.read(name, type) for name, type in self.slots]
        return Complex(*parts) if len(parts) == 2 else parts[0]

    def write(self, value: Any) -> None:
        if not isinstance(value, (Value, Complex)):
            value = self.r.constant(self.slots[0][1], value)
        value = symbols.cast(value, self.type)
        parts = [value.re, value.im] if isinstance(value, Complex) else [value]
        for (name, type), part in zip(self.slots, parts):
            self.r.write(name, type, part)


class KernelScope:
    """The domain handed to kernels: all of `symbols`, and what only a function in the making can give."""

    def __init__(self, r: Any):
        self.r = r

    def __getattr__(self, name: str) -> Any:
        return getattr(symbols, name)

    def value(self, number: Any, type: str) -> Any:
        """A typed constant: the start of an accumulator, for instance."""
        if type in PART:
            number = complex(number)
            part = PART[type]
            return Complex(self.r.constant(part, number.real), self.r.constant(part, number.imag))
        return self.r.constant(type, number)

    def local(self, type: str, count: int) -> Local:
        return Local(self.r, type, count)

    def library(self, name: str, *args: Value) -> Value:
        """A function of the C library, of float64."""
        self.r.declarations.add(f"declare double @{name}({', '.join(['double'] * len(args))})")
        return self.r.value(f"call double @{name}({', '.join(f'double {a.name}' for a in args)})", "f64")


@functools.cache
def _source(function: Callable[..., Any]) -> tuple[ast.FunctionDef, dict[str, Any]]:
    for text_of in (_indented, inspect.getsource):
        try:
            module = ast.parse(textwrap.dedent(text_of(function)))
        except SyntaxError:
            continue
        tree = module.body[0] if module.body else None
        if isinstance(tree, ast.FunctionDef) and _is_source_of(module, tree, function):
            closure = inspect.getclosurevars(function)
            return tree, {**closure.builtins, **function.__globals__, **closure.nonlocals}
    raise RuntimeError(
        f"the source of the kernel {function.__qualname__} in {function.__code__.co_filename} has changed since it was "
        "imported; start the program again"
    )


def _indented(function: Callable[..., Any]) -> str:
    """The text of a function by how its lines are indented, which takes a tenth of the time that it takes to read it word by word."""
    code = function.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, function.__globals__)[code.co_firstlineno - 1 :]
    margin = len(lines[0]) - len(lines[0].lstrip()) if lines else 0
    begun = False
    for number, line in enumerate(lines):
        text = line.lstrip()
        if begun and text and len(line) - len(text) <= margin and text[0] not in ")#":
            return "".join(lines[:number])
        begun = begun or text.startswith("def ")
    return "".join(lines)


def _is_source_of(module: ast.Module, tree: ast.FunctionDef, function: Any) -> bool:
    """Whether the file still has the names and numbers that Python compiled: it may be replaced while a program runs."""
    plain = ast.Module([ast.FunctionDef(**{**vars(tree), "decorator_list": []})], module.type_ignores)
    compiled = compile(plain, "kernel", "exec", dont_inherit=True).co_consts  # annotations may have code, too
    found = next(c for c in compiled if hasattr(c, "co_code") and c.co_name == tree.name)
    return _parts(found, ()) == _parts(function.__code__, function.__code__.co_freevars)


_SMALL = dis.opmap.get("LOAD_SMALL_INT", 0)  # from Python 3.14 on, numbers below 256 are no constants


def _parts(code: Any, free: tuple[str, ...]) -> tuple[Any, ...]:
    """The names in a function's code, whose free ones are global in a copy of it that stands alone, and its constants."""
    constants = [c for c in code.co_consts if not hasattr(c, "co_code")]
    steps = code.co_code if _SMALL else b""
    small = [number for step, number in zip(steps[::2], steps[1::2], strict=True) if step == _SMALL]
    return code.co_name, {*code.co_names, *free}, code.co_varnames, constants, small


@functools.cache
def _reassigned(tree: ast.FunctionDef) -> set[str]:
    """Names that need a slot: assigned twice, or by an augmented assignment."""
    seen: set[str] = set()
    again: set[str] = set()
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            for target in node.targets:
                targets += target.elts if isinstance(target, ast.Tuple) else [target]
        elif isinstance(node, ast.AugAssign):
            targets = [node.target]
            if isinstance(node.target, ast.Name):
                again.add(node.target.id)
        for target in targets:
            if isinstance(target, ast.Name):
                (again if target.id in seen else seen).add(target.id)
    return again


@functools.cache
def _returns_early(tree: ast.FunctionDef) -> bool:
    return any(isinstance(node, ast.Return) and node is not tree.body[-1] for node in ast.walk(tree))


_BINARY = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b, ast.FloorDiv: lambda a, b: a // b, ast.Mod: lambda a, b: a % b,
    ast.BitAnd: lambda a, b: a & b, ast.BitOr: lambda a, b: a | b, ast.BitXor: lambda a, b: a ^ b,
    ast.LShift: lambda a, b: a << b, ast.RShift: lambda a, b: a >> b, ast.Pow: lambda a, b: a**b,
}  # fmt: skip
_COMPARE = {
    ast.Lt: lambda a, b: a < b, ast.LtE: lambda a, b: a <= b, ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b, ast.Eq: lambda a, b: a == b, ast.NotEq: lambda a, b: a != b,
    ast.Is: lambda a, b: a is b, ast.IsNot: lambda a, b: a is not b,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip


class Walker:
    """Executes the syntax tree of one kernel function, writing what cannot be known yet."""

    def __init__(self, r: Llvm, function: Callable[..., Any], arguments: dict[str, Any]):
        self.r = r
        self.tree, self.scope = _source(function)
        self.names: dict[str, Any] = dict(arguments)
        self.slotted = _reassigned(self.tree)
        for name in self.slotted & self.names.keys():
            if isinstance(self.names[name], (Value, Complex)):
                self.bind(name, self.names.pop(name))
        self.exits: list[tuple[str, str]] = []  # labels of (continue, break)
        self.result: Any = None
        self.end = ""  # where an inlined function that may return early ends
        self.returned: list[Variable] = []  # what it returns

    def run(self) -> Any:
        self.block(self.tree.body)
        return self.result

    def run_inline(self) -> Any:
        """The same for a function that another one calls."""
        if not _returns_early(self.tree):
            return self.run()
        self.end = self.r.label()
        self.block(self.tree.body)
        self._close(self.end)
        found = tuple([variable.read() for variable in self.returned])
        return found if self.result else found[0]

    # -- statements ----------------------------------------------------------------------------

    def block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            getattr(self, "do_" + type(statement).__name__)(statement)

    def do_Pass(self, node: ast.Pass) -> None:
        pass

    def do_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.eval(node.value)

    def do_Return(self, node: ast.Return) -> None:
        value: Any = self.eval(node.value) if node.value else None
        if not self.end:
            self.result = value
            return
        self.result = isinstance(value, tuple)  # it is so for each of them
        values = [self.r.constant("i64", v) if isinstance(v, int) else v for v in (value if self.result else [value])]
        if not self.returned:
            self.returned = [Variable(self.r, v) for v in values]
        for variable, v in zip(self.returned, values, strict=True):
            variable.write(v)
        self._jump(self.end)

    def bind(self, name: str, value: Any) -> None:
        if name not in self.slotted:
            self.names[name] = value
            return
        variable = self.names.get(name)
        if not isinstance(variable, Variable):
            if isinstance(value, (bool, int)):
                value = self.r.constant("b1" if isinstance(value, bool) else "i64", value)
            elif not isinstance(value, (Value, Complex)):
                self.names[name] = value  # a compile-time object (None, string, tuple, float)
                return
            variable = self.names[name] = Variable(self.r, value)
        variable.write(value)

    def assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.bind(target.id, value)
        elif isinstance(target, ast.Tuple):
            for part, item in zip(target.elts, value, strict=True):
                self.assign(part, item)
        elif isinstance(target, ast.Subscript):
            self.eval(target.value)[self.eval(target.slice)] = value
        else:
            raise SyntaxError(f"a kernel cannot assign to {ast.unparse(target)}")

    def do_Assign(self, node: ast.Assign) -> None:
        value = self.eval(node.value)
        for target in node.targets:
            self.assign(target, value)

    def do_AnnAssign(self, node: ast.AnnAssign) -> None:
        assert node.value is not None
        self.assign(node.target, self.eval(node.value))

    def do_AugAssign(self, node: ast.AugAssign) -> None:
        old = self.eval(node.target)
        self.assign(node.target, _BINARY[type(node.op)](old, self.eval(node.value)))

    def do_If(self, node: ast.If) -> None:
        condition = self.eval(node.test)
        if not isinstance(condition, Value):
            self.block(node.body if condition else node.orelse)
            return
        yes, no, end = self.r.label(), self.r.label(), self.r.label()
        self.r.branch_if(condition, yes, no)
        for label, body in ((yes, node.body), (no, node.orelse)):
            self.r.start_block(label)
            self.block(body)
            self.r.branch(end)
        self.r.start_block(end)

    def do_For(self, node: ast.For) -> None:
        assert isinstance(node.iter, ast.Call) and isinstance(node.target, ast.Name)
        kind = ast.unparse(node.iter.func)
        if kind == "side_by_side":
            self._in_lanes(node)
            return
        if kind not in ("range", "independent", "few", "as_written"):
            for item in self.eval(node.iter):  # a Python sequence: unrolled
                self.names[node.target.id] = item
                self.block(node.body)
            return
        bounds = [self.eval(a) for a in node.iter.args]
        start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1) if len(bounds) == 2 else bounds
        start, stop = (b if isinstance(b, Value) else self.r.constant("i64", b) for b in (start, stop))
        hints = {k.arg: self.eval(k.value) for k in node.iter.keywords}
        alone = kind == "independent" and hints.get("when", True)
        abreast = hints.get("abreast", int(kind == "few"))
        with self.r.loop(start, stop, step, independent=alone, abreast=abreast, brief=kind == "as_written") as i:
            again, out = self.r.label(), self.r.label()
            self.exits.append((again, out))
            self.names[node.target.id] = i
            self.block(node.body)
            self.exits.pop()
            self.r.branch(again)
            self.r.start_block(again)
            broken = out
        self._close(broken)

    def _in_lanes(self, node: ast.For) -> None:
        """The iterations of a short loop as the lanes of vectors."""
        assert isinstance(node.iter, ast.Call) and isinstance(node.target, ast.Name)
        (count,) = [self.eval(a) for a in node.iter.args]
        self.names[node.target.id] = self.r.constant("i64", 0)
        with self.r.vectors(count, wide=frozenset(["f32", "f64"])):
            self.block(node.body)

    def do_While(self, node: ast.While) -> None:
        head, body, out = self.r.label(), self.r.label(), self.r.label()
        self.r.branch(head)
        self.r.start_block(head)
        self.r.branch_if(self.eval(node.test), body, out)
        self.r.start_block(body)
        self.exits.append((head, out))
        self.block(node.body)
        self.exits.pop()
        self.r.branch(head)
        self.r.start_block(out)

    def _close(self, label: str) -> None:
        self.r.branch(label)
        self.r.start_block(label)

    def do_Break(self, node: ast.Break) -> None:
        self._jump(self.exits[-1][1])

    def do_Continue(self, node: ast.Continue) -> None:
        self._jump(self.exits[-1][0])

    def _jump(self, label: str) -> None:
        self.r.branch(label)
        self.r.start_block(self.r.label())  # what follows is unreachable

    # -- expressions ---------------------------------------------------------------------------

    def eval(self, node: ast.expr) -> Any:
        return getattr(self, "eval_" + type(node).__name__)(node)

    def eval_Constant(self, node: ast.Constant) -> Any:
        return node.value

    def eval_Name(self, node: ast.Name) -> Any:
        if node.id in self.names:
            found = self.names[node.id]
            return found.read() if isinstance(found, Variable) else found
        try:
            return self.scope[node.id]
        except KeyError:
            raise NameError(f"kernel {self.tree.name}: unknown name {node.id!r}") from None

    def eval_Attribute(self, node: ast.Attribute) -> Any:
        return getattr(self.eval(node.value), node.attr)

    def eval_Tuple(self, node: ast.Tuple) -> Any:
        return tuple(self.eval(e) for e in node.elts)

    def eval_List(self, node: ast.List) -> Any:
        return [self.eval(e) for e in node.elts]

    def eval_Subscript(self, node: ast.Subscript) -> Any:
        return self.eval(node.value)[self.eval(node.slice)]

    def eval_BinOp(self, node: ast.BinOp) -> Any:
        return _BINARY[type(node.op)](self.eval(node.left), self.eval(node.right))

    def eval_UnaryOp(self, node: ast.UnaryOp) -> Any:
        value = self.eval(node.operand)
        if isinstance(node.op, ast.Not):
            return ~value if isinstance(value, Value) else not value
        if isinstance(node.op, ast.USub):
            return -value
        return ~value if isinstance(node.op, ast.Invert) else value

    def eval_Compare(self, node: ast.Compare) -> Any:
        assert len(node.ops) == 1, "write a < b and b < c"
        return _COMPARE[type(node.ops[0])](self.eval(node.left), self.eval(node.comparators[0]))

    def eval_BoolOp(self, node: ast.BoolOp) -> Any:
        """Both sides of a condition on values are evaluated: they must be free of side effects and safe."""
        result = self.eval(node.values[0])
        for part in node.values[1:]:
            if not isinstance(result, Value):
                if bool(result) == isinstance(node.op, ast.Or):
                    return result
                result = self.eval(part)
            else:
                other = self.eval(part)
                result = result & other if isinstance(node.op, ast.And) else result | other
        return result

    def eval_IfExp(self, node: ast.IfExp) -> Any:
        condition = self.eval(node.test)
        if isinstance(condition, Value):
            return symbols.where(condition, self.eval(node.body), self.eval(node.orelse))
        return self.eval(node.body if condition else node.orelse)

    def eval_Call(self, node: ast.Call) -> Any:
        function = self.eval(node.func)
        args = [self.eval(a) for a in node.args]
        keywords = {k.arg: self.eval(k.value) for k in node.keywords if k.arg}
        if getattr(function, "__kernel_inline__", False):
            bound = inspect.signature(function).bind(*args, **keywords)
            bound.apply_defaults()
            return Walker(self.r, function, dict(bound.arguments)).run_inline()
        return function(*args, **keywords)


class Kernel:
    """A kernel function with a generalized-ufunc signature; gives a ufunc for each set of types and options."""

    def __init__(
        self, function: Callable[..., Any], signature: str, name: str = "", along: str = "", vectors: bool = True
    ):
        self.function, self.signature, self.name = function, signature, name or function.__name__
        self.vectors = vectors  # whether the compiler looks for some
        self.along = along  # the dimension of its one loop, if that is all it does and iterations are `independent`
        sides = [
            [tuple(filter(None, part.strip(" ()").split(","))) for part in side.replace(" ", "").split("),(")]
            for side in signature.split("->")
        ]
        self.inputs, self.outputs = sides
        self.dims = list(dict.fromkeys(d for dims in [*self.inputs, *self.outputs] for d in dims))
        self.cache: dict[Any, Any] = {}
        functools.update_wrapper(self, function)

    def __call__(self, types: tuple[str, ...], **options: Any) -> Any:
        """The ufunc for operand types (inputs, then outputs); options are constants of the kernel. With `adjacent=True` the
        caller says that elements of the last core dimension follow each other in every operand, and with False that they need not:
        one loop is made. Without it there are two, and each call takes the one that fits."""
        key = (types, *options.items()) if options else types
        found = self.cache.get(key)
        if found is None:
            found = self.cache[key] = self.build(types, options)
        return found

    def render(self, types: tuple[str, ...], options: dict[str, Any]) -> str:
        known = options.get("adjacent")
        options = {name: value for name, value in options.items() if name != "adjacent"}
        operands = [*self.inputs, *self.outputs]
        r = Llvm("kernel", _PARAMETERS)
        r.as_written = not self.vectors
        pointers = [_pointer(r, "%args", i) for i in range(len(operands))]
        outer_steps = [_word(r, "%steps", i) for i in range(len(operands))]
        count = _word(r, "%dims", 0)
        sizes = {d: _word(r, "%dims", 1 + i) for i, d in enumerate(self.dims)}
        strides, position = [], len(operands)
        for dims in operands:
            strides.append([_word(r, "%steps", position + i) for i in range(len(dims))])
            position += len(dims)
        dense: list[Value] = [  # NumPy gives a single element no stride
            (s[-1] == SIZE[t]) | (sizes[dims[-1]] == 1) for s, t, dims in zip(strides, types, operands) if s
        ]
        end = r.label()

        def body(contiguous: bool) -> None:
            with r.loop(r.constant("i64", 0), count) as i:
                arrays = []
                for k, dims in enumerate(operands):
                    core = list(strides[k])
                    if contiguous and core:
                        core[-1] = r.constant("i64", SIZE[types[k]])
                    pointer = r.address(pointers[k], i * outer_steps[k])
                    arrays.append(Array(r, pointer, types[k], [sizes[d] for d in dims], core))
                self.write(KernelScope(r), arrays, options)

        if dense and known is None:
            with r.when(functools.reduce(lambda a, b: a & b, dense)):
                body(True)
                r.branch(end)
                r.start_block(r.label())
        r.brief = bool(dense) and not known
        body(bool(known))
        r.branch(end)
        r.start_block(end)
        r.clear_float_status()
        return r.text()

    def write(self, m: KernelScope, arrays: list[Array], options: dict[str, Any]) -> None:
        """Writes what is done for the core of the operands."""
        names = list(inspect.signature(self.function).parameters)
        Walker(m.r, self.function, {**dict(zip(names, [m, *arrays])), **options}).run()

    def key(self) -> Any:
        """What, together with our files, says all about the kernel; None if nothing does."""
        function = self.function
        ours = function.__module__.startswith(archives.MODULES)
        return (function.__module__, function.__qualname__) if ours and not function.__closure__ else None

    def build(self, types: tuple[str, ...], options: dict[str, Any]) -> Any:
        address = self._compiled(types, options)
        count = len(self.inputs)
        return make_ufunc(self.name, address, types[:count], types[count:], self.signature)

    def _compiled(self, types: tuple[str, ...], options: dict[str, Any]) -> int:
        def render() -> str:
            return self.render(types, options)

        own = self.key()
        if own is None or not all(is_constant(v) for v in options.values()):
            return jit.compile("kernel", render())
        return jit.compile_rendered("kernel", (*own, self.signature, types, sorted(options.items())), render)


def kernel(signature: str, along: str = "", vectors: bool = True) -> Callable[[Callable[..., Any]], Kernel]:
    """Declares a kernel: `@kernel("(n),(n)->()")` over a function of `m`, the operands and options. One whose only loop goes `along` a
    dimension and is `independent` has a thread for each iteration on a GPU. One without `vectors` is compiled as it is written."""
    return lambda function: Kernel(function, signature, along=along, vectors=vectors)


def independent(*bounds: Any, abreast: int = 0, when: bool = True) -> range:
    """In a kernel: a `range` whose iterations do not depend on each other, so that it may be vectorised, so many vectors `abreast`;
    a plain one unless `when` holds, which is known while the kernel is made."""
    return range(*bounds)


def side_by_side(count: int) -> range:
    """In a kernel: a `range` that is no loop, as its iterations are the lanes of a vector: of floats, which are loaded from and stored to
    neighbours, added and multiplied. The compiler need not find that out, which takes long for bodies of hundreds of steps."""
    return range(count)


def few(*bounds: Any) -> range:
    """In a kernel: a `range` over what whole groups of vectors have left."""
    return range(*bounds)


def as_written(*bounds: Any) -> range:
    """In a kernel: a `range` that the compiler leaves as it is, where vectors would bring nothing and looking for them costs time."""
    return range(*bounds)


def strands(count: int) -> list[int]:
    """In a kernel: numbers over which a loop is unrolled."""
    return list(range(count))


__all__ = [
    "Array", "Kernel", "as_written", "few", "independent", "inline", "is_float", "kernel", "side_by_side", "strands",
]  # fmt: skip
