"""How calls of public functions become operators of PyTorch's library in a trace: names, and arguments in their order."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from .._core.dtypes import BY_NAME, dtype
from .._core.layouts import layout, memory_format
from .._core.sizes import Size
from .._ops.registry import functions, methods, ops
from .._ops_namespace import OpOverload, OpOverloadPacket
from .._tensor import Tensor
from ._operators import dtype_code, find

__all__ = ["TUPLES", "run"]

# Operators whose several results are a tuple; others give lists.
TUPLES = frozenset(
    [
        "max",
        "min",
        "sort",
        "topk",
        "kthvalue",
        "median",
        "nanmedian",
        "mode",
        "cummax",
        "cummin",
        "lstm",
        "gru",
        "rnn_tanh",
        "rnn_relu",
        "max_pool1d_with_indices",
        "max_pool2d_with_indices",
        "max_pool3d_with_indices",
        "adaptive_max_pool1d",
        "adaptive_max_pool2d",
        "adaptive_max_pool3d",
        "var_mean",
        "std_mean",
        "unique_consecutive",
        "_unique2",
        "linalg_eigh",
        "linalg_eig",
        "linalg_qr",
        "linalg_svd",
        "svd",
        "qr",
        "slogdet",
        "linalg_slogdet",
        "frexp",
        "aminmax",
        "batch_norm_stats",
        "linalg_lu",
        "linalg_lu_factor",
        "linalg_cholesky_ex",
        "linalg_inv_ex",
        "native_layer_norm",
        "native_batch_norm",
        "native_group_norm",
        "geqrf",
        "triangular_solve",
        "lstm_cell",
        "histogram",
    ]
)
REDUCTIONS = ("none", "mean", "sum")
_IGNORED = ("out", "generator", "inplace", "_stacklevel", "size_average", "reduce", "axis", "named")
_ROOTS = {"linalg.": "linalg_", "special.": "special_", "fft.": "fft_", "nn.functional.": "", "Tensor.": ""}
_CASTS = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "int": "int32", "long": "int64",
    "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool", "cfloat": "complex64", "cdouble": "complex128",
}  # fmt: skip
# Functions that are no operators of PyTorch's library: what they are made of is recorded.
_COMPOSITE = frozenset(
    [
        "softmin",
        "normalize",
        "local_response_norm",
        "lp_pool1d",
        "lp_pool2d",
        "lp_pool3d",
        "gaussian_nll_loss",
        "multilabel_soft_margin_loss",
        "triplet_margin_with_distance_loss",
        "gumbel_softmax",
        "multi_head_attention_forward",
        "affine_grid",
        "grid_sample",
        "max_unpool1d",
        "linear_cross_entropy",
        "pca_lowrank",
        "svd_lowrank",
        "unravel_index",
        "unique",
        "cosine_embedding_loss",
        "cartesian_prod",
        "chain_matmul",
        "block_diag",
        "broadcast_tensors",
        "meshgrid",
        "atleast_1d",
        "atleast_2d",
        "atleast_3d",
        "margin_ranking_loss",
        "triplet_margin_loss",
        "hinge_embedding_loss",
        "poisson_nll_loss",
        "multi_margin_loss",
        "lu",
    ]
)


@functools.cache
def _names() -> dict[int, str]:
    """Public names by the identity of functions; those at the top win."""
    found: dict[int, str] = {}
    for table in (methods, functions):
        for path, function in table.items():
            known = found.get(id(function))
            if known is None or ("." in known and "." not in path):
                found[id(function)] = path
    return found


def name_of(function: Any) -> str:
    """The name of the operator that a function is."""
    if isinstance(function, (OpOverload, OpOverloadPacket)):
        space, _, name = getattr(function, "_qualified_op_name", "").partition("::")
        space, name = (space, name) if name else (function.namespace, function._opname)
        return name if space == "aten" else f"{space}::{name}"  # type: ignore[no-any-return]
    if hasattr(function, "plain"):  # a watched attribute of tensors
        return function.__name__  # type: ignore[no-any-return]
    path = _names().get(id(function)) or (getattr(function, "__name__", "") or function.name).removeprefix(
        "functional_"
    )
    for root, prefix in _ROOTS.items():
        if path.startswith(root):
            return prefix + path[len(root) :]
    return path  # type: ignore[no-any-return]


def run(tracer: Any, function: Any, args: Any, named: dict[str, Any]) -> Any:
    """Runs a call inside of a trace and records it."""
    function_name = getattr(function, "__name__", "")
    name = name_of(function)
    special = SPECIAL.get("F." + name) if function_name.startswith("functional_") or _is_functional(function) else None
    special = special or SPECIAL.get(name)
    if special is not None:
        return special(Steps(tracer, function), *args, **named)
    plain = getattr(function, "plain", function)
    inside = getattr(plain, "__wrapped__", None)  # the function itself, behind what asks
    if inside is not None and (name in _COMPOSITE or name.startswith(("masked.", "signal."))):
        with tracer.again():
            return inside(*args, **named)
    out = plain(*args, **named)
    if not _has_tensors(out):
        return out
    arguments, options = bound(plain, args, named)
    if options.get("reduction") in REDUCTIONS:
        options["reduction"] = REDUCTIONS.index(options["reduction"])
    if named.get("out") is not None:
        tracer.record(name, arguments, options, out)
        tracer.record("copy_", [named["out"], out], {}, named["out"])
        return out
    tracer.record(name, arguments, options, out)
    return out


def _is_functional(function: Any) -> bool:
    path = _names().get(id(function), "")
    return path.startswith("nn.functional.") or (function.__module__ or "").endswith("nn.functional")


def _has_tensors(out: Any) -> bool:
    if isinstance(out, (tuple, list)):
        return any(isinstance(t, Tensor) for t in out)
    return isinstance(out, Tensor)


@functools.cache
def signature_of(function: Any) -> inspect.Signature:
    return inspect.signature(function)


def bound(function: Any, args: Any, named: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call in order, and those that can only be given by name."""
    try:
        signature = signature_of(function)
        given = signature.bind(*args, **named).arguments
    except (TypeError, ValueError):
        return [plain_argument(a) for a in args], {k: plain_argument(v) for k, v in named.items() if v is not None}
    positional: list[Any] = []
    by_name: dict[str, Any] = {}
    gap = False
    for parameter in signature.parameters.values():
        name = parameter.name
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += [plain_argument(a) for a in given.get(name, ())]
        elif parameter.kind is parameter.VAR_KEYWORD:
            by_name.update((k, plain_argument(v)) for k, v in given.get(name, {}).items() if v is not None)
        elif name in _IGNORED or name not in given:
            gap = True
        elif parameter.kind is parameter.KEYWORD_ONLY:
            if given[name] is not None:
                by_name[name] = plain_argument(given[name])
        elif gap:
            by_name[name] = plain_argument(given[name])
        else:
            positional.append(plain_argument(given[name]))
    return positional, by_name


