"""The names of fake tensors, for programs that ask whether a tensor is one; none ever is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._tensor import Tensor

__all__ = [
    "CrossRefFakeMode", "DataDependentOutputException", "DynamicOutputShapeException", "FakeTensor", "FakeTensorMode",
    "UnsupportedFakeTensorException", "UnsupportedOperatorException", "is_fake",
]  # fmt: skip


@dataclass
class UnsupportedFakeTensorException(RuntimeError):
    """A tensor cannot be made fake; for programs that catch it."""

    reason: str


@dataclass
class DynamicOutputShapeException(RuntimeError):
    """The shape of a result depends on values; for programs that catch it."""

    func: Any


@dataclass
class DataDependentOutputException(RuntimeError):
    """A result is a number that depends on values; for programs that catch it."""

    func: Any


@dataclass
class UnsupportedOperatorException(RuntimeError):
    """An operator says nothing about fake tensors; for programs that catch it."""

    func: Any


class FakeTensor(Tensor):
    """A tensor without data; cannot be made."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("FakeTensor: flambeau has no fake tensors; use device='meta'")


class FakeTensorMode:
    """Makes all tensors fake for the time of a `with` block; cannot be made."""

    def __init__(self, *args: Any, **kwargs: Any):
        raise NotImplementedError("FakeTensorMode: flambeau has no fake tensors; use device='meta'")


class CrossRefFakeMode:
    """Compares fake results with real ones for the time of a `with` block; cannot be made."""

    def __init__(self, *args: Any, **kwargs: Any):
        raise NotImplementedError("CrossRefFakeMode: flambeau has no fake tensors; use device='meta'")


def is_fake(x: object) -> bool:
    """Whether a tensor is fake: never.

    >>> import flambeau as torch
    >>> from flambeau._subclasses.fake_tensor import is_fake
    >>> is_fake(torch.ones(2))
    False
    """
    return isinstance(x, FakeTensor)
