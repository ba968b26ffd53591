"""Layers that follow each other become one: convolution (or linear) with batch normalisation and relu."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ...nn.modules import activation, batchnorm, conv, linear
from ...nn.modules.linear import Identity
from ...nn.modules.module import Module
from ...nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from ..nn import intrinsic

__all__ = ["fuse_known_modules", "fuse_modules", "fuse_modules_qat"]

_WITH_RELU: dict[type, Any] = {
    linear.Linear: intrinsic.LinearReLU, conv.Conv1d: intrinsic.ConvReLU1d, conv.Conv2d: intrinsic.ConvReLU2d,
    conv.Conv3d: intrinsic.ConvReLU3d,
}  # fmt: skip
_NORMS = (batchnorm.BatchNorm1d, batchnorm.BatchNorm2d, batchnorm.BatchNorm3d)


def fuse_known_modules(
    mod_list: list[Module], is_qat: bool = False, additional_fuser_method_mapping: Any = None
) -> list[Module]:
    """One layer for a list of them, and identities in the places of the others."""
    first, rest = mod_list[0], list(mod_list[1:])
    made: Any = first
    if rest and isinstance(rest[0], _NORMS):
        norm = rest.pop(0)
        if made.training or norm.training:
            raise AssertionError(
                "batch normalisation is folded into a layer in evaluation mode only; call eval() first"
            )
        fold = fuse_linear_bn_eval if isinstance(made, linear.Linear) else fuse_conv_bn_eval
        made = fold(made, norm)  # type: ignore[arg-type]
    if rest and isinstance(rest[0], activation.ReLU) and type(made) in _WITH_RELU:
        made = _WITH_RELU[type(made)](made, rest.pop(0))
    if rest or made is first:
        kinds = ", ".join(type(m).__name__ for m in mod_list)
        raise NotImplementedError(f"Cannot fuse modules: {kinds}")
    made.train(first.training)
    return [made, *(Identity().train(first.training) for _ in mod_list[1:])]


def _place(model: Module, path: str) -> tuple[Module, str]:
    *parents, name = path.split(".")
    for part in parents:
        model = getattr(model, part)
    return model, name


def fuse_modules(
    model: Module,
    modules_to_fuse: Any,
    inplace: bool = False,
    fuser_func: Callable[..., list[Module]] = fuse_known_modules,
    fuse_custom_config_dict: Any = None,
) -> Module:
    """Fuses layers by their names: a list of them, or a list of such lists.

    >>> import flambeau as torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()).eval()
    >>> type(torch.ao.quantization.fuse_modules(model, ["0", "1"])[0]).__name__
    'LinearReLU'
    """
    if not inplace:
        model = copy.deepcopy(model)
    groups = [modules_to_fuse] if all(isinstance(name, str) for name in modules_to_fuse) else modules_to_fuse
    for names in groups:
        places = [_place(model, name) for name in names]
        for (holder, name), made in zip(places, fuser_func([getattr(h, n) for h, n in places])):
            setattr(holder, name, made)
    return model


def fuse_modules_qat(
    model: Module,
    modules_to_fuse: Any,
    inplace: bool = False,
    fuser_func: Callable[..., list[Module]] = fuse_known_modules,
    fuse_custom_config_dict: Any = None,
) -> Module:
    """The same for training; batch normalisation must be folded before."""
    return fuse_modules(model, modules_to_fuse, inplace, fuser_func, fuse_custom_config_dict)