def plain_argument(value: Any) -> Any:
    """An argument as programs write it: numbers for dtypes and formats, lists for tuples."""
    if isinstance(value, dtype):
        return dtype_code(value)
    if isinstance(value, layout):
        return 0
    if isinstance(value, memory_format):
        return {"contiguous_format": 0, "preserve_format": 1, "channels_last": 2, "channels_last_3d": 3}[value.name]
    if isinstance(value, (Size, tuple)):
        return [plain_argument(v) for v in value]
    return value


class Steps:
    """What special cases use: runs operators and records them."""

    def __init__(self, tracer: Any, function: Any):
        self.tracer, self.function = tracer, getattr(function, "plain", function)

    def do(self, op: str, *args: Any, **named: Any) -> Any:
        """Runs an operator of PyTorch's library by name and records it."""
        out = find("aten", op)(*args, **named)
        self.tracer.record(op, list(args), named, out)
        return out

    def note(self, op: str, args: list[Any], out: Any, **named: Any) -> Any:
        """Records an operator whose result is known."""
        self.tracer.record(op, args, named, out)
        return out


SPECIAL: dict[str, Callable[..., Any]] = {}


def special(*names: str) -> Callable[[Any], Any]:
    def decorate(function: Any) -> Any:
        SPECIAL.update(dict.fromkeys(names, function))
        return function

    return decorate


def sizes(args: Any, named: dict[str, Any], *keys: str) -> list[Any]:
    """The sizes in f(2, 3), f((2, 3)) and f(size=(2, 3))."""
    for key in keys:
        if key in named:
            args = (named.pop(key),)
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        args = args[0]
    return list(args)


def listed(value: Any, count: int) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value] * count


# -- shapes ------------------------------------------------------------------------------------------------------


@special("shape", "size")
def _shape(s: Steps, x: Tensor, dim: Any = None) -> Any:
    from ._tracer import traced_shape

    if dim is None:
        return traced_shape(s.tracer, x)
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
    dims = sizes(dim, named, "dim")
    if dim == ((),) and not named:
        return s.do("squeeze", x)
    return s.do("squeeze", x, dims[0] if len(dims) == 1 else dims) if dims else s.do("squeeze", x)


