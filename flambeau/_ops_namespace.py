"""`torch.ops`: operators by namespace, name and overload, those of programs and (as `torch.ops.aten`) our own."""

from __future__ import annotations

import importlib
import os
import types
from collections.abc import Callable, Iterator
from typing import Any

from . import _aten
from ._library import operators as _operators
from ._library.operators import Operator, operators
from ._ops.registry import functions, methods
from ._ops.registry import ops as _ours

__all__ = ["OpOverload", "OpOverloadPacket", "ops"]


class OpOverload:
    """One overload of an operator, such as `torch.ops.aten.add.Tensor`."""

    def __init__(self, packet: OpOverloadPacket, function: Callable[..., Any], overload: str):
        self.overloadpacket = self._overloadpacket = packet
        self._op, self._overloadname = function, overload or "default"
        self.namespace, _, self._opname = packet._qualified_op_name.partition("::")
        self._name = packet._qualified_op_name + (f".{overload}" if overload and overload != "default" else "")
        self.__name__ = f"{self._opname}.{self._overloadname}"
        self.__qualname__, self.__module__ = self._name, packet.__module__
        self.tags: list[Any] = []
        if isinstance(function, Operator):
            function._public = self
            self._schema, self.tags = function.schema, list(function.tags or ())

    def name(self) -> str:
        """ "ns::name.overload"."""
        return self._name

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._op(*args, **kwargs)

    def __str__(self) -> str:
        return f"{self.namespace}.{self._opname}.{self._overloadname}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.namespace}.{self._opname}', overload='{self._overloadname}')>"

    @property
    def op(self) -> Callable[..., Any]:
        return self._op

    def __deepcopy__(self, memo: Any = None) -> OpOverload:
        return self

    def __reduce__(self) -> Any:
        return _find, (self.namespace, self._opname, self._overloadname)


class OpOverloadPacket:
    """All overloads of an operator; calling it calls the one that fits."""

    def __init__(self, qualified_op_name: str, op_name: str, overloads: dict[str, Any]):
        self._qualified_op_name, self.__name__, self._functions = qualified_op_name, op_name, overloads
        self.__module__ = f"torch.ops.{qualified_op_name.partition('::')[0]}"
        self._made: dict[str, OpOverload] = {}

    def __getattr__(self, name: str) -> OpOverload:
        if name.startswith("__"):
            raise AttributeError(name)
        made = self.__dict__["_made"].get(name)
        if made is None:
            function = self._function(name)
            if function is None:
                raise AttributeError(f"The underlying op of '{self}' has no overload name '{name}'")
            made = self._made[name] = OpOverload(self, function, name)
        return made

    def _function(self, overload: str) -> Callable[..., Any] | None:
        return self._functions.get("" if overload == "default" else overload)

    def overloads(self) -> list[str]:
        """The names of the overloads."""
        return [name or "default" for name in self._functions]

    def __iter__(self) -> Iterator[str]:
        return iter(self.overloads())

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if len(self._functions) == 1:
            return getattr(self, self.overloads()[0])(*args, **kwargs)
        problem: Exception | None = None
        for name in self.overloads():
            try:
                return getattr(self, name)(*args, **kwargs)
            except RuntimeError as error:
                problem = problem or error
        raise problem or RuntimeError(f"{self} has no overload")

    @property
    def op(self) -> Callable[..., Any]:
        return self.__call__

    def __str__(self) -> str:
        return self._qualified_op_name.replace("::", ".")

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"

    def __deepcopy__(self, memo: Any = None) -> OpOverloadPacket:
        return self

    def __reduce__(self) -> Any:
        space, _, name = self._qualified_op_name.partition("::")
        return _find, (space, name, None)


class _OurPacket(OpOverloadPacket):
    """An operation of ours under the name that PyTorch's library of operators has for it. It takes the arguments of all
    overloads, so that any name of one is the same function."""

    def _function(self, overload: str) -> Callable[..., Any] | None:
        return self._functions[""]


