"""Whether a tensor may be written to: PyTorch's rules for leaves, views, inference, transforms and memory that overlaps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._autograd.functions import FunctionRecord
from ..._autograd.node import is_leaf
from ..._core.dtypes import FLOATING
from ..._core.layouts import pieces
from ..._core.state import BATCHED, GRAD, META, SPARSE, local, modes
from ..._errors import taught
from ..._errors.frames import warn_user
from ..._kernel.native.direct import start_of
from ..._tensor import MADE_IN_FUNCTION, MADE_IN_INFERENCE, MADE_WITH_OTHERS, MADE_WITHOUT_GRAD, BirthMeta, Tensor


def overlaps_itself(array: Any) -> bool:
    """Whether two elements of an array share memory."""
    shape, strides = array.shape, array.strides
    if array.size < 2:
        return False
    extent = array.itemsize
    for stride, n in sorted((abs(s), n) for s, n in zip(strides, shape) if n > 1):
        if stride < extent:
            return True
        extent = stride * (n - 1) + extent
    return False


def check_writable(
    t: Tensor, others: Any = (), expanded: bool = False, partial: bool = True, captured: bool = False
) -> None:
    """Raises unless an in-place operation may write to `t` (PyTorch's rules for leaves, views and overlap).

    `expanded` allows elements that share memory: fills and single elements may be written there. `partial` asks whether
    the others overlap it in part. `captured` allows what a function under a transform did not make.
    """
    if modes.inferring is not None and local.transforms and not captured:
        check_captured(t)
    if local.grad:
        check_history(t, others)
    check_inference(t)
    if local.before_write is not None:
        local.before_write(t)
    array = t._array
    if not expanded and 0 in array.strides and not t._k & SPARSE and overlaps_itself(array):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory "
            "location; clone() it first"
        )
    if not isinstance(array, np.ndarray) or array.flags.writeable:
        storage = t._storage
        if storage is not None and partial:
            for other in others:
                if isinstance(other, Tensor) and other is not t and storage.has_memory_of(other._storage):
                    check_partial_overlap(array, other._array)
    elif not t._k & META:
        t._array = array = _writable(array)


def check_history(t: Tensor, others: Any = ()) -> None:
    """Raises unless a recorded write to `t` can become part of its history."""
    if t._view is not None:
        check_view(t, others)
    if t._k & GRAD:
        if t._edge is None:
            raise taught(RuntimeError("a leaf Variable that requires grad is being used in an in-place operation."))
        node, number = t._edge
        if node.op.__class__ is FunctionRecord and number in node.__dict__.get("as_is", ()):
            raise RuntimeError(frozen(t, "is being modified inplace", IN_FUNCTION))


def check_inference(t: Tensor) -> None:
    """Raises if `t` was made in inference mode and is written to outside of it."""
    meta = t._autograd_meta
    if meta is not None and meta.inference and not local.inference:
        raise RuntimeError("Inplace update to inference tensor outside InferenceMode is not allowed; clone() it first")


def check_captured(t: Any) -> None:
    """Raises if a function that is being differentiated by a transform writes to what it did not make or was not given."""
    while t._k & BATCHED:
        t = t.value
    meta = t._autograd_meta
    born = None if meta is None else meta.inherited
    if born.__class__ is not BirthMeta or not any(one is local.transforms[-1] for one in born.transforms):
        raise RuntimeError(
            "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation that "
            "would mutate a captured Tensor. This is not supported; please rewrite the function being transformed to "
            "explicitly accept the mutated Tensor(s) as inputs, or clone() what it captured."
        )


def _writable(array: Any) -> Any:
    """Read-only NumPy memory that a user handed in cannot be written."""
    raise RuntimeError("the tensor's memory is read-only (it came from a read-only NumPy array); clone() it first")


def same_memory(a: Any, b: Any) -> bool:
    """Whether two arrays are the same elements in the same places."""
    return a is b or (a.shape == b.shape and a.strides == b.strides and a.dtype == b.dtype and _start(a) == _start(b))


def apart_or_same(written: Any, read: Any) -> bool:
    """Whether each element of a pointwise result may be written as soon as its operands are read."""
    if isinstance(written, np.ndarray) and isinstance(read, np.ndarray):
        return not np.may_share_memory(written, read) or same_memory(written, read)
    (first, last), (start, stop) = _span(written), _span(read)
    return last <= start or stop <= first or same_memory(written, read) or _between(written, read, start - first)


def _between(a: Any, b: Any, away: int) -> bool:
    """Whether an array lies between the pieces of another one, so far away; their strides are not negative."""
    (apart, size), (same, other) = (pieces(x.shape, x.strides, x.itemsize) for x in (a, b))
    return 0 < apart == same and size <= away % apart <= apart - other


def check_partial_overlap(written: Any, read: Any) -> None:
    same = written.shape == read.shape and written.strides == read.strides and _start(written) == _start(read)
    if not same:
        _check_overlap(written, read)


def check_apart(t: Tensor, others: Any) -> None:
    """Raises if a tensor that is written piece by piece shares memory with one that is read."""
    storage = t._storage
    for other in others:
        if isinstance(other, Tensor) and (
            other is t or (storage is not None and storage.has_memory_of(other._storage))
        ):
            _check_overlap(t._array, other._array)


def warn_of_expanded(name: str) -> None:
    warn_user(
        f"Use of {name} on expanded tensors is deprecated. Please clone() the tensor before performing this "
        "operation: elements that share memory are all written."
    )


def _check_overlap(written: Any, read: Any) -> None:
    if written.size and read.size and _dense_overlap(written, read):
        raise RuntimeError(
            "unsupported operation: some elements of the input tensor and the written-to tensor refer to "
            "a single memory location; clone() one of them first"
        )


def _start(array: Any) -> int:
    """The address of an array's first byte, on any device."""
    return start_of(array) if isinstance(array, np.ndarray) else array.data.ptr  # type: ignore[no-any-return]


def _span(array: Any) -> tuple[int, int]:
    """The same, and the address of the byte after its last."""
    start = _start(array)
    return start, start + sum((n - 1) * s for n, s in zip(array.shape, array.strides)) + array.itemsize


def _dense_overlap(a: Any, b: Any) -> bool:
    """Whether two arrays without gaps share memory; of others PyTorch does not ask, and NumPy copies where need be."""
    (first, last), (start, stop) = _span(a), _span(b)
    return last - first == a.nbytes and stop - start == b.nbytes and first < stop and start < last


IN_FUNCTION = (
    "This view was created inside a custom Function (or because an input was returned as-is): rewriting its history "
    "would lose the Function's own backward. Clone the output of the Function first."
)
WITH_OTHERS = (
    "This view is the output of a function that returns multiple views. Such functions do not allow the output views to be "
    "modified inplace. Use the form of the operation that is not in place."
)


def check_view(t: Tensor, others: Any = ()) -> None:
    """Raises if a recorded operation may not write to a view."""
    base, inside, made, of_leaf = t, None, t._view[5], False
    while base._view is not None:
        edge = base._edge
        if edge is not None and edge[0].op.__class__ is FunctionRecord:
            inside = edge[0]
        base = base._view[0]
        of_leaf = of_leaf or (base._edge is None and bool(base._k & GRAD))  # a leaf may be a view itself
    if not ((t._k | base._k) & GRAD or of_leaf) and not any(isinstance(a, Tensor) and a._k & GRAD for a in others):
        return
    if inside is not None:
        several = inside.outputs is not None and len(inside.outputs) > 1
        raise RuntimeError(frozen(t, "is being modified inplace", WITH_OTHERS if several else IN_FUNCTION))
    if made in (MADE_WITH_OTHERS, MADE_IN_FUNCTION):
        reason = WITH_OTHERS if made == MADE_WITH_OTHERS else IN_FUNCTION
        raise RuntimeError(frozen(t, "is being modified inplace", reason))
    if made and t.dtype.category >= FLOATING:
        raise RuntimeError(_unrecorded(t, "is being modified inplace"))
    if of_leaf and t.dtype.category >= FLOATING:
        raise taught(
            RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
        )


def _unrecorded(t: Tensor, event: str) -> str:
    """Why a view that was made in a block without recording has no history after a write."""
    plain = t._view[5] == MADE_WITHOUT_GRAD
    before, now = ("no_grad", "with grad mode enabled") if plain else ("inference", "in normal mode")
    block = "no_grad" if plain else "inference_mode"
    what = "A view" if is_leaf(t) else f"{_output(t)} is a view of a view which"
    return (
        f"{what} was created in {before} mode and {event} {now}. It is unclear whether the write should be recorded: do both, "
        f"the view and the write, inside the {block} block (to leave the write out), or both outside of it."
    )


def stale(t: Tensor) -> str | None:
    """Why nobody can tell the history of a view: it was made without recording, and its memory written to since."""
    view = t._view
    if view is None or view[5] not in (MADE_WITHOUT_GRAD, MADE_IN_INFERENCE) or t._storage.version == view[6]:  # type: ignore[union-attr]
        return None
    base = view[0]
    while base._view is not None:
        base = base._view[0]
    if not base._k & GRAD or t.dtype.category < FLOATING:
        return None
    return _unrecorded(t, "its base or another view of its base has been modified inplace")


def is_frozen(t: Tensor) -> bool:
    """Whether a view may be one that `check_view` refuses, though it needs no gradient itself."""
    base = t._view[0]
    while base._view is not None:
        base = base._view[0]
    return bool(t._view[5] or base._k & GRAD) and local.grad


def _output(t: Tensor) -> str:
    node, number = t._edge
    return f"Output {number} of {node.name().removesuffix('0').removesuffix('Backward')}"


def frozen(t: Tensor, event: str, reason: str) -> str:
    if is_leaf(t):
        return f"A view {event}. {reason}"
    return f"{_output(t)} is a view and {event}. {reason}"
