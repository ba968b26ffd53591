"""Rules by which operations that are not pointwise run on a whole batch; what has none runs sample by sample.

Most follow from the names of an op's parameters: with the batch dimension in front, `dim` and `dims` move up by one
and a `shape` gets the batch size before it.
"""

from __future__ import annotations

from typing import Any

from .._core.layouts import contiguous_format
from .._ops.registry import ops
from .._tensor import Tensor
from .batched import batch_size, in_front, make_batched, unwrap
from .fallback import dynamic
from .vmap import batch_rule


def _stacked(a: Any, level: int, size: int) -> Any:
    """An operand with the batch dimension in front, repeated without copying if it has none."""
    if not isinstance(a, Tensor):
        return a
    front = in_front(a, level)
    if front is None:
        front = ops.expand(ops.unsqueeze(a, 0), (size, *a._array.shape))
    return front


def _batched(out: Any, level: int) -> Any:
    if isinstance(out, (tuple, list)):
        return tuple(make_batched(t, 0, level) for t in out)
    return make_batched(out, 0, level)


def _moved(name: str, value: Any, size: int) -> Any:
    if name in ("dim", "a", "b") and isinstance(value, int):
        return value + 1
    if name == "dims" and value is not None:
        return tuple(d + 1 for d in value)
    if name == "shape":
        return (size, *value)
    if name == "key":
        return (slice(None), *value) if isinstance(value, tuple) else (slice(None), value)
    return value


@batch_rule(
    "sum", "nansum", "mean", "prod", "amax", "amin", "max", "min", "arg_extremum", "var", "std", "var_mean", "std_mean",
    "logsumexp", "softmax", "log_softmax", "softmax_backward", "log_softmax_backward", "cumsum", "cumprod", "cummax", "cummin",
    "logcumsumexp", "linear_recurrence", "sort", "topk", "kthvalue", "median", "mode", "linalg_vector_norm", "truth",
    "flip", "transpose", "select", "slice", "diagonal", "unfold", "split", "split_with_sizes", "unbind", "squeeze", "squeeze_dim",
    "squeeze_dims", "gather", "scatter", "scatter_add", "getitem_select", "getitem_slice", "getitem_unsqueeze",
    "getitem_backward", "diagonal_backward", "expand_copy", "fft_c2c", "fft_r2c", "fft_c2r", "glu",
)  # fmt: skip
def by_parameter_names(level: int, op: Any, args: Any) -> Any:
    """Runs the op once, its dimensions moved behind the batch's."""
    tensors = args[: op.tensors]
    if op.name == "transpose" and not args[0]._array.ndim:
        return args[0]
    # a 0-d sample counts as having one dimension, which the batch does not have
    if any(isinstance(t, Tensor) and not t._array.ndim for t in tensors):
        return NotImplemented
    size = batch_size(args, level)
    static = [_moved(name, value, size) for name, value in zip(op.names[op.tensors :], args[op.tensors :])]
    if any(v is None and n in ("dim", "dims") for n, v in zip(op.names[op.tensors :], static)):
        return NotImplemented
    return _batched(op(*[_stacked(t, level, size) for t in tensors], *static), level)


@batch_rule("permute")
def permute(level: int, op: Any, args: Any) -> Any:
    return make_batched(op(in_front(args[0], level), (0, *[d + 1 for d in args[1]])), 0, level)


@batch_rule("t")
def t(level: int, op: Any, args: Any) -> Any:
    x = in_front(args[0], level)
    return make_batched(ops.transpose(x, 1, 2) if args[0]._array.ndim == 2 else x, 0, level)


@batch_rule("unsqueeze")
def unsqueeze(level: int, op: Any, args: Any) -> Any:
    return make_batched(op(in_front(args[0], level), args[1] + 1), 0, level)


@batch_rule("view", "unsafe_view")
def view(level: int, op: Any, args: Any) -> Any:
    x = in_front(args[0], level)
    return make_batched(ops.reshape(x, (x._array.shape[0], *args[1])), 0, level)


@batch_rule("expand")
def expand(level: int, op: Any, args: Any) -> Any:
    x, shape = in_front(args[0], level), args[1]
    have = x._array.shape
    aligned = ops.reshape(x, (have[0], *[1] * (len(shape) - len(have) + 1), *have[1:]))
    return make_batched(op(aligned, (have[0], *shape)), 0, level)


@batch_rule("cat", "stack")
def join(level: int, op: Any, args: Any) -> Any:
    size, tensors = batch_size(args, level), args[0]
    stacked = [_stacked(x, level, size) for x in tensors]
    others = [x for x in stacked if x._array.shape[1:] != (0,)]
    if op.name == "cat" and others:  # an empty tensor of one dimension goes with all others
        shape = list(others[0]._array.shape)
        shape[args[1] + 1] = 0
        stacked = [ops.reshape(x, shape) if x._array.shape[1:] == (0,) else x for x in stacked]
    return make_batched(op(stacked, args[1] + 1), 0, level)


@batch_rule(
    "to_dtype",
    "clone",
    "clone_format",
    "to_copy",
    "zero",
    "tril",
    "triu",
    "alias",
    "view_as_real",
    "view_as_complex",
    "frames",
    "overlap_add",
)
def on_the_last_dimensions(level: int, op: Any, args: Any) -> Any:
    if op.name == "clone_format" and args[1] is not contiguous_format:  # which is for a number of dimensions
        return NotImplemented
    return make_batched(op(in_front(args[0], level), *args[1:]), 0, level)


@batch_rule("repeat")
def repeat(level: int, op: Any, args: Any) -> Any:
    x, times = in_front(args[0], level), args[1]
    have = x._array.shape
    aligned = ops.reshape(x, (have[0], *[1] * (len(times) - len(have) + 1), *have[1:]))
    return make_batched(op(aligned, (1, *times)), 0, level)


@batch_rule("index_select")
def index_select(level: int, op: Any, args: Any) -> Any:
    x, index, dim = args
    if unwrap(index, level)[1] is not None or not x._array.ndim:
        return NotImplemented
    return make_batched(op(in_front(x, level), index, dim + 1), 0, level)


@batch_rule("mm", "bmm", "mv", "dot", "matmul")
def matmul(level: int, op: Any, args: Any) -> Any:
    a, b = args[0], args[1]
    first, second = a._array.ndim, b._array.ndim
    x, y = (v if v is not None else ops.unsqueeze(t, 0) for v, t in ((in_front(a, level), a), (in_front(b, level), b)))
    # vectors become matrices, so that the batch dimension is never taken for one of the product's
    if first == 1:
        x = ops.unsqueeze(x, -2)
    if second == 1:
        y = ops.unsqueeze(y, -1)
    rank = max(x._array.ndim, y._array.ndim)
    x, y = (ops.reshape(v, (v._array.shape[0], *[1] * (rank - v._array.ndim), *v._array.shape[1:])) for v in (x, y))
    out = ops.matmul(x, y)
    if second == 1:
        out = ops.squeeze(out, -1)
    if first == 1:
        out = ops.squeeze(out, -1 if second == 1 else -2)
    return make_batched(out, 0, level)


@batch_rule("nonzero", "nonzero_tuple", "masked_select", "unique")
def shaped_by_values(level: int, op: Any, args: Any) -> Any:
    raise dynamic(op.name, "nonzero", "where", "argwhere", "masked_select", "unique", "unique_consecutive")
