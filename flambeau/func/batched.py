"""Batched tensors: stacks of samples that look like one sample.

A batched tensor has the shape of a sample but no elements: its `_array` is a `Samples`, which refuses to be read. So
whatever wants to look at values must be a rule for whole batches, or be run for each sample (`fallback`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .._core.refusals import ValuesRead
from .._core.state import BATCHED, DUAL, local, modes
from .._interception.overrides import disabled_torch_function
from .._ops.registry import ops
from .._tensor import Tensor

_ITEM = (
    "vmap: It looks like you're calling .item() on a Tensor, or using its elements where Python or NumPy needs one "
    "number: the samples of a batch have different ones. Write it with operations on tensors instead."
)
_BRANCH = (
    "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow: the samples of a batch "
    "may go different ways. Write it with torch.where or torch.cond instead."
)
_POINTER = "Cannot access data pointer of Tensor that doesn't have storage: inside vmap it stands for a whole batch"


def _item(*args: Any, **named: Any) -> Any:
    raise ValuesRead(_ITEM)


def _pointer(*args: Any, **named: Any) -> Any:
    raise ValuesRead(_POINTER)


class Samples:
    """The shape, strides and dtype of one sample of an array; anything else that is asked of it raises."""

    __slots__ = ("_dim", "_whole", "dtype", "shape", "strides")

    def __init__(self, whole: Any, dim: int):
        shape, strides = whole.shape, whole.strides
        self._whole, self._dim, self.dtype = whole, dim, whole.dtype
        self.shape, self.strides = (*shape[:dim], *shape[dim + 1 :]), (*strides[:dim], *strides[dim + 1 :])

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def flags(self) -> Any:
        return self._first().flags

    def _first(self) -> Any:
        """The first sample, of which only shape and strides may be used; the whole of an empty batch."""
        whole = self._whole
        if isinstance(whole, Samples):
            whole = whole._first()
        return whole[(slice(None),) * self._dim + (0, ...)] if self._whole.shape[self._dim] else whole

    def __bool__(self) -> bool:
        raise ValuesRead(_BRANCH)

    def __getattr__(self, name: str) -> Any:
        raise ValuesRead(_POINTER if name in ("ctypes", "data", "base") else _ITEM)

    # what Python looks up on the class, past `__getattr__`
    __array__ = __getitem__ = __setitem__ = __len__ = __iter__ = __int__ = __float__ = __complex__ = __index__ = _item
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __neg__ = __abs__ = (
        _item
    )
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = __and__ = __or__ = __invert__ = __matmul__ = __mod__ = _item
    __iadd__ = __isub__ = __imul__ = __itruediv__ = __iand__ = __ior__ = __array_ufunc__ = __array_function__ = _item
    __hash__ = None  # type: ignore[assignment]
    __array_interface__ = property(_pointer)


class Batched(Tensor):
    """A stack of samples along dimension `bdim` of `value`, seen as one sample."""

    __slots__ = ("bdim", "level", "value")
    __torch_function__ = classmethod(disabled_torch_function)

    value: Tensor
    bdim: int
    level: int

    def refresh(self) -> None:
        """Takes over what became of the values: after a write they may have a history."""
        self._k = self.value._k & ~DUAL | BATCHED

    def around(self, value: Tensor) -> Batched:
        """Another stack of samples in the place of this one's."""
        return make_batched(value, self.bdim, self.level)

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec)

    def __deepcopy__(self, memo: Any) -> Any:
        raise NotImplementedError("Cannot access storage of BatchedTensorImpl: clone() the tensor instead")


def mapped_levels() -> tuple[tuple[int, int, str], ...]:
    """The open levels at which values may be batched."""
    return tuple(e for e in local.batches if e[0] not in local.directions) if local.directions else local.batches


@contextmanager
def directions_only() -> Iterator[None]:
    """A block in which nothing but tangents is batched at the innermost level."""
    outer = local.directions
    local.directions = outer | {local.batches[-1][0]}
    try:
        yield
    finally:
        local.directions = outer


def next_level() -> int:
    """The number of a transform that is opened now: one more than that of the innermost open one."""
    return 1 + max(local.batches[-1][0] if local.batches else 0, local.transforms[-1][0] if local.transforms else 0)


