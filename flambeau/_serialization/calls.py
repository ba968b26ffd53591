"""What pickles of weights may call, and with what: every argument is checked by its type before anything is made."""

from __future__ import annotations

import pickle
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .._core.devices import device
from .._core.dtypes import dtype
from .._core.layouts import layout
from .._core.sizes import Size
from .._core.state import GRAD
from .._tensor import Tensor, copying
from .._tensor.storage import UntypedStorage
from .._tensor.typed_storage import TypedStorage
from . import names

_KEY_PARTS = 1000  # elements of a key, counted through all its tuples: hashing is not protected against more
_PLAIN_KEYS = frozenset({str, int, float, bool, type(None), bytes, complex})


def problem(text: str) -> pickle.UnpicklingError:
    return pickle.UnpicklingError(text)


def check_keys(keys: Any) -> None:
    """Keys are hashed by recursion: deep or interwoven tuples would exhaust the stack or run for ever."""
    for key in keys:
        if key.__class__ in _PLAIN_KEYS:
            continue
        left, count = [(key, 0)], 0
        while left:
            part, depth = left.pop()
            count += 1
            if count > _KEY_PARTS or depth > 50:
                raise problem("a key of a dictionary or an element of a set is too large")
            if isinstance(part, tuple):
                left += [(p, depth + 1) for p in part]


# -- attributes --------------------------------------------------------------------------------------------------


def check_attributes(attributes: Any, kind: type) -> None:
    """Attributes are named by strings, and none of them takes the place of what objects of `kind` have themselves:
    code of ours that asks a tensor for its strides must not get what a file says."""
    if attributes.__class__ is not dict and attributes.__class__ is not OrderedDict:
        raise problem("the attributes of an object are not a dictionary")
    for name in attributes:
        if name.__class__ is not str:
            raise problem("an object has attributes without names")
        if (name.startswith("__") and name.endswith("__")) or hasattr(kind, name):
            raise problem(
                f"the file sets the attribute {name!r:.100}, which objects of type {kind.__name__} have themselves"
            )


def _check_tensor_state(state: Any, kind: type) -> None:
    """A tensor's attributes, or a pair of those and of the slots that its class has beyond those of tensors.

    A class that the program declared safe may well keep something of its own under the name of a method of tensors.
    """
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
        if slots is not None:
            allowed = copying.own_slots(kind)
            if slots.__class__ is not dict or not all(name in allowed for name in slots):
                raise problem(f"the file sets slots that objects of type {kind.__name__} do not have")
    if state is not None:
        check_attributes(state, Tensor if names.is_ours(kind.__module__) else object)


# -- plain objects -----------------------------------------------------------------------------------------------


def _pairs(kind: type) -> Callable[..., Any]:
    def make(*args: Any) -> Any:
        if args and (len(args) > 1 or not isinstance(args[0], (list, tuple, dict))):
            raise problem(f"unexpected arguments of {kind.__name__}")
        content = args[0] if args else ()
        check_keys(content if isinstance(content, dict) else [pair[0] for pair in content])
        return kind(content)

    return make


def _set(*args: Any) -> set[Any]:
    elements = args[0] if args else []
    if len(args) > 1 or not isinstance(elements, (list, tuple)):
        raise problem("unexpected arguments of set")
    check_keys(elements)
    return set(elements)


def _bytearray(*args: Any) -> bytearray:
    if args and not isinstance(args[0], (bytes, str)):  # a number would be a size
        raise problem("unexpected arguments of bytearray")
    return bytearray(*args)


def _complex(*args: Any) -> complex:
    if len(args) > 2 or not all(isinstance(a, (int, float)) for a in args):
        raise problem("unexpected arguments of complex")
    return complex(*args)


