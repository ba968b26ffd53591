"""`x[key]` and `x[key] = value`: numbers, slices and None give views; tensors, masks and lists gather and scatter."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ..._autograd.node import Node
from ..._backend import threads
from ..._backend.copies import duplicate, place
from ..._backend.cpu import cpu
from ..._core.config import memory_problem
from ..._core.dtypes import FLOATING, INTEGER, bool_, from_numpy_dtype, int64, uint8
from ..._core.state import CAPTURE, CUDA, DISPATCH, FUNCTION_MODE, GRAD, META, OVERRIDE, SPARSE, SPECIAL, local, modes
from ..._core.steps import tell
from ..._tensor import InferenceMeta, Tensor, bump, refuse_inference, storage_of, wrap
from .. import registry
from ..layout.striding import basic_part
from ..records.batching import along
from ..records.casting import checked_array
from ..records.primitive import primitive
from ..records.rules import type_name
from ..records.shape_rules import dtype_of
from ..records.tangents import linear
from ..records.update import updates, write_into
from ..records.view_op import view_of, view_primitive
from ..records.writable import (
    check_apart,
    check_partial_overlap,
    check_writable,
    overlaps_itself,
    same_memory,
    warn_of_expanded,
)
from ..registry import expose, functions, methods, ops, position_arguments, public, records, relabel
from .fancy import read, records_for, without_masks
from .keys import ALL, NONE, has_tensor_bounds, is_basic, may_override, parse, positions_first, tensor_list
from .writing import writes_there

_OVERRIDDEN = OVERRIDE | FUNCTION_MODE

# -- views -------------------------------------------------------------------------------------------------------


@primitive(
    batch=along,
    meta=lambda x, shape, key: (shape, dtype_of(x)),
    name="getitem_backward",
    grad={"x": lambda g, key: slice_op(g, key)},
    backward_name="SliceBackward0",
    tangent=linear("x"),
)
def getitem_backward(backend: Any, x: Any, shape: tuple[int, ...], key: Any) -> Any:
    """Zeros of a shape with x in the part that a basic key names."""
    out = backend.zeros(shape, x.dtype)
    part = out[key]
    if part.ndim:
        place(part, x)
    else:  # NumPy has given a copy
        out[key] = x
    return out


def _part(x: Any, key: Any) -> Any:
    """x[key] with PyTorch's strides and place in memory, which NumPy's are not where a dimension is new or nothing is left."""
    if key.__class__ is not tuple or None not in key:
        made = x[key]
        return made if made.size else basic_part(x, key if key.__class__ is tuple else (key,))
    shape = x.shape
    if 1 in shape or not x.flags.c_contiguous or not x.size:
        return basic_part(x, key)
    # most often a key that makes dimensions does nothing else, and NumPy knows the strides that row-major memory has
    wide, dim = [], 0
    for item in key:
        if item is None:
            wide.append(1)
        elif item == ALL and dim < len(shape):
            wide.append(shape[dim])
            dim += 1
        elif item is Ellipsis and item is key[-1]:
            break
        else:
            return basic_part(x, key)
    return x.reshape((*wide, *shape[dim:]))


def _slice_name(node: Any) -> str:
    """What PyTorch calls x[key], of which the last part is a slice or an ellipsis: by the last part that does something."""
    if node.saved is None:  # a backward pass has been here
        return "SliceBackward0"
    key, shape = node.saved[0], node.info[0][0]
    if key.__class__ is slice:
        return "SliceBackward0"
    named, dim = "AliasBackward0", 0
    for part in key if key.__class__ is tuple else ():
        if part is None:
            named = "UnsqueezeBackward0"
        elif part is Ellipsis:
            dim += len(shape) - sum(p is not None and p is not Ellipsis for p in key)
        else:
            if part.__class__ is int:
                named = "SelectBackward0"
            elif part.indices(shape[dim]) != (0, shape[dim], 1):
                named = "SliceBackward0"
            dim += 1
    return named


def _basic(name: str, backward_name: Any) -> Any:
    def forward(backend: Any, x: Any, key: Any) -> Any:
        return _part(x, key)

    gradient = lambda g, shape, key: getitem_backward(g, shape, key)
    return view_primitive(gradient, name, backward_name, batch=along, picks=True)(forward)


# One view for a whole key; which of the three only says how it is called in the graph.
select_op = _basic("getitem_select", "SelectBackward0")
slice_op = _basic("getitem_slice", _slice_name)
unsqueeze_op = _basic("getitem_unsqueeze", "UnsqueezeBackward0")
expose("getitem_backward", getitem_backward, None, None)


def basic_view(x: Tensor, key: tuple[Any, ...]) -> Tensor:
    """x[key] for a key of numbers, slices, None and at most one Ellipsis that NumPy takes as it is."""
    last = key[-1]
    if last is Ellipsis:
        last = key[-2] if len(key) > 1 else None
    op = slice_op if last.__class__ is slice else unsqueeze_op if last is None else select_op
    if (x._k | modes.on) & SPECIAL:
        return op(x, key)
    return view_of(op, x, _part(x._array, key), (key,))


# -- reading -------------------------------------------------------------------------------------------------------


def getitem(self: Tensor, key: Any) -> Tensor:
    """Elements, parts and selections of a tensor: x[2], x[:, 1:], x[..., None], x[rows, columns], x[x > 0]."""
    k = self._k | modes.on
    if modes.overrides and (k & _OVERRIDDEN or may_override(key)):
        result = registry.overridden(getitem, (self, key), {})
        if result is not NotImplemented:
            return result
    kind = key.__class__
    short, op, made, cuts = key, slice_op, False, True
    if kind is tuple:
        last: Any = None
        whole = True  # nothing but numbers
        for item in key:
            last = item.__class__
            if last is int:
                continue
            if last is slice:
                step = item.step
                if step is not None and (step.__class__ is not int or step <= 0):
                    return _general(self, key)
            elif item is None:
                made = True
            elif item is not Ellipsis:
                if not k:
                    return _plain_selection(self, key)
                return _picked(self, key) if k == 1 else _general(self, key)
            whole = False
        if whole:
            short, cuts = (*key, ...), False
        if last is int:
            op = select_op
        elif last is NONE:
            op = unsqueeze_op
    elif kind is int:
        short, op, cuts = (key, ...), select_op, False
    elif kind is slice:
        step = key.step
        if step is not None and (step.__class__ is not int or step <= 0):
            return _general(self, key)
    elif key is None:
        if not k & SPECIAL:
            return registry.ops.unsqueeze(self, 0)
        short, op, made = (None, ...), unsqueeze_op, True
    elif kind is Tensor and k <= 1:
        return _picked(self, (key,)) if k else _plain_selection(self, (key,))
    else:
        return _general(self, key)
    try:
        if not k & SPECIAL:
            if made and (dim := _only_new(key, self._array.ndim)) is not None:
                return registry.ops.unsqueeze(self, dim)
            array = _part(self._array, short) if made else self._array[short]
            if cuts and not array.size:
                array = _part(self._array, short)
            return view_of(op, self, array, (short,))
        if not (modes.on & CAPTURE and has_tensor_bounds(key)):
            return op(self, short)
    except (IndexError, TypeError, OverflowError):
        pass  # the general form says it in PyTorch's words
    return _general(self, key)


def _only_new(key: Any, rank: int) -> int | None:
    """Where a key that does nothing else makes one new dimension; None if it does something else."""
    dim, whole, found = 0, 0, None  # whole dimensions that it names
    for at, item in enumerate(key):
        if item is None:
            if found is not None:
                return None
            found = dim
        elif item is Ellipsis:
            behind = key[at + 1 :]
            dim = rank - len(behind) + behind.count(None)
        elif item == ALL:
            dim, whole = dim + 1, whole + 1
        else:
            return None
    return found if whole <= rank else None


def _plain_selection(x: Tensor, key: tuple[Any, ...]) -> Tensor:
    """Index tensors among numbers and slices, of a plain tensor, where NumPy's rules are PyTorch's: of a view, if need be."""
    basic: list[Any] = []
    arrays: list[Any] = []  # for the dimensions of the view
    found, viewed = 0, False
    for part in key:
        kind = part.__class__
        if kind is Tensor and not part._k and (part.dtype is int64 or part.dtype is bool_):
            if part._array.ndim:
                found, index, dim = found + 1, part._array, len(arrays)
                if index.ndim > 1 and not index.flags.c_contiguous:
                    return _general(x, key)  # results lie as the index
                arrays.append(index)
                basic.append(ALL)
                continue
            if part.dtype is bool_:
                return _general(x, key)
            tell("elements_read", part)
            basic.append(int(part._array))
        elif kind is slice and (part.step is None or (part.step.__class__ is int and part.step > 0)):
            arrays.append(ALL)
            basic.append(part)
            if part.start is part.stop is part.step is None:
                continue
        elif kind is int:
            basic.append(part)
        else:
            return _general(x, key)
        viewed = True
    if not found:
        return getitem(x, tuple(basic))
    array = x._array
    try:
        if array.ndim < len(key) or (viewed and (found > 1 or index.ndim > 1)):
            return _general(x, key)
        if viewed:
            array = array[tuple(basic)]
        dense = array.flags.c_contiguous
        few = array.size and not threads.pay(array.size + 16 * index.size)
        if found > 1:
            if few and dense:
                return wrap(np.ascontiguousarray(array[tuple(arrays)]), x.dtype)
        elif index.dtype != bool:
            if few and (dense or (viewed and array.size < 4096 and all([s >= t for s, t in pairwise(array.strides)]))):
                return wrap(array.take(index, dim), x.dtype)
        elif dim == 0 and index.shape == array.shape:
            return wrap(read(cpu, array, (index,), (0,)), x.dtype)
        elif dim == 0 and few and dense and index.ndim == 1 and index.size == len(array):
            return wrap(array.compress(index, 0), x.dtype)  # whole rows
    except (IndexError, TypeError, OverflowError):
        pass  # the general form says it in PyTorch's words
    return _general(x, key) if viewed else _picked(x, key)


def _picked(x: Tensor, key: tuple[Any, ...]) -> Tensor:
    """x[index, ...] by plain index tensors alone, for a tensor that may have a history: it is no function that could have plans."""
    count = len(key)
    for index in key:
        if index.__class__ is not Tensor or index.dtype is not int64 or index._k or not index._array.ndim:
            return _general(x, key)
    if x._array.ndim < count:
        return _general(x, key)
    op, dims = records_for(count)[0], tuple(range(count))
    try:
        out = wrap(op.forward(cpu, x._array, *[index._array for index in key], dims), x.dtype)
    except (MemoryError, ValueError) as error:
        raise (memory_problem(error) or error) from None
    if x._k and local.grad and x.dtype.category >= FLOATING:
        node = Node(op, (x._edge or (x, 0), *[None] * count), [None, *key, dims, None])
        if any([index._autograd_meta.__class__ is InferenceMeta for index in key]):
            refuse_inference(node.saved)
        node.info = ((x._array.shape, x.dtype, 1), *[(index._array.shape, index.dtype, 0) for index in key])
        versions = [0 if index._storage is None else index._storage.version for index in key]
        if any(versions):
            node.versions = [0, *versions, 0, 0]
        out._k, out._edge = 1, (node, 0)
    return out


def _general(x: Tensor, key: Any) -> Tensor:
    if modes.on & CAPTURE:
        whole = x
        x, key = positions_first(x, key)
        if x is not whole and not key:
            return x
    basic, tensors, dims = parse(x, key)
    if basic:
        x = basic_view(x, basic)
    elif not tensors:
        return basic_view(x, (...,)) if x._array.ndim == 0 else basic_view(x, (ALL, ...))
    if not tensors:
        return x
    return _indexed(x, tensors, dims)


def _indexed(x: Tensor, tensors: list[Tensor], dims: tuple[int, ...]) -> Tensor:
    tensors, dims = _settled(x, tensors, dims)
    return records_for(len(tensors))[0](x, *tensors, dims)


def _settled(
    x: Tensor, tensors: list[Tensor], dims: tuple[int, ...], values: int = 0
) -> tuple[list[Tensor], tuple[int, ...]]:
    """Index tensors on the device of x; masks become indices where a history, of x or of values, will keep them."""
    if x._k & CUDA:
        tensors = [t if t._k & CUDA else ops.to(t, x.device) for t in tensors]
    elif x._k & (META | DISPATCH) == META:
        if not any(t._k & (META | CUDA) for t in tensors):  # how many elements masks have is known, then
            arrays, places = without_masks(x._array.shape, [t._array for t in tensors], dims)
            tensors, dims = [wrap(a, from_numpy_dtype(a.dtype)) for a in arrays], tuple(places)
        tensors = [t if t._k & META else ops.to(t, "meta") for t in tensors]
    if (x._k or values) and local.grad and any(t.dtype in (bool_, uint8) for t in tensors) and not x._k & META:
        k = x._k & CUDA
        if not (k or values or x._k & ~GRAD) and len(tensors) == 1 and tensors[0].dtype is bool_:
            mask = tensors[0]._array
            if mask.shape == x._array.shape and mask.ndim:
                return [wrap(duplicate(mask), bool_)], dims
        arrays, places = without_masks(x._array.shape, [t._array for t in tensors], dims)
        return [wrap(a, from_numpy_dtype(a.dtype), k) for a in arrays], tuple(places)
    return tensors, dims


# -- writing -------------------------------------------------------------------------------------------------------


def setitem(self: Tensor, key: Any, value: Any) -> None:
    """Writes a number or a tensor, which broadcasts, into the elements that `self[key]` names."""
    if modes.overrides and ((self._k | modes.on) & _OVERRIDDEN or may_override(key) or may_override(value)):
        result = registry.overridden(setitem, (self, key, value), {})
        if result is not NotImplemented:
            return
    k = self._k | modes.on
    if (not k and _set_plain(self, key, value)) or (k & CUDA and _set_there(self, key, value)):
        return
    if k & SPARSE and self._k & SPARSE:
        raise TypeError("Cannot assign to a sparse tensor")
    if not isinstance(value, (Tensor, int, float, complex, np.number, np.bool_)):
        raise TypeError(f"can't assign a {type(value).__name__} to a torch.{type_name(self.dtype)}Tensor")
    _set_general(self, key, value)


def _set_plain(x: Tensor, key: Any, value: Any) -> bool:
    """Common writes into a plain tensor; False leaves the rest, and all errors, to `_set_general`."""
    kind = value.__class__
    if kind is Tensor:
        if value._k or value.dtype is not x.dtype:
            return False
        if value._storage is not None and value._storage is x._storage:
            return _set_from_itself(x, key, value._array)
        given = value._array
    elif kind is float or kind is int or kind is bool:
        given = value if x.dtype.category > INTEGER and -128 < value < 128 else _given(value, x.dtype)
    else:
        return False
    basic = is_basic(key)
    if not basic and not (key.__class__ is Tensor and not key._k and key._array.ndim and key.dtype in (int64, bool_)):
        return False
    check_writable(x, expanded=True)
    if not basic:
        check_apart(x, (key,))
        if 0 in x._array.strides and overlaps_itself(x._array):
            warn_of_expanded("index_put_")
    try:
        if basic:
            x._array[key if key.__class__ is not tuple or Ellipsis in key else (*key, ...)] = given
        elif key.dtype is bool_ and kind is not Tensor and key._array.shape == x._array.shape:
            np.copyto(x._array, given, where=key._array)
        else:
            x._array[key._array] = given
    except (IndexError, TypeError, ValueError):  # in PyTorch's words
        return False
    bump(x)
    return True


def _set_from_itself(x: Tensor, key: Any, given: Any) -> bool:
    """Writes a part of the same memory, which may be the very part that is written, as in `x[0] += 1`; False as in `_set_plain`."""
    if not is_basic(key):
        return False
    keys = key if key.__class__ is tuple else (key,)
    try:
        part = x._array[keys if Ellipsis in keys else (*keys, ...)]  # an array, also of one element
    except IndexError:
        return False
    same = same_memory(part, given)
    if not same and (part.shape != given.shape or 1 in part.shape):  # NumPy's strides of extents of 1 are its own
        return False
    check_partial_overlap(part, given)
    check_writable(x, expanded=True)
    if not same:
        part[...] = given
    bump(x)
    return True


def _set_there(x: Tensor, key: Any, value: Any) -> bool:
    """The same on a GPU, into parts that no index tensor names."""
    if not is_basic(key) or (x._view is not None and local.grad):
        return False
    try:
        array = x._array[key]
    except IndexError:  # in PyTorch's words
        return False
    part = wrap(array, x.dtype, x._k)
    part._storage, part._autograd_meta = storage_of(x), x._autograd_meta
    return writes_there(part, value)


def _given(value: Any, d: Any) -> Any:
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise ValueError("Overflow when unpacking long long")
    return checked_array(value, d, single=True)


def _set_general(x: Tensor, key: Any, value: Any) -> None:
    if key is False:
        return
    if modes.on & CAPTURE:
        x, key = positions_first(x, key)
    basic, tensors, dims = parse(x, key)
    given, number = value, not isinstance(value, Tensor)
    if number:
        value = wrap(_given(value, x.dtype), x.dtype)
    part = basic_view(x, basic) if basic else x
    if not tensors:
        if number:
            ops.fill_(part, value._array[()].item() if x.dtype.category != 3 else complex(value._array))
        else:
            value = _stripped(value, part._array.ndim)
            if value._storage is not None and value._storage is x._storage and value._array.shape != part._array.shape:
                value = ops.clone(
                    value
                )  # which broadcasts: of expanded memory PyTorch does not ask whether it overlaps
            ops.copy_(part, value)
        return
    if (
        len(tensors) == 1
        and tensors[0].dtype in (bool_, uint8)
        and (number or (value._array.ndim == 0 and value.dtype is x.dtype))
    ):
        mask, shape = tensors[0], part._array.shape
        own, behind = mask._array.shape, len(shape) - dims[0] - mask._array.ndim
        if own and own == shape[dims[0] : len(shape) - behind]:  # what is written does not depend on their number
            elsewhere = (mask._k ^ x._k) & (CUDA | META) and x._k & (CUDA | META)
            mask = ops.to(mask, x.device) if elsewhere and not mask._k & CUDA else mask
            ops.masked_fill_(part, ops.reshape(mask, (*own, *[1] * behind)) if behind else mask, given)
            relabel(part, "IndexPutBackward0", records["masked_fill"])
            return
    if modes.overrides & DISPATCH and dims == tuple(range(len(dims))):
        ops.index_put_(part, tuple(tensors), value)  # which is shown
        return
    if (part._k ^ value._k) & CUDA:
        value = _stripped(value, 0)  # a single element is none of another device
    if number and modes.on & CAPTURE and local.captures:
        local.captures[-1].born(value)
    put(part, tensors, dims, value, False)


def _stripped(value: Tensor, ndim: int) -> Tensor:
    """Without leading dimensions of extent 1 that the target does not have."""
    shape = value._array.shape
    extra = 0
    while len(shape) - extra > ndim and shape[extra] == 1:
        extra += 1
    return ops.reshape(value, shape[extra:]) if extra else value


def _check_fits(target: Any, given: Any) -> None:
    try:
        fits = np.broadcast_shapes(target, given) == target
    except ValueError:
        fits = False
    if not fits:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(given)} cannot be broadcast to indexing result of shape "
            f"{list(target)}"
        )


def _put_arguments(x: Tensor, tensors: list[Tensor], dims: Any, values: Tensor, accumulate: bool) -> Any:
    if not accumulate and _fills(x, tensors, values):
        values = ops.to_dtype(ops.reshape(values, ()), x.dtype)
    if values.dtype is not x.dtype:
        if not (x._k | values._k) & ~GRAD:
            _check_fits(read(cpu, x._array, [t._array for t in tensors], dims).shape, values._array.shape)
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{type_name(values.dtype)} for {type_name(x.dtype)}"
        )
    if values._k & CUDA and not x._k & (CUDA | META) and not values._array.ndim:
        values = ops.to(values, x.device)
    tensors, dims = _settled(x, tensors, dims, values._k & local.grad)
    return (x, values, *tensors, dims, accumulate)


def _fills(x: Tensor, tensors: list[Tensor], values: Tensor) -> bool:
    """Whether PyTorch takes a tensor of one element for a number: under a mask, where it need not fit otherwise."""
    if len(tensors) != 1 or tensors[0].dtype not in (bool_, uint8) or values._k & (CUDA | META):
        return False
    elsewhere, fits = x._k & CUDA, values.dtype.category <= max(x.dtype.category, FLOATING)
    return bool(elsewhere or values.dtype is not x.dtype) and fits and values._array.size == 1


def put(x: Tensor, tensors: list[Tensor], dims: Any, values: Tensor, accumulate: bool) -> Tensor:
    """x[tensors at dims] = values, in place."""
    given = _put_arguments(x, tensors, dims, values, accumulate)
    return write_into(records_for(len(given) - 4)[1], *given)


@updates(out=False)
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Any:
    """A copy whose elements at a tuple of index tensors are set to `values`, or added to.

    >>> import flambeau as torch
    >>> torch.zeros(3).index_put((torch.tensor([0, 0]),), torch.tensor([1.0, 2.0]), accumulate=True)
    tensor([3., 0., 0.])
    """
    tensors, dims = tensor_list("index_put", input, indices, False)
    given = _put_arguments(input, tensors, dims, values, bool(accumulate))
    return records_for(len(given) - 4)[1], given


@public("_unsafe_index", method=False)
def _unsafe_index(input: Tensor, indices: Any) -> Tensor:
    """x indexed by a list of tensors, with None for dimensions that stay whole."""
    return _indexed(input, *tensor_list("index", input, indices, True))


@public("_unsafe_index_put", method=False)
def _unsafe_index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy with elements at a list of index tensors set, with None for dimensions that stay whole."""
    tensors, dims = tensor_list("index_put", input, indices, True)
    given = _put_arguments(input, tensors, dims, values, bool(accumulate))
    return records_for(len(given) - 4)[1](*given)


