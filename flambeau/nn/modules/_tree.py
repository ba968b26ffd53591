"""The tree of modules: walking over submodules, parameters and buffers, and finding them by dotted name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..parameter import Parameter


class TreeMethods:
    """The part of `Module` that walks over what is registered."""

    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]

    # -- walking -------------------------------------------------------------------------------------------------

    def _named_members(
        self,
        get_members_fn: Callable[[Any], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """(name, member) of this module and those below; a member that appears twice comes once."""
        seen: set[Any] = set()
        owners = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, owner in owners:
            for name, member in get_members_fn(owner):
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield (f"{path}.{name}" if path else name), member

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """(dotted name, module) of this module and all below it.

        >>> import flambeau as torch
        >>> [name for name, _ in torch.nn.Sequential(torch.nn.Identity()).named_modules()]
        ['', '0']
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                below = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, below, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Any]:
        """This module and all below it."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """(name, module) of the modules directly below."""
        seen: set[Any] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Any]:
        """The modules directly below."""
        for _, module in self.named_children():
            yield module

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """(dotted name, parameter) of this module and, if `recurse`, of those below.

        >>> import flambeau as torch
        >>> module = torch.nn.Module()
        >>> module.scale = torch.nn.Parameter(torch.ones(1))
        >>> [name for name, _ in module.named_parameters(prefix="top")]
        ['top.scale']
        """
        yield from self._named_members(_parameters_of, prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, each once: what an optimizer is given."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """(dotted name, buffer) of this module and, if `recurse`, of those below."""
        yield from self._named_members(_buffers_of, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Any]:
        """All buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    # -- by dotted name ------------------------------------------------------------------------------------------

    def get_submodule(self, target: str) -> Any:
        """The module with this dotted name; "" is the module itself.

        >>> import flambeau as torch
        >>> torch.nn.Sequential(torch.nn.Sequential(torch.nn.Identity())).get_submodule("0.0")
        Identity()
        """
        module: Any = self
        for name in target.split(".") if target else ():
            owner = module
            if not hasattr(owner, name):
                raise AttributeError(f"{owner._get_name()} has no attribute `{name}` (in {target!r})")
            module = getattr(owner, name)
            if not isinstance(module, TreeMethods):
                raise AttributeError(f"`{name}` is not an nn.Module (in {target!r})")
        return module

    def set_submodule(self, target: str, module: Any, strict: bool = False) -> None:
        """Puts a module at a dotted name; with `strict` there must be one already."""
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, TreeMethods):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if strict and not hasattr(owner, name):
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
        if hasattr(owner, name) and not isinstance(getattr(owner, name), TreeMethods):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(owner, name, module)

    def _member(self, target: str) -> tuple[Any, str, Any]:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
        return owner, name, getattr(owner, name)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter with this dotted name."""
        _, name, parameter = self._member(target)
        if not isinstance(parameter, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return parameter

    def get_buffer(self, target: str) -> Any:
        """The buffer with this dotted name."""
        owner, name, buffer = self._member(target)
        if name not in owner._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return buffer


def _parameters_of(module: Any) -> Any:
    return module._parameters.items()


def _buffers_of(module: Any) -> Any:
    return module._buffers.items()
