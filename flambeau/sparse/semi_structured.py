"""Tensors with two of four elements in a row, for the sparse tensor cores of NVIDIA's GPUs: named, not made here."""

from __future__ import annotations

from typing import Any

from .._tensor import Tensor

__all__ = [
    "SparseSemiStructuredTensor", "SparseSemiStructuredTensorCUSPARSELT", "SparseSemiStructuredTensorCUTLASS",
    "to_sparse_semi_structured",
]  # fmt: skip


class SparseSemiStructuredTensor(Tensor):
    """The class that programs ask for with `isinstance`; none of its tensors exist."""

    _DEFAULT_ALG_ID = 0
    _FORCE_CUTLASS = False

    def __new__(cls, *args: Any, **named: Any) -> Any:
        raise NotImplementedError(
            "semi-structured sparse tensors need the sparse tensor cores of NVIDIA's GPUs, which are not used here; "
            "multiply by a mask, or use torch.nn.utils.prune"
        )


class SparseSemiStructuredTensorCUTLASS(SparseSemiStructuredTensor):
    """The form that CUTLASS reads."""


class SparseSemiStructuredTensorCUSPARSELT(SparseSemiStructuredTensor):
    """The form that cuSPARSELt reads."""


def to_sparse_semi_structured(original_tensor: Tensor, transposed: bool = False) -> SparseSemiStructuredTensor:
    """Raises: such tensors are not made here."""
    return SparseSemiStructuredTensor(original_tensor)
