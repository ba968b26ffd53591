"""Errors and warnings that the classic mistakes raise, by their phrases."""

from __future__ import annotations

import warnings
from typing import Any

from ..._observe.frames import here, place_of, user_frame
from .session import Enough, Session

# A phrase of the error (lower case), the id, what happened. The first that fits decides.
_ERRORS = (
    ("expected all tensors to be on the same device", "device-mismatch", "Tensors of different devices meet here."),
    ("view size is not compatible", "view-after-transpose", "view needs elements in order; these are strided."),
    ("grad can be implicitly created only for scalar", "non-scalar-loss", "backward() is called on a tensor with several elements."),
    ("can't call numpy() on tensor that requires grad", "numpy-on-tracked", ".numpy() is called on a tensor that requires grad."),
    ("a leaf variable that requires grad", "leaf-update-without-no-grad", "A leaf that requires grad is changed in place while autograd records."),
    ("a view of a leaf variable", "leaf-update-without-no-grad", "A view of a leaf that requires grad is changed in place while autograd records."),
    ("cannot assign module before", "missing-super-init", "A layer is assigned before super().__init__() was called."),
    ("cannot assign parameter", "missing-super-init", "A parameter is assigned before super().__init__() was called."),
    ("missing 1 required positional argument: 'metrics'", "plateau-without-metric", "ReduceLROnPlateau.step() is called without its metric."),
    ("unexpected keyword argument 'verbose'", "plateau-without-metric", "This scheduler no longer takes `verbose`."),
)  # fmt: skip
_WARNINGS = (
    (".grad attribute of a tensor that is not a leaf", "non-leaf-weights", "This tensor is no leaf: its .grad stays None."),
)  # fmt: skip


class Errors:
    """Turns errors that leave watched functions, or the program, into findings."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.seen: set[int] = set()
        self.explained = False
        self.others: list[Any] = []  # observers that know more about some errors: f(text, error, place) -> bool
        session.patches.wrap(warnings, "warn", self._warned)

    def failed(self, error: BaseException) -> None:
        """Looks at an error once, wherever it is first seen."""
        if isinstance(error, (Enough, StopIteration, SystemExit, KeyboardInterrupt)) or id(error) in self.seen:
            return
        self.seen.add(id(error))
        text = str(error).lower()
        place = place_of(error.__traceback__) or here()
        inner = here()
        if inner is not None and user_frame() is not None:
            place = _inner(error) or inner
        if any(other(text, error, place) for other in self.others):
            self.explained = True
            return
        for phrase, id_, message in _ERRORS:
            if phrase in text:
                self.explained = True
                self.session.find(id_, place, message, 0.97, f"{type(error).__name__}: {error}")
                return
        if "dtype" in text or "scalar type" in text or "float != double" in text or "double" in text:
            if "double" in text or "float64" in text:
                self.explained = True
                self.session.find(
                    "float64-data",
                    place,
                    "float64 data meet float32 weights.",
                    0.95,
                    f"{type(error).__name__}: {error}",
                )

    def _warned(self, original: Any) -> Any:
        def warn(message: Any, category: Any = None, stacklevel: int = 1, source: Any = None, **more: Any) -> Any:
            text = str(message).lower()
            for phrase, id_, said in _WARNINGS:
                if phrase in text:
                    self.session.find(id_, here(), said, 0.85, str(message).split(". ")[0])
            return original(message, category, stacklevel + 1, source, **more)

        return warn


def _inner(error: BaseException) -> Any:
    """The innermost user's line of a traceback, if it has one."""
    return place_of(error.__traceback__)
