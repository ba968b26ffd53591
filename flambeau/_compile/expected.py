"""What a program expects of a call. If something else is so, another program is tried."""

from __future__ import annotations

from typing import Any

from .._tensor import Tensor
from .breaks import Otherwise
from .holders import grad_of


class Expect:
    """Compares an answer with what it was when the program was recorded: the truth of a tensor, or what a `question` of some numbers finds.

    `late` is the error where it comes too late for another program; None if it must not.
    """

    name = "expect"

    def __init__(self, answer: Any, question: Any = None, late: Exception | None = None):
        self.answer, self.question, self.late = answer, question, late
        self.error: Exception = Otherwise()

    def __call__(self, *tensors: Tensor) -> None:
        found = bool(tensors[0]._array) if self.question is None else self.question(tensors)
        if found != self.answer:
            raise type(self.error)(*self.error.args)


class Ungiven:
    """Expects that some leaves have no gradients yet."""

    name = "expect"

    def __init__(self, leaves: list[Tensor]):
        self.leaves = leaves

    def __call__(self) -> None:
        if any([grad_of(leaf) is not None for leaf in self.leaves]):
            raise Otherwise()
