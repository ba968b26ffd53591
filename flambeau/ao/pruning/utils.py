"""Modules and tensors by their full names."""

from __future__ import annotations

from typing import Any

from ...nn.modules.module import Module

__all__ = [
    "fqn_to_module", "get_arg_info_from_tensor_fqn", "get_dynamic_sparse_quantized_mapping",
    "get_static_sparse_quantized_mapping", "module_to_fqn",
]  # fmt: skip


def module_to_fqn(model: Module, module: Module, prefix: str = "") -> str | None:
    """The full name of a module inside of a model; None if it is not there.

    >>> import flambeau as torch
    >>> model = torch.nn.Sequential(torch.nn.Sequential(torch.nn.ReLU()))
    >>> torch.ao.pruning.module_to_fqn(model, model[0][0])
    '0.0'
    """
    for name, part in model.named_modules():
        if part is module:
            return f"{prefix}.{name}" if prefix and name else prefix or name
    return None


def fqn_to_module(model: Module | None, path: str) -> Module | None:
    """The module of a full name; None if there is none."""
    for name in path.split(".") if path else ():
        model = getattr(model, name, None)
    return model


def get_arg_info_from_tensor_fqn(model: Module, tensor_fqn: str) -> dict[str, Any]:
    """What a sparsifier's configuration says of a tensor: its full name, its module and that one's name."""
    path, _, tensor_name = tensor_fqn.rpartition(".")
    return {
        "module_fqn": path, "module": fqn_to_module(model, path), "tensor_name": tensor_name, "tensor_fqn": tensor_fqn,
    }  # fmt: skip


def _refused() -> NotImplementedError:
    return NotImplementedError(
        "layers with sparse integer weights are not there; squash the masks and quantize densely"
    )


def get_static_sparse_quantized_mapping() -> dict[type, Any]:
    """Layers with sparse integer weights; there are none."""
    raise _refused()


def get_dynamic_sparse_quantized_mapping() -> dict[type, Any]:
    """Layers with sparse integer weights; there are none."""
    raise _refused()
