"""What operations do inside `vmap` (whose steps are in `_functorch/vmap.py`).

A batched tensor looks like one sample; the dispatcher sends every op on it here. Pointwise ops run once on aligned
operands, others by the rule of their record (`_ops/records/batching.py`), and what has none runs sample by sample (`fallback`).
"""

from __future__ import annotations

import math
from typing import Any

from .._core.dtypes import bool_, uint8
from .._core.layouts import channels_last, channels_last_3d
from .._core.sizes import size_argument
from .._core.state import BATCHED, GRAD, local
from .._dispatch import handlers
from .._ops.records.batching import Dynamic
from .._ops.records.pointwise_op import Pointwise
from .._ops.registry import ops
from .._tensor import Tensor
from .batched import Batched, deepest, front, in_front, is_viewed, make_batched, part_samples, unwrap
from .fallback import dynamic, each_sample, function_rules, not_possible, on_batches, outside


def _handle(op: Any, args: tuple[Any, ...], k: int) -> Any:
    """Runs a record of which an operand is batched."""
    level = deepest(args)
    if local.batches[-1][0] != level if local.batches else True:
        _check_open(level, op)
    if isinstance(op, Pointwise):
        return _pointwise(level, op, args)
    if op.batch is None:
        return each_sample(level, op, args)
    size = 0
    given: list[Any] = list(args)
    mapped: list[Any] = [False] * op.tensors
    for i, a in enumerate(args[: op.tensors]):
        if isinstance(a, Batched):
            if a.level == level:
                given[i], mapped[i] = front(a), True
                size = given[i]._array.shape[0]
        elif op.many and i == 0:
            mapped[0] = [isinstance(t, Batched) and t.level == level for t in a]
            given[0] = [front(t) if m else t for t, m in zip(a, mapped[0])]
            size = next((t._array.shape[0] for t, m in zip(given[0], mapped[0]) if m), size)
    try:
        out = op.batch(op, size, mapped, tuple(given))
    except Dynamic:
        raise dynamic(op.name, *_SHAPED_BY_VALUES) from None
    if out is NotImplemented:
        return each_sample(level, op, args)
    if isinstance(out, Tensor):
        return make_batched(out, 0, level)
    return type(out)([make_batched(t, 0, level) if isinstance(t, Tensor) else t for t in out])


_SHAPED_BY_VALUES = ("nonzero", "where", "argwhere", "masked_select", "unique", "unique_consecutive")


def _check_open(level: int, op: Any) -> None:
    if all(number != level for number, _, _ in local.batches):
        raise RuntimeError(
            f"vmap: your tensor may have escaped from inside a function being vmapped, and {op.name} was called on it "
            "outside: return it from the function instead"
        )


def _pointwise(level: int, op: Pointwise, args: tuple[Any, ...]) -> Any:
    rank = max(a._array.ndim for a in args if isinstance(a, Tensor))
    common = op.common(args)
    physical = []
    for i, a in enumerate(args):
        front = in_front(a, level)
        if front is not None:
            shape = front._array.shape
            if a._array.ndim < rank:
                front = ops.reshape(front, (shape[0], *[1] * (rank - a._array.ndim), *shape[1:]))
            if front.dtype is not common and not a._array.ndim and a.dtype.category <= common.category:
                if i not in op.masks:
                    front = ops.to_dtype(front, common)  # a 0-d sample does not decide the dtype
            a = front
        physical.append(a)
    out = op.call(*physical)
    if isinstance(out, tuple):
        return tuple(make_batched(t, 0, level) for t in out)
    return make_batched(out, 0, level)


handlers[BATCHED] = _handle


# -- writing into batches ------------------------------------------------------------------------------------------


def _level(t: Any) -> int:
    return t.level if isinstance(t, Batched) else 0


