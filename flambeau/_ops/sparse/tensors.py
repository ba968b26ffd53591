"""Sparse tensors: their constructors, their parts, and conversion between layouts.

Only two operations touch a sparse array and are recorded: `values` takes its values out, `rebuild` puts values at given
places. Everything else is dense operations on values in between, which have their derivatives already.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._autograd.functions import Function
from ..._backend.meta import empty_meta, holds
from ..._core.dtypes import FLOATING, bool_, default, dtype, from_numpy_dtype, int64
from ..._core.layouts import layout as layout_type
from ..._core.layouts import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided
from ..._core.printing import PRINT_OPTIONS, printoptions
from ..._core.state import CUDA, DUAL, GRAD, META, SPARSE, local
from ..._tensor import Tensor, detached, wrap
from ..families import load
from ..records.primitive import Primitive
from ..registry import expose, ops, public
from .array import (
    BLOCKED,
    BY_ROW,
    COMPRESSED,
    SparseArray,
    check_compressed,
    check_coo,
    coordinates,
    linear,
    split,
    starts_of,
)  # fmt: skip

_TITLES = {
    strided: "Strided",
    sparse_coo: "Sparse",
    sparse_csr: "SparseCsr",
    sparse_csc: "SparseCsc",
    sparse_bsr: "SparseBsr",
    sparse_bsc: "SparseBsc",
}


class _Rebuild(Primitive):
    """Its results are sparse, though its operand is dense."""

    def compute(self, args: tuple[Any, ...], k: int) -> Any:
        load("sparse.products")  # which brings the rules for sparse operands, and sums of sparse gradients
        made = super().compute(args, k)
        made._k |= SPARSE
        return made


def _values(backend: Any, x: SparseArray) -> Any:
    return x.values


def _rebuild(backend: Any, x: Any, places: SparseArray) -> SparseArray:
    return places.with_values(x)


def _at_places(g: Tensor, x: Tensor) -> Tensor:
    """The gradient of a sparse tensor from that of its values; entries of one place have the same and give it once."""
    array = x._array
    if array.layout is sparse_coo and not array.coalesced:
        lead = array.shape[: array.sparse_dim]
        places, first = np.unique(linear(array.index, lead), return_index=True)
        if len(places) < array.count:
            once = ops.index_select(g, 0, index_tensor(first))
            return rebuild(once, SparseArray(sparse_coo, split(places, lead), once._array, array.shape, True))
    return rebuild(g, array)


values_of = Primitive(
    _values, name="sparse_values", backward_name="ValuesBackward0", grad={"x": _at_places}, meta=lambda x: x.values
)
rebuild_op = _Rebuild(
    _rebuild, name="sparse_rebuild", backward_name="SparseCooTensorWithDimsAndTensorsBackward0",
    grad={"x": lambda g, places: values_at(g, places)}, meta=lambda x, places: places.with_values(x),
)  # fmt: skip


def rebuild(values: Tensor, places: SparseArray) -> Tensor:
    """A sparse tensor with these values at the places of an array, which may change later."""
    _check_on_cpu(values)
    return rebuild_op(values, places.with_values(values._array))


def _check_on_cpu(t: Tensor) -> None:
    if t._k & CUDA:
        raise NotImplementedError("sparse tensors are only implemented on the CPU: move the tensor there with .cpu()")


def index_tensor(array: Any) -> Tensor:
    return wrap(array, int64 if array.dtype == np.int64 else from_numpy_dtype(array.dtype), META * holds(array))


def is_sparse(t: Any) -> bool:
    return isinstance(t, Tensor) and bool(t._k & SPARSE)


def layout_of(t: Tensor) -> layout_type:
    return t._array.layout if t._k & SPARSE else strided


def _expect(name: str, t: Tensor, layouts: Sequence[layout_type], kind: str) -> SparseArray:
    if layout_of(t) not in layouts:
        raise RuntimeError(f"{name} expected {kind} tensor layout but got {_TITLES[layout_of(t)]}")
    return t._array


def values_at(t: Tensor, places: SparseArray) -> Tensor:
    """The elements of a dense or sparse tensor at the places of a sparse array, as its values lie."""
    if not t._k & SPARSE:
        if places.layout in COMPRESSED:
            return _blocks_at(t, places)
        lead = places.shape[: places.sparse_dim]
        flat = ops.reshape(t, (math.prod(lead), *places.shape[places.sparse_dim :]))
        return ops.index_select(flat, 0, index_tensor(linear(places.index, lead)))
    if t._array.same_places(places):
        return values_of(t)
    if places.layout in BLOCKED or (places.layout in COMPRESSED and places.batch):
        return values_at(to_dense(t), places)
    coo = places if places.layout is sparse_coo else coo_places(places)
    held = coalesce(to_sparse_coo(t))
    if held._array.sparse_dim != coo.sparse_dim:
        return values_at(to_dense(t), places)
    lead = places.shape[: coo.sparse_dim]
    keys, wanted = linear(held._array.index, lead), linear(coo.index, lead)
    values = values_of(held)
    if not len(keys):
        return ops.zeros((len(wanted), *values.shape[1:]), dtype=t.dtype)
    position = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    found = wrap((keys[position] == wanted).reshape((-1,) + (1,) * (values.ndim - 1)), bool_)
    return ops.where(found, ops.index_select(values, 0, index_tensor(position)), 0)


# -- constructors ------------------------------------------------------------------------------------------------


def _as_values(values: Any, d: dtype | None, device: Any) -> Tensor:
    values = values if isinstance(values, Tensor) else ops.tensor(values)
    if device is not None:
        values = ops.to(values, device)
    return values if d is None or d is values.dtype else ops.to_dtype(values, d)


def _as_index(index: Any, held: Tensor) -> Any:
    """The array of indices beside values, which may have no elements."""
    index = index if isinstance(index, Tensor) else ops.tensor(index)
    _check_on_cpu(index)
    if (index._k | held._k) & META:
        return empty_meta(index._array.shape, int64)
    if index.dtype.category >= FLOATING:
        index = ops.to_dtype(index, int64)
    array = index._array
    return array if array.dtype == np.int64 else array.astype(np.int64)


def _finished(values: Tensor, places: SparseArray, requires_grad: bool) -> Tensor:
    made = rebuild(values, places)
    if requires_grad:
        if values.dtype.category < FLOATING:
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        made = rebuild(ops.detach(values), places)
        made._k |= GRAD
    return made


@public(method=False)
def sparse_coo_tensor(
    indices: Any = None, values: Any = None, size: Any = None, *, dtype: dtype | None = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:  # fmt: skip
    """A tensor that holds `values` at the coordinates in the columns of `indices`; equal coordinates add up.

    >>> import flambeau as torch
    >>> torch.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    """
    if values is None:  # only a size
        if (indices is None) == (size is None):
            raise TypeError("sparse_coo_tensor() takes indices and values, or a size alone")
        size = tuple(indices if size is None else size)
        held = ops.zeros((0,), dtype=dtype, device=device)
        index = _as_index(ops.zeros((len(size), 0), dtype=int64), held)
    else:
        held = _as_values(values, dtype, device)
        held = held if held.ndim else ops.reshape(held, (1,))
        index = _as_index(indices, held)
        if index.ndim == 1 and not index.size:
            index = index.reshape(0 if size is None else len(size) - held.ndim + 1, 0)
        if size is None:
            lead = tuple(int(n) + 1 for n in index.max(1)) if index.shape[-1] else (0,) * len(index)
            size = (*lead, *held.shape[1:])
    size = tuple(int(n) for n in size)
    check_coo(index, held._array, size)
    coalesced = bool(is_coalesced) or index.shape[-1] < 2
    return _finished(held, SparseArray(sparse_coo, index, held._array, size, coalesced), requires_grad)


@public(method=False)
def sparse_compressed_tensor(
    compressed_indices: Any, plain_indices: Any, values: Any, size: Any = None, *, dtype: dtype | None = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:  # fmt: skip
    """A sparse tensor in one of the layouts that keep where each row (or column) starts.

    >>> import flambeau as torch
    >>> torch.sparse_compressed_tensor([0, 1, 2], [1, 0], [5.0, 6.0], (2, 2), layout=torch.sparse_csr).to_dense()
    tensor([[0., 5.],
            [6., 0.]])
    """
    if layout not in COMPRESSED:
        raise RuntimeError(f"sparse_compressed_tensor: expected a compressed sparse layout, got {layout}")
    held = _as_values(values, dtype, device)
    starts, others = _as_index(compressed_indices, held), _as_index(plain_indices, held)
    if size is None:
        first = starts.ndim - 1
        block = held.shape[first + 1 : first + 3] if layout in BLOCKED else (1, 1)
        lines, width = starts.shape[-1] - 1, int(others.max()) + 1 if others.size else 0
        grid = (lines, width) if layout in BY_ROW else (width, lines)
        rest = held.shape[first + (3 if layout in BLOCKED else 1) :]
        size = (*starts.shape[:-1], grid[0] * block[0], grid[1] * block[1], *rest)
    size = tuple(int(n) for n in size)
    check_compressed(layout, starts, others, held._array, size)
    return _finished(held, SparseArray(layout, (starts, others), held._array, size), requires_grad)


def _compressed(kind: layout_type, first: str, second: str) -> Any:
    def make(*args: Any, **named: Any) -> Tensor:
        if first in named:
            named["compressed_indices"] = named.pop(first)
        if second in named:
            named["plain_indices"] = named.pop(second)
        named["layout"] = kind
        return sparse_compressed_tensor(*args, **named)

    make.__name__ = make.__qualname__ = kind.name + "_tensor"
    make.__doc__ = f"A tensor of layout {kind} from ({first}, {second}, values, size)."
    return public(method=False)(make)


sparse_csr_tensor = _compressed(sparse_csr, "crow_indices", "col_indices")
sparse_csc_tensor = _compressed(sparse_csc, "ccol_indices", "row_indices")
sparse_bsr_tensor = _compressed(sparse_bsr, "crow_indices", "col_indices")
sparse_bsc_tensor = _compressed(sparse_bsc, "ccol_indices", "row_indices")


# -- parts -------------------------------------------------------------------------------------------------------


def _coalesced(name: str, t: Tensor) -> SparseArray:
    array = _expect(name, t, (sparse_coo,), "sparse coordinate")
    if not array.coalesced:
        raise RuntimeError(f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first")
    return array


def indices(input: Tensor) -> Tensor:
    """The coordinates of a coalesced COO tensor, one column an entry."""
    return index_tensor(_coalesced("indices", input).index)


def _indices(input: Tensor) -> Tensor:
    return index_tensor(_expect("_indices", input, (sparse_coo,), "sparse coordinate").index)


def values(input: Tensor) -> Tensor:
    """The values of a sparse tensor, which must be coalesced."""
    if layout_of(input) is sparse_coo:
        _coalesced("values", input)
    _expect("values", input, (sparse_coo, *COMPRESSED), "sparse")
    return values_of(input)


def _values_method(input: Tensor) -> Tensor:
    _expect("_values", input, (sparse_coo, *COMPRESSED), "sparse")
    return values_of(ops.detach(input))


def _nnz(input: Tensor) -> int:
    return _expect("_nnz", input, (sparse_coo, *COMPRESSED), "sparse").count


def _part(name: str, number: int, layouts: Any, kind: str, said: str) -> Any:
    def part(input: Tensor) -> Tensor:
        return index_tensor(_expect(name, input, layouts, kind).index[number])

    part.__name__ = part.__qualname__ = name
    part.__doc__ = f"{said} in a {kind} tensor."
    return public(method=True)(part)


for _first, _second, _layouts, _along, _across in (
    ("crow_indices", "col_indices", BY_ROW, "row", "column"),
    ("ccol_indices", "row_indices", (sparse_csc, sparse_bsc), "column", "row"),
):
    _part(_first, 0, _layouts, f"sparse {_along} compressed", f"Where the elements of each {_along} begin,")
    _part(_second, 1, _layouts, f"sparse {_along} compressed", f"The {_across} of each element,")


@public("Tensor._coalesced_")
def _coalesced_(input: Tensor, coalesced: bool) -> Tensor:
    """Declares a COO tensor to be coalesced, or not; nothing is checked."""
    _expect("_coalesced_", input, (sparse_coo,), "sparse coordinate").coalesced = bool(coalesced)
    return input


@public(method=True)
def coalesce(input: Tensor) -> Tensor:
    """The same tensor with sorted coordinates, values at equal ones added up."""
    array = _expect("coalesce", input, (sparse_coo,), "sparse coordinate")
    if array.coalesced:
        return input
    lead = array.shape[: array.sparse_dim]
    places, inverse = np.unique(linear(array.index, lead), return_inverse=True)
    entries = values_of(input)
    if len(places) == array.count:
        added = ops.index_select(entries, 0, index_tensor(np.argsort(inverse, kind="stable")))
    else:
        empty = ops.zeros((len(places), *entries.shape[1:]), dtype=input.dtype)
        added = ops.index_add(empty, 0, index_tensor(inverse.reshape(-1).astype(np.int64)), entries)
    return rebuild(added, SparseArray(sparse_coo, split(places, lead), added._array, array.shape, True))


# -- conversion --------------------------------------------------------------------------------------------------


def coo_places(array: SparseArray) -> SparseArray:
    """The places of a CSR or CSC array as COO, batch dimensions first; the entries keep their order."""
    batch, rows, columns = coordinates(array)
    index = np.concatenate([split(batch, array.batch), rows[None], columns[None]])
    held = array.values.reshape(-1, *array.values.shape[len(array.batch) + 1 :])
    return SparseArray(sparse_coo, index, held, array.shape, array.layout is sparse_csr)


def to_sparse_coo(t: Tensor) -> Tensor:
    array = t._array
    if array.layout is sparse_coo:
        return t
    if array.layout in BLOCKED:
        return to_sparse(_from_blocks(t), len(array.batch) + 2)
    places = coo_places(array)
    return rebuild(ops.reshape(values_of(t), places.values.shape), places)


class _AllOfIt(Function):
    """`to_dense` whose gradient is dense too: the elements that are not there count as zeros, not as absent."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return to_dense(detached(x))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g


