"""Arrays of NumPy's in recorded runs: they are constants, as long as nobody changes their elements.

No array depends on a tensor: reading one for NumPy (`numpy()`) ends the recording, and so does writing to a tensor over an array's memory.
So what NumPy's functions make of arrays and numbers is the same in each run.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from .holders import Effect, Holder

MOST = 1 << 16  # bytes of arrays that guards compare
DISPATCHER: type = type(np.prod)  # of functions written in Python that arrays of other libraries may take over
_HOME = os.path.dirname(np.__file__) + os.sep
# Files of NumPy's that do nothing but compute, without what their names have in one version or the other.
_COMPUTING = frozenset((
    "arraypad", "arraysetops", "einsumfunc", "fromnumeric", "function_base", "getlimits", "helper", "histograms", "index_tricks", "linalg",
    "methods", "multiarray", "nanfunctions", "numeric", "numerictypes", "pocketfft", "polynomial", "scimath", "shape_base", "stride_tricks",
    "twodim_base", "type_check", "ufunclike",
))  # fmt: skip
_PURE = frozenset(
    ("arange", "array", "asanyarray", "asarray", "ascontiguousarray", "asfortranarray", "empty", "fromiter", "zeros")
)
_KINDS: tuple[type, ...] = np.ndarray, np.generic, np.ufunc, np.dtype
_FILES = frozenset(("dump", "tofile"))  # methods that write them


@functools.cache
def computes(file: str) -> bool:
    """Whether a file is one of NumPy's whose functions give the same for the same arguments."""
    name = os.path.basename(file).removesuffix(".py").removeprefix("_").removesuffix("_impl")
    return file.startswith(_HOME) and name in _COMPUTING and not file.startswith(os.path.join(_HOME, "random"))


def is_pure(owner: Any, module: str | None, name: str) -> bool:
    """Whether a function of NumPy's that is written in C does."""
    kind = owner if isinstance(owner, type) else type(owner)
    return (module == "numpy" and name in _PURE) or (issubclass(kind, _KINDS) and name not in _FILES)


class Elements(Holder):
    """The elements of an array of NumPy's, which anybody may change at any moment."""

    __slots__ = ("before", "owner")

    def __init__(self, owner: Any, path: str):
        super().__init__(path)
        self.owner = owner
        self.before = self.now()
        self.seal(self.before)

    def labels(self) -> Iterable[str]:
        return [f"{self.path}.{name}" for name in ("shape", "strides", "dtype", "flags.writeable", "tobytes()")]

    def now(self) -> tuple[Any, ...]:
        a = self.owner
        return a.shape, a.strides, a.dtype, a.flags.writeable, a.tobytes()

    def holds(self) -> bool:
        return self.now() == self.before

    def changes(self) -> Iterator[Effect]:
        if not self.holds():
            yield Effect(self.owner, None, self.before, self.now(), self.path, "contents")