@special("T", "mT")
def _transposed(s: Steps, x: Tensor) -> Tensor:
    if s.function.__name__ == "mT" or x._array.ndim == 2:
        return s.do("transpose", x, -2, -1)
    return s.do("permute", x, list(reversed(range(x._array.ndim))))


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
    from ._tracer import warn

    warn("index: iterating over a tensor fixes its length")
    return iter(s.do("unbind", x, 0))


def _conversion(what: str) -> Any:
    def lower(s: Steps, x: Tensor, *args: Any, **named: Any) -> Any:
        from ._tracer import warn

        if s.tracer.is_known(x):
            warn(what)
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
            dim += (k.dim() if k.dtype.name == "bool" else 1) - 1  # type: ignore[attr-defined]
        else:
            x = s.do("select", x, dim, k)
            continue
        dim += 1
    return x, indices or None


@special("setitem", "__setitem__")
def _setitem(s: Steps, x: Tensor, key: Any, value: Any) -> None:
    target, indices = _indexed(s, x, key)
    if not isinstance(value, Tensor):
        value = ops.tensor(value, dtype=x.dtype, device=x.device)  # type: ignore[attr-defined]
    if indices is not None:
        s.do("index_put_", target, indices, value)
        return
    if value.dim() > target.dim():  # type: ignore[attr-defined]
        value = s.do("reshape", value, list(value._array.shape[value.dim() - target.dim() :]))  # type: ignore[attr-defined]
    s.do("copy_", target, value)


# -- kinds of elements and places --------------------------------------------------------------------------------


def _cast(name: str) -> Any:
    def lower(s: Steps, x: Tensor, *args: Any, **named: Any) -> Tensor:
        return s.do("to", x, dtype_code(BY_NAME[name]))

    return lower


SPECIAL.update({name: _cast(target) for name, target in _CASTS.items()})


@special("to", "type", "type_", "cpu", "cuda", "type_as")
def _to(s: Steps, x: Tensor, *args: Any, **named: Any) -> Any:
    out = s.function(x, *args, **named)
    if not isinstance(out, Tensor):
        return out
    if out.device != x.device:  # type: ignore[attr-defined]
        return s.note("to", [x, out.device, dtype_code(out.dtype)], out)  # type: ignore[attr-defined]
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
    if isinstance(data, Tensor) or not _has_numbers(s, data):
        return out  # a constant, recorded where it is used
    flat = data if isinstance(data, (list, tuple, int, float)) else None
    return out if flat is None else s.note("tensor", [flat], out, dtype=dtype_code(out.dtype))


def _has_numbers(s: Steps, data: Any) -> bool:
    if isinstance(data, (list, tuple)):
        return any(_has_numbers(s, d) for d in data)
    return hasattr(data, "value") and isinstance(data, (int, float))


def _kind(out: Tensor) -> dict[str, Any]:
    """The options with which a new tensor is made again."""
    where = out.device  # type: ignore[attr-defined]
    return {"dtype": dtype_code(out.dtype), **({} if where.type == "cpu" else {"device": where})}


def _filled(s: Steps, *args: Any, **named: Any) -> Any:
    out = s.function(*args, **named)
    size = sizes(args, dict(named), "size")
    return s.note(s.function.__name__, [size], out, **_kind(out))


SPECIAL.update(dict.fromkeys(("zeros", "ones", "empty", "rand", "randn"), _filled))


@special("full")
def _full(s: Steps, size: Any, fill_value: Any, **named: Any) -> Any:
    out = s.function(size, fill_value, **named)
    return s.note(
        "full",
        [list(size) if isinstance(size, (tuple, list)) else [size], fill_value],
        out,
        **_kind(out),
    )


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


# -- reductions --------------------------------------------------------------------------------------------------


def _reduced(
    s: Steps, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, axis: Any = None
) -> Any:
    op = s.function.__name__
    dim = axis if dim is None else dim
    named = {} if dtype is None else {"dtype": dtype_code(dtype)}
    if dim is None and op in ("sum", "mean"):
        return s.do(op, x, **named)
    return s.do(op, x, [] if dim is None else listed(dim, 1), keepdim, **named)


SPECIAL.update(dict.fromkeys(("sum", "mean", "amax", "amin", "logsumexp", "nansum", "nanmean"), _reduced))


