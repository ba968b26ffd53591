"""Unpooling: values put back to the places that a maximum pooling reported."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..._core.config import nondeterministic
from ..._core.dtypes import FLOATING, int64
from ..._core.layouts import channels_last, is_channels_last
from ..._tensor import Tensor
from ..layout.views import in_format
from ..places.scatter import scatter_op
from ..records.rules import not_implemented, type_name
from ..records.update import into_zeros
from ..registry import labelled, ops, public
from .convolution.description import Ints, spread


def _size(kernel: Ints, stride: Ints, padding: Ints, shape: Sequence[int], output_size: Sequence[int] | None) -> Ints:
    """The size of the result: given, within a stride of what the windows cover, or just that."""
    rank = len(kernel)
    usual = tuple((n - 1) * s + k - 2 * p for n, s, k, p in zip(shape[-rank:], stride, kernel, padding))
    if output_size is None:
        return usual
    if len(output_size) == rank + 2:
        output_size = output_size[2:]
    if len(output_size) != rank:
        raise ValueError(
            f"output_size should be a sequence containing {rank} or {rank + 2} elements, but it has a length of "
            f"'{len(output_size)}'"
        )
    for dim, (n, m, s) in enumerate(zip(output_size, usual, stride)):
        if n >= 0 and not m - s < n < m + s:  # a negative one is refused with the others
            raise ValueError(
                f'invalid output_size "{tuple(output_size)}" (dim {dim} must be between {m - s} and {m + s})'
            )
    return tuple(output_size)


def _max_unpool(
    name: str, rank: int, input: Tensor, indices: Tensor, kernel_size: Any, stride: Any, padding: Any, output_size: Any
) -> Tensor:
    nondeterministic(f"max_unpooling{max(rank, 2)}d_forward_out")
    if kernel_size == () and rank > 1:
        wanted = "two elements (height, width)" if rank == 2 else "three elements (depth, height, width)"
        raise RuntimeError(f"There should be exactly {wanted} in output_size, but got 0 elements.")
    kernel = spread(name, "kernel_size", kernel_size, rank)
    step = kernel if stride is None else spread(name, "stride", stride, rank)
    shape = input._array.shape
    if len(shape) not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"Input to {name} should be a {rank + 1}d or {rank + 2}d Tensor, but got a tensor with {len(shape)} dimensions."
        )
    size = _size(kernel, step, spread(name, "padding", padding, rank), shape, output_size)
    for dim, n in enumerate(size):
        if n < 0:
            raise ValueError(
                "max_unpooling: output_size must contain non-negative spatial dimensions, but got "
                f"output_size[{dim}]={n}"
            )
    if indices.dtype is not int64:
        raise RuntimeError(f"elements in indices should be type int64 but got: {type_name(indices.dtype)}")
    if indices._array.shape != shape:
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(shape)}) but got indices tensor "
            f"with shape: {list(indices._array.shape)}"
        )
    if 0 in shape[-rank:] or min(step) <= 0:
        raise RuntimeError(
            f"{name}: sizes and strides should be greater than zero, but got input {list(shape)}, stride {list(step)} "
            f"and output size {list(size)}"
        )
    if input.dtype.category != FLOATING:
        raise not_implemented(name, input.dtype)
    lead, places = shape[:-rank], math.prod(size)
    if not places:
        return ops.new_zeros(input, (*lead, *size))
    flat = ops.reshape(indices, (*lead, math.prod(shape[-rank:])))
    values = ops.reshape(input, flat._array.shape)
    try:
        made = into_zeros(scatter_op, (*lead, places), values, flat, values, len(lead))
    except (IndexError, RuntimeError):
        raise RuntimeError(
            f"Found an invalid max index (output volumes are of size {'x'.join(map(str, size))})"
        ) from None
    made = ops.reshape(made, (*lead, *size))
    if rank == 2 and len(shape) == 4 and is_channels_last(shape, input._array.strides):
        return in_format(made, channels_last)
    return made


def _define(rank: int) -> None:
    name = f"max_unpool{rank}d"

    def unpool(
        input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
    ) -> Tensor:
        return _max_unpool(name, rank, input, indices, kernel_size, stride, padding, output_size)

    unpool.__doc__ = f"""Puts maxima back where `max_pool{rank}d` found them; all other elements are zero.

    `output_size` tells apart sizes that pool to the same.

    >>> import flambeau as torch
    >>> value, place = torch.full({(1,) * (rank + 1)}, 5.0), torch.full({(1,) * (rank + 1)}, 1)
    >>> torch.nn.functional.{name}(value, place, 2).flatten()[:3]
    tensor([0., 5.{"" if rank == 1 else ", 0."}])
    """
    unpool.__name__ = unpool.__qualname__ = name
    label = "SqueezeBackward1" if rank == 1 else f"MaxUnpool{rank}DBackward0"
    public(f"nn.functional.{name}", method=False)(labelled(label)(unpool))


for _rank in (1, 2, 3):
    _define(_rank)


SCHEMAS = """
max_unpool2d  # autocast=cpu:single
max_unpool3d  # autocast=cpu:single
max_unpool1d  # composite
"""
