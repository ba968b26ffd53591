"""Layers that follow each other become one: convolution (or linear) with batch normalisation and relu."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ...nn.modules.linear import Identity
from ...nn.modules.module import Module
from .fuser_methods import get_fuser_method

__all__ = ["fuse_known_modules", "fuse_modules", "fuse_modules_qat"]


def fuse_known_modules(
    mod_list: list[Module], is_qat: bool = False, additional_fuser_method_mapping: Any = None
) -> list[Module]:
    """One layer for a list of them, and identities in the places of the others; hooks go along."""
    fuse = get_fuser_method([type(m) for m in mod_list], additional_fuser_method_mapping)
    before, after = dict(mod_list[0]._forward_pre_hooks), dict(mod_list[-1]._forward_hooks)
    mod_list[0]._forward_pre_hooks.clear()
    mod_list[-1]._forward_hooks.clear()
    made = fuse(is_qat, *mod_list)
    for hook in before.values():
        made.register_forward_pre_hook(hook)
    for hook in after.values():
        made.register_forward_hook(hook)
    made.train(mod_list[0].training)
    return [made, *(Identity().train(mod_list[0].training) for _ in mod_list[1:])]


def _place(model: Module, path: str) -> tuple[Module, str]:
    *parents, name = path.split(".")
    for part in parents:
        model = getattr(model, part)
    return model, name


def _fuse(
    model: Module, modules_to_fuse: Any, inplace: bool, fuser_func: Any, fuse_custom_config_dict: Any, is_qat: bool
) -> Module:
    if not inplace:
        model = copy.deepcopy(model)
    groups = [modules_to_fuse] if all(isinstance(name, str) for name in modules_to_fuse) else modules_to_fuse
    for names in groups:
        places = [_place(model, name) for name in names]
        layers = [getattr(h, n) for h, n in places]
        extra = (fuse_custom_config_dict or {}).get("additional_fuser_method_mapping", {})
        for (holder, name), made in zip(places, fuser_func(layers, is_qat, extra)):
            setattr(holder, name, made)
    return model


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
    return _fuse(model, modules_to_fuse, inplace, fuser_func, fuse_custom_config_dict, False)


def fuse_modules_qat(
    model: Module,
    modules_to_fuse: Any,
    inplace: bool = False,
    fuser_func: Callable[..., list[Module]] = fuse_known_modules,
    fuse_custom_config_dict: Any = None,
) -> Module:
    """The same for training: batch normalisation stays, and is folded by `convert`."""
    return _fuse(model, modules_to_fuse, inplace, fuser_func, fuse_custom_config_dict, True)
