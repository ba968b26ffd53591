"""Stand-ins for what PyTorch's test files import and the framework they run on does not have."""

from __future__ import annotations

import builtins
import importlib
import sys
import types
import unittest
from pathlib import Path
from types import ModuleType
from typing import Any

collecting = True


class _Placeholder(type):
    """The type of the stand-ins: classes that can be inherited from, used as decorators, and asked for anything."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if not collecting:
            raise unittest.SkipTest(f"{cls.__name__} is an inside of PyTorch")
        return args[0] if args and callable(args[0]) else cls

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return placeholder(name)


def placeholder(name: str) -> Any:
    return _Placeholder(name, (), {})


class StandIn(ModuleType):
    """A module that has every name."""

    __path__: list[str] = []
    __all__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = placeholder(name)
        setattr(self, name, value)
        return value


def _forgiving(importing: Any, checkout: Path) -> Any:
    """An `__import__` with which the files of a checkout find stand-ins for what is missing here."""
    places = str((checkout / "test").resolve()), str(checkout / "torch" / "testing")

    def forgiving(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        package = name.partition(".")[0]
        by_checkout = globals and str(globals.get("__file__")).startswith(places)
        if by_checkout and package == "torchvision":  # tests of its models are not PyTorch's own
            raise ModuleNotFoundError("the tests are run without torchvision", name=name)
        if not (collecting and by_checkout and package in ("torch", "functorch")):
            return importing(name, globals, locals, fromlist, level)
        while True:
            try:
                module = importing(name, globals, locals, fromlist, level)
                break
            except ModuleNotFoundError as error:
                missing = error.name or ""
                if missing in sys.modules or missing.partition(".")[0] not in ("torch", "functorch", "flambeau"):
                    raise
                sys.modules[missing] = StandIn(missing)
                parent, _, last = missing.rpartition(".")
                if parent in sys.modules and not hasattr(sys.modules[parent], last):
                    setattr(sys.modules[parent], last, sys.modules[missing])
        if all(n == "*" or hasattr(module, n) for n in fromlist or ()):
            return module
        return types.SimpleNamespace(
            **{n: getattr(module, n) if hasattr(module, n) else placeholder(n) for n in fromlist}
        )

    return forgiving


def _with_every_operator(kind: type, checkout: Path) -> None:
    """While tests are collected, files of a checkout can name operators and overloads that are missing here."""
    found, places = kind.__getattr__, str(checkout.resolve())  # type: ignore[attr-defined]

    def __getattr__(self: Any, name: str) -> Any:
        try:
            return found(self, name)
        except AttributeError:
            asks = sys._getframe(1).f_code.co_filename
            if name.startswith("__") or not collecting or not asks.startswith(places):
                raise
            return placeholder(name)

    kind.__getattr__ = __getattr__  # type: ignore[attr-defined]


_importing = builtins.__import__


def install(checkout: Path) -> None:
    """While tests are collected, files of the checkout can import every module and name of PyTorch."""
    builtins.__import__ = _forgiving(_importing, checkout)
    aten = importlib.import_module("torch").ops.aten
    for kind in (type(aten), type(aten.cat)):
        _with_every_operator(kind, checkout)


def collected() -> None:
    """Tests are going to run: they import as programs do."""
    global collecting
    collecting, builtins.__import__ = False, _importing
