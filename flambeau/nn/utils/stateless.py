"""Calls of modules with other parameters: the older home of `func.functional_call`."""

from __future__ import annotations

from typing import Any

from ..._errors.frames import warn_user
from ...func import functional_call as _functional_call
from ...func.module_calls import Swapped as _Swapped
from ..modules.module import Module

__all__ = ["functional_call"]


def functional_call(
    module: Module, parameters_and_buffers: dict[str, Any], args: Any = None, kwargs: dict[str, Any] | None = None, *,
    tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """Calls a module with other parameters and buffers in place of its own; use `func.functional_call`."""
    warn_user(
        "`torch.nn.utils.stateless.functional_call` is deprecated. Please use `torch.func.functional_call` instead.",
        FutureWarning,
    )
    return _functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


def _reparametrize_module(
    module: Module, parameters_and_buffers: dict[str, Any], tie_weights: bool = False, strict: bool = False,
    stack_weights: bool = False,
) -> _Swapped:  # fmt: skip
    """A block in which a module has other parameters and buffers. All places are noted before one is written, which
    is what `stack_weights` asks for."""
    return _Swapped(module, parameters_and_buffers, tie_weights, strict)
