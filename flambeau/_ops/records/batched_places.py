"""Rules for batches (see `batching`) of tables, places and marks: embeddings, `take`, `index_add`, searches."""

from __future__ import annotations

import math
from typing import Any

from ..._core.dtypes import bool_
from ..registry import ops, records
from .batching import Dynamic, aligned, all_stacked, merged, parted, rank_of, samples, stacked


def looked_up(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """Rows of a table: any index of a table that all share; otherwise the table's own index beside the sample's number."""
    x, index, padding, scale, sparse = args
    if not mapped[0]:
        return op(*args)
    if scale or sparse:
        return NotImplemented
    index = stacked(index, mapped[1], size)
    made = records["index_2"](x, samples(size, index._array.ndim - 1), index, (0, 1))
    if padding < 0 or not made._k & 1:
        return made
    used = ops.unsqueeze(ops.ne(index, padding), index._array.ndim)
    return ops.where(used, made, ops.detach(made))  # rows of padding get no gradient


def looked_up_backward(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """The tables of all samples as one long table."""
    x, index, count, padding, scale = args
    index, x = stacked(index, mapped[1], size), stacked(x, mapped[0], size)
    if padding >= 0:
        used = ops.unsqueeze(ops.ne(index, padding), index._array.ndim)
        x = ops.where(used, x, ops.zeros_like(x))
    places = ops.add(index, ops.mul(samples(size, index._array.ndim - 1), count))
    return parted(op(x, places, size * count, -1, scale), size)


def bags(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """The same of sums of rows: `count` rows in each table."""
    x, index, *count = args
    rows = count[0] if count else x._array.shape[-2]
    index = stacked(index, mapped[1], size)
    if mapped[0] or count:
        index = ops.add(index, ops.mul(samples(size, 2), rows))
        x = merged(stacked(x, mapped[0], size))
    made = op(x, merged(index), *[size * n for n in count])
    return parted(made, size)


def spans(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """The same of parts of one index: the rows of all tables side by side."""
    if any(mapped[1:]):
        return NotImplemented
    return parted(op(merged(args[0], 1), *args[1:]), size, 1)


def by_rows(scatter: str | None) -> Any:
    """(x, index, source, dim, …) with an index for each row: an index of all samples; or, of an update that `scatter` does
    with an index for each element, other indices too."""

    def rule(op: Any, size: int, mapped: Any, args: Any) -> Any:
        x, index, source, dim, *rest = args
        if not rank_of(x, mapped[0]):
            return NotImplemented
        x = stacked(x, mapped[0], size)
        scalar = op.name == "index_fill"
        if not mapped[1] and not (scalar and mapped[2]):
            return op(x, index, source if scalar else stacked(source, mapped[2], size), dim + 1, *rest)
        if scatter is None or (rest and rest[0] != 1):
            return NotImplemented
        index = stacked(index, mapped[1], size)
        shape = list(x._array.shape)
        shape[dim + 1] = math.prod(index._array.shape[1:])
        own = [1] * len(shape)
        own[0], own[dim + 1] = size, shape[dim + 1]
        places = ops.expand(ops.reshape(index, own), shape)
        if scalar:  # a place that is named twice is filled once, for the value's gradient too
            marked = ops.scatter(ops.zeros_like(x, dtype=bool_), dim + 1, places, True)
            value = ops.to_dtype(source, x.dtype)
            return ops.where(marked, ops.reshape(value, (-1, *[1] * (len(shape) - 1))), x)
        values = ops.reshape(stacked(source, mapped[2], size), shape)
        return getattr(ops, scatter)(x, dim + 1, places, values)

    return rule


def selected(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """`index_select`: an index of all samples, or one each (then by `gather`)."""
    x, index, dim = args
    if not rank_of(x, mapped[0]):
        return NotImplemented
    if not mapped[1]:
        return op(x, index, dim + 1)
    count = math.prod(index._array.shape[1:])
    if not mapped[0]:
        made = op(x, ops.reshape(index, (-1,)), dim)
        return parted(made, size, dim)
    shape = list(x._array.shape)
    shape[dim + 1] = count
    own = [1] * len(shape)
    own[0], own[dim + 1] = size, count
    return ops.gather(x, dim + 1, ops.expand(ops.reshape(index, own), shape))


def _from_the_start(index: Any, size: int, flat: Any) -> Any:
    """The places of each sample in its row of `flat`, of which negative ones count from the end."""
    return ops.reshape(ops.remainder(index, max(flat._array.shape[1], 1)), (size, -1))


def taken(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """Elements of the flattened input."""
    x, index = args
    if not mapped[0]:
        return op(x, index)
    index = stacked(index, mapped[1], size)
    flat = ops.reshape(x, (size, -1))
    places = _from_the_start(index, size, flat)
    return ops.reshape(ops.gather(flat, 1, places), index._array.shape)


def put_flat(op: Any, size: int, mapped: Any, args: Any) -> Any:
    x, index, source, accumulate = args
    x, index, source = all_stacked(op, size, mapped, args)
    flat = ops.reshape(x, (size, -1))
    places = _from_the_start(index, size, flat)
    values = ops.reshape(source, (size, -1))
    made = (ops.scatter_add if accumulate else ops.scatter)(flat, 1, places, values)
    return ops.reshape(made, x._array.shape)


def marked(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """`masked_select`: the marks have to be those of all samples, as each marked element has a place in the result."""
    x, mask = args
    if mapped[1]:
        raise Dynamic(op.name)
    places = ops.reshape(ops.nonzero(ops.reshape(mask, (-1,))), (-1,))
    return ops.index_select(ops.reshape(x, (size, -1)), 1, places)


def filled_where(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """`masked_scatter`: the n-th marked element gets the n-th of the source."""
    x, mask, source = args
    rank = max(rank_of(x, mapped[0]), rank_of(mask, mapped[1]))
    x, mask = (aligned(stacked(t, m, size), rank) for t, m in zip((x, mask), mapped))
    shape = x._array.shape
    mask = ops.expand(mask, shape)
    source = ops.reshape(stacked(source, mapped[2], size), (size, -1))
    order = ops.sub(ops.cumsum(ops.reshape(mask, (size, -1)), 1), 1)
    last = source._array.shape[1] - 1
    if last < 0:
        return NotImplemented
    values = ops.gather(source, 1, ops.clamp(order, 0, last))
    return ops.where(mask, ops.reshape(values, shape), x)


def searched(op: Any, size: int, mapped: Any, args: Any) -> Any:
    bounds, values, sorter, right, d = args
    if not mapped[0] and not mapped[2] and bounds._array.ndim == 1:
        return op(bounds, values, sorter, right, d)
    alone = rank_of(bounds, mapped[0]) == 1
    bounds, values, sorter = all_stacked(op, size, mapped, args)
    shape = values._array.shape
    if alone:
        values = ops.reshape(values, (size, -1))
    made = op(bounds, values, sorter, right, d)
    return ops.reshape(made, shape) if alone else made


def among(op: Any, size: int, mapped: Any, args: Any) -> Any:
    elements, test, invert = args
    if not mapped[1]:
        return op(elements, test, invert)
    elements = ops.unsqueeze(stacked(elements, mapped[0], size), elements._array.ndim + (not mapped[0]))
    test = ops.reshape(test, (size, *[1] * (elements._array.ndim - 2), -1))
    found = ops.any(ops.eq(elements, test), -1)
    return ops.logical_not(found) if invert else found


def filled(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """x with all elements of one value, which may differ between samples."""
    x, value = args
    x = stacked(x, mapped[0], size)
    if not mapped[1]:
        return op(x, value)
    value = ops.to_dtype(value, x.dtype)
    return ops.clone(ops.expand(ops.reshape(value, (size, *[1] * (x._array.ndim - 1))), x._array.shape))


def renormed(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """Slices along a dimension are independent: the batch joins it."""
    x, p, dim, limit = args
    return parted(op(merged(x, dim), p, dim, limit), size, dim)
