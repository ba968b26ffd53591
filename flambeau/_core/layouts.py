"""How elements lie in memory: the `memory_format` and `layout` objects, and the strides they stand for."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any


class _Named:
    """One of a few objects that are compared by identity and print as `torch.<name>`."""

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _by_name, (self.name,)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self


class memory_format(_Named):
    """The order of a dense tensor's dimensions in memory."""

    __slots__ = ()


class layout(_Named):
    """Whether a tensor is dense (`strided`) or one of the sparse kinds."""

    __slots__ = ()


contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")
strided = layout("strided")
sparse_coo = layout("sparse_coo")
sparse_csr = layout("sparse_csr")
sparse_csc = layout("sparse_csc")
sparse_bsr = layout("sparse_bsr")
sparse_bsc = layout("sparse_bsc")
jagged = layout("jagged")
_mkldnn = layout("_mkldnn")

FORMATS = (contiguous_format, preserve_format, channels_last, channels_last_3d)
LAYOUTS = (strided, sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc, jagged, _mkldnn)
_BY_NAME: dict[str, Any] = {x.name: x for x in (*FORMATS, *LAYOUTS)}
_RANK = {channels_last: 4, channels_last_3d: 5}


def _by_name(name: str) -> Any:
    return _BY_NAME[name]


def channel_order(form: memory_format, ndim: int) -> tuple[int, ...]:
    """The dimensions from the outermost to the innermost in memory, for a format that puts channels last."""
    rank = _RANK[form]
    if ndim != rank:
        raise RuntimeError(f"required rank {rank} tensor to use {form.name} format")
    return (0, *range(2, rank), 1)


def pieces(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, int]:
    """How far apart the pieces of memory begin that an array lies in, and how long each is, the shortest there are; zeros if it is one
    piece. Others of the same distance may lie between them."""
    steps = sorted([(abs(s), n) for n, s in zip(shape, strides) if n > 1])
    inner, found = itemsize, (0, 0)
    for i, (step, n) in enumerate(steps):
        apart = math.gcd(*[s for s, _ in steps[i:]])
        if inner < apart:
            found = apart, inner
            break
        inner += step * (n - 1)
    return found


