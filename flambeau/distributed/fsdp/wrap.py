"""Which inner modules are divided by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = [
    "CustomPolicy", "ModuleWrapPolicy", "always_wrap_policy", "lambda_auto_wrap_policy", "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
]  # fmt: skip


class ModuleWrapPolicy:
    """Modules of some classes."""

    def __init__(self, module_classes: Any):
        self._module_classes = tuple(module_classes)

    def __call__(self, module: Any, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return recurse or isinstance(module, self._module_classes)


class CustomPolicy:
    """Modules that a function says yes to."""

    def __init__(self, lambda_fn: Callable[[Any], Any]):
        self._lambda_fn = lambda_fn

    def __call__(self, module: Any, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return recurse or bool(self._lambda_fn(module))


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Every module."""
    return True


def lambda_auto_wrap_policy(module: Any, recurse: bool, nonwrapped_numel: int, lambda_fn: Any) -> bool:
    """Modules that a function says yes to."""
    return recurse or bool(lambda_fn(module))


def transformer_auto_wrap_policy(module: Any, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: Any) -> bool:
    """Modules of some classes."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Any, recurse: bool, nonwrapped_numel: int, min_num_params: int = 100_000_000, **kwargs: Any
) -> bool:
    """Modules with many parameters."""
    return nonwrapped_numel >= min_num_params
