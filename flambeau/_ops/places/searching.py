"""Looking for values: searchsorted, bucketize, isin."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._backend import threads
from ..._backend.cpu import cpu
from ..._core.allocation import empty
from ..._core.dtypes import (
    BOOL,
    BY_NUMPY,
    COMPLEX,
    FLOATING,
    bool_,
    default,
    dtype,
    int32,
    int64,
    promote_types,
    scalar_dtype,
    uint8,
)  # fmt: skip
from ..._kernel.loops.lang import kernel
from ..._tensor import Tensor, wrap
from ..records.batched_places import among, searched
from ..records.casting import number_array
from ..records.primitive import primitive
from ..records.rules import not_implemented, type_name
from ..registry import ops, public
from . import index_kernels as kernels


@kernel("(n),(k)->(k)")
def _bisect(m: Any, bounds: Any, values: Any, out: Any, right: Any) -> None:
    """For every value, how many of the sorted bounds are below it (or, to the right, not above it)."""
    for i in range(values.n):
        value = values[i]
        low = m.value(0, "i64")
        length = bounds.n + 0
        while length > 0:
            half = length >> 1
            bound = bounds[low + half]
            beyond = ~(bound > value) if right else ~(bound >= value)
            low = m.where(beyond, low + half + 1, low)
            length = m.where(beyond, length - half - 1, half)
        out[i] = low


_SEARCH_WORK = 32  # what looking for an element costs in moved ones
_FEW = 1 << 16  # comparisons that take less time than an order of all elements


@primitive(
    batch=searched,
    meta=lambda bounds, values, sorter, right, d: (values.shape, d),
    tensors=3,
    name="searchsorted",
    differentiable=False,
)
def searchsorted_op(backend: Any, bounds: Any, values: Any, sorter: Any, right: bool, d: dtype) -> Any:
    xp = backend.xp
    if sorter is not None:
        if kernels.first_outside(backend, sorter, 0, bounds.shape[-1]) is not None:
            raise RuntimeError("torch.searchsorted(): sorter index out of range")
        bounds = xp.take_along_axis(bounds, sorter, -1)
    code = BY_NUMPY[values.dtype].code
    if backend is not cpu:  # a thread for each value
        out = backend.empty(values.shape, d.numpy)
        all_ = bounds if bounds.ndim == 1 else bounds[..., None, :]
        backend.kernel(_bisect, (code, code, d.code), right=right)(all_, values[..., None], out[..., None])
        return out
    flat = values.reshape(-1) if bounds.ndim == 1 else values
    out = empty(flat.shape, d.numpy)
    work = out.size * _SEARCH_WORK
    call = cpu.sized(work, _bisect, (code, code, d.code), right=right)
    parts = threads.ranges(flat.size, 1 << 12, work) if bounds.ndim == 1 else ()
    if len(parts) > 1:
        cpu.side_by_side(call, [[bounds, flat[a:b], out[a:b]] for a, b in parts])
    else:
        call(bounds, flat, out)
    return out.reshape(values.shape)


@public(out="exact", method=False, planned=True)
def searchsorted(
    sorted_sequence: Tensor, input: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Where values would be inserted into the last dimension of a sorted tensor, before equal ones or (right) after.

    >>> import flambeau as torch
    >>> torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([3, 6]))
    tensor([1, 3])
    """
    name = "torch.searchsorted(): "
    if side is not None and side not in ("left", "right"):
        raise RuntimeError(f"{name}side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(f"{name}side and right can't be set to opposites, got side='left' and right=True")
    bounds, values = sorted_sequence, input
    shape = bounds._array.shape
    if not isinstance(values, Tensor):
        values = _number_like(values, bounds)
    if not shape and bounds._array.size:
        raise RuntimeError(f"{name}input value can not be a tensor when boundaries is a scalar")
    if not values._array.ndim and len(shape) != 1:
        raise RuntimeError(
            f"{name}input value can be a scalar only when boundaries have one dimension, got {len(shape)}"
        )
    if len(shape) != 1 and shape[:-1] != values._array.shape[:-1]:
        raise RuntimeError(
            f"{name}boundaries must have one dimension or match input in all but the last, got {list(shape)} "
            f"and {list(values._array.shape)}"
        )
    if sorter is not None:
        if sorter._array.shape != shape:
            raise RuntimeError(
                f"{name}boundary and sorter must have the same size, got {list(shape)} and {list(sorter._array.shape)}"
            )
        if sorter.dtype is not int64:
            raise RuntimeError(f"{name}sorter must be a tensor of long dtype but got dtype {type_name(sorter.dtype)}")
    bounds, values = _common(bounds, values)
    return searchsorted_op(bounds, values, sorter, right or side == "right", int32 if out_int32 else int64)


def _number_like(value: Any, t: Tensor) -> Tensor:
    """A number as a 0-d tensor that can be compared with `t`."""
    if not isinstance(value, (int, float, complex, np.generic)):
        raise TypeError(f"argument must be Tensor or Number, not {type(value).__name__}")
    kind = scalar_dtype(value)
    d = t.dtype if kind.category <= t.dtype.category else kind
    return wrap(number_array(value, d), d)


def _common(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    d = a.dtype if a.dtype is b.dtype else promote_types(a.dtype, b.dtype)
    if d.category == BOOL:
        d = uint8
    if d.category == COMPLEX:
        raise not_implemented("searchsorted_out_cpu", d)
    return a if a.dtype is d else ops.to_dtype(a, d), b if b.dtype is d else ops.to_dtype(b, d)


@public(out="exact", method=False, planned=True)
def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The number of the bucket between sorted boundaries that each value falls into.

    >>> import flambeau as torch
    >>> torch.bucketize(torch.tensor([0, 3, 6]), torch.tensor([1, 3, 5]))
    tensor([0, 1, 3])
    """
    if boundaries._array.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries._array.ndim})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@kernel("(n),(k)->(n)")
def _among(m: Any, x: Any, test: Any, out: Any, invert: Any) -> None:
    """Whether each element is (or is not: `invert`) one of the test elements."""
    for i in range(x.n):
        found = m.value(False, "b1")
        for j in range(test.n):
            found = found | (x[i] == test[j])
        out[i] = ~found if invert else found


@primitive(
    batch=among,
    meta=lambda elements, test, invert: (elements.shape, bool_),
    tensors=2,
    name="isin",
    differentiable=False,
)
def isin_op(backend: Any, elements: Any, test: Any, invert: bool) -> Any:
    if backend is cpu and 0 < elements.size * test.size < _FEW:
        out, code = np.empty(elements.shape, bool), BY_NUMPY[elements.dtype].code
        call = cpu.small(_among, (code, code, "b1"), invert=invert)
        call(elements.reshape(-1), test.reshape(-1), out.reshape(-1))
        return out
    return backend.xp.asarray(backend.xp.isin(elements, test, invert=invert))


def _sought(number: Any, among: Tensor) -> Tensor:
    """A number as a 0-d tensor, of the dtype of the numbers of its kind that it is looked for among."""
    d = scalar_dtype(number)
    if d.category == among.dtype.category:
        d = among.dtype
    return wrap(number_array(number, d), d)


@public(out="exact", method=False)
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element is among the test elements.

    >>> import flambeau as torch
    >>> torch.isin(torch.tensor([1, 2]), torch.tensor([2, 3]))
    tensor([False,  True])
    """
    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor):
        raise TypeError("isin(): at least one of elements and test_elements must be a Tensor")
    a, b = (
        x if isinstance(x, Tensor) else _sought(x, y) for x, y in ((elements, test_elements), (test_elements, elements))
    )
    d = promote_types(a.dtype, b.dtype)
    if d.category == COMPLEX:
        raise RuntimeError(f"Unsupported input type encountered for isin(): {type_name(d)}")
    if d.category == FLOATING and d.itemsize < 4:
        d = default.float if default.float.itemsize >= 4 else d
    a, b = (t if t.dtype is d else ops.to_dtype(t, d) for t in (a, b))
    return isin_op(a, b, invert)


SCHEMAS = """
searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor
searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor
bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor
bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor
isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor
isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, bool assume_unique=False, bool invert=False) -> Tensor
isin.Scalar_Tensor(Scalar element, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor
"""
