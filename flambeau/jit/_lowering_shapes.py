"""How operations on shapes, indices, dtypes and devices become operators of PyTorch's library in a trace."""

from __future__ import annotations

from typing import Any

from .._core.dtypes import dtype
from .._ops.making.conversion import CASTS
from .._ops.registry import ops
from .._tensor import Tensor
from ._lowering import SPECIAL, Steps, bound, plain_argument, sizes, special
from ._operators import dtype_code

# -- shapes ------------------------------------------------------------------------------------------------------


@special("shape", "size")
def _shape(s: Steps, x: Tensor, dim: Any = None) -> Any:
    if dim is None:
        return s.tracer.shape(x)
    return s.tracer.size(x, range(x._array.ndim)[dim] if x._array.ndim else s.function(x, dim))


@special("numel", "nelement")
def _numel(s: Steps, x: Tensor) -> Any:
    return s.tracer.number("numel", [x], s.function(x)) if s.tracer.is_known(x) else s.function(x)


@special("__len__")
def _length(s: Steps, x: Tensor) -> Any:
    return s.function(x)  # Python makes a plain integer of it


@special("view")
def _view(s: Steps, x: Tensor, *args: Any, **named: Any) -> Tensor:
    if (args and isinstance(args[0], dtype)) or "dtype" in named:
        return s.do("view", x, dtype_code(args[0] if args else named["dtype"]))
    return s.note("view", [x, sizes(args, named, "size")], s.function(x, *args, **named))


@special("unsafe_view", "reshape")
def _reshape(s: Steps, x: Tensor, *args: Any, **named: Any) -> Tensor:
    return s.do("reshape", x, sizes(args, named, "shape"))


@special("expand", "broadcast_to")
def _expand(s: Steps, x: Tensor, *args: Any, implicit: bool = False, **named: Any) -> Tensor:
    return s.do("expand", x, sizes(args, named, "size"))


def _varied(op: str, *keys: str) -> None:
    def lower(s: Steps, x: Tensor, *args: Any, **named: Any) -> Tensor:
        return s.do(op, x, sizes(args, named, *keys))

    SPECIAL[op] = lower


for _op, _key in {"permute": "dims", "repeat": "repeats", "tile": "dims", "flip": "dims"}.items():
    _varied(_op, _key)


@special("squeeze")
def _squeeze(s: Steps, x: Tensor, *dim: Any, **named: Any) -> Tensor:
    if not dim and not named:
        return s.do("squeeze", x)
    dims = sizes(dim, named, "dim")
    return s.do("squeeze", x, dims[0] if len(dims) == 1 else dims)  # with an empty list nothing is taken away


@special("T")
def _transposed(s: Steps, x: Tensor) -> Tensor:
    if x._array.ndim == 2:
        return s.do("transpose", x, -2, -1)
    return s.do("permute", x, list(reversed(range(x._array.ndim))))


@special("mT")
def _transposed_matrices(s: Steps, x: Tensor) -> Tensor:
    return s.do("transpose", x, -2, -1)


@special("H", "mH")
def _adjoint(s: Steps, x: Tensor) -> Tensor:
    return s.do("adjoint", x)


@special("split")
def _split(s: Steps, x: Tensor, split_size_or_sections: Any = None, dim: int = 0, **named: Any) -> Any:
    part = named.get("split_size", split_size_or_sections)
    op = "split_with_sizes" if isinstance(part, (tuple, list)) else "split"
    return tuple(s.do(op, x, list(part) if op != "split" else part, dim))


@special("chunk", "unbind", "tensor_split")
def _parts(s: Steps, x: Tensor, *args: Any, **named: Any) -> Any:
    op = s.function.__name__
    arguments, options = bound(s.function, (x, *args), named)
    return s.note(op, arguments, tuple(s.function(x, *args, **named)), **options)


@special("__iter__")
def _iterate(s: Steps, x: Tensor) -> Any:
    s.tracer.warn("index: iterating over a tensor fixes its length")
    return iter(s.do("unbind", x, 0))