def to_dense(input: Tensor, dtype: dtype | None = None, *, masked_grad: bool | None = None) -> Tensor:
    """The tensor with all its zeros written out.

    >>> import flambeau as torch
    >>> torch.tensor([0.0, 2.0]).to_sparse().to_dense()
    tensor([0., 2.])
    """
    made = input
    if input._k & SPARSE:
        if masked_grad is False and input._k & GRAD and local.grad:
            made = _AllOfIt.apply(input)
        elif input._array.layout in BLOCKED:
            made = _from_blocks(input)
        else:
            t = coalesce(to_sparse_coo(input)) if input._array.layout is sparse_coo else to_sparse_coo(input)
            array = t._array
            lead = array.shape[: array.sparse_dim]
            empty = ops.zeros((math.prod(lead), *array.shape[array.sparse_dim :]), dtype=input.dtype)
            full = ops.index_copy(empty, 0, index_tensor(linear(array.index, lead)), values_of(t))
            made = ops.reshape(full, array.shape)
    return made if dtype is None or dtype is made.dtype else ops.to_dtype(made, dtype)


def _dense_to_coo(input: Tensor, sparse_dim: int) -> Tensor:
    lead = input.shape[:sparse_dim]
    flat = ops.reshape(input, (math.prod(lead), *input.shape[sparse_dim:]))
    array = flat._array
    filled = (array != 0).reshape(len(array), -1).any(1) if array.ndim > 1 else array != 0
    places = np.flatnonzero(filled).astype(np.int64)
    held = ops.index_select(flat, 0, index_tensor(places))
    return rebuild(held, SparseArray(sparse_coo, split(places, tuple(lead)), held._array, tuple(input.shape), True))


