"""`x[key]` and `x[key] = value`: numbers, slices and None give views; tensors, masks and lists gather and scatter."""

from __future__ import annotations

import inspect
import math
import warnings
from typing import Any

import numpy as np

from .._backend.cpu import PARALLEL, cpu
from .._core.dtypes import BOOL, INTEGER, bool_, from_numpy_dtype, int32, int64, uint8
from .._core.sizes import broadcast_shapes
from .._core.state import CUDA, META, local, modes
from .._tensor import Tensor, bump, wrap
from . import index_kernels as kernels
from . import registry
from .inplace import check_writable
from .pointwise_op import _NAMES
from .primitive import Primitive, primitive
from .registry import functions, methods, ops, public
from .update import Update, number_as, updates, write_into
from .view_op import view_of, view_primitive

_ALL = slice(None)
_NONE = type(None)
_DOTS = type(...)

# -- views -------------------------------------------------------------------------------------------------------


@primitive(name="getitem_backward", grad={"x": lambda g, key: slice_op(g, key)}, backward_name="SliceBackward0")
def getitem_backward(backend: Any, x: Any, shape: tuple[int, ...], key: Any) -> Any:
    """Zeros of a shape with x in the part that a basic key names."""
    out = backend.xp.zeros(shape, x.dtype)
    out[key] = x
    return out


def _basic(name: str, backward_name: str) -> Any:
    def forward(backend: Any, x: Any, key: Any) -> Any:
        return x[key]

    return view_primitive(lambda g, shape, key: getitem_backward(g, shape, key), name, backward_name)(forward)


# One view for a whole key; which of the three only says how it is called in the graph.
select_op = _basic("getitem_select", "SelectBackward0")
slice_op = _basic("getitem_slice", "SliceBackward0")
unsqueeze_op = _basic("getitem_unsqueeze", "UnsqueezeBackward0")
ops.getitem_backward = getitem_backward  # type: ignore[attr-defined]


def basic_view(x: Tensor, key: tuple[Any, ...]) -> Tensor:
    """x[key] for a key of numbers, slices, None and at most one Ellipsis that NumPy takes as it is."""
    last = key[-1]
    if last is Ellipsis:
        last = key[-2] if len(key) > 1 else None
    op = slice_op if last.__class__ is slice else unsqueeze_op if last is None else select_op
    if (x._k | modes.on) > 1:
        return op(x, key)
    return view_of(op, x, x._array[key], (key,))


# -- arrays as indices: on raw arrays ------------------------------------------------------------------------------


def _index_error(arrays: Any, dims: Any, shape: Any) -> IndexError:
    """What PyTorch says about the first index out of range."""
    for array, dim in zip(arrays, dims):
        n = shape[dim]
        if n == 0 and array.size:
            return IndexError("index is out of bounds for dimension with size 0")
        wrong = array[(array < -n) | (array >= n)]
        if wrong.size:
            return IndexError(f"index {int(wrong.reshape(-1)[0])} is out of bounds for dimension {dim} with size {n}")
    return IndexError("index is out of bounds")


def _without_masks(x_shape: Any, arrays: Any, dims: Any) -> tuple[list[Any], list[int]]:
    """Integer indices in place of masks, one for each dimension that a mask covers."""
    plain: list[Any] = []
    places: list[int] = []
    for number, (array, dim) in enumerate(zip(arrays, dims)):
        if array.dtype != bool and array.dtype != np.uint8:
            plain.append(array)
            places.append(dim)
            continue
        if tuple(x_shape[dim : dim + array.ndim]) != array.shape:
            wrong = next(i for i in range(array.ndim) if array.shape[i : i + 1] != tuple(x_shape[dim + i : dim + i + 1]))
            raise IndexError(
                f"The shape of the mask {list(array.shape)} at index {wrong} does not match the shape of the indexed "
                f"tensor {list(x_shape)} at index {dim + wrong}"
            )
        plain += array.nonzero()
        places += range(dim, dim + array.ndim)
    return plain, places


