"""The array of a sparse tensor: index arrays and values, in the place where a dense tensor has its NumPy array."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._core.layouts import layout, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr

BY_ROW = (sparse_csr, sparse_bsr)
BLOCKED = (sparse_bsr, sparse_bsc)
COMPRESSED = (sparse_csr, sparse_csc, sparse_bsr, sparse_bsc)


class SparseArray:
    """Where values lie, and the values.

    In the layout COO `index` is one array (sparse dimensions, entries); in a compressed layout it is a pair:
    where each row (or column) starts, and the other coordinate of each entry (or block).
    """

    __slots__ = ("coalesced", "index", "layout", "shape", "values")
    base = None  # like an array that owns its memory

    def __init__(self, layout: layout, index: Any, values: Any, shape: tuple[int, ...], coalesced: bool = False):
        self.layout, self.index, self.values, self.shape = layout, index, values, tuple(shape)
        self.coalesced = coalesced or layout is not sparse_coo

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotImplementedError(f"this operation is not implemented for tensors of layout {self.layout}")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"can't convert a tensor of layout {self.layout} to NumPy. Use Tensor.to_dense() first.")

    def __setitem__(self, key: Any, other: Any) -> None:
        """Becomes what an in-place operation computed."""
        if key is not Ellipsis or not isinstance(other, SparseArray) or other.layout is not self.layout:
            raise NotImplementedError(f"writing into a tensor of layout {self.layout} is not implemented")
        self.index, self.values, self.coalesced = other.index, other.values, other.coalesced

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    @property
    def itemsize(self) -> int:
        return self.values.itemsize  # type: ignore[no-any-return]

    @property
    def strides(self) -> tuple[int, ...]:
        return (0,) * len(self.shape)

    @property
    def sparse_dim(self) -> int:
        return len(self.index) if self.layout is sparse_coo else 2

    @property
    def dense_dim(self) -> int:
        return len(self.shape) - self.sparse_dim

    @property
    def count(self) -> int:
        return self.values.shape[0]  # type: ignore[no-any-return]

    @property
    def block(self) -> tuple[int, int]:
        return self.values.shape[1:3] if self.layout in BLOCKED else (1, 1)  # type: ignore[no-any-return]

    def with_values(self, values: Any) -> SparseArray:
        return SparseArray(self.layout, self.index, values, self.shape, self.coalesced)

    def same_places(self, other: SparseArray) -> bool:
        """Whether the entries lie at the same places in the same order."""
        if self.layout is not other.layout or self.shape != other.shape:
            return False
        return self.index is other.index or all(np.array_equal(a, b) for a, b in zip(self.index, other.index))


def linear(index: Any, shape: tuple[int, ...]) -> Any:
    """The places of COO entries as one number each."""
    if math.prod(shape) >= 1 << 63:
        raise RuntimeError(f"a sparse tensor of size {list(shape)} has too many places to number")
    places = np.zeros(index.shape[1], np.int64)
    for row, n in zip(index, shape):
        places *= n
        places += row
    return places


def split(places: Any, shape: tuple[int, ...]) -> Any:
    """The inverse of `linear`."""
    index = np.empty((len(shape), len(places)), np.int64)
    for d in range(len(shape) - 1, -1, -1):
        places, index[d] = np.divmod(places, max(shape[d], 1))
    return index


def line_of_entries(starts: Any, count: int) -> Any:
    """The row (or column) of every entry, from where the rows start."""
    return np.repeat(np.arange(len(starts) - 1, dtype=np.int64), np.diff(starts))[:count]


def starts_of(lines: Any, count: int) -> Any:
    """Where each of `count` rows starts among entries whose rows are sorted."""
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(lines, minlength=count), out=starts[1:])
    return starts


def check_coo(index: Any, values: Any, shape: tuple[int, ...]) -> None:
    if index.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(index.shape)}")
    if values.ndim == 0 or values.shape[0] != index.shape[1]:
        got = values.shape[0] if values.ndim else 0
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {index.shape[1]}, nnz from values: {got}"
        )
    if len(shape) != len(index) + values.ndim - 1 or shape[len(index) :] != values.shape[1:]:
        raise RuntimeError(
            f"size {list(shape)} does not fit {len(index)} sparse dimensions and values of shape {list(values.shape)}"
        )
    if index.shape[1]:
        for d, row in enumerate(index):
            low, high = row.min(), row.max()
            if low < 0 or high >= shape[d]:
                wrong = low if low < 0 else high
                raise RuntimeError(
                    f"size is inconsistent with indices: for dim {d}, size is {shape[d]} but found index {wrong}"
                )


def check_compressed(kind: layout, starts: Any, others: Any, values: Any, shape: tuple[int, ...]) -> None:
    if starts.ndim != 1 or others.ndim != 1 or len(shape) < 2:
        raise RuntimeError(f"{kind}: expected one-dimensional index tensors (batches are not supported)")
    blocked = kind in BLOCKED
    if values.ndim < (3 if blocked else 1) or len(values) != len(others):
        raise RuntimeError(f"{kind}: {len(others)} indices do not fit values of shape {list(values.shape)}")
    block = values.shape[1:3] if blocked else (1, 1)
    if 0 in block or shape[0] % block[0] or shape[1] % block[1]:
        raise RuntimeError(f"{kind}: size {list(shape)} is not divisible by blocks of {list(block)}")
    grid = (shape[0] // block[0], shape[1] // block[1])
    lines, width = grid if kind in BY_ROW else grid[::-1]
    if len(starts) != lines + 1:
        raise RuntimeError(f"{kind}: expected {lines + 1} compressed indices, got {len(starts)}")
    if starts[0] != 0 or starts[-1] != len(others) or (np.diff(starts) < 0).any():
        raise RuntimeError(f"{kind}: compressed indices must rise from 0 to {len(others)}")
    if len(others) and (others.min() < 0 or others.max() >= width):
        raise RuntimeError(f"{kind}: plain indices must lie in [0, {width})")
