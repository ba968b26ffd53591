"""`torch.ops`: operators by namespace, name and overload, those of programs and (as `torch.ops.aten`) our own."""

from __future__ import annotations

import importlib
import os
import types
from collections.abc import Callable, Iterator
from typing import Any

from .._core.state import local, modes
from .._interception.overrides import overloaded
from .._ops import registry
from . import operators as _operators
from .operators import Operator, operators
from .schema import FunctionSchema
from .schema_texts import lines, operator_of, schemas_of


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
            self._schema, self.tags = function.schema, list(function.tags)

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

    @property
    def is_view(self) -> bool:
        """Whether the result shares the memory of an argument that is not written to."""
        shared = [a.alias_info for a in self._schema.arguments]
        return any(info is not None and not info.is_write for info in shared)

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
        self._of_library = any(isinstance(function, Operator) for function in overloads.values())

    def __getattr__(self, name: str) -> OpOverload:
        if name.startswith("__"):
            raise AttributeError(name)
        made = self.__dict__["_made"].get(name)
        if made is None:
            made = self._make(name)
            if made is None:
                raise AttributeError(f"The underlying op of '{self}' has no overload name '{name}'")
            self._made[name] = made
        return made

    def _make(self, name: str) -> OpOverload | None:
        function = self._functions.get("" if name == "default" else name)
        return None if function is None else OpOverload(self, function, name)

    def overloads(self) -> list[str]:
        """The names of the overloads."""
        return [name or "default" for name in self._functions]

    def __iter__(self) -> Iterator[str]:
        return iter(self.overloads())

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if modes.overrides and (taken := _taken(self, args, kwargs)) is not NotImplemented:
            return taken
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


def _taken(operator: Any, args: Any, named: Any) -> Any:
    """What a mode or class of a program gives for a call of an operator: it is shown the operator, ours the function."""
    if local.function_modes:
        asked = local.function_modes[-1]
    else:
        found = () if local.overrides_off else overloaded((*args, *named.values()))
        if not found:
            return NotImplemented
        asked = found[0]
    return NotImplemented if hasattr(type(asked), "by_functions") else registry.watched(operator, args, named)


class _OurOverload(OpOverload):
    """An overload of an operation of ours, which takes the names of arguments that the schema has."""

    def __init__(self, packet: OpOverloadPacket, function: Callable[..., Any], overload: str, schema: FunctionSchema):
        super().__init__(packet, function, overload)
        self._schema = schema
        self._most = len(schema.positional)
        self._least = sum(not a.has_default_value() for a in schema.arguments)
        self._names = frozenset(a.name for a in schema.arguments)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if modes.overrides and (taken := _taken(self, args, kwargs)) is not NotImplemented:
            return taken
        if len(args) > self._most or len(args) + len(kwargs) < self._least or not kwargs.keys() <= self._names:
            self._schema.bind(args, kwargs)  # refuses it: the function itself takes what any of the overloads takes
        if kwargs:
            for a in self._schema.positional[len(args) :]:
                if a.name not in kwargs:
                    break
                args = (*args, kwargs.pop(a.name))
        return self._op(*args, **kwargs)


class _OurPacket(OpOverloadPacket):
    """An operation of ours under the name that PyTorch's library of operators has for it. The function takes the arguments
    of all overloads."""

    def _make(self, name: str) -> OpOverload | None:
        function = self._functions[""]
        schemas = schemas_of(self.__name__)
        if not schemas:  # of an operator that PyTorch does not have
            return OpOverload(self, function, name)
        schema = schemas.get("" if name == "default" else name)
        return None if schema is None else _OurOverload(self, function, name, schema)

    def overloads(self) -> list[str]:
        return [name or "default" for name in schemas_of(self.__name__)] or ["default"]

    @property
    def _schemas(self) -> dict[str, FunctionSchema]:
        return schemas_of(self.__name__)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if modes.overrides and (taken := _taken(self, args, kwargs)) is not NotImplemented:
            return taken
        if "self" in kwargs:
            args = (kwargs.pop("self"), *args)
        return self._functions[""](*args, **kwargs)


_HOMES = {
    "profiler": "profiler",
    "_c10d_functional": "distributed",
    "c10d_functional": "distributed",
    "c10d": "distributed",
}


def _elsewhere(space: str, name: str) -> dict[str, Callable[..., Any]] | None:
    """The overloads of an operator that a part of the package brings, which is loaded for it."""
    home = _HOMES.get(space)
    if home is None:
        return None
    return importlib.import_module(f"..{home}._operators", __package__).FUNCTIONS.get(name)


_SIGNS = ("__and__", "__or__", "__xor__", "__lshift__", "__rshift__")  # operators that are called like Python's own


class _OpNamespace(types.ModuleType):
    """The operators of one namespace."""

    def __init__(self, name: str):
        super().__init__(f"torch.ops.{name}")
        self.name = name
        self._packets: dict[str, OpOverloadPacket] = {}

    def __getattr__(self, name: str) -> OpOverloadPacket:
        if name.startswith("__") and (self.name != "aten" or name not in _SIGNS):
            raise AttributeError(name)
        qualified = f"{self.name}::{name}"
        overloads: dict[str, Any] = {}
        for key, op in operators.items():
            if key == qualified or key.startswith(qualified + "."):
                overloads[key[len(qualified) + 1 :]] = op
        packet = self._packets.get(name)
        if packet is not None and (packet._functions == overloads or not (overloads or packet._of_library)):
            return packet
        if overloads:
            packet = OpOverloadPacket(qualified, name, overloads)
        elif self.name == "aten" and (ours := operator_of(name)) is not None:
            packet = _OurPacket(qualified, name, {"": ours})
        elif (brought := _elsewhere(self.name, name)) is not None:
            packet = OpOverloadPacket(qualified, name, brought)
        else:
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")
        self._packets[name] = packet
        return packet

    def __dir__(self) -> list[str]:
        named = {key.partition("::")[2].partition(".")[0] for key in operators if key.startswith(self.name + "::")}
        return sorted(named | lines().keys() if self.name == "aten" else named)


class HigherOrderOperator:
    """The class of PyTorch's operators that take functions (`cond`, `while_loop`). Ours are functions: nothing is one."""


# The folder of a compiled library -> our module that defines the same operators.
_LIBRARIES = {"torchvision": "flambeau.vision.ops._operators"}


class _Ops(types.ModuleType):
    """`torch.ops`.

    >>> import flambeau as torch
    >>> from flambeau._library.namespaces import ops
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
