"""Padding at the borders of signals (1d), pictures (2d) and volumes (3d).

`padding` is one width for all sides, or (left, right, top, bottom, front, back) as far as there are dimensions.
"""

from __future__ import annotations

from typing import Any

from ..._tensor import Tensor
from .. import functional as F
from .module import Module
from .utils import _ntuple, _pair, _quadruple

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d",
    "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip

_sextuple = _ntuple(6, "_sextuple")


class _PadNd(Module):
    """Base of all of them: `_each` makes a tuple, one width for each side."""

    __constants__ = ["padding"]
    padding: tuple[int, ...]
    _mode: str
    _each: Any

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = self._each(padding)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


# -- a constant ------------------------------------------------------------------------------------------------------


class _ConstantPadNd(_PadNd):
    __constants__ = ["padding", "value"]
    value: float

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Adds a value on both sides of the last dimension.

    >>> import flambeau as torch
    >>> torch.nn.ConstantPad1d((1, 2), 9.0)(torch.zeros(1, 1))
    tensor([[9., 0., 9., 9.]])
    """

    _each = staticmethod(_pair)


class ConstantPad2d(_ConstantPadNd):
    """Adds a value on all sides of the last two dimensions.

    >>> import flambeau as torch
    >>> torch.nn.ConstantPad2d(1, 9.0)(torch.zeros(1, 2, 3)).shape
    torch.Size([1, 4, 5])
    """

    _each = staticmethod(_quadruple)


class ConstantPad3d(_ConstantPadNd):
    """Adds a value on all sides of the last three dimensions."""

    _each = staticmethod(_sextuple)


class _ZeroPadNd(_ConstantPadNd):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPadNd, ConstantPad1d):
    """Adds zeros on both sides of the last dimension.

    >>> import flambeau as torch
    >>> torch.nn.ZeroPad1d(1)(torch.ones(1, 1))
    tensor([[0., 1., 0.]])
    """


class ZeroPad2d(_ZeroPadNd, ConstantPad2d):
    """Adds zeros on all sides of the last two dimensions."""


class ZeroPad3d(_ZeroPadNd, ConstantPad3d):
    """Adds zeros on all sides of the last three dimensions."""


# -- the input itself --------------------------------------------------------------------------------------------------


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Mirrors the last dimension at its ends, which are not repeated.

    >>> import flambeau as torch
    >>> torch.nn.ReflectionPad1d(2)(torch.arange(4.0).reshape(1, 4))
    tensor([[2., 1., 0., 1., 2., 3., 2., 1.]])
    """

    _each = staticmethod(_pair)


class ReflectionPad2d(_ReflectionPadNd):
    """Mirrors the last two dimensions at their borders, which are not repeated."""

    _each = staticmethod(_quadruple)


class ReflectionPad3d(_ReflectionPadNd):
    """Mirrors the last three dimensions at their borders, which are not repeated."""

    _each = staticmethod(_sextuple)


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Repeats the ends of the last dimension.

    >>> import flambeau as torch
    >>> torch.nn.ReplicationPad1d(2)(torch.arange(2.0).reshape(1, 2))
    tensor([[0., 0., 0., 1., 1., 1.]])
    """

    _each = staticmethod(_pair)


class ReplicationPad2d(_ReplicationPadNd):
    """Repeats the borders of the last two dimensions."""

    _each = staticmethod(_quadruple)


class ReplicationPad3d(_ReplicationPadNd):
    """Repeats the borders of the last three dimensions."""

    _each = staticmethod(_sextuple)


class _CircularPadNd(_PadNd):
    _mode = "circular"
    _ranks: tuple[int, int]  # of an input without and with a batch

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in self._ranks:
            few, many = self._ranks
            raise ValueError(f"expected {few}D or {many}D input (got {input.ndim}D input)")

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        return super().forward(input)


class CircularPad1d(_CircularPadNd):
    """Goes on with the other end of the last dimension.

    >>> import flambeau as torch
    >>> torch.nn.CircularPad1d(1)(torch.arange(3.0).reshape(1, 3))
    tensor([[2., 0., 1., 2., 0.]])
    """

    _each, _ranks = staticmethod(_pair), (2, 3)


class CircularPad2d(_CircularPadNd):
    """Goes on with the opposite borders of the last two dimensions."""

    _each, _ranks = staticmethod(_quadruple), (3, 4)


class CircularPad3d(_CircularPadNd):
    """Goes on with the opposite borders of the last three dimensions."""

    _each, _ranks = staticmethod(_sextuple), (4, 5)
