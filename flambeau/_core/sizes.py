"""`Size`, the tuple that shapes are, and the arithmetic of dimensions shared by all ops."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

from .state import local


def _index(n: Any, place: int) -> int:
    try:
        return operator.index(n)
    except TypeError:
        raise TypeError(f"torch.Size() takes an iterable of 'int' (item {place} is '{type(n).__name__}')") from None


class Size(tuple):  # type: ignore[type-arg]
    """The shape of a tensor.

    >>> import flambeau as torch
    >>> torch.Size([2, 3])
    torch.Size([2, 3])
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable[Any] = ()) -> Size:
        made = tuple.__new__(cls, sizes)
        for n in made:
            if n.__class__ is not int:
                return tuple.__new__(cls, map(_index, made, range(len(made))))
        return made

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        return math.prod(self)

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return Size(found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> Any:
        if isinstance(other, tuple):
            return Size(tuple.__add__(self, other))
        if hasattr(other, "__radd__"):
            return NotImplemented
        if local.scripting and isinstance(other, list):  # sizes are lists of numbers in TorchScript
            return [*self, *other]
        raise TypeError(f"can only concatenate tuple (not {type(other).__name__}) to torch.Size")

    def __radd__(self, other: Any) -> Any:
        if local.scripting and isinstance(other, list):
            return [*other, *self]
        return Size(other + tuple(self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: Any) -> Size:
        return Size(tuple.__mul__(self, times))

    __rmul__ = __mul__

    def __reduce__(self) -> tuple[Any, ...]:
        return Size, (tuple(self),)


def _scripted_comparison(compare: Any) -> Any:
    def method(self: Size, other: Any) -> Any:
        return compare(self, tuple(other) if local.scripting and isinstance(other, list) else other)

    return method


def equal_lists_in_scripts() -> None:
    """From now on sizes equal lists of the same numbers where scripted code compares them; others compare sizes faster without it."""
    if "__eq__" not in vars(Size):
        for name in ("__eq__", "__ne__"):
            setattr(Size, name, _scripted_comparison(getattr(tuple, name)))


def wrap_dim(dim: int, ndim: int) -> int:
    """A dimension counted from the front; IndexError outside [-ndim, ndim), where a scalar counts as one."""
    if not isinstance(dim, int):
        dim = _as_index(dim)
    extent = ndim or 1
    if not -extent <= dim < extent:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-extent}, {extent - 1}], but got {dim})"
        )
    return dim + extent if dim < 0 else dim


def _as_index(value: Any) -> int:
    try:
        return int(value.__index__())
    except (AttributeError, TypeError):
        raise TypeError(f"dimension must be int, not {type(value).__name__}") from None


def wrap_dims(dims: Any, ndim: int) -> tuple[int, ...]:
    """Dimensions counted from the front, each once; None or () means all of them."""
    if dims is None:
        return tuple(range(ndim))
    if isinstance(dims, int) or not isinstance(dims, Iterable) or getattr(dims, "ndim", 1) == 0:
        return (wrap_dim(dims, ndim),) if ndim else (wrap_dim(dims, ndim),)[:0]
    wrapped = tuple(wrap_dim(d, ndim) for d in dims)
    if not wrapped:
        return tuple(range(ndim))
    if len(set(wrapped)) != len(wrapped):
        twice = next(d for d in wrapped if wrapped.count(d) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return wrapped if ndim else ()


def size_argument(args: Sequence[Any], name: str = "size") -> tuple[int, ...]:
    """The shape given either as numbers or as one sequence: f(2, 3) and f((2, 3))."""
    first = args[0] if len(args) == 1 else 0
    if not isinstance(first, int) and isinstance(first, Iterable) and getattr(first, "ndim", 1) != 0:  # no 0-d tensor
        args = tuple(list.__iter__(args[0]) if isinstance(args[0], list) else args[0])
    out: list[int] = []
    for value in args:
        if value.__class__ is not int:
            if isinstance(value, (bool, float)) or not hasattr(value, "__index__"):
                raise TypeError(
                    f"argument '{name}' must be tuple of ints, but found element of type {type(value).__name__} at pos {len(out)}"
                )
            value = value.__index__()
        out.append(value)
    return tuple(out)


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that tensors of these shapes broadcast to.

    >>> import flambeau as torch
    >>> torch.broadcast_shapes((2, 1), (3,))
    torch.Size([2, 3])
    """
    for s in shapes:
        if not isinstance(s, (int, tuple, list)):
            raise RuntimeError(f"Input shapes should be of type ints, a tuple of ints, or a list of ints, got {s!r}")
    shapes = tuple((s,) if isinstance(s, int) else tuple(s) for s in shapes)
    ndim = max(map(len, shapes), default=0)
    out = [1] * ndim
    for which, shape in enumerate(shapes):
        for i, n in enumerate(shape, ndim - len(shape)):
            if n < 0:
                raise ValueError(f"Attempting to broadcast a dimension with negative length! Got {n} in {tuple(shape)}")
            if n != 1 and n != out[i]:
                if out[i] != 1:
                    raise RuntimeError(
                        "Shape mismatch: objects cannot be broadcast to a single shape: "
                        + ", ".join(map(str, shapes))
                        + f". Mismatching argument at index {which} had {tuple(shape)}; but expected shape should be "
                        f"broadcastable to {out}"
                    )
                out[i] = n
    return Size(out)


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements; sizes of zero count as one, as PyTorch has it."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def infer_size(shape: Sequence[int], numel: int) -> tuple[int, ...]:
    """A shape with its single -1 filled in."""
    shape = tuple(shape)
    known, unknown = 1, None
    for i, n in enumerate(shape):
        if n == -1:
            if unknown is not None:
                raise RuntimeError("only one dimension can be inferred")
            unknown = i
        elif n < 0:
            raise RuntimeError(f"invalid shape dimension {n}")
        else:
            known *= n
    if unknown is not None:
        if known == 0:
            raise (
                RuntimeError(
                    f"cannot reshape tensor of {numel} elements into shape {list(shape)} because the unspecified dimension "
                    "size -1 can be any value and is ambiguous"
                )
                if numel == 0
                else RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
            )
        if numel % known == 0:
            return shape[:unknown] + (numel // known,) + shape[unknown + 1 :]
    elif known == numel:
        return shape
    raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")


def overflow_error(shape: Sequence[int]) -> RuntimeError:
    return RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)}")


def check_room(count: int, itemsize: int = 8) -> int:
    """`count` elements, if any memory can hold them; RuntimeError if not.

    Counts and sizes that come from users are added up as Python's integers and pass here before anything is allocated.
    """
    if count * itemsize >= 1 << 63:
        raise overflow_error((count,))
    return count
