"""Copies in another arrangement: flipped, rolled, repeated, padded, triangles, diagonals, one-hot codes."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..._backend.copies import duplicate, in_order_of, row_major
from ..._backend.cpu import cpu
from ..._backend.cuda_layout import Operand
from ..._core.allocation import empty
from ..._core.dtypes import from_numpy_dtype, int32, int64
from ..._core.layouts import contiguous_format
from ..._core.sizes import check_room, size_argument, wrap_dim, wrap_dims
from ..._core.state import DISPATCH, META, modes
from ..._core.steps import tell
from ..._dispatch import backend_of
from ..._kernel.loops.lang import independent, kernel
from ..._kernel.places.elements import keep_one
from ..._tensor import Tensor, wrap
from ..places.device_places import BITS
from ..places.index_kernels import first_outside, scatter
from ..records.batching import along, leading, repeated, rolled
from ..records.primitive import primitive
from ..records.refusals import refusal
from ..records.shape_rules import dense, same
from ..records.tangents import linear
from ..registry import labelled, ops, public, relabel
from .joining_arrays import joined, joined_on_device
from .parts import diagonal_op, place_diagonal
from .views import by_name

# -- order of elements -------------------------------------------------------------------------------------------


@primitive(
    name="flip",
    grad={"x": lambda g, dims: flip_op(g, dims)},
    batch=along,
    meta=dense,
    tangent=linear("x"),
    planned=True,
)
def flip_op(backend: Any, x: Any, dims: tuple[int, ...]) -> Any:
    dims = tuple([d for d in dims if x.shape[d] > 1])  # what is left of the others is no copy yet
    if not dims:
        return duplicate(x)
    turned = x[_backwards(x.ndim, dims)]
    return in_order_of(x, turned) if isinstance(x, np.ndarray) else backend.duplicate(turned)


@functools.lru_cache(1024)
def _backwards(ndim: int, dims: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple([slice(None, None, -1) if d in dims else slice(None) for d in range(ndim)])


_wrapped_dims = functools.lru_cache(1024)(wrap_dims)


@public()
def flip(input: Tensor, *dims: Any, **named: Any) -> Tensor:
    """The elements of some dimensions in reverse order, as a copy.

    >>> import flambeau as torch
    >>> torch.arange(3).flip(0)
    tensor([2, 1, 0])
    """
    if named:
        dims = by_name("flip", dims, named, "dims")
    elif not dims:
        raise TypeError('flip() missing 1 required positional arguments: "dims"')
    given = size_argument(dims, "dims")
    return flip_op.call(input, _wrapped_dims(given, input._array.ndim) if given else ())


@public(planned=True)
def fliplr(input: Tensor) -> Tensor:
    """The columns in reverse order."""
    if input._array.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip_op(input, (1,))


@public(planned=True)
def flipud(input: Tensor) -> Tensor:
    """The rows in reverse order."""
    if input._array.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip_op(input, (0,))


@primitive(
    name="roll", meta=same,
    grad={"x": lambda g, shifts, dims: roll_op(g, tuple([-s for s in shifts]), dims)},
    batch=rolled,
    tangent=linear("x"),
    planned=True,
)  # fmt: skip
def roll_op(backend: Any, x: Any, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    for shift, dim in zip(shifts, dims):
        cut, before = -shift % max(x.shape[dim], 1), (slice(None),) * dim
        parts = [x[(*before, slice(cut, None))], x[(*before, slice(cut))]]
        x = joined(parts, dim) if backend is cpu else joined_on_device(backend, parts, dim)
    return x


@public(planned=True)
def roll(input: Tensor, shifts: Any, dims: Any = ()) -> Tensor:
    """The elements moved on by `shifts` along `dims`; what leaves at the end comes back at the start.

    >>> import flambeau as torch
    >>> torch.arange(4).roll(1)
    tensor([3, 0, 1, 2])
    """
    steps = (shifts,) if isinstance(shifts, int) else size_argument((shifts,), "shifts")
    along = () if dims is None else (dims,) if isinstance(dims, int) else size_argument((dims,), "dims")
    if not steps:
        raise RuntimeError("`shifts` required")
    if not along and len(steps) == 1:
        return (
            relabel(ops.reshape(roll_op(ops.reshape(input, (-1,)), steps, (0,)), input._array.shape), "RollBackward0")
            if input._array.size
            else ops.clone(input)
        )
    if len(steps) != len(along):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(steps)}, dims:{len(along)}")
    ndim = input._array.ndim
    wrapped = tuple([wrap_dim(d, ndim) for d in along])
    if not ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    return roll_op.call(input, steps, wrapped)


@public(planned=True)
@labelled("Rot90Backward0")
def rot90(input: Tensor, k: int = 1, dims: Any = (0, 1)) -> Tensor:
    """The tensor turned by k right angles in the plane of two dimensions."""
    plane, ndim = size_argument((dims,), "dims"), input._array.ndim
    if len(plane) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(plane)}")
    if ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {ndim}")
    a, b = (wrap_dim(d, ndim) for d in plane)
    if a == b:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {plane[0]} and dim1 = {plane[1]}")
    turns = k % 4
    if turns == 1:
        return ops.transpose(flip_op(input, (b,)), a, b)
    if turns == 2:
        return flip_op(input, (a, b))
    if turns == 3:
        return ops.transpose(flip_op(input, (a,)), a, b)
    return ops.clone(input)


# -- repetition --------------------------------------------------------------------------------------------------


@functools.lru_cache(1024)
def _tiling(shape: tuple[int, ...], times: tuple[int, ...]) -> tuple[Any, ...]:
    """Of copies of a shape side by side: the shape with room for them, with them, which dimensions they are, and the
    result's shape."""
    spread: list[int] = []
    wide: list[int] = []
    copies, full = [], []
    for n, r in zip((1,) * (len(times) - len(shape)) + shape, times):
        if r != 1:
            copies.append(len(wide))
            spread.append(1)
            wide.append(r)
        spread.append(n)
        wide.append(n)
        full.append(n * r)
    return tuple(spread), tuple(wide), tuple(copies), tuple(full)


