"""Choice among the kinds of `scaled_dot_product_attention`: `flash` never makes the matrix of scores, `math` does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

from ..._ops.layers.attention import kinds

__all__ = [
    "WARN_FOR_UNFUSED_KERNELS", "SDPBackend", "activate_flash_attention_impl", "current_flash_attention_impl",
    "list_flash_attention_impls", "register_flash_attention_impl", "restore_flash_attention_impl", "sdpa_kernel",
]  # fmt: skip

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(IntEnum):
    """The kinds of attention. On the CPU there are MATH and FLASH_ATTENTION."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


_SWITCHES = {
    SDPBackend.FLASH_ATTENTION: "flash", SDPBackend.EFFICIENT_ATTENTION: "memory_efficient",
    SDPBackend.MATH: "math", SDPBackend.CUDNN_ATTENTION: "cudnn",
}  # fmt: skip


def _cur_sdpa_kernel_backends(with_priority: bool = False) -> list[SDPBackend]:
    return [kind for kind, name in _SWITCHES.items() if getattr(kinds, name)]


@contextmanager
def sdpa_kernel(backends: list[SDPBackend] | SDPBackend, set_priority: bool = False) -> Iterator[dict[Any, Any]]:
    """Inside of this block attention is computed by one of the given kinds.

    >>> import flambeau as torch
    >>> from flambeau.nn.attention import SDPBackend, sdpa_kernel
    >>> q = torch.ones(1, 2, 4)
    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     torch.nn.functional.scaled_dot_product_attention(q, q, q).shape
    torch.Size([1, 2, 4])
    """
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            f"Backend must be an instance of SDPBackend or a list of them, got {type(backends).__name__}"
        )
    wanted: Iterable[SDPBackend] = [backends] if isinstance(backends, SDPBackend) else list(dict.fromkeys(backends))
    before = {name: getattr(kinds, name) for name in _SWITCHES.values()}
    try:
        for kind, name in _SWITCHES.items():
            setattr(kinds, name, kind in wanted)
        yield {}
    finally:
        for name, value in before.items():
            setattr(kinds, name, value)


# -- implementations of the flash kind from elsewhere ----------------------------------------------------------------

_implementations: dict[str, Callable[..., Any]] = {}
_active: list[tuple[str, Any]] = []


def register_flash_attention_impl(impl: str, *, register_fn: Callable[..., Any]) -> None:
    """Makes an implementation known by a name; `register_fn` installs it and may give a handle to remove it."""
    _implementations[impl] = register_fn


def activate_flash_attention_impl(impl: str) -> None:
    """Installs an implementation that was registered before."""
    if impl not in _implementations:
        raise ValueError(f"unknown flash attention implementation {impl!r}; known: {sorted(_implementations)}")
    restore_flash_attention_impl()
    _active.append((impl, _implementations[impl]()))


def list_flash_attention_impls() -> list[str]:
    """The names that are registered."""
    return sorted(_implementations)


def current_flash_attention_impl() -> str | None:
    """The name of the implementation that is installed; None for our own."""
    return _active[-1][0] if _active else None


def restore_flash_attention_impl() -> None:
    """Goes back to our own implementation."""
    while _active:
        handle = _active.pop()[1]
        if hasattr(handle, "remove"):
            handle.remove()
