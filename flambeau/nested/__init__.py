"""Nested tensors: batches whose samples have different sizes.

A nested tensor keeps its samples one by one; operations run on each of them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from .._core import layouts
from .._ops.registry import ops
from .._tensor import Tensor
from ._tensor import NestedTensor, make

__all__ = [
    "as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged", "to_padded_tensor",
]  # fmt: skip


def nested_tensor(
    tensor_list: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A batch of tensors (or lists) of one number of dimensions and different sizes; it copies them.

    >>> import flambeau as torch
    >>> batch = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    >>> torch.nested.to_padded_tensor(batch * 2, 0.0)
    tensor([[2., 2., 0.],
            [2., 2., 2.]])
    """
    if not isinstance(tensor_list, (list, tuple)):
        raise TypeError("Only lists (List[Tensor] and List[List...[Scalar]]) are accepted in nested_tensor")
    parts = [
        (t.detach().clone() if isinstance(t, Tensor) else ops.tensor(t)).to(dtype=dtype, device=device)
        for t in tensor_list
    ]
    made = make(parts, layout or layouts.strided)
    if requires_grad:
        made.requires_grad_()
    return made


def as_nested_tensor(ts: Any, dtype: Any = None, device: Any = None, layout: Any = None) -> Tensor:
    """The same with the tensors themselves: gradients reach them."""
    if isinstance(ts, NestedTensor):
        return ts
    if isinstance(ts, Tensor):
        ts = list(ts.unbind())
    if not isinstance(ts, (list, tuple)):
        raise TypeError("as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of tensors ")
    parts = [(t if isinstance(t, Tensor) else ops.tensor(t)).to(dtype=dtype, device=device) for t in ts]
    return make(parts, layout or layouts.strided)


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> Tensor:
    """Samples that lie one after the other in `values`; sample i begins at offsets[i] (and is lengths[i] long)."""
    if offsets is None:
        if lengths is None:
            raise RuntimeError("nested_tensor_from_jagged(): At least one of offsets or lengths is required.")
        starts = [0, *ops.cumsum(lengths, 0).tolist()]
    else:
        starts = offsets.tolist()
    sizes = [b - a for a, b in pairwise(starts)] if lengths is None else lengths.tolist()
    along = (jagged_dim or 1) - 1
    made = make([ops.narrow(values, along, a, n) for a, n in zip(starts, sizes)], layouts.jagged)
    if sum(sizes) == values.shape[along]:
        made.__dict__["whole"] = values
    return made


def to_padded_tensor(input: Tensor, padding: float, output_size: Any = None) -> Tensor:
    """A plain tensor with the samples filled up to the largest size."""
    return input.to_padded_tensor(padding, output_size)


def narrow(tensor: Tensor, dim: int, start: Any, length: Any, layout: Any = None) -> Tensor:
    """Parts of the samples of a plain tensor, along dim 1: from start[i], length[i] long."""
    if dim != 1:
        raise RuntimeError("torch.nested.narrow: only dim=1 is supported")
    count = tensor.shape[0]
    starts, lengths = (v.tolist() if isinstance(v, Tensor) else [v] * count for v in (start, length))
    return make(
        [ops.narrow(t, 0, a, n) for t, a, n in zip(tensor.unbind(), starts, lengths)], layout or layouts.strided
    )


def masked_select(tensor: Tensor, mask: Tensor) -> Tensor:
    """The chosen elements of each row of the last dimension."""
    chosen = ops.expand_as(mask, tensor)
    return nested_tensor_from_jagged(ops.masked_select(tensor, chosen), lengths=ops.sum(chosen, -1).flatten())
