"""Functions in TorchScript, and collections of them given as source text."""

from __future__ import annotations

import functools
import textwrap
from typing import Any

from .._core.state import local
from ._machine import Function
from ._program import Program, parsed
from ._saving import Savable
from ._script_module import RecursiveScriptModule, ScriptModule
from ._tracer import Tracer, active


def recording_of(function: ScriptFunction) -> Tracer | None:
    """The trace under way, if it keeps calls of this function as they are."""
    tracer = active()
    return tracer if tracer is not None and tracer.scripts is not None and tracer.scripts.takes(function) else None


class ScriptFunction(Savable):
    """A function that `trace` gave.

    >>> import flambeau as torch
    >>> f = torch.jit.trace(lambda x: x * 2 + 1, torch.zeros(2))
    >>> f(torch.ones(3))
    tensor([3., 3., 3.])
    """

    def __init__(self, program: Program, path: str, original: Any, name: str):
        if original is not None:
            functools.update_wrapper(self, original)
        self._program, self._path, self.name = program, path, name
        self._run: Function = program.definition(path)

    @property
    def qualified_name(self) -> str:
        return f"__torch__.{self.name}"

    @property
    def code(self) -> str:
        """The function's text."""
        return self._program.sources[self._path].replace("def forward(", f"def {self.name}(", 1) + "\n"

    @property
    def graph(self) -> Any:
        """The function as a graph of operators."""
        from ._graph import graph_of

        return graph_of(self._run, None)

    inlined_graph = graph

    def graph_for(self, *args: Any, **kwargs: Any) -> Any:
        """The function's graph, whatever the arguments."""
        return self.graph

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tracer = recording_of(self) if local.function_modes else None
        if tracer is not None:
            return tracer.call_script(self, self._run, args, kwargs)
        return self._run(*args, **kwargs)

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else functools.partial(self, owner)


class CompilationUnit:
    """Functions given as TorchScript source.

    >>> import flambeau as torch
    >>> unit = torch.jit.CompilationUnit("def double(x):\\n    return x * 2")
    >>> unit.double(torch.ones(2))
    tensor([2., 2.])
    """

    def __init__(self, lang: Any = None, _frames_up: int = 0):
        self._program = Program()
        self._functions: dict[str, Function] = {}
        if lang is not None:
            self.define(lang)

    def define(self, lang: str, *args: Any) -> None:
        """Adds the functions of a text."""
        text = textwrap.dedent(lang)
        lines = text.splitlines()
        for node in parsed(text, "source").body:
            name = getattr(node, "name", "")
            path = f"__torch__.{name}"
            self._program.add(path, "\n".join(lines[node.lineno - 1 : node.end_lineno]))
            self._functions[name] = self._program.definition(path)
            self._functions[name]._compile()

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__.get("_functions", {}).get(name)
        if found is None:
            raise AttributeError(f"'CompilationUnit' has no attribute '{name}'")
        return found


def as_module(obj: Any) -> RecursiveScriptModule:
    """What an archive is written of: a module whose classes are all in one program."""
    if isinstance(obj, ScriptFunction):
        return _placeholder(obj)
    if not isinstance(obj, ScriptModule):
        raise AttributeError(
            f"'{type(obj).__name__}' object cannot be saved as TorchScript: make a module of it with torch.jit.script or "
            "torch.jit.trace first"
        )
    written = getattr(obj, "_as_program", None)
    if written is not None:
        return written()
    if not isinstance(obj, RecursiveScriptModule):
        from ._scripting import Scripted  # it needs this file

        return Scripted(obj)._as_program()
    return obj


def placeholder_text(function: str) -> str:
    """The class of a module that stands for a function; `function` is its text without `self`."""
    rest = function.partition("(")[2]
    own = "self: __torch__.PlaceholderModule" + ("" if rest.lstrip().startswith(")") else ",\n    ")
    lines = ["class PlaceholderModule(Module):", "  __parameters__ = []", "  __buffers__ = []", "  training : bool"]
    return "\n".join(lines) + "\n" + textwrap.indent(f"def forward({own}{rest}", "  ")


def _placeholder(function: ScriptFunction) -> RecursiveScriptModule:
    program = Program(function._program.constants)
    text = function._program.sources[function._path]
    program.sources.update((p, s) for p, s in function._program.sources.items() if p != function._path)
    program.add("__torch__.PlaceholderModule", placeholder_text(text))
    return RecursiveScriptModule(program.definition("__torch__.PlaceholderModule"))
