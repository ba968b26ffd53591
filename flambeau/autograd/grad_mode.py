"""Switches for the recording of operations, under the name by which programs import them."""

from __future__ import annotations

import functools
from typing import Any

from .._autograd.modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from .._core.state import local
from .._tensor import Tensor, storage_of, version_of

__all__ = [
    "_force_original_view_tracking", "_unsafe_preserve_version_counter", "enable_grad", "enforce_grad_layout_policy",
    "inference_mode", "no_grad", "set_grad_enabled", "set_multithreading_enabled",
]  # fmt: skip


class _unsafe_preserve_version_counter:
    """A block after which the tensors' counters of writes are as before: autograd does not see what was written."""

    def __init__(self, tensors: Any):
        self.tensors = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
        self.versions = tuple(version_of(t) for t in self.tensors)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        set_versions(self.tensors, self.versions)


def set_versions(tensors: Any, versions: Any) -> None:
    """Sets the counters of writes."""
    for t, version in zip(tensors, versions):
        if version < 0:
            raise RuntimeError(f"Cannot set a version_counter to a value below 0: {version}")
        storage_of(t).version = version


class enforce_grad_layout_policy:
    """Whether the first gradient of a leaf is laid out as the leaf is (the default), or kept as it comes.

    At once, and as before at the end when used as a block or a decorator.

    >>> import flambeau as torch
    >>> x = torch.zeros(2, 3).t().requires_grad_()
    >>> with torch.autograd.enforce_grad_layout_policy(False):
    ...     (x * torch.ones(3, 2)).sum().backward()
    >>> x.grad.is_contiguous()
    True
    """

    def __init__(self, enable: bool = True):
        self.prev, self.mode = local.grad_layout, bool(enable)
        local.grad_layout = self.mode

    def __enter__(self) -> None:
        local.grad_layout = self.mode

    def __exit__(self, *error: Any) -> None:
        local.grad_layout = self.prev

    def __call__(self, function: Any) -> Any:
        local.grad_layout = self.prev  # a decorator switches only inside the function

        @functools.wraps(function)
        def switched(*args: Any, **named: Any) -> Any:
            with type(self)(self.mode):
                return function(*args, **named)

        return switched


class _force_original_view_tracking:
    """Whether views are taken again as they were when their base is written to: at once, or for a block.

    Views here always are; without this their nodes only have the name that PyTorch's have.
    """

    def __init__(self, mode: bool):
        self.prev, self.mode = is_view_replay_enabled(), bool(mode)
        local.view_replay = self.mode

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        local.view_replay = self.prev

    def __call__(self, function: Any) -> Any:
        local.view_replay = self.prev  # a decorator switches only inside the function

        @functools.wraps(function)
        def switched(*args: Any, **named: Any) -> Any:
            with self.clone():
                return function(*args, **named)

        return switched

    def clone(self) -> _force_original_view_tracking:
        """Another switch to the same state."""
        return type(self)(self.mode)


def is_view_replay_enabled() -> bool:
    """What `_force_original_view_tracking` was last told in this thread."""
    return local.view_replay


def is_multithreading_enabled() -> bool:
    """What `set_multithreading_enabled` was last told in this thread."""
    return bool(getattr(local, "multithreading", True))


class set_multithreading_enabled:
    """Whether backward may use more threads of Python: at once, and back at the end when used as a block.

    The engine runs each backward in the thread that asked for it, whatever is said here; kernels split their work natively.
    """

    def __init__(self, mode: bool):
        self.prev = is_multithreading_enabled()
        self.mode = bool(mode)
        local.multithreading = self.mode

    def __enter__(self) -> None:
        local.multithreading = self.mode

    def __exit__(self, *error: Any) -> None:
        local.multithreading = self.prev

    def clone(self) -> set_multithreading_enabled:
        """Another switch to the same state."""
        return type(self)(self.mode)
