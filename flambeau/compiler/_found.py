"""`flambeau run --compile`: what is worth it in a program that says nothing about compiling runs as programs.

Training steps are found in the text (`_outline.py`), modules when they are called. Both run eagerly until they have taken as long
as it may take to compile them, so that short programs lose nothing; a program that turns out slower than eager is dropped again.
"""

from __future__ import annotations

import ast
import atexit
import functools
import importlib.machinery
import os
import sys
import threading
import types
from collections.abc import Callable
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

from .._errors.frames import users_frame
from ..nn.modules.module import Module
from . import OptimizedModule
from ._outline import Step, outlined
from ._region import Region

_FIRST = 2  # calls that do not count: kernels are made in them
_SECONDS = 0.3  # that others take before something is compiled
_LOSS = 1.02  # times as long as eagerly is too long
_TRIAL = 12  # calls of a new program that are timed; the first ones find out what is to be done
_PROGRAMS = 4  # of one step or module
_OPENING = f"__import__({__name__!r}, fromlist=['tried']).tried"


def say(text: str) -> None:
    """Tells whoever runs the program."""
    print(f"flambeau: {text}", file=sys.stderr, flush=True)


class _Busy(threading.local):
    now = False  # whether something that was found runs: what it calls is part of it


_busy = _Busy()


class Trial:
    """How long something took eagerly, whether it is compiled, and whether that pays."""

    def __init__(self, what: str):
        self.what = what
        self.calls = self.later = 0
        self.spent, self.eager, self.compiled = 0.0, float("inf"), float("inf")
        self.region: Region | None = None
        self.settled = False
        self._said: set[str] = set()

    def run(self, function: Callable[..., Any], args: Any, named: Any) -> Any:
        if _busy.now:
            return function(*args, **named)
        _busy.now = True
        if self.settled:
            try:
                return (self.region or function)(*args, **named)
            finally:
                _busy.now = False
        start = perf_counter()
        try:
            return (self.region or function)(*args, **named)
        finally:
            taken = perf_counter() - start
            _busy.now = False
            self._timed(function, taken)

    def _timed(self, function: Callable[..., Any], taken: float) -> None:
        if self.region is None:
            self.calls += 1
            if self.calls > _FIRST:
                self.spent += taken
                self.eager = min(self.eager, taken)
            if self.spent >= _SECONDS:
                self.region = Region(function, lambda: _PROGRAMS)
                self.region.tell, self.region.exact = self._tell, True
            return
        self.later += 1
        if self.later > _TRIAL // 2:
            self.compiled = min(self.compiled, taken)
        if self.later < _TRIAL:
            return
        self.settled = True
        times = f"{self.compiled * 1e3:.3g} ms instead of {self.eager * 1e3:.3g}"
        if self.compiled > _LOSS * self.eager:
            say(f"{self.what}: left eager, because it is not faster compiled ({times})")
            self.region = None
        elif self.region.problem is None:
            say(f"{self.what}: compiled after {self.calls} calls, {times}")
        else:
            say(f"{self.what}: modules in it are compiled, {times}")

    def _tell(self, topic: str, text: str) -> None:
        limit = "limit of" in text
        if (topic == "graph_breaks" or limit) and topic not in self._said:
            self._said.add(topic)
            say(f"{self.what}: {text}")

    def summary(self) -> str | None:
        """What is to be said of it when the program ends."""
        if self.settled or not self.calls or "graph_breaks" in self._said:
            return None
        if self.region is None:
            return f"{self.what}: left eager, {self.calls} calls took {self.spent:.2g} s in all"
        return f"{self.what}: compiled after {self.calls} calls"


_steps: list[Trial] = []
_modules: WeakKeyDictionary[Module, Trial] = WeakKeyDictionary()


def tried(function: Any) -> Any:
    """A step that was found in a program's text."""
    code = function.__code__
    trial = Trial(f"{_short(code.co_filename)}:{code.co_firstlineno}: training step")
    _steps.append(trial)

    @functools.wraps(function)
    def step(*args: Any) -> Any:
        return trial.run(function, args, {})

    return step


def _short(file: str) -> str:
    return os.path.relpath(file) if not os.path.relpath(file).startswith("..") else file


def _caller() -> str:
    """The line of the program that calls a module."""
    frame = users_frame()
    return "" if frame is None else f"{_short(frame.f_code.co_filename)}:{frame.f_lineno}: "


_call = Module.__call__


def _watched_call(self: Module, /, *args: Any, **named: Any) -> Any:
    """In the place of `Module.__call__`: outermost modules are watched."""
    if _busy.now:
        return _call(self, *args, **named)
    trial = _modules.get(self)
    if trial is None:
        own = "_compiled_call_impl" in self.__dict__ or isinstance(self, OptimizedModule)
        trial = _modules[self] = Trial(f"{_caller()}{type(self).__name__}")
        trial.settled = own
    return trial.run(types.MethodType(_call, self), args, named)


# -- the program ---------------------------------------------------------------------------------------------------


def code_of(source: Any, file: str) -> Any:
    """The code of a file of the program, with its steps as functions."""
    tree = ast.parse(source, file)
    for step in outlined(tree, _OPENING):
        if step.refused:
            _refused(step, file)
    return compile(tree, file, "exec", dont_inherit=True)


def _refused(step: Step, file: str) -> None:
    say(f"{_short(file)}:{step.lines[0]}: training step not compiled as a whole: {step.refused}")


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads modules of the program; what is made of them is not kept on disk, where other runs would find it."""

    def get_code(self, fullname: str) -> Any:
        file = self.get_filename(fullname)
        return code_of(self.get_data(file), file)


class _Finder:
    """Finds the modules that lie beside the program."""

    def __init__(self, folder: str):
        self.folder = os.path.join(os.path.realpath(folder), "")

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        file = getattr(spec, "origin", None) or ""
        mine = os.path.realpath(file).startswith(self.folder) and "site-packages" not in file
        if spec is None or not mine or type(spec.loader) is not importlib.machinery.SourceFileLoader:
            return None
        spec.loader = _Loader(spec.name, file)
        return spec


def start(folder: str) -> None:
    """From now on modules are watched when they are called, and files of the program when they are imported."""
    setattr(Module, "__call__", _watched_call)  # noqa: B010
    sys.meta_path.insert(0, _Finder(folder))
    atexit.register(_summary)


def _summary() -> None:
    for trial in (*_steps, *_modules.values()):
        text = trial.summary()
        if text is not None and (trial.region is not None or trial.spent > _SECONDS / 10):
            say(text)


def run_file(file: str) -> None:
    """Runs a script as `python` does."""
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=file, __builtins__=__builtins__)
    sys.modules["__main__"] = main
    with open(file, "rb") as text:
        code = code_of(text.read(), file)
    exec(code, main.__dict__)
