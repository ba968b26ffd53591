"""Views with dimensions of extent 1 added, taken away or repeated: unsqueeze, squeeze, expand."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ..._core.config import memory_problem
from ..._core.layouts import byte_strides
from ..._core.sizes import broadcast_shapes, size_argument, wrap_dim
from ..._core.state import modes
from ..._tensor import Tensor
from ..records import batching
from ..records.batching import inserted, squeezed
from ..records.view_op import view_of, view_primitive
from ..registry import ops, public
from .striding import strided
from .views import by_name, reshape


@view_primitive(lambda g, x_shape, dim: squeeze(g, dim), "unsqueeze", batch=inserted)
def unsqueeze_op(backend: Any, x: Any, dim: int) -> Any:
    shape, strides = x.shape, byte_strides(x)
    step = shape[dim] * strides[dim] if dim < len(shape) else x.itemsize
    return strided(x, shape[:dim] + (1,) + shape[dim:], strides[:dim] + (step,) + strides[dim:])


def unsqueeze(input: Tensor, dim: Any = None, *, axis: int | None = None) -> Tensor:
    """A view with one dimension of extent 1 more.

    >>> import flambeau as torch
    >>> torch.zeros(2, 3).unsqueeze(1).shape
    torch.Size([2, 1, 3])
    """
    x = input._array
    shape = x.shape
    if dim is None:
        dim = axis
    if dim.__class__ is not int or not 0 <= dim <= len(shape):
        dim = wrap_dim(dim, len(shape) + 1)
    if (input._k | modes.on) <= 1:
        return view_of(unsqueeze_op, input, unsqueeze_op.forward(None, x, dim), (dim,))
    return unsqueeze_op(input, dim)


def _squeezed(backend: Any, x: Any, dims: tuple[int, ...]) -> Any:
    return x.reshape(x.shape[:0]) if not x.ndim else x.squeeze(dims)


def _unsqueezed(g: Tensor, x_shape: Any, dims: Any) -> Tensor:
    return reshape(g, x_shape)


squeeze_all_op = view_primitive(_unsqueezed, "squeeze", "SqueezeBackward0", batch=squeezed)(_squeezed)
squeeze_one_op = view_primitive(_unsqueezed, "squeeze_dim", "SqueezeBackward1", batch=squeezed)(_squeezed)
squeeze_op = view_primitive(_unsqueezed, "squeeze_dims", "SqueezeBackward2", batch=squeezed)(_squeezed)


def squeeze(input: Tensor, *dim: Any, **named: Any) -> Tensor:
    """A view without the dimensions of extent 1: all of them, or those named.

    >>> import flambeau as torch
    >>> torch.zeros(1, 2, 1).squeeze(0).shape
    torch.Size([2, 1])
    """
    x = input._array
    shape = x.shape
    if named:
        dim = by_name("squeeze", dim, named, "axis", "dim")
    if not dim:
        op, dims = squeeze_all_op, tuple([d for d, n in enumerate(shape) if n == 1])
    elif len(dim) == 1 and not isinstance(dim[0], (tuple, list)):
        d = wrap_dim(dim[0], len(shape))
        op, dims = squeeze_one_op, (d,) if shape and shape[d] == 1 else ()
    else:
        wrapped = [wrap_dim(d, len(shape)) for d in size_argument(dim, "dim")]
        if len(set(wrapped)) != len(wrapped):
            raise RuntimeError("dim appears multiple times in the list of dims")
        op, dims = squeeze_op, tuple([d for d in wrapped if shape and shape[d] == 1])
    if (input._k | modes.on) <= 1:
        return view_of(op, input, x.squeeze(dims) if dims else x[...], (dims,))
    return op(input, dims)


@view_primitive(lambda g, x_shape, shape: ops.sum_to(g, x_shape), "expand", batch=batching.expanded)
def expand_op(backend: Any, x: Any, shape: tuple[int, ...]) -> Any:
    return expanded(x, shape)


def expanded(x: Any, shape: Sequence[int]) -> Any:
    """An array repeated without copying to a full shape; strides of repeated dimensions are zero."""
    return strided(x, *_expansion(x.shape, byte_strides(x), tuple(shape)))


@functools.lru_cache(1024)
def _expansion(old: Any, steps: Any, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides of an expanded array."""
    new = len(shape) - len(old)
    full, strides = list(shape), [0] * len(shape)
    if new < 0:
        raise RuntimeError(
            f"expand: the number of sizes provided ({len(shape)}) must be greater or equal to the number of "
            f"dimensions ({len(old)})"
        )
    for i in range(len(full) - 1, -1, -1):
        n = full[i]
        if i >= new:
            have = old[i - new]
            step = steps[i - new]
            if n == have or n == -1:
                full[i] = have
            elif have == 1 and n >= 0:
                step = 0
            else:
                raise RuntimeError(
                    f"The expanded size of the tensor ({n}) must match the existing size ({have}) at non-singleton "
                    f"dimension {i}: {list(old)} cannot become {list(shape)}"
                )
        elif n < 0:
            raise RuntimeError(
                f"The expanded size of the tensor ({n}) isn't allowed in a leading, non-existing dimension {i}"
            )
        else:
            step = full[i + 1] * strides[i + 1] if n == 1 and old else 0
        strides[i] = step
    return tuple(full), tuple(strides)


def expand(input: Tensor, *size: Any, **named: Any) -> Tensor:
    """A view whose dimensions of extent 1 are repeated without copying; -1 keeps an extent.

    >>> import flambeau as torch
    >>> torch.tensor([[1], [2]]).expand(-1, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    if named or not size:
        named.pop("implicit", None)
        size = by_name("expand", size, named, "size")
    shape = size if size[0].__class__ is int else size_argument(size)
    if (input._k | modes.on) <= 1:
        try:
            made = expanded(input._array, shape)
        except ValueError as error:
            raise (memory_problem(error) or error) from None
        return view_of(expand_op, input, made, (made.shape,))
    return expand_op(input, shape)


@public("Tensor.expand_as")
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """`input` expanded to the shape of `other`."""
    return ops.expand(input, other._array.shape)


def broadcast_to(input: Tensor, *size: Any, **named: Any) -> Tensor:
    """`input` expanded to a shape."""
    return expand(input, *size, **named)


@public(method=False)
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """All tensors expanded to their common shape.

    >>> import flambeau as torch
    >>> [x.shape for x in torch.broadcast_tensors(torch.zeros(3), torch.zeros(2, 1))]
    [torch.Size([2, 3]), torch.Size([2, 3])]
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    shape = broadcast_shapes(*[x._array.shape for x in tensors])
    return tuple([x if x._array.shape == tuple(shape) else ops.expand(x, shape) for x in tensors])


for _function in (unsqueeze, squeeze, broadcast_to):
    public(views=True)(_function)
public("Tensor.expand", views=True)(expand)


SCHEMAS = """
broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)
expand_as(Tensor(a) self, Tensor other) -> Tensor(a)
squeeze(Tensor(a) self) -> Tensor(a)
unsqueeze(Tensor(a) self, int dim) -> Tensor(a)
squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)
squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)
expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)
broadcast_tensors(Tensor[] tensors) -> Tensor[]  # python, composite
squeeze_dim|squeeze_dims  # record=squeeze
"""
