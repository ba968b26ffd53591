"""How reductions and arithmetic become operators of PyTorch's library in a trace."""

from __future__ import annotations

from typing import Any

from .._tensor import Tensor
from ._lowering import SPECIAL, Steps, arguments_of, listed, special
from ._operators import dtype_code

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


_DISTANCES = (None, "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")  # as the operator numbers them


@special("cdist")
def _cdist(s: Steps, x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: Any = None) -> Tensor:
    out = s.function(x1, x2, p, compute_mode)
    number = _DISTANCES.index(compute_mode) if compute_mode in _DISTANCES[1:] else compute_mode
    return s.note("cdist", [x1, x2, float(p), number if isinstance(number, int) else None], out)


@special("linalg_norm")
def _any_norm(
    s: Steps, x: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    if ord is None or (isinstance(ord, (int, float)) and (isinstance(dim, int) or x._array.ndim == 1)):
        return _vector_norm(s, x, 2.0 if ord is None else ord, dim, keepdim)
    out = s.function(x, ord, dim, keepdim, dtype=dtype)
    return s.note("linalg_norm", [x, ord, None if dim is None else listed(dim, 1), keepdim], out)


SPECIAL["softsign"] = lambda s, x: s.do("div", x, s.do("add", s.do("abs", x), 1))
SPECIAL["tanhshrink"] = lambda s, x: s.do("sub", x, s.do("tanh", x))
SPECIAL["rdiv"] = SPECIAL["rdiv_number"] = lambda s, x, n: s.do("mul", s.do("reciprocal", x), n)
SPECIAL["prelu_kernel"] = lambda s, x, weight: s.do("prelu", x, weight)
SPECIAL["squeeze_dim"] = SPECIAL["squeeze_dims"] = lambda s, x, dim: s.do("squeeze", x, dim)
SPECIAL["to_dtype"] = lambda s, x, kind: s.do("to", x, dtype_code(kind))


@special("__rdiv__", "__rtruediv__")
def _divided(s: Steps, x: Tensor, other: Any) -> Tensor:
    return s.do("mul", s.do("reciprocal", x), other)


def _swapped(op: str) -> Any:
    def lower(s: Steps, x: Tensor, other: Any) -> Tensor:
        return s.note(op, [other, x], s.function(x, other))

    return lower


SPECIAL.update({f"__r{name}__": _swapped(name) for name in ("pow", "matmul")})
SPECIAL["__rfloordiv__"], SPECIAL["__rmod__"] = _swapped("floor_divide"), _swapped("remainder")
SPECIAL["__rlshift__"], SPECIAL["__rrshift__"] = _swapped("bitwise_left_shift"), _swapped("bitwise_right_shift")
SPECIAL["__eq__"] = lambda s, x, other: s.do("eq", x, other)
SPECIAL["__ne__"] = lambda s, x, other: s.do("ne", x, other)
SPECIAL["__floordiv__"] = lambda s, x, other: s.do("floor_divide", x, other)
SPECIAL["__rsub__"] = lambda s, x, other: s.do("rsub", x, other)
SPECIAL["__invert__"] = lambda s, x: s.do("bitwise_not", x)
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


@special("stft")
def _stft(s: Steps, *args: Any, **named: Any) -> Tensor:
    """Signals are padded before the operator sees them, as PyTorch's function does."""
    given = arguments_of(s.function, args, named)
    x, n_fft, half = given["input"], given["n_fft"], given["n_fft"] // 2
    if given["center"]:
        lead = 3 - x._array.ndim
        for _ in range(lead):
            x = s.do("unsqueeze", x, 0)
        x = s.do("pad", x, [half, half], given["pad_mode"])
        for _ in range(lead):
            x = s.do("squeeze", x, 0)
    rest = [given[name] for name in ("normalized", "onesided", "return_complex", "align_to_window")]
    return s.do("stft", x, n_fft, given["hop_length"], given["win_length"], given["window"], *rest)
