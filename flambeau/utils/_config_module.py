"""Modules of switches: what `torch._dynamo.config` and its like can do besides holding values."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

__all__ = ["ConfigModule", "install_config_module"]

_ABSENT = object()


class ConfigPatch:
    """Values that switches have for the time of a `with` block, of a decorated function or of the tests of a decorated class."""

    def __init__(self, module: ConfigModule, wanted: dict[str, Any]):
        self._module, self._wanted = module, wanted
        self._before: dict[str, Any] = {}

    def __enter__(self) -> None:
        self._before = {name: self._module._read(name) for name in self._wanted}
        for name, value in self._wanted.items():
            self._module._write(name, value)

    def __exit__(self, *error: Any) -> None:
        for name, value in self._before.items():
            self._module._write(name, value)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if isinstance(function, type):
            return self._for_tests_of(function)

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with ConfigPatch(self._module, self._wanted):
                return function(*args, **kwargs)

        return inside

    def _for_tests_of(self, cls: Any) -> Any:
        """A class of `unittest` whose tests, with what prepares them, find these values."""
        if not hasattr(cls, "addClassCleanup"):
            raise TypeError(
                f"config.patch decorates functions and classes of unittest.TestCase; decorate the methods of {cls.__name__} one by one"
            )
        prepare = cls.setUpClass.__func__

        def prepared(own: Any) -> None:
            patch = ConfigPatch(self._module, self._wanted)
            patch.__enter__()
            own.addClassCleanup(patch.__exit__)  # also if the rest fails
            prepare(own)

        cls.setUpClass = classmethod(prepared)
        return cls


class ConfigModule(ModuleType):
    """A module whose public values are switches; "group.name" reaches into groups."""

    def _holder(self, name: str) -> tuple[Any, str]:
        holder: Any = self
        *groups, last = name.split(".")
        for group in groups:
            holder = getattr(holder, group)
        return holder, last

    def _read(self, name: str) -> Any:
        holder, last = self._holder(name)
        return getattr(holder, last, _ABSENT)

    def _write(self, name: str, value: Any) -> None:
        holder, last = self._holder(name)
        if value is _ABSENT:
            delattr(holder, last)
        else:
            setattr(holder, last, value)

    def patch(self, arg1: Any = None, arg2: Any = None, **kwargs: Any) -> ConfigPatch:
        """Sets switches for a `with` block or a decorated function: by name and value, a dict, or keywords.

        >>> from flambeau._dynamo import config
        >>> with config.patch(verbose=True):
        ...     config.verbose
        True
        >>> config.verbose
        False
        """
        if arg1 is None:
            wanted = kwargs
        elif isinstance(arg1, str):
            wanted = {arg1: arg2}
        else:
            wanted = dict(arg1)
        return ConfigPatch(self, wanted)

    def get_config_copy(self) -> dict[str, Any]:
        """All switches and their values, those of groups as "group.name"."""
        found: dict[str, Any] = {}
        for name, value in vars(self).items():
            if name.startswith("_") or isinstance(value, (ModuleType, type)) or callable(value):
                continue
            if isinstance(value, SimpleNamespace):
                found.update({f"{name}.{inner}": copy.copy(v) for inner, v in vars(value).items()})
            else:
                found[name] = copy.copy(value)
        return found

    shallow_copy_dict = to_dict = get_config_copy

    def save_config(self) -> bytes:
        """All switches as bytes, for `load_config`; sets, which may hold functions, are left out."""
        kept = {name: value for name, value in self.get_config_copy().items() if not isinstance(value, set)}
        return json.dumps(kept).encode()

    def load_config(self, maybe_pickled_config: bytes | dict[str, Any]) -> None:
        """Sets switches as `save_config` or `get_config_copy` gave them."""
        given = maybe_pickled_config
        for name, value in (given if isinstance(given, dict) else json.loads(given)).items():
            self._write(name, value)


def install_config_module(module: ModuleType) -> None:
    """Makes a module one of switches."""
    module.__class__ = ConfigModule
