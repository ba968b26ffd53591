"""Where a tensor's memory is and how it is addressed: pointers, storage offsets, and changes of them in place."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from ..._core.config import nondeterministic
from ..._core.layouts import (
    channel_order,
    channels_last,
    channels_last_3d,
    check_format,
    contiguous_format,
    element_strides,
    like_strides,
    preserve_format,
    strides_in_order,
)
from ..._core.sizes import contiguous_strides
from ..._core.state import BATCHED, CAPTURE, DUAL, META, QUANTIZED, local, modes
from ..._tensor import Borrowed, Tensor, alias, bump, meta_of, storage_of, wrap
from ..making.factory import formatted_memory, shape_argument, unwritten
from ..records.rewriting import renew_views
from ..records.writable import check_captured, check_history, check_inference
from ..registry import ops, public, relabel
from .storages import has_others, over_bytes, raw_bytes, resizable, settle
from .striding import address, as_strided_link, as_strided_op, byte_bounds, storage_bounds, strided, strided_arguments

# -- where ----------------------------------------------------------------------------------------------------


@public("Tensor.storage_offset")
def storage_offset(input: Tensor) -> int:
    """How many elements lie between the start of the shared memory and the first element."""
    storage = input._storage
    if storage is None or storage.array is input._array:
        return 0
    return (address(input._array) - byte_bounds(storage.array)[0]) // input._array.itemsize


# -- other memory for the same tensor ----------------------------------------------------------------------------


def _check_resizable(t: Tensor) -> None:
    if t.requires_grad and local.grad:  # so does a view, taken under no_grad, of a tensor that does
        raise RuntimeError("cannot resize variables that require grad")
    if t._k & DUAL:
        raise RuntimeError("cannot resize variables that has a forward grad")
    check_inference(t)


@public("Tensor.resize_")
def resize_(input: Tensor, *sizes: Any, memory_format: Any = contiguous_format, **named: Any) -> Tensor:
    """Changes the shape in place; memory is added if need be, and what is added is not filled.

    >>> import flambeau as torch
    >>> torch.tensor([1, 2, 3, 4]).resize_(2)
    tensor([1, 2])
    """
    shape = shape_argument("resize_", sizes, named)
    _check_resizable(input)
    if memory_format is preserve_format:
        raise RuntimeError(f"Unsupported memory format {memory_format}")
    if input._k & QUANTIZED:
        return _resize_quantized(input, shape)
    x = input._array
    if x.shape == shape and (memory_format is contiguous_format or not shape):
        return input
    bump(input)
    check_format(memory_format)
    if input._k & META:
        input._array = formatted_memory(shape, input.dtype, input._k, None, memory_format)
        input._storage = None
        return input
    storage = storage_of(input)
    beside = memory_format in (channels_last, channels_last_3d)
    units = strides_in_order(shape, channel_order(memory_format, len(shape))) if beside else contiguous_strides(shape)
    strides = tuple(s * x.itemsize for s in units)
    if shape and strides[0] // x.itemsize >= 1 << 63:
        raise RuntimeError(f"Stride calculation overflowed for sizes {list(shape)}")
    low, high = storage_bounds(input)
    start = address(x) - low
    if not x.size and not 0 <= start <= high - low:  # an empty one lies anywhere
        start = 0
    needed = x.itemsize
    for n in shape:
        needed *= n
    if not needed:
        input._array = strided(x.reshape(-1)[:0], shape, strides)
    elif start + needed <= high - low:
        input._array = over_bytes(raw_bytes(storage), x, shape, strides, start)
    else:
        shared = has_others(input, names=1)  # `storage` and `x`
        if isinstance(storage, Borrowed) or (shared and not resizable(storage)):
            raise RuntimeError("Trying to resize storage that is not resizable")
        grown = formatted_memory(((start + needed) // x.itemsize,), input.dtype, input._k, None, None)
        unwritten(grown, input.dtype, input._k)
        raw = grown.view(np.uint8)
        if high > low:
            raw[: high - low] = raw_bytes(storage)
        if shared:
            settle(storage, raw)
        else:
            storage.array = raw
        input._array = over_bytes(raw, x, shape, strides, start)
        if modes.on & CAPTURE and local.captures and not x.size:
            local.captures[-1].born(input)
    return input


def _resize_quantized(t: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The integers get another shape; their scale stays."""
    nondeterministic("quantized_resize_cpu_")
    quantizer = t._array.quantizer
    if quantizer.axis is not None:
        raise RuntimeError("resize_: can only resize quantized tensors with a single scale (per-tensor schemes)")
    plain = wrap(t._array.view(np.ndarray), t.dtype)
    plain._storage = t._storage
    resize_(plain, shape)
    made = plain._array.view(type(t._array))
    made.quantizer = quantizer
    t._array, t._storage = made, plain._storage
    return t


