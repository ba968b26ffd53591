"""How records run on a whole batch (`vmap`): rules that records name by `batch=`.

A rule is a function (op, size, mapped, args): of the arguments, tensors for which `mapped` is true have the batch as their
first dimension, of `size` samples; the others are the same for all. It gives the results with the batch first, or
NotImplemented if it does not know; then the samples run one by one. Rules call ordinary operations on ordinary tensors.
"""

from __future__ import annotations

from typing import Any

from ..._core.layouts import reach_of
from ..._core.state import BATCHED, DUAL, GRAD, local
from ..._tensor import Tensor
from ..registry import ops

# -- operands --------------------------------------------------------------------------------------------------------


def is_differentiated(*tensors: Any) -> bool:
    """Whether the derivative by one of these is wanted now, on the tape or as a tangent; a batch is asked for its values."""
    for t in tensors:
        while t._k & BATCHED:
            t = t.value
        if t._k & DUAL or (t._k & GRAD and local.grad):
            return True
    return False


def stacked(t: Any, mapped: bool, size: int) -> Any:
    """An operand with the batch in front: repeated without copying if it has none."""
    if mapped or not isinstance(t, Tensor):
        return t
    return ops.expand(ops.unsqueeze(t, 0), (size, *t._array.shape))


def all_stacked(op: Any, size: int, mapped: Any, args: Any) -> list[Any]:
    """The tensors among the arguments, each with the batch in front."""
    return [stacked(t, m, size) for t, m in zip(args[: op.tensors], mapped)]


def rank_of(t: Tensor, mapped: bool) -> Any:
    """The number of dimensions of a sample."""
    return t._array.ndim - mapped


def aligned(t: Tensor, rank: int) -> Tensor:
    """A batch whose samples have at least `rank` dimensions, so that they broadcast as samples do."""
    shape = t._array.shape
    return t if len(shape) > rank else ops.reshape(t, (shape[0], *[1] * (rank + 1 - len(shape)), *shape[1:]))


def each(made: Any, change: Any) -> Any:
    """The results of an operation, changed one by one."""
    if isinstance(made, (tuple, list)):
        return tuple([change(t) if isinstance(t, Tensor) else t for t in made])
    return change(made)


def merged(t: Tensor, at: int = 0) -> Tensor:
    """The batch, which is in front, joined with a dimension of the samples."""
    shape = t._array.shape
    if at:
        t = ops.movedim(t, 0, at)
    return ops.reshape(t, (*shape[1 : at + 1], shape[0] * shape[at + 1], *shape[at + 2 :]))


