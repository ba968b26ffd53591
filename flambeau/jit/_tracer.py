"""Records what a module or function does when it runs on examples: operators of PyTorch's library on values, in the
order of their calls, inside of the modules that called them. Sizes taken from tensors are values too."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .._compile import graph
from .._compile.graph import values_in
from .._core.sizes import Size
from .._core.state import local
from .._errors.frames import warn_user
from .._interception.overrides import TorchFunctionMode, dispatch
from .._library.schema_texts import gives_several
from .._ops.registry import ops
from .._tensor import Tensor
from ..nn.modules.module import Module
from . import _lowering, _lowering_layers, _lowering_math, _lowering_shapes, _trace_forms

_ROWS = (_lowering_layers, _lowering_math, _lowering_shapes)  # in the table once they are imported


class TracerWarning(Warning):
    """Something in a trace that will not follow other inputs."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Nothing to do: operations of this package warn nobody."""


class Value(graph.Value):
    """A result or input in a recording. `kind` is a TorchScript type; `example` is what stood there."""

    __slots__ = ("attribute", "example", "kind", "name")

    def __init__(self, kind: str, example: Any = None, name: str = ""):
        self.kind, self.example, self.name, self.node = kind, example, name, None
        self.attribute: str | None = None  # full path of a parameter or buffer

    def __repr__(self) -> str:
        return f"%{self.attribute or self.name or self.kind}"


class Node(graph.Node):
    """One operator: `op` is its name without namespace, `several` the kind of sequence that it gives, if it gives one."""

    __slots__ = ("part", "scope")

    def __init__(self, op: str, args: list[Any], outs: Any, several: Any = False, named: dict[str, Any] | None = None):
        super().__init__(op, args, outs, several, named)
        self.scope = ""  # set by hooks of programs, see Tracer.push_scope
        self.part = 0  # of a program that is cut into several, see Recorder.part
        for value in outs:
            value.node = self


class ScriptCall(Node):
    """A call of something scripted: `target` is the path of a module or a function; `result` is what it gave, with values
    for tensors and numbers."""

    __slots__ = ("result", "target")

    def __init__(self, target: Any, args: list[Any], named: dict[str, Any], result: Any):
        super().__init__("", args, list(values_in(result)), named=named)
        self.target, self.result = target, result


class Call:
    """A call of a module: what it did, in order."""

    def __init__(self, path: str, module: Any, parent: Call | None):
        self.path, self.module, self.parent = path, module, parent
        self.items: list[Node | Call] = []

    def nodes(self) -> Iterator[Node]:
        """All operators, those of inner modules included, in order."""
        for item in self.items:
            if isinstance(item, Call):
                yield from item.nodes()
            else:
                yield item


# -- numbers that depend on sizes --------------------------------------------------------------------------------


def active() -> Tracer | None:
    """The recording that is under way."""
    stack = local.function_modes
    return stack[-1] if stack and isinstance(stack[-1], Tracer) else None


# What is done with sizes, by the names of TorchScript's operators.
ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "floordiv": operator.floordiv,
    "remainder": operator.mod, "neg": operator.neg,
}  # fmt: skip


def _arithmetic(op: str, name: str, swapped: bool = False) -> Any:
    plain = getattr(int, name)
    plain_float = getattr(float, name, None)

    def method(self: Any, other: Any) -> Any:
        result = plain(int(self), other) if isinstance(self, int) else plain_float(float(self), other)  # type: ignore[misc]
        if result is NotImplemented:
            if isinstance(self, int) and isinstance(other, float):
                result = getattr(float, name)(float(self), other)
            if result is NotImplemented:
                return result
        tracer = active()
        if tracer is None:
            return result
        a, b = (other, self) if swapped else (self, other)
        return tracer.number(op, [a, b], result)

    method.__name__ = name
    return method


def _negated(number: Any, result: Any) -> Any:
    tracer = active()
    return result if tracer is None else tracer.number("neg", [number], result)


class TracedInt(int):
    """A size, or a number computed from sizes."""

    value: Value

    def __neg__(self) -> Any:
        return _negated(self, int.__neg__(self))

    def __reduce__(self) -> Any:
        return int, (int(self),)