def _write(t: Tensor, src: Any, name: str = "copy_") -> Tensor:
    """`t.copy_(src)` where one of them is batched; `src` may also be a number."""
    level, bdim = _level(t), getattr(t, "bdim", 0)
    if _level(src) > level:
        raise not_possible(name)
    assert isinstance(t, Batched)
    part_samples(t)
    if not isinstance(src, Tensor):
        ops.fill_(t.value, src)
    elif _level(src) == level:
        front = in_front(src, level)
        size, *own = front._array.shape
        aligned = ops.reshape(front, (size, *[1] * (t._array.ndim - len(own)), *own))
        ops.copy_(t.value, ops.movedim(aligned, 0, bdim) if bdim else aligned)
    else:
        ops.copy_(t.value, ops.unsqueeze(ops.expand(src, t._array.shape), bdim))
    t.refresh()
    return t


def _take_over(t: Batched, other: Batched) -> Batched:
    """Makes `t` the batch that `other` is."""
    t.value, t.bdim, t._array, t._k = other.value, other.bdim, other._array, other._k
    return t


def _made_like(function: Any, level: int, args: Any, named: Any) -> Any:
    """Tensors that are made like a batched one, as batches: they may be written to."""
    front = in_front(args[0], level) if args else None
    return NotImplemented if front is None else make_batched(function(front, *args[1:], **named), 0, level)


def _made_new(function: Any, level: int, args: Any, named: Any) -> Any:
    """The same for functions of a size."""
    front, rest = in_front(args[0], level), list(args[1:])
    if front is None:
        return NotImplemented
    lead = front._array.shape[:1]
    if "size" in named:
        named = {**named, "size": (*lead, *size_argument((named["size"],)))}
    elif function.__name__ == "new_full":
        rest[0] = (*lead, *size_argument((rest[0],)))
    else:
        rest = [*lead, *size_argument(rest)]
    return make_batched(function(front, *rest, **named), 0, level)


def _filled(function: Any, level: int, args: Any, named: Any) -> Any:
    """Tensors made like a batched one, whose fill value may be another in each sample."""
    place, rule = (2, _made_new) if function.__name__ == "new_full" else (1, _made_like)
    value = args[place] if len(args) > place else named.get("fill_value")
    if not isinstance(value, Tensor) or _level(value) != level:
        return rule(function, level, args, named)
    made = rule(function, level, args[:place], {**named, "fill_value": 0})
    return made if made is NotImplemented else ops.copy_(made, ops.detach(value))


def _one_hot(function: Any, level: int, args: Any, named: Any) -> Any:
    if (args[1] if len(args) > 1 else named.get("num_classes", -1)) == -1:
        raise RuntimeError(
            "When vmap-ing torch.nn.functional.one_hot, please provide an explicit positive num_classes argument."
        )
    return _made_like(function, level, args, named)


def _of_all(function: Any, level: int, args: Any, named: Any) -> Any:
    """What is asked of all samples together."""
    return function(in_front(args[0], level))


def _by_mask(function: Any, level: int, args: Any, named: Any) -> Any:
    parts = args[1] if isinstance(args[1], tuple) else (args[1],)
    for part in parts:
        if isinstance(part, Batched) and part.dtype in (bool_, uint8) and part._array.ndim:
            raise RuntimeError(
                "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over "
                "indexing with a boolean mask: use torch.where."
            )
    return NotImplemented


