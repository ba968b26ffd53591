"""Weights of convolutions in another order in memory."""

from __future__ import annotations

from typing import Any

from ..modules.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module: Module, memory_format: Any, kinds: tuple[str, ...]) -> Module:
    for found in module.modules():
        if any(cls.__name__ in kinds for cls in type(found).__mro__):
            found.weight.data = found.weight.detach().clone().contiguous(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """Puts the weights of all 2-d convolutions into a memory format."""
    return _convert(module, memory_format, ("Conv2d", "ConvTranspose2d"))


def convert_conv3d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """Puts the weights of all 3-d convolutions into a memory format."""
    return _convert(module, memory_format, ("Conv3d", "ConvTranspose3d"))
