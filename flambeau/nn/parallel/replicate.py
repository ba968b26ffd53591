"""Copies of a module on several devices, whose gradients flow back to the parameters of the first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..modules.module import Module

__all__ = ["replicate"]


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """One copy of the module for each device; its parameters are results of the network's own."""
    return [_replica(network, where, detach, {}) for where in devices]


def _replica(module: Module, where: Any, detach: bool, made: dict[Any, Any]) -> Module:
    if module in made:
        return made[module]
    replica = made[module] = module._replicate_for_data_parallel()
    for name, parameter in module._parameters.items():
        if parameter is None:
            replica._parameters[name] = None
        else:
            moved = parameter.to(where)
            object.__setattr__(replica, name, moved.detach() if detach else moved)
    for name, buffer in module._buffers.items():
        replica._buffers[name] = None if buffer is None else buffer.to(where)
    for name, child in module._modules.items():
        replica._modules[name] = None if child is None else _replica(child, where, detach, made)
    return replica