def _broadcast(arrays: Any) -> Any:
    try:
        return broadcast_shapes(*[a.shape for a in arrays])
    except RuntimeError:
        shapes = ", ".join(str(list(a.shape)) for a in arrays)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        ) from None


def _check(backend: Any, x_shape: Any, arrays: Any, dims: Any) -> None:
    for array, dim in zip(arrays, dims):
        if kernels.first_outside(backend, array, -x_shape[dim], x_shape[dim]) is not None:
            raise _index_error(arrays, dims, x_shape)


def _adjacent(dims: Any) -> bool:
    return dims[-1] - dims[0] == len(dims) - 1


def _result_shape(x_shape: Any, dims: Any, common: Any) -> tuple[int, ...]:
    """Indexed dimensions are replaced where they stand if they are neighbours, otherwise they go to the front."""
    rest = [n for i, n in enumerate(x_shape) if i not in dims]
    at = dims[0] if _adjacent(dims) else 0
    return (*rest[:at], *common, *rest[at:])


def _linear(backend: Any, x_shape: Any, arrays: Any, dims: Any, common: Any) -> Any:
    """Indices over several dimensions as one over their product, none negative; they must have been checked."""
    total = None
    for array, dim in zip(arrays, dims):
        n = x_shape[dim]
        array = array.astype(np.int64)
        array += (array < 0) * n
        total = array if total is None else total * n + array
    return backend.xp.broadcast_to(total, common)


def read(backend: Any, x: Any, arrays: Any, dims: Any) -> Any:
    """x indexed by arrays (masks or integers) at the dimensions `dims`, as a new array."""
    xp = backend.xp
    first = arrays[0]
    if len(arrays) == 1 and first.dtype == bool and first.shape == x.shape:
        return kernels.select(backend, x, first)
    arrays, dims = _without_masks(x.shape, arrays, dims)
    common = arrays[0].shape if len(arrays) == 1 else _broadcast(arrays)
    shape = _result_shape(x.shape, dims, common)
    count = math.prod(shape)
    if count == 0 or x.size == 0:
        if math.prod(common) and any(x.shape[d] == 0 for d in dims):
            raise IndexError("index is out of bounds for dimension with size 0")
        return xp.empty(shape, x.dtype)
    if backend is not cpu or count >= PARALLEL:
        if len(dims) == 1:
            made = kernels.take_rows(backend, x, arrays[0].reshape(-1), dims[0], True)
            if made is None:
                raise _index_error(arrays, dims, x.shape)
            return made.reshape(shape)
        _check(backend, x.shape, arrays, dims)
        if _adjacent(dims) and x.flags.c_contiguous:
            merged = x.reshape(*x.shape[: dims[0]], math.prod(x.shape[d] for d in dims), *x.shape[dims[-1] + 1 :])
            flat = _linear(backend, x.shape, arrays, dims, common).reshape(-1)
            return kernels.take_rows(backend, merged, flat, dims[0]).reshape(shape)
    try:  # NumPy checks the indices
        if len(dims) == 1 and x.flags.c_contiguous:
            return xp.asarray(x.take(arrays[0], dims[0]))
        key: list[Any] = [_ALL] * (dims[-1] + 1)
        for array, dim in zip(arrays, dims):
            key[dim] = array
        made = x[tuple(key)]
        return made if dims[0] == 0 else xp.ascontiguousarray(made)
    except IndexError:
        raise _index_error(arrays, dims, x.shape) from None


def write(backend: Any, x: Any, values: Any, arrays: Any, dims: Any, accumulate: bool) -> None:
    """x indexed as in `read` is set to values (or added to), which broadcast."""
    first = arrays[0]
    if not accumulate and len(arrays) == 1 and first.dtype == bool and first.shape == x.shape and values.ndim == 0:
        backend.xp.copyto(x, values, where=first)
        return
    arrays, dims = _without_masks(x.shape, arrays, dims)
    common = _broadcast(arrays)
    shape = _result_shape(x.shape, dims, common)
    if not _fits(values.shape, shape):
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result of shape "
            f"{list(shape)}"
        )
    if math.prod(common) and any(x.shape[d] == 0 for d in dims):
        raise IndexError("index is out of bounds for dimension with size 0")
    if math.prod(shape) == 0:
        return
    _check(backend, x.shape, arrays, dims)
    if accumulate:
        _accumulate(backend, x, backend.xp.broadcast_to(values, shape), arrays, dims, common)
        return
    key: list[Any] = [_ALL] * x.ndim
    for array, dim in zip(arrays, dims):
        key[dim] = array
    x[tuple(key)] = values


