"""`vmap`: a function of one sample made a function of a batch.

A batched tensor looks like one sample; the dispatcher sends every op on it here. Pointwise ops run once on aligned
operands, others by the rule registered for them, and what has no rule runs sample by sample.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from .._core.sizes import size_argument
from .._core.state import BATCHED, local, modes
from .._dispatch import handlers
from .._ops.pointwise_op import Pointwise
from .._ops.registry import ops
from .._overrides import disabled_torch_function
from .._tensor import Tensor
from ..utils._pytree import broadcast_prefix, tree_flatten, tree_unflatten


class Batched(Tensor):
    """A stack of samples along dimension `bdim` of `value`, seen as one sample."""

    __slots__ = ("bdim", "level", "value")
    __torch_function__ = classmethod(disabled_torch_function)

    value: Tensor
    bdim: int
    level: int

    def around(self, value: Tensor) -> Batched:
        """Another stack of samples in the place of this one's."""
        return make_batched(value, self.bdim, self.level)


class _Levels(threading.local):
    open: tuple[tuple[int, int, str], ...] = ()  # (level, batch size, randomness)


levels = _Levels()


def make_batched(value: Tensor, bdim: int, level: int) -> Batched:
    t = object.__new__(Batched)
    array = value._array
    index = (slice(None),) * bdim + (0 if array.shape[bdim] else slice(0, 0),)
    sample = array[index]
    if not array.shape[bdim]:
        sample = sample.reshape([n for i, n in enumerate(array.shape) if i != bdim])
    t._array = (
        sample
        if hasattr(sample, "strides") and sample.__class__ is array.__class__
        else array.__class__.reshape(array[(slice(None),) * bdim + (slice(0, 1),)], ())
    )
    t.dtype, t._k = value.dtype, value._k | BATCHED
    t._edge = t._autograd_meta = t._storage = t._view = None
    t.value, t.bdim, t.level = value, bdim, level
    return t


def unwrap(t: Any, level: int) -> tuple[Any, int | None]:
    """The tensor behind a batched one of this level and its batch dimension, or (t, None)."""
    if isinstance(t, Batched) and t.level == level:
        return t.value, t.bdim
    return t, None


def in_front(t: Any, level: int) -> Any:
    """The values with the batch dimension first; None if `t` is not batched at this level."""
    value, bdim = unwrap(t, level)
    if bdim is None:
        return None
    return value if bdim == 0 else ops.movedim(value, bdim, 0)


rules: dict[str, Callable[..., Any]] = {}


def batch_rule(*names: str) -> Callable[[Any], Any]:
    """Declares how ops run on a batch: rule(level, op, args) -> result(s), batched."""

    def register(rule: Any) -> Any:
        for name in names:
            rules[name] = rule
        return rule

    return register


def _handle(op: Any, args: tuple[Any, ...], k: int) -> Any:
    level = max(t.level for t in flat_tensors(args) if isinstance(t, Batched))
    if isinstance(op, Pointwise):
        return _pointwise(level, op, args)
    rule = rules.get(op.name)
    if rule is not None:
        result = rule(level, op, args)
        if result is not NotImplemented:
            return result
    return _each_sample(level, op, args)


def flat_tensors(args: Any) -> list[Tensor]:
    """Tensors among arguments, those in lists too."""
    found = []
    for a in args:
        if isinstance(a, Tensor):
            found.append(a)
        elif isinstance(a, (list, tuple)):
            found += [b for b in a if isinstance(b, Tensor)]
    return found


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


def batch_size(args: Any, level: int) -> int:
    for t in flat_tensors(args):
        value, bdim = unwrap(t, level)
        if bdim is not None:
            return value._array.shape[bdim]
    raise AssertionError("no batched operand")


