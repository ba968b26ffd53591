"""Writes Python modules and functions as TorchScript: each module is a class of a program, with what it calls beside it."""

from __future__ import annotations

import re
import typing
from typing import Any

from .._tensor import Tensor
from ..nn.modules.container import ModuleDict, ModuleList, Sequential
from ..nn.modules.module import Module
from ._adoption import Adoption
from ._errors import Problem
from ._finals import finals_of, is_layer
from ._functional_calls import functional_text, is_functional_text
from ._layer_texts import layer_text
from ._program import Program
from ._rewriting import Rewriter
from ._script_module import RecursiveScriptModule
from ._scripting import Scripted, ScriptedFunction, exported
from ._trace_code import class_path, class_text, identifier
from ._type_texts import type_text

_FUNCTION = re.compile(r"\bF\.(\w+)\(")  # a function of `nn.functional` in the text of a layer


class _Emitter:
    """The program under construction, with what was written and what is still to be written."""

    def __init__(self, root: Module | None):
        self.program = Program()
        self.paths: dict[int, str] = {}
        self.constants: list[Any] = []
        self.functions: dict[Any, str] = {}
        self.adoption = Adoption(self.program, self.constants)
        taken: set[str] = set()
        for module in root.modules() if root is not None else ():
            if id(module) not in self.paths:
                self.paths[id(module)] = class_path(module, taken)
                taken.add(self.paths[id(module)])

    def function(self, function: Any) -> str:
        """The path of a Python function in the program; written when it is first called."""
        function = function._function if isinstance(function, ScriptedFunction) else function
        found = self.functions.get(function)
        if found is None:
            found = self.functions[function] = self._free_path(function)
            self.program.add(found, Rewriter(self, function, None).text(function.__name__))
        return found

    def named_tuple(self, kind: Any) -> str:
        """The path of a class of named tuples in the program; written when it is first named."""
        found = self.functions.get(kind)
        if found is None:
            found = self.functions[kind] = self._free_path(kind)
            hints = typing.get_type_hints(kind)
            lines = [f"  {name} : {type_text(hints.get(name, Tensor), self.named_tuple)}" for name in kind._fields]
            self.program.add(found, "\n".join([f"class {found.rpartition('.')[2]}(NamedTuple):", *lines]))
        return found

    def _free_path(self, named: Any) -> str:
        """A path that nothing in the program has yet."""
        module = "torch.nn.functional" if is_functional_text(named) else named.__module__ or ""
        space = [identifier(p) for p in module.split(".")]
        parts = [] if space in (["__main__"], [""]) else space
        found, number = ".".join(("__torch__", *parts, identifier(named.__name__))), 0
        while found in self.program.sources or found in self.functions.values():
            found, number = ".".join(("__torch__", *parts, f"___torch_mangle_{number}", named.__name__)), number + 1
        return found


def _original(module: Any) -> Module:
    return module._original if isinstance(module, Scripted) else module


def emit(root: Module) -> RecursiveScriptModule:
    """A module of a program that does what the Python module does."""
    emitter = _Emitter(root)
    made: dict[int, Any] = {}

    def build(module: Any) -> Any:
        module = _original(module)
        if id(module) in made:
            return made[id(module)]
        if isinstance(module, RecursiveScriptModule):
            result = made[id(module)] = emitter.adoption.module(module)
            return result
        children = {name: build(child) for name, child in module._modules.items() if child is not None}
        path = emitter.paths.get(id(module)) or class_path(module, {*emitter.program.sources, *emitter.paths.values()})
        emitter.paths[id(module)] = path
        attributes, methods = _methods(emitter, module)
        finals = {name: value for name, value in finals_of(module).items() if name not in attributes}
        types_of = {name: kind for name, (kind, _) in attributes.items()}
        scripts = {id(module._modules[name]): child._script.path for name, child in children.items()}
        emitter.program.add(path, class_text(path, module, scripts, methods, types_of, finals))
        result = made[id(module)] = RecursiveScriptModule(emitter.program.definition(path))
        own, theirs = result.__dict__, module.__dict__
        for table in ("_parameters", "_buffers"):
            own[table].update(theirs[table])
        own["_modules"].update(children)
        own["_attributes"].update({name: value for name, (_, value) in attributes.items()})
        own["training"] = module.training
        return result

    top = build(root)
    emitter.program.constants = tuple(emitter.constants)
    return top


def _methods(emitter: _Emitter, module: Module) -> tuple[dict[str, Any], list[str]]:
    """Attributes with types and values, and the texts of methods."""
    own = f"self: {emitter.paths[id(module)]}"
    known = layer_text(module)
    if known is not None:
        return {}, [
            _FUNCTION.sub(lambda f: emitter.function(functional_text(f[1])) + "(", known.replace("self", own, 1))
        ]
    if isinstance(module, Sequential):
        return {}, [_sequential(module, own)]
    if isinstance(module, (ModuleList, ModuleDict)):
        return {}, []
    kind = type(module)
    attributes: dict[str, Any] = {}
    written: dict[str, str] = {}
    waiting = ["forward", *exported(kind)]
    while waiting:
        name = waiting.pop()
        method = getattr(kind, name, None)
        if name in written or method is None or method is Module.forward:
            continue
        try:
            rewriter = Rewriter(emitter, method, module)
            written[name] = rewriter.text(name)
        except Problem as problem:
            if not is_layer(module):
                raise
            raise Problem(
                f"{kind.__name__}: this layer cannot be written as TorchScript yet ({problem}); use torch.jit.trace"
            ) from None
        attributes.update(rewriter.attributes)
        waiting += rewriter.called
    order = sorted(written, key=lambda n: (n != "forward", n))
    return attributes, [written[name] for name in order]


def _sequential(module: Sequential, own: str) -> str:
    lines = [f"def forward({own},", "    input):"]
    value = "input"
    for i, name in enumerate(module._modules):
        lines.append(f'  _{i} = (getattr(self, "{name}")).forward({value})')
        value = f"_{i}"
    return "\n".join([*lines, f"  return {value}"])


def emit_function(function: Any) -> Program:
    """A program with one function, and those that it calls; `top` is its path."""
    emitter = _Emitter(None)
    program = emitter.program
    program.top = emitter.function(function)  # type: ignore[attr-defined]
    program.constants = tuple(emitter.constants)
    return program
