"""`script`: modules and functions that run as Python here, are checked to be TorchScript, and can be written as such."""

from __future__ import annotations

import copy
import functools
import inspect
from typing import Any, NoReturn

from .._core.once import found_once
from .._core.sizes import Size, equal_lists_in_scripts
from .._core.state import local
from ..nn.modules.module import Module
from ..nn.parameter import is_lazy
from . import frontend
from ._annotations import export
from ._arguments import Signature
from ._errors import JITException, Problem, as_script_error
from ._script_module import RecursiveScriptModule, ScriptModule
from ._units import ScriptFunction, recording_of

_PACKAGE = __name__.partition(".")[0]


def is_scripting() -> bool:
    """Whether code runs as part of what `script` gave."""
    return local.scripting > 0


@functools.cache
def _signature_of(function: Any) -> Signature:
    return Signature(function, lenient=_is_ours(function))


def _is_ours(obj: Any) -> bool:
    return (obj.__module__ or "").partition(".")[0] in (_PACKAGE, "torch")


def _returned(value: Any) -> Any:
    """What a call gives to Python: sizes are lists of numbers in TorchScript."""
    if value.__class__ is tuple:
        return tuple(map(_returned, value))
    return list(value) if isinstance(value, Size) else value


def _run(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs scripted code; what fails in it reaches the outermost caller as TorchScript's errors."""
    local.scripting += 1
    try:
        result = function(*args, **kwargs)
        return result if local.scripting > 1 else _returned(result)
    except (JITException, NotImplementedError):
        raise
    except Exception as error:
        if local.scripting > 1:
            raise
        raise as_script_error(error) from error
    finally:
        local.scripting -= 1


def _check_initialised(module: Module) -> None:
    lazy = [name for name, t in (*module.named_parameters(), *module.named_buffers()) if is_lazy(t)]
    if lazy:
        raise RuntimeError(
            f"'{type(module).__name__}' has uninitialized parameters {lazy}. Did you forget to run a forward pass?"
        )


def _checked(module: Module) -> None:
    """Checks the methods that compiled code consists of, those of submodules too."""
    for inner in module.modules():
        kind = type(inner)
        if isinstance(inner, ScriptModule) or _is_ours(kind):
            continue
        for name in {"forward", *exported(kind)}:
            method = getattr(kind, name, None)
            if inspect.isfunction(method) and method is not Module.forward and not is_left_out(method):
                frontend.check(method)


def exported(kind: type) -> list[str]:
    """The methods that `@torch.jit.export` marks."""
    return [name for name in dir(kind) if getattr(getattr(kind, name, None), "_torchscript_modifier", "") == "export"]


def is_left_out(method: Any) -> bool:
    """Whether a method is marked as one that compiled code does not contain."""
    return getattr(method, "_torchscript_modifier", "") in ("ignore", "unused", "drop")


class Scripted(RecursiveScriptModule):
    """What `script` makes of a module: it shares parameters, buffers and submodules with the original, and runs it."""

    def __init__(self, module: Module):
        ScriptModule.__init__(self)
        own = self.__dict__
        own["_original"] = module
        for table in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            own[table] = module.__dict__[table]
        own["training"] = module.training

    @property
    def original_name(self) -> str:
        return type(self._original).__name__

    def _as_program(self) -> RecursiveScriptModule:
        """The module as one of a TorchScript program."""
        from ._emission import emit

        return emit(self._original)

    @property
    def code(self) -> str:
        """The text of `forward`: TorchScript where it can be written as such, otherwise the Python source."""
        try:
            return self._as_program().code
        except (Problem, RuntimeError):
            return inspect.getsource(type(self._original).forward)

    @property
    def graph(self) -> Any:
        """`forward` as a graph of operators."""
        return self._as_program().graph

    inlined_graph = graph

    @property
    def code_with_constants(self) -> tuple[str, Any]:
        """The text of `forward`, and the constants that it names."""
        return self._as_program().code_with_constants

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        original = self._original
        args, kwargs = _signature_of(type(original).forward).convert((original, *args), kwargs)
        return _run(self.__dict__.get("_frozen") or original, args[1:], kwargs)

    _interpreted_state = None  # type: ignore[assignment]  # the original is Python

    def _freeze(self) -> None:
        """From now on calls run as compiled programs."""
        from ..compiler._region import Region  # programs are loaded by those who use them

        self.__dict__["_frozen"] = Region(self._original)

    def train(self, mode: bool = True) -> Scripted:
        """Training or evaluation, for the original too."""
        self._original.train(mode)
        self.training = mode
        return self

    def __getattr__(self, name: str) -> Any:
        original = self.__dict__.get("_original")
        if original is None:
            raise AttributeError(f"'RecursiveScriptModule' object has no attribute '{name}'")
        return getattr(original, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "training" or "_original" not in self.__dict__ or name in self.__dict__:
            Module.__setattr__(self, name, value)
        else:
            setattr(self._original, name, value)

    def __getitem__(self, key: Any) -> Any:
        return self._original[key]

    def __len__(self) -> int:
        return len(self._original)

    def __iter__(self) -> Any:
        return iter(self._original)

    def __contains__(self, name: Any) -> bool:
        return name in self._original

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *dir(self._original)})

    def __reduce__(self) -> Any:
        return Scripted, (self._original,)

    def __copy__(self) -> Any:
        return Scripted(copy.copy(self._original))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return Scripted(copy.deepcopy(self._original, memo))


