"""Samples to batches: `default_collate` stacks what can be stacked inside any containers."""

from __future__ import annotations

import collections.abc
import copy
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ...._core.dtypes import float64
from ...._ops.registry import ops
from ...._tensor import Tensor, wrap
from .memory import shared_empty

np_str_obj_array_pattern = re.compile(r"[SaUO]")  # dtypes of NumPy that no tensor has
_Map = dict[type | tuple[type, ...], Callable[..., Any]]


def default_convert(data: Any) -> Any:
    """NumPy arrays and numbers inside any containers as tensors; everything else stays.

    >>> import numpy as np
    >>> from flambeau.utils.data import default_convert
    >>> default_convert([np.arange(2), "a"])
    [tensor([0, 1]), 'a']
    """
    if isinstance(data, Tensor):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        return data if data.dtype.kind in "SUOMm" else ops.as_tensor(data)
    if isinstance(data, collections.abc.Mapping):
        return _like_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, collections.abc.Sequence) and not isinstance(data, (str, bytes)):
        return _like_sequence(data, [default_convert(value) for value in data])
    return data


def collate(batch: Any, *, collate_fn_map: _Map | None = None) -> Any:
    """Joins samples by the function that `collate_fn_map` has for their type, inside any containers."""
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        function = collate_fn_map.get(kind) or next(
            (f for types, f in collate_fn_map.items() if isinstance(first, types)), None
        )
        if function is not None:
            return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, collections.abc.Mapping):
        joined = {key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map) for key in first}
        return _like_mapping(first, joined)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return kind(*[collate(values, collate_fn_map=collate_fn_map) for values in zip(*batch)])
    if isinstance(first, collections.abc.Sequence) and not (kind is str or kind is bytes):
        size = len(first)
        if any(len(sample) != size for sample in batch):
            raise RuntimeError("default_collate: the samples of a batch are sequences of different lengths")
        parts = [collate(values, collate_fn_map=collate_fn_map) for values in zip(*batch)]
        return parts if isinstance(first, tuple) else _like_sequence(first, parts)
    raise _unknown(kind)


def _unknown(found: Any) -> TypeError:
    return TypeError(
        f"default_collate: expected tensors, NumPy arrays, numbers, strings, dicts or lists, found {found}"
    )


def _like_mapping(model: Any, values: dict[Any, Any]) -> Any:
    """Values in a mapping of the model's type, a plain dict where that cannot be made."""
    if type(model) is dict:
        return values
    try:
        if isinstance(model, collections.abc.MutableMapping):  # it may have more than its entries
            clone = copy.copy(model)
            clone.update(values)
            return clone
        return type(model)(values)
    except TypeError:
        return values


def _like_sequence(model: Any, values: list[Any]) -> Any:
    """Values in a sequence of the model's type, a list where that cannot be made."""
    if type(model) is list:
        return values
    try:
        if isinstance(model, collections.abc.MutableSequence):
            clone = copy.copy(model)
            for i, value in enumerate(values):
                clone[i] = value
            return clone
        return type(model)(values)
    except TypeError:
        return values


# -- by type -----------------------------------------------------------------------------------------------------


def _stacked(arrays: list[Any]) -> Any:
    """Arrays of one shape and dtype joined along a new first dimension, in memory for other processes if it should."""
    shape, d = arrays[0].shape, arrays[0].dtype
    if not shape:
        return np.array(arrays, d)
    whole = (len(arrays), *shape)
    out = shared_empty(whole, d)
    if out is None:
        out = np.empty(whole, d)
    np.concatenate(arrays, out=out.reshape(len(arrays) * shape[0], *shape[1:]))
    return out


def collate_tensor_fn(batch: Any, *, collate_fn_map: _Map | None = None) -> Tensor:
    first = batch[0]
    if type(first) is Tensor and not isinstance(batch, Tensor):
        shape, d = first._array.shape, first.dtype
        if all(type(t) is Tensor and not t._k and t.dtype is d and t._array.shape == shape for t in batch):
            return wrap(_stacked([t._array for t in batch]), d)
    return ops.stack(batch)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: _Map | None = None) -> Tensor:
    if batch[0].dtype.kind in "SUOMm":
        raise _unknown(batch[0].dtype)
    return collate([ops.as_tensor(sample) for sample in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: _Map | None = None) -> Tensor:
    return ops.as_tensor(batch)


def collate_float_fn(batch: Any, *, collate_fn_map: _Map | None = None) -> Tensor:
    return ops.tensor(batch, dtype=float64)


def collate_int_fn(batch: Any, *, collate_fn_map: _Map | None = None) -> Tensor:
    return ops.tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: _Map | None = None) -> Any:
    return batch


default_collate_fn_map: _Map = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Any) -> Any:
    """Joins samples to a batch: tensors, arrays and numbers are stacked, inside tuples, lists and dicts.

    >>> from flambeau.utils.data import default_collate
    >>> default_collate([(1, "a"), (2, "b")])
    [tensor([1, 2]), ('a', 'b')]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
