"""Questions about graph capture, and its counters."""

from __future__ import annotations

import functools
import sys
import warnings
from typing import Any

from .._compile.breaks import counters
from .._tensor import Tensor
from ..compiler import is_compiling
from . import config

__all__ = ["counters", "disable_cache_limit", "is_compile_supported", "is_compiling", "same", "warn_once"]


def is_compile_supported(device_type: Any) -> bool:
    """Whether `torch.compile` can be called for programs on a device."""
    return str(device_type) in ("cpu", "cuda")


def disable_cache_limit() -> Any:
    """A `with` block in which a function may be compiled for any number of shapes."""
    return config.patch(recompile_limit=sys.maxsize, cache_size_limit=sys.maxsize)


@functools.cache
def warn_once(msg: str, stacklevel: int = 1) -> None:
    """Warns of something the first time it is said."""
    warnings.warn(msg, stacklevel=stacklevel + 1)


def same(ref: Any, res: Any, tol: float = 1e-4, equal_nan: bool = False) -> bool:
    """Whether two results, or nests of them, agree.

    >>> import flambeau as torch
    >>> torch._dynamo.utils.same({"a": [torch.ones(2)]}, {"a": [torch.ones(2) + 1e-6]})
    True
    """
    if isinstance(ref, Tensor):
        if not isinstance(res, Tensor):
            return ref.numel() == 1 and same(ref.item(), res, tol, equal_nan)
        alike = ref.shape == res.shape and ref.dtype == res.dtype
        return alike and bool(ref.isclose(res, atol=tol, rtol=tol, equal_nan=equal_nan).all())
    if isinstance(ref, dict):
        return ref.keys() == res.keys() and all(same(ref[key], res[key], tol, equal_nan) for key in ref)
    if isinstance(ref, (list, tuple)):
        return len(ref) == len(res) and all(same(a, b, tol, equal_nan) for a, b in zip(ref, res))
    return bool(ref == res)
