"""`Proxy`: stands for a value while a program is traced; every operation on it becomes a node."""

from __future__ import annotations

import dataclasses
import dis
import enum
import inspect
import operator
import sys
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from .._core.devices import device
from .._core.dtypes import dtype
from .._core.layouts import layout, memory_format
from .._core.state import FUNCTION_MODE, modes
from .._ops.records.facts import fact
from .._tensor import Tensor
from .._tensor.methods import own_signature
from ._names import is_method_only, public_form, public_path
from .graph import Graph
from .immutable_collections import immutable_dict, immutable_list
from .node import Argument, Node, Target

__all__ = ["Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "Scope", "TraceError", "TracerBase"]

base_types = (str, int, float, bool, complex, dtype, Tensor, device, memory_format, layout, range, bytes)
reflectable_magic_methods = [
    "add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor", "matmul",
]  # fmt: skip
magic_methods = ["eq", "ne", "lt", "gt", "le", "ge", "pos", "neg", "invert", *reflectable_magic_methods, "getitem"]


class TraceError(ValueError):
    """A program does something that a trace cannot hold, such as a decision that depends on a value."""


class Scope:
    """Where in the tree of modules a trace is: the path and class of the module whose `forward` runs."""

    def __init__(self, module_path: str, module_type: Any):
        self.module_path, self.module_type = module_path, module_type


class TracerBase:
    """What all tracers share: how values become arguments, and what proxies may do."""

    graph: Graph
    record_stack_traces: bool = False
    check_mutable_operations: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"
    scope: Scope
    module_stack: OrderedDict[str, tuple[str, Any]]

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A node in the graph. Subclasses may refuse or change nodes here."""
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        stack = getattr(self, "module_stack", None)
        if stack:
            node.meta["nn_module_stack"] = OrderedDict(stack)
        return node

    def proxy(self, node: Node) -> Proxy:
        """The proxy of a node."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """A node for a call with proxies and values, and its proxy."""
        args_, kwargs_ = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, args_, kwargs_, name, type_expr)
        made = self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)
        if self.record_stack_traces:
            frames = [f for f in traceback.extract_stack() if not f.filename.startswith(_HERE)]
            node.stack_trace = "".join(traceback.StackSummary.from_list(frames).format()).strip()
        return made

    def create_arg(self, a: Any) -> Argument:
        """A value as an argument of a node: proxies become their nodes, containers stay containers."""
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            parts = [self.create_arg(x) for x in a]
            return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
        if isinstance(a, list):
            return immutable_list(self.create_arg(x) for x in a)
        if isinstance(a, dict):
            return immutable_dict((self._key(k), self.create_arg(v)) for k, v in a.items())
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if a is None or a is ... or isinstance(a, (*base_types, Node)):
            return a
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            fields = {f.name: self.create_arg(getattr(a, f.name)) for f in dataclasses.fields(a)}
            return self.create_node("call_function", a.__class__, (), fields)
        if isinstance(a, type) or inspect.isroutine(a) or isinstance(a, enum.Enum):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _key(self, k: Any) -> Any:
        if isinstance(k, Proxy):
            raise RuntimeError(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {k}")
        return k

    def to_bool(self, obj: Proxy) -> bool:
        """Called where a proxy decides something. Subclasses may know the answer."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Called where a proxy is iterated. Subclasses may know its length."""
        raise TraceError(
            "Proxy object cannot be iterated. A trace does not know how many elements there are: this happens in "
            "loops over a traced value and in *args or **kwargs of a call"
        )

    def keys(self, obj: Proxy) -> Any:
        """Called where `**proxy` asks for keys."""
        return Attribute(obj, "keys")()


_HERE = str(Path(__file__).parent.parent)


class GraphAppendingTracer(TracerBase):
    """The tracer behind proxies that are made by hand: it only appends to a graph."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()


# Attributes that our own functions read of tensors. That a proxy lacks them is how they notice that it is none.
_INTERNAL = frozenset(("_k", "_array", "_edge", "_storage", "_view", "_class_k"))


class Proxy:
    """Stands for a value in a traced program: operators, functions, methods and attributes give further proxies.

    Proxies made by hand append to their node's graph, which is a convenient way to write into a graph.

    >>> import flambeau as torch
    >>> graph = torch.fx.Graph()
    >>> x = torch.fx.Proxy(graph.placeholder("x"))
    >>> y = torch.sigmoid(x * 2).sum(dim=0)
    >>> [node.name for node in graph.nodes]
    ['x', 'mul', 'sigmoid', 'sum_1']
    """

    node: Node
    tracer: TracerBase

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node
        modes.enter(FUNCTION_MODE)  # while there are proxies, functions ask their arguments before they run

    def __del__(self) -> None:
        if modes is not None:  # the interpreter may be shutting down
            modes.leave(FUNCTION_MODE)

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        if k in _INTERNAL or (k.startswith("__") and k.endswith("__")):
            raise AttributeError(f"a Proxy has no attribute {k!r}")
        return Attribute(self, k)

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        count = _unpacked(sys._getframe(1))
        return self.tracer.iter(self) if count is None else iter([self[i] for i in range(count)])  # type: ignore[index]

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """Asked by `**proxy`."""
        return self.tracer.keys(self)

    def __len__(self) -> NoReturn:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, "
            "please call torch.fx.wrap('len') at module scope"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        return Proxy(self.node, self.tracer)

    __hash__ = object.__hash__

    @classmethod
    def __torch_function__(cls, orig_method: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tracer = _tracer_of((args, kwargs))
        if tracer is None:
            return NotImplemented
        if is_method_only(orig_method) or getattr(orig_method, "__qualname__", "").startswith("Tensor."):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        orig_method = public_form(orig_method)
        args, kwargs = _as_recorded(orig_method, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs)


def _tracer_of(a: Any) -> TracerBase | None:
    """The tracer of the first proxy in a value."""
    if isinstance(a, Proxy):
        return a.tracer
    inside = a.values() if isinstance(a, dict) else a if isinstance(a, (tuple, list)) else ()
    if isinstance(a, slice):
        inside = (a.start, a.stop, a.step)
    for x in inside:
        found = _tracer_of(x)
        if found is not None:
            return found
    return None


def _as_recorded(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments in the form that PyTorch records: those with defaults by name, for functions of nn.functional."""
    path = public_path(function) or ""
    space, _, name = path.rpartition(".")
    if space != "nn.functional" or fact(name, "builtin") is not None or name.endswith("_"):
        return args, kwargs
    try:
        signature = own_signature(function)
        bound = signature.bind(*args, **kwargs)
    except (TypeError, ValueError):
        return args, kwargs
    bound.apply_defaults()
    required, named = [], {}
    for parameter in signature.parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            return args, kwargs
        value = bound.arguments[parameter.name]
        if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            required.append(value)
        else:
            named[parameter.name] = value
    return tuple(required), named


def _unpacked(frame: Any) -> int | None:
    """How many values the statement that runs in a frame takes out of an iterable: `a, b = x` takes two."""
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset == frame.f_lasti:
            return instruction.argval if instruction.opname == "UNPACK_SEQUENCE" else None
    return None


class Attribute(Proxy):
    """An attribute of a proxy: a method if it is called, otherwise a value."""

    def __init__(self, root: Proxy, attr: str):
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None
        modes.enter(FUNCTION_MODE)

    @property
    def node(self) -> Node:  # type: ignore[override]
        """Made at the first need, because methods need none."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A parameter whose shape is known while the program is traced."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Tensor):
        super().__init__(node, tracer)
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        return self.param.shape

    def size(self, *args: Any) -> Any:
        """The parameter's own size."""
        return self.param.size(*args)

    def dim(self) -> int:
        """The parameter's number of dimensions."""
        return int(self.param.dim())

    @property
    def ndim(self) -> int:
        return int(self.param.ndim)

    def numel(self) -> int:
        """The parameter's number of elements."""
        return int(self.param.numel())

    def nelement(self) -> int:
        """The parameter's number of elements."""
        return int(self.param.numel())


def _install(name: str) -> None:
    function = getattr(operator, name)

    def forward(self: Proxy, *args: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", function, (self, *args), {})

    def backward(self: Proxy, other: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", function, (other, self), {})

    plain = name.rstrip("_")
    setattr(Proxy, f"__{plain}__", forward)
    if name in reflectable_magic_methods:
        setattr(Proxy, f"__r{plain}__", backward)


for _name in magic_methods:
    _install(_name)