@public("_unsafe_masked_index", method=False)
def _unsafe_masked_index(input: Tensor, mask: Tensor, indices: Any, fill: Any) -> Tensor:
    """`_unsafe_index`, with `fill` where the mask does not hold; the indices there may be anything."""
    found = _unsafe_index(input, _kept(input, mask, indices))
    return ops.masked_fill(found, ops.logical_not(mask), fill)


@public("_unsafe_masked_index_put_accumulate", method=False)
def _unsafe_masked_index_put_accumulate(input: Tensor, mask: Tensor, indices: Any, values: Tensor) -> Tensor:
    """Adds values at indices, but only where the mask holds."""
    kept = ops.masked_fill(values, ops.logical_not(mask), 0)
    return _unsafe_index_put(input, _kept(input, mask, indices), kept, True)


def _kept(input: Tensor, mask: Tensor, indices: Any) -> list[Any]:
    """Indices brought into range."""
    sizes = input._array.shape
    return [None if i is None else ops.clamp(i, -sizes[d], sizes[d] - 1) for d, i in enumerate(indices)]


def delitem(self: Tensor, key: Any) -> None:
    raise TypeError("Tensor does not support deleting items")


for _function in (getitem, setitem, delitem):
    _function.__name__ = f"__{_function.__name__}__"
    methods[_function.__name__] = _function
position_arguments.update(__getitem__=(1, "key"), __setitem__=(1, "key"))
functions["index_put_"] = ops.index_put_


SCHEMAS = """
_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor
_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor
_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor
_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, Tensor values) -> Tensor
index_put  # autocast=cuda:widest
getitem_select  # record=select
getitem_slice  # record=slice
getitem_unsqueeze  # record=unsqueeze
getitem_backward  # record=slice_backward
"""