@special("var", "std")
def _spread(
    s: Steps, x: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> Any:
    op = s.function.__name__
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    out = s.function(x, dim, correction=correction, keepdim=keepdim)
    return s.note(op, [x, None if dim is None else listed(dim, 1)], out, correction=correction, keepdim=keepdim)


@special("max", "min")
def _extreme(s: Steps, x: Tensor, dim: Any = ..., keepdim: Any = None, *, other: Any = None, axis: Any = ...) -> Any:
    op = s.function.__name__
    other = dim if isinstance(dim, Tensor) else other
    dim = axis if dim is ... else dim
    if other is not None:
        return s.do("maximum" if op == "max" else "minimum", x, other)
    if dim is ...:
        return s.do(op, x)
    out = s.function(x, dim, bool(keepdim))
    return s.note(op, [x, dim, bool(keepdim)], out)


def _vector_norm(s: Steps, x: Tensor, order: Any, dim: Any, keepdim: bool) -> Tensor:
    return s.do("linalg_vector_norm", x, float(order), None if dim is None else listed(dim, 1), keepdim)


@special("norm", "linalg_vector_norm")
def _norm(
    s: Steps, x: Tensor, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None, ord: Any = None
) -> Tensor:
    p = ord if ord is not None else p
    if p in ("fro", None) or isinstance(p, (int, float)):
        return _vector_norm(s, x, 2.0 if p in ("fro", None) else p, dim, keepdim)
    return s.note("linalg_norm", [x, p, dim, keepdim], s.function(x, p, dim, keepdim, dtype=dtype))


@special("linalg_norm")
def _any_norm(
    s: Steps, x: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    if ord is None or (isinstance(ord, (int, float)) and (isinstance(dim, int) or x._array.ndim == 1)):
        return _vector_norm(s, x, 2.0 if ord is None else ord, dim, keepdim)
    out = s.function(x, ord, dim, keepdim, dtype=dtype)
    return s.note("linalg_norm", [x, ord, None if dim is None else listed(dim, 1), keepdim], out)


# Records behind shortcuts of ours, as the operators that programs know.
_POWERS = {
    "cube": 3, "pow_4": 4, "pow_half": 0.5, "pow_3_halves": 1.5, "pow_minus_1": -1, "pow_minus_2": -2, "pow_minus_half": -0.5,
}  # fmt: skip


def _powered(exponent: Any) -> Any:
    return lambda s, x: s.do("pow", x, exponent)


SPECIAL.update({name: _powered(exponent) for name, exponent in _POWERS.items()})
SPECIAL["softsign"] = lambda s, x: s.do("div", x, s.do("add", s.do("abs", x), 1))
SPECIAL["tanhshrink"] = lambda s, x: s.do("sub", x, s.do("tanh", x))
SPECIAL["mul_number"] = lambda s, x, n: s.do("mul", x, n)
SPECIAL["div_number"] = lambda s, x, n: s.do("div", x, n)
SPECIAL["rdiv"] = lambda s, x, n: s.do("mul", s.do("reciprocal", x), n)
SPECIAL["add_scaled"] = lambda s, x, y, alpha: s.do("add", x, y, alpha=alpha)
SPECIAL["sub_scaled"] = lambda s, x, y, alpha: s.do("sub", x, y, alpha=alpha)
SPECIAL["lerp_number"] = lambda s, x, y, weight: s.do("lerp", x, y, weight)
SPECIAL["prelu_kernel"] = lambda s, x, weight: s.do("prelu", x, weight)
SPECIAL["squeeze_dim"] = SPECIAL["squeeze_dims"] = lambda s, x, dim: s.do("squeeze", x, dim)
SPECIAL["trunc_divide"] = lambda s, x, y: s.do("div", x, y, rounding_mode="trunc")
SPECIAL["to_dtype"] = lambda s, x, kind: s.do("to", x, dtype_code(kind))


@special("__rdiv__", "__rtruediv__")
def _divided(s: Steps, x: Tensor, other: Any) -> Tensor:
    return s.do("mul", s.do("reciprocal", x), other)


def _swapped(op: str) -> Any:
    def lower(s: Steps, x: Tensor, other: Any) -> Tensor:
        return s.note(op, [other, x], s.function(x, other))

    return lower


SPECIAL.update({f"__r{name}__": _swapped(name) for name in ("pow", "matmul")})
SPECIAL.update({f"__r{short}__": _swapped(f"__{short}__") for short in ("and", "or", "xor")})


@special("einsum")
def _einsum(s: Steps, equation: Any, *operands: Any) -> Tensor:
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    return s.do("einsum", equation, list(operands))


@special("block_diag", "broadcast_tensors", "cartesian_prod", "atleast_1d", "atleast_2d", "atleast_3d")
def _of_several(s: Steps, *tensors: Any) -> Any:
    given = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else list(tensors)
    alone = s.function.__name__.startswith("atleast") and len(given) == 1
    return s.note(s.function.__name__, given if alone else [given], s.function(*tensors))


@special("tensordot")
def _tensordot(s: Steps, a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    if isinstance(dims, int):
        dims = (list(range(a._array.ndim - dims, a._array.ndim)), list(range(dims)))
    return s.do("tensordot", a, b, list(dims[0]), list(dims[1]))
