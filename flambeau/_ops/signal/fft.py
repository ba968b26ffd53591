"""Fourier transforms: three records over any dimensions, and the functions of `torch.fft` composed on them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..._backend import fourier, threads
from ..._backend.copies import rows_of
from ..._backend.cpu import cpu
from ..._core.allocation import empty
from ..._core.dtypes import COMPLEX, FLOATING, default, dtype, from_numpy_dtype
from ..._core.dtypes import complex64 as single
from ..._core.sizes import wrap_dim
from ..._kernel.loops.ufunc import adopted
from ..._tensor import Tensor
from ..making.creation import check_out_dtype
from ..making.factory import as_dtype, finished
from ..records.batching import along
from ..records.out import into_out, write_out
from ..records.primitive import primitive
from ..records.rules import type_name
from ..records.tangents import linear
from ..registry import ask_foreign, functions, ops, public, relabel

# How a transform is scaled: by nothing, by one over the root of the number of points, by one over that number.
PLAIN, ROOT, MEAN = 0, 1, 2
_FORWARD_NAMES = ("backward", "ortho", "forward")  # NumPy's names of the three, for transforms with exp(-i…)
_INVERSE_NAMES = ("forward", "ortho", "backward")

# -- arrays --------------------------------------------------------------------------------------------------------


def _along(backend: Any, name: str, x: Any, dim: int, scale: str, n: int | None = None) -> Any:
    """One transform along one dimension: ours if there are many of them, or NumPy's, split over the threads."""
    made = _by_kernel(name, x, dim, scale, n or x.shape[dim])
    if made is not None:
        return made
    large = backend is cpu and threads.pay(x.size)
    if backend is cpu and x.size and not large:
        bare = _bare(name, x.dtype, n or x.shape[dim], scale)
        if bare is not None:
            function, factor, given, d, length = bare
            if x.dtype != given:
                x = x.astype(given)
            if dim == x.ndim - 1:
                return function(x, factor, empty((*x.shape[:dim], length), d))
            x = x.swapaxes(dim, -1)
            return function(x, factor, empty((*x.shape[:-1], length), d)).swapaxes(dim, -1)
    function = getattr(backend.xp.fft, name)
    if not large:
        return _transformed(backend.xp, function, x, n, dim, scale, name)
    cut = next((i for i in range(x.ndim) if i != dim and x.shape[i] > 1), None)
    if cut is None:
        return function(x, n, dim, scale)
    n = n or x.shape[dim]
    real = name == "irfft"
    shape = (*x.shape[:dim], n // 2 + 1 if name == "rfft" else n, *x.shape[dim + 1 :])
    wide = x.dtype.itemsize == (16 if x.dtype.kind == "c" else 8)
    made = empty(shape, (np.float64 if wide else np.float32) if real else np.complex128 if wide else np.complex64)
    before = (slice(None),) * cut

    def part(start: int, stop: int) -> None:
        place = (*before, slice(start, stop))
        function(x[place], n, dim, scale, out=made[place])

    threads.over(threads.ranges(x.shape[cut]), part)
    return made


_KINDS = {
    ("fft", True): fourier.COMPLEX, ("ifft", True): fourier.COMPLEX, ("rfft", False): fourier.HALF,
    ("fft", False): fourier.WHOLE, ("irfft", True): fourier.REAL, ("real", True): fourier.REAL_PART,
}  # fmt: skip


def _by_kernel(name: str, x: Any, dim: int, scale: str, n: int) -> Any:
    """A transform by our own kernels, None if they are not for it; "real" is the real part of the inverse one."""
    few = x.size < fourier.LEAST or not isinstance(x, np.ndarray)
    kind = None if few else _KINDS.get((name, x.dtype.kind == "c"))
    if kind is None:
        return None
    inverse = name not in ("fft", "rfft")
    plain = scale == ("forward" if inverse else "backward")
    factor = 1.0 if plain else 1 / math.sqrt(n) if scale == "ortho" else 1 / n
    return fourier.transform(kind, x, dim, n, inverse, factor)


@functools.lru_cache(1024)
def _bare(name: str, given: Any, n: int, scale: str) -> Any:
    """What NumPy's transform along the last dimension is made of, for n points: (function of the array, a factor and the
    result, that factor, dtype of the array, dtype and length of the result); None if it is not there."""
    try:
        from numpy.fft import _pocketfft_umath as made  # type: ignore[attr-defined]  # private
    except ImportError:
        return None
    function = getattr(made, ("rfft_n_odd" if n % 2 else "rfft_n_even") if name == "rfft" else name, None)
    if function is None or given.char not in "fdFD":
        return None
    wide = given.char in "dD"
    real = np.dtype(np.float64 if wide else np.float32)
    whole = np.dtype(np.complex128 if wide else np.complex64)
    plain = scale == ("forward" if name[0] == "i" else "backward")
    factor = np.asarray(
        1 if plain else np.reciprocal(np.sqrt(n, dtype=real) if scale == "ortho" else real.type(n)), real
    )
    types = f"{given.char if name == 'rfft' else whole.char}{real.char}->{real.char if name == 'irfft' else whole.char}"
    return (
        adopted(function, types),
        factor,
        np.dtype(types[0]),
        real if name == "irfft" else whole,
        n // 2 + 1 if name == "rfft" else n,
    )


def _transformed(xp: Any, function: Any, x: Any, n: int | None, dim: int, scale: str, name: str) -> Any:
    if x.size:
        return function(x, n, dim, scale)
    n = n or x.shape[dim]
    shape = (*x.shape[:dim], n // 2 + 1 if name == "rfft" else n, *x.shape[dim + 1 :])
    return xp.zeros(shape, x.real.dtype if name == "irfft" else xp.result_type(x.dtype, xp.complex64))


def _half(shape: Any, dim: int) -> tuple[int, ...]:
    """The shape of the half of a spectrum that determines the whole, if that belongs to real numbers."""
    return (*shape[:dim], shape[dim] // 2 + 1, *shape[dim + 1 :])


def _weighted(g: Tensor, dim: int, n: int, factor: float) -> Tensor:
    """Half a spectrum of n points, with those multiplied that stand for two of the whole."""
    shape = g._array.shape
    weights = np.ones(shape[dim], g.dtype.to_real().numpy)
    weights[1 : 1 + n - shape[dim]] = factor
    column = finished(weights.reshape(-1, *[1] * (len(shape) - dim - 1)), g.dtype.to_real(), 0)
    return g * column.to(g.device)


def _c2c_meta(x: Any, dims: Any, scale: int, forward: bool) -> Any:
    return x.shape, from_numpy_dtype(x.dtype)


@primitive(
    meta=_c2c_meta, grad={"x": lambda g, dims, scale, forward: fft_c2c(g, dims, scale, not forward)},
    batch=along,
    tangent=linear("x"),
    planned=True,
)  # fmt: skip
def fft_c2c(backend: Any, x: Any, dims: tuple[int, ...], scale: int, forward: bool) -> Any:
    names = _FORWARD_NAMES if forward else _INVERSE_NAMES
    for dim in reversed(dims):
        x = _along(backend, "fft" if forward else "ifft", x, dim, names[scale])
    return rows_of(x) if dims else x.copy()


@primitive(
    meta=lambda x, dims, scale: (x.shape, from_numpy_dtype(x.real.dtype)),
    grad={"x": lambda g, dims, scale: fft_r2c(g, dims, scale, False)},
    batch=along,
    tangent=linear("x"),
)  # fmt: skip
def real_of_inverse(backend: Any, x: Any, dims: tuple[int, ...], scale: int) -> Any:
    """The real part of an inverse transform."""
    for dim in reversed(dims[:-1]):
        x = _along(backend, "ifft", x, dim, _INVERSE_NAMES[scale])
    made = _by_kernel("real", x, dims[-1], _INVERSE_NAMES[scale], x.shape[dims[-1]])
    if made is not None:
        return made
    return backend.xp.ascontiguousarray(_along(backend, "ifft", x, dims[-1], _INVERSE_NAMES[scale]).real)


def _r2c_grad(g: Tensor, x_shape: Any, dims: Any, scale: int, onesided: bool) -> Tensor:
    """The real part of the transform back; from half a spectrum it is a real transform of that, each point counted once."""
    if not onesided:
        return real_of_inverse(g, dims, scale)
    n = x_shape[dims[-1]]
    return fft_c2r(_weighted(g, dims[-1], n, 0.5), dims, scale, n)


def _r2c_meta(x: Any, dims: Any, scale: int, onesided: bool) -> Any:
    made = np.result_type(x.dtype, np.complex64)
    return _half(x.shape, dims[-1]) if onesided else x.shape, from_numpy_dtype(made)


@primitive(grad={"x": _r2c_grad}, meta=_r2c_meta, batch=along, tangent=linear("x"), planned=True)
def fft_r2c(backend: Any, x: Any, dims: tuple[int, ...], scale: int, onesided: bool) -> Any:
    names = _FORWARD_NAMES
    made = _along(backend, "rfft" if onesided else "fft", x, dims[-1], names[scale])
    for dim in reversed(dims[:-1]):
        made = _along(backend, "fft", made, dim, names[scale])
    return rows_of(made)


def _c2r_grad(g: Tensor, dims: Any, scale: int, n: int) -> Tensor:
    return _weighted(fft_r2c(g, dims, scale, True), dims[-1], n, 2.0)


def _c2r_meta(x: Any, dims: Any, scale: int, n: int) -> Any:
    shape = list(x.shape)
    shape[dims[-1]] = n
    return tuple(shape), from_numpy_dtype(x.real.dtype)


@primitive(grad={"x": _c2r_grad}, meta=_c2r_meta, batch=along, tangent=linear("x"), planned=True)
def fft_c2r(backend: Any, x: Any, dims: tuple[int, ...], scale: int, n: int) -> Any:
    names = _INVERSE_NAMES
    for dim in reversed(dims[:-1]):
        x = _along(backend, "ifft", x, dim, names[scale])
    return rows_of(_along(backend, "irfft", x, dims[-1], names[scale], n))


# -- arguments -----------------------------------------------------------------------------------------------------


def _scale(norm: Any, forward: bool) -> int:
    if norm is None or norm == "backward":
        return PLAIN if forward else MEAN
    if norm == "ortho":
        return ROOT
    if norm == "forward":
        return MEAN if forward else PLAIN
    if not isinstance(norm, str):
        raise TypeError(f"argument 'norm' must be str, not {type(norm).__name__}")
    raise RuntimeError(f'Invalid normalization mode: "{norm}"')


def promoted(x: Tensor, to_complex: bool = False) -> Tensor:
    """Integers as the default float, real numbers as complex ones if asked to; 16-bit floats are refused."""
    d = x.dtype
    if d.category < FLOATING:
        d = default.float
    if d.itemsize < 4 or d.name == "complex32":
        raise RuntimeError(f"Unsupported dtype {type_name(d)}")
    if to_complex and d.category != COMPLEX:
        d = from_numpy_dtype(np.result_type(d.numpy, single.numpy))
    return x if d is x.dtype else ops.to_dtype(x, d)


def _check_real(name: str, x: Tensor) -> None:
    if x.dtype.category == COMPLEX:
        kind = "real" if name in ("rfft", "ihfft") else "real-valued"
        raise RuntimeError(f"{name.replace('2', 'n')} expects a {kind} input tensor, but got {type_name(x.dtype)}")


def _dim(dim: int, ndim: int) -> int:
    if not ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return wrap_dim(dim, ndim)


def _numbers(name: str, argument: str, value: Any) -> tuple[int, ...]:
    """A number or a sequence of them."""
    given = tuple(value) if isinstance(value, Iterable) else (value,)
    for n in given:
        if isinstance(n, (bool, float)) or not hasattr(n, "__index__"):
            raise TypeError(f"fft_{name}(): argument '{argument}' must be tuple of ints, not {type(value).__name__}")
    return tuple(n.__index__() for n in given)


def _one(name: str, x: Tensor, n: Any, dim: Any) -> tuple[tuple[int, ...] | None, tuple[int, ...]]:
    """The size and the dimension of a transform along one."""
    for value, argument in ((n, "n"), (dim, "dim")):
        if value.__class__ is int or value is None:
            continue
        if isinstance(value, (bool, float)) or not hasattr(value, "__index__"):
            raise TypeError(f"fft_{name}(): argument '{argument}' must be int, not {type(value).__name__}")
    dims = (_dim(dim, x._array.ndim),)
    if n is None:
        return None, dims
    n = n.__index__()
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")
    return (n,), dims


def _several(name: str, x: Tensor, s: Any, dim: Any) -> tuple[tuple[int, ...] | None, tuple[int, ...]]:
    """The sizes (-1: as they are) and the dimensions of a transform along several."""
    ndim = x._array.ndim
    dims = None
    if dim is not None:
        dims = tuple(_dim(d, ndim) for d in _numbers(name, "dim", dim))
        if len(set(dims)) != len(dims):
            raise RuntimeError("FFT dims must be unique")
    if s is None:
        return None, tuple(range(ndim)) if dims is None else dims
    sizes = _numbers(name, "s", s)
    if dims is not None and len(dims) != len(sizes):
        raise RuntimeError("When given, dim and shape arguments must have the same length")
    if len(sizes) > ndim:
        raise RuntimeError(f"Got shape with {len(sizes)} values but input tensor only has {ndim} dimensions.")
    return sizes, tuple(range(ndim - len(sizes), ndim)) if dims is None else dims


def _fitted(x: Tensor, sizes: Any, dims: tuple[int, ...]) -> Tensor:
    """The input cut, or filled up with zeros, to the sizes along the dimensions."""
    shape = x._array.shape
    if sizes is None and 0 not in shape:
        return x
    pads = [0] * (2 * len(shape))
    for n, dim in zip((-1,) * len(dims) if sizes is None else sizes, dims):
        n = shape[dim] if n == -1 else n
        if n < 1:
            raise RuntimeError(f"Invalid number of data points ({n}) specified")
        if n < shape[dim]:
            x = ops.narrow(x, dim, 0, n)
        pads[2 * (len(shape) - 1 - dim) + 1] = max(n - shape[dim], 0)
    return ops.constant_pad_nd(x, pads) if any(pads) else x


# -- the six kinds of transforms, along any dimensions ---------------------------------------------------------------


def _complex(name: str, x: Tensor, sizes: Any, dims: tuple[int, ...], norm: Any) -> Tensor:
    forward = name[0] != "i"
    x = _fitted(promoted(x, to_complex=not dims), sizes, dims)
    scale = _scale(norm, forward)
    if x.dtype.category == COMPLEX:
        return fft_c2c(x, dims, scale, forward)
    made = fft_r2c(x, dims, scale, False)
    made = made if forward else ops.conj(made)
    return made if name in ("fft", "ifft") else relabel(made, "FftC2CBackward0")


def _from_real(name: str, x: Tensor, sizes: Any, dims: tuple[int, ...], norm: Any) -> Tensor:
    """rfft, ihfft: half the spectrum of real numbers."""
    _check_real(name, x)
    forward = name[0] != "i"
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    made = fft_r2c(_fitted(promoted(x), sizes, dims), dims, _scale(norm, forward), True)
    if forward:
        return made
    return ops.conj(made) if len(dims) == 1 else relabel(ops.conj(made), "FftC2CBackward0")


def _to_real(name: str, x: Tensor, sizes: Any, dims: tuple[int, ...], norm: Any) -> Tensor:
    """irfft, hfft: the real numbers that belong to half a spectrum."""
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    forward = name[0] == "h"
    x = promoted(x, to_complex=True)
    n = -1 if sizes is None else sizes[-1]
    n = 2 * (x._array.shape[dims[-1]] - 1) if n == -1 else n
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")
    sizes = (*((-1,) * (len(dims) - 1) if sizes is None else sizes[:-1]), n // 2 + 1)
    x = _fitted(x, sizes, dims)
    return fft_c2r(ops.conj(x) if forward else x, dims, _scale(norm, forward), n)


def _with_out(name: str, run: Callable[..., Tensor], out: Any, *args: Any) -> Tensor:
    if not isinstance(args[0], Tensor):
        raise TypeError(f"fft_{name}(): argument 'input' (position 1) must be Tensor, not {type(args[0]).__name__}")
    if out is None:
        return run(*args)
    if not isinstance(out, Tensor):
        taken = ask_foreign(functions[f"fft.{name}"], args, {"out": out})
        if taken is not NotImplemented:
            return taken
    real = "irfft" in name or name.startswith("hfft")
    if isinstance(out, Tensor) and out.dtype.category != (FLOATING if real else COMPLEX):
        kind = "floating point" if real else "complex"
        got = type_name(out.dtype)
        raise RuntimeError(f"{name} expects a {kind} output tensor, but got {got}")
    return into_out(out, run, args, {})


def _family(name: str, transform: Callable[..., Tensor], doc: str, example: str) -> None:
    """Makes a kind of transform public along one dimension, two and any number of them."""

    def one(
        input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
    ) -> Tensor:
        def run(input: Tensor) -> Tensor:
            return transform(name, input, *_one(name, input, n, dim), norm)

        return run(input) if out is None and isinstance(input, Tensor) else _with_out(name, run, out, input)

    def two(
        input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
    ) -> Tensor:
        def run(input: Tensor) -> Tensor:
            return transform(name + "2", input, *_several(name + "2", input, s, dim), norm)

        return _with_out(name + "2", run, out, input)

    def several(
        input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Tensor | None = None
    ) -> Tensor:
        def run(input: Tensor) -> Tensor:
            return transform(name + "n", input, *_several(name + "n", input, s, dim), norm)

        return _with_out(name + "n", run, out, input)

    one.__doc__ = f"{doc} along a dimension.\n\n    >>> import flambeau as torch\n    {example}\n    "
    two.__doc__, several.__doc__ = f"{doc} along two dimensions.", f"{doc} along several dimensions, by default all."
    for function, ending in ((one, ""), (two, "2"), (several, "n")):
        function.__name__ = function.__qualname__ = "fft_" + name + ending
        public("fft." + name + ending, method=False, planned=True)(function)


_family(
    "fft", _complex, "The discrete Fourier transform",
    ">>> torch.fft.fft(torch.tensor([1.0, 0.0, 0.0]))\n    tensor([1.+0.j, 1.+0.j, 1.+0.j])",
)  # fmt: skip
_family(
    "ifft", _complex, "The inverse of the discrete Fourier transform",
    ">>> torch.fft.ifft(torch.tensor([2.0, 0.0]))\n    tensor([1.-0.j, 1.-0.j])",
)  # fmt: skip
_family(
    "rfft", _from_real, "The half of the Fourier transform of real numbers that determines the whole",
    ">>> torch.fft.rfft(torch.tensor([1.0, 0.0, 0.0]))\n    tensor([1.+0.j, 1.+0.j])",
)  # fmt: skip
_family(
    "irfft", _to_real, "The inverse of `rfft`",
    ">>> torch.fft.irfft(torch.tensor([3.0, 0.0]), n=3)\n    tensor([1., 1., 1.])",
)  # fmt: skip
_family(
    "hfft", _to_real, "The real Fourier transform of a Hermitian signal, of which half is given",
    ">>> torch.fft.hfft(torch.tensor([1.0, 0.0]), n=3)\n    tensor([1., 1., 1.])",
)  # fmt: skip
_family(
    "ihfft", _from_real, "The inverse of `hfft`",
    ">>> torch.fft.ihfft(torch.tensor([3.0, 0.0, 0.0])).real\n    tensor([1., 1.])",
)  # fmt: skip

# -- frequencies ---------------------------------------------------------------------------------------------------


def _frequencies(
    name: str,
    places: Any,
    n: Any,
    d: Any,
    out: Any,
    given: Any,
    layout: Any,
    device: Any,
    requires_grad: bool,
    pin: Any,
) -> Tensor:
    if isinstance(n, (bool, float)) or not hasattr(n, "__index__"):
        raise TypeError(f"fft_{name}(): argument 'n' (position 1) must be int, not {type(n).__name__}")
    chosen: dtype | None = as_dtype(given, name)
    if out is not None:
        check_out_dtype(out, chosen)
        chosen = out.dtype
    chosen = chosen or default.float
    if chosen.category < FLOATING:
        raise RuntimeError(f"{name} requires a floating point or complex dtype")
    n, d = n.__index__(), float(d)
    step = 1.0 / (n * d) if n * d else math.copysign(math.inf, d)
    made = ops.mul(places(n, dtype=chosen, layout=layout, device=device, pin_memory=pin), step)
    if out is not None:
        return write_out(out, made, name)
    return made.requires_grad_() if requires_grad else made


def _both_sides(n: int, **options: Any) -> Tensor:
    """0, 1, …, and then the negative half: …, -2, -1."""
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    half = n // 2
    return ops.cat((ops.arange(n - half, **options), ops.arange(-half, 0, **options)))


@public("fft.fftfreq", method=False)
def fft_fftfreq(
    n: int, d: float = 1.0, *, out: Tensor | None = None, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: Any = False,
) -> Tensor:  # fmt: skip
    """The frequencies of the places of `fft`, for n samples that are d apart.

    >>> import flambeau as torch
    >>> torch.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    return _frequencies("fftfreq", _both_sides, n, d, out, dtype, layout, device, requires_grad, pin_memory)


@public("fft.rfftfreq", method=False)
def fft_rfftfreq(
    n: int, d: float = 1.0, *, out: Tensor | None = None, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: Any = False,
) -> Tensor:  # fmt: skip
    """The frequencies of the places of `rfft`, for n samples that are d apart.

    >>> import flambeau as torch
    >>> torch.fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """

    def places(n: int, **options: Any) -> Tensor:
        return ops.arange(int(n / 2) + 1, **options)

    return _frequencies("rfftfreq", places, n, d, out, dtype, layout, device, requires_grad, pin_memory)


def _rolled(name: str, x: Tensor, dim: Any, places: Callable[[int], int]) -> Tensor:
    shape = x._array.shape
    dims = tuple(range(len(shape))) if dim is None else _numbers(name, "dim", dim)
    return ops.roll(x, tuple(places(shape[wrap_dim(d, len(shape))]) for d in dims), dims)


@public("fft.fftshift", method=False, planned=True)
def fft_fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Moves the frequency zero to the middle.

    >>> import flambeau as torch
    >>> torch.fft.fftshift(torch.tensor([0, 1, 2, -2, -1]))
    tensor([-2, -1,  0,  1,  2])
    """
    return _rolled("fftshift", input, dim, lambda n: n // 2)


@public("fft.ifftshift", method=False, planned=True)
def fft_ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Moves the frequency zero from the middle to the front.

    >>> import flambeau as torch
    >>> torch.fft.ifftshift(torch.tensor([-2, -1, 0, 1, 2]))
    tensor([ 0,  1,  2, -2, -1])
    """
    return _rolled("ifftshift", input, dim, lambda n: (n + 1) // 2)


SCHEMAS = """
fft_ihfft|fft_hfft|fft_rfft|fft_fft|fft_ifft|fft_irfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor  # autocast=cpu:single
fft_ihfft2|fft_hfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor
fft_irfft2|fft_fft2|fft_rfft2|fft_ifft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor  # autocast=cpu:single
fft_ihfftn|fft_hfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor
fft_ifftn|fft_fftn|fft_irfftn|fft_rfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor  # autocast=cpu:single
fft_fftfreq|fft_rfftfreq(int n, float d=1., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
fft_fftshift|fft_ifftshift(Tensor self, int[1]? dim=None) -> Tensor
fft_c2c  # record=_fft_c2c
fft_c2r  # record=_fft_c2r
fft_r2c  # record=_fft_r2c
"""
