"""Window functions: those of `torch.signal.windows`, and the older `torch.hann_window` and its like."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..._core.dtypes import COMPLEX, FLOATING, default, float32, float64
from ..._core.layouts import strided
from ..._core.state import META
from ..._dispatch import backend_of
from ..._tensor import Tensor
from ..making.factory import as_dtype, check_layout, device_bits, finished, memory, number_of, placed
from ..records.casting import cast_array
from ..records.rules import not_implemented
from ..registry import ops, public

# -- torch.signal.windows: compositions, so that they are differentiable down to their points -------------------------


def _options(name: str, M: Any, dtype: Any, layout: Any, device: Any, requires_grad: bool) -> dict[str, Any]:
    """The options of the points of a window, checked."""
    d = default.float if dtype is None else as_dtype(dtype, name)
    if isinstance(M, (bool, float)) or not hasattr(M, "__index__"):
        raise TypeError(f"{name}(): the window length must be int, not {type(M).__name__}")
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not None and layout is not strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if d not in (float32, float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {d}")
    return {"dtype": d, "device": device, "requires_grad": requires_grad}


def _short(M: int, options: dict[str, Any]) -> Tensor:
    """The windows of no and of one point, which are the same for all."""
    return ops.ones((M,), **options)


@public("signal.windows.exponential", method=False)
def window_exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A window that falls exponentially on both sides of its centre.

    >>> import flambeau as torch
    >>> torch.signal.windows.exponential(3)
    tensor([0.3679, 1.0000, 0.3679])
    """
    options = _options("exponential", M, dtype, layout, device, requires_grad)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    if M < 2:
        return _short(M, options)
    if center is None:
        center = (M if not sym else M - 1) / 2.0
    points = ops.linspace(-center / tau, (-center + M - 1) / tau, M, **options)
    return ops.exp(-ops.abs(points))


