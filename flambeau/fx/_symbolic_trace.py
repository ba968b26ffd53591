"""`symbolic_trace` and `Tracer`: a program run with proxies instead of tensors becomes a graph."""

from __future__ import annotations

import builtins
import contextlib
import copy
import functools
import inspect
import math
import operator
import threading
import types
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from .._core.state import HELPING, held_over_forks
from .._names.checks import _assert
from .._tensor import Tensor
from ..nn import functional
from ..nn.modules.container import Sequential
from ..nn.modules.module import Module
from ..nn.parameter import Parameter
from ..utils._pytree import tree_flatten, tree_unflatten
from ._codegen import _PyTreeCodeGen, _PyTreeInfo
from ._names import asks_nobody
from .graph import Graph
from .graph_module import GraphModule
from .node import Argument
from .proxy import ParameterProxy, Proxy, Scope, TracerBase, _tracer_of

__all__ = ["PH", "ProxyableClassMeta", "Tracer", "is_fx_symbolic_tracing", "is_fx_tracing", "symbolic_trace", "wrap"]

_PACKAGE = __name__.partition(".")[0]
_original_call = Module.__call__
_original_getattr = Module.__getattr__
_active: list[Tracer] = []  # tracers at work, innermost last
# a trace puts functions in the place of others for all threads: the next one waits until they are back
_tracing = threading.RLock()
held_over_forks(_tracing, HELPING)


def _annotation(function: Any, kind: Any, nothing: Any = None) -> Any:
    """An annotation as graphs have it: those of our own layers are texts, of which `Any` says `nothing`."""
    module = getattr(function, "__module__", None) or ""
    if not isinstance(kind, str) or module.partition(".")[0] != _PACKAGE:
        return kind
    with contextlib.suppress(NameError):  # a class that only checkers of types import
        kind = eval(kind, getattr(function, "__globals__", {}))
    return nothing if kind is Any or isinstance(kind, str) else kind


class _Placeholder:
    """Stands for a part of `concrete_args` that stays an input."""

    def __repr__(self) -> str:
        return "PH"


PH = _Placeholder()


def is_fx_tracing() -> bool:
    """Whether a symbolic trace is under way."""
    return bool(_active)


is_fx_symbolic_tracing = is_fx_tracing


def _assert_is_none(value: Any, msg: str) -> None:
    if value is not None:
        raise AssertionError(msg)


