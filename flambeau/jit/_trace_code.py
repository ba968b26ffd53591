"""From a recording to a program: each module that was called becomes a class, each of its calls a method."""

from __future__ import annotations

import functools
import json
import keyword
import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from .._compile.graph import values_in
from .._core.devices import device
from .._library.schema_texts import float_places, schemas_of
from .._tensor import Tensor
from ..nn.modules.module import Module
from ._adoption import Adoption
from ._errors import Problem
from ._program import Program
from ._script_module import TopLevelTracedModule, TracedModule
from ._tracer import Call, Node, ScriptCall, Tracer, Value

_PACKAGE = __name__.partition(".")[0]


def literal(value: Any) -> str:
    """A constant as source text."""
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        if math.isinf(value):
            return 'float("-inf")' if value < 0 else 'float("inf")'
        return 'float("nan")' if math.isnan(value) else repr(float(value))
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, device):
        return f"torch.device({json.dumps(str(value))})"
    raise Problem(f"a value of type {type(value).__name__} cannot be written into a TorchScript program")


def type_of(example: Any) -> str:
    """The TorchScript type of an input or output, or of a structure of values."""
    if isinstance(example, Value):
        return example.kind
    if isinstance(example, Tensor):
        return "Tensor"
    if example is None or isinstance(example, Module):
        return "NoneType"
    for kind in (bool, int, float, str):
        if isinstance(example, kind):
            return kind.__name__
    if isinstance(example, tuple):
        return f"Tuple[{', '.join(map(type_of, example)) or '()'}]"
    if isinstance(example, list):
        return f"List[{type_of(example[0]) if example else 'Tensor'}]"
    if isinstance(example, dict):
        key, value = next(iter(example.items()), ("", None))
        return f"Dict[{type_of(key)}, {'Tensor' if value is None else type_of(value)}]"
    if isinstance(example, device):
        return "Device"
    raise RuntimeError(
        f"Type '{type(example).__name__}' cannot be traced. Only Tensors and (possibly nested) Lists, Dicts, and Tuples of "
        "Tensors can be traced"
    )


def class_path(module: Any, taken: Any) -> str:
    """A full name for a module's class that is not taken yet."""
    kind = type(module)
    space = re.sub(rf"^{_PACKAGE}(?=\.|$)", "torch", kind.__module__ or "")
    parts = [] if space in ("__main__", "builtins", "") else [identifier(p) for p in space.split(".")]
    name = identifier(kind.__name__)
    path, number = ".".join(("__torch__", *parts, name)), 0
    while path in taken:
        path = ".".join(("__torch__", *parts, f"___torch_mangle_{number}", name))
        number += 1
    return path


def identifier(text: str) -> str:
    """Text made a name of the language."""
    text = re.sub(r"\W", "_", text, flags=re.ASCII)
    return f"_{text}" if not text or text[0].isdigit() or keyword.iskeyword(text) else text


# -- what is needed ----------------------------------------------------------------------------------------------


def _has_effect(node: Node) -> bool:
    if isinstance(node, ScriptCall) or not node.outs:
        return True
    if node.op == "batch_norm" and node.args[5] is True:
        return True
    return node.op.endswith("_") and not node.op.endswith("__")


def prune(call: Call, needed: set[Value]) -> None:
    """Leaves out what no result needs. Walks backward; `needed` grows on the way."""
    kept: list[Any] = []
    for item in reversed(call.items):
        if isinstance(item, Call):
            prune(item, needed)
            if item.items:
                kept.append(item)
        elif _has_effect(item) or any(v in needed for v in item.outs):
            needed.update(item.operands())
            kept.append(item)
    call.items = kept[::-1]


# -- text --------------------------------------------------------------------------------------------------------


