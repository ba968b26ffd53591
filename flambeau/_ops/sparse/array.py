"""The array of a sparse tensor: index arrays and values, in the place where a dense tensor has its NumPy array."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._backend.meta import holds
from ..._core.layouts import layout, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr

BY_ROW = (sparse_csr, sparse_bsr)
BLOCKED = (sparse_bsr, sparse_bsc)
COMPRESSED = (sparse_csr, sparse_csc, sparse_bsr, sparse_bsc)


class SparseArray:
    """Where values lie, and the values.

    In the layout COO `index` is one array (sparse dimensions, entries); in a compressed layout it is a pair:
    where each row (or column) starts, and the other coordinate of each entry (or block). Batches of matrices, with
    equally many entries each, have these for each matrix: the batch dimensions lead in the indices and values.
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
        return self.values.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        return (0,) * len(self.shape)

    @property
    def sparse_dim(self) -> int:
        return len(self.index) if self.layout is sparse_coo else 2

    @property
    def dense_dim(self) -> int:
        return len(self.shape) - self.sparse_dim - len(self.batch)

    @property
    def batch(self) -> tuple[int, ...]:
        return () if self.layout is sparse_coo else self.index[0].shape[:-1]

    @property
    def count(self) -> int:
        """The number of entries (or blocks), in each matrix of a batch."""
        return self.values.shape[0] if self.layout is sparse_coo else self.index[1].shape[-1]

    @property
    def block(self) -> tuple[int, int]:
        first = len(self.batch) + 1
        return self.values.shape[first : first + 2] if self.layout in BLOCKED else (1, 1)

    @property
    def grid(self) -> tuple[int, int]:
        """How many rows and columns (of blocks) a matrix has."""
        first = len(self.batch)
        rows, columns = self.shape[first : first + 2]
        return rows // self.block[0], columns // self.block[1]

    def with_values(self, values: Any) -> SparseArray:
        return SparseArray(self.layout, self.index, values, self.shape, self.coalesced)

    def is_packed(self) -> bool:
        """Whether it is in coordinates, which lie in memory without gaps, as its values do."""
        return self.layout is sparse_coo and self.index.flags.c_contiguous and self.values.flags.c_contiguous

    def same_places(self, other: SparseArray) -> bool:
        """Whether the entries lie at the same places in the same order."""
        if self.layout is not other.layout or self.shape != other.shape or self.count != other.count:
            return False
        if len(self.index) != len(other.index):  # another number of dense dimensions
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


def coordinates(array: SparseArray) -> tuple[Any, Any, Any]:
    """The number of its matrix, the row and the column (of blocks) for every entry of a compressed array, in order."""
    starts, others = array.index
    lines = starts.shape[-1] - 1
    batches = math.prod(array.batch)
    line = np.repeat(np.tile(np.arange(lines, dtype=np.int64), batches), np.diff(starts).reshape(-1))
    batch = np.repeat(np.arange(batches, dtype=np.int64), array.count)
    other = others.reshape(-1)
    return (batch, line, other) if array.layout in BY_ROW else (batch, other, line)


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
    if index.shape[1] and not holds(index):
        for d, row in enumerate(index):
            low, high = row.min(), row.max()
            if low < 0 or high >= shape[d]:
                wrong = low if low < 0 else high
                raise RuntimeError(
                    f"size is inconsistent with indices: for dim {d}, size is {shape[d]} but found index {wrong}"
                )


def check_compressed(kind: layout, starts: Any, others: Any, values: Any, shape: tuple[int, ...]) -> None:
    first = starts.ndim - 1  # batch dimensions
    blocked = kind in BLOCKED
    if first < 0 or others.ndim != starts.ndim or len(shape) < first + 2:
        raise RuntimeError(
            f"{kind}: indices of {starts.ndim} and {others.ndim} dimensions do not fit a tensor of {len(shape)} dimensions"
        )
    if (
        not starts.shape[:-1] == others.shape[:-1] == values.shape[:first] == shape[:first]
        or values.ndim < first + (3 if blocked else 1)
        or values.shape[first] != others.shape[-1]
        or values.shape[first + (3 if blocked else 1) :] != shape[first + 2 :]
    ):
        raise RuntimeError(
            f"{kind}: {others.shape[-1]} indices do not fit values of shape {list(values.shape)} and size {list(shape)}"
        )
    block = values.shape[first + 1 : first + 3] if blocked else (1, 1)
    if 0 in block or shape[first] % block[0] or shape[first + 1] % block[1]:
        raise RuntimeError(f"{kind}: size {list(shape)} is not divisible by blocks of {list(block)}")
    grid = (shape[first] // block[0], shape[first + 1] // block[1])
    lines, width = grid if kind in BY_ROW else grid[::-1]
    if starts.shape[-1] != lines + 1:
        raise RuntimeError(f"{kind}: expected {lines + 1} compressed indices, got {starts.shape[-1]}")
    count = others.shape[-1]
    if holds(starts):
        return
    if (starts[..., 0] != 0).any() or (starts[..., -1] != count).any() or (np.diff(starts) < 0).any():
        raise RuntimeError(f"{kind}: compressed indices must rise from 0 to {count}")
    if others.size and (others.min() < 0 or others.max() >= width):
        raise RuntimeError(f"{kind}: plain indices must lie in [0, {width})")
