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

from ..._core.state import BATCHED, CAPTURE, META, local, modes
from ..._dispatch import backend_of
from ..._tensor import Tensor, computed
from ..registry import parameter_names


class Refusal:
    """A function of a backend, the array of a tensor and more, which raises an error or gives nothing."""

    def __init__(self, check: Callable[..., None]):
        self.check, self.name = check, check.__name__.strip("_")
        self.names = parameter_names(check)[1:]
        self.refuses = self.names[0]  # as in `Primitive`

    def __call__(self, t: Any, *args: Any) -> None:
        while t._k & BATCHED:  # all samples
            t = t.value
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
