"""Tensors with two of four elements in a row, for the sparse tensor cores of NVIDIA's GPUs: named, not made here."""

from __future__ import annotations

from typing import Any

from .._tensor import Tensor

__all__ = [
    "SparseSemiStructuredTensor", "SparseSemiStructuredTensorCUSPARSELT", "SparseSemiStructuredTensorCUTLASS",
    "to_sparse_semi_structured",
]  # fmt: skip


_WHY = (
    "semi-structured sparse tensors need the sparse tensor cores of NVIDIA's GPUs, which are not used here; multiply by a mask, or "
    "use torch.nn.utils.prune"
)


class SparseSemiStructuredTensor(Tensor):
    """The class that programs ask for with `isinstance`; none of its tensors exist."""

    _DEFAULT_ALG_ID = 0
    _FORCE_CUTLASS = False

    def __new__(
        cls,
        shape: Any,
        packed: Tensor | None,
        meta: Tensor | None,
        packed_t: Tensor | None,
        meta_t: Tensor | None,
        compressed_swizzled_bitmask: Tensor | None,
        fuse_transpose_cusparselt: bool = False,
        alg_id_cusparselt: int = 0,
        requires_grad: bool = False,
    ) -> Any:
        raise NotImplementedError(_WHY)


class SparseSemiStructuredTensorCUTLASS(SparseSemiStructuredTensor):
    """The form that CUTLASS reads."""


class SparseSemiStructuredTensorCUSPARSELT(SparseSemiStructuredTensor):
    """The form that cuSPARSELt reads."""


def to_sparse_semi_structured(
    original_tensor: Tensor, transposed: bool = False, alg_id: int = 0
) -> SparseSemiStructuredTensor:
    """Raises: such tensors are not made here."""
    raise NotImplementedError(_WHY)