def _fits(shape: Any, target: Any) -> bool:
    lead = len(shape) - len(target)
    if lead > 0 and any(n != 1 for n in shape[:lead]):
        return False
    return all(n == m or n == 1 for n, m in zip(reversed(shape), reversed(target)))


def _accumulate(backend: Any, x: Any, values: Any, arrays: Any, dims: Any, common: Any) -> None:
    """Adds rows in order, after the indexed dimensions of both sides were moved to the front."""
    rest = [i for i in range(x.ndim) if i not in dims]
    at = dims[0] if _adjacent(dims) else 0
    count = len(common)
    block = list(range(at, at + count))
    given = values.transpose(block + [i for i in range(values.ndim) if i not in block])
    target = x.transpose([*dims, *rest])
    rows, width = math.prod(x.shape[d] for d in dims), math.prod(x.shape[i] for i in rest)
    flat = _linear(backend, x.shape, arrays, dims, common).reshape(-1)
    given = given.reshape(flat.size, width) if width != 1 else given.reshape(-1)
    shape = (rows, width) if width != 1 else (rows,)
    if target.flags.c_contiguous:
        kernels.update_rows(backend, target.reshape(shape), 0, flat, given, "add")
    else:
        work = target.reshape(shape).copy()
        kernels.update_rows(backend, work, 0, flat, given, "add")
        target[...] = work.reshape(target.shape)


# -- records: one for each number of indices -----------------------------------------------------------------------

_records: dict[int, tuple[Primitive, Update, Primitive]] = {}


