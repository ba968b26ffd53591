"""The short-time Fourier transform and its inverse, composed of windows over the signal and transforms of them."""

from __future__ import annotations

from typing import Any

from ..._core.dtypes import COMPLEX, FLOATING
from ..._errors.frames import warn_user
from ..._tensor import Tensor
from ..basic import answer
from ..layout.striding import strided
from ..records.batching import leading
from ..records.primitive import primitive
from ..records.shape_rules import dtype_of
from ..records.tangents import linear
from ..records.view_op import view_primitive
from ..registry import ops, public, relabel
from .fft import MEAN, PLAIN, ROOT, fft_c2c, fft_c2r, fft_r2c, promoted


def _pieces_of(g: Tensor, x_shape: Any, hop: int) -> Tensor:
    count, n = x_shape[-2:]
    return frames(ops.narrow(g, -1, 0, (count - 1) * hop + n), n, hop)


@primitive(
    batch=leading,
    meta=lambda x, hop, length: ((*x.shape[:-2], length), dtype_of(x)),
    grad={"x": _pieces_of},
    tangent=linear("x"),
)
def overlap_add(backend: Any, x: Any, hop: int, length: int) -> Any:
    """Overlapping pieces (the rows) added where they lie in a signal of at least their length, one addition for each hop."""
    *lead, count, n = x.shape
    steps = -(-n // hop)
    made = backend.zeros((*lead, -(-length // hop), hop), x.dtype)
    for i in range(steps):
        part = x[..., i * hop : (i + 1) * hop]
        made[..., i : i + count, : part.shape[-1]] += part
    return backend.xp.ascontiguousarray(made.reshape(*lead, -1)[..., :length])


@view_primitive(lambda g, x_shape, size, hop: overlap_add(g, hop, x_shape[-1]), "frames", batch=leading)
def frames(backend: Any, x: Any, size: int, hop: int) -> Any:
    """All pieces of a signal that are `hop` apart, as rows."""
    count = (x.shape[-1] - size) // hop + 1
    return strided(x, (*x.shape[:-1], count, size), (*x.strides[:-1], x.strides[-1] * hop, x.strides[-1]))


def _added(pieces: Tensor, hop: int) -> Tensor:
    count, n = pieces._array.shape[-2:]
    return overlap_add(pieces, hop, n + hop * (count - 1))


def _is_complex(t: Tensor | None) -> bool:
    return t is not None and t.dtype.category == COMPLEX


def _check_signal(x: Tensor, n_fft: int, hop: int, length: int, window: Tensor | None) -> None:
    if x.dtype.category < FLOATING:
        raise RuntimeError("stft: expected a tensor of floating point or complex values")
    if x._array.ndim > 2 or x._array.ndim < 1:
        raise RuntimeError("stft: expected a 1D or 2D tensor")
    size = x._array.shape[-1]
    if not 0 < n_fft <= size:
        raise RuntimeError(f"stft: expected 0 < n_fft < {size}, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(f"stft: expected hop_length > 0, but got hop_length={hop}")
    if not 0 < length <= n_fft:
        raise RuntimeError(f"stft: expected 0 < win_length <= n_fft, but got win_length={length}")
    if window is not None and window._array.shape != (length,):
        raise RuntimeError(
            f"stft: expected a 1D window tensor of size equal to win_length={length}, but got window with size "
            f"{list(window._array.shape)}"
        )


def _full_window(window: Tensor | None, length: int, n_fft: int, like: Tensor) -> Tensor | None:
    """The window in the middle of n_fft places; None if it is one everywhere."""
    if window is None:
        if length == n_fft:
            return None
        window = ops.ones(length, dtype=like.dtype.to_real(), device=like.device)
    if length == n_fft:
        return window
    before = (n_fft - length) // 2
    return ops.constant_pad_nd(window, (before, n_fft - length - before))


def _centred(x: Tensor, n_fft: int, mode: str) -> Tensor:
    shape = x._array.shape
    deep = ops.reshape(x, (*(1,) * (3 - len(shape)), *shape)) if len(shape) < 3 else x
    padded = ops.pad(deep, (n_fft // 2, n_fft // 2), mode)
    return ops.reshape(padded, padded._array.shape[3 - len(shape) :] if len(shape) < 3 else padded._array.shape)


def _frames(x: Tensor, window: Tensor | None, n_fft: int, hop: int, length: int, align: bool) -> Tensor:
    """The pieces of a signal as rows, each times the window."""
    if align and length != n_fft:
        pieces = frames(x, length, hop)
        before = (n_fft - length) // 2
        pieces = pieces if window is None else pieces * window
        return ops.constant_pad_nd(pieces, (before, n_fft - length - before))
    full = _full_window(window, length, n_fft, x)
    pieces = frames(x, n_fft, hop)
    return pieces if full is None else pieces * full


@public()
def stft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Tensor | None = None,
    center: bool = True, pad_mode: str = "reflect", normalized: bool = False, onesided: bool | None = None,
    return_complex: bool | None = None, align_to_window: bool | None = None,
) -> Tensor:  # fmt: skip
    """The spectra of overlapping pieces of a signal: (batch, frequency, piece).

    >>> import flambeau as torch
    >>> torch.stft(torch.ones(8), 4, window=torch.ones(4), return_complex=True).shape
    torch.Size([3, 9])
    """
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    x = _centred(input, n_fft, pad_mode) if center else input
    complex_values = _is_complex(x) or _is_complex(window)
    if return_complex is None:
        if not complex_values:
            raise RuntimeError("stft requires the return_complex parameter be given for real inputs")
        return_complex = True
    elif not return_complex and not complex_values:
        warn_user("stft with return_complex=False is deprecated; use return_complex=True and view_as_real")
    if window is None:
        warn_user(
            "A window was not provided. A rectangular window will be applied, which spreads each frequency; give "
            "torch.hann_window(n_fft), say, or torch.ones(n_fft)."
        )
    _check_signal(x, n_fft, hop, length, window)
    if onesided and complex_values:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    pieces = promoted(_frames(x, window, n_fft, hop, length, bool(align_to_window)))
    scale, dims = ROOT if normalized else PLAIN, (pieces._array.ndim - 1,)
    if complex_values:
        made = fft_c2c(pieces, dims, scale, True)
    else:
        made = fft_r2c(pieces, dims, scale, onesided is None or onesided)
    made = relabel(ops.transpose(made, -2, -1), "TransposeBackward1" if x._array.ndim > 1 else "SqueezeBackward4")
    return made if return_complex else ops.view_as_real(made)


# -- back ----------------------------------------------------------------------------------------------------------


def _check_spectra(
    x: Tensor, n_fft: int, hop: int, length: int, window: Tensor | None, onesided: bool | None, return_complex: bool
) -> bool:
    """Raises what PyTorch raises; says whether half of each spectrum is given."""
    if x.dtype.category != COMPLEX:
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    if not x._array.size:
        raise RuntimeError("istft: input tensor cannot be empty.")
    if x._array.ndim < 2:
        raise IndexError("istft: expected a tensor with 2 or 3 dimensions, but got 1")
    if x._array.ndim > 3:
        raise RuntimeError(f"istft: expected a tensor with 2 or 3 dimensions, but got {x._array.ndim}")
    points = x._array.shape[-2]
    half = points != n_fft if onesided is None else bool(onesided)
    if half and n_fft // 2 + 1 != points:
        raise RuntimeError(
            f"istft: expected the frequency dimension to match n_fft / 2 + 1 when onesided=True, but got {points}"
        )
    if not half and n_fft != points:
        raise RuntimeError(
            f"istft: expected the frequency dimension to match n_fft when onesided=False, but got {points}"
        )
    if not 0 < hop <= length:
        raise RuntimeError("istft: expected 0 < hop_length <= win_length")
    if not 0 < length <= n_fft:
        raise RuntimeError("istft: expected 0 < win_length <= n_fft")
    if window is not None and window._array.shape != (length,):
        raise RuntimeError("istft: Invalid window shape. window has to be 1D and length of `win_length`")
    if return_complex and half:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if not return_complex and _is_complex(window):
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    return half


def _pieces_back(x: Tensor, n_fft: int, scale: int, return_complex: bool, half: bool) -> Tensor:
    rows = ops.transpose(x, -2, -1)
    dims = (rows._array.ndim - 1,)
    if return_complex:
        return fft_c2c(rows, dims, scale, False)
    return fft_c2r(rows if half else ops.narrow(rows, -1, 0, n_fft // 2 + 1), dims, scale, n_fft)


@public()
def istft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Tensor | None = None,
    center: bool = True, normalized: bool = False, onesided: bool | None = None, length: int | None = None,
    return_complex: bool = False,
) -> Tensor:  # fmt: skip
    """The signal that `stft` made the spectra of, by least squares.

    >>> import flambeau as torch
    >>> signal, window = torch.arange(1.0, 9.0), torch.ones(4)
    >>> torch.istft(torch.stft(signal, 4, window=window, return_complex=True), 4, window=window).round()
    tensor([1., 2., 3., 4., 5., 6., 7., 8.])
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    size = n_fft if win_length is None else win_length
    half = _check_spectra(input, n_fft, hop, size, window, onesided, return_complex)
    if window is None:
        warn_user("A window was not provided. A rectangular window will be applied; give the window that stft had.")
        window = ops.ones(size, dtype=input.dtype.to_real(), device=input.device)
    full = _full_window(window, size, n_fft, input)
    assert full is not None  # as there is a window
    pieces = _pieces_back(input, n_fft, ROOT if normalized else MEAN, return_complex, half) * full
    count = pieces._array.shape[-2]
    signal, weight = _added(pieces, hop), _added(ops.expand(full * full, (count, n_fft)), hop)
    there = signal._array.shape[-1]
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else there - start
    part = max(min(end, there) - start, 0)
    signal, weight = ops.narrow(signal, -1, min(start, there), part), ops.narrow(weight, -1, min(start, there), part)
    if not part:
        raise RuntimeError("istft: there is nothing left of the signal")
    if answer(ops.min(ops.abs(weight)) <= 1e-11, False):
        raise RuntimeError("istft: window overlap add min: 1, the windows do not cover the signal")
    signal = signal / weight
    if end > there:
        warn_user(
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail."
        )
        signal = ops.constant_pad_nd(signal, (0, end - there))
    return signal


SCHEMAS = """
stft  # python, autocast=cpu:single
istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False) -> Tensor  # python
"""
