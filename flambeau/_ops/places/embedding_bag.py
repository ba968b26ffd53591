"""Bags of embeddings: rows of a table by number, summed, averaged or maximised over each bag."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._backend.cpu import cpu
from ..._backend.threads import parts_of
from ..._core.allocation import empty
from ..._core.dtypes import BY_NUMPY, FLOATING, int32, int64
from ..._core.state import CUDA, GRAD, META, modes
from ..._core.steps import only_shapes
from ..._errors.frames import warn_user
from ..._kernel.places.embedding import sum_bag, sum_bags_back, sum_span, sum_spans_back
from ..._tensor import Tensor, wrap
from ..making.conversion import host_array
from ..records.batched_places import bags, spans
from ..records.primitive import primitive
from ..records.shape_rules import dtype_of
from ..records.tangents import linear
from ..registry import functions, labelled, ops, public, relabel
from .embedding import _renormalise

_MODES = ("sum", "mean", "max")


@primitive(
    meta=lambda x, index: ((len(index), x.shape[1]), dtype_of(x)),
    tensors=2, name="sum_bags", backward_name="EmbeddingBagBackward0",
    grad={"x": lambda g, index, x_shape: sum_bags_backward(g, index, x_shape[0])},
    batch=bags,
    tangent=linear("x"),
)  # fmt: skip
def sum_bags(backend: Any, x: Any, index: Any) -> Any:
    """The sums of the rows of x that each row of the index names."""
    out = empty((len(index), x.shape[1]), x.dtype)
    wrong = np.empty(len(index), np.bool_)
    code = BY_NUMPY[x.dtype].code
    call = cpu.sized(index.size * x.shape[1], sum_bag, (BY_NUMPY[index.dtype].code, code, code, "b1"))
    call(index, x, out, wrong)
    if wrong.any():
        _check_range(index, len(x))
    return out


@primitive(
    batch=bags,
    meta=lambda x, index, count: ((count, x.shape[1]), dtype_of(x)),
    tensors=2,
    name="sum_bags_backward",
    grad={"x": lambda g, index: sum_bags(g, index)},
    tangent=linear("x"),
)
def sum_bags_backward(backend: Any, x: Any, index: Any, count: int) -> Any:
    """The rows of x added up for each row of the table; every thread fills a part of the table."""
    out = empty((count, x.shape[1]), x.dtype)
    code = BY_NUMPY[x.dtype].code
    call = cpu.kernel(sum_bags_back, (BY_NUMPY[index.dtype].code, code, "i64", code))
    parts = parts_of(count, out.size + index.size * x.shape[1])
    cpu.side_by_side(call, [[index, x, np.asarray(low, np.int64), out[low:high]] for low, high in parts])
    return out


@primitive(
    meta=lambda x, index, starts, stops: ((len(starts), x.shape[1]), dtype_of(x)),
    tensors=4, name="sum_spans", backward_name="EmbeddingBagBackward0",
    grad={"x": lambda g, index, starts, stops, x_shape: sum_spans_backward(g, index, starts, stops, x_shape[0])},
    batch=spans,
    tangent=linear("x"),
)  # fmt: skip
def sum_spans(backend: Any, x: Any, index: Any, starts: Any, stops: Any) -> Any:
    """The sums of the rows of x that parts of the index name, from each start to its stop."""
    out = empty((len(starts), x.shape[1]), x.dtype)
    wrong = np.empty(len(starts), np.bool_)
    code = BY_NUMPY[x.dtype].code
    call = cpu.sized(index.size * x.shape[1], sum_span, (BY_NUMPY[index.dtype].code, "i64", "i64", code, code, "b1"))
    call(index, starts, stops, x, out, wrong)
    if wrong.any():
        _check_range(index, len(x))
    return out


@primitive(
    meta=lambda x, index, starts, stops, count: ((count, x.shape[1]), dtype_of(x)),
    tensors=4,
    name="sum_spans_backward",
    grad={"x": lambda g, index, starts, stops: sum_spans(g, index, starts, stops)},
    batch=spans,
    tangent=linear("x"),
)
def sum_spans_backward(backend: Any, x: Any, index: Any, starts: Any, stops: Any, count: int) -> Any:
    """The rows of x added up for each row of the table; every thread fills a part of the table."""
    out = empty((count, x.shape[1]), x.dtype)
    code = BY_NUMPY[x.dtype].code
    call = cpu.kernel(sum_spans_back, (BY_NUMPY[index.dtype].code, "i64", "i64", code, "i64", code))
    parts = parts_of(count, out.size + index.size * x.shape[1])
    given = index, starts, stops, x
    cpu.side_by_side(call, [[*given, np.asarray(low, np.int64), out[low:high]] for low, high in parts])
    return out


def _check_range(index: Any, rows: int) -> None:
    """Names the first index that is no row of the table."""
    wrong = index[(index < 0) | (index >= rows)]
    if wrong.size:
        raise RuntimeError(
            f"embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {int(wrong.flat[0])}; "
            f"the table has {rows} rows"
        )


def _spans(indices: Tensor, offsets: Tensor, last: bool) -> tuple[Any, Any]:
    """Where each bag begins among the indices, and where it ends."""
    starts = host_array(offsets).astype(np.int64)
    count = indices._array.size
    if starts.size and starts[0] != 0:
        raise RuntimeError(
            f"offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got {int(starts[0])}"
        )
    if (starts < 0).any():
        raise IndexError(f"index out of range in self: offsets must not be negative, but one is {int(starts.min())}")
    if (starts[1:] < starts[:-1]).any():
        raise RuntimeError("embedding_bag: offsets must not fall: every bag begins where the one before it ends")
    if starts.size and starts[-1] > count:
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length {count} but got offsets[-1] of {int(starts[-1])}"
        )
    stops = np.append(starts, count)[1:]
    return (starts[:-1], stops[:-1]) if last else (starts, stops)


def _beside(weight: Tensor, array: Any) -> Tensor:
    """Integers as a tensor on the device of `weight`."""
    made = wrap(array.astype(np.int64, copy=False), int64)
    return made if not weight._k & CUDA else ops.to_device(made, int64, weight.device)


def _largest(rows: Tensor, where: Tensor, empty: Tensor) -> Tensor:
    """The largest of each bag; of equal ones the first, which alone gets the gradient."""
    spread = ops.expand(ops.unsqueeze(where, 1), rows._array.shape)
    plain, none = ops.detach(rows), rows._array.shape[0]
    most = ops.scatter_reduce(empty, 0, spread, plain, "amax", include_self=False)
    found = ops.logical_or(ops.eq(plain, ops.index_select(most, 0, where)), ops.isnan(plain))
    place = ops.unsqueeze(ops.arange(none, device=rows.device), 1)
    place = ops.where(found, place, ops.full_like(place, none))
    start = ops.new_full(empty, empty._array.shape, none, dtype=int64)
    first = ops.scatter_reduce(start, 0, spread, place, "amin")
    chosen = ops.gather(rows, 0, ops.clamp(first, max=none - 1))
    return ops.masked_fill(chosen, ops.eq(first, none), 0)


@public(method=False)
@labelled("EmbeddingBagBackward0")
def embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = 0,
    sparse: bool = False, per_sample_weights: Tensor | None = None, include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The rows of each bag reduced; the bag of each index, the sizes of the bags, and the indices of maxima."""
    if not 0 <= mode < len(_MODES):
        raise RuntimeError("`mode` must be sum, mean, or max.")
    for tensor, name, rank in ((indices, "input", 1), (offsets, "offsets", 1), (weight, "weight", 2)):
        if tensor._array.ndim != rank:
            ranks = "1D or 2D" if name == "input" else f"{rank}D"
            raise RuntimeError(f"{name} has to be a {ranks} Tensor, but got Tensor of dimension {tensor._array.ndim}")
    _check_types(weight, indices, offsets, per_sample_weights)
    height, width = weight._array.shape
    if padding_idx is not None:
        if not -height <= padding_idx < height:
            raise RuntimeError(
                f"padding_idx must be within the number of embeddings, {-height} through {height - 1}, but got {padding_idx}"
            )
        padding_idx %= height
    if weight._k & META:
        only_shapes("embedding_bag")
        count = offsets._array.shape[0] - bool(include_last_offset)
        numbers = [ops.new_empty(indices, (n,), dtype=int64) for n in (indices._array.shape[0], count, count)]
        return (ops.new_empty(weight, (count, width)), *numbers)  # type: ignore[return-value]
    starts, stops = _spans(indices, offsets, include_last_offset)
    count = len(starts)
    end = int(stops[-1]) if count else 0
    if end < indices._array.size:  # what comes after the last bag
        indices = ops.narrow(indices, 0, 0, end)
        if per_sample_weights is not None:
            per_sample_weights = ops.narrow(per_sample_weights, 0, 0, end)
    bags = np.repeat(np.arange(count), stops - starts)
    numbers = host_array(indices)
    _check_range(numbers, height)
    where = _beside(weight, bags)
    rows = ops.embedding(weight, indices, -1 if padding_idx is None else padding_idx, scale_grad_by_freq, sparse)
    kept = np.ones(bags.size, bool) if padding_idx is None else numbers != padding_idx
    sizes = np.bincount(bags[kept], minlength=count)[:count] if bags.size else np.zeros(count, np.int64)
    if weight.dtype.itemsize == 2:
        rows = ops.to_dtype(rows, weight.dtype.wide)
    if per_sample_weights is not None:
        rows = rows * ops.unsqueeze(ops.reshape(per_sample_weights, (-1,)), 1)
    if padding_idx is not None and not kept.all():
        chosen = _beside(weight, np.flatnonzero(kept))
        rows, where = ops.index_select(rows, 0, chosen), ops.index_select(where, 0, chosen)
    empty = ops.new_zeros(rows, (count, width))
    if _MODES[mode] == "max":
        out = _largest(rows, where, empty) if rows._array.size else ops.add(empty, ops.sum(rows))
    else:
        out = ops.index_add(empty, 0, where, rows)
        if _MODES[mode] == "mean":
            out = out / ops.unsqueeze(ops.to_dtype(_beside(weight, np.maximum(sizes, 1)), out.dtype), 1)
    if out.dtype is not weight.dtype:
        out = ops.to_dtype(out, weight.dtype)
    return out, _beside(weight, bags), _beside(weight, sizes), _beside(weight, np.zeros(count, np.int64))


