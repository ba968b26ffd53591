"""Assembly for each element, as programs for NVIDIA's GPUs have it."""

from __future__ import annotations

from typing import Any

from .._core.dtypes import dtype as _dtype


def inline_asm_elementwise(
    *inputs: Any, asm_str: str, constraints: str, dtype: _dtype, is_pure: bool = True, pack: int = 1
) -> Any:
    """Refuses: assembly of a GPU has no meaning elsewhere, and kernels here are made from formulas."""
    raise RuntimeError(
        "inline_asm_elementwise only supports CUDA tensors of PyTorch itself; write the operation with tensors"
    )
