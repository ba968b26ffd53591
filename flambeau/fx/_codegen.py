"""Python source of a graph."""

from __future__ import annotations

import collections.abc
import enum
import math
import re
import sys
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import Any, NamedTuple

import numpy as np

from .._core.devices import device
from .._core.symbolic import SymBool, SymFloat, SymInt
from .._tensor import Tensor
from ..utils import _pytree as pytree
from . import _pytree as fx_pytree
from ._names import Namespace, constant_text, qualified_name
from .node import Node

_BINARY = {
    "eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=", "add": "+", "and_": "&", "floordiv": "//",
    "lshift": "<<", "mod": "%", "mul": "*", "or_": "|", "pow": "**", "rshift": ">>", "sub": "-", "truediv": "/",
    "xor": "^", "matmul": "@",
}  # fmt: skip
_UNARY = {"pos": "+", "neg": "-", "invert": "~"}
_IN_PLACE = {
    "iadd": "+=", "iand": "&=", "ifloordiv": "//=", "ilshift": "<<=", "imod": "%=", "imul": "*=", "imatmul": "@=",
    "ior": "|=", "ipow": "**=", "irshift": ">>=", "isub": "-=", "itruediv": "/=", "ixor": "^=",
}  # fmt: skip
_ABSTRACT = {
    "Callable": collections.abc.Callable,
    "Sequence": collections.abc.Sequence,
    "Mapping": collections.abc.Mapping,
}


@dataclass
class PythonCode:
    """Source of a `forward` function and the globals that it needs."""

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = field(default=None, repr=False)
    _prologue_start: int = 0


class _PyTreeInfo(NamedTuple):
    """How arguments and results that are containers correspond to the graph's inputs and outputs."""

    orig_args: list[str]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec | None


def _package() -> Any:
    return sys.modules[__name__.partition(".")[0]]


def standard_globals() -> dict[str, Any]:
    """What every generated function may name."""
    return {
        "inf": math.inf,
        "nan": math.nan,
        "NoneType": type(None),
        "torch": _package(),
        "device": device,
        "fx_pytree": fx_pytree,
        "pytree": pytree,
    }


def _format_target(base: str, target: str) -> str:
    """`self.layers` and `getattr(self.layers, "0")`: code that reads a dotted path."""
    for atom in target.split("."):
        base = f"{base}.{atom}" if atom.isidentifier() and not iskeyword(atom) else f'getattr({base}, "{atom}")'
    return base


