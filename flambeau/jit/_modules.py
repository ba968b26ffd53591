"""`script` and `trace`: modules and functions that behave as compiled ones do, and call the originals."""

from __future__ import annotations

import copy
import functools
import inspect
from typing import Any

from ..nn.modules.module import Module

__all__ = [
    "CompilationUnit",
    "RecursiveScriptModule",
    "ScriptFunction",
    "ScriptModule",
    "script",
    "trace",
    "trace_module",
]

_tracing = [0]


def is_scripting() -> bool:
    """Whether code runs compiled by `script`: never, it runs as Python."""
    return False


def is_tracing() -> bool:
    """Whether `torch.jit.trace` runs the example."""
    return bool(_tracing[0])


class ScriptModule(Module):
    """The base of modules that `script` and `trace` give. Subclasses of it are plain modules here."""

    def __init__(self) -> None:
        super().__init__()

    @property
    def original_name(self) -> str:
        return type(self).__name__

    def define(self, src: str) -> None:
        """Not available: methods are written as Python methods here."""
        raise NotImplementedError("TorchScript source is not compiled here: write the method in Python")

    def save(self, f: Any, _extra_files: Any = None) -> None:
        """Not available; save the `state_dict` with `torch.save` instead."""
        raise NotImplementedError(SAVING)


SAVING = (
    "TorchScript files are not written here: save the parameters with torch.save(module.state_dict(), file), and rebuild "
    "the module from its Python class"
)


class RecursiveScriptModule(ScriptModule):
    """A module that shares parameters, buffers and submodules with another one and calls it.

    >>> import flambeau as torch
    >>> scripted = torch.jit.script(torch.nn.Linear(2, 3))
    >>> list(scripted.state_dict()), scripted(torch.ones(1, 2)).shape
    (['weight', 'bias'], torch.Size([1, 3]))
    """

    def __init__(self, module: Module):
        super().__init__()
        own = self.__dict__
        own["_original"] = module
        for table in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            own[table] = module.__dict__[table]
        own["training"] = module.training

    @property
    def original_name(self) -> str:
        return type(self._original).__name__

    @property
    def code(self) -> str:
        """The source of the original's `forward`."""
        return inspect.getsource(type(self._original).forward)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._original(*args, **kwargs)

    def train(self, mode: bool = True) -> RecursiveScriptModule:
        """Training or evaluation, for the original too."""
        self._original.train(mode)
        self.training = mode
        return self

    def __getattr__(self, name: str) -> Any:
        original = self.__dict__.get("_original")
        if original is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return getattr(original, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "training" or "_original" not in self.__dict__ or name in self.__dict__:
            super().__setattr__(name, value)
        else:
            setattr(self._original, name, value)

    def __getitem__(self, key: Any) -> Any:
        return self._original[key]

    def __len__(self) -> int:
        return len(self._original)

    def __iter__(self) -> Any:
        return iter(self._original)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._original)})

    def _get_name(self) -> str:
        return f"{type(self).__name__}"

    def extra_repr(self) -> str:
        return f"original_name={self.original_name}"

    def __reduce__(self) -> Any:
        return type(self), (self._original,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return type(self)(copy.deepcopy(self._original, memo))


class TracedModule(RecursiveScriptModule):
    """A module that `trace` gave."""


class TopLevelTracedModule(TracedModule):
    """A module that `trace` gave."""


class ScriptFunction:
    """A function that `trace` gave; it calls the original."""

    def __init__(self, function: Any):
        functools.update_wrapper(self, function)
        self._function = function
        self.name = getattr(function, "__name__", "forward")

    @property
    def code(self) -> str:
        """The source of the original."""
        return inspect.getsource(self._function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def save(self, f: Any, _extra_files: Any = None) -> None:
        """Not available."""
        raise NotImplementedError(SAVING)


class CompilationUnit:
    """Not available: TorchScript source is not compiled here."""

    def __init__(self, lang: Any = None, _frames_up: int = 0):
        if lang is not None:
            raise NotImplementedError("TorchScript source is not compiled here: write the functions in Python")

    def define(self, lang: str, *args: Any) -> None:
        """Not available."""
        raise NotImplementedError("TorchScript source is not compiled here: write the functions in Python")


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """A module that calls the given one; functions and classes as they are. Nothing is compiled: use `torch.compile`."""
    if isinstance(obj, ScriptModule) or not isinstance(obj, Module):
        return obj
    return RecursiveScriptModule(obj)


def script_method(fn: Any) -> Any:
    """Marks a method of a `ScriptModule`; the method itself."""
    return fn


def _run(function: Any, example: Any, named: Any = None) -> Any:
    """Runs the example, so that what does not work is seen now."""
    args = example if isinstance(example, (tuple, list)) else (example,)
    _tracing[0] += 1
    try:
        return function(**named) if named is not None else function(*args)
    finally:
        _tracing[0] -= 1


def trace(
    func: Any,
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: Any = None,
    _store_inputs: bool = True,
) -> Any:
    """Runs a module or function on the example; gives one that calls it. Control flow stays Python: it is not frozen."""
    if example_inputs is None and example_kwarg_inputs is None:
        raise RuntimeError("example_kwarg_inputs should be a dict")
    if isinstance(func, ScriptModule):
        return func
    _run(func, example_inputs, example_kwarg_inputs)
    return TopLevelTracedModule(func) if isinstance(func, Module) else ScriptFunction(func)


def trace_module(
    mod: Module,
    inputs: dict[str, Any],
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_inputs_is_kwarg: bool = False,
    _store_inputs: bool = True,
) -> Any:
    """Runs methods of a module on examples, {"forward": inputs, …}; gives a module that calls it."""
    if not isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    for name, example in inputs.items():
        method = mod if name == "forward" else getattr(mod, name)
        _run(method, example, example if example_inputs_is_kwarg else None)
    return TopLevelTracedModule(mod)
