"""Reading and writing by arrays of indices and masks at some dimensions: the records behind `x[rows, columns]`."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np

from ..._backend import threads
from ..._backend.copies import place
from ..._backend.cpu import cpu
from ..._core.allocation import empty_strided
from ..._core.layouts import in_rows, joint_order, strides_in_order
from ..._core.sizes import broadcast_shapes
from ..._kernel.places.elements import put_where
from ..._tensor import Tensor, wrap
from ..records.batching import aligned, rank_of, samples, stacked
from ..records.primitive import Primitive
from ..records.shape_rules import data_dependent, dtype_of
from ..records.tangents import linear
from ..records.update import Update
from ..registry import ops
from . import device_marks, device_places
from . import index_kernels as kernels

_ALL = slice(None)

# -- on raw arrays -------------------------------------------------------------------------------------------------


def _index_error(arrays: Any, dims: Any, shape: Any) -> IndexError:
    """What PyTorch says about the first index out of range."""
    for array, dim in zip(arrays, dims):
        n = shape[dim]
        if n == 0 and array.size:
            return IndexError("index is out of bounds for dimension with size 0")
        wrong = array[(array < -n) | (array >= n)]
        if wrong.size:
            return IndexError(f"index {int(wrong.reshape(-1)[0])} is out of bounds for dimension {dim} with size {n}")
    return IndexError("index is out of bounds")


def without_masks(x_shape: Any, arrays: Any, dims: Any) -> tuple[list[Any], list[int]]:
    """Integer indices in place of masks, one for each dimension that a mask covers."""
    plain: list[Any] = []
    places: list[int] = []
    for array, dim in zip(arrays, dims):
        if array.dtype != bool and array.dtype != np.uint8:
            plain.append(array)
            places.append(dim)
            continue
        if tuple(x_shape[dim : dim + array.ndim]) != array.shape:
            wrong = next(
                i for i in range(array.ndim) if array.shape[i : i + 1] != tuple(x_shape[dim + i : dim + i + 1])
            )
            raise IndexError(
                f"The shape of the mask {list(array.shape)} at index {wrong} does not match the shape of the indexed "
                f"tensor {list(x_shape)} at index {dim + wrong}"
            )
        plain += kernels.positions(array)
        places += range(dim, dim + array.ndim)
    return plain, places


def _covers(x: Any, mask: Any, dim: int) -> bool:
    """Whether a mask has the shape of x from a dimension on."""
    return bool(mask.ndim) and x.shape[dim : dim + mask.ndim] == mask.shape


def _broadcast(arrays: Any) -> Any:
    shapes = [a.shape for a in arrays]
    if shapes.count(shapes[0]) == len(shapes):
        return shapes[0]
    try:
        return broadcast_shapes(*shapes)
    except RuntimeError:
        listed = ", ".join(str(list(s)) for s in shapes)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {listed}"
        ) from None


def _checked(x_shape: Any, arrays: Any, dims: Any) -> list[Any]:
    """The indices, none of them negative, if all name elements."""
    made = []
    for array, dim in zip(arrays, dims):
        n = x_shape[dim]
        if kernels.first_outside(cpu, array, 0, n) is not None:  # some count from the end, at least
            if kernels.first_outside(cpu, array, -n, n) is not None:
                raise _index_error(arrays, dims, x_shape)
            array = array.astype(np.int64)
            array += (array < 0) * n
        made.append(array)
    return made


def _adjacent(dims: Any) -> bool:
    return dims[-1] - dims[0] == len(dims) - 1


def _result_shape(x_shape: Any, dims: Any, common: Any) -> tuple[int, ...]:
    """Indexed dimensions are replaced where they stand if they are neighbours, otherwise they go to the front."""
    if _adjacent(dims):
        return (*x_shape[: dims[0]], *common, *x_shape[dims[-1] + 1 :])
    return (*common, *[n for i, n in enumerate(x_shape) if i not in dims])


def _on_device(backend: Any, x: Any, arrays: Any, dims: Any, common: Any) -> device_places.Places:
    """Which elements indices name on a GPU."""
    arrays = [kernels.as_index(a) for a in arrays]
    return device_places.fancy(backend, x, arrays, dims, common, dims[0] if _adjacent(dims) else 0)


def _linear(x_shape: Any, arrays: Any, dims: Any, common: Any) -> Any:
    """Indices over several dimensions as a vector of those over their product; they have been checked."""
    flat = [(a if a.shape == common else np.broadcast_to(a, common)).reshape(-1) for a in arrays]
    total = flat[0]
    for index, dim in zip(flat[1:], dims[1:]):
        total = kernels.joined(total, x_shape[dim], index)
    return total


def read(backend: Any, x: Any, arrays: Any, dims: Any) -> Any:
    """x indexed by arrays (masks or integers) at the dimensions `dims`, as a new array."""
    made = _read(backend, x, arrays, dims)
    if made.ndim < 2 or not made.size or backend is not cpu or (in_rows(x) and are_in_rows(arrays)):
        return made
    arrays, dims = without_masks(x.shape, arrays, dims)
    out = empty_strided(made.shape, made.dtype, _result_strides(x, arrays, dims, made.shape))
    place(out, made)
    return out


def are_in_rows(arrays: Any) -> bool:
    """Whether no index lies in memory otherwise than row by row, as results of others do not."""
    return all([a.ndim < 2 or a.flags.c_contiguous for a in arrays])


def _result_strides(x: Any, arrays: Any, dims: Any, shape: Any) -> tuple[int, ...]:
    """Strides (in elements) of a result: kept dimensions lie as in x, indexed ones as in the indices."""
    return strides_in_order(shape, joint_order(shape, _lines(x, arrays, dims, shape)))


def _lines(x: Any, arrays: Any, dims: Any, shape: Any) -> list[list[int]]:
    """Strides of x and of the indices over a result."""
    common = _broadcast(arrays)
    start = dims[0] if _adjacent(dims) else 0
    kept = [s for d, s in enumerate(x.strides) if d not in dims]
    lines = [[*kept[:start], *[0] * len(common), *kept[start:]]]
    for array in arrays:
        own = [0] * (len(common) - array.ndim) + [0 if n == 1 else s for n, s in zip(array.shape, array.strides)]
        lines.append([*[0] * start, *own, *[0] * (len(shape) - start - len(common))])
    return lines


def _indexed_shape(x: Any, arrays: Any, dims: Any) -> Any:
    """The shape rule of `read`; how many elements a mask has, nobody knows."""
    if any(a.dtype == bool or a.dtype == np.uint8 for a in arrays):
        data_dependent()
    shape = _result_shape(x.shape, dims, _broadcast(arrays))
    if (x.flags.c_contiguous and are_in_rows(arrays)) or len(shape) < 2 or 0 in shape:
        return shape, dtype_of(x)
    return shape, dtype_of(x), _result_strides(x, arrays, dims, shape)


def _read(backend: Any, x: Any, arrays: Any, dims: Any) -> Any:
    first = arrays[0]
    if len(arrays) == 1:
        if backend is not cpu and first.dtype == bool and x.flags.c_contiguous and _covers(x, first, dims[0]):
            return device_marks.select(backend, x, first, dims[0])
        if first.dtype == bool and first.shape == x.shape:
            return kernels.select(backend, x, first)
        if backend is cpu and first.dtype == np.int64 and x.size and not threads.pay(first.size * x.size):
            try:
                return x.take(first, dims[0])
            except IndexError:
                raise _index_error(arrays, dims, x.shape) from None
    elif len(arrays) == 2 and x.ndim == 2 and backend is cpu and first.ndim == 1 and x.size:
        second = arrays[1]
        if first.shape == second.shape and first.dtype == second.dtype == np.int64:
            made = kernels.take_pairs(x, first, second)
            if made is None:
                raise _index_error(arrays, dims, x.shape)
            return made
    arrays, dims = without_masks(x.shape, arrays, dims)
    common = _broadcast(arrays)
    shape = _result_shape(x.shape, dims, common)
    count = math.prod(shape)
    if count == 0:
        if math.prod(common) and any(x.shape[d] == 0 for d in dims):
            raise IndexError("index is out of bounds for dimension with size 0")
        return kernels.empty_array(backend, shape, x.dtype)
    if backend is not cpu:
        rows = x.flags.c_contiguous and are_in_rows(arrays)
        order = None if rows else joint_order(shape, _lines(x, arrays, dims, shape))
        return device_places.read(backend, x, _on_device(backend, x, arrays, dims, common), order)
    if threads.pay(count):
        if len(dims) == 1:
            made = kernels.take_rows(backend, x, arrays[0].reshape(-1), dims[0], True)
            if made is None:
                raise _index_error(arrays, dims, x.shape)
            return made.reshape(shape)
        arrays = _checked(x.shape, arrays, dims)
        if _adjacent(dims) and x.flags.c_contiguous:
            merged = x.reshape(*x.shape[: dims[0]], math.prod(x.shape[d] for d in dims), *x.shape[dims[-1] + 1 :])
            flat = _linear(x.shape, arrays, dims, common)
            return kernels.take_rows(backend, merged, flat, dims[0]).reshape(shape)
    try:  # NumPy checks the indices
        if len(dims) == 1 and x.flags.c_contiguous:
            return np.asarray(x.take(arrays[0], dims[0]))
        made = x[_fancy_key(arrays, dims)]
        return made if dims[0] == 0 else np.ascontiguousarray(made)
    except IndexError:
        raise _index_error(arrays, dims, x.shape) from None


def write(backend: Any, x: Any, values: Any, arrays: Any, dims: Any, accumulate: bool) -> None:
    """x indexed as in `read` is set to values (or added to), which broadcast."""
    first = arrays[0]
    if not accumulate and len(arrays) == 1 and first.dtype == bool and first.shape == x.shape and values.ndim == 0:
        if backend is cpu:
            np.copyto(x, values, where=first)
        else:
            backend.kernel(put_where, ("b1", *[device_places.BITS[x.dtype.itemsize][0]] * 2))(first, values, x)
        return
    if accumulate and backend is cpu and _is_whole_mask(x, values, arrays):
        kernels.add_selected(x, first, values)
        return
    plain = x.__class__ is np.ndarray  # what is watched goes by kernels
    if not accumulate and plain and not any(a.dtype == np.uint8 for a in arrays):
        try:  # NumPy checks indices and shapes before it writes
            x[_fancy_key(arrays, dims)] = values
            return
        except (IndexError, TypeError, ValueError):  # in PyTorch's words
            pass
    if len(arrays) > 1 or first.dtype != np.int64:
        arrays, dims = without_masks(x.shape, arrays, dims)
    common = _broadcast(arrays)
    shape = _result_shape(x.shape, dims, common)
    if values.shape != shape and not _fits(values.shape, shape):
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result of shape "
            f"{list(shape)}"
        )
    if not x.size and math.prod(common) and any(x.shape[d] == 0 for d in dims):
        raise IndexError("index is out of bounds for dimension with size 0")
    if 0 in shape:
        return
    if backend is not cpu:
        how = "add" if accumulate else "set"
        device_places.write(backend, x, _on_device(backend, x, arrays, dims, common), values, how)
        return
    arrays = _checked(x.shape, arrays, dims)
    if plain and not accumulate:
        x[_fancy_key(arrays, dims)] = values
        return
    if values.shape != shape:
        values = np.broadcast_to(values, shape)
    _combine(x, values, arrays, dims, common, "add" if accumulate else "set")


def _is_whole_mask(x: Any, values: Any, arrays: Any) -> bool:
    """Whether one mask covers a dense x, with a value for each element that it marks."""
    mask = arrays[0]
    if len(arrays) != 1 or mask.dtype != bool or mask.shape != x.shape or not x.flags.c_contiguous:
        return False
    # there is no sum of two truths
    return x.dtype != bool and values.ndim == 1 and values.size == np.count_nonzero(mask)


def _fancy_key(arrays: Any, dims: Any) -> tuple[Any, ...]:
    """Arrays in their places, full slices between them; a mask covers as many dimensions as it has."""
    key: list[Any] = []
    at = 0
    for array, dim in zip(arrays, dims):
        key += [_ALL] * (dim - at)
        key.append(array)
        at = dim + (array.ndim if array.dtype == bool else 1)
    return tuple(key)


def _fits(shape: Any, target: Any) -> bool:
    lead = len(shape) - len(target)
    if lead > 0 and any(n != 1 for n in shape[:lead]):
        return False
    return all(n == m or n == 1 for n, m in zip(reversed(shape), reversed(target)))


def _combine(x: Any, values: Any, arrays: Any, dims: Any, common: Any, how: str) -> None:
    """Adds (or sets) rows in order; the indices must have been checked."""
    if len(dims) == 1:
        flat = arrays[0].reshape(-1)
        given = values.reshape(*x.shape[: dims[0]], flat.size, *x.shape[dims[0] + 1 :])
        kernels.update_rows(cpu, x, dims[0], flat, given, how, True)
        return
    rest = [i for i in range(x.ndim) if i not in dims]
    at = dims[0] if _adjacent(dims) else 0
    count = len(common)
    block = list(range(at, at + count))
    given = values.transpose(block + [i for i in range(values.ndim) if i not in block])
    target = x.transpose([*dims, *rest])  # the indexed dimensions of both sides come first
    rows, width = math.prod(x.shape[d] for d in dims), math.prod(x.shape[i] for i in rest)
    flat = _linear(x.shape, arrays, dims, common)
    given = given.reshape(flat.size, width) if width != 1 else given.reshape(-1)
    shape = (rows, width) if width != 1 else (rows,)
    if target.flags.c_contiguous:
        kernels.update_rows(cpu, target.reshape(shape), 0, flat, given, how)
    else:
        work = target.reshape(shape).copy()
        kernels.update_rows(cpu, work, 0, flat, given, how)
        target[...] = work.reshape(target.shape)


# -- on batches --------------------------------------------------------------------------------------------------------


def _common_rank(indices: Any, mapped: Any) -> int:
    return max([rank_of(t, m) for t, m in zip(indices, mapped)])


def _behind_common(dims: Any, common: int) -> list[int] | None:
    """How (batch, common, other dimensions) becomes what neighbouring `dims` give: the common ones in their place."""
    start = dims[0]
    if not start or dims[-1] - start != len(dims) - 1:
        return None
    before = [1 + common + i for i in range(start)]
    return [0, *before, *range(1, 1 + common)]


def _indexed(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """x at tensors of places: the number of the sample is one more, unless the places are the same for all."""
    x, *indices, dims = args
    common = _common_rank(indices, mapped[1:])
    neighbours = dims[-1] - dims[0] == len(dims) - 1
    if not any(mapped[1:]):
        out = op(x, *indices, tuple([d + 1 for d in dims]))
        if neighbours:
            return out
        common = out._array.ndim - x._array.ndim + len(dims)  # masks stand for several
        return ops.movedim(out, common, 0)
    if any([t.dtype.category == 0 or t.dtype.name == "uint8" for t in indices]):
        return NotImplemented
    places = [aligned(t, common) if m else t for t, m in zip(indices, mapped[1:])]
    if not mapped[0]:
        out = op(x, *places, dims)
        return ops.movedim(out, dims[0], 0) if neighbours and dims[0] else out
    out = records_for(len(dims) + 1)[0](x, samples(size, common), *places, (0, *[d + 1 for d in dims]))
    order = _behind_common(dims, common)
    return out if order is None else ops.permute(out, (*order, *range(len(order), out._array.ndim)))


def _put_in_order(values: Tensor, dims: Any, common: int, rank: int) -> Any:
    """Values for places, in the order in which places with the number of the sample before them take them."""
    values = aligned(values, rank)
    order = _behind_common(dims, common)
    if order is None:
        return values
    back = [order.index(i) for i in range(len(order))]
    return ops.permute(values, (*back, *range(len(order), values._array.ndim)))


def _put(op: Any, size: int, mapped: Any, args: Any) -> Any:
    x, values, *indices, dims, accumulate = args
    if any([t.dtype.category == 0 or t.dtype.name == "uint8" for t in indices]):
        return NotImplemented
    common = _common_rank(indices, mapped[2:])
    rank = rank_of(x, mapped[0]) - len(dims) + common
    values = ops.unsqueeze(values, 0) if not mapped[1] else values
    values = _put_in_order(values, dims, common, rank)
    places = [aligned(t, common) if m else t for t, m in zip(indices, mapped[2:])]
    places = [samples(size, common), *places]
    return records_for(len(dims) + 1)[1](
        stacked(x, mapped[0], size), values, *places, (0, *[d + 1 for d in dims]), accumulate
    )


def _put_gradient(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """Gradients added up where `indexed` took the values from."""
    g, *indices, dims, shape = args
    if any([t.dtype.category == 0 or t.dtype.name == "uint8" for t in indices]):
        return NotImplemented
    common = _common_rank(indices, mapped[1:])
    rank = len(shape) - len(dims) + common
    g = _put_in_order(stacked(g, mapped[0], size), dims, common, rank)
    places = [aligned(t, common) if m else t for t, m in zip(indices, mapped[1:])]
    return records_for(len(dims) + 1)[2](g, samples(size, common), *places, (0, *[d + 1 for d in dims]), (size, *shape))


# -- records: one for each number of indices -----------------------------------------------------------------------

_records: dict[int, tuple[Primitive, Update, Primitive]] = {}


def _signed(function: Any, names: str) -> Any:
    """Gives a function of *args the parameter names that a record reads."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    function.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in names.split()])
    return function