class _Writer:
    """Writes the body of one function."""

    def __init__(self, root_module: str, namespace: Namespace, verbose: bool = False):
        self.root, self.names, self.verbose = root_module, namespace, verbose
        self.globals = standard_globals()
        self.wrapped: dict[str, None] = {}
        self.free: list[str] = []
        self.returns = ""
        self.body: list[str] = []

    # -- words ----------------------------------------------------------------------------------------------------

    def global_name(self, hint: str, value: Any) -> str:
        """The name under which generated code knows an object."""
        if hint.startswith("torch.") and value is not None and _resolves(hint, value):
            return _format_target("torch", hint.removeprefix("torch."))
        wanted = hint.replace(".", "_")
        if self.globals.get(wanted) is value and wanted in self.globals:
            return wanted
        name = self.names.create_name(wanted, value)
        self.globals[name] = value
        return name

    def type_name(self, kind: Any) -> str:
        """Code of an annotation."""
        if kind is None or kind is type(None):
            return "NoneType"
        if kind is ...:
            return "..."
        if isinstance(kind, str):
            return self.global_name(re.sub(r"\W", "_", repr(kind)), kind)
        if isinstance(kind, list):  # the arguments of a Callable
            return f"[{', '.join(map(self.type_name, kind))}]"
        if isinstance(kind, types.UnionType):
            return "|".join(map(self.type_name, kind.__args__))
        arguments = getattr(kind, "__args__", ())
        origin = typing.get_origin(kind)
        if origin is None or (not arguments and not isinstance(kind, type)):
            if kind is typing.Callable or origin in _ABSTRACT.values():
                name = (origin or collections.abc.Callable).__name__
                return self.global_name(f"collections.abc.{name}", _ABSTRACT[name])
            return self.global_name(self._type_hint(kind), kind)
        if isinstance(kind, types.GenericAlias):
            base = self.global_name(self._type_hint(origin), origin)
        elif origin is typing.Union:
            base = self.global_name("typing.Union", typing.Union)
        else:
            name = getattr(kind, "_name", None) or origin.__name__
            base = self.global_name(f"typing.{name}", getattr(typing, name, origin))
        return f"{base}[{','.join(map(self.type_name, arguments))}]"

    @staticmethod
    def _type_hint(kind: Any) -> str:
        home = getattr(kind, "__module__", "")
        if home == "typing":
            return f"typing.{getattr(kind, '_name', None) or getattr(kind, '__name__', 'T')}"
        return qualified_name(kind)

    def value(self, x: Any) -> str:
        """Code of an argument."""
        if isinstance(x, Node):
            return repr(x)
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            kind = self.global_name(qualified_name(type(x)), type(x))
            return f"{kind}({', '.join(map(self.value, x))})"
        if isinstance(x, tuple):
            return f"({', '.join(map(self.value, x))}{',' if len(x) == 1 else ''})"
        if isinstance(x, list):
            return f"[{', '.join(map(self.value, x))}]"
        if isinstance(x, dict):
            return "{" + ", ".join(f"{k!r}: {self.value(v)}" for k, v in x.items()) + "}"
        if isinstance(x, slice):
            return f"slice({self.value(x.start)}, {self.value(x.stop)}, {self.value(x.step)})"
        if isinstance(x, enum.Enum):
            return f"{self.global_name(qualified_name(type(x)), type(x))}.{x.name}"
        constant = constant_text(x)
        if constant is not None:
            return constant
        if isinstance(x, type) or (callable(x) and hasattr(x, "__name__")):
            return self.global_name(qualified_name(x), x)
        if type(x).__repr__ is object.__repr__:  # no text says which one it is
            return self.global_name(type(x).__name__, x)
        if isinstance(x, (np.ndarray, np.generic)):
            name = self.names.create_name("array", None)
            self.globals[name] = x
            return name
        return repr(x)

    def arguments(self, args: Any, kwargs: Any) -> str:
        return ", ".join([*map(self.value, args), *[f"{k} = {self.value(v)}" for k, v in kwargs.items()]])

    # -- lines ----------------------------------------------------------------------------------------------------

    def line(self, node: Node) -> str:
        """The statement of a node."""
        kind = f" : {self.type_name(node.type)}" if node.type is not None else ""
        shown = _described(node.meta.get("val")) if self.verbose and not kind else ""
        kind = f': "{shown}"' if shown else kind
        name = repr(node)
        if node.op == "placeholder":
            default = f" = {self.value(node.args[0])}" if node.args else ""
            self.free.append(f"{node.target}{kind}{default}")
            raw = node.target.lstrip("*")
            return f"{name} = {raw}" if raw != name else ""
        if node.op == "call_function":
            return self.call(node, name, kind)
        if node.op == "call_method":
            first, *rest = node.args
            base = self.value(first)
            base = base if base.isidentifier() or not isinstance(first, (int, float)) else f"({base})"
            return f"{name}{kind} = {_format_target(base, node.target)}({self.arguments(rest, node.kwargs)})"
        if node.op == "call_module":
            called = _format_target(self.root, node.target)
            return f"{name}{kind} = {called}({self.arguments(node.args, node.kwargs)})"
        if node.op == "get_attr":
            return f"{name}{kind} = {_format_target(self.root, node.target)}"
        raise NotImplementedError(f"node: {node.op} {node.target}")

    def call(self, node: Node, name: str, kind: str) -> str:
        function = node.target
        short = getattr(function, "__name__", "")
        if getattr(function, "__module__", None) == "_operator" and not node.kwargs:
            given = [self.value(a) for a in node.args]
            if short in _BINARY and len(given) == 2:
                return f"{name}{kind} = {given[0]} {_BINARY[short]} {given[1]}"
            if short in _UNARY and len(given) == 1:
                return f"{name}{kind} = {_UNARY[short]}{given[0]}"
            if short == "getitem":
                return f"{name}{kind} = {given[0]}[{given[1]}]"
            if short == "setitem":
                return f"{given[0]}[{given[1]}] = {given[2]};  {name}{kind} = {given[0]}"
            if short in _IN_PLACE:
                return f"{given[0]} {_IN_PLACE[short]} {given[1]};  {name}{kind} = {given[0]}"
        known = self.global_name(qualified_name(function), function)
        if function is getattr and len(node.args) == 2 and isinstance(node.args[1], str):
            if node.args[1].isidentifier():
                return f"{name}{kind} = {_format_target(self.value(node.args[0]), node.args[1])}"
        if node.meta.get("is_wrapped", False):
            self.wrapped[known] = None
        return f"{name}{kind} = {known}({self.arguments(node.args, node.kwargs)})"


_SHORT = {"bool": "b8", "bfloat16": "bf16"}


def _described(value: Any) -> str:
    """A value in a word, such as `f32[2, 3]`; nothing for one that is neither tensor nor size."""
    if isinstance(value, Tensor):
        name = value.dtype.name
        letter = "u" if name.startswith("uint") else name[0]
        short = _SHORT.get(name) or letter + "".join(c for c in name.partition("_")[0] if c.isdigit())
        return f"{short}[{', '.join(map(str, value.shape))}]"
    return f"Sym({value})" if isinstance(value, (SymInt, SymFloat, SymBool)) else ""


