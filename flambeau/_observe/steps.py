"""Training steps of a program that knows of no observer: their losses, and where their time goes.

A step ends when an optimizer has stepped, or, in a program without optimizers, when `backward` is called again from a line that
has already been there.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from .. import autograd
from .._core.state import local
from .._tensor import Tensor
from ..amp import grad_scaler
from ..nn.modules.module import Module
from ..optim import optimizer as optimizers
from ..utils.data import _iterators
from .frames import is_user_file
from .patches import Patches

PHASES = ("loader", "forward", "backward", "optimizer", "evaluation", "other")
LOADER, FORWARD, BACKWARD, OPTIMIZER, EVALUATION, OTHER = range(6)


class Step(NamedTuple):
    """One training step: its number, seconds since the beginning, what `backward` was called on, seconds by phase, the optimizer."""

    number: int
    at: float
    losses: dict[str, list[Any]]
    times: list[float]
    optimizer: Any


class Steps:
    """Observes modules, backward passes, optimizers and loaders; listeners are called in the program's thread.

    With `inner` set, calls of modules inside of others go through it: inner(original, module, args, kwargs).
    """

    def __init__(self) -> None:
        self.patches = Patches()
        self.number = 0
        self.began = self.since = perf_counter()
        self.phase = OTHER
        self.times = [0.0] * len(PHASES)
        self.losses: dict[str, list[Any]] = {}
        self.names: dict[Any, str] = {}  # of losses, by the line that calls backward
        self.roots: dict[int, weakref.ref[Any]] = {}  # outermost modules that have parameters
        self.known: dict[int, weakref.ref[Any]] = {}  # all outermost modules
        self.optimizers: dict[int, weakref.ref[Any]] = {}
        self.stepless = True  # the program has no optimizer
        self.depth = 0
        self.scaled: Any = None  # what a GradScaler gave, and what it was made from
        self.inner: Callable[..., Any] | None = None
        self.on_batch: list[Callable[[Any], None]] = []
        self.on_call: list[Callable[[Any, Any, Any], None]] = []  # outermost calls: (module, args, result)
        self.before_step: list[Callable[[Any], None]] = []
        self.on_step: list[Callable[[Step], None]] = []
        self.hooks: list[Any] = []

    def __enter__(self) -> Steps:
        wrap = self.patches.wrap
        wrap(Module, "__call__", self._module)
        wrap(Tensor, "backward", self._backward)
        wrap(autograd, "backward", self._backward)
        wrap(grad_scaler.GradScaler, "scale", self._scale)
        wrap(_iterators._BaseDataLoaderIter, "__next__", self._loader)
        wrap(optimizers.Optimizer, "__init__", self._made)
        self.hooks = [
            optimizers.register_optimizer_step_pre_hook(self._stepping),
            optimizers.register_optimizer_step_post_hook(self._stepped),
        ]
        self.began = self.since = perf_counter()
        return self

    def __exit__(self, *error: Any) -> None:
        for hook in self.hooks:
            hook.remove()
        self.patches.restore()
        if self.losses and self.stepless:
            self._end(None)

    # -- time -----------------------------------------------------------------------------------------------------

    def enter(self, phase: int) -> int:
        """Time from now on belongs to another phase; gives the one that it belonged to."""
        now, before = perf_counter(), self.phase
        self.times[before] += now - self.since
        self.since, self.phase = now, phase
        return before

    def forget(self, seconds: float) -> None:
        """Time that was not the program's, as when it was made to wait."""
        self.since += seconds
        self.began += seconds

    # -- what stands in the place of the program's functions --------------------------------------------------------

    def _module(self, original: Any) -> Any:
        def __call__(module: Any, *args: Any, **kwargs: Any) -> Any:
            if self.depth:
                if self.inner is None:
                    return original(module, *args, **kwargs)
                return self.inner(original, module, args, kwargs)
            return self._outermost(original, module, args, kwargs)

        return __call__

    def _outermost(self, original: Any, module: Any, args: Any, kwargs: Any) -> Any:
        known = self.known.get(id(module))
        if known is None or known() is not module:
            self._meet(module)
        before = self.enter(FORWARD if local.grad else EVALUATION)
        self.depth = 1
        try:
            if self.inner is not None:
                out = self.inner(original, module, args, kwargs)
            elif kwargs:
                out = original(module, *args, **kwargs)
            else:
                out = original(module, *args)
        finally:
            self.depth = 0
            self.enter(before)
        for listener in self.on_call:
            listener(module, args, out)
        return out

    def _meet(self, module: Any) -> None:
        """An outermost module that was not seen before."""
        self.known[id(module)] = weakref.ref(module)
        self.roots.pop(id(module), None)  # of one that is gone
        if "_parameters" in module.__dict__ and next(module.parameters(), None) is not None:
            self.roots[id(module)] = self.known[id(module)]

    def _backward(self, original: Any) -> Any:
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if self.phase == BACKWARD:
                return original(tensors, *args, **kwargs)
            self._note(tensors if isinstance(tensors, Tensor) else tensors[0])
            before = self.enter(BACKWARD)
            try:
                return original(tensors, *args, **kwargs) if args or kwargs else original(tensors)
            finally:
                self.enter(before)

        return backward

    def _note(self, loss: Any) -> None:
        """Keeps the value of a loss, under the name of the line that calls `backward` on it."""
        frame: Any = sys._getframe(2)
        while frame is not None and not is_user_file(frame.f_code.co_filename):
            frame = frame.f_back
        place = None if frame is None else (frame.f_code, frame.f_lasti)
        name = self.names.get(place)
        if name is None:
            name = self.names[place] = self._named(frame)
        if name in self.losses and self.stepless:
            self._end(None)
        if self.scaled is not None and self.scaled[0]() is loss:
            loss = self.scaled[1]
        array = loss._array
        if array.size == 1:
            value = array.item() if array.__class__ is np.ndarray else loss.detach()  # a GPU is not waited for
            self.losses.setdefault(name, []).append(value)

    def _named(self, frame: Any) -> str:
        """The name of a new loss: that of its line where there are several."""
        known = set(self.names.values())
        name = "loss" if frame is None or not known else f"loss, line {frame.f_lineno}"
        return name if name not in known else f"{name} ({len(known)})"

    def _scale(self, original: Any) -> Any:
        def scale(scaler: Any, outputs: Any) -> Any:
            out = original(scaler, outputs)
            if isinstance(out, Tensor):
                self.scaled = weakref.ref(out), outputs.detach()
            return out

        return scale

    def _loader(self, original: Any) -> Any:
        def __next__(iterator: Any) -> Any:
            before = self.enter(LOADER)
            try:
                batch = original(iterator)
            finally:
                self.enter(before)
            for listener in self.on_batch:
                listener(batch)
            return batch

        return __next__

    def _made(self, original: Any) -> Any:
        def __init__(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            self.stepless = False
            original(optimizer, *args, **kwargs)

        return __init__

    def _stepping(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if id(optimizer) not in self.optimizers:
            self.optimizers[id(optimizer)] = weakref.ref(optimizer)
            self.stepless = False
        for listener in self.before_step:
            listener(optimizer)
        self.enter(OPTIMIZER)

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self.enter(OTHER)
        self._end(optimizer)

    def _end(self, optimizer: Any) -> None:
        times, losses = self.times, self.losses
        self.times, self.losses = [0.0] * len(PHASES), {}
        self.number += 1
        step = tuple.__new__(
            Step, (self.number, self.since - self.began, losses, times, optimizer)
        )  # quicker than Step(…)
        for listener in self.on_step:
            listener(step)


def value_of(losses: list[Any]) -> float:
    """The mean of what one line called `backward` on during a step."""
    values = [v if v.__class__ is float else float(v) for v in losses]
    return values[0] if len(values) == 1 else sum(values) / len(values)
