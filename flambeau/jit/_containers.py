"""What TorchScript programs do with numbers, strings, lists, dictionaries and tuples, and the operators `prim::…`."""

from __future__ import annotations

import builtins
import math
import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .._autograd.modes import is_grad_enabled, set_grad_enabled
from .._core.devices import device
from .._core.dtypes import dtype
from .._core.sizes import broadcast_shapes
from .._ops.registry import ops
from .._tensor import Tensor
from . import _limits

_LARGEST = 1 << 63


def _code(d: dtype) -> int:
    from ._operators import dtype_code  # it needs the tables below

    return dtype_code(d)


def _bounded(value: Any) -> Any:
    """Integers of programs have 64 bits."""
    if value.__class__ is int and not -_LARGEST <= value < _LARGEST:
        raise RuntimeError("an integer of the program does not fit into 64 bits")
    return value


def _power(a: Any, b: Any) -> Any:
    """Powers of numbers are floats, those of integers too."""
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        with np.errstate(all="ignore"):
            return float(np.float64(a) ** np.float64(b))
    return a**b


def _shift(a: int, b: int) -> int:
    if not 0 <= b < 64:
        raise RuntimeError("a shift of the program is not between 0 and 63")
    return _bounded(a << b)


def _product(a: Any, b: Any) -> Any:
    if isinstance(a, (list, str)) or isinstance(b, (list, str)):
        return _limits.product(a, b)
    return a * b if a.__class__ is float or b.__class__ is float else _bounded(a * b)


def _remainder(a: Any, b: Any) -> Any:
    return _limits.percent(a, b) if isinstance(a, str) else a % b


def _added_in_place(a: Any, b: Any) -> Any:
    if not isinstance(a, list):
        return _limits.added(a, b)
    _extended(a, b)
    return a


def _extended(a: list[Any], b: Any) -> None:
    if not isinstance(a, list):
        raise RuntimeError(f"extend is not for values of type {type(a).__name__}")
    _limits.room(len(a) + len(b))
    a.extend(b)


def _elements(x: Tensor) -> Any:
    _limits.room(x.numel())
    return x.tolist()


def _size(x: Tensor, dim: Any = None) -> Any:
    return list(x.shape) if dim is None else x.size(dim)


def _set_item(target: Any, key: Any, value: Any) -> Any:
    target[key] = value
    return target