@public("signal.windows.cosine", method=False)
def window_cosine(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:  # fmt: skip
    """Half a period of the sine.

    >>> import flambeau as torch
    >>> torch.signal.windows.cosine(3)
    tensor([0.5000, 1.0000, 0.5000])
    """
    options = _options("cosine", M, dtype, layout, device, requires_grad)
    if M < 2:
        return _short(M, options)
    step = math.pi / (M if sym else M + 1)
    return ops.sin(ops.linspace(0.5 * step, (M - 0.5) * step, M, **options))


@public("signal.windows.gaussian", method=False)
def window_gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The bell curve with a given standard deviation.

    >>> import flambeau as torch
    >>> torch.signal.windows.gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """
    options = _options("gaussian", M, dtype, layout, device, requires_grad)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    if M < 2:
        return _short(M, options)
    start = -(M if not sym else M - 1) / 2.0
    scale = 1 / (std * math.sqrt(2))
    points = ops.linspace(start * scale, (start + M - 1) * scale, M, **options)
    return ops.exp(-(points**2))


@public("signal.windows.kaiser", method=False)
def window_kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Kaiser's window, made of Bessel functions; `beta` says how narrow it is.

    >>> import flambeau as torch
    >>> torch.signal.windows.kaiser(3, beta=2.0)
    tensor([0.4387, 1.0000, 0.4387])
    """
    options = _options("kaiser", M, dtype, layout, device, requires_grad)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    if M < 2:
        return _short(M, options)
    step = 2.0 * beta / (M if not sym else M - 1)
    # rounding must not take the last point beyond beta, where the root does not exist
    points = ops.linspace(-beta, min(beta, -beta + (M - 1) * step), M, **options)
    height = float(np.i0(float(beta)))
    return ops.i0(ops.sqrt(ops.clamp(beta * beta - points**2, min=0.0))) / height


@public("signal.windows.bartlett", method=False)
def window_bartlett(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:  # fmt: skip
    """A triangle from zero to one and back.

    >>> import flambeau as torch
    >>> torch.signal.windows.bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    options = _options("bartlett", M, dtype, layout, device, requires_grad)
    if M < 2:
        return _short(M, options)
    step = 2 / (M if not sym else M - 1)
    return 1 - ops.abs(ops.linspace(-1, -1 + (M - 1) * step, M, **options))


def _cosines(name: str, M: int, a: Any, sym: bool, *given: Any) -> Tensor:
    """The sum of cosines with alternating signs: a[0] - a[1] cos(x) + a[2] cos(2x) - …"""
    options = _options(name, M, *given)
    if M < 2:
        return _short(M, options)
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    step = 2 * math.pi / (M if not sym else M - 1)
    points = ops.linspace(0, (M - 1) * step, M, **options)
    fixed = {"dtype": options["dtype"], "device": points.device}
    weights = ops.tensor([(-1) ** i * w for i, w in enumerate(a)], **fixed)
    times = ops.arange(weights._array.shape[0], **fixed)
    return ops.sum(ops.unsqueeze(weights, -1) * ops.cos(ops.unsqueeze(times, -1) * points), 0)


@public("signal.windows.general_cosine", method=False)
def window_general_cosine(
    M: int, *, a: Iterable[float], sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A sum of cosines with the weights `a`, their signs alternating.

    >>> import flambeau as torch
    >>> torch.signal.windows.general_cosine(3, a=[0.5, 0.5])
    tensor([0., 1., 0.])
    """
    return _cosines("general_cosine", M, a, sym, dtype, layout, device, requires_grad)


@public("signal.windows.general_hamming", method=False)
def window_general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """alpha - (1 - alpha) cos(x)."""
    return _cosines("general_cosine", M, (alpha, 1.0 - alpha), sym, dtype, layout, device, requires_grad)


def _fixed_cosines(name: str, weights: tuple[float, ...], error_name: str, doc: str) -> None:
    def window(
        M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Tensor:  # fmt: skip
        return _cosines(error_name, M, weights, sym, dtype, layout, device, requires_grad)

    window.__name__ = window.__qualname__ = "window_" + name
    window.__doc__ = doc
    public("signal.windows." + name, method=False)(window)


_fixed_cosines("hann", (0.5, 0.5), "general_cosine", "Hann's window: a raised cosine.")
_fixed_cosines("hamming", (0.54, 0.46), "general_cosine", "Hamming's window: a raised cosine that does not reach zero.")
_fixed_cosines("blackman", (0.42, 0.5, 0.08), "blackman", "Blackman's window: a sum of three cosines.")
_fixed_cosines(
    "nuttall",
    (0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "general_cosine",
    "Nuttall's window: a sum of four cosines.",
)

# -- torch.*_window: leaves, computed in double precision --------------------------------------------------------------


def _window(
    name: str, shape: Callable[[Any, Any, float], Any], length: Any, periodic: bool, dtype: Any, layout: Any, device: Any,
    requires_grad: bool, pin_memory: Any,
) -> Tensor:  # fmt: skip
    """`shape` gets the array module, the places 0, 1, … and the last of them; a periodic window is a cut longer one."""
    if isinstance(length, Tensor):
        length = number_of(length, name, "window_length")
    if isinstance(length, (bool, float)) or not hasattr(length, "__index__"):
        raise TypeError(f"{name}(): argument 'window_length' (position 1) must be int, not {type(length).__name__}")
    d = as_dtype(dtype, name) or default.float
    if layout is not None and layout is not strided:
        raise RuntimeError(f"{name} is not implemented for sparse types, got: {layout}")
    if d.category < FLOATING:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {d}")
    n = length.__index__()
    if n < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={n}")
    if d.category == COMPLEX and n > 1:
        raise not_implemented("arange_cpu", d)
    check_layout(layout, pin_memory)
    k, index = device_bits(device)
    if k & META:
        return finished(memory((n,), d, k), d, k, requires_grad)
    with placed(k, index):
        xp = backend_of(k).xp
        places = xp.arange(n, dtype=np.float64)
        made = xp.ones(n) if n < 2 else shape(xp, places, float(n if periodic else n - 1))
        return finished(cast_array(made, d), d, k, requires_grad)


def _cosine_sum(*weights: float) -> Callable[[Any, Any, float], Any]:
    def shape(xp: Any, places: Any, last: float) -> Any:
        angle = places * (2 * math.pi / last)
        return sum((w * xp.cos(i * angle) for i, w in enumerate(weights) if i), weights[0] + 0 * angle)

    return shape


@public(method=False)
def hann_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: Any = False,
) -> Tensor:  # fmt: skip
    """Hann's window, by default one period of it.

    >>> import flambeau as torch
    >>> torch.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    shape = _cosine_sum(0.5, -0.5)
    return _window("hann_window", shape, window_length, periodic, dtype, layout, device, requires_grad, pin_memory)


@public(method=False)
def hamming_window(
    window_length: int, periodic: bool | None = None, alpha: float | None = None, beta: float | None = None, *,
    dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: Any = False,
) -> Tensor:  # fmt: skip
    """alpha - beta cos(x), by default one period of it.

    >>> import flambeau as torch
    >>> torch.hamming_window(4)
    tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """
    if ((alpha is not None or beta is not None) and periodic is None) or (beta is not None and alpha is None):
        raise TypeError("hamming_window(): alpha needs periodic to be given, and beta needs alpha")
    shape = _cosine_sum(0.54 if alpha is None else alpha, -(0.46 if beta is None else beta))
    periodic = periodic is None or periodic
    return _window("hamming_window", shape, window_length, periodic, dtype, layout, device, requires_grad, pin_memory)


@public(method=False)
def blackman_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: Any = False,
) -> Tensor:  # fmt: skip
    """Blackman's window, by default one period of it."""

    def shape(xp: Any, places: Any, last: float) -> Any:
        return xp.abs(_cosine_sum(0.42, -0.5, 0.08)(xp, places, last))  # rounding must not make the ends negative

    return _window("blackman_window", shape, window_length, periodic, dtype, layout, device, requires_grad, pin_memory)


@public(method=False)
def bartlett_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: Any = False,
) -> Tensor:  # fmt: skip
    """A triangle from zero to one and back, by default one period of it."""

    def shape(xp: Any, places: Any, last: float) -> Any:
        return 1 - xp.abs(2 * places / last - 1)

    return _window("bartlett_window", shape, window_length, periodic, dtype, layout, device, requires_grad, pin_memory)


@public(method=False)
def kaiser_window(
    window_length: int, periodic: bool | None = None, beta: Any = None, *, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, pin_memory: Any = False,
) -> Tensor:  # fmt: skip
    """Kaiser's window, by default one period of it; `beta` says how narrow it is."""
    if beta is not None and periodic is None:
        raise TypeError("kaiser_window(): beta needs periodic to be given")
    width = 12.0 if beta is None else float(number_of(beta, "kaiser_window", "beta"))
    periodic = periodic is None or periodic

    def shape(xp: Any, places: Any, last: float) -> Any:
        return xp.i0(width * xp.sqrt(xp.maximum(1 - (2 * places / last - 1) ** 2, 0))) / np.i0(width)

    return _window("kaiser_window", shape, window_length, periodic, dtype, layout, device, requires_grad, pin_memory)


SCHEMAS = """
hann_window|hamming_window|blackman_window|bartlett_window|kaiser_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
hann_window|hamming_window|blackman_window|bartlett_window|kaiser_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
hamming_window.periodic_alpha(int window_length, bool periodic, float alpha, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
hamming_window.periodic_alpha_beta(int window_length, bool periodic, float alpha, float beta, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
kaiser_window.beta(int window_length, bool periodic, float beta, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
"""
