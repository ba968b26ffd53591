"""Keys of `x[key]`, brought into one form: a basic key of numbers, slices and None, and index tensors with their dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.allocation import not_planned
from ..._core.dtypes import BOOL, INTEGER, bool_, from_numpy_dtype, int32, int64, uint8
from ..._core.state import BATCHED, CAPTURE, local, modes
from ..._core.steps import elements_are_read, tell
from ..._errors.frames import warn_user
from ..._tensor import Tensor, wrap
from .positions import at_position, is_position

ALL = slice(None)
NONE = type(None)
_DOTS = type(...)
_INVALID = "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {})"


def _as_tuple(key: Any) -> tuple[Any, ...]:
    """The parts of a key; a short list that holds more than numbers counts as a tuple, as it once did in NumPy."""
    if isinstance(key, tuple):
        return key
    if isinstance(key, list) and len(key) < 32:
        if any(
            part is None or part is Ellipsis or isinstance(part, (Tensor, slice, list, tuple, range)) for part in key
        ):
            warn_user(
                "Indexing with a list that holds more than numbers is read as a tuple here, which is deprecated: "
                "write x[tuple(key)] or x[torch.tensor(key)]."
            )
            return tuple(key)
    return (key,)


def _plain(part: Any) -> Any:
    """Nested lists with 0-d tensors as lists of numbers."""
    if isinstance(part, Tensor):
        tell("elements_read", part)
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
    made = wrap(array, from_numpy_dtype(array.dtype))
    if modes.on & CAPTURE and local.captures and array is not part and not _holds_tensor(part):
        local.captures[-1].born(made)
    return made


def _holds_tensor(part: Any) -> bool:
    return isinstance(part, (Tensor, np.ndarray)) or (isinstance(part, (list, tuple)) and any(map(_holds_tensor, part)))


def _consumed(part: Any) -> int:
    """How many dimensions a part of a key takes up."""
    if part is None or part is Ellipsis or part is True or part is False:
        return 0
    if isinstance(part, Tensor) and part.dtype in (bool_, uint8):
        return int(part._array.ndim)
    return 1


def _parts(key: Any) -> list[Any]:
    """The parts of a key, with tensors for lists and arrays."""
    return [
        _sequence_index(p) if isinstance(p, (list, tuple, range, str)) or (isinstance(p, np.ndarray) and p.ndim) else p
        for p in _as_tuple(key)
    ]


def _bool_index(value: bool) -> Tensor:
    return wrap(np.zeros(1 if value else 0, np.int64), int64)


def parse(x: Tensor, key: Any) -> tuple[tuple[Any, ...], list[Tensor], tuple[int, ...]]:
    """A key as a basic key for NumPy and, for the view which that gives, index tensors with their dimensions."""
    parts = _parts(key)
    shape = x._array.shape
    used = sum(map(_consumed, parts))
    if used > len(shape):
        if not shape and used == 1 and not any(isinstance(p, (slice, Tensor)) for p in parts):
            raise IndexError("invalid index of a 0-dim tensor; tensor.item() gives its number")
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
            basic += [ALL] * count
            source, view, expanded = source + count, view + count, True
        elif part is None:
            basic.append(None)
            view += 1
        elif part is True or part is False:
            basic.append(None)
            tensors.append(_bool_index(part))
            dims.append(view)
            view += 1
        elif isinstance(part, slice):
            basic.append(ALL if part == ALL else _slice(part))
            source, view = source + 1, view + 1
        elif isinstance(part, Tensor):
            d, ndim = part.dtype, part._array.ndim
            if d.category not in (BOOL, INTEGER) or (ndim and d not in (bool_, uint8, int32, int64)):
                raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
            if d is uint8:
                _warn_of_bytes()
            if d in (bool_, uint8):
                if ndim == 0:
                    basic.append(None)
                    tell("elements_read", part)
                    tensors.append(_bool_index(bool(part._array)))
                    dims.append(view)
                    view += 1
                    continue
                tensors.append(part)
                dims.append(view)
                basic += [ALL] * ndim
                source, view = source + ndim, view + ndim
            elif ndim == 0 and not part._k & BATCHED:
                tell("elements_read", part)
                basic.append(_number(int(part._array), shape, source))
                source += 1
            else:
                tensors.append(part)
                dims.append(view)
                basic.append(ALL)
                source, view = source + 1, view + 1
        else:
            basic.append(_number(part, shape, source))
            source += 1
    return _short(basic), tensors, tuple(dims)


def positions_first(x: Tensor, key: Any) -> tuple[Tensor, Any]:
    """While a program is recorded: x at the positions that tensors in a key hold, and the rest of the key."""
    parts = _parts(key)
    found = [is_position(x, part) and part.dtype is not uint8 for part in parts]
    used, ndim = sum(map(_consumed, parts)), x._array.ndim
    if not any(found) or used > ndim:
        return x, key
    rest: list[Any] = []
    dim = source = 0  # of what is left of x, and of x
    for part, chosen in zip(parts, found):
        count = ndim - used if part is Ellipsis and Ellipsis not in rest else _consumed(part)
        if chosen:
            x = at_position(x, dim, part, named=source)
        else:
            rest.append(part)
            dim += count
        source += count
    return x, tuple(rest)


def _short(basic: list[Any]) -> tuple[Any, ...]:
    """Without full slices at the end; () if nothing is left; a key of numbers alone ends with an Ellipsis."""
    while basic and basic[-1] is ALL:
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
        elements_are_read(of_shape=True, of=value)
        return int(value._array.reshape(()))
    if not hasattr(value, "__index__"):
        raise TypeError("slice indices must be integers or None or have an __index__ method")
    return int(value.__index__())


def _warn_of_bytes() -> None:
    not_planned()
    warn_user("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.")


def tensor_list(name: str, x: Tensor, indices: Any, optional: bool) -> tuple[list[Tensor], tuple[int, ...]]:
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
        if t.dtype is uint8:
            _warn_of_bytes()
        tensors.append(t)
        dims.append(at)
        at += t._array.ndim if t.dtype in (bool_, uint8) else 1
    if at > x._array.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x._array.ndim} (got {at})")
    if not tensors:
        raise RuntimeError(f"{name}: at least one index must be given")
    return tensors, tuple(dims)


def is_basic(key: Any) -> bool:
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
        elif kind is not int and kind is not NONE:
            return False
    return dots < 2


def has_tensor_bounds(key: Any) -> bool:
    """Whether slices begin or end where a tensor says."""
    slices = [part for part in (key if key.__class__ is tuple else (key,)) if part.__class__ is slice]
    return any([isinstance(bound, Tensor) for part in slices for bound in (part.start, part.stop)])


def may_override(key: Any) -> bool:
    """Whether a key, or a part of it, is of a class that takes over operations."""
    kind = key.__class__
    if kind is int or kind is slice or kind is Tensor or kind is float or key is None:
        return False
    if kind is tuple:
        return any(may_override(part) for part in key)
    return hasattr(kind, "__torch_function__")