def _conversion(what: str) -> Any:
    def lower(s: Steps, x: Tensor, *args: Any, **named: Any) -> Any:
        if s.tracer.is_known(x):
            s.tracer.warn(what)
        return s.function(x, *args, **named)

    return lower


SPECIAL.update(
    item=_conversion("number"), tolist=_conversion("list"), __bool__=_conversion("boolean"), numpy=_conversion("array"),
    __float__=_conversion("float"), __int__=_conversion("integer"), __index__=_conversion("index"),
    __complex__=_conversion("complex"),
)  # fmt: skip


@special("getitem", "__getitem__")
def _getitem(s: Steps, x: Tensor, key: Any) -> Tensor:
    x, indices = _indexed(s, x, key)
    return x if indices is None else s.do("index", x, indices)


def _indexed(s: Steps, x: Tensor, key: Any) -> tuple[Tensor, Any]:
    """Takes the parts of an index that are views; gives the tensors that remain, by dimension, or None."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if isinstance(key, list):
        keys = [ops.tensor(key)]
    used = sum(
        k.dim() if isinstance(k, Tensor) and k.dtype.name == "bool" else 1
        for k in keys
        if k is not None and k is not Ellipsis
    )
    if Ellipsis in [k for k in keys if not isinstance(k, Tensor)]:
        at = next(i for i, k in enumerate(keys) if k is Ellipsis)
        keys[at : at + 1] = [slice(None)] * (x._array.ndim - used)
    indices: list[Any] = []
    dim = 0
    for k in keys:
        if isinstance(k, (list, range)):
            k = ops.tensor(list(k))
        if k is None:
            x = s.do("unsqueeze", x, dim)
        elif isinstance(k, slice):
            if (k.start, k.stop, k.step) != (None, None, None):
                x = s.do("slice", x, dim, k.start, k.stop, 1 if k.step is None else k.step)
        elif isinstance(k, bool):
            x = s.do("unsqueeze", x, dim)
            indices += [None] * (dim - len(indices)) + [ops.tensor([k])]
        elif isinstance(k, Tensor):
            indices += [None] * (dim - len(indices)) + [k]
            dim += (k.dim() if k.dtype.name == "bool" else 1) - 1
        else:
            x = s.do("select", x, dim, k)
            continue
        dim += 1
    return x, indices or None


@special("setitem", "__setitem__")
def _setitem(s: Steps, x: Tensor, key: Any, value: Any) -> None:
    target, indices = _indexed(s, x, key)
    if not isinstance(value, Tensor):
        value = ops.tensor(value, dtype=x.dtype, device=x.device)
    if indices is not None:
        s.do("index_put_", target, indices, value)
        return
    if value.dim() > target.dim():
        value = s.do("reshape", value, list(value._array.shape[value.dim() - target.dim() :]))
    s.do("copy_", target, value)


# -- kinds of elements and places --------------------------------------------------------------------------------


def _cast(target: dtype) -> Any:
    def lower(s: Steps, x: Tensor, *args: Any, **named: Any) -> Tensor:
        return s.do("to", x, dtype_code(target))

    return lower


SPECIAL.update({name: _cast(target) for name, target in CASTS.items()})


@special("to", "type", "type_", "cpu", "cuda", "type_as")
def _to(s: Steps, x: Tensor, *args: Any, **named: Any) -> Any:
    out = s.function(x, *args, **named)
    if not isinstance(out, Tensor):
        return out
    if out.device != x.device:
        return s.note("to", [x, out.device, dtype_code(out.dtype)], out)
    return s.note("to", [x, dtype_code(out.dtype)], out)


@special("clone", "contiguous")
def _clone(s: Steps, x: Tensor, *args: Any, **named: Any) -> Tensor:
    if args:  # the record behind `contiguous`, with an order of its own
        return s.do("contiguous", x)
    out = s.function(x, **named)
    options = {k: plain_argument(v) for k, v in named.items() if v is not None}
    return s.note(s.function.__name__, [x], out, **options)


@special("tensor", "as_tensor", "from_numpy", "asarray", "scalar_tensor")
def _literal(s: Steps, data: Any, *args: Any, **named: Any) -> Any:
    out = s.function(data, *args, **named)
    if isinstance(data, Tensor):
        if out is data:
            return out
        source = s.do("detach", data) if s.function.__name__ == "tensor" else data
        return s.note("to", [source, dtype_code(out.dtype), False, True], out)
    if not _has_numbers(s, data):
        return out  # a constant, recorded where it is used
    flat = data if isinstance(data, (list, tuple, int, float)) else None
    return out if flat is None else s.note("tensor", [flat], out, dtype=dtype_code(out.dtype))


def _has_numbers(s: Steps, data: Any) -> bool:
    if isinstance(data, (list, tuple)):
        return any(_has_numbers(s, d) for d in data)
    return hasattr(data, "value") and isinstance(data, (int, float))


def _kind(out: Tensor) -> dict[str, Any]:
    """The options with which a new tensor is made again."""
    where = out.device
    return {"dtype": dtype_code(out.dtype), **({} if where.type == "cpu" else {"device": where})}


def _filled(s: Steps, *args: Any, **named: Any) -> Any:
    out = s.function(*args, **named)
    size = sizes(args, dict(named), "size")
    return s.note(s.function.__name__, [size], out, **_kind(out))


SPECIAL.update(dict.fromkeys(("zeros", "ones", "empty", "rand", "randn"), _filled))


@special("full")
def _full(s: Steps, size: Any, fill_value: Any, **named: Any) -> Any:
    out = s.function(size, fill_value, **named)
    return s.note("full", [list(size) if isinstance(size, (tuple, list)) else [size], fill_value], out, **_kind(out))


def _new(s: Steps, x: Tensor, *args: Any, **named: Any) -> Any:
    out = s.function(x, *args, **named)
    return s.note(s.function.__name__, [x, sizes(args, dict(named), "size")], out, **_kind(out))


SPECIAL.update(dict.fromkeys(("new_zeros", "new_ones", "new_empty"), _new))


@special("new_full")
def _new_full(s: Steps, x: Tensor, size: Any, fill_value: Any, **named: Any) -> Any:
    out = s.function(x, size, fill_value, **named)
    return s.note("new_full", [x, list(size), fill_value], out, **_kind(out))


def _alike(s: Steps, x: Tensor, *args: Any, **named: Any) -> Any:
    out = s.function(x, *args, **named)
    return s.note(s.function.__name__, [x, *args], out, **_kind(out))


SPECIAL.update(dict.fromkeys(("zeros_like", "ones_like", "empty_like", "rand_like", "randn_like", "full_like"), _alike))


@special("arange", "linspace")
def _range(s: Steps, *args: Any, **named: Any) -> Any:
    out = s.function(*args, **named)
    values = [*args, *(named[k] for k in ("start", "end", "step", "steps") if k in named)]
    return s.note(s.function.__name__, values, out, **_kind(out))


@special("nonzero")
def _nonzero(s: Steps, x: Tensor, *, as_tuple: bool = False) -> Any:
    return tuple(s.do("nonzero_numpy", x)) if as_tuple else s.do("nonzero", x)


@special("unique")
def _unique(
    s: Steps, x: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: Any = None
) -> Any:
    found = s.function(x, sorted, True, True, dim)
    given = [x, sorted, True, True] if dim is None else [x, dim, sorted, True, True]
    found = s.note("_unique2" if dim is None else "unique_dim", given, found)
    return _wished(found, return_inverse, return_counts)


@special("unique_consecutive")
def _unique_consecutive(
    s: Steps, x: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: Any = None
) -> Any:
    found = s.note("unique_consecutive", [x, True, True, dim], s.function(x, True, True, dim))
    return _wished(found, return_inverse, return_counts)


def _wished(found: Any, inverse: bool, counts: bool) -> Any:
    """What `unique` gives of distinct elements, where each lies and how often."""
    asked = [t for t, wanted in zip(found, (True, inverse, counts)) if wanted]
    return asked[0] if len(asked) == 1 else tuple(asked)
