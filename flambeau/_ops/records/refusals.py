"""Looks at elements that may end in an error, and do nothing else: targets that are no classes, matrices that have no inverse.

    @refusal
    def check_range(backend, x, low, high):
        if not ...:
            raise RuntimeError(...)

In a recorded program such a look is a node without results. Where a kernel finds out, it does so in each run, and Python raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._backend.cpu import cpu
from ..._core.allocation import empty
from ..._core.dtypes import BY_NUMPY
from ..._core.state import BATCHED, CAPTURE, GRAD, META, local, modes
from ..._core.steps import tell
from ..._dispatch import backend_of
from ..._kernel.loops.lang import Kernel
from ..._tensor import Tensor, computed
from ..registry import parameter_names


class Refusal:
    """A function of a backend, the array of a tensor and more, which raises an error or gives nothing."""

    def __init__(self, check: Callable[..., None]):
        self.check, self.name = check, check.__name__.strip("_")
        self.names = parameter_names(check)[1:]
        self.refuses = self.names[0]  # as in `Primitive`

    def __call__(self, t: Any, *args: Any) -> None:
        if not (t._k & ~GRAD or modes.on):  # a plain tensor, and nobody looks
            if t._array.size:
                self.check(cpu, t._array, *args)
            return
        while t._k & BATCHED:  # all samples
            t = t.value
        tell("refused_by", self, t, *args)
        if t._k & META:
            return
        t = computed(t)
        if modes.on & CAPTURE and local.captures:
            local.captures[-1].add(self, (t, *args), None)
        self.compute((t, *args), t._k)

    def compute(self, args: tuple[Any, ...], k: int) -> None:
        t: Tensor = args[0]
        if t._array.size:
            self.check(backend_of(k), t._array, *args[1:])


def refusal(check: Callable[..., None]) -> Refusal:
    """Declares such a function."""
    return Refusal(check)


def is_met(question: Kernel, x: Any) -> Any:
    """Whether elements of an array of the CPU's are what a kernel looks for; a program has the kernel answer in each run."""
    found = empty((), np.bool_)
    cpu.kernel(question, (BY_NUMPY[x.dtype].code, "b1"))(x.reshape(-1), found)
    return found
