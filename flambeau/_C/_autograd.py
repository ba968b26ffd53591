"""What PyTorch's compiled autograd shows to Python."""

from __future__ import annotations

from typing import Any

from .._autograd.node import Node
from .._core.state import local
from .._ops.records.saved import pack, versions_of
from .._ops.records.saved_names import SavedTensor
from .._tensor import Tensor
from ..autograd.grad_mode import set_versions
from ..autograd.graph import _disabled

__all__ = ["SavedTensor"]


def _make_saved_tensor(t: Tensor, is_output: bool = False) -> SavedTensor:
    """A tensor as a node would keep it, through the hooks that are open now."""
    node = Node(None, (), [t])
    if local.saved_hooks:
        node.saved = [pack(t, node)]
    node.versions = versions_of(node.saved)
    return SavedTensor.of(node, 0)


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