def records_for(count: int) -> tuple[Primitive, Update, Primitive]:
    """(index, index_put, derivative of index) with `count` index tensors."""
    found = _records.get(count)
    if found is not None:
        return found
    indices = " ".join(f"i{n}" for n in range(count))
    suffix = f"_{count}" if count > 1 else ""

    def index(backend: Any, x: Any, *rest: Any) -> Any:
        return read(backend, x, rest[:count], rest[count])

    def index_put(backend: Any, x: Any, values: Any, *rest: Any) -> None:
        write(backend, x, values, rest[:count], *rest[count:])

    def index_backward(backend: Any, x: Any, *rest: Any) -> Any:
        out = backend.zeros(rest[count + 1], x.dtype)
        write(backend, out, x, rest[:count], rest[count], True)
        return out

    def of_index(g: Any, shape: Any, *rest: Any) -> Any:
        return made[2](g, *rest, shape)

    def of_self(g: Any, *rest: Any) -> Any:
        return g if rest[-1] else _zeroed(made[1], g, rest)

    def of_values(g: Any, shape: Any, *rest: Any) -> Any:
        found = made[0](g, *rest)
        return ops.reshape(ops.sum_to(found, shape[max(len(shape) - found._array.ndim, 0) :]), shape)

    def of_backward(g: Any, *rest: Any) -> Any:
        return made[0](g, *rest)

    made = (
        Primitive(
            _signed(index, f"backend x {indices} dims"), tensors=1 + count, name="index" + suffix,
            grad={"x": _signed(of_index, f"g x_shape {indices} dims")}, backward_name="IndexBackward0",
            batch=_indexed, tangent=linear("x"), meta=lambda x, *rest: _indexed_shape(x, rest[:count], rest[count]),
        ),
        Update(
            _signed(index_put, f"backend x values {indices} dims accumulate"), tensors=2 + count,
            name="index_put" + suffix, backward_name="IndexPutBackward0", expanded="index_put_",
            batch=_put, tangent=linear("x", "values"),
            grad={
                "x": _signed(of_self, f"g {indices} dims accumulate"),
                "values": _signed(of_values, f"g values_shape {indices} dims"),
            },
        ),
        Primitive(
            _signed(index_backward, f"backend x {indices} dims shape"), tensors=1 + count,
            name="index_backward" + suffix, grad={"x": _signed(of_backward, f"g {indices} dims")},
            batch=_put_gradient, tangent=linear("x"), meta=lambda x, *rest: (rest[count + 1], dtype_of(x)),
        ),
    )  # fmt: skip
    _records[count] = made
    return made


def _zeroed(op: Update, g: Tensor, rest: Any) -> Tensor:
    """A gradient without the elements that were overwritten."""
    zero = wrap(np.zeros((), g.dtype.numpy), g.dtype)
    return op(g, zero, *rest[:-1], False)


for _count in (1, 2):
    records_for(_count)


SCHEMAS = """
index_2  # record=index
"""
