"""Names for sizes that change between calls."""

from __future__ import annotations

import enum
from typing import Any

__all__ = ["Dim", "dims"]


class _Hint(enum.Enum):
    """What may be said of a size instead of naming it."""

    AUTO = enum.auto()
    STATIC = enum.auto()
    DYNAMIC = enum.auto()

    def __repr__(self) -> str:
        return f"DimHint({self.name})"

    __str__ = __repr__


class Dim:
    """The name of a size, with its bounds; sizes that follow from it are written `2 * batch + 1`.

    >>> import flambeau as torch
    >>> batch = torch.export.Dim("batch", min=1, max=64)
    >>> batch, 2 * batch + 1
    (Dim('batch', min=1, max=64), 2*batch + 1)
    """

    AUTO, STATIC, DYNAMIC = _Hint.AUTO, _Hint.STATIC, _Hint.DYNAMIC

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        self.min, self.max = 0 if min is None else min, max
        if max is not None and max <= self.min:
            raise AssertionError(f"Cannot create Dim with inconsistent min={min}, max={max}")
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        self.__name__ = name

    def _linear(self, factor: int, offset: int) -> _DerivedDim:
        return _DerivedDim(self, factor, offset)

    def __mul__(self, other: Any) -> _DerivedDim:
        if type(other) is not int or other <= 0:
            raise NotImplementedError(
                f"Attempted to multiply {self} with {other}, where a positive integer was expected. "
                "(Only increasing linear operations with integer coefficients are supported.)"
            )
        return self._linear(other, 0)

    __rmul__ = __mul__

    def __add__(self, other: Any) -> _DerivedDim:
        if type(other) is not int:
            raise NotImplementedError(
                f"Attempted to add {other} to {self}, where an integer was expected. "
                "(Only increasing linear operations with integer coefficients are supported.)"
            )
        return self._linear(1, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> _DerivedDim:
        return self + (-other if type(other) is int else other)

    def __rsub__(self, other: Any) -> _DerivedDim:
        raise NotImplementedError(f"Attempted to negate {self}. (Only increasing linear operations are supported.)")

    def __repr__(self) -> str:
        bounds = [f"min={self.min}"] + ([] if self.max is None else [f"max={self.max}"])
        return f"Dim({self.__name__!r}, {', '.join(bounds)})"


class _DerivedDim(Dim):
    """A size that follows from a named one."""

    def __init__(self, root: Dim, factor: int, offset: int) -> None:
        if isinstance(root, _DerivedDim):
            factor, offset, root = factor * root.factor, factor * root.offset + offset, root.root
        self.root, self.factor, self.offset = root, factor, offset
        self.min = factor * root.min + offset
        self.max = None if root.max is None else factor * root.max + offset
        text = root.__name__ if factor == 1 else f"{factor}*{root.__name__}"
        self.__name__ = text if not offset else f"{text} {'+' if offset > 0 else '-'} {abs(offset)}"

    def __repr__(self) -> str:
        return self.__name__


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several names at once.

    >>> import flambeau as torch
    >>> torch.export.dims("height", "width", min=2)
    (Dim('height', min=2), Dim('width', min=2))
    """
    return tuple(Dim(name, min=min, max=max) for name in names)
