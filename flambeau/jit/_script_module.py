"""Modules whose methods are TorchScript: loaded from archives or made by traces."""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator
from typing import Any

from .._core.state import Unfollowed, unobserved
from ..nn.modules.module import Module
from ._program import ScriptClass
from ._saving import Savable

_changes = Unfollowed(0)  # how often a submodule of some module was replaced: plans are made again then


class ScriptModule(Savable, Module):
    """The base of modules that `script`, `trace` and `load` give. Subclasses that programs write are plain modules."""

    def __init__(self) -> None:
        super().__init__()

    @property
    def original_name(self) -> str:
        return type(self).__name__

    def define(self, src: str) -> None:
        """Adds a method given as source text.

        >>> import flambeau as torch
        >>> module = torch.jit.ScriptModule()
        >>> module.define("def double(self, x):\\n    return x * 2")
        >>> module.double(torch.ones(2))
        tensor([2., 2.])
        """
        from ._units import CompilationUnit  # it needs this class

        for name, function in CompilationUnit(src)._functions.items():
            object.__setattr__(self, name, functools.partial(function, self))

    def _freeze(self) -> None:
        """Nothing to do: what programs write is run as it is."""


class RecursiveScriptModule(ScriptModule):
    """A module with methods in TorchScript; parameters, buffers and submodules are as in any module.

    >>> import flambeau as torch, io
    >>> file = io.BytesIO()
    >>> torch.jit.save(torch.jit.trace(torch.nn.Linear(2, 3), torch.ones(1, 2)), file)
    >>> _ = file.seek(0); loaded = torch.jit.load(file)
    >>> list(loaded.state_dict()), loaded(torch.ones(4, 2)).shape
    (['weight', 'bias'], torch.Size([4, 3]))
    """

    def __init__(self, script: ScriptClass):
        super().__init__()
        own = self.__dict__
        own["_script"], own["_attributes"], own["_plan"] = script, {}, Unfollowed((-1, None))

    # -- what the interpreter asks --------------------------------------------------------------------------------

    def _script_read(self, name: str) -> Any:
        own = self.__dict__
        for table in ("_parameters", "_modules", "_buffers", "_attributes"):
            found = own[table]
            if name in found:
                return found[name]
        if name == "training":
            return own["training"]
        if name in own["_script"].constants:
            return own["_script"].constants[name]
        raise RuntimeError(f"Module '{self.original_name}' has no attribute {name!r:.100}")

    def _script_write(self, name: str, value: Any) -> None:
        own = self.__dict__
        if name in own["_buffers"]:
            own["_buffers"][name] = value
        elif name in own["_attributes"]:
            own["_attributes"][name] = value
        elif name == "training":
            own["training"] = bool(value)
        elif name in own["_parameters"]:
            own["_parameters"][name] = value
        else:
            raise RuntimeError(f"Module '{self.original_name}' has no attribute {name!r:.100} to set")

    def _script_item(self, key: Any) -> Any:
        return self[key]

    def _script_iterate(self) -> Any:
        return list(self._modules.values())

    # -- what programs see -----------------------------------------------------------------------------------------

    @property
    def original_name(self) -> str:
        return self._script.name

    @property
    def code(self) -> str:
        """The text of `forward`."""
        return self._script.method_source("forward") + "\n"

    @property
    def code_with_constants(self) -> tuple[str, Any]:
        """The text of `forward`, and the constants that it names."""
        return self.code, ConstantsTable(self._script.program.constants)

    @property
    def graph(self) -> Any:
        """`forward` as a graph of operators."""
        from ._graph import graph_of

        return graph_of(self._script.method("forward"), self)

    inlined_graph = graph

    def graph_for(self, *args: Any, **kwargs: Any) -> Any:
        """The graph of `forward`, whatever the arguments."""
        return self.graph

    def get_debug_state(self) -> Any:
        """There is none: programs are interpreted."""
        raise RuntimeError("there is no state of an optimizing executor: programs are interpreted")

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        frozen = self.__dict__.get("_frozen")
        if frozen is not None:
            return frozen(*args, **kwargs)
        plan = self.__dict__["_plan"]
        if plan.value[0] != _changes.value:
            method = self._script.methods.get("forward")
            if method is None:
                raise NotImplementedError(f'Module [{self.original_name}] is missing the required "forward" function')
            with unobserved():
                plan.value = _changes.value, method.plan(self)
        return plan.value[1](*args, **kwargs)

    def _interpreted_state(self) -> tuple[tuple[str, ...], Any]:
        """What `forward` depends on besides parameters, buffers and submodules: names of attributes, and other objects."""
        return ("_attributes", "training"), tuple(self._script.program.constants)

    def _freeze(self) -> None:
        """From now on calls run as compiled programs: those of a module with the same state."""
        from ..compiler._region import Region  # programs are loaded by those who use them

        twin = type(self)(self._script)
        for name in ("_parameters", "_buffers", "_modules", "_attributes", "training"):
            twin.__dict__[name] = self.__dict__[name]
        self.__dict__["_frozen"] = Region(twin)

    def forward_magic_method(self, method_name: str, *args: Any, **kwargs: Any) -> Any:
        """Calls a method of the program with a special name."""
        return self._script.method(method_name)(self, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if "_attributes" in own:
            if name in own["_attributes"]:
                return own["_attributes"][name]
            if name in own["_script"].methods and name != "forward":
                return functools.partial(own["_script"].methods[name], self)
            if name in own["_script"].constants:
                return own["_script"].constants[name]
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if name in own.get("_attributes", ()):
            own["_attributes"][name] = value
        else:
            _changes.value += isinstance(value, Module)
            super().__setattr__(name, value)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self._modules[key]
        return list(self._modules.values())[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __contains__(self, name: Any) -> bool:
        return name in self._modules

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._attributes, *self._script.methods})

    def _get_name(self) -> str:
        return "RecursiveScriptModule"

    def extra_repr(self) -> str:
        return f"original_name={self.original_name}"

    def __reduce__(self) -> Any:
        return _from_bytes, (type(self), self.save_to_buffer())

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    def __copy__(self) -> Any:
        made = type(self)(self._script)
        made.__dict__.update(self.__dict__)
        made.__dict__["_plan"] = Unfollowed((-1, None))
        for table in ("_parameters", "_buffers", "_modules", "_attributes"):
            made.__dict__[table] = dict(self.__dict__[table])
        if "_frozen" in made.__dict__:
            made._freeze()
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        import copy

        made = memo[id(self)] = type(self)(self._script)
        for key, value in self.__dict__.items():
            if key not in ("_plan", "_frozen"):
                made.__dict__[key] = value if key == "_script" else copy.deepcopy(value, memo)
        if "_frozen" in self.__dict__:
            made._freeze()
        return made

    def copy(self) -> Any:
        """A copy with its own parameters."""
        import copy

        return copy.deepcopy(self)


class ConstantsTable:
    """Constants of a program as attributes c0, c1, …"""

    def __init__(self, constants: tuple[Any, ...]):
        self.const_mapping = {f"c{i}": value for i, value in enumerate(constants)}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("c") and name in self.const_mapping:
            return self.const_mapping[name]
        raise AttributeError(name)


class TracedModule(RecursiveScriptModule):
    """A module inside of one that `trace` gave."""

    def _get_name(self) -> str:
        return self.original_name


class TopLevelTracedModule(TracedModule):
    """A module that `trace` gave."""


def _from_bytes(kind: type, data: bytes) -> Any:
    from ._archive import load  # it needs the classes of this module

    made = load(io.BytesIO(data))
    if issubclass(kind, RecursiveScriptModule):
        made.__class__ = kind
    return made