class _Method:
    """Writes one call of a module as a method."""

    def __init__(self, writer: Writer, call: Call):
        self.writer, self.call = writer, call
        self.names: dict[Value, str] = {}
        self.lines: list[str] = []
        self.taken: set[str] = {"self"}
        self._modules: dict[str, str] = {}

    def fresh(self, hint: str = "") -> str:
        name, number = hint or f"_{len(self.taken)}", 0
        while name in self.taken:
            number += 1
            name = f"{hint}{number}" if hint else f"_{len(self.taken) + number}"
        self.taken.add(name)
        return name

    def bind(self, value: Value, hint: str = "") -> str:
        name = self.names[value] = self.fresh(hint)
        return name

    def name(self, value: Value) -> str:
        found = self.names.get(value)
        if found is not None:
            return found
        if value.name.startswith("CONSTANTS."):
            return value.name
        if value.attribute is None:
            raise RuntimeError("a trace uses a value before it is there")
        inside = value.attribute[len(self.call.path) + 1 :] if self.call.path else value.attribute
        *parts, last = inside.split(".")
        holder = self.module(".".join(parts))
        name = self.bind(value, identifier(last))
        self.lines.append(f"{name} = {_attribute(holder, last)}")
        return name

    def module(self, inside: str) -> str:
        """The variable that holds a submodule, by its path below this one."""
        if not inside:
            return "self"
        found = self._modules.get(inside)
        if found is None:
            above, _, last = inside.rpartition(".")
            holder = self.module(above)
            found = self._modules[inside] = self.fresh(f"_{last}" if last[0].isdigit() else identifier(last))
            self.lines.append(f"{found} = {_attribute(holder, last)}")
        return found

    def argument(self, value: Any) -> str:
        if isinstance(value, Value):
            return self.name(value)
        if isinstance(value, (list, tuple)):
            parts = [self.argument(v) for v in value]
            if any(v is None for v in value):
                return f"annotate(List[Optional[Tensor]], [{', '.join(parts)}])"
            return f"[{', '.join(parts)}]" if parts else "annotate(List[int], [])"
        return literal(value)

    def node(self, node: Node) -> None:
        args = list(node.args)
        for i in (5,) if node.op == "cross_entropy_loss" else float_places(node.op):
            if i < len(args) and isinstance(args[i], (int, float)) and not isinstance(args[i], bool):
                args[i] = float(args[i])
        parts = [self.argument(a) for a in args]
        for i in _optional_places(node.op):
            if i < len(parts) and not parts[i].startswith("annotate"):
                parts[i] = f"annotate(List[Optional[Tensor]], {parts[i]})"
        parts += [f"{k}={self.argument(v)}" for k, v in node.named.items()]
        space, _, name = node.op.rpartition("::")
        text = f"{'ops.' + space if space else 'torch'}.{name}({', '.join(parts)})"
        names = ", ".join([self.bind(v) for v in node.outs]) or self.fresh()
        self.lines.append(f"{names}{',' if node.several else ''} = {text}")

    def script(self, call: ScriptCall) -> None:
        """Writes the call of something scripted, and takes its result apart."""
        if isinstance(call.target, str):
            inside = call.target[len(self.call.path) + 1 :] if self.call.path else call.target
            function = f"({self.module(inside)}).forward"
        else:
            function = self.writer.adoption.name(call.target._program, call.target._path)
        parts = [_structure_text(self, a) for a in call.args]
        parts += [f"{k}={_structure_text(self, a)}" for k, a in call.named.items()]
        result = call.result
        taken = self.bind(result) if isinstance(result, Value) else self.fresh()
        self.lines.append(f"{taken} = {function}({', '.join(parts)})")
        self.writer.unpack(self, taken, result)

    def inner(self, call: Call) -> None:
        inputs, outputs, method = self.writer.method(call)
        inside = call.path[len(self.call.path) + 1 :] if self.call.path else call.path
        given = ", ".join([self.name(v) for v in inputs])
        text = f"({self.module(inside)}).{method}({given})"
        if not outputs:
            self.lines.append(f"{self.fresh()} = {text}")
        elif len(outputs) == 1:
            self.lines.append(f"{self.bind(outputs[0])} = {text}")
        else:
            self.lines.append(f"{', '.join(self.bind(v) for v in outputs)}, = {text}")

    def body(self) -> None:
        for item in self.call.items:
            if isinstance(item, Call):
                self.inner(item)
            elif isinstance(item, ScriptCall):
                self.script(item)
            else:
                self.node(item)


@functools.cache
def _optional_places(op: str) -> tuple[int, ...]:
    """Where an operator takes lists of tensors that may be None, of which the text has to say the type."""
    schema = next(iter(schemas_of(op).values()), None)
    return () if schema is None else tuple([i for i, a in enumerate(schema.arguments) if a.declared == "Tensor?[]"])


def _attribute(holder: str, name: str) -> str:
    return f"{holder}.{name}" if name.isidentifier() and not keyword.iskeyword(name) else f'getattr({holder}, "{name}")'