def parted(t: Tensor, size: int, at: int = 0) -> Tensor:
    """The opposite: the batch taken out of a dimension, and put in front."""
    shape = t._array.shape
    split = ops.reshape(t, (*shape[:at], size, shape[at] // size if size else 0, *shape[at + 1 :]))
    return ops.movedim(split, at, 0) if at else split


def samples(size: int, rank: int) -> Any:
    """The numbers of the samples, as an index that goes with others of `rank` dimensions."""
    return ops.reshape(ops.arange(size), (size, *[1] * rank))


# -- rules -----------------------------------------------------------------------------------------------------------


def leading(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """Of operations that take any number of dimensions before their own: the batch is one more."""
    made = op(*all_stacked(op, size, mapped, args), *args[op.tensors :])
    return each(made, lambda t: stacked(t, t._array.shape[:1] == (size,), size))  # what is not wanted may be empty


def broadcast(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """Of operations on elements: samples of different ranks are brought to one."""
    rank = max([rank_of(t, m) for t, m in zip(args, mapped) if isinstance(t, Tensor)])
    given = [aligned(t, rank) if m else t for t, m in zip(args, mapped)]
    return op(*given, *args[op.tensors :])


def along(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """By the names of parameters: `dim`, `dims`, `a` and `b` are dimensions, which move up by one; `shape` gets the batch's size, a
    `key` or an `index` of slices goes behind the batch."""
    tensors, names, static = args[: op.tensors], op.names[op.tensors :], args[op.tensors :]
    ranks = [rank_of(t, m) for t, m in zip(tensors, mapped) if isinstance(t, Tensor)]
    given = all_stacked(op, size, mapped, args)
    if not min(ranks) and ("key" in names or "index" in names):  # parts, which may be numbers
        return op(*given, *[_behind(n, v, size, ranks[0]) for n, v in zip(names, static)])
    if not max(ranks):  # a number counts as one element along dimension 0
        if op.view:
            return args[0] if op.name == "transpose" else NotImplemented
        one = [ops.unsqueeze(t, 1) if isinstance(t, Tensor) else t for t in given]
        whole = "keepdim" in names  # without a dimension, of all elements of a sample
        made = op(
            *one, *[1 if n == "dim" and v is None and whole else _behind(n, v, size, 1) for n, v in zip(names, static)]
        )
        return each(made, lambda t: ops.reshape(t, (size,)) if t._array.size == size else t)
    if not min(ranks):
        return NotImplemented
    if "dim" in names and static[names.index("dim")] is None:  # of all elements, or their place among all
        if op.names[0] != "x" or "keepdim" not in names:
            return NotImplemented
        made = op(ops.reshape(given[0], (size, -1)), *[1 if n == "dim" else v for n, v in zip(names, static)])
        kept = static[names.index("keepdim")]
        return each(made, lambda t: ops.reshape(t, (size, *[1] * ranks[0])) if kept else t)
    return op(*given, *[_behind(n, v, size, ranks[0]) for n, v in zip(names, static)])


def _behind(name: str, value: Any, size: int, rank: int) -> Any:
    """A parameter of a sample's operation as that of the batch's."""
    if name in ("dim", "a", "b") and isinstance(value, int):
        return value + 1
    if name == "dims":
        return tuple(range(1, rank + 1)) if value is None else tuple([d + 1 for d in value])
    if name in ("shape", "x_shape"):
        return (size, *value)
    if name == "key" or (name == "index" and isinstance(value, tuple)):
        return (slice(None), *value) if isinstance(value, tuple) else (slice(None), value)
    return value


def over_all(along_dims: Any) -> Any:
    """Of operations on all elements of a sample: `along_dims(x, args)` of a matrix whose rows are the samples."""

    def rule(op: Any, size: int, mapped: Any, args: Any) -> Any:
        return along_dims(ops.reshape(args[0], (size, args[0]._array.size // max(size, 1))), *args[1:])

    return rule


def folded(*shared: str, at: int = 0) -> Any:
    """Of operations that go along dimension `at` of all operands and results independently: the batch joins it.

    Operands named as `shared` have no such dimension; if one of them is mapped, this does not help.
    """

    def rule(op: Any, size: int, mapped: Any, args: Any) -> Any:
        given = []
        for name, t, m in zip(op.names, args[: op.tensors], mapped):
            if not isinstance(t, Tensor):
                given.append(t)
            elif name in shared:
                if m:
                    return NotImplemented
                given.append(t)
            elif rank_of(t, m) <= at:
                return NotImplemented
            else:
                given.append(merged(stacked(t, m, size), at))
        return each(op(*given, *args[op.tensors :]), lambda t: parted(t, size, at))

    return rule


def listed(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """Of `cat` and `stack`, whose first argument is a list."""
    tensors = [stacked(t, m, size) for t, m in zip(args[0], mapped[0])]
    others = [t for t in tensors if t._array.shape[1:] != (0,)]
    if op.name == "cat" and others:  # an empty tensor of one dimension goes with all others
        shape = list(others[0]._array.shape)
        shape[args[1] + 1] = 0
        tensors = [ops.reshape(t, shape) if t._array.shape[1:] == (0,) else t for t in tensors]
    return op(tensors, args[1] + 1)


# -- views and shapes ------------------------------------------------------------------------------------------------


def permuted(op: Any, size: int, mapped: Any, args: Any) -> Any:
    return op(args[0], (0, *[d + 1 for d in args[1]]))


def turned(op: Any, size: int, mapped: Any, args: Any) -> Any:
    return ops.transpose(args[0], 1, 2) if args[0]._array.ndim == 3 else ops.view_as(args[0], args[0])


def inserted(op: Any, size: int, mapped: Any, args: Any) -> Any:
    return op(args[0], args[1] + 1)


def reshaped(op: Any, size: int, mapped: Any, args: Any) -> Any:
    return ops.reshape(args[0], (size, *args[1]))


def expanded(op: Any, size: int, mapped: Any, args: Any) -> Any:
    return op(aligned(args[0], len(args[1])), (size, *args[1]))


def repeated(op: Any, size: int, mapped: Any, args: Any) -> Any:
    return op(aligned(args[0], len(args[1])), (1, *args[1]))


def squeezed(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """Samples without dimensions have none to lose."""
    if args[0]._array.ndim == 1:
        return ops.view_as(args[0], args[0])
    return along(op, size, mapped, args)


def in_format(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """A copy in a memory format, which is for a number of dimensions: the batch joins the first of them."""
    if args[0]._array.ndim < 2:
        return op(*args)
    return parted(op(merged(args[0]), *args[1:]), size)


def rolled(op: Any, size: int, mapped: Any, args: Any) -> Any:
    x, shifts, dims = args
    if dims:
        return op(x, shifts, tuple([d + 1 for d in dims])) if x._array.ndim > 1 else ops.clone(x)
    flat = ops.reshape(x, (size, -1)) if x._array.size else x
    return ops.reshape(op(flat, shifts, (1,)), x._array.shape) if x._array.size else ops.clone(x)


def padded(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """(before, after) of each dimension: nothing for the batch's."""
    x, pads, value = args
    return op(x, ((0, 0), *pads), value)


def in_blocks(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """Matrices along the diagonal of one: rows of each between zeros."""
    blocks = [stacked(t, m, size) for t, m in zip(args[0], mapped[0])]
    blocks = [ops.reshape(t, (size, *[1] * (3 - t._array.ndim), *t._array.shape[1:])) for t in blocks]
    kind, *others = [t.dtype for t in blocks]
    if any([d is not kind for d in others]):
        return NotImplemented
    widths = [t._array.shape[2] for t in blocks]
    rows = [
        ops.constant_pad_nd(t, (sum(widths[:i]), sum(widths[i + 1 :])), 0) for i, t in enumerate(blocks)
    ]  # fmt: skip
    return ops.cat(rows, 1)


def strided_backward(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """Each sample in memory of its own, one behind another."""
    x, shape, x_strides, strides, offset = args
    reads = op.name == "as_strided_gather"  # its x is what lies in memory, `shape` what is read
    inner, outer = (x._array.shape[1:], shape) if reads else (shape, x._array.shape[1:])
    span = max(reach_of(inner, x_strides), offset + reach_of(outer, strides), 1)
    if min(0, offset, *x_strides, *strides) < 0:
        return NotImplemented
    return op(x, (size, *shape), (span, *x_strides), (span, *strides), offset)


def shaped_by_values(op: Any, size: int, mapped: Any, args: Any) -> Any:
    """Of operations whose results differ in shape between samples: nothing can be done for a batch."""
    raise Dynamic(op.name)


class Dynamic(Exception):
    """An operation on a batch whose result's shape depends on elements."""