def _repeat_gradient(g: Tensor, x_shape: Any, times: tuple[int, ...]) -> Tensor:
    _, wide, copies, _ = _tiling(x_shape, times)
    made = ops.sum(ops.reshape(g, wide), copies) if copies else g
    return made if made._array.shape == x_shape else ops.reshape(made, x_shape)


@primitive(
    name="repeat", grad={"x": _repeat_gradient},
    meta=lambda x, times: (_tiling(x.shape, times)[3], from_numpy_dtype(x.dtype)),
    batch=repeated,
    tangent=linear("x"),
    planned=True,
)  # fmt: skip
def repeat_op(backend: Any, x: Any, times: tuple[int, ...]) -> Any:
    spread, wide, _, full = _tiling(x.shape, times)
    if backend is cpu:
        return row_major(np.broadcast_to(x.reshape(spread), wide)).reshape(full)
    out = backend.empty(wide, x.dtype)
    backend.copy(x.reshape(spread), out)
    return out.reshape(full)


@public("Tensor.repeat")
def repeat(input: Tensor, *repeats: Any, **named: Any) -> Tensor:
    """Copies of the tensor side by side along each dimension.

    >>> import flambeau as torch
    >>> torch.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    times = size_argument(by_name("repeat", repeats, named, "repeats"), "repeats")
    if len(times) < input._array.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    if times and min(times) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(times)}: {list(times)}")
    array = input._array
    if max(times, default=0) > 1 << 31 and math.prod(times) * array.size * array.itemsize >= 1 << 63:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(_tiling(array.shape, times)[3])}")
    return repeat_op.call(input, times)


@public()
def tile(input: Tensor, *dims: Any, **named: Any) -> Tensor:
    """Copies of the tensor side by side; missing numbers of copies count as 1."""
    times = size_argument(by_name("tile", dims, named, "dims"), "dims")
    return repeat(input, (1,) * (input._array.ndim - len(times)) + tuple(times))


@public()
def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Every element repeated in place: by one number, or by a number for each.

    >>> import flambeau as torch
    >>> torch.tensor([1, 2]).repeat_interleave(torch.tensor([1, 2]))
    tensor([1, 2, 2])
    """
    if repeats is None:
        return _interleaved_positions(input, output_size)
    if dim is None:
        input, dim = ops.flatten(input), 0
    shape = input._array.shape
    dim = wrap_dim(dim, len(shape))
    if isinstance(repeats, (list, tuple)):
        repeats = ops.tensor(list(repeats), dtype=int64, device=input.device)
    if (
        isinstance(repeats, Tensor)
        and repeats._array.size == 1
        and repeats._array.ndim <= 1
        and repeats.dtype in (int32, int64)
    ):
        tell("elements_read", repeats)
        repeats = int(repeats._array.reshape(())[()])
    if not isinstance(repeats, Tensor):
        if not shape:
            input, shape = ops.reshape(input, (1,)), (1,)
        if repeats < 0:
            raise RuntimeError("Repeats must be non-negative")
        wide = ops.expand(ops.unsqueeze(input, dim + 1), (*shape[: dim + 1], repeats, *shape[dim + 1 :]))
        made = ops.clone(
            wide, memory_format=contiguous_format
        )  # always: a view would be written to for all repetitions
        made = ops.reshape(made, (*shape[:dim], shape[dim] * repeats, *shape[dim + 1 :]))
        _check_output_size(made._array.shape[dim], output_size)
        return relabel(made, "ViewBackward0")
    if repeats._array.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    extent = shape[dim] if shape else 1
    if repeats._array.shape[0] != extent:
        raise RuntimeError(
            f"repeats must have the same size as input along dim, got {repeats._array.shape[0]} and {extent}"
        )
    return ops.index_select(input, dim, _interleaved_positions(repeats, output_size))


