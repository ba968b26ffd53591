"""Questions about tensors that wrap other tensors; there is no `__torch_dispatch__` here."""

from __future__ import annotations

from typing import Any

from .._tensor import Tensor

__all__ = ["is_traceable_wrapper_subclass", "is_traceable_wrapper_subclass_type"]


def is_traceable_wrapper_subclass_type(t: Any) -> bool:
    """Whether a class of tensors says how it is taken apart and put together."""
    return (
        t is not Tensor
        and issubclass(t, Tensor)
        and hasattr(t, "__tensor_flatten__")
        and hasattr(t, "__tensor_unflatten__")
    )


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Whether a tensor says how it is taken apart and put together."""
    return isinstance(t, Tensor) and is_traceable_wrapper_subclass_type(type(t))