@public("_embedding_bag", method=False)
def embedding_bag_with_gradient(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same as `embedding_bag`, by the name of PyTorch's operator."""
    return embedding_bag(*args, **kwargs)


@public("_embedding_bag_forward_only", method=False)
def embedding_bag_forward_only(weight: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same as `embedding_bag`, without a gradient."""
    return embedding_bag(ops.detach(weight), *args, **kwargs)


def _check_types(weight: Tensor, indices: Tensor, offsets: Tensor, samples: Tensor | None) -> None:
    for tensor in (indices, offsets):
        if tensor.dtype is not int64 and tensor.dtype is not int32:
            raise RuntimeError(
                "embedding_bag: Expected tensor for argument #1 'indices' to have one of the following scalar types: "
                f"Long, Int; but got {tensor.type()} instead"
            )
    if weight.dtype.category != FLOATING:
        raise RuntimeError(
            "embedding_bag: Expected tensor for argument #1 'weight' to have one of the following scalar types: "
            f"Half, BFloat16, Float, Double; but got {weight.type()} instead"
        )
    if samples is not None and samples.dtype is not weight.dtype:
        raise RuntimeError(
            "embedding_bag: Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 "
            f"'per_sample_weights'; but type {weight.type()} does not equal {samples.type()}"
        )


def _check(input: Tensor, weight: Tensor, offsets: Any, samples: Any, mode: str, scale: bool, sparse: bool) -> None:
    if samples is not None and input._array.shape != samples._array.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({samples.shape}) is not None, then it must have the "
            f"same shape as the input ({input.shape})"
        )
    if weight._array.ndim != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight._array.ndim}")
    if mode not in _MODES:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if samples is not None and mode != "sum":
        raise NotImplementedError(
            f"embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got mode='{mode}')."
        )
    if input._array.ndim == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences. "
                f"However, found offsets of type {type(offsets)}"
            )
    elif input._array.ndim == 1:
        if not isinstance(offsets, Tensor):
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets._array.ndim != 1:
            raise ValueError("offsets has to be a 1D Tensor")
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input._array.ndim}")


@public("nn.functional.embedding_bag", method=False)
def functional_embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None, norm_type: float = 2,
    scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """Sums, means or maxima of the rows of `weight` that each bag of `input` names by number.

    Bags are the rows of a matrix, or the parts of a vector that begin at `offsets`.

    >>> import flambeau as torch
    >>> torch.nn.functional.embedding_bag(torch.tensor([[0, 1]]), torch.tensor([[1.0], [3.0]]))
    tensor([[2.]])
    """
    if weight.dtype is int64 and input.dtype.category == FLOATING:
        warn_user(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` is "
            "deprecated, and should now be `embedding_bag(input, weight, ...)`."
        )
        input, weight = weight, input
    _check(input, weight, offsets, per_sample_weights, mode, scale_grad_by_freq, sparse)
    usual = max_norm is None and per_sample_weights is None and padding_idx is None and not sparse
    plain = usual and mode != "max" and not scale_grad_by_freq and weight.dtype.itemsize > 2
    if input._array.ndim == 2:
        bags, length = input._array.shape
        _check_types(weight, input, input, per_sample_weights)
        if plain and length:
            if not (weight._k | input._k | modes.on) & ~GRAD and weight._array.size:
                total = sum_bags(weight, input)
                return total if mode == "sum" else relabel(total / length, "EmbeddingBagBackward0")
            rows = functions["nn.functional.embedding"](input, weight)
            return relabel((ops.sum if mode == "sum" else ops.mean)(rows, 1), "EmbeddingBagBackward0")
        offsets = wrap(
            np.arange(0, bags * length, length, dtype=np.int64) if length else np.zeros(bags, np.int64), int64
        )
        input = ops.reshape(input, (-1,))
        include_last_offset = plain = False
        if per_sample_weights is not None:
            per_sample_weights = ops.reshape(per_sample_weights, (-1,))
    if max_norm is not None:
        _renormalise(weight, input, max_norm, norm_type)
    assert offsets is not None
    if plain and not (weight._k | input._k | offsets._k | modes.on) & ~GRAD and weight._array.size:
        _check_types(weight, input, offsets, None)
        starts, stops = _spans(input, offsets, include_last_offset)
        total = sum_spans(weight, input, wrap(starts, int64), wrap(stops, int64))
        if mode == "sum":
            return total
        sizes = np.maximum(stops - starts, 1).astype(weight.dtype.numpy)
        return relabel(total / wrap(sizes[:, None], weight.dtype), "EmbeddingBagBackward0")
    return embedding_bag(
        weight, input, offsets, scale_grad_by_freq, _MODES.index(mode), sparse, per_sample_weights,
        include_last_offset, padding_idx,
    )[0]  # fmt: skip


SCHEMAS = """
embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False) -> (Tensor, Tensor, Tensor, Tensor)
embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int mode, bool sparse, Tensor? per_sample_weights, bool include_last_offset, int? padding_idx) -> (Tensor, Tensor, Tensor, Tensor)
_embedding_bag|_embedding_bag_forward_only(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)  # whole
"""