# Names of PyTorch's own operators that differ from ours by a prefix.
_PREFIXES = {"linalg_": "linalg.", "special_": "special.", "fft_": "fft."}


def _our_function(name: str) -> Callable[..., Any] | None:
    """Our function for the name of one of PyTorch's operators."""
    found = _aten.FUNCTIONS.get(name) or functions.get(name)
    if found is None:
        for prefix, path in _PREFIXES.items():
            if name.startswith(prefix):
                found = functions.get(path + name[len(prefix) :])
    if found is None:
        found = functions.get(f"nn.functional.{name}") or methods.get(name) or _ours.__dict__.get(name)
    return found if callable(found) else None


def _labels(name: str) -> dict[str, Callable[..., Any]] | None:
    """The overloads of an operator of the profiler."""
    from .profiler._operators import FUNCTIONS  # loads the profiler

    return FUNCTIONS.get(name)


class _OpNamespace(types.ModuleType):
    """The operators of one namespace."""

    def __init__(self, name: str):
        super().__init__(f"torch.ops.{name}")
        self.name = name
        self._packets: dict[str, OpOverloadPacket] = {}

    def __getattr__(self, name: str) -> OpOverloadPacket:
        if name.startswith("__"):
            raise AttributeError(name)
        qualified = f"{self.name}::{name}"
        overloads: dict[str, Any] = {}
        for key, op in operators.items():
            if key == qualified or key.startswith(qualified + "."):
                overloads[key[len(qualified) + 1 :]] = op
        packet = self._packets.get(name)
        if packet is not None and (packet._functions == overloads or not overloads):
            return packet
        if overloads:
            packet = OpOverloadPacket(qualified, name, overloads)
        elif self.name == "aten" and (ours := _our_function(name)) is not None:
            packet = _OurPacket(qualified, name, {"": ours})
        elif self.name == "profiler" and (labels := _labels(name)) is not None:
            packet = OpOverloadPacket(qualified, name, labels)
        else:
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")
        self._packets[name] = packet
        return packet

    def __dir__(self) -> list[str]:
        return sorted(
            {key.partition("::")[2].partition(".")[0] for key in operators if key.startswith(self.name + "::")}
        )


# The folder of a compiled library -> our module that defines the same operators.
_LIBRARIES = {"torchvision": f"{__package__}.vision.ops._operators"}


class _Ops(types.ModuleType):
    """`torch.ops`.

    >>> import flambeau as torch
    >>> from flambeau._ops_namespace import ops
    >>> ops.aten.add.Tensor(torch.ones(2), torch.ones(2))
    tensor([2., 2.])
    >>> ops.aten.relu
    <OpOverloadPacket(op='aten.relu')>
    """

    def __init__(self) -> None:
        super().__init__("torch.ops")
        self.loaded_libraries: set[str] = set()

    def __getattr__(self, name: str) -> _OpNamespace:
        if name.startswith("__"):
            raise AttributeError(name)
        made = _OpNamespace(name)
        setattr(self, name, made)
        return made

    def load_library(self, path: str) -> None:
        """Operators of packages whose compiled part flambeau has in Python; other libraries need PyTorch's binaries."""
        module = _LIBRARIES.get(os.path.basename(os.path.dirname(os.fspath(path))))
        if module is None:
            raise OSError(
                f"{path}: flambeau cannot load operators compiled for PyTorch; define them in Python with "
                "torch.library.custom_op"
            )
        importlib.import_module(module)
        self.loaded_libraries.add(os.fspath(path))

    def import_module(self, module: str) -> None:
        """Imports a module that defines operators."""
        __import__(module)


def _find(space: str, name: str, overload: str | None) -> Any:
    packet = getattr(getattr(ops, space), name)
    return packet if overload is None else getattr(packet, overload)


def _public(op: Operator) -> OpOverload:
    space, _, name = op.schema.name.partition("::")
    return _find(space, name, op.schema.overload_name or "default")


ops = _Ops()
_operators.make_public = _public
