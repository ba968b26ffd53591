"""How elements lie in memory: the `memory_format` and `layout` objects, and the strides they stand for."""

from __future__ import annotations

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


def strides_in_order(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Dense strides in elements for dimensions that lie in memory in this order, outermost first."""
    strides, step = [0] * len(shape), 1
    for d in reversed(order):
        strides[d] = step
        step *= max(shape[d], 1)
    return tuple(strides)


def memory_order(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Dimensions from the outermost in memory to the innermost; expanded ones (stride 0) stay where they are."""
    order = list(range(len(shape) - 1, -1, -1))
    for i in range(1, len(order)):
        at = i
        for j in range(i - 1, -1, -1):
            inner, outer = order[j], order[at]
            if not strides[inner] or not strides[outer]:
                continue
            if strides[inner] < strides[outer] or (strides[inner] == strides[outer] and shape[inner] <= shape[outer]):
                break
            order[j], order[at] = outer, inner
            at = j
    return order[::-1]


def is_dense_in_order(shape: Sequence[int], strides: Sequence[int], order: Sequence[int], unit: int) -> bool:
    """Whether strides (counted in `unit`s of memory) are those of a dense tensor with this order of dimensions."""
    step = unit
    for d in reversed(order):
        n = shape[d]
        if n == 0:
            return True
        if n != 1:
            if strides[d] != step:
                return False
            step *= n
    return True


def check_format(form: Any) -> None:
    if form.__class__ is not memory_format:
        raise TypeError(f"argument 'memory_format' must be torch.memory_format, not {type(form).__name__}")