def _interleaved_positions(repeats: Tensor, output_size: int | None) -> Tensor:
    """0 as often as the first number says, then 1 as often as the second, …"""
    counts = repeats._array
    if repeats.dtype not in (int32, int64):
        raise NotImplementedError(f"repeat_interleave: repeats must be int32 or int64, got {repeats.dtype.name}")
    if counts.ndim != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    if counts.size and counts.min() < 0:
        raise RuntimeError("repeats can not be negative")
    if (
        counts.size and int(counts.max()) * counts.size >= 1 << 62
    ):  # the sum may not fit 64 bits: added up in two halves
        wide = counts.astype(np.int64)
        check_room((int((wide >> 32).sum()) << 32) + int((wide & 0xFFFFFFFF).sum()))
    xp = backend_of(repeats._k).xp
    positions = xp.repeat(xp.arange(counts.size, dtype=counts.dtype), counts)
    _check_output_size(positions.size, output_size)
    return wrap(positions, repeats.dtype, repeats._k & ~1)


def _check_output_size(size: int, wanted: int | None) -> None:
    if wanted is not None and size != wanted:
        raise RuntimeError(f"repeat_interleave: Invalid output_size {wanted}, the repeated elements are {size}")


# -- triangles and diagonals -------------------------------------------------------------------------------------


@kernel("(n),(b)->(n)")
def keep_columns(m: Any, x: Any, bounds: Any, out: Any) -> None:
    """x from bounds[0] to bounds[1], which are inside, and zeros before and after."""
    first, last = bounds[0], bounds[1]
    for c in independent(first):
        out[c] = 0
    for c in independent(first, last):
        out[c] = x[c]
    for c in independent(last, out.n):
        out[c] = 0


_FEW = 1 << 12  # rows of a triangle that is remembered


@functools.lru_cache(64)
def _kept_columns(rows: int, columns: int, diagonal: int, lower: bool) -> Any:
    """For each row of a triangle the first column that belongs to it, and the first after those."""
    diagonal = max(-rows - 1, min(diagonal, columns))
    edge = np.clip(np.arange(rows) + (diagonal + lower), 0, columns)
    other = np.full_like(edge, 0 if lower else columns)
    made = np.stack([other, edge] if lower else [edge, other], 1)
    made.flags.writeable = False
    return made


def _triangle(name: str, lower: bool) -> Any:
    def gradient(g: Tensor, diagonal: int) -> Tensor:
        return record(g, diagonal)

    def part(backend: Any, x: Any, diagonal: int) -> Any:
        rows, columns = x.shape[-2:]
        if backend is cpu:
            bounds = (_kept_columns if rows <= _FEW else _kept_columns.__wrapped__)(rows, columns, diagonal, lower)
            out = empty(x.shape, x.dtype)
            code, wide = BITS[x.dtype.itemsize]
            types = (code, "i64", code)
            cpu.sized(x.size, keep_columns, types)(x.view(wide), bounds, out.view(wide))
            return out
        out, code, sign = backend.empty(x.shape, x.dtype), BITS[x.dtype.itemsize][0], 1 if lower else -1
        steps = (*[0] * (x.ndim - 2), sign, -sign)  # how far an element is inside
        backend.kernel(keep_one, (code, "place", code))(x, (sign * diagonal, Operand(x.shape, steps, x.dtype)), out)
        return out

    record = primitive(name=name, grad={"x": gradient}, batch=leading, meta=same, tangent=linear("x"))(part)

    def function(input: Tensor, diagonal: int = 0) -> Tensor:
        if input._array.ndim < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
        return record(input, diagonal.__index__())

    function.__name__ = function.__qualname__ = name
    side = "below" if lower else "above"
    function.__doc__ = f"The part of each matrix on and {side} a diagonal; zeros elsewhere."
    return public(out="exact", inplace=True, planned=True)(function)


