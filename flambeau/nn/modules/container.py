"""Containers of modules: in sequence, in a list, in a dictionary. Those of parameters are in `_parameter_containers`."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, TypeVar, overload

from ..._errors.frames import warn_user
from ._parameter_containers import ParameterDict, ParameterList, pairs_of
from .module import Module, _addindent

__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]

_Own = TypeVar("_Own", bound="_Numbered")


class Container(Module):
    """An old name of `Module` with its submodules as keyword arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args)
        warn_user("nn.Container is deprecated: nn.Module can hold submodules itself", FutureWarning)
        for name, module in kwargs.items():
            self.add_module(name, module)


class _Numbered(Module):
    """What sequences of modules share: they are kept in order under their numbers."""

    _modules: dict[str, Any]

    def _sliced(self, index: slice) -> Any:
        raise NotImplementedError

    def _name_at(self, index: Any) -> str:
        number = operator.index(index)
        if not -len(self) <= number < len(self):
            raise IndexError(f"index {number} is out of range")
        return list(self._modules)[number]

    _get_abs_string_index = _name_at  # by this name libraries reach for it

    def __setitem__(self, idx: Any, module: Any) -> None:
        setattr(self, self._name_at(idx), module)

    def __delitem__(self, idx: Any) -> None:
        names = list(self._modules)[idx] if isinstance(idx, slice) else [self._name_at(idx)]
        for name in names:
            delattr(self, name)
        self._renumber(self._modules.values())

    def _renumber(self, modules: Iterable[Any]) -> None:
        kept = {str(i): module for i, module in enumerate(modules)}
        self._modules.clear()
        self._modules.update(kept)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, module: Any) -> Any:
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: Any) -> Any:
        """Takes one module, or a slice of them, out."""
        taken = self[key]
        del self[key]
        return taken

    @overload
    def __getitem__(self: _Own, idx: slice) -> _Own: ...
    @overload
    def __getitem__(self, idx: Any) -> Module: ...
    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return self._sliced(idx)
        return self._modules[self._name_at(idx)]


class Sequential(_Numbered):
    """Modules that are called one after the other, each with what the one before it returned.

    >>> import flambeau as torch
    >>> torch.nn.Sequential(torch.nn.Identity(), torch.nn.Identity())
    Sequential(
      (0): Identity()
      (1): Identity()
    )
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = args[0].items() if len(args) == 1 and isinstance(args[0], OrderedDict) else None
        for name, module in ((str(i), m) for i, m in enumerate(args)) if named is None else named:
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        """Calls all modules in turn."""
        for module in self._modules.values():
            input = module(input)
        return input

    def _sliced(self, index: slice) -> Sequential:
        return self.__class__(OrderedDict(list(self._modules.items())[index]))

    def insert(self, index: int, module: Module) -> Any:
        """Puts a module before the one at this index."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def extend(self, sequential: Iterable[Module]) -> Any:
        """Adds all modules of a sequence at the end."""
        for module in list(sequential):
            self.append(module)
        return self

    def __add__(self, other: Any) -> Sequential:
        self._check_addend(other)
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Any:
        self._check_addend(other)
        return self.extend(other)

    def _check_addend(self, other: Any) -> None:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")

    def _check_factor(self, other: Any) -> None:
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")

    def __mul__(self, other: int) -> Sequential:
        self._check_factor(other)
        return Sequential(*list(self) * other)

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Any:
        self._check_factor(other)
        return self.extend(list(self) * (other - 1))


class ModuleList(_Numbered):
    """A list whose modules are registered.

    >>> import flambeau as torch
    >>> torch.nn.ModuleList([torch.nn.Identity() for _ in range(3)])
    ModuleList(
      (0-2): 3 x Identity()
    )
    """

    def __init__(self, modules: Iterable[Any] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self += modules

    def _sliced(self, index: slice) -> ModuleList:
        return self.__class__(list(self._modules.values())[index])

    def insert(self, index: int, module: Any) -> None:
        """Puts a module before the one at this index."""
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._renumber(modules)

    def extend(self, modules: Iterable[Any]) -> Any:
        """Adds all modules of an iterable at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        for i, module in enumerate(list(modules), len(self)):
            self.add_module(str(i), module)
        return self

    def __iadd__(self, modules: Iterable[Any]) -> Any:
        return self.extend(modules)

    def __add__(self, other: Iterable[Any]) -> ModuleList:
        return ModuleList(chain(self, other))

    def __repr__(self) -> str:
        """Equal neighbours are printed once."""
        if not self._modules:
            return self._get_name() + "()"
        groups: list[list[Any]] = []  # first number, last number, text
        for i, text in enumerate(map(repr, self)):
            if groups and groups[-1][2] == text:
                groups[-1][1] = i
            else:
                groups.append([i, i, text])
        lines = [
            f"({first}): {text}" if first == last else f"({first}-{last}): {last - first + 1} x {text}"
            for first, last, text in groups
        ]
        return self._get_name() + "(\n  " + "\n  ".join(_addindent(line, 2) for line in lines) + "\n)"


class ModuleDict(Module):
    """A dictionary whose modules are registered.

    >>> import flambeau as torch
    >>> torch.nn.ModuleDict({"first": torch.nn.Identity()})["first"]
    Identity()
    """

    def __init__(self, modules: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Any) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Takes all modules out."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Takes one module out."""
        module = self[key]
        del self[key]
        return module

    def keys(self) -> Any:
        """The names."""
        return self._modules.keys()

    def items(self) -> Any:
        """The names with their modules."""
        return self._modules.items()

    def values(self) -> Any:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        """Adds modules from a mapping or from (name, module) pairs, replacing those of the same name."""
        for key, module in pairs_of(modules, ModuleDict, "ModuleDict"):
            self[key] = module
