"""A hash of a tensor's elements: the exclusive or of their 64-bit patterns."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._backend.copies import rows_of
from ..._core.dtypes import COMPLEX, FLOATING, float64, int64, uint64
from ..._core.sizes import wrap_dims
from ..._tensor import Tensor
from ..records.batching import along
from ..records.primitive import primitive
from ..records.rules import not_implemented
from ..registry import ops, public
from .folding import reduced_shape


@primitive(
    batch=along,
    meta=lambda x, dims, keepdim: (reduced_shape(x.shape, dims, keepdim), uint64),
    differentiable=False,
    name="hash_tensor",
)
def hash_op(backend: Any, x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    bits: Any = backend.asnumpy(x).view(np.uint64)  # CuPy cannot reduce by an exclusive or
    xor: Any = np.bitwise_xor
    made = xor.reduce(bits, axis=dims, keepdims=keepdim)
    return rows_of(backend.xp.asarray(made))


@public(out=True)
def hash_tensor(input: Tensor, dim: Any = (), *, keepdim: bool = False, mode: int = 0) -> Tensor:
    """The exclusive or, over dimensions (all by default), of the elements' bits as float64 or int64, in uint64.

    >>> import flambeau as torch
    >>> torch.hash_tensor(torch.tensor([3, 5]))
    tensor(6, dtype=torch.uint64)
    """
    if mode != 0:
        raise RuntimeError(f"hash_tensor: unknown mode {mode}, only 0 is supported")
    if input.dtype.category == COMPLEX:
        raise not_implemented("xor_sum_cpu", input.dtype)
    dims = wrap_dims(dim, input.ndim)
    if not input.numel() and (dim == () or dim is None):
        raise RuntimeError(
            "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Give it with the 'dim' argument."
        )
    if input.ndim and (empty := [d for d in dims if not input._array.shape[d]]):
        raise IndexError(f"hash_tensor: Expected reduction dim {empty[0]} to have non-zero size.")
    wide = ops.to_dtype(ops.detach(input), float64 if input.dtype.category == FLOATING else int64)
    return hash_op(wide, dims, keepdim)


SCHEMAS = """
hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor
"""
