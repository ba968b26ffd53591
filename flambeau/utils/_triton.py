"""Questions about Triton, a compiler for GPU kernels that this package does not use."""

from __future__ import annotations

from typing import Any

__all__ = ["has_triton", "has_triton_package"]


def has_triton_package() -> bool:
    """Whether kernels in Triton can be made. They cannot, whatever is installed: they need PyTorch's tensors."""
    return False


def has_triton() -> bool:
    """Whether kernels in Triton can run on this machine.

    >>> has_triton()
    False
    """
    return False


has_triton_tma = has_triton_tma_device = has_triton_stable_tma_api = has_triton_experimental_host_tma = has_triton


def triton_key(*_: Any) -> str:
    """Raises: there is no version of Triton in use."""
    raise ImportError("Triton is not used here; torch.utils._triton.has_triton() says so")