@public()
def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Any = contiguous_format) -> Tensor:
    """Changes the shape in place to that of another tensor."""
    if memory_format is preserve_format:
        x = the_template._array
        resize_(input, x.shape)
        if not x.flags.c_contiguous and not input._k & META:
            strides = like_strides(x.shape, x.strides, x.itemsize)
            input._array = strided(input._array, x.shape, tuple([s * input._array.itemsize for s in strides]))
        return input
    return resize_(input, the_template._array.shape, memory_format=memory_format)


# -- other strides for the same tensor ---------------------------------------------------------------------------


# what the derivatives of these views are called when a tensor becomes its own view
_IN_PLACE_NAMES = {
    "AsStridedBackward0": "AsStridedBackward1", "SqueezeBackward0": "SqueezeBackward3",
    "SqueezeBackward1": "SqueezeBackward4", "SqueezeBackward2": "SqueezeBackward5", "TBackward0": "TBackward1",
    "TransposeBackward0": "TransposeBackward1", "UnsqueezeBackward0": "UnsqueezeBackward1",
}  # fmt: skip


def left_behind(t: Tensor) -> Tensor:
    """What a tensor is before it becomes another view of its memory: the views that were taken of it are this one's."""
    before, storage = alias(t), storage_of(t)
    if t._view is not None and storage.views is not None:  # a write to the base reaches first what it was, then itself
        place = next((i for i, reference in enumerate(storage.views) if reference() is t), len(storage.views))
        storage.views.insert(place, weakref.ref(before))
    hand_over(t, before)
    return before


def hand_over(t: Tensor, other: Tensor) -> None:
    """Makes the views of a tensor views of another one, which has the same memory."""
    for view in _views_of(t):
        view._view = (other, *view._view[1:])


def _views_of(t: Tensor) -> list[Tensor]:
    known = [reference() for reference in storage_of(t).views or ()]
    return [view for view in known if view is not None and view._view and view._view[0] is t]


def _turned(t: Tensor, function: Any, *args: Any) -> Tensor:
    """Applies a view to the tensor itself: it keeps its identity and takes over the view's strides and history."""
    if local.grad and not t._k & BATCHED:
        check_history(t)
    check_inference(t)
    if modes.inferring is not None and local.transforms:
        check_captured(t)
    if local.before_write is not None:
        local.before_write(t)
    if t._k & BATCHED:
        return ops.take_over_batched(t, function(t, *args))
    before = alias(t) if t._view is None else left_behind(t)
    made = function(before, *args)
    if made._edge is not None and (name := made._edge[0].name()) in _IN_PLACE_NAMES:
        relabel(made, _IN_PLACE_NAMES[name])
    t._array = made._array
    if local.grad:  # otherwise it keeps the history it had, as after any write that is not recorded
        t._edge, t._k = made._edge, made._k
    if made._k & DUAL:
        meta_of(t).tangent = made._autograd_meta.tangent
    if t._view is not None:
        t._view = made._view if local.grad else (*made._view[:5], *t._view[5:])
    else:
        _keep_views(t, before)
    bump(t)
    return t


def _keep_views(t: Tensor, before: Tensor) -> None:
    """What views of a tensor are that addresses its memory in another way now, and did as `before` does."""
    views, storage = _views_of(t), storage_of(t)
    if not views:
        return
    before._view = (*as_strided_link(before, t), 0, 0)
    for view in views:
        same = view.dtype is t.dtype
        view._view = (*as_strided_link(view, t), *view._view[5:]) if same else (before, *view._view[1:])
    if local.grad:
        storage.views = [weakref.ref(before), *(storage.views or ())]  # which goes before those that are taken of it
        renew_views(storage)


def _metadata_form(name: str, function: str, doc: str) -> None:
    def in_place(input: Tensor, *args: Any, **named: Any) -> Tensor:
        return _turned(input, lambda x: getattr(ops, function)(x, *args, **named))

    in_place.__name__ = in_place.__qualname__ = name
    in_place.__doc__ = doc
    public("Tensor." + name)(in_place)


for _name, _what in (
    ("t", "Transposes a matrix"), ("transpose", "Exchanges two dimensions"), ("swapaxes", "Exchanges two dimensions"),
    ("swapdims", "Exchanges two dimensions"), ("squeeze", "Drops dimensions of extent 1"),
    ("unsqueeze", "Adds a dimension of extent 1"),
):  # fmt: skip
    _metadata_form(_name + "_", _name, f"{_what} in place, by changing how the memory is addressed.")


@public("as_strided_")
def as_strided_(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """Changes shape and strides in place."""
    shape, strides, offset = strided_arguments(input, size, stride, storage_offset)
    return _turned(input, as_strided_op, shape, strides, offset, element_strides(input._array))


SCHEMAS = """
storage_offset(Tensor self) -> int  # silent
transpose_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)
"""