class Writer:
    """Writes all methods of a trace. `scripts` are the paths of classes by the paths of modules."""

    def __init__(self, tracer: Tracer, scripts: dict[str, str], adoption: Adoption):
        self.tracer, self.scripts, self.adoption = tracer, scripts, adoption
        self.methods: dict[str, list[str]] = {}  # by the path of a module
        self._outside: dict[Call, list[Value]] = {}

    def top(self, name: str, parameters: list[tuple[str, Any]], out: Any) -> None:
        """The method that was traced. `parameters` are names with values or structures of values."""
        outputs = list(values_in(out))
        prune(self.tracer.top, set(outputs))
        self._find_outputs(self.tracer.top, outputs)
        method = _Method(self, self.tracer.top)
        header = []
        for parameter, value in parameters:
            kind = type_of(value)
            taken = (
                method.bind(value, identifier(parameter))
                if isinstance(value, Value)
                else method.fresh(identifier(parameter))
            )
            header.append(f"{taken}: {kind}")
            self.unpack(method, taken, value)
        method.body()
        result = _structure_text(method, out)
        self._finish("", name, header, method, f"return {result}", type_of(out))

    def unpack(self, method: _Method, holder: str, value: Any) -> None:
        """Takes a structure apart, so that each of its values has a name."""
        if isinstance(value, dict):
            for key, inner in value.items():
                part = method.bind(inner) if isinstance(inner, Value) else method.fresh()
                method.lines.append(f"{part} = {holder}[{literal(key)}]")
                self.unpack(method, part, inner)
        elif isinstance(value, (list, tuple)) and value:
            parts = [method.bind(v) if isinstance(v, Value) else method.fresh() for v in value]
            method.lines.append(f"{', '.join(parts)}, = {holder}")
            for part, inner in zip(parts, value):
                self.unpack(method, part, inner)

    def _find_outputs(self, top: Call, results: list[Value]) -> None:
        """For every call, the values made inside of it that are used outside, in the order of their making."""
        users: dict[Value, set[Call]] = {}  # value -> calls in which it is used
        makers: dict[Value, Call] = {}  # in the order of their making

        def walk(call: Call, chain: tuple[Call, ...]) -> None:
            self._outside[call] = []
            for item in call.items:
                if isinstance(item, Call):
                    walk(item, (*chain, item))
                    continue
                for value in item.operands():
                    users.setdefault(value, set()).add(call)
                makers.update(dict.fromkeys(item.outs, call))

        walk(top, (top,))
        for value in results:
            users.setdefault(value, set()).add(top)
        for value, maker in makers.items():
            call: Call | None = maker
            while call is not None and call is not top:
                if any(not _within(user, call) for user in users.get(value, ())):
                    self._outside[call].append(value)
                call = call.parent

    def method(self, call: Call) -> tuple[list[Value], list[Value], str]:
        """Writes the method for a call: (inputs, outputs, its name)."""
        made = {v for node in call.nodes() for v in node.outs}
        inputs = []
        for value in dict.fromkeys(v for node in call.nodes() for v in node.operands()):
            inside = value.attribute is not None and value.attribute.startswith(call.path + ".")
            if value not in made and not inside and not value.name.startswith("CONSTANTS."):
                inputs.append(value)
        outputs = self._outside[call]
        method = _Method(self, call)
        header = [f"{method.bind(v, v.name or 'argument_' + str(i + 1))}: {v.kind}" for i, v in enumerate(inputs)]
        method.body()
        names = [method.name(v) for v in outputs]
        kinds = [v.kind for v in outputs]
        result = (
            "return None" if not names else f"return {names[0]}" if len(names) == 1 else f"return ({', '.join(names)})"
        )
        kind = "NoneType" if not kinds else kinds[0] if len(kinds) == 1 else f"Tuple[{', '.join(kinds)}]"
        return inputs, outputs, self._finish(call.path, "forward", header, method, result, kind)

    def _finish(self, path: str, name: str, header: list[str], method: _Method, result: str, kind: str) -> str:
        script = self.scripts.get(path)
        own = [f"self: {script}"] if script is not None else []
        lines = [*method.lines, result]

        def text(called: str) -> str:
            signature = ",\n    ".join([*own, *header])
            return f"def {called}({signature}) -> {kind}:\n" + "\n".join("  " + line for line in lines)

        known = self.methods.setdefault(path, [])
        for number, other in enumerate(known):
            called = name if not number else f"{name}{number}"
            if other == text(called):
                return called
        called = name if not known or path == "" else f"{name}{len(known)}"
        known.append(text(called))
        return called