class ScriptedFunction(ScriptFunction):
    """What `script` makes of a function."""

    def __init__(self, function: Any):
        functools.update_wrapper(self, function)
        self._function, self.name = function, function.__name__

    @found_once
    def _program(self) -> Any:  # type: ignore[override]
        from ._emission import emit_function

        return emit_function(self._function)

    _path = property(lambda self: self._program.top)
    _run = property(lambda self: self._program.definition(self._program.top))

    @property
    def code(self) -> str:
        """The function's text: TorchScript where it can be written as such, otherwise the Python source."""
        try:
            return self._program.sources[self._path] + "\n"
        except (Problem, RuntimeError):
            return inspect.getsource(self._function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tracer = recording_of(self) if local.function_modes else None
        if tracer is not None:
            return tracer.call_script(self, self._as_python, args, kwargs)
        return self._as_python(*args, **kwargs)

    def _as_python(self, *args: Any, **kwargs: Any) -> Any:
        return _run(self._function, *_signature_of(self._function).convert(args, kwargs))


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """A module or function as TorchScript: branches and loops stay. It runs as Python here; constructs that TorchScript
    does not have raise now, and `torch.jit.save` writes it as a TorchScript archive. Classes stay as they are.

    >>> import flambeau as torch
    >>> @torch.jit.script
    ... def halves(x: torch.Tensor, n: int) -> torch.Tensor:
    ...     for i in range(n):
    ...         x = x / 2
    ...     return x
    >>> halves(torch.tensor([8.0]), 3)
    tensor([1.])
    """
    if isinstance(obj, (ScriptModule, ScriptFunction)):
        return obj
    equal_lists_in_scripts()
    obj = _prepared(obj, {})
    if isinstance(obj, Module):
        _check_initialised(obj)
        _checked(obj)
        return Scripted(obj)
    if inspect.isfunction(obj):
        if obj.__name__ == "<lambda>":
            _refuse_lambda(obj)
        if not _is_ours(obj):
            frontend.check(obj)
        return ScriptedFunction(obj)
    if isinstance(obj, functools.partial):
        raise TypeError(f"{obj!r:.200} cannot be scripted; write a function that calls it")
    if inspect.isclass(obj) or callable(obj):
        return obj
    if type(obj).__module__ == "builtins":
        raise TypeError(f"{type(obj)} is a built-in class: {obj!r:.200} cannot be scripted")
    raise RuntimeError(f"Could not get name of python class object {obj!r:.200}: it cannot be scripted")


def _prepared(obj: Any, seen: dict[int, Any]) -> Any:
    """What an object gives to be scripted in its place by `__prepare_scriptable__`, and so for the modules inside of it."""
    if isinstance(obj, ScriptModule) or inspect.isclass(obj):
        return obj
    if id(obj) not in seen:
        found = obj.__prepare_scriptable__() if hasattr(obj, "__prepare_scriptable__") else obj
        seen[id(obj)] = seen[id(found)] = found
        for name, inner in found._modules.items() if isinstance(found, Module) else ():
            if inner is not None:
                found._modules[name] = _prepared(inner, seen)
    return seen[id(obj)]


def _refuse_lambda(function: Any) -> NoReturn:
    try:
        place = f"{inspect.getsourcefile(function)}:{inspect.getsourcelines(function)[1]}"
    except (OSError, TypeError):
        raise OSError(
            f"Can't get source for {function}. TorchScript requires source access; write a function"
        ) from None
    raise RuntimeError(f"Expected a single top-level function: {place}; a lambda cannot be scripted")


def script_method(fn: Any) -> Any:
    """Marks a method of a `ScriptModule` for compilation; the method itself."""
    return export(fn)