class ProxyableClassMeta(type):
    """The metaclass of classes whose instances can be made inside of traces: of proxies, such a call becomes one node.

    >>> import flambeau as torch
    >>> class Pair(metaclass=torch.fx.ProxyableClassMeta):
    ...     def __init__(self, left, right):
    ...         self.left, self.right = left, right
    >>> [node.name for node in torch.fx.symbolic_trace(lambda x: Pair(x, x)).graph.nodes]
    ['x', 'pair', 'output']
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        tracer = _tracer_of((args, kwargs))
        return (
            super().__call__(*args, **kwargs)
            if tracer is None
            else tracer.create_proxy("call_function", cls, args, kwargs)
        )


# -- functions that become one node ------------------------------------------------------------------------------

_wrapped_fns_to_patch: dict[tuple[int, str], dict[str, Any]] = {}


def wrap(fn_or_name: str | Callable[..., Any]) -> Any:
    """Makes a function of the calling module a leaf of traces: its calls become one node. Also a decorator.

    >>> import flambeau as torch
    >>> torch.fx.wrap("len")
    'len'
    >>> print(torch.fx.symbolic_trace(lambda x: len(x) + 1).code.strip())
    torch.fx._symbolic_trace.wrap("len")
    <BLANKLINE>
    def forward(self, x):
        len_1 = len(x);  x = None
        add = len_1 + 1;  len_1 = None
        return add
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    if callable(fn_or_name):
        if isinstance(fn_or_name, str):
            raise AssertionError("expected a function")
        name = fn_or_name.__name__
    else:
        name = fn_or_name
    frame = inspect.currentframe()
    frame = None if frame is None else frame.f_back
    if frame is None or frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped_fns_to_patch[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


def _recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose calls with proxies become nodes."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        tracer = _tracer_of((args, kwargs))
        if tracer is None:
            return function(*args, **kwargs)
        made = tracer.create_proxy("call_function", function, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    return wrapped


def _offered(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of ours that asks its arguments first; most do by themselves."""

    @functools.wraps(function)
    def asking(*args: Any, **kwargs: Any) -> Any:
        if _tracer_of((args, kwargs)) is None:
            return function(*args, **kwargs)
        return Proxy.__torch_function__(function, (), args, kwargs)

    return asking


class _Patches:
    """Changed attributes and globals, put back in the end."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], Any]] = []
        self._seen: set[tuple[int, str]] = set()

    def item(self, space: dict[str, Any], name: str, value: Any) -> None:
        if (id(space), name) in self._seen:
            return
        self._seen.add((id(space), name))
        if name in space:
            self._undo.append(functools.partial(space.__setitem__, name, space[name]))
        else:
            self._undo.append(functools.partial(space.__delitem__, name))
        space[name] = value

    def attribute(self, owner: Any, name: str, value: Any) -> None:
        self._undo.append(functools.partial(setattr, owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def revert(self) -> None:
        while self._undo:
            self._undo.pop()()


class Tracer(TracerBase):
    """Makes graphs of modules and functions. Subclasses decide what stays one node.

    >>> import flambeau as torch
    >>> class Deep(torch.fx.Tracer):
    ...     def is_leaf_module(self, m, module_qualified_name):
    ...         return False
    >>> [node.name for node in Deep().trace(torch.nn.Sequential(torch.nn.ReLU())).nodes]
    ['input_1', 'relu', 'output']
    """

    def __init__(
        self,
        autowrap_modules: tuple[types.ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self._autowrap_ids = {
            id(value)
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        } | {id(f) for f in autowrap_functions}
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self._counters: defaultdict[str, int] = defaultdict(int)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        new = Tracer.__new__(type(self))
        new.__dict__.update({k: copy.copy(v) if k in ("_autowrap_ids",) else v for k, v in self.__dict__.items()})
        return new

    # -- what subclasses may change -------------------------------------------------------------------------------

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a module's call becomes one node. By default the framework's own layers, Sequential excepted."""
        home = m.__module__
        ours = home.startswith((f"{_PACKAGE}.nn", f"{_PACKAGE}.ao.nn", f"{_PACKAGE}.vision.ops", "torch.nn"))
        return ours and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """Where a module is below the root; NameError if it is nowhere."""
        if self.submodule_paths is not None and mod in self.submodule_paths:
            return self.submodule_paths[mod]
        for name, module in self.root.named_modules():
            if module is mod:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Called instead of a module: a node for leaves, otherwise its `forward` is traced."""
        path = self.path_of_module(m)
        outer, self.scope = self.scope, Scope(path, type(m))
        key = path or type(m).__name__
        shown = key
        number = 0
        while key in self.module_stack:
            number += 1
            key = f"{shown}@{number}"
        self.module_stack[key] = (path, type(m))
        try:
            if self.is_leaf_module(m, path):
                return self.create_proxy("call_module", path, args, kwargs)
            return forward(*args, **kwargs)
        finally:
            self.module_stack.pop(key, None)
            self.scope = outer

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """Called for attributes of modules: parameters become proxies (and buffers, if `proxy_buffer_attributes`)."""
        if isinstance(attr_val, Parameter):
            found = self._proxied(attr_val, self.root.named_parameters(), parameter_proxy_cache)
        elif self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            found = self._proxied(attr_val, self.root.named_buffers(), parameter_proxy_cache)
        else:
            found = None
        return attr_val if found is None else found

    def _proxied(self, value: Tensor, named: Iterator[tuple[str, Tensor]], cache: dict[str, Any]) -> Any:
        for name, candidate in named:
            if candidate is value:
                if name not in cache:
                    make = None
                    if self.param_shapes_constant:
                        make = lambda node: ParameterProxy(self, node, name, value)
                    cache[name] = self.create_proxy("get_attr", name, (), {}, proxy_factory_fn=make)
                return cache[name]
        return None

    def get_fresh_qualname(self, prefix: str) -> str:
        """A name for a constant that the root does not have yet."""
        while hasattr(self.root, name := f"{prefix}{self._counters[prefix]}"):
            self._counters[prefix] += 1
        self._counters[prefix] += 1
        return name

    def create_arg(self, a: Any) -> Argument:
        """A value as an argument; tensors become attributes of the root, read by nodes of their own."""
        if isinstance(a, Parameter):
            for name, parameter in self.root.named_parameters():
                if parameter is a:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, Tensor):
            return self.create_node("get_attr", self._constant(a, "_tensor_constant"), (), {})
        if isinstance(a, Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return self.create_node("call_function", type(a), tuple(self.create_arg(x) for x in a), {})
        if isinstance(type(a), ProxyableClassMeta):  # made of values that are known
            name = self.tensor_attrs.get(id(a))
            if name is None:
                name = self.tensor_attrs[id(a)] = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
                setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)

    def _constant(self, a: Tensor, prefix: str) -> str:
        for name, buffer in self.root.named_buffers():
            if buffer is a:
                return name
        name = self.tensor_attrs.get(id(a))
        if name is None:
            name = self.get_fresh_qualname(prefix)
            setattr(self.root, name, a)
            self.tensor_attrs[id(a)] = name
        return name

    # -- the trace ------------------------------------------------------------------------------------------------

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Callable[..., Any], list[Any]]:
        """A placeholder for every parameter of the traced function; `concrete_args` are built in instead."""
        inner = inspect.unwrap(root_fn)  # has the parameters; what is around it is traced as well
        code = inner.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames)
        args: list[Any] = [self.root] if is_module else []
        skip = 1 if is_module else 0
        if is_module and not count and not code.co_flags & inspect.CO_VARARGS:
            raise RuntimeError("``self`` argument cannot be part of *args expansion!")
        parameters = {
            name: parameter.replace(annotation=_annotation(inner, parameter.annotation, parameter.empty))
            for name, parameter in inspect.signature(inner).parameters.items()
        }
        if isinstance(concrete_args, tuple):
            if len(names[skip:count]) != len(concrete_args):
                raise RuntimeError(
                    f"Tracing expected {len(names[skip:count])} arguments but got {len(concrete_args)} concrete arguments"
                )
            concrete_args = dict(zip(names[skip:count], concrete_args))
        made = [self._placeholder(name, parameters, concrete_args) for name in names[skip:count]]
        positional = code.co_argcount - skip
        rest: list[Any] = []
        for flag, star in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")):
            if code.co_flags & flag:
                rest.append(self.create_proxy("placeholder", star + names[count], (), {}))
                count += 1
        args += made
        if concrete_args is None or not any(_is_container(v) for v in made):
            call = _spread(
                root_fn, skip + positional, names[skip + positional :], code.co_kwonlyargcount, code.co_flags
            )
            return call, [*args, *rest]
        return self._flattened(root_fn, args, skip, names)

    def _placeholder(self, name: str, parameters: Any, concrete_args: dict[str, Any] | None) -> Any:
        parameter = parameters.get(name)
        if concrete_args is not None and name in concrete_args:
            return self._specialised(name, concrete_args[name], parameter)
        default = () if parameter is None or parameter.default is parameter.empty else (parameter.default,)
        kind = None if parameter is None or parameter.annotation is parameter.empty else parameter.annotation
        return self.create_proxy("placeholder", name, default, {}, type_expr=kind)

    def _specialised(self, name: str, value: Any, parameter: Any) -> Any:
        """A given argument: its parts become inputs that are compared with the given values."""
        leaves, spec = tree_flatten(value)
        made = []
        for number, leaf in enumerate(leaves, 1):
            default = (
                ()
                if parameter is None or parameter.default is parameter.empty or len(leaves) > 1
                else (parameter.default,)
            )
            proxy = self.create_proxy("placeholder", f"{name}_{number}", default, {})
            if leaf is PH:
                made.append(proxy)
                continue
            message = f"{name} has been specialized to have value {leaf} but got another value"
            if leaf is None:
                self.create_proxy("call_function", _assert_is_none, (proxy, message), {})
            elif isinstance(leaf, (bool, int, float, str)):
                same = self.create_proxy("call_function", operator.eq, (proxy, leaf), {})
                self.create_proxy("call_function", _assert, (same, message), {})
            made.append(leaf)
        return tree_unflatten(made, spec)

    def _flattened(
        self, root_fn: Any, args: list[Any], skip: int, names: list[str]
    ) -> tuple[Callable[..., Any], list[Any]]:
        """For containers among the arguments: the graph's inputs are their leaves."""
        leaves, spec = tree_flatten(tuple(args[skip:]))

        def call(*flat: Any) -> Any:
            values = tree_unflatten(list(flat[skip:]), spec)
            out = root_fn(*flat[:skip], *values)
            flat_out, out_spec = tree_flatten(out)
            given = names[: skip + len(values)]
            self.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(given, spec, out_spec))
            return flat_out

        return call, [*args[:skip], *leaves]

    def trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of a module or function. `concrete_args` are values that are built in."""
        if isinstance(root, Module):
            self.root = root
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError(f"traced_func_name={self.traced_func_name} doesn't exist in {type(root).__name__}")
            fn = getattr(type(root), self.traced_func_name)
            self.root_module_name = root._get_name()
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            self.root = Module()
            fn = root
        self._check_root(root)
        self.graph = Graph(tracer_cls=type(self))
        self.tensor_attrs = {
            id(value): f"{path}.{name}" if path else name
            for path, module in self.root.named_modules()
            for name, value in vars(module).items()
            if isinstance(value, Tensor)
        }
        cache: dict[str, Any] = {}
        patches = _Patches()
        with _tracing:
            _active.append(self)
            try:
                call, args = self.create_args_for_root(fn, isinstance(root, Module), concrete_args)
                self._patch(patches, cache, inspect.unwrap(fn))
                result = call(*args)
                kind = _annotation(fn, getattr(fn, "__annotations__", {}).get("return"))
                self.create_node("output", "output", (self.create_arg(result),), {}, type_expr=kind)
            finally:
                patches.revert()
                _active.pop()
                self.submodule_paths = None
        return self.graph

    @staticmethod
    def _check_root(root: Any) -> None:
        if not callable(root):
            raise TypeError(f"symbolic_trace takes a module or a function, not {type(root).__name__}")

    def _patch(self, patches: _Patches, cache: dict[str, Any], fn: Any) -> None:
        tracer, here = self, threading.get_ident()

        def module_getattr(mod: Module, attr: str) -> Any:
            if threading.get_ident() != here:  # who traces nothing
                return _original_getattr(mod, attr)
            return tracer.getattr(attr, _original_getattr(mod, attr), cache)

        def module_call(mod: Module, *args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != here:
                return _original_call(mod, *args, **kwargs)

            def forward(*args: Any, **kwargs: Any) -> Any:
                return _original_call(mod, *args, **kwargs)

            tracer._autowrap(patches, getattr(getattr(mod, "forward", mod), "__globals__", {}))
            return tracer.call_module(mod, forward, args, kwargs)

        patches.attribute(Module, "__getattr__", module_getattr)
        patches.attribute(Module, "__call__", module_call)
        for (_, name), space in list(_wrapped_fns_to_patch.items()):
            original = space.get(name, getattr(builtins, name, None))
            if original is not None:
                patches.item(space, name, _recorded(original))
        for name, function in list(vars(functional).items()):
            if callable(function) and asks_nobody(function):
                patches.item(vars(functional), name, _offered(function))
        self._autowrap(patches, getattr(fn, "__globals__", {}))
        for module in self._autowrap_search:
            self._autowrap(patches, module.__dict__)

    def _autowrap(self, patches: _Patches, space: dict[str, Any]) -> None:
        for name, value in list(space.items()) if self._autowrap_ids else ():
            if not name.startswith("_") and callable(value) and id(value) in self._autowrap_ids:
                patches.item(space, name, _recorded(value))


def _is_container(value: Any) -> bool:
    return isinstance(value, (list, tuple, dict))


def _spread(root_fn: Any, positional: int, rest: list[str], only_named: int, flags: int) -> Callable[..., Any]:
    """Calls a function with all its parameters in a row: positional, keyword-only, *args, **kwargs."""
    if not only_named and not flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        return root_fn

    def call(*args: Any) -> Any:
        first = args[:positional]
        named = dict(zip(rest, args[positional : positional + only_named]))
        tail = list(args[positional + only_named :])
        more = _Several(tail.pop(0)) if flags & inspect.CO_VARARGS else ()
        keywords = tail.pop(0) if flags & inspect.CO_VARKEYWORDS else None
        return _call_with(root_fn, first, more, named, keywords)

    return call


class _Several(tuple):  # type: ignore[type-arg]
    """Marks the proxy that stands for all of *args."""

    __slots__ = ()

    def __new__(cls, proxy: Any) -> _Several:
        return super().__new__(cls, (proxy,))


def _call_with(root_fn: Any, first: Any, more: Any, named: dict[str, Any], keywords: Any) -> Any:
    """Calls a function whose *args and **kwargs are single proxies: inside, the names stand for these proxies."""
    if not more and keywords is None:
        return root_fn(*first, **named)
    code = root_fn.__code__
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    stars = (1 if more else 0) + (0 if keywords is None else 1)
    # The same function with its starred parameters as ordinary ones, which come last among the keyword-only.
    plain = code.replace(co_flags=flags, co_kwonlyargcount=code.co_kwonlyargcount + stars)
    names = code.co_varnames[code.co_argcount + code.co_kwonlyargcount :][:stars]
    values = [*more, *([] if keywords is None else [keywords])]
    made = types.FunctionType(plain, root_fn.__globals__, root_fn.__name__, root_fn.__defaults__, root_fn.__closure__)
    made.__kwdefaults__ = root_fn.__kwdefaults__
    return made(*first, **named, **dict(zip(names, values)))


def symbolic_trace(root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """Runs a module or function with proxies and gives a module that computes the same from the recorded graph.

    >>> import flambeau as torch
    >>> module = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    >>> print(module.code.strip())
    def forward(self, x):
        relu = torch.relu(x);  x = None
        add = relu + 1;  relu = None
        return add
    >>> module(torch.tensor([-1.0, 2.0]))
    tensor([1., 3.])
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", "GraphModule")
    return GraphModule(tracer.root, graph, name)
