"""Switches of how `nn.Module` converts its parameters (`to`, `float`, `cuda`, …), as in `torch.__future__`."""

from __future__ import annotations

__all__ = [
    "get_overwrite_module_params_on_conversion", "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion", "set_swap_module_params_on_conversion",
]  # fmt: skip

_overwrite_module_params_on_conversion = False
_swap_module_params_on_conversion = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether a converted parameter is a new object; otherwise the old object gets the new values.

    >>> import flambeau as torch
    >>> torch.__future__.set_overwrite_module_params_on_conversion(True)
    >>> layer = torch.nn.Linear(1, 1)
    >>> before = layer.weight
    >>> layer.double().weight is before
    False
    >>> torch.__future__.set_overwrite_module_params_on_conversion(False)
    """
    global _overwrite_module_params_on_conversion
    _overwrite_module_params_on_conversion = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Whether a converted parameter is a new object."""
    return _overwrite_module_params_on_conversion


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether a converted parameter is exchanged by `utils.swap_tensors`, so that all who hold it see the new one."""
    global _swap_module_params_on_conversion
    _swap_module_params_on_conversion = value


def get_swap_module_params_on_conversion() -> bool:
    """Whether a converted parameter is exchanged by `utils.swap_tensors`."""
    return _swap_module_params_on_conversion