tril = _triangle("tril", True)
triu = _triangle("triu", False)


@public(out="exact", planned=True)
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """The matrix with a vector on a diagonal, or a copy of a matrix's diagonal.

    >>> import flambeau as torch
    >>> torch.diag(torch.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    ndim = input._array.ndim
    if ndim == 1:
        extent = input._array.shape[0] + abs(diagonal)
        return relabel(place_diagonal(input, (extent, extent), diagonal, 0, 1), "DiagEmbedBackward0")
    if ndim == 2:
        return relabel(ops.clone(diagonal_op(input, diagonal, 0, 1)), "DiagonalBackward0_copy")
    raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {ndim}D")


@public(planned=True)
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """The matrix with all elements of `input` on a diagonal."""
    return diag(ops.reshape(input, (-1,)) if input._array.size else ops.reshape(input, (0,)), offset)


@public(out=True, planned=True)
@labelled("TraceBackward0")
def trace(input: Tensor) -> Tensor:
    """The sum of a matrix's diagonal."""
    if input._array.ndim != 2:
        raise RuntimeError("trace: expected a matrix")
    return ops.sum(diagonal_op(input, 0, 0, 1))


# -- codes -----------------------------------------------------------------------------------------------------------


@refusal
def _check_classes(backend: Any, x: Any, limit: int) -> None:
    if first_outside(backend, x, 0, limit) is not None:
        wanted = "non-negative" if x.min() < 0 else "smaller than num_classes"
        raise RuntimeError(f"Class values must be {wanted}.")


@public("nn.functional.one_hot", method=False, planned=True)
def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """A new last dimension with 1 at the index that the element was, 0 elsewhere.

    >>> import flambeau as torch
    >>> torch.nn.functional.one_hot(torch.tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    if input.dtype is not int64:
        raise RuntimeError(f"one_hot is only applicable to index tensor of type LongTensor, got {input.dtype}.")
    x = input._array
    if x.size == 0:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return ops.zeros((*x.shape, num_classes), dtype=int64, device=input.device)
    limit = (1 << 63) - 1 if num_classes == -1 else num_classes
    if (input._k | modes.on) & (META | DISPATCH):  # by operations that can be seen
        _check_classes(input, limit)
        count = int(ops.max(input).item()) + 1 if num_classes == -1 else num_classes
        return ops.to_dtype(ops.eq(ops.unsqueeze(input, -1), ops.arange(count, device=input.device)), int64)
    backend = backend_of(input._k)
    if backend is cpu or num_classes < 1:  # otherwise a GPU looks at classes where it writes
        _check_classes.check(backend, x, limit)
    if num_classes == -1:
        num_classes = int(x.max()) + 1
    codes = backend.zeros((*x.shape, num_classes), np.dtype(np.int64))
    scatter(backend, codes, x.ndim, x.reshape(*x.shape, 1), np.ones((), np.int64), "set")
    return wrap(codes, int64, input._k & ~1)


SCHEMAS = """
flip(Tensor self, int[] dims) -> Tensor
fliplr|flipud(Tensor self) -> Tensor
roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor
rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor
repeat(Tensor self, SymInt[] repeats) -> Tensor
tile(Tensor self, SymInt[] dims) -> Tensor
repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor
repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor
repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor
triu|tril(Tensor self, SymInt diagonal=0) -> Tensor
diag(Tensor self, int diagonal=0) -> Tensor
diagflat(Tensor self, int offset=0) -> Tensor
trace(Tensor self) -> Tensor  # autocast=cpu:single
one_hot(Tensor self, int num_classes=-1) -> Tensor  # builtin
"""
