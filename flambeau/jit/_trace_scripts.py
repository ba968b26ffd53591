"""What is scripted inside of a trace: it stays a call, so that its branches and sizes follow other inputs."""

from __future__ import annotations

from typing import Any

from ..nn.modules.module import Module
from ._errors import Problem
from ._script_module import RecursiveScriptModule
from ._units import ScriptFunction, as_module

_UNWRITABLE = (Problem, RuntimeError, NotImplementedError)  # what a program that cannot be written raises


class Scripts:
    """The scripted modules below `root` as programs, made when they are first called."""

    def __init__(self, root: Module | None):
        self.root = root
        self._programs: dict[str, RecursiveScriptModule | None] = {}  # by the path of a module
        self._functions: dict[ScriptFunction, bool] = {}

    def stays(self, module: Module, path: str | None, caller: str) -> bool:
        """Whether the call of a module is recorded as such. `caller` is the path of the module that calls it."""
        if path is None:
            if isinstance(module, RecursiveScriptModule):
                raise RuntimeError(
                    f"Tried to trace {module.original_name} but it is not part of the active trace. Modules that are called "
                    "during a trace must be registered as submodules of the thing being traced."
                )
            return False
        inside = not caller or path.startswith(f"{caller}.")
        if not path or not inside or module._forward_hooks or module._forward_pre_hooks:
            return False
        above, rest = self._scripted(path)
        program = self._program(above) if above else None
        part = None if program is None else program.get_submodule(rest)
        return part is not None and "forward" in part._script.methods

    def _scripted(self, path: str) -> tuple[str, str]:
        """A path as that of the first scripted module on it and the rest; the first is empty if there is none."""
        module: Any = self.root
        names = path.split(".")
        for i, name in enumerate(names):
            module = module._modules[name]
            if isinstance(module, RecursiveScriptModule):
                return ".".join(names[: i + 1]), ".".join(names[i + 1 :])
        return "", path

    def _program(self, path: str) -> RecursiveScriptModule | None:
        if path not in self._programs:
            try:
                made = self._programs[path] = as_module(self.root.get_submodule(path))  # type: ignore[union-attr]
                made._script.program.check()
            except _UNWRITABLE:
                self._programs[path] = None
        return self._programs[path]

    def takes(self, function: ScriptFunction) -> bool:
        """Whether calls of a function can stay: it can be written as a program."""
        if function not in self._functions:
            try:
                function._program.definition(function._path)
                function._program.check()
                self._functions[function] = True
            except _UNWRITABLE:
                self._functions[function] = False
        return self._functions[function]

    def kept(self) -> dict[str, RecursiveScriptModule]:
        """The modules whose calls were recorded as such, by their paths."""
        return {path: module for path, module in self._programs.items() if module is not None}
