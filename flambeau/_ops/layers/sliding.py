"""Blocks that slide over images, laid out as columns (`unfold`) and added up again (`fold`)."""

from __future__ import annotations

import math
from typing import Any

from ..._backend.cpu import cpu
from ..._core.dtypes import INTEGER
from ..._tensor import Tensor
from ..records import batching
from ..records.primitive import primitive
from ..records.rules import not_implemented
from ..records.shape_rules import dtype_of
from ..records.tangents import linear
from ..registry import ops, public
from .convolution import matrices
from .convolution.columns import folded, unfolded
from .convolution.description import CODES, Ints, spread
from .convolution.description import output_size as counts_of


def _column_shape(x: Any, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Any:
    counts = counts_of(x.shape[2:], kernel, stride, padding, dilation)
    return (x.shape[0], x.shape[1] * math.prod(kernel), math.prod(counts)), dtype_of(x)


@primitive(
    meta=_column_shape,
    name="im2col", backward_name="Im2ColBackward0",
    grad={"x": lambda g, x_shape, kernel, dilation, padding, stride: col2im(
        g, tuple(x_shape[2:]), kernel, dilation, padding, stride)},
    batch=batching.folded(),
    tangent=linear("x"),
)  # fmt: skip
def im2col(backend: Any, x: Any, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Any:
    """(N, C, H, W) to (N, C * elements of a block, blocks)."""
    if backend is cpu and x.dtype in CODES:
        counts = counts_of(x.shape[2:], kernel, stride, padding, dilation)
        return unfolded(x, kernel, stride, padding, dilation, counts)
    blocks = matrices.windows(backend, matrices.padded(backend, x, padding), kernel, stride, dilation)
    count = math.prod(blocks.shape[4:])
    return backend.xp.ascontiguousarray(blocks).reshape(x.shape[0], x.shape[1] * math.prod(kernel), count)


@primitive(
    meta=lambda x, size, kernel, *rest: ((x.shape[0], x.shape[1] // math.prod(kernel), *size), dtype_of(x)),
    name="col2im", backward_name="Col2ImBackward0",
    grad={"x": lambda g, kernel, dilation, padding, stride: im2col(g, kernel, dilation, padding, stride)},
    batch=batching.folded(),
    tangent=linear("x"),
)  # fmt: skip
def col2im(backend: Any, x: Any, size: Ints, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Any:
    """The adjoint of `im2col`: blocks are added where they came from."""
    count = counts_of(size, kernel, stride, padding, dilation)
    if backend is cpu and x.dtype in CODES:
        return folded(x, size, kernel, stride, padding, dilation, count)
    columns = x.reshape(x.shape[0], x.shape[1] // math.prod(kernel), *kernel, *count)
    return backend.xp.ascontiguousarray(matrices.add_windows(backend, columns, size, stride, padding, dilation))


def _numbers(name: str, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> tuple[Ints, Ints, Ints, Ints]:
    kernel, spacing = spread(name, "kernel_size", kernel_size, 2), spread(name, "dilation", dilation, 2)
    around, step = spread(name, "padding", padding, 2), spread(name, "stride", stride, 2)
    for label, values in (("kernel size", kernel), ("stride", step), ("dilation", spacing)):
        if min(values) <= 0:
            raise RuntimeError(f"{label} should be greater than zero, but got {values}")
    if min(around) < 0:
        raise RuntimeError(f"padding should be non-negative, but got {around}")
    return kernel, spacing, around, step


def _check(name: str, input: Any) -> None:
    if input.dtype.category == INTEGER:
        raise not_implemented(name, input.dtype)


@public("nn.functional.unfold", method=False, planned=True)
def functional_unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The blocks that slide over images, as columns: (N, C, H, W) becomes (N, C * block, number of blocks).

    >>> import flambeau as torch
    >>> torch.nn.functional.unfold(torch.arange(4.0).reshape(1, 2, 2), (1, 2))
    tensor([[0., 2.],
            [1., 3.]])
    """
    kernel, spacing, around, step = _numbers("unfold", kernel_size, dilation, padding, stride)
    _check("im2col", input)
    shape = input._array.shape
    if len(shape) < 3:
        raise IndexError(f"unfold: expected an input of 3 or 4 dimensions, but got one of size {list(shape)}")
    if len(shape) > 4 or 0 in shape[-3:]:
        raise RuntimeError(
            f"Expected 3D or 4D (batch mode) tensor for unfold, empty at most in its batch, got {list(shape)}"
        )
    count = counts_of(shape[-2:], kernel, step, around, spacing)
    if min(count) < 1:
        raise RuntimeError(
            f"unfold: no block of kernel_size={kernel}, dilation={spacing}, padding={around} fits into "
            f"{tuple(shape[-2:])}: calculated shape of the array of sliding blocks as {count}, but its components "
            "must be at least one"
        )
    if len(shape) == 3:
        return ops.squeeze(im2col(ops.unsqueeze(input, 0), kernel, spacing, around, step), 0)
    return im2col(input, kernel, spacing, around, step)


@public("nn.functional.fold", method=False, planned=True)
def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Adds blocks, given as columns, up to images of `output_size`: the adjoint of `unfold`.

    >>> import flambeau as torch
    >>> torch.nn.functional.fold(torch.ones(1, 2, 2), (1, 3), (1, 2)).flatten()
    tensor([1., 2., 1.])
    """
    size = spread("fold", "output_size", output_size, 2)
    kernel, spacing, around, step = _numbers("fold", kernel_size, dilation, padding, stride)
    _check("col2im", input)
    shape = input._array.shape
    if len(shape) not in (2, 3) or 0 in shape[-2:]:
        raise RuntimeError(
            f"Expected 2D or 3D (batch mode) tensor for fold, empty at most in its batch, got {list(shape)}"
        )
    if math.prod(kernel) >= 1 << 63:
        raise RuntimeError(
            f"fold: the product of kernel_width and kernel_height overflowed, kernel_size is {list(kernel)}"
        )
    if shape[-2] % math.prod(kernel):
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, "
            f"got {shape[-2]} and {kernel}"
        )
    count = counts_of(size, kernel, step, around, spacing)
    given = f"output_size={size}, kernel_size={kernel}, dilation={spacing}, padding={around}, stride={step}"
    if min(count) < 1:
        raise RuntimeError(
            f"fold: given {given}, calculated shape of the array of sliding blocks as {count}, but its components must be "
            "at least one"
        )
    if math.prod(count) != shape[-1]:
        raise RuntimeError(
            f"fold: given {given}, expected size of input's dimension {len(shape) - 1} to match the calculated number of "
            f"sliding blocks {count[0]} * {count[1]} = {math.prod(count)}, but got {shape[-1]}"
        )
    if len(shape) == 2:
        return ops.squeeze(col2im(ops.unsqueeze(input, 0), size, kernel, spacing, around, step), 0)
    return col2im(input, size, kernel, spacing, around, step)