def to_sparse(
    input: Tensor, sparse_dim: Any = None, *, layout: Any = None, blocksize: Any = None, dense_dim: int | None = None,
) -> Tensor:  # fmt: skip
    """The tensor as a sparse one: of COO layout with `sparse_dim` sparse dimensions, or of the given layout.

    >>> import flambeau as torch
    >>> torch.eye(2).to_sparse().values()
    tensor([1., 1.])
    """
    if isinstance(sparse_dim, layout_type):
        sparse_dim, layout = None, sparse_dim
    _check_on_cpu(input)
    layout = layout or (sparse_coo if not input._k & SPARSE or sparse_dim is None else layout_of(input))
    if layout_of(input) is layout and blocksize is None:
        return input
    if input._k & DUAL:
        raise NotImplementedError("to_sparse(): tangents do not go through it; differentiate backwards instead")
    if layout is sparse_coo:
        if input._k & SPARSE:
            return to_sparse_coo(input)
        count = input.ndim if sparse_dim is None else int(sparse_dim)
        if not 0 <= count <= input.ndim or (count == 0 and input.ndim):
            raise RuntimeError(f"to_sparse: sparse_dim must be in [1, {input.ndim}], got {count}")
        return _dense_to_coo(input, count)
    if layout not in COMPRESSED:
        raise RuntimeError(f"to_sparse: cannot convert to layout {layout}")
    if layout not in BLOCKED and input._k & SPARSE and layout_of(input) not in BLOCKED and _is_one_matrix(input._array):
        return _compress(to_sparse_coo(input), layout)
    return _compress_dense(input, layout, blocksize, dense_dim)