def _within(call: Call | None, outer: Call) -> bool:
    while call is not None:
        if call is outer:
            return True
        call = call.parent
    return False


def _structure_text(method: _Method, value: Any) -> str:
    if isinstance(value, Value):
        return method.name(value)
    if isinstance(value, tuple):
        return f"({', '.join(_structure_text(method, v) for v in value)}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(_structure_text(method, v) for v in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(k)}: {_structure_text(method, v)}" for k, v in value.items()) + "}"
    return literal(value)


# -- classes -----------------------------------------------------------------------------------------------------


def class_text(
    path: str, module: Module, scripts: dict[int, str], methods: list[str], extra: dict[str, str] | None = None,
    constants: Mapping[str, Any] = MappingProxyType({}),
) -> str:  # fmt: skip
    """The class of a module: what it has, and its methods. `scripts` are paths by the identity of submodules."""
    own = module.__dict__
    tables = own["_parameters"], own["_buffers"]
    parameters, buffers = ("".join(f'"{name}", ' for name in table) for table in tables)
    lines = [
        f"class {path.rpartition('.')[2]}(Module):",
        f"  __parameters__ = [{parameters}]",
        f"  __buffers__ = [{buffers}]",
    ]
    types = {name: "NoneType" if t is None else "Tensor" for table in tables for name, t in table.items()}
    types["training"] = "bool"
    types.update(extra or {})
    for name, kind in types.items():
        lines.append(_declaration(name, kind))
    lines += [_declaration(name, f"Final[{type_of(v)}]") + f" = {_final(v)}" for name, v in constants.items()]
    lines += [_declaration(name, scripts[id(child)]) for name, child in own["_modules"].items() if child is not None]
    text = "\n".join(lines)
    for method in methods:
        text += "\n" + "\n".join("  " + line for line in method.splitlines())
    return text


def _final(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_final, value))}{',' if len(value) == 1 else ''})"
    return repr(value) if isinstance(value, float) else literal(value)


def _declaration(name: str, kind: str) -> str:
    if name.isidentifier() and not keyword.iskeyword(name):
        return f"  {name} : {kind}"
    return f'  __annotations__["{name}"] = {kind}'


def traced_module(tracer: Tracer, root: Module, methods: Any, top_class: type = TopLevelTracedModule) -> Any:
    """The program of a trace as a module. `methods` calls `Writer.top` for each traced method."""
    program, constants = Program(), tracer.constants
    adoption = Adoption(program, constants)
    kept = {} if tracer.scripts is None else tracer.scripts.kept()  # scripted modules by their paths
    adopted = {id(root.get_submodule(name)): adoption.module(module) for name, module in kept.items()}
    paths: dict[str, str] = {}
    by_module = {key: module._script.path for key, module in adopted.items()}
    taken = set(program.sources)
    modules = [
        (name, module)
        for name, module in root.named_modules(remove_duplicate=False)
        if not any(name == path or name.startswith(path + ".") for path in kept)
    ]
    for name, module in modules:
        if id(module) not in by_module:
            by_module[id(module)] = class_path(module, taken)
            taken.add(by_module[id(module)])
        paths[name] = by_module[id(module)]
    writer = Writer(tracer, paths, adoption)
    methods(writer)
    written = set(program.sources)
    for name, module in modules:
        if paths[name] not in written:
            program.add(paths[name], class_text(paths[name], module, by_module, writer.methods.get(name, [])))
            written.add(paths[name])
    program.constants = tuple(constants)
    made: dict[int, Any] = dict(adopted)

    def build(module: Module, kind: type) -> Any:
        if id(module) in made:
            return made[id(module)]
        result = made[id(module)] = kind(program.definition(by_module[id(module)]))
        own, theirs = result.__dict__, module.__dict__
        for table in ("_parameters", "_buffers"):
            own[table].update(theirs[table])
        own["_non_persistent_buffers_set"] = set(theirs["_non_persistent_buffers_set"])
        own["training"] = module.training
        for name, child in theirs["_modules"].items():
            if child is not None:
                own["_modules"][name] = build(child, TracedModule)
        return result

    return build(root, top_class)