def _signed(function: Any, names: str) -> Any:
    """Gives a function of *args the parameter names that a record reads."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    function.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in names.split()])
    return function


def records_for(count: int) -> tuple[Primitive, Update, Primitive]:
    """(index, index_put, derivative of index) with `count` index tensors."""
    found = _records.get(count)
    if found is not None:
        return found
    indices = " ".join(f"i{n}" for n in range(count))
    suffix = f"_{count}" if count > 1 else ""

    def index(backend: Any, x: Any, *rest: Any) -> Any:
        return read(backend, x, rest[:count], rest[count])

    def index_put(backend: Any, x: Any, values: Any, *rest: Any) -> None:
        write(backend, x, values, rest[:count], *rest[count:])

    def index_backward(backend: Any, x: Any, *rest: Any) -> Any:
        out = backend.xp.zeros(rest[count + 1], x.dtype)
        write(backend, out, x, rest[:count], rest[count], True)
        return out

    def of_index(g: Any, shape: Any, *rest: Any) -> Any:
        return made[2](g, *rest, shape)

    def of_self(g: Any, *rest: Any) -> Any:
        return g if rest[-1] else _zeroed(made[1], g, rest)

    def of_values(g: Any, shape: Any, *rest: Any) -> Any:
        return ops.sum_to(made[0](g, *rest), shape)

    def of_backward(g: Any, *rest: Any) -> Any:
        return made[0](g, *rest)

    made = (
        Primitive(
            _signed(index, f"backend x {indices} dims"), tensors=1 + count, name="index" + suffix,
            grad={"x": _signed(of_index, f"g x_shape {indices} dims")}, backward_name="IndexBackward0",
        ),
        Update(
            _signed(index_put, f"backend x values {indices} dims accumulate"), tensors=2 + count,
            name="index_put" + suffix, backward_name="IndexPutBackward0",
            grad={
                "x": _signed(of_self, f"g {indices} dims accumulate"),
                "values": _signed(of_values, f"g values_shape {indices} dims"),
            },
        ),
        Primitive(
            _signed(index_backward, f"backend x {indices} dims shape"), tensors=1 + count,
            name="index_backward" + suffix, grad={"x": _signed(of_backward, f"g {indices} dims")},
        ),
    )  # fmt: skip
    _records[count] = made
    return made


def _zeroed(op: Update, g: Tensor, rest: Any) -> Tensor:
    """A gradient without the elements that were overwritten."""
    zero = wrap(np.zeros((), g.dtype.numpy), g.dtype)
    return op(g, zero, *rest[:-1], False)


for _count in (1, 2):
    records_for(_count)
_index_1 = records_for(1)[0]

# -- keys ----------------------------------------------------------------------------------------------------------

_INVALID = "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {})"


def _as_tuple(key: Any) -> tuple[Any, ...]:
    """The parts of a key; a short list that holds more than numbers counts as a tuple, as it once did in NumPy."""
    if isinstance(key, tuple):
        return key
    if isinstance(key, list) and len(key) < 32:
        if any(part is None or part is Ellipsis or isinstance(part, (Tensor, slice, list, tuple, range)) for part in key):
            warnings.warn(
                "Indexing with a list that holds more than numbers is read as a tuple here, which is deprecated: "
                "write x[tuple(key)] or x[torch.tensor(key)].",
                UserWarning,
                stacklevel=4,
            )
            return tuple(key)
    return (key,)


def _plain(part: Any) -> Any:
    """Nested lists with 0-d tensors as lists of numbers."""
    if isinstance(part, Tensor):
        return part._array.tolist()
    return [_plain(p) for p in part] if isinstance(part, (list, tuple)) else part


def _sequence_index(part: Any) -> Any:
    """A list, range or array as an array of indices or a mask."""
    if isinstance(part, str):
        raise TypeError("new(): invalid data type 'str'")
    array = part if isinstance(part, np.ndarray) else np.array(_plain(part))
    if array.dtype.kind in "US":
        raise TypeError("new(): invalid data type 'str'")
    if array.dtype.kind not in "bi" and array.dtype != np.uint8:
        if array.dtype.kind not in "uf":
            raise IndexError(_INVALID.format(type(part).__name__))
        array = array.astype(np.int64)
    elif array.dtype.kind == "i":
        array = array.astype(np.int64)
    return wrap(array, from_numpy_dtype(array.dtype))


def _consumed(part: Any) -> int:
    """How many dimensions a part of a key takes up."""
    if part is None or part is Ellipsis or part is True or part is False:
        return 0
    if isinstance(part, Tensor) and part.dtype in (bool_, uint8):
        return int(part._array.ndim)
    return 1


def _bool_index(value: bool, k: int) -> Tensor:
    return wrap(np.zeros(1 if value else 0, np.int64), int64)


def parse(x: Tensor, key: Any) -> tuple[tuple[Any, ...], list[Tensor], tuple[int, ...]]:
    """A key as a basic key for NumPy and, for the view which that gives, index tensors with their dimensions."""
    parts = [_sequence_index(p) if isinstance(p, (list, tuple, range, str)) or _is_array(p) else p for p in _as_tuple(key)]
    shape = x._array.shape
    used = sum(map(_consumed, parts))
    if used > len(shape):
        if not shape and used == 1 and not any(isinstance(p, (slice, Tensor)) for p in parts):
            raise IndexError("invalid index of a 0-dim tensor. Use `tensor.item()` to convert a 0-dim tensor to a number")
        if not shape and any(isinstance(p, slice) for p in parts):
            raise IndexError("slice() cannot be applied to a 0-dim tensor.")
        raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
    basic: list[Any] = []
    tensors: list[Tensor] = []
    dims: list[int] = []
    source = view = 0
    expanded = False
    for part in parts:
        if part is Ellipsis:
            count = 0 if expanded else len(shape) - used
            basic += [_ALL] * count
            source, view, expanded = source + count, view + count, True
        elif part is None:
            basic.append(None)
            view += 1
        elif part is True or part is False:
            basic.append(None)
            tensors.append(_bool_index(part, x._k))
            dims.append(view)
            view += 1
        elif isinstance(part, slice):
            basic.append(_slice(part))
            source, view = source + 1, view + 1
        elif isinstance(part, Tensor):
            d, ndim = part.dtype, part._array.ndim
            if d.category not in (BOOL, INTEGER) or (ndim and d not in (bool_, uint8, int32, int64)):
                raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
            if d is uint8:
                warnings.warn("indexing with dtype torch.uint8 is deprecated, use torch.bool instead.", UserWarning, stacklevel=4)
            if d in (bool_, uint8):
                if ndim == 0:
                    basic.append(None)
                    tensors.append(_bool_index(bool(part._array), x._k))
                    dims.append(view)
                    view += 1
                    continue
                tensors.append(part)
                dims.append(view)
                basic += [_ALL] * ndim
                source, view = source + ndim, view + ndim
            elif ndim == 0:
                basic.append(_number(int(part._array), shape, source))
                source += 1
            else:
                tensors.append(part)
                dims.append(view)
                basic.append(_ALL)
                source, view = source + 1, view + 1
        else:
            basic.append(_number(part, shape, source))
            source += 1
    return _short(basic), tensors, tuple(dims)


def _is_array(part: Any) -> bool:
    return isinstance(part, np.ndarray) and part.ndim > 0


def _short(basic: list[Any]) -> tuple[Any, ...]:
    """Without full slices at the end; () if nothing is left; a key of numbers alone ends with an Ellipsis."""
    while basic and basic[-1] is _ALL:
        basic.pop()
    return (*basic, ...) if basic else ()


def _number(part: Any, shape: Any, dim: int) -> int:
    if not isinstance(part, int):
        if isinstance(part, np.bool_) or not hasattr(part, "__index__"):
            raise IndexError(_INVALID.format(type(part).__name__))
        part = part.__index__()
    n = shape[dim]
    if not -n <= part < n:
        if not -(1 << 63) <= part < 1 << 63:
            raise ValueError("Overflow when unpacking long long")
        raise IndexError(f"index {part} is out of bounds for dimension {dim} with size {n}")
    return part


def _slice(part: slice) -> slice:
    start, stop, step = (
        p if p is None or p.__class__ is int else _bound(p) for p in (part.start, part.stop, part.step)
    )
    if step is not None and step <= 0:
        raise ValueError("slice step cannot be zero" if step == 0 else "step must be greater than zero")
    return slice(start, stop, step)


def _bound(value: Any) -> int:
    if isinstance(value, Tensor) and value.dtype.category <= INTEGER and value._array.size == 1:
        return int(value._array.reshape(()))
    if not hasattr(value, "__index__"):
        raise TypeError("slice indices must be integers or None or have an __index__ method")
    return int(value.__index__())


# -- reading -------------------------------------------------------------------------------------------------------


def getitem(self: Tensor, key: Any) -> Tensor:
    """Elements, parts and selections of a tensor: x[2], x[:, 1:], x[..., None], x[rows, columns], x[x > 0]."""
    on = modes.on
    if modes.overrides:
        result = registry.overridden(getitem, (self, key), {})
        if result is not NotImplemented:
            return result
    kind = key.__class__
    try:
        if kind is tuple:
            whole = True  # nothing but numbers
            last: Any = None
            for part in key:
                last = part.__class__
                if last is int:
                    continue
                if last is slice:
                    step = part.step
                    if step is not None and (step.__class__ is not int or step <= 0):
                        return _general(self, key)
                elif part is not None and part is not Ellipsis:
                    return _general(self, key)
                whole = False
            op = slice_op
            if whole:
                if last is None:
                    return _general(self, key)
                key = (*key, ...)
                op = select_op
            elif last is int:
                op = select_op
            elif last is _NONE:
                op = unsqueeze_op
        elif kind is int:
            key, op = (key, ...), select_op
        elif kind is slice:
            step = key.step
            if step is not None and (step.__class__ is not int or step <= 0):
                return _general(self, key)
            op = slice_op
        elif kind is Tensor and not (self._k | key._k | on) and key._array.ndim:
            if key.dtype is int64 or key.dtype is bool_:
                array, index = self._array, key._array
                if array.ndim and (key.dtype is int64 or index.shape == array.shape):
                    return wrap(read(cpu, array, (index,), (0,)), self.dtype)
            return _general(self, key)
        else:
            return _general(self, key)
        if (self._k | on) > 1:
            return _general(self, key) if self._array.ndim == 0 else op(self, key)
        return view_of(op, self, self._array[key], (key,))
    except (IndexError, TypeError):  # in PyTorch's words
        return _general(self, key[:-1] if kind is int or (kind is tuple and len(key) > 1 and key[-1] is Ellipsis) else key)


def _general(x: Tensor, key: Any) -> Tensor:
    basic, tensors, dims = parse(x, key)
    if basic:
        x = basic_view(x, basic)
    elif not tensors:
        return basic_view(x, (...,)) if x._array.ndim == 0 else basic_view(x, (_ALL, ...))
    if not tensors:
        return x
    return _indexed(x, tensors, dims)


def _indexed(x: Tensor, tensors: list[Tensor], dims: tuple[int, ...]) -> Tensor:
    tensors, dims = _settled(x, tensors, dims)
    return records_for(len(tensors))[0](x, *tensors, dims)


def _settled(x: Tensor, tensors: list[Tensor], dims: tuple[int, ...]) -> tuple[list[Tensor], tuple[int, ...]]:
    """Index tensors on the device of x; masks become indices where a history will keep them."""
    if x._k & CUDA:
        tensors = [t if t._k & CUDA else ops.to(t, x.device) for t in tensors]  # type: ignore[attr-defined]
    elif x._k & META:
        tensors = [t if t._k & META else ops.to(t, "meta") for t in tensors]
    if x._k and local.grad and any(t.dtype in (bool_, uint8) for t in tensors) and not x._k & META:
        k = x._k & CUDA
        arrays, places = _without_masks(x._array.shape, [t._array for t in tensors], dims)
        return [wrap(a, from_numpy_dtype(a.dtype), k) for a in arrays], tuple(places)
    return tensors, dims


# -- writing -------------------------------------------------------------------------------------------------------


def setitem(self: Tensor, key: Any, value: Any) -> None:
    """Writes a number or a tensor, which broadcasts, into the elements that `self[key]` names."""
    if modes.overrides:
        result = registry.overridden(setitem, (self, key, value), {})
        if result is not NotImplemented:
            return
    kind = value.__class__
    if kind is float or kind is int or kind is bool:
        if not (self._k | modes.on) and _is_basic(key):
            check_writable(self)
            _set_number(self, key, value)
            return
    elif not isinstance(value, (Tensor, int, float, complex, np.number, np.bool_)):
        raise TypeError(f"can't assign a {type(value).__name__} to a torch.{_NAMES.get(self.dtype.name, self.dtype.name)}Tensor")
    _set_general(self, key, value)


def _is_basic(key: Any) -> bool:
    if key.__class__ is not tuple:
        key = (key,)
    dots = 0
    for part in key:
        kind = part.__class__
        if kind is slice:
            if part.step is not None and (part.step.__class__ is not int or part.step <= 0):
                return False
        elif kind is _DOTS:
            dots += 1
        elif kind is not int and kind is not _NONE:
            return False
    return dots < 2


def _set_number(x: Tensor, key: Any, value: Any) -> None:
    try:
        if x.dtype.category == INTEGER:
            value = number_as(value, x.dtype)
        x._array[key] = value
    except (IndexError, TypeError):  # in PyTorch's words
        _set_general(x, key, value)
        return
    bump(x)


def _set_general(x: Tensor, key: Any, value: Any) -> None:
    if x._array.ndim == 0 and isinstance(key, slice):
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    basic, tensors, dims = parse(x, key)
    if not isinstance(value, Tensor):
        value = wrap(number_as(value, x.dtype), x.dtype)
        number = True
    else:
        number = False
    part = basic_view(x, basic) if basic else x
    if not tensors:
        if number:
            ops.fill_(part, value._array[()].item() if x.dtype.category != 3 else complex(value._array))
        else:
            ops.copy_(part, _stripped(value, part._array.ndim))
        return
    if number and len(tensors) == 1 and tensors[0]._array.shape == part._array.shape and tensors[0].dtype in (bool_, uint8):
        ops.masked_fill_(part, tensors[0], value)
        return
    put(part, tensors, dims, value, False)


def _stripped(value: Tensor, ndim: int) -> Tensor:
    """Without leading dimensions of extent 1 that the target does not have."""
    shape = value._array.shape
    extra = 0
    while len(shape) - extra > ndim and shape[extra] == 1:
        extra += 1
    return ops.reshape(value, shape[extra:]) if extra else value


def _put_arguments(x: Tensor, tensors: list[Tensor], dims: Any, values: Tensor, accumulate: bool) -> Any:
    if values.dtype is not x.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{_NAMES.get(x.dtype.name, x.dtype.name)} for the destination and "
            f"{_NAMES.get(values.dtype.name, values.dtype.name)} for the source."
        )
    if values._k & local.grad:
        tensors, dims = _settled(values, tensors, dims) if not x._k else (tensors, dims)
    tensors, dims = _settled(x, tensors, dims)
    if x._k & CUDA and not values._k & CUDA and values._array.ndim:
        values = ops.to(values, x.device)  # type: ignore[attr-defined]
    return (x, values, *tensors, dims, accumulate)


def put(x: Tensor, tensors: list[Tensor], dims: Any, values: Tensor, accumulate: bool) -> Tensor:
    """x[tensors at dims] = values, in place."""
    given = _put_arguments(x, tensors, dims, values, accumulate)
    return write_into(records_for(len(given) - 4)[1], *given)


def _tensor_list(name: str, x: Tensor, indices: Any, optional: bool) -> tuple[list[Tensor], tuple[int, ...]]:
    if isinstance(indices, Tensor) or not isinstance(indices, (tuple, list)):
        raise TypeError(f"{name}(): argument 'indices' must be tuple of Tensors, not {type(indices).__name__}")
    tensors, dims, at = [], [], 0
    for i, t in enumerate(indices):
        if t is None and optional:
            at += 1
            continue
        if not isinstance(t, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {type(t).__name__}")
        if t.dtype not in (bool_, uint8, int32, int64):
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        tensors.append(t)
        dims.append(at)
        at += t._array.ndim if t.dtype in (bool_, uint8) else 1
    if at > x._array.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x._array.ndim} (got {at})")
    if not tensors:
        raise IndexError(f"{name}: at least one index must be given")
    return tensors, tuple(dims)


@updates(out=False)
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Any:
    """A copy whose elements at a tuple of index tensors are set to `values`, or added to.

    >>> import flambeau as torch
    >>> torch.zeros(3).index_put((torch.tensor([0, 0]),), torch.tensor([1.0, 2.0]), accumulate=True)
    tensor([3., 0., 0.])
    """
    tensors, dims = _tensor_list("index_put", input, indices, False)
    if not isinstance(values, Tensor):
        raise TypeError(f"index_put(): argument 'values' (position 2) must be Tensor, not {type(values).__name__}")
    given = _put_arguments(input, tensors, dims, values, bool(accumulate))
    return records_for(len(given) - 4)[1], given


@public("_unsafe_index", method=False)
def _unsafe_index(input: Tensor, indices: Any) -> Tensor:
    """x indexed by a list of tensors, with None for dimensions that stay whole."""
    return _indexed(input, *_tensor_list("index", input, indices, True))


@public("_unsafe_index_put", method=False)
def _unsafe_index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy with elements at a list of index tensors set, with None for dimensions that stay whole."""
    tensors, dims = _tensor_list("index_put", input, indices, True)
    given = _put_arguments(input, tensors, dims, values, bool(accumulate))
    return records_for(len(given) - 4)[1](*given)


methods["__getitem__"], methods["__setitem__"] = getitem, setitem
functions["index_put_"] = ops.index_put_  # type: ignore[attr-defined]