class TracedSize(Size):
    """A shape of traced sizes; so are its parts."""

    __slots__ = ()

    @staticmethod
    def of(sizes: Any) -> Any:
        return tuple.__new__(TracedSize, sizes)

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return TracedSize.of(found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> Any:
        return TracedSize.of(tuple.__add__(self, tuple(other)))

    def __radd__(self, other: Any) -> Any:
        return TracedSize.of(tuple(other) + tuple(self))


class TracedFloat(float):
    """A quotient of sizes."""

    value: Value

    def __neg__(self) -> Any:
        return _negated(self, float.__neg__(self))

    def __reduce__(self) -> Any:
        return float, (float(self),)


for _op, _function in ARITHMETIC.items():
    for _kind in (TracedInt, TracedFloat) if _op != "neg" else ():
        for _name, _swapped in ((f"__{_function.__name__}__", False), (f"__r{_function.__name__}__", True)):
            setattr(_kind, _name, _arithmetic(_op, _name, _swapped))


# -- the recording -----------------------------------------------------------------------------------------------


class Tracer(TorchFunctionMode):
    """A mode in which operations are recorded. `root` is the module that is traced, if one is; constants are added to
    those given, which other recordings use. With `scripts`, what is scripted is recorded as a call."""

    by_functions = True  # operators of `torch.ops.aten` come as the functions that they are

    def __init__(self, root: Module | None = None, constants: list[Tensor] | None = None, scripts: Any = None):
        self.root, self.scripts = root, scripts
        self.top = self.call = Call("", root, None)
        self.constants: list[Tensor] = [] if constants is None else constants
        self.inputs: list[Value] = []
        self.attributes: list[Value] = []  # parameters and buffers of the module that is traced
        self._values: dict[int, Value] = {}
        self._nested: dict[
            int, tuple[str, Any]
        ] = {}  # tensors of lists among results, with the operator that gave them
        self._alive: list[Any] = []  # so that no identity is used twice
        self._paths: dict[int, str] = {}
        self._scopes: list[str] = []
        if root is not None:
            for name, module in root.named_modules():
                self._paths.setdefault(id(module), name)
            for name, t in (
                *root.named_parameters(remove_duplicate=False),
                *root.named_buffers(remove_duplicate=False),
            ):
                if id(t) not in self._values:
                    value = self._bind(t, Value("Tensor", t))
                    value.attribute = name
                    self.attributes.append(value)

    def _bind(self, t: Tensor, value: Value) -> Value:
        self._values[id(t)] = value
        self._alive.append(t)
        return value

    def add_input(self, t: Any, name: str) -> Value:
        """Declares an input: a tensor of the example."""
        self.inputs.append(Value("Tensor", t, name))
        return self._bind(t, self.inputs[-1])

    def value_of(self, t: Any) -> Any:
        """The value of a tensor or traced number; a constant if it was never met."""
        if isinstance(t, (TracedInt, TracedFloat)):
            return t.value
        if not isinstance(t, Tensor):
            return t
        found = self._values.get(id(t))
        if found is None:
            if id(t) in self._nested:
                raise NotImplementedError(
                    f"trace: {self._nested[id(t)][0]} gives a list of tensors beside others, whose parts cannot be followed; "
                    "script the function instead"
                )
            found = self._bind(t, Value("Tensor", t))
            found.name = f"CONSTANTS.c{len(self.constants)}"
            self.constants.append(t.detach() if t.requires_grad else t)
        return found

    def is_known(self, t: Any) -> bool:
        return id(t) in self._values

    def _encoded(self, argument: Any) -> Any:
        if isinstance(argument, (Tensor, TracedInt, TracedFloat)):
            return self.value_of(argument)
        if isinstance(argument, (list, tuple)):
            return [self._encoded(a) for a in argument]
        return argument

    def compute(self, function: Any, args: Any, named: dict[str, Any]) -> Any:
        """Calls the function of an operator."""
        return function(*args, **named)

    def in_parts(self, op: str, function: Any, args: Any, named: dict[str, Any]) -> Any:
        """The result of an operator that is not recorded whole, but as those that it calls; None for all others."""
        return None

    def record(self, op: str, args: list[Any], named: dict[str, Any], out: Any) -> Any:
        """Adds an operator with its result, and gives what the program is to get."""
        arguments = [self._encoded(a) for a in args]
        options = {k: self._encoded(v) for k, v in named.items()}
        several = isinstance(out, (tuple, list)) and not isinstance(out, Size)
        outputs = []
        for t in out if several else () if out is None else (out,):
            value = Value("Tensor", t)
            if isinstance(t, Tensor):
                self._bind(t, value)
            elif isinstance(t, (tuple, list)):
                self._nested.update((id(part), (op, part)) for part in t)
            outputs.append(value)
        kind = tuple if hasattr(type(out), "_fields") or gives_several(op) or op == "unique_dim" else list
        self._add(Node(op, arguments, outputs, several and kind, options))
        return out

    def _add(self, node: Node) -> None:
        node.scope = "/".join(self._scopes)
        self.call.items.append(node)

    def push_scope(self, name: str) -> None:
        """Gives the operators that follow a scope, inside of the present one."""
        self._scopes.append(name)

    def pop_scope(self) -> None:
        self._scopes.pop()

    def number(self, op: str, args: list[Any], result: Any) -> Any:
        """A number computed from traced ones."""
        whole = isinstance(result, int)
        value = Value("int" if whole else "float", result)
        self._add(Node(op, [self._encoded(a) for a in args], [value]))
        made = TracedInt(result) if whole else TracedFloat(result)
        made.value = value
        return made

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _lowering.run(self, func, args, kwargs or {})

    @contextmanager
    def again(self) -> Iterator[None]:
        """Inside, operations are recorded although one is being recorded now."""
        before = local.function_modes
        local.function_modes = (*before, self)
        try:
            yield
        finally:
            local.function_modes = before

    @contextmanager
    def _paused(self) -> Iterator[None]:
        """Inside, nothing is recorded."""
        before = local.function_modes
        local.function_modes = before[:-1]
        try:
            yield
        finally:
            local.function_modes = before

    def call_script(self, target: Any, function: Any, args: Any, named: dict[str, Any]) -> Any:
        """Calls something scripted and records the call, not what is done inside of it."""
        given, options = self._structure(args, self.value_of), self._structure(named, self.value_of)
        with self._paused():
            out = function(*self._structure(args, _plain_number), **self._structure(named, _plain_number))
        values: dict[int, Value] = {}

        def value_of(part: Any) -> Any:
            if isinstance(part, bool) or not isinstance(part, (Tensor, int, float)):
                return part
            kind = "Tensor" if isinstance(part, Tensor) else "int" if isinstance(part, int) else "float"
            value = values[id(part)] = Value(kind, part)
            return value if kind != "Tensor" else self._bind(part, value)

        def traced(part: Any) -> Any:
            if isinstance(part, (bool, Tensor)) or not isinstance(part, (int, float)):
                return part
            number = TracedInt(part) if isinstance(part, int) else TracedFloat(part)
            number.value = values[id(part)]
            return number

        result = self._structure(out, value_of)
        self._add(ScriptCall(target, list(given), options, result))
        return self._structure(out, traced)

    def _structure(self, value: Any, change: Callable[[Any], Any]) -> Any:
        """A structure of tuples, lists and dictionaries with its parts changed."""
        if isinstance(value, dict):
            return {k: self._structure(v, change) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            parts = [self._structure(v, change) for v in value]
            if hasattr(value, "_fields"):
                return type(value)(*parts)
            return parts if isinstance(value, (list, Size)) else tuple(parts)
        return change(value)

    def size(self, t: Tensor, dim: int) -> Any:
        """One size of a tensor, as a traced number; that of a parameter or constant is fixed."""
        value = self._values.get(id(t))
        if value is None or value.attribute is not None or value.name.startswith("CONSTANTS"):
            return t._array.shape[dim]
        return self.number("size", [t, dim], int(t._array.shape[dim]))

    def shape(self, t: Tensor) -> Size:
        """The shape of a tensor as traced sizes."""
        with self.again():
            return TracedSize.of(self.size(t, d) for d in range(len(t._array.shape)))

    @staticmethod
    def warn(what: str) -> None:
        """Tells that a value of this run becomes part of the trace."""
        warn_user(
            f"Converting a tensor to a Python {what} might cause the trace to be incorrect: the value of this run is "
            "recorded as a constant and will not follow other inputs",
            TracerWarning,
        )

    def call_module(self, module: Module, args: Any, kwargs: Any) -> Any:
        """Calls a module inside of the trace."""
        path = self._paths.get(id(module))
        if self.scripts is not None:
            with self._paused():
                stays = self.scripts.stays(module, path, self.call.path)
            if stays:
                return self.call_script(path, module.forward, args, kwargs)
        form = _trace_forms.form_of(module)
        if form is None:
            body: Callable[..., Any] = lambda *a, **k: _plain_call(module, *a, **k)
        else:
            body = lambda *a, **k: form(module, *a, **k)
        if path is None or path == self.call.path:
            return body(*args, **kwargs)
        before, inner = self.call, Call(path, module, self.call)
        before.items.append(inner)
        self.call = inner
        try:
            return body(*args, **kwargs)
        finally:
            self.call = before


def _plain_number(value: Any) -> Any:
    return int(value) if isinstance(value, TracedInt) else float(value) if isinstance(value, TracedFloat) else value


# -- attributes of tensors that ask nobody -----------------------------------------------------------------------

# Methods that settle sizes before they ask; properties and conversions that ask nobody.
_METHODS = [
    "view", "reshape", "flatten", "unflatten", "chunk", "split", "squeeze", "unsqueeze", "permute", "transpose",
    "swapaxes", "swapdims", "t", "expand", "broadcast_to", "narrow", "select", "unbind", "size", "numel", "nelement",
    "item", "tolist", "__len__", "__bool__", "__float__", "__int__", "__index__", "__complex__", "__iter__",
    "expand_as", "view_as", "reshape_as",
]  # fmt: skip
_PROPERTIES = ("shape", "T", "mT", "H", "mH", "real", "imag")
_lock = threading.RLock()  # a finalizer may end another trace in the midst
_depth = [0]
_plain: dict[str, Any] = {}
_plain_ops: dict[str, Any] = {}
_plain_call = Module.__call__


def _asking(name: str, plain: Any) -> Any:
    def method(self: Any, *args: Any, **named: Any) -> Any:
        if active() is None:
            return plain(self, *args, **named)
        return dispatch(method, [], (self, *args), named)

    method.__name__, method.plain = name, plain  # type: ignore[attr-defined]
    return method


def _module_call(module: Module, *args: Any, **kwargs: Any) -> Any:
    tracer = active()
    return _plain_call(module, *args, **kwargs) if tracer is None else tracer.call_module(module, args, kwargs)


@contextmanager
def watched() -> Iterator[None]:
    """Inside, tensors tell the tracer of their thread what is asked of them, and modules that they are called."""
    with _lock:
        _depth[0] += 1
        if _depth[0] == 1:
            for name in (*_METHODS, *_PROPERTIES):
                getattr(Tensor, name)  # may only stand there after it was asked for
                plain = _plain[name] = Tensor.__dict__[name]
                asking = _asking(name, plain.fget if isinstance(plain, property) else plain)
                setattr(Tensor, name, property(asking, plain.fset) if isinstance(plain, property) else asking)
                inner = getattr(ops, name, None)
                if callable(inner):
                    _plain_ops[name] = inner
                    setattr(ops, name, _asking(name, inner))
            Module.__call__ = _module_call  # type: ignore[method-assign]
    try:
        yield
    finally:
        with _lock:
            _depth[0] -= 1
            if not _depth[0]:
                for name, plain in _plain.items():
                    setattr(Tensor, name, plain)
                for name, plain in _plain_ops.items():
                    setattr(ops, name, plain)
                Module.__call__ = _plain_call  # type: ignore[method-assign]


def is_tracing() -> bool:
    """Whether `torch.jit.trace` runs the example."""
    return any(mode.__class__ is Tracer for mode in local.function_modes)
