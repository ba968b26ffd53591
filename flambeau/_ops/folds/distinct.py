"""Distinct values: unique and its relatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._backend.cpu import cpu
from ..._core.dtypes import BY_NUMPY, COMPLEX, int64
from ..._core.sizes import wrap_dim
from ..._kernel.folds.sort import distinct
from ..._tensor import Tensor, wrap
from ..places import device_marks
from ..records.batching import shaped_by_values
from ..records.primitive import primitive
from ..records.rules import not_implemented
from ..records.shape_rules import data_dependent
from ..registry import public
from .counting import distinct_few, extent_of, is_few, occurring_in, ranked, tallied
from .reduction import require_bool
from .sorting import comparable, sort_array

_PLAIN = 1 << 12  # elements from which they are sorted without their places


def _distinct(xp: Any, new: Any, order: Any, shape: Any) -> tuple[Any, Any, Any]:
    """First places of runs, the run of every original element, and lengths of runs; `new` says where runs start."""
    starts = xp.flatnonzero(new)
    inverse = xp.empty(new.size, "int64")
    inverse[order] = xp.cumsum(new) - 1
    return starts, inverse.reshape(shape), xp.diff(xp.append(starts, new.size))


def _distinct_integers(x: Any, inverse: bool) -> tuple[Any, Any, Any] | None:
    """The same of all elements, many integers in a narrow range, which are counted; None if they are not that."""
    if x.dtype.kind not in "iu" or x.dtype == np.uint64:
        return None
    flat = x.reshape(-1)
    low, high = extent_of(flat)
    if high - low >= 2 * flat.size:
        return None
    values, rank, times = occurring_in(tallied(flat, low, high - low + 1), low, x.dtype)
    return values, ranked(flat, low, rank).reshape(x.shape) if inverse else None, times


def _distinct_elements(x: Any, wants_inverse: bool) -> tuple[Any, Any, Any]:
    """The same of all elements, which are sorted for that. Without `wants_inverse`, the second may be missing."""
    if is_few(x):
        return distinct_few(x, wants_inverse)
    if (quick := _distinct_integers(x, wants_inverse)) is not None:
        return quick
    flat = x.reshape(-1)
    if not wants_inverse and x.size >= _PLAIN and x.dtype.char in "bBhHiIlLqQfd":
        ordered = np.sort(flat)
        starts = np.flatnonzero(_starts_of_runs(np, ordered.reshape(-1, 1)))
        return ordered[starts], None, np.diff(np.append(starts, flat.size))
    return _runs(*sort_array(cpu, flat, 0, False), x.shape)


def _runs(values: Any, order: Any, shape: Any) -> tuple[Any, Any, Any]:
    """The first elements of runs, the run of every original element, and lengths of runs."""
    first, inverse, counts = np.empty_like(values), np.empty_like(order), np.empty_like(order)
    code, found = BY_NUMPY[values.dtype].code, np.empty((), np.int64)
    cpu.small(distinct, (code, "i64", code, "i64", "i64", "i64"))(values, order, first, inverse, counts, found)
    number = found.item()
    return first[:number].copy(), inverse.reshape(shape), counts[:number].copy()


def _distinct_there(backend: Any, x: Any, wants_inverse: bool) -> tuple[Any, Any, Any]:
    """The same of all elements on a GPU, of which there is at least one. The CPU waits once, for their number."""
    sort = lambda flat: sort_array(backend, flat, 0, False)
    first, inverse, counts = device_marks.runs(backend, x.reshape(-1), sort, wants_inverse)
    return first, inverse.reshape(x.shape) if wants_inverse else inverse, counts


def _starts_of_runs(xp: Any, rows: Any) -> Any:
    """Where a row of a matrix differs from the one before it."""
    new = xp.ones(len(rows), bool)
    if len(rows) > 1:
        new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return new


def _unique_name(node: Any) -> str:
    _, dim, consecutive = node.saved[:3]
    return f"Unique{'Consecutive' if consecutive else '2' if dim is None else 'Dim'}Backward0"


@primitive(batch=shaped_by_values, meta=data_dependent, grad=None, name="unique", backward_name=_unique_name)
def unique_op(backend: Any, x: Any, dim: int | None, consecutive: bool, wants_inverse: bool) -> Any:
    """Distinct elements (or slices along a dimension), inverse (which may be missing if nobody wants it), counts."""
    if dim is None and not consecutive and backend is cpu and x.size:
        values, places, counts = _distinct_elements(x, wants_inverse)
        return values, np.empty(0, np.int64) if places is None else places, counts
    if dim is None and not consecutive and x.size:
        return _distinct_there(backend, x, wants_inverse)
    if dim is None and backend is cpu and x.size and x.dtype.kind != "c":
        return _runs(np.ascontiguousarray(x.reshape(-1)), np.arange(x.size), x.shape)
    xp = backend.xp
    if dim is None:
        rows = x.reshape(-1, 1)
    else:
        moved = xp.moveaxis(x, dim, 0)
        rows = moved.reshape(len(moved), math.prod(moved.shape[1:]))
    if consecutive:
        order = xp.arange(len(rows))
    elif rows.shape[1] == 1:
        order = sort_array(backend, rows[:, 0], 0, False)[1]
    else:
        order = xp.lexsort(comparable(rows).T[::-1]) if rows.size else xp.arange(len(rows))
    ordered = rows[order]
    new = _starts_of_runs(xp, ordered)
    starts, inverse, counts = _distinct(xp, new, order, x.shape if dim is None else (len(rows),))
    kept = ordered[starts]
    if dim is None:
        return kept.reshape(-1), inverse, counts
    return xp.moveaxis(kept.reshape(len(kept), *moved.shape[1:]), 0, dim), inverse, counts


def _unique_of(input: Tensor, dim: Any, inverse: bool, counts: bool, consecutive: bool) -> Any:
    if input.dtype.category == COMPLEX:
        raise not_implemented("unique", input.dtype)
    if dim is not None:
        shape = input._array.shape
        dim = wrap_dim(dim, len(shape))
        if 0 in shape[:dim] + shape[dim + 1 :]:
            raise RuntimeError("unique: There are 0 sized dimensions besides the selected one")
        if not shape:
            dim = None
    found = unique_op(input, dim, consecutive, inverse)
    results = [found[0], *found[1:2] * inverse, *found[2:] * counts]
    return results[0] if len(results) == 1 else tuple(results)


@public()
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements of a tensor (or slices along `dim`) in order, with inverse and counts on request.

    >>> import flambeau as torch
    >>> torch.unique(torch.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    for word, flag in (("sorted", sorted), ("return_inverse", return_inverse), ("return_counts", return_counts)):
        require_bool("unique", word, flag)  # a number in their place was meant to be dim
    return _unique_of(input, dim, return_inverse, return_counts, False)


@public(method=False)
def _unique2(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Tensor, ...]:
    """What `unique` gives; inverse and counts, too, which are empty unless they were asked for."""
    return _with_empty(_unique_of(input, None, return_inverse, return_counts, False), return_inverse)


@public(method=False)
def _unique(input: Tensor, sorted: bool = True, return_inverse: bool = False) -> tuple[Tensor, ...]:
    """The same without counts."""
    return _with_empty(_unique_of(input, None, return_inverse, False, False), return_inverse)[:2]


def _with_empty(found: Any, inverse: bool) -> tuple[Tensor, ...]:
    found = list(found) if isinstance(found, tuple) else [found]
    if not inverse:
        found.insert(1, wrap(np.empty(0, np.int64), int64))
    return (*found, wrap(np.empty(0, np.int64), int64))[:3]


@public()
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The tensor without elements (or slices along `dim`) that equal the one before them.

    >>> import flambeau as torch
    >>> torch.unique_consecutive(torch.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    return _unique_of(input, dim, return_inverse, return_counts, True)


SCHEMAS = """
unique  # python, record=_unique2
_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor)
_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)
"""
