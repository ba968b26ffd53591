"""Tensors of a module by name, put in and taken out."""

from __future__ import annotations

from typing import Any

from ..._tensor import Tensor
from ..modules.module import Module

_MISSING: Any = object()


def swap_tensor(module: Module, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """Puts a tensor in the place of a parameter, buffer or attribute of the module itself; gives the one that was there."""
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if tensor is not _MISSING and not isinstance(tensor, Tensor) and tensor is not None:
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    if "." in name or not name:
        raise KeyError('tensor name can\'t contain "." nor be empty')
    for table in (module._parameters, module._buffers, module.__dict__):
        if name in table:
            before = table[name]
            if tensor is _MISSING:
                del table[name]
            elif tensor is not None or table is not module.__dict__:
                table[name] = tensor
            return before
    if not allow_missing:
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    if tensor is not _MISSING:
        setattr(module, name, tensor)
    return _MISSING