@contextmanager
def opened(size: int, randomness: str) -> Iterator[int]:
    """A block inside a `vmap` over batches of a size: its level."""
    outer, level = local.batches, next_level()
    local.batches = (*outer, (level, size, randomness))
    modes.enter(BATCHED)
    try:
        yield level
    finally:
        local.batches = outer
        modes.leave(BATCHED)


def make_batched(value: Tensor, bdim: int, level: int) -> Batched:
    t = object.__new__(Batched)
    t._array = Samples(value._array, bdim)
    t.dtype, t._k = value.dtype, value._k & ~DUAL | BATCHED
    t._edge = t._autograd_meta = t._storage = t._view = None
    t.value, t.bdim, t.level = value, bdim, level
    return t


def unwrap(t: Any, level: int) -> tuple[Any, int | None]:
    """The tensor behind a batched one of this level and its batch dimension, or (t, None)."""
    if isinstance(t, Batched) and t.level == level:
        return t.value, t.bdim
    return t, None


def rewrapped(t: Any, dim: int | None, level: int) -> Any:
    """What `unwrap` took apart, or another value in its place."""
    if dim is None or not isinstance(t, Tensor):
        return t
    return make_batched(t, dim % t._array.ndim, level)


def front(t: Batched) -> Tensor:
    """The samples along the first dimension."""
    return t.value if t.bdim == 0 else ops.movedim(t.value, t.bdim, 0)


def in_front(t: Any, level: int) -> Any:
    """The values with the batch dimension first; None if `t` is not batched at this level."""
    value, bdim = unwrap(t, level)
    if bdim is None:
        return None
    return value if bdim == 0 else ops.movedim(value, bdim, 0)


def is_viewed(value: Tensor) -> bool:
    """Whether a tensor is a view, or views of it are about that would not see what becomes of it in other memory."""
    views = value._storage.views if value._storage is not None else None
    alive = [v() for v in views or ()]
    return value._view is not None or any(v is not None and v._view and v._view[0] is value for v in alive)


def part_samples(t: Batched) -> None:
    """Before a write: samples that share memory, as those of an argument of `grad` do, get memory of their own."""
    value, bdim = t.value, t.bdim
    array = value._array
    if isinstance(value, Batched) or array.strides[bdim] or array.shape[bdim] < 2:
        return
    if is_viewed(value):
        raise RuntimeError(
            "vmap: a part of a tensor is written to that the samples share, as it is not mapped over: clone() it first"
        )
    t.value = ops.clone(value)
    t.refresh()


def flat_tensors(args: Any) -> list[Tensor]:
    """Tensors among arguments, those in lists, dictionaries and slices too."""
    return list(_tensors(args))


def _tensors(args: Any) -> Iterator[Tensor]:
    for a in args:
        if isinstance(a, Tensor):
            yield a
        elif isinstance(a, (list, tuple)):
            yield from _tensors(a)
        elif isinstance(a, dict):
            yield from _tensors(a.values())
        elif isinstance(a, slice):
            yield from _tensors((a.start, a.stop, a.step))


def deepest(args: Any) -> int:
    """The innermost level at which one of the arguments is batched; 0 if none is."""
    found = 0
    for a in args:
        kind = a.__class__
        if kind is Batched:
            level = a.level
        elif kind in _CONTAINERS:
            level = deepest(a.values() if kind is dict else a if kind is not slice else (a.start, a.stop, a.step))
        elif isinstance(a, (Batched, list, tuple, dict)):
            level = a.level if isinstance(a, Batched) else deepest(a.values() if isinstance(a, dict) else a)
        else:
            continue
        if level > found:
            found = level
    return found


_CONTAINERS = frozenset((list, tuple, dict, slice))


def batch_size(args: Any, level: int) -> int:
    for t in _tensors(args):
        value, bdim = unwrap(t, level)
        if bdim is not None:
            return value._array.shape[bdim]
    raise AssertionError("no batched operand")


__all__ = [
    "Batched", "Samples", "ValuesRead", "batch_size", "deepest", "directions_only", "flat_tensors", "front", "in_front", "is_viewed", "make_batched",
    "mapped_levels", "next_level", "opened", "part_samples", "rewrapped", "unwrap",
]  # fmt: skip
