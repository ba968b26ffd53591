"""Views by strides: what memory an array looks into, `as_strided` in any form, and its derivative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._core.dtypes import from_numpy_dtype
from ..._core.layouts import byte_strides, element_strides, is_disjoint, reach_of
from ..._core.sizes import contiguous_strides, size_argument
from ..._core.state import META
from ..._kernel.native.direct import start_of
from ..._tensor import Tensor, storage_of
from ..records import primitive as primitive_records
from ..records.batching import strided_backward
from ..records.primitive import primitive
from ..records.shape_rules import dtype_of, same
from ..records.tangents import linear
from ..registry import ops, public

_ndarray = np.ndarray


def owner_of(x: Any) -> Any:
    """The array that owns the memory an array looks into."""
    while isinstance(x.base, _ndarray):
        x = x.base
    return x


def address(x: Any) -> int:
    """Where the first element lies."""
    return start_of(x) if isinstance(x, _ndarray) else x.data.ptr


def byte_bounds(x: Any) -> tuple[int, int]:
    """The range of addresses between an array's first and past its last byte."""
    low = high = address(x)
    if not x.size:
        return low, low
    for n, s in zip(x.shape, x.strides):
        if s < 0:
            low += (n - 1) * s
        else:
            high += (n - 1) * s
    return low, high + x.itemsize