def strides_in_order(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Dense strides in elements for dimensions that lie in memory in this order, outermost first."""
    strides, step = [0] * len(shape), 1
    for d in reversed(order):
        strides[d] = step
        step *= max(shape[d], 1)
    return tuple(strides)


def joint_order(shape: Sequence[int], operands: Sequence[Sequence[int]]) -> list[int]:
    """Dimensions from the outermost in memory to the innermost for a result of operands with such strides over `shape`.

    The first operand that tells two dimensions apart decides; stride 0 tells nothing, and what nobody tells stays as in
    row-major memory.
    """
    order = list(range(len(shape) - 1, -1, -1))
    for i in range(1, len(order)):
        at = i
        for j in range(i - 1, -1, -1):
            place = _compared(order[j], order[at], shape, operands)
            if place < 0:
                break
            if place:
                order[j], order[at] = order[at], order[j]
                at = j
    return order[::-1]


def _compared(first: int, second: int, shape: Sequence[int], operands: Sequence[Sequence[int]]) -> int:
    """Below zero if the first of two dimensions lies further inside, above if the second does, zero if nobody knows."""
    for strides in operands:
        s, t = abs(strides[first]), abs(strides[second])
        if not s or not t:
            continue
        if s != t:
            return -1 if s < t else 1
        if shape[first] > shape[second]:
            return 1
    return 0


def memory_order(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Dimensions from the outermost in memory to the innermost; expanded ones (stride 0) stay where they are."""
    return joint_order(shape, (strides,))


def element_strides(x: Any) -> tuple[int, ...]:
    """Strides of an array in elements. NumPy gives new arrays without elements none: they are row-major."""
    size, strides = x.itemsize, x.strides
    if not any(strides) and 0 in x.shape:
        return strides_in_order(x.shape, range(x.ndim))
    return tuple([s // size for s in strides])


def byte_strides(x: Any) -> tuple[int, ...]:
    """The same in bytes."""
    strides: tuple[int, ...] = x.strides
    return strides if any(strides) or 0 not in x.shape else tuple([s * x.itemsize for s in element_strides(x)])


def in_rows(x: Any) -> bool:
    """Whether an array's strides are surely row-major; that it is contiguous says nothing of extents of 1 or 0."""
    return bool(x.flags.c_contiguous and x.size and 1 not in x.shape)


def reach_of(shape: Sequence[int], strides: Sequence[int]) -> int:
    """How many elements of memory a shape with strides spans."""
    return 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides))


def is_dense(shape: Sequence[int], strides: Sequence[int], unit: int) -> bool:
    """Whether strides (counted in `unit`s of memory) leave no gaps and share no elements."""
    step = unit
    for s, n in sorted([(s, n) for s, n in zip(strides, shape) if n > 1]):
        if s != step:
            return False
        step *= n
    return True


def is_disjoint(shape: Sequence[int], strides: Sequence[int], unit: int) -> bool:
    """Whether strides (counted in `unit`s of memory) lead to elements that share none; gaps are allowed."""
    extent = unit
    for s, n in sorted([(s, n) for s, n in zip(strides, shape) if n > 1]):
        if s < extent:
            return False
        extent = s * (n - 1) + extent
    return True


@functools.lru_cache(4096)
def like_strides(shape: tuple[int, ...], strides: tuple[int, ...], unit: int) -> tuple[int, ...]:
    """Strides in elements of a fresh tensor like one with these strides (in `unit`s of memory): the same if it is dense."""
    if 0 in shape and not any(strides):  # see `element_strides`
        return strides_in_order(shape, range(len(shape)))
    if 0 in shape or is_dense(shape, strides, unit):
        return tuple([s // unit for s in strides])
    return strides_in_order(shape, memory_order(shape, strides))


@functools.lru_cache(4096)
def joint_strides(shape: tuple[int, ...], *operands: tuple[tuple[int, ...], tuple[int, ...], int]) -> tuple[int, ...]:
    """Strides in elements of a pointwise result over `shape`, of operands (shape, strides, bytes of an element)."""
    if all([own == shape for own, _, _ in operands]):
        rows = range(len(shape))
        if 0 in shape or all([is_dense_in_order(*operand[:2], rows, operand[2]) for operand in operands]):
            return strides_in_order(shape, rows)
        if len(shape) == 4:
            channels = (0, 2, 3, 1)
            if all([is_dense_in_order(*operand[:2], channels, operand[2]) for operand in operands]):
                return strides_in_order(shape, channels)
        found = {tuple([s // unit for s in strides]) for _, strides, unit in operands}
        if len(found) == 1 and is_dense(shape, operands[0][1], operands[0][2]):
            return found.pop()
    lines = []
    for own, strides, _ in operands:
        missing = len(shape) - len(own)
        full = zip(own, strides, shape[missing:])
        lines.append([0] * missing + [0 if n == 1 and m != 1 else s for n, s, m in full])
    return strides_in_order(shape, joint_order(shape, lines))


def is_dense_in_order(shape: Sequence[int], strides: Sequence[int], order: Sequence[int], unit: int) -> bool:
    """Whether strides (counted in `unit`s of memory) are those of a dense tensor with this order of dimensions; those of extent 1 do not
    count."""
    step = unit
    for d in reversed(order):
        n = shape[d]
        if n != 1:
            if strides[d] != step:
                return False
            step *= n
    return True


def check_format(form: Any) -> None:
    if form.__class__ is not memory_format:
        raise TypeError(f"argument 'memory_format' must be torch.memory_format, not {type(form).__name__}")


def is_channels_last(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether strides of images or volumes put their channels innermost; not for what could as well be row-major."""
    if len(shape) not in (4, 5) or not strides[1]:
        return False
    least = 0
    for d in (1, *range(len(shape) - 1, 1, -1), 0):
        if not shape[d] or strides[d] < least:
            return False
        if d == 0 and least == strides[1]:  # channels of one pixel: row-major
            return False
        least = strides[d]
        if shape[d] > 1:
            least *= shape[d]
    return True


def suggested_format(x: Any) -> memory_format:
    """The memory format that an array seems to be in."""
    if not is_channels_last(x.shape, x.strides):
        return contiguous_format
    return channels_last if x.ndim == 4 else channels_last_3d


def is_flat(array: Any) -> bool:
    """Whether all elements are one number in memory, as in the gradient of a sum."""
    return not any(array.strides)