def encode(text: Any, encoding: str = "utf-8") -> bytes:
    """How protocol 2 keeps bytes: as text of which each character is a byte."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1", "utf-8", "ascii"):
        raise problem("unexpected arguments of _codecs.encode")
    return text.encode(encoding)


def _size(sizes: Any = ()) -> Size:
    if not isinstance(sizes, (tuple, list)):
        raise problem("unexpected arguments of torch.Size")
    return Size(sizes)


# -- tensors -----------------------------------------------------------------------------------------------------


class _Kinds(tuple):  # type: ignore[type-arg]
    """The types that an argument may have."""

    def takes(self, value: Any) -> bool:
        return isinstance(value, self) and (value.__class__ is not bool or bool in self)


_STORAGE = _Kinds((TypedStorage, UntypedStorage))
_TYPED = _Kinds((TypedStorage,))
_NUMBER = _Kinds((int,))
_NUMBERS = _Kinds((tuple, list))
_FLAG = _Kinds((bool, int))
_HOOKS = _Kinds((dict, type(None)))
_TENSOR = _Kinds((Tensor,))
_DTYPE = _Kinds((dtype,))
_DEVICE = _Kinds((str, device))
_PLACE = (_NUMBER, _NUMBERS, _NUMBERS)  # offset, sizes, strides
# The kinds of the arguments of each function that makes a tensor, and how many of them must be there.
_SIGNATURES: dict[str, tuple[int, tuple[_Kinds, ...]]] = {
    "_rebuild_tensor": (4, (_TYPED, *_PLACE)),
    "_rebuild_tensor_v2": (5, (_TYPED, *_PLACE, _FLAG, _HOOKS, _HOOKS)),
    "_rebuild_tensor_v3": (7, (_STORAGE, *_PLACE, _FLAG, _HOOKS, _DTYPE, _HOOKS)),
    "_rebuild_sparse_tensor": (2, (_Kinds((layout,)), _Kinds((tuple,)))),
    "_rebuild_meta_tensor_no_storage": (4, (_DTYPE, _NUMBERS, _NUMBERS, _FLAG)),
    "_rebuild_qtensor": (6, (_TYPED, *_PLACE, _Kinds((tuple,)), _FLAG, _HOOKS)),
    "_rebuild_parameter": (3, (_TENSOR, _FLAG, _HOOKS)),
    "_rebuild_device_tensor_from_cpu_tensor": (4, (_TENSOR, _DTYPE, _DEVICE, _FLAG)),
    "_rebuild_device_tensor_from_numpy": (4, (_Kinds((np.ndarray,)), _DTYPE, _DEVICE, _FLAG)),
    "_rebuild_nested_tensor": (4, (_TENSOR,) * 4),
    "_get_layout": (1, (_Kinds((str,)),)),
}


def _checked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    least, kinds = _SIGNATURES[name]
    inner = {"_rebuild_qtensor": _check_quantizer, "_rebuild_sparse_tensor": _check_sparse}.get(name)

    def call(*args: Any) -> Any:
        if not least <= len(args) <= len(kinds):
            raise problem(f"the file calls {name} with {len(args)} arguments")
        for number, (value, kind) in enumerate(zip(args, kinds)):
            if not kind.takes(value):
                raise problem(f"argument {number} of {name} cannot be of type {type(value).__name__}")
        if inner is not None:
            inner(*args)
        return function(*args)

    return call


def _check_quantizer(storage: Any, offset: Any, size: Any, stride: Any, parts: Any, *rest: Any) -> None:
    """(scheme, number, number), or (scheme, scales, zero points, axis) with tensors in memory."""
    if len(parts) == 3:
        sound = _number(parts[1]) and _NUMBER.takes(parts[2])
    else:
        sound = len(parts) == 4 and _plain_tensor(parts[1]) and _plain_tensor(parts[2]) and _NUMBER.takes(parts[3])
    if not sound:
        raise problem("a saved quantized tensor does not say how it is quantized")


def _check_sparse(kind: Any, data: tuple[Any, ...]) -> None:
    """Indices and values are tensors in memory, the size is a tuple."""
    tensors = [part for part in data if isinstance(part, Tensor)]
    others = data[len(tensors) :]
    if (
        not 2 <= len(tensors) <= 3
        or not all(map(_plain_tensor, data[: len(tensors)]))
        or not 1 <= len(others) <= 2
        or not _NUMBERS.takes(others[0])
        or (len(others) == 2 and others[1] is not None and not _FLAG.takes(others[1]))
    ):
        raise problem("a saved sparse tensor does not consist of indices, values and sizes")


def _number(value: Any) -> bool:
    return value.__class__ is int or value.__class__ is float


def _plain_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) and not value._k & ~(GRAD | value._class_k)


def _from_type(*args: Any) -> Any:
    rebuild, kind, inner, state = args
    checked = _REBUILD.get(rebuild) if callable(rebuild) else None
    if checked is None:
        raise problem("a tensor's class is not made by a known function")
    if not isinstance(kind, type) or not issubclass(kind, Tensor):
        raise problem("a tensor's class is not one")
    if inner.__class__ is not tuple:
        raise problem("the arguments of a call are not a tuple")
    if copying.has_plain_state(kind):
        _check_tensor_state(state, kind)
    return copying._rebuild_from_type_v2(checked, kind, inner, state)


def _with_state(*args: Any) -> Any:
    *parts, state = args
    parameter = CALLS["torch._utils._rebuild_parameter"](*parts)
    _check_tensor_state(state, type(parameter))
    copying.set_state(parameter, state)
    return parameter


_REBUILD = {
    function: _checked(function.__name__, function)
    for function in (
        copying._rebuild_tensor, copying._rebuild_tensor_v2, copying._rebuild_tensor_v3,
        copying._rebuild_sparse_tensor, copying._rebuild_meta_tensor_no_storage, copying._rebuild_qtensor,
    )
}  # fmt: skip


def _device(*args: Any) -> device:
    kinds = (_DEVICE, _NUMBER)
    if not 1 <= len(args) <= 2 or not all(kind.takes(value) for kind, value in zip(kinds, args)):
        raise problem("unexpected arguments of torch.device")
    return device(*args)


class _Later(dict[str, Callable[..., Any]]):
    """Functions with checks, made when they are first asked for: some live in modules that need this one."""

    def __missing__(self, full: str) -> Callable[..., Any]:
        if full not in names.FUNCTIONS:
            raise KeyError(full)
        module, name = full.rpartition(".")[::2]
        made = self[full] = _checked(name, names.from_torch(module, name))
        return made

    def __contains__(self, full: object) -> bool:
        return super().__contains__(full) or full in names.FUNCTIONS


# What may be called, by its full name.
CALLS: Mapping[str, Callable[..., Any]] = _Later({
    "torch._tensor._rebuild_from_type_v2": _from_type,
    "torch._utils._rebuild_parameter_with_state": _with_state,
    "collections.OrderedDict": _pairs(OrderedDict),
    "collections.Counter": _pairs(Counter),
    "builtins.set": _set,
    "builtins.bytearray": _bytearray,
    "builtins.complex": _complex,
    "_codecs.encode": encode,
    "torch.Size": _size,
    "torch.device": _device,
})  # fmt: skip


def copied(args: Any, depth: int = 2) -> int:
    """How many elements a call with these arguments copies at most."""
    count = 0
    for value in args:
        if isinstance(value, (list, tuple, dict, str, bytes, bytearray, set)):
            count += len(value)
            if depth and isinstance(value, tuple):
                count += copied(value, depth - 1)
    return count