def _each_sample(level: int, op: Any, args: tuple[Any, ...]) -> Any:
    """Runs an op for each sample and stacks the results: right for every op, fast for none."""
    count = batch_size(args, level)

    def sample(a: Any, i: int) -> Any:
        if isinstance(a, (list, tuple)) and any(isinstance(b, Tensor) for b in a):
            return type(a)(sample(b, i) for b in a) if type(a) in (list, tuple) else [sample(b, i) for b in a]
        value, bdim = unwrap(a, level)
        return a if bdim is None else ops.select(value, bdim, i)

    outs = [op(*[sample(a, i) for a in args]) for i in range(count)]
    if not outs:
        raise RuntimeError(f"vmap over {op.name} needs at least one sample")
    first = outs[0]
    if isinstance(first, (tuple, list)):
        return tuple(
            None if part is None else make_batched(ops.stack([o[j] for o in outs]), 0, level)
            for j, part in enumerate(first)
        )
    if not isinstance(first, Tensor):
        raise RuntimeError(f"vmap: {op.name} gives a Python value that may differ between samples")
    return make_batched(ops.stack(outs), 0, level)


handlers[BATCHED] = _handle


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that maps `func` over dimension `in_dims` of its tensor arguments.

    >>> import flambeau as torch
    >>> torch.func.vmap(torch.dot)(torch.ones(3, 2), torch.ones(3, 2))
    tensor([2., 2., 2.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def mapped(*args: Any, **named: Any) -> Any:
        flat, spec = tree_flatten(args)
        if not isinstance(in_dims, (int, tuple, list, type(None))) and not isinstance(in_dims, dict):
            raise ValueError(
                f"vmap({_name(func)}, in_dims={in_dims}): expected `in_dims` to be int or a (possibly nested) tuple"
            )
        prefix = list(in_dims) if isinstance(in_dims, list) else in_dims
        try:
            dims = broadcast_prefix(tuple(prefix) if isinstance(prefix, list) else prefix, args)
        except ValueError:
            raise ValueError(
                f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the structure of inputs."
            ) from None
        size = _batch_size(func, in_dims, flat, dims)
        if chunk_size is not None and chunk_size < size:
            return _in_chunks(func, flat, dims, spec, named, size, chunk_size, out_dims, randomness)
        return _run(func, flat, dims, spec, named, size, out_dims, randomness)

    return mapped


def _name(func: Any) -> str:
    return getattr(func, "__name__", repr(func))


def _batch_size(func: Any, in_dims: Any, flat: list[Any], dims: list[Any]) -> int:
    sizes = set()
    for i, (a, d) in enumerate(zip(flat, dims)):
        if d is None:
            continue
        if not isinstance(d, int):
            raise ValueError(f"vmap({_name(func)}, in_dims={in_dims}): expected in_dims to be int or None, got {d!r}")
        if not isinstance(a, Tensor):
            raise ValueError(
                f"vmap({_name(func)}, in_dims={in_dims}): input {i} has type {type(a).__name__} but in_dim {d}; use None for it"
            )
        if not -a._array.ndim <= d < a._array.ndim:
            raise ValueError(
                f"vmap({_name(func)}, in_dims={in_dims}): Got in_dim={d} for an input of dimensionality {a._array.ndim}"
            )
        dims[i] = d % a._array.ndim
        sizes.add(a._array.shape[dims[i]])
    if not sizes:
        raise ValueError(
            f"vmap({_name(func)}, in_dims={in_dims}): at least one input must be mapped over; got no mapped Tensor"
        )
    if len(sizes) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, "
            f"got sizes {sorted(sizes)} for the mapped dimension"
        )
    return sizes.pop()


# -- writing into batches ------------------------------------------------------------------------------------------


def _level(t: Any) -> int:
    return t.level if isinstance(t, Batched) else 0


def _write(t: Tensor, src: Any) -> Tensor:
    """`t.copy_(src)` where one of them is batched; `src` may also be a number."""
    level, bdim = _level(t), getattr(t, "bdim", 0)
    if _level(src) > level:
        raise RuntimeError(
            "vmap: a tensor that is not mapped over cannot hold what differs between samples: the operation in place "
            "is not possible; use the one that gives a new tensor, or make it from a mapped tensor (`zeros_like`)"
        )
    assert isinstance(t, Batched)
    if not isinstance(src, Tensor):
        ops.fill_(t.value, src)
    elif _level(src) == level:
        front = in_front(src, level)
        size, *own = front._array.shape
        aligned = ops.reshape(front, (size, *[1] * (t._array.ndim - len(own)), *own))
        ops.copy_(t.value, ops.movedim(aligned, 0, bdim) if bdim else aligned)
    else:
        ops.copy_(t.value, ops.unsqueeze(ops.expand(src, t._array.shape), bdim))
    t._k = t.value._k | BATCHED
    return t


def _take_over(t: Batched, other: Batched) -> Batched:
    """Makes `t` the batch that `other` is."""
    t.value, t.bdim, t._array, t._k = other.value, other.bdim, other._array, other._k
    return t


_LIKE = frozenset(("zeros_like", "ones_like", "empty_like", "full_like"))
_NEW = frozenset(("new_zeros", "new_ones", "new_empty", "new_full"))
_AT_THE_END = frozenset(("one_hot",))  # these look at their tensor as a whole, and add what is new at its end
_WHOLE = _LIKE | _NEW | _AT_THE_END


def _made(function: Any, args: Any, named: Any) -> Any:
    """Tensors that are made like a batched one, as batches: they may be written to; otherwise NotImplemented."""
    name = function.__name__
    if name not in _WHOLE or not args or not isinstance(args[0], Batched):
        return NotImplemented
    level = args[0].level
    front, rest = in_front(args[0], level), list(args[1:])
    if name in _NEW:
        lead = front._array.shape[:1]
        if "size" in named:
            named = {**named, "size": (*lead, *size_argument((named["size"],)))}
        elif name == "new_full":
            rest[0] = (*lead, *size_argument((rest[0],)))
        else:
            rest = [*lead, *size_argument(rest)]
    return make_batched(function(front, *rest, **named), 0, level)


ops.write_batched, ops.take_over_batched, ops.made_batched = _write, _take_over, _made


# -- running -------------------------------------------------------------------------------------------------------


def _run(func: Any, flat: Any, dims: Any, spec: Any, named: Any, size: int, out_dims: Any, randomness: str) -> Any:
    level = len(levels.open) + 1
    outer = levels.open
    levels.open = local.batches = (*outer, (level, size, randomness))
    modes.enter(BATCHED)
    try:
        given = [a if d is None else make_batched(a, d, level) for a, d in zip(flat, dims)]
        out = func(*tree_unflatten(given, spec), **named)
    finally:
        levels.open = local.batches = outer
        modes.leave(BATCHED)
    leaves, out_spec = tree_flatten(out)
    try:
        wanted = broadcast_prefix(tuple(out_dims) if isinstance(out_dims, list) else out_dims, out)
    except ValueError:
        raise ValueError(
            f"vmap({_name(func)}, ..., out_dims={out_dims}): out_dims is not compatible with the structure of outputs"
        ) from None
    return tree_unflatten([_out(func, t, d, level, size) for t, d in zip(leaves, wanted)], out_spec)


def _out(func: Any, t: Any, dim: Any, level: int, size: int) -> Any:
    if dim is None:
        if isinstance(t, Batched) and t.level == level:
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` can not return a BatchedTensor when out_dim is None"
            )
        return t
    if not isinstance(t, Tensor):
        raise ValueError(f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got type {type(t)}.")
    value, bdim = unwrap(t, level)
    if bdim is None:
        value, bdim = ops.expand(ops.unsqueeze(value, 0), (size, *value._array.shape)), 0
    if not -value._array.ndim <= dim < value._array.ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-value._array.ndim}, {value._array.ndim - 1}], but got {dim})"
        )
    return value if bdim == dim % value._array.ndim else ops.movedim(value, bdim, dim)


def _in_chunks(
    func: Any, flat: Any, dims: Any, spec: Any, named: Any, size: int, chunk: int, out_dims: Any, randomness: str
) -> Any:
    parts = []
    for start in range(0, size, chunk):
        count = min(chunk, size - start)
        piece = [a if d is None else ops.narrow(a, d, start, count) for a, d in zip(flat, dims)]
        parts.append(_run(func, piece, dims, spec, named, count, out_dims, randomness))
    leaves, out_spec = zip(*[tree_flatten(p) for p in parts])
    wanted = broadcast_prefix(out_dims, parts[0])
    joined = [ops.cat(list(ts), d) if d is not None else ts[0] for ts, d in zip(zip(*leaves), wanted)]
    return tree_unflatten(joined, out_spec[0])


__all__ = ["Batched", "batch_rule", "in_front", "levels", "make_batched", "rules", "unwrap", "vmap"]
