"""What PyTorch's compiled autograd shows to Python."""

from __future__ import annotations

from typing import Any

from .._ops.saved_names import SavedTensor
from ..autograd.grad_mode import set_versions
from ..autograd.graph import _disabled

__all__ = ["SavedTensor"]


def _saved_tensors_hooks_is_enabled() -> bool:
    return not _disabled


def _saved_tensors_hooks_disable(error_message: str, fail_if_non_empty: bool = True) -> None:
    _disabled.append(error_message)


def _saved_tensors_hooks_enable() -> None:
    _disabled.clear()


def _saved_tensors_hooks_get_disabled_error_message() -> Any:
    return _disabled[-1] if _disabled else None


def _unsafe_set_version_counter(tensors: Any, versions: Any) -> None:
    set_versions(tensors, versions)