def _strided(function: Any, level: int, args: Any, named: Any) -> Any:
    """Each sample's memory from where it begins in the batch's."""

    def sizes(input: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:
        return input, size_argument((size,)), size_argument((stride,)), storage_offset

    t, size, stride, offset = sizes(*args, **named)
    value, bdim = unwrap(t, level)
    if bdim is None:
        return NotImplemented
    if len(size) != len(stride):
        raise RuntimeError(
            f"as_strided: size and stride must have the same length! Got size {list(size)} and stride {list(stride)}"
        )
    begin = value.storage_offset()
    last = begin + sum((n - 1) * s for n, s in zip(t._array.shape, t.stride()))
    start = begin if offset is None else offset
    end = start + sum((n - 1) * s for n, s in zip(size, stride))
    if 0 not in size and (0 in t._array.shape or start < begin or end > last):
        raise outside(size, stride, start)
    step = value.stride()[bdim]
    return make_batched(function(value, (value._array.shape[bdim], *size), (step, *stride), offset), 0, level)


def _empty_strided(function: Any, level: int, args: Any, named: Any) -> Any:
    """Samples of any strides, one behind another in memory."""
    if in_front(args[0], level) is None or len(args) < 3:
        return NotImplemented
    front, size, stride = in_front(args[0], level), size_argument((args[1],)), size_argument((args[2],))
    step = 0 if 0 in size else 1 + sum((n - 1) * s for n, s in zip(size, stride))
    return make_batched(function(front, (front._array.shape[0], *size), (step, *stride), **named), 0, level)


def _conj(function: Any, level: int, args: Any, named: Any) -> Any:
    value, bdim = unwrap(args[0], level)
    return NotImplemented if bdim is None else make_batched(function(value), bdim, level)


def _dense_copy(function: Any, level: int, args: Any, named: Any) -> Any:
    """Formats are for a number of dimensions."""
    form = named.get("memory_format", args[1] if len(args) > 1 else None)
    rank = {channels_last: 4, channels_last_3d: 5}.get(form)
    if rank is not None and args[0]._array.ndim != rank:
        raise RuntimeError(
            f"NYI: querying is_contiguous inside of vmap for memory_format {form} of samples of {args[0]._array.ndim} "
            "dimensions: it is only supported with memory_format torch.preserve_format or torch.contiguous_format"
        )
    return NotImplemented


def _mm(function: Any, level: int, args: Any, named: Any) -> Any:
    ranks = [a._array.ndim for a in args if isinstance(a, Tensor)]
    if len(ranks) == 2 and ranks != [2, 2]:
        raise RuntimeError(
            f"Shape mismatch: Got incorrect dims for mm(a, b). a has dim {ranks[0]} and b has dim {ranks[1]} but expected "
            "them to have dim 2 and dim 2"
        )
    return NotImplemented


def _resize(function: Any, level: int, args: Any, named: Any) -> Any:
    """Each sample's own memory under another shape: fewer elements are a part of it, more get new memory."""
    t = args[0]
    value, bdim = unwrap(t, level)
    if bdim is None:
        raise not_possible(function.__name__)
    if bdim:
        raise RuntimeError("vmap: resize_ needs the batch dimension in front: give in_dims=0, or use clone() first")
    size = size_argument(args[1:] if len(args) > 1 else (named.pop("size"),))
    count, old, new = value._array.shape[0], t._array.size, math.prod(size)
    whole = value._array.flags.c_contiguous
    if value._k & GRAD or (new == old and whole):
        function(value, (count, *size), **named)
        return _take_over(t, make_batched(value, 0, level))
    if not whole or (new > old and is_viewed(value)):
        raise RuntimeError(
            "vmap: resize_ needs samples whose elements lie one after the other and, to grow, no views of them: clone() first"
        )
    flat = ops.reshape(value, (count, old))
    if new <= old:
        made = ops.reshape(ops.narrow(flat, 1, 0, new), (count, *size))
    else:
        made = ops.new_empty(value, (count, new))
        ops.copy_(ops.narrow(made, 1, 0, old), flat)
        made = ops.reshape(made, (count, *size))
    return _take_over(t, make_batched(made, 0, level))


for _maker in ("full_like", "new_full"):
    function_rules[_maker] = _filled
for _maker in ("zeros_like", "ones_like", "empty_like"):
    function_rules[_maker] = _made_like
for _maker in ("_is_all_true", "_is_any_true"):
    function_rules[_maker] = _of_all
for _maker in ("new_zeros", "new_ones", "new_empty"):
    function_rules[_maker] = _made_new
for _maker in ("clone", "contiguous", "is_contiguous"):
    function_rules[_maker] = _dense_copy
for _maker in ("getitem", "__getitem__"):
    function_rules[_maker] = _by_mask
function_rules.update(one_hot=_one_hot, resize_=_resize, as_strided=_strided, new_empty_strided=_empty_strided)
function_rules.update(conj=_conj, mm=_mm)
ops.write_batched, ops.take_over_batched = _write, _take_over
ops.on_batches, ops.make_batched = on_batches, make_batched