def _slice(sequence: Any, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return sequence[start:end:step]


def _range_length(start: int, stop: int, step: int) -> int:
    return len(range(start, stop, step))


def _raise(message: Any, kind: str = "") -> None:
    from ._errors import JITException

    error = JITException(
        f"The following operation failed in the TorchScript interpreter.\n{kind or 'Exception'}: {message}"
    )
    error.original_msg, error.python_class_name = message, kind
    raise error


def _warn(message: str, category: Any = None, stacklevel: int = 2, *rest: Any) -> None:
    warnings.warn(str(message), stacklevel=2)


def _tensor(data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    from ._operators import scalar_type

    options = {"device": device} if device is not None else {}
    return ops.tensor(data, dtype=scalar_type(dtype), requires_grad=requires_grad, **options)


def _as_bool(x: Any) -> bool:
    return bool(x)


def _set_grad_enabled(value: Any) -> None:
    set_grad_enabled(bool(value))


def _get(table: dict[Any, Any], key: Any, default: Any = None) -> Any:
    return table.get(key, default)


def _sorted_in_place(values: list[Any], reverse: bool = False) -> None:
    values.sort(reverse=reverse)


def _pop(target: Any, *args: Any) -> Any:
    return target.pop(*args)


def _method(name: str, *kinds: type) -> Callable[..., Any]:
    """A method of strings, lists or dictionaries as a function."""

    def call(target: Any, *args: Any, **named: Any) -> Any:
        if not isinstance(target, kinds):
            raise RuntimeError(f"{name} is not for values of type {type(target).__name__}")
        return getattr(target, name)(*args, **named)

    return call


_TEXT = [
    "capitalize",
    "center",
    "count",
    "endswith",
    "expandtabs",
    "find",
    "isalnum",
    "isalpha",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "ljust",
    "lower",
    "lstrip",
    "partition",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "upper",
    "zfill",
]
_LISTS = ["append", "extend", "insert", "remove", "reverse", "clear", "copy", "count", "index"]
_MATH = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "degrees",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "fabs",
    "factorial",
    "floor",
    "fmod",
    "gamma",
    "gcd",
    "isfinite",
    "isinf",
    "isnan",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "radians",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "copysign",
    "ldexp",
]
_EVERY = (str, list, dict)

OTHERS: dict[str, Callable[..., Any]] = {
    **{name: getattr(math, name) for name in _MATH if name != "factorial"},
    **{name: _method(name, str) for name in _TEXT if name not in ("count", "copy", "index")},
    **{name: _method(name, *_EVERY) for name in _LISTS},
    **{name: _method(name, dict) for name in ("keys", "values", "items", "update", "setdefault", "popitem")},
    **{name: _limits.justified(name) for name in ("ljust", "rjust", "center", "zfill")},
    "expandtabs": _limits.expanded,
    "replace": _limits.replaced,
    "extend": _extended,
    "split": _method("split", str),
    "join": _limits.joined,
    "format": _limits.formatted,
    "percentFormat": _limits.percent,
    "add": lambda a, b, alpha=1: _bounded(_limits.added(a, b)),
    "add_": _added_in_place,
    "sub": lambda a, b, alpha=1: _bounded(a - b),
    "mul": _product,
    "div": operator.truediv,
    "floordiv": operator.floordiv,
    "floor_divide": operator.floordiv,
    "remainder": _remainder,
    "pow": _power,
    "neg": operator.neg,
    "abs": abs,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "round": _limits.rounded,
    "max": max,
    "min": min,
    "sum": sum,
    "all": all,
    "any": any,
    "divmod": divmod,
    "__and__": operator.and_,
    "__or__": operator.or_,
    "__xor__": operator.xor,
    "__lshift__": _shift,
    "__rshift__": operator.rshift,
    "__not__": operator.not_,
    "__is__": operator.is_,
    "__isnot__": operator.is_not,
    "__contains__": lambda values, x: x in values,
    "__getitem__": operator.getitem,
    "__range_length": _range_length,
    "__derive_index": lambda index, start, step: start + index * step,
    "bitwise_not": operator.invert,
    "len": len,
    "list": _limits.as_list,
    "dict": dict,
    "str": _limits.as_text,
    "ord": ord,
    "chr": chr,
    "bin": bin,
    "hex": hex,
    "oct": oct,
    "hash": hash,
    "sorted": lambda values, **named: sorted(_limits.as_list(values), **named),
    "sort": _sorted_in_place,
    "pop": _pop,
    "get": _get,
    "slice": _slice,
    "_set_item": _set_item,
    "Delete": operator.delitem,
    "size": _size,
    "dim": lambda x: x.dim(),
    "numel": lambda x: x.numel(),
    "stride": lambda x, dim=None: list(x.stride()) if dim is None else x.stride(dim),
    "item": lambda x: x.item(),
    "is_contiguous": lambda x: x.is_contiguous(),
    "Int": int,
    "Float": float,
    "Bool": _as_bool,
    "IntImplicit": int,
    "FloatImplicit": float,
    "ScalarImplicit": lambda x: x.item(),
    "device": device,
    "tensor": _tensor,
    "as_tensor": _tensor,
    "warn": _warn,
    "backward": lambda x, gradient=None, retain_graph=None, create_graph=False: x.backward(
        gradient, retain_graph, create_graph
    ),
    "is_grad_enabled": is_grad_enabled,
    "set_grad_enabled": _set_grad_enabled,
    "tolist": _elements,
    "requires_grad_": lambda x, requires_grad=True: x.requires_grad_(requires_grad),
    "dense_dim": lambda x: x.dense_dim(),
    "element_size": lambda x: x.element_size(),
    "get_device": lambda x: x.get_device(),
    "is_leaf": lambda x: x.is_leaf,
    "copy": lambda x: x.copy(),
    "_unwrap_optional": lambda x: _unwrapped(x),
    "broadcast_shapes": lambda *sizes: list(broadcast_shapes(*sizes)),
    "manual_seed": lambda seed, *rest: None,
    "is_floating_point": lambda x: x.is_floating_point(),
    "confirmed_by_owner": lambda x: True,
}


def _unwrapped(x: Any) -> Any:
    if x is None:
        raise RuntimeError("Unwrapping null optional")
    return x


PROPERTIES: dict[str, Callable[[Tensor], Any]] = {
    "shape": lambda x: list(x.shape),
    "dtype": lambda x: _code(x.dtype),
    "device": lambda x: x.device,
    "layout": lambda x: 0,
    "ndim": lambda x: x.ndim,
    "is_cuda": lambda x: x.is_cuda,
    "is_cpu": lambda x: x.is_cpu,
    "is_sparse": lambda x: x.is_sparse,
    "is_quantized": lambda x: x.is_quantized,
    "is_meta": lambda x: x.is_meta,
    "is_mps": lambda x: False,
    "is_xpu": lambda x: False,
    "is_nested": lambda x: x.is_nested,
    "requires_grad": lambda x: x.requires_grad,
    "grad": lambda x: x.grad,
    "data": lambda x: x.data,
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "H": lambda x: x.H,
    "mH": lambda x: x.mH,
    "real": lambda x: x.real,
    "imag": lambda x: x.imag,
    "is_leaf": lambda x: x.is_leaf,
    "itemsize": lambda x: x.itemsize,
    "nbytes": lambda x: x.nbytes,
    "name": lambda x: None,
}
METHODS = {str: {*_TEXT, "split", "join", "format"}, list: {*_LISTS, "pop", "sort"},
           dict: {"keys", "values", "items", "update", "setdefault", "popitem", "get", "pop", "clear", "copy"}}  # fmt: skip


def _print(*values: Any) -> None:
    print(*map(_limits.as_text, values))


PRIM: dict[str, Callable[..., Any]] = {
    **PROPERTIES,
    "type": lambda x: x.device.type if isinstance(x, Tensor) else x.type,
    "index": lambda x: x.index,
    "NumToTensor": lambda x: ops.tensor(x),
    "RaiseException": _raise,
    "TupleIndex": operator.getitem,
    "min": lambda *a: min(*a),
    "max": lambda *a: max(*a),
    "abs": abs,
    "unchecked_unwrap_optional": lambda x: x,
    "rangelist": lambda n: _limits.as_list(range(n)),
    "Print": _print,
    "tolist": _elements,
    "itemsize": lambda x: x.itemsize,
    "is_sparse_csr": lambda x: False,
    "is_mkldnn": lambda x: False,
    "is_vulkan": lambda x: False,
    "is_ipu": lambda x: False,
    "is_hpu": lambda x: False,
    "is_maia": lambda x: False,
    "is_mtia": lambda x: False,
    "is_xla": lambda x: False,
    "AutogradAllZero": lambda *a: False,
    "grad_of": lambda *a: False,
}
BUILTINS: dict[str, Callable[..., Any]] = {
    "int": int,
    "float": float,
    "bool": bool,
    "str": _limits.as_text,
    "complex": complex,
    "len": len,
    "range": range,
    "list": _limits.as_list,
    "tuple": lambda *a: tuple(_limits.as_list(*a)),
    "dict": dict,
    "min": min,
    "max": max,
    "abs": abs,
    "all": all,
    "any": any,
    "sum": builtins.sum,
    "sorted": lambda values, **named: sorted(_limits.as_list(values), **named),
    "zip": zip,
    "enumerate": enumerate,
    "reversed": reversed,
    "round": _limits.rounded,
    "divmod": divmod,
    "ord": ord,
    "chr": chr,
    "hash": hash,
    "hex": hex,
    "oct": oct,
    "bin": bin,
    "print": _print,
    "pow": _power,
    "uninitialized": lambda kind: None,
}