def _is_one_matrix(array: SparseArray) -> bool:
    return array.sparse_dim == 2 and not array.batch


def _compress(t: Tensor, kind: layout_type) -> Tensor:
    t = coalesce(t) if not (kind is sparse_csr and t._array.coalesced) else t
    array = t._array
    held = values_of(t)
    lines, others = array.index if kind is sparse_csr else array.index[::-1]
    if kind is sparse_csc:
        order = np.argsort(lines, kind="stable")
        lines, others, held = lines[order], others[order], ops.index_select(held, 0, index_tensor(order))
    starts = starts_of(lines, array.shape[0 if kind is sparse_csr else 1])
    return rebuild(held, SparseArray(kind, (starts, np.ascontiguousarray(others)), held._array, array.shape))


def _grid(t: Tensor, first: int, block: Sequence[int]) -> Tensor:
    """Matrices in the dimensions from `first` on as (block rows, block columns, *block)."""
    (h, w), shape = block, t.shape
    (n, m), rest = shape[first : first + 2], shape[first + 2 :]
    split_up = ops.reshape(t, (*shape[:first], n // h, h, m // w, w, *rest))
    return ops.transpose(split_up, first + 1, first + 2)


def _compress_dense(input: Tensor, kind: layout_type, blocksize: Any, dense_dim: int | None) -> Tensor:
    """Dense matrices, or batches of them, in a compressed layout; the last `dense_dim` dimensions belong to values."""
    if input._k & SPARSE:
        array = input._array
        blocksize = blocksize or (array.block if array.layout in BLOCKED else None)
        dense_dim = array.dense_dim if dense_dim is None else dense_dim
        input = to_dense(input)
    first = input.ndim - 2 - (dense_dim or 0)
    if first < 0:
        raise RuntimeError(f"to_sparse: layout {kind} needs a matrix, got {input.ndim} dimensions")
    shape, blocked = tuple(input.shape), kind in BLOCKED
    if blocked and (blocksize is None or len(blocksize) != 2):
        raise RuntimeError(f"to_sparse: layout {kind} needs a blocksize of two numbers, got {blocksize}")
    block = tuple(blocksize) if blocked else (1, 1)
    if min(block) < 1 or shape[first] % block[0] or shape[first + 1] % block[1]:
        raise RuntimeError(f"to_sparse: size {list(shape)} is not divisible by blocks of {list(block)}")
    grid = _grid(input, first, block)._array
    filled = (grid != 0).any(tuple(range(first + 2, grid.ndim)))
    if kind not in BY_ROW:
        filled = filled.swapaxes(-1, -2)
    counts = np.unique(filled.sum((-1, -2)))
    if len(counts) > 1:
        raise RuntimeError("to_sparse: Expect the same number of specified elements per batch.")
    starts = np.zeros((*shape[:first], filled.shape[-2] + 1), np.int64)
    np.cumsum(filled.sum(-1), -1, out=starts[..., 1:])
    count = int(counts[0]) if len(counts) else 0
    others = np.nonzero(filled)[-1].astype(np.int64).reshape(*shape[:first], count)
    held = np.empty((*shape[:first], count, *(block if blocked else ()), *shape[first + 2 :]), input._array.dtype)
    places = SparseArray(kind, (starts, others), held, shape)
    return rebuild(_blocks_at(input, places), places)


def _blocks_at(dense: Tensor, places: SparseArray) -> Tensor:
    """The elements (or blocks) of dense matrices at the places of a compressed array, as its values lie."""
    grid = _grid(dense, len(places.batch), places.block)
    flat = ops.reshape(grid, (-1, *grid.shape[len(places.batch) + 2 :]))
    return ops.reshape(ops.index_select(flat, 0, index_tensor(_block_numbers(places))), places.values.shape)


def _block_numbers(places: SparseArray) -> Any:
    batch, rows, columns = coordinates(places)
    n, m = places.grid
    return (batch * n + rows) * m + columns


def _from_blocks(t: Tensor) -> Tensor:
    array = t._array
    (h, w), (n, m), first = array.block, array.grid, len(array.batch)
    rest = array.shape[first + 2 :]
    empty = ops.zeros((math.prod(array.batch) * n * m, h, w, *rest), dtype=t.dtype)
    held = ops.reshape(values_of(t), (-1, h, w, *rest))
    full = ops.index_copy(empty, 0, index_tensor(_block_numbers(array)), held)
    grid = ops.reshape(full, (*array.batch, n, m, h, w, *rest))
    return ops.reshape(ops.transpose(grid, first + 1, first + 2), array.shape)


def to_sparse_csr(input: Tensor, dense_dim: int | None = None) -> Tensor:
    """The matrix in the layout that keeps where each row starts."""
    return to_sparse(input, layout=sparse_csr, dense_dim=dense_dim)


def to_sparse_csc(input: Tensor, dense_dim: int | None = None) -> Tensor:
    """The matrix in the layout that keeps where each column starts."""
    return to_sparse(input, layout=sparse_csc, dense_dim=dense_dim)


def _both(blocksize: Any) -> tuple[int, ...]:
    """The extents of a block: one number stands for both."""
    return (blocksize, blocksize) if isinstance(blocksize, int) else tuple(blocksize)


def to_sparse_bsr(input: Tensor, blocksize: Any, dense_dim: int | None = None) -> Tensor:
    """The matrix as rows of dense blocks."""
    return to_sparse(input, layout=sparse_bsr, blocksize=_both(blocksize), dense_dim=dense_dim)


def to_sparse_bsc(input: Tensor, blocksize: Any, dense_dim: int | None = None) -> Tensor:
    """The matrix as columns of dense blocks."""
    return to_sparse(input, layout=sparse_bsc, blocksize=_both(blocksize), dense_dim=dense_dim)


def sparse_mask(input: Tensor, mask: Tensor) -> Tensor:
    """The elements of a tensor at the places of a sparse one."""
    if not is_sparse(mask):
        raise RuntimeError("sparse_mask expected sparse mask tensor layout but got Strided")
    if input.shape != mask.shape:
        raise RuntimeError(f"sparse_mask: sizes differ: {list(input.shape)} and {list(mask.shape)}")
    return rebuild(values_at(input, mask._array), mask._array)


for _function in (
    indices, _indices, values, _nnz, to_dense, to_sparse, to_sparse_csr, to_sparse_csc, to_sparse_bsr,
    to_sparse_bsc, sparse_mask,
):  # fmt: skip
    public(_function.__name__, method=True)(_function)
expose("coalesce", coalesce, None, None)
public("Tensor._values", method="_values")(_values_method)


# -- text --------------------------------------------------------------------------------------------------------


def text(t: Tensor, node: str | None) -> str:
    """How a sparse tensor prints; `node` is the name of its place in the graph."""
    array = t._array
    coo = array.layout is sparse_coo
    names = (
        ("indices",)
        if coo
        else ("crow_indices", "col_indices")
        if array.layout in BY_ROW
        else ("ccol_indices", "row_indices")
    )
    parts = [_named(name, index_tensor(i)) for name, i in zip(names, (array.index,) if coo else array.index)]
    parts.append(_named("values", wrap(array.values, t.dtype, t._k & META)))
    tail = ["device='meta'"] if t._k & META else []
    tail.append(f"size={array.shape}")
    if not t._k & META:
        tail.append(f"nnz={array.count}")
    if coo:
        parts.append(", ".join(tail))
        tail = []
    made = (",\n" + " " * 7).join(parts)
    tail += [] if t.dtype in (default.float, default.complex, int64, bool_) else [f"dtype={t.dtype}"]
    tail.append(f"layout={array.layout}")
    if t._k & GRAD:
        tail.append("requires_grad=True" if node is None else f"grad_fn=<{node}>")
    used = len(made) - (made.rfind("\n") + 1) + 2
    for suffix in tail:
        wide = used + len(suffix) + 2 > PRINT_OPTIONS.linewidth
        made += (",\n" + " " * 7 if wide else ", ") + suffix
        used = 7 + len(suffix) if wide else used + len(suffix) + 2
    return f"tensor({made})"


def _named(name: str, t: Tensor) -> str:
    body, indent = f"tensor({'...' if t._k & META else '[]'}, size={tuple(t.shape)})", 8 + len(name)
    if t.numel() and not t._k & META:
        with printoptions(linewidth=PRINT_OPTIONS.linewidth - indent, sci_mode=PRINT_OPTIONS.sci_mode):
            body = repr(t)
        position = body.find("dtype=")  # told once, for the whole
        body = body if position < 0 else body[:position].rstrip().rstrip(",") + ")"
    return f"{name}=" + re.sub(r"\n(?!\n)", "\n" + " " * indent, body)


def zeros_like(t: Tensor, d: dtype, device: Any = None) -> Tensor:
    """A sparse tensor without entries."""
    array = t._array
    batch = array.batch
    device = t.device if device is None else device
    held = ops.zeros((*batch, 0, *array.values.shape[len(batch) + 1 :]), dtype=d, device=device)
    shapes = [(array.sparse_dim, 0)] if array.layout is sparse_coo else [array.index[0].shape, (*batch, 0)]
    none = [_as_index(ops.zeros(shape, dtype=int64), held) for shape in shapes]
    index = none[0] if array.layout is sparse_coo else tuple(none)
    return rebuild(held, SparseArray(array.layout, index, held._array, array.shape, True))


def is_contiguous(t: Tensor) -> bool:
    """Elements of a COO tensor have no order in memory; of other layouts PyTorch refuses to tell."""
    if layout_of(t) is not sparse_coo:
        raise RuntimeError(f"{_TITLES[layout_of(t)]} tensors do not have is_contiguous")
    return False


expose("sparse_zeros_like", zeros_like, None, None)
expose("sparse_is_contiguous", is_contiguous, None, None)
expose("sparse_text", text, None, None)


SCHEMAS = """
sparse_coo_tensor.size(int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=False) -> Tensor  # parsed
sparse_coo_tensor.indices(Tensor indices, Tensor values, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool? is_coalesced=None) -> Tensor
sparse_coo_tensor.indices_size(Tensor indices, Tensor values, int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool? is_coalesced=None) -> Tensor
sparse_compressed_tensor.comp_plain_value_size(Tensor compressed_indices, Tensor plain_indices, Tensor values, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=False) -> Tensor  # parsed
sparse_compressed_tensor.comp_plain_value(Tensor compressed_indices, Tensor plain_indices, Tensor values, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=False) -> Tensor
sparse_bsc_tensor|sparse_csc_tensor.ccol_row_value_size(Tensor ccol_indices, Tensor row_indices, Tensor values, int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=False) -> Tensor  # parsed
sparse_bsc_tensor|sparse_csc_tensor.ccol_row_value(Tensor ccol_indices, Tensor row_indices, Tensor values, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=False) -> Tensor
sparse_bsr_tensor|sparse_csr_tensor.crow_col_value_size(Tensor crow_indices, Tensor col_indices, Tensor values, int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=False) -> Tensor  # parsed
sparse_bsr_tensor|sparse_csr_tensor.crow_col_value(Tensor crow_indices, Tensor col_indices, Tensor values, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=False) -> Tensor
indices|_indices|values|_values|row_indices|ccol_indices|col_indices|crow_indices|coalesce(Tensor(a) self) -> Tensor(a)
_nnz(Tensor self) -> int
_coalesced_(Tensor(a!) self, bool coalesced) -> Tensor(a!)
to_dense(Tensor self, ScalarType? dtype=None, *, bool? masked_grad=None) -> Tensor
to_sparse.sparse_dim(Tensor self, int sparse_dim) -> Tensor
to_sparse(Tensor self, *, Layout? layout=None, int[2]? blocksize=None, int? dense_dim=None) -> Tensor
to_sparse_csr|to_sparse_csc(Tensor self, int? dense_dim=None) -> Tensor
to_sparse_bsr|to_sparse_bsc(Tensor self, int[2] blocksize, int? dense_dim=None) -> Tensor
sparse_mask(Tensor self, Tensor mask) -> Tensor
"""