def _resolves(path: str, value: Any) -> bool:
    """Whether `torch.a.b` is this very object."""
    found: Any = _package()
    for atom in path.split(".")[1:]:
        found = getattr(found, atom, None)
    return found is value


def _last_uses(nodes: Any) -> dict[Node, list[Node]]:
    """For each node, the values that nobody needs after it."""
    seen: set[Node] = set()
    ends: dict[Node, list[Node]] = {}
    for node in reversed(nodes):
        for used in node.all_input_nodes:
            if used not in seen:
                seen.add(used)
                ends.setdefault(node, []).append(used)
    return ends


_FILE_LINE = re.compile(r'^File "(.+)", line (\d+), in (.+)$')


def _location(trace: str) -> str:
    """The innermost place of a stack trace as a comment."""
    lines = [line.strip() for line in trace.strip().split("\n")]
    for i in range(len(lines) - 1, -1, -1):
        found = _FILE_LINE.match(lines[i])
        if found:
            code = lines[i + 1] if i + 1 < len(lines) else ""
            return f"# File: {found[1]}:{found[2]} in {found[3]}, code: {code}"
    return ""


class CodeGen:
    """Writes graphs as functions. Subclasses may change the head of the function and what it returns."""

    def __init__(self) -> None:
        self._body_transformer: Callable[[list[str]], list[str]] | None = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """The line `def forward(self, …):`."""
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Any, *, repr_fn: Callable[[Any], str] = repr, **options: Any) -> str:
        """The `return` line."""
        return f"return {repr_fn(output_args)}"

    def process_inputs(self, *args: Any) -> Any:
        """Arguments of the module as values of the placeholders."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """The graph's result as the module gives it back."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Further globals for the generated code."""
        return []

    def _gen_python_code(
        self, nodes: Any, root_module: str, namespace: Namespace, *, verbose: bool = False
    ) -> PythonCode:
        writer = _Writer(root_module, namespace, verbose)
        writer.globals.update(self.additional_globals())
        ends = _last_uses(nodes)
        body = writer.body
        comment = None
        for node in nodes:
            if verbose and node.op not in ("placeholder", "output"):
                said = _location(node.stack_trace) if node.stack_trace else ""
                if not said and comment != "":
                    body.append("# No stacktrace found for following nodes")
                elif said and said != comment:
                    body += ["", said]
                comment = said
            if node.op == "output":
                if node.type is not None:
                    writer.returns = f" -> {writer.type_name(node.type)}"
                body.append(self.generate_output(node.args[0], repr_fn=writer.value))
                continue
            line = writer.line(node)
            done = ends.get(node, []) if node.op != "placeholder" else []
            if node.op != "placeholder" and not node.users:
                done = [*done, node]
            if line:
                body.append(line + (f";  {' = '.join([repr(n) for n in done])} = None" if done else ""))
        if not body:
            body.append("pass")
        lines = [line + "\n" for line in body]
        if self._body_transformer is not None:
            lines = self._body_transformer(lines)
        wraps = "\n".join(f'torch.fx._symbolic_trace.wrap("{name}")' for name in writer.wrapped)
        head = self.gen_fn_def(writer.free, writer.returns)
        code = "\n".join("    " + line for line in "".join(lines).split("\n"))
        return PythonCode(f"\n{wraps}\n\n{head}\n{code}", writer.globals)


class _PyTreeCodeGen(CodeGen):
    """For graphs whose module takes or gives containers: they are flattened before and put together behind."""

    def __init__(self, pytree_info: _PyTreeInfo):
        super().__init__()
        self.pytree_info = pytree_info

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        names = [name.partition(":")[0].partition("=")[0].strip() for name in free_vars]
        given = [name for name in self.pytree_info.orig_args if name != "self"]
        head = f"def {self._func_name}(self, {', '.join(given)}){maybe_return_annotation}:"
        if not names:
            return head
        return f"{head}\n    {', '.join(names)}, = fx_pytree.tree_flatten_spec([{', '.join(given)}], self._in_spec)"

    def generate_output(self, output_args: Any, *, repr_fn: Callable[[Any], str] = repr, **options: Any) -> str:
        if self.pytree_info.out_spec is None:
            return super().generate_output(output_args, repr_fn=repr_fn)
        return f"return pytree.tree_unflatten({repr_fn(output_args)}, self._out_spec)"

    def process_inputs(self, *args: Any) -> Any:
        return pytree.tree_leaves(args)

    def process_outputs(self, outputs: Any) -> Any:
        if self.pytree_info.out_spec is None:
            return outputs
        values = [outputs] if not isinstance(outputs, (list, tuple)) else outputs
        return pytree.tree_unflatten(values, self.pytree_info.out_spec)
