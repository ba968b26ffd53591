"""`torch._assert` and `torch._check`: conditions that programs state, with PyTorch's kinds of error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._core.state import modes
from .._core.symbolic import SymBool
from .._ops import registry
from .._tensor import Tensor


def _assert(condition: Any, message: Any) -> Any:
    """AssertionError unless the condition holds; a function, so that traces can hold it."""
    if modes.overrides and (taken := registry.overridden(_assert, (condition, message), {})) is not NotImplemented:
        return taken
    assert condition, message
    return None


_assert.__module__ = "flambeau"  # it is known as `torch._assert`


def _assert_async(input: Tensor, assert_msg: str | None = None) -> None:
    """RuntimeError unless the one element of a tensor is true."""
    if not bool(input):
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")


def _check_with(kind: type[Exception], cond: Any, message: Callable[[], str] | None = None) -> None:
    """An error of the given kind unless the condition, a bool, holds."""
    if isinstance(cond, SymBool):
        cond = cond.assume()
    if not isinstance(cond, bool):
        hint = " (torch._check_tensor_all takes a tensor)" if isinstance(cond, Tensor) else ""
        raise TypeError(f"cond must be a bool, but got {type(cond)}{hint}")
    if cond:
        return
    if message is not None and not callable(message):
        raise TypeError("message must be a callable")
    raise kind("Expected cond to be True, but got False." if message is None else str(message()))


def _check(cond: Any, message: Callable[[], str] | None = None) -> None:
    """RuntimeError unless the condition holds.

    >>> import flambeau as torch
    >>> torch._check(True)
    """
    _check_with(RuntimeError, cond, message)


def _check_index(cond: Any, message: Callable[[], str] | None = None) -> None:
    """IndexError unless the condition holds."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Callable[[], str] | None = None) -> None:
    """ValueError unless the condition holds."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Callable[[], str] | None = None) -> None:
    """TypeError unless the condition holds."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Callable[[], str] | None = None) -> None:
    """NotImplementedError unless the condition holds."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: int, message: Callable[[], str] | None = None, *, max: int | None = None) -> None:
    """RuntimeError unless a number can be a size."""
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _check_tensor_all(cond: Any, message: Callable[[], str] | None = None) -> None:
    """RuntimeError unless all elements of a tensor of bools are True."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _check_tensor_all_with(kind: type[Exception], cond: Any, message: Callable[[], str] | None = None) -> None:
    """An error of the given kind unless all elements of a tensor of bools are True."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if str(cond.dtype) != "torch.bool":
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(kind, bool(cond.all().item()), message)