def strided(x: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> Any:
    """Another view of an array's memory, all in bytes, `offset` from its first element. The caller checks bounds."""
    kind = x.__class__
    if not isinstance(x, _ndarray):
        # what has no elements may have no memory either, in which nothing lies further on
        return kind(shape, x.dtype, x.data + offset if offset and x.size else x.data, strides)
    if kind is not _ndarray:  # it is watched, or has no elements
        return strided(x.view(_ndarray), shape, strides, offset).view(kind)
    if x.flags.c_contiguous and offset >= 0 and x.size:
        try:
            return _ndarray(shape, x.dtype, x, offset, strides)
        except (TypeError, ValueError):  # the view goes beyond `x` itself
            pass
    owner = owner_of(x)
    if not owner.flags.c_contiguous:
        if not owner.flags.f_contiguous:  # memory that is not ours: a view of a foreign buffer
            return foreign(x, shape, strides, offset)
        owner = owner.T
    if not owner.nbytes:
        return _ndarray(shape, x.dtype, owner, 0, strides)
    raw = owner.reshape(-1).view(np.uint8)
    start = address(x) - address(raw) + offset
    return _ndarray(shape, x.dtype, raw, min(start, raw.size) if 0 in shape else start, strides)


def with_strides(x: Any) -> Any:
    """The array itself, but with strides if NumPy has made it without elements and gave it none."""
    return x if x.size else strided(x, x.shape, byte_strides(x))


def basic_part(x: Any, key: tuple[Any, ...]) -> Any:
    """x[key] for numbers, slices, None and `...`, with the strides and the place in memory that PyTorch gives: NumPy's are others where a
    dimension is new or nothing is left of one."""
    sizes, steps = x.shape, byte_strides(x)
    shape: list[int] = []
    strides: list[int] = []
    dim = offset = 0
    for item in key:
        if item is None:  # as `unsqueeze` does it, before what follows is cut
            shape.append(1)
            strides.append(sizes[dim] * steps[dim] if dim < len(sizes) else x.itemsize)
            continue
        if item is Ellipsis:
            end = dim + len(sizes) - sum([i is not None and i is not Ellipsis for i in key])
            if end < dim:
                raise IndexError("too many indices")
            shape += sizes[dim:end]
            strides += steps[dim:end]
            dim = end
            continue
        if item.__class__ is slice:
            start, stop, step = item.indices(sizes[dim])
            shape.append(max(0, -((start - stop) // step)))
            strides.append(steps[dim] * step)
        else:
            start = item if item >= 0 else item + sizes[dim]
            if not 0 <= start < sizes[dim]:
                raise IndexError("index out of range")
        offset += start * steps[dim]
        dim += 1
    return strided(x, (*shape, *sizes[dim:]), (*strides, *steps[dim:]), offset)


def cut(x: Any, key: tuple[Any, ...]) -> Any:
    """x[key] for slices alone."""
    made = x[key]
    return made if made.size else basic_part(x, key)


class _Memory:
    """Lends an address range to NumPy while keeping its owner alive."""

    def __init__(self, x: Any, shape: Any, strides: Any, offset: int, writeable: bool):
        self.owner = x
        self.__array_interface__ = {
            "data": (address(x) + offset, not writeable), "shape": shape, "strides": strides,
            "typestr": f"|V{x.itemsize}", "version": 3,
        }  # fmt: skip


def foreign(x: Any, shape: Any, strides: Any, offset: int, writeable: bool | None = None) -> Any:
    """A view of memory that is not ours, which `x` keeps alive; writeable if `x` is, where nothing else is said."""
    writeable = x.flags.writeable if writeable is None else writeable
    return np.asarray(_Memory(x, shape, strides, offset, writeable)).view(x.dtype)


def view_strides(shape: Sequence[int], strides: Sequence[int], wanted: Sequence[int]) -> tuple[int, ...] | None:
    """Strides under which memory of (shape, strides) reads as `wanted` without a copy; None if there are none.

    Neighbouring dimensions that follow one another in memory form a run; each run must be cut up by itself. Extents of 1 belong to the
    run behind them, and new ones to the run that ends there.
    """
    if 0 in shape:
        return tuple(strides) if tuple(shape) == tuple(wanted) else contiguous_strides(wanted)
    out, j = [1] * len(wanted), len(wanted) - 1
    i = len(shape) - 1
    while i >= 0:
        count, step = shape[i], strides[i]
        while i > 0 and (shape[i - 1] == 1 or strides[i - 1] == count * step):
            i -= 1
            count *= shape[i]
        i -= 1
        while j >= 0 and (count > 1 or wanted[j] == 1):
            n = wanted[j]
            if count % n:
                return None
            out[j] = step
            count //= n
            step *= n
            j -= 1
        if count != 1:
            return None
    return tuple(out)


# -- as_strided --------------------------------------------------------------------------------------------------


def _as_strided_gradient(g: Tensor, x_shape: Any, shape: Any, strides: Any, offset: int, x_strides: Any) -> Tensor:
    return spread(g, x_shape, x_strides, strides, offset)


@primitive(view=True, name="as_strided", grad={"x": _as_strided_gradient})
def as_strided_op(
    backend: Any, x: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, x_strides: tuple[int, ...]
) -> Any:
    """A view with any strides; `offset` counts elements from the first element of `x`."""
    size = x.itemsize
    return strided(x, shape, tuple([s * size for s in strides]), offset * size)


def _positions(xp: Any, shape: Any, strides: Any, offset: int) -> Any:
    where = xp.full((), offset, np.int64)
    for n, s in zip(shape, strides):
        where = where[..., None] + xp.arange(n, dtype=np.int64) * s
    return where


@primitive(
    name="as_strided_backward",
    grad={"g": lambda g, x_shape, x_strides, strides, offset, g_shape: gather(
        g, g_shape, x_strides, strides, offset
    )},
    meta=lambda g, x_shape, x_strides, strides, offset: (x_shape, _dtype_of(g)),
    batch=strided_backward,
    tangent=linear("g"),
)  # fmt: skip
def spread(backend: Any, g: Any, x_shape: Any, x_strides: Any, strides: Any, offset: int) -> Any:
    """The gradient of `as_strided`: g is added up in a flat buffer of the memory, which is then read as `x` was."""
    xp = backend.xp
    start = min(0, offset)
    end = max(reach_of(x_shape, x_strides), offset + reach_of(g.shape, strides), 1)
    flat = xp.zeros(end - start, g.dtype)
    if not is_disjoint(x_shape, x_strides, 1):  # elements of x that share memory share the gradient
        count = xp.zeros(end - start, np.int64)
        xp.add.at(count, _positions(xp, x_shape, x_strides, -start), 1)
        weight = xp.maximum(count, 1).astype(g.real.dtype)
    else:
        weight = None
    _add_at(xp, flat, g, strides, offset - start)
    if weight is not None:
        flat = (flat / weight).astype(g.dtype)
    return _read(flat, x_shape, x_strides, -start).copy("C")


def _add_at(xp: Any, flat: Any, g: Any, strides: Any, start: int) -> None:
    if is_disjoint(g.shape, strides, 1):
        _read(flat, g.shape, strides, start)[...] = g
        return
    repeated = tuple(d for d, s in enumerate(strides) if s == 0 and g.shape[d] > 1)
    if repeated:
        wide = g.astype(np.float32) if g.dtype.itemsize == 2 else g
        g = wide.sum(axis=repeated).astype(g.dtype)
        strides = tuple(s for d, s in enumerate(strides) if d not in repeated)
        _add_at(xp, flat, xp.asarray(g), strides, start)
        return
    places = _positions(xp, g.shape, strides, start)
    if g.dtype.itemsize < 4 and xp is not np:  # a GPU adds to wider elements only
        wide = flat.astype(np.float32)
        xp.add.at(wide, places, g.astype(np.float32))
        flat[...] = wide
    else:
        xp.add.at(flat, places, g)


def _read(flat: Any, shape: Any, strides: Any, start: int) -> Any:
    size = flat.itemsize
    if 0 in shape:
        return flat[:0].reshape(shape)
    return strided(flat, tuple(shape), tuple([s * size for s in strides]), start * size)


@primitive(
    name="as_strided_gather",
    grad={"x": lambda g, x_shape, x_strides, strides, offset: spread(g, x_shape, x_strides, strides, offset)},
    meta=lambda x, shape, x_strides, strides, offset: (shape, _dtype_of(x)),
    batch=strided_backward,
    tangent=linear("x"),
)  # fmt: skip
def gather(backend: Any, x: Any, shape: Any, x_strides: Any, strides: Any, offset: int) -> Any:
    """The transpose of `spread`: x laid out in memory with `x_strides`, read with `strides`."""
    xp = backend.xp
    start = min(0, offset)
    end = max(reach_of(x.shape, x_strides), offset + reach_of(shape, strides), 1)
    flat = xp.zeros(end - start, x.dtype)
    if is_disjoint(x.shape, x_strides, 1):
        _read(flat, x.shape, x_strides, -start)[...] = x
    else:
        where = _positions(xp, x.shape, x_strides, -start)
        count = xp.zeros(end - start, np.int64)
        xp.add.at(count, where, 1)
        xp.add.at(flat, where, x)
        flat = (flat / xp.maximum(count, 1).astype(x.real.dtype)).astype(x.dtype)
    return _read(flat, shape, strides, offset - start).copy("C")


def _dtype_of(array: Any) -> Any:
    return from_numpy_dtype(array.dtype)


def storage_bounds(t: Tensor) -> tuple[int, int]:
    """The addresses of the memory that a tensor and its views share."""
    return byte_bounds(storage_of(t).array)


def relative_offset(t: Tensor, shape: Any, strides: Any, storage_offset: int | None) -> int:
    """Elements from the first of `t` to the first of a view given by its storage offset, checked against the storage."""
    x = t._array
    size = x.itemsize
    low, high = storage_bounds(t)
    here = address(x)
    start = here if storage_offset is None else low + storage_offset * size
    if storage_offset is not None and storage_offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {storage_offset}")
    reach = reach_of(shape, strides) * size
    if start - low + reach >= 1 << 63:
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(shape)}, strides={list(strides)} and offset "
            f"{(start - low) // size}"
        )
    if reach and start + reach > high:
        raise RuntimeError(
            f"setStorage: sizes {list(shape)}, strides {list(strides)} and offset {(start - low) // size} need "
            f"{start - low + reach} bytes and are out of bounds for storage of size {high - low}"
        )
    return (start - here) // size if reach else 0


@public()
def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """A view with any shape and strides (in elements) of the tensor's memory; beyond its end it raises.

    >>> import flambeau as torch
    >>> torch.arange(5).as_strided((3, 3), (1, 1))
    tensor([[0, 1, 2],
            [1, 2, 3],
            [2, 3, 4]])
    """
    shape, strides, offset = strided_arguments(input, size, stride, storage_offset)
    return as_strided_op(input, shape, strides, offset, element_strides(input._array))


def strided_arguments(input: Tensor, size: Any, stride: Any, storage_offset: Any) -> tuple[Any, Any, int]:
    shape, strides = size_argument((size,)), size_argument((stride,), "stride")
    if len(shape) != len(strides):
        raise RuntimeError(f"mismatch in length of strides and shape: {len(strides)} and {len(shape)}")
    if any(s < 0 for s in strides):
        raise RuntimeError(
            f"as_strided: Negative strides are not supported at the moment, got strides: {list(strides)}"
        )
    if any(n < 0 for n in shape):
        raise RuntimeError(f"as_strided: negative sizes are not supported, got {list(shape)}")
    if storage_offset is not None:
        storage_offset = storage_offset.__index__()
    return shape, strides, relative_offset(input, shape, strides, storage_offset)


def _scattered_shape(x: Any, source: Any, strides: Any, offset: int, x_strides: Any) -> Any:
    return (x.shape, dtype_of(x), x_strides) if is_disjoint(x.shape, x_strides, 1) else same(x)


@primitive(
    meta=_scattered_shape,
    tensors=2, name="as_strided_scatter",
    grad={
        "x": lambda g, source_shape, strides, offset, x_strides: as_strided_scatter_op(
            g, ops.new_zeros(g, source_shape), strides, offset, x_strides
        ),
        "source": lambda g, source_shape, strides, offset, x_strides: gather(
            g, source_shape, x_strides, strides, offset
        ),
    },
    tangent=linear("x", "source"),
)  # fmt: skip
def as_strided_scatter_op(backend: Any, x: Any, source: Any, strides: Any, offset: int, x_strides: Any) -> Any:
    xp = backend.xp
    start = min(0, offset)
    end = max(reach_of(x.shape, x_strides), offset + reach_of(source.shape, strides), 1)
    flat = xp.zeros(end - start, x.dtype)
    _read(flat, x.shape, x_strides, -start)[...] = x
    if not is_disjoint(x.shape, x_strides, 1):  # what shares memory does not in a copy
        flat = _read(flat, x.shape, x_strides, -start).copy("C").reshape(-1)
        x_strides, start = contiguous_strides(x.shape), 0
    _read(flat, source.shape, strides, offset - start)[...] = source
    return _read(flat, x.shape, x_strides, -start)


@public()
def as_strided_scatter(input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """A copy of `input` with `src` written where `as_strided` would look."""
    shape, strides, offset = strided_arguments(input, size, stride, storage_offset)
    if tuple(src._array.shape) != shape:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self, got {list(src._array.shape)} for {list(shape)}"
        )
    source = src if src.dtype is input.dtype else ops.to_dtype(src, input.dtype)
    return as_strided_scatter_op(input, source, strides, offset, element_strides(input._array))


def is_meta(t: Tensor) -> bool:
    return bool(t._k & META)


def as_strided_link(t: Tensor, base: Tensor) -> tuple[Any, ...]:
    """A view described as one `as_strided` of its base."""
    array, whole = t._array, base._array
    size = array.itemsize
    offset = (address(array) - address(whole)) // size
    steps = tuple(s // size for s in array.strides)
    return (base, as_strided_op, (array.shape, steps, offset, tuple(s // size for s in whole.strides)), None, 0)


primitive_records.as_strided_link = as_strided_link


SCHEMAS = """
as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)
as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor
"""
