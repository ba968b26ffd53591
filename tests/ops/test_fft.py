"""Fourier transforms, windows and short-time transforms: against NumPy and SciPy, derivatives, arguments, errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy  # its parts are imported when a test names them

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck

KINDS = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
REAL_INPUT = ("rfft", "ihfft")
NORMS = [None, "backward", "ortho", "forward"]


def signal(name: str, *shape: int, dtype=np.float64, seed: int = 0):
    rng = np.random.default_rng(seed)
    real = rng.standard_normal(shape)
    if name.rstrip("2n") in REAL_INPUT:
        return real.astype(dtype)
    return (real + 1j * rng.standard_normal(shape)).astype(np.result_type(dtype, np.complex64))


def close(a, b, tolerance: float = 1e-10) -> None:
    a = a.detach().numpy()
    assert a.dtype.itemsize == b.dtype.itemsize or tolerance > 1e-9
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", KINDS)
def test_one_dimension(name, norm) -> None:
    x = signal(name, 4, 7, 3)
    for n, dim in ((None, 1), (None, -1), (5, 1), (12, 0), (1, 2)):
        expected = getattr(scipy.fft, name)(x, n, dim, norm)
        close(getattr(torch.fft, name)(torch.from_numpy(x), n, dim, norm), expected)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", [k + e for k in KINDS for e in "2n"])
def test_several_dimensions(name, norm) -> None:
    x = signal(name, 4, 7, 3)
    for s, dim in ((None, None), (None, (0, 1)), ((5, 4), None), ((9, 2), (1, 0)), (None, (2, 0))):
        given = {} if dim is None else {"dim": dim}
        axes = {} if dim is None else {"axes": dim}
        expected = getattr(scipy.fft, name)(x, s, norm=norm, **axes)
        close(getattr(torch.fft, name)(torch.from_numpy(x), s, norm=norm, **given), expected)


@pytest.mark.parametrize("name", KINDS)
def test_dtypes(name) -> None:
    single = getattr(torch.fft, name)(torch.from_numpy(signal(name, 6, dtype=np.float32)))
    assert single.dtype is (torch.float32 if name in ("irfft", "hfft") else torch.complex64)
    whole = getattr(torch.fft, name)(torch.arange(6))
    close(whole, getattr(scipy.fft, name)(np.arange(6).astype(np.float32)), 1e-5)
    assert whole.dtype is single.dtype
    with pytest.raises(RuntimeError, match="Unsupported dtype"):
        getattr(torch.fft, name)(torch.ones(4, dtype=torch.float16))


@pytest.mark.parametrize("name", KINDS)
def test_large_arrays_are_split(name) -> None:
    x = signal(name, 3, 2, 1 << 16, dtype=np.float32)
    close(getattr(torch.fft, name)(torch.from_numpy(x)), getattr(scipy.fft, name)(x), 2e-2)
    turned = x.transpose(2, 1, 0)
    close(getattr(torch.fft, name)(torch.from_numpy(turned), dim=0), getattr(scipy.fft, name)(turned, axis=0), 2e-2)


@pytest.mark.parametrize("norm", ["backward", "ortho"])
@pytest.mark.parametrize("name", [k + e for k in KINDS for e in ("", "n")])
def test_derivatives(name, norm) -> None:
    for last in (4, 5):
        x = torch.from_numpy(signal(name, 2, last)).requires_grad_()
        for options in ({}, {"s": (3, 5)} if name[-1] == "n" else {"n": 6}):
            function = getattr(torch.fft, name)
            assert gradcheck(lambda x: function(x, norm=norm, **options), (x,))
            assert gradgradcheck(lambda x: function(x, norm=norm, **options), (x,))


def test_derivative_of_real_input_of_a_complex_transform() -> None:
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    for name in ("fft", "ifft", "fftn", "ifft2", "irfft", "hfft"):
        assert gradcheck(getattr(torch.fft, name), (x,))
        assert gradgradcheck(getattr(torch.fft, name), (x,))


def test_under_vmap() -> None:
    x = torch.randn(5, 4, 6)
    for function in (torch.fft.fft, torch.fft.rfftn, torch.fft.irfft2):
        each = torch.stack([function(x[:, i]) for i in range(4)])
        np.testing.assert_allclose(torch.vmap(function, in_dims=1)(x).numpy(), each.numpy(), atol=1e-5)


def test_out_argument() -> None:
    x = torch.randn(4, 6)
    out = torch.empty(0, dtype=torch.complex128)
    assert torch.fft.fft(x, out=out) is out and out.shape == (4, 6)
    for name in KINDS:
        real = name in ("irfft", "hfft")
        with pytest.raises(RuntimeError, match="output tensor"):
            getattr(torch.fft, name)(x, out=torch.empty(0, dtype=torch.complex64 if real else torch.float32))


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (IndexError, lambda x: torch.fft.fft(torch.tensor(1.0))),
        (IndexError, lambda x: torch.fft.fft(x, dim=2)),
        (IndexError, lambda x: torch.fft.fft2(torch.ones(3))),
        (RuntimeError, lambda x: torch.fft.fft(torch.ones(3, 0))),
        (RuntimeError, lambda x: torch.fft.fft(x, n=-1)),
        (RuntimeError, lambda x: torch.fft.irfft(torch.ones(2, 1))),
        (RuntimeError, lambda x: torch.fft.fft(x, norm="bad")),
        (RuntimeError, lambda x: torch.fft.rfft(x + 0j)),
        (RuntimeError, lambda x: torch.fft.ihfftn(x + 0j)),
        (RuntimeError, lambda x: torch.fft.rfftn(x, dim=())),
        (RuntimeError, lambda x: torch.fft.fftn(x, dim=(0, -2))),
        (RuntimeError, lambda x: torch.fft.fftn(x, s=(2,), dim=(0, 1))),
        (RuntimeError, lambda x: torch.fft.fftn(x, s=(2, 3, 4))),
        (TypeError, lambda x: torch.fft.fft(x, n=3.0)),
        (TypeError, lambda x: torch.fft.fft([1.0])),
        (RuntimeError, lambda x: torch.fft.fftfreq(4, dtype=torch.int64)),
        (RuntimeError, lambda x: torch.fft.fftfreq(-1)),
    ],
)
def test_errors(error, call) -> None:
    with pytest.raises(error):
        call(torch.ones(2, 3))


def test_frequencies_and_shifts() -> None:
    for n in (1, 2, 5, 8):
        close(torch.fft.fftfreq(n, 0.3, dtype=torch.float64), np.fft.fftfreq(n, 0.3))
        close(torch.fft.rfftfreq(n, 0.3, dtype=torch.float64), np.fft.rfftfreq(n, 0.3))
        x = np.arange(3.0 * n).reshape(3, n)
        for dim in (None, 1, (0,)):
            close(torch.fft.fftshift(torch.from_numpy(x), dim), np.fft.fftshift(x, dim))
            close(torch.fft.ifftshift(torch.from_numpy(x), dim), np.fft.ifftshift(x, dim))


# -- windows -------------------------------------------------------------------------------------------------------

WINDOWS = {
    "bartlett": {}, "blackman": {}, "cosine": {}, "exponential": {"tau": 2.0}, "gaussian": {"std": 1.5}, "hann": {},
    "hamming": {}, "kaiser": {"beta": 8.0}, "nuttall": {}, "general_hamming": {"alpha": 0.6},
    "general_cosine": {"a": [0.4, 0.5, 0.1]},
}  # fmt: skip


@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name, sym) -> None:
    for n in (0, 1, 2, 7, 8):
        made = getattr(torch.signal.windows, name)(n, sym=sym, dtype=torch.float64, **WINDOWS[name])
        close(made, getattr(scipy.signal.windows, name)(n, sym=sym, **WINDOWS[name]))
    for options in ({"dtype": torch.float16}, {"dtype": torch.int64}):
        with pytest.raises(ValueError, match="expects float32 or float64"):
            getattr(torch.signal.windows, name)(4, **options, **WINDOWS[name])
    with pytest.raises(ValueError, match="non-negative"):
        getattr(torch.signal.windows, name)(-1, **WINDOWS[name])
    assert getattr(torch.signal.windows, name)(4, requires_grad=True, **WINDOWS[name]).requires_grad


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hann", "kaiser"])
def test_old_windows(name, periodic) -> None:
    function = getattr(torch, name + "_window")
    extra = {"beta": 12.0} if name == "kaiser" else {}
    for n in (0, 1, 2, 7, 8):
        close(
            function(n, periodic, dtype=torch.float64),
            getattr(scipy.signal.windows, name)(n, sym=not periodic, **extra),
        )
    assert function(5, dtype=torch.bfloat16).dtype is torch.bfloat16
    assert function(5, requires_grad=True).is_leaf
    for error, bad in ((RuntimeError, -1), (TypeError, 5.0)):
        with pytest.raises(error):
            function(bad)
    with pytest.raises(RuntimeError):
        function(5, dtype=torch.int64)


# -- short-time transforms -----------------------------------------------------------------------------------------


def frames(x, window, n_fft: int, hop: int):
    count = (x.shape[-1] - n_fft) // hop + 1
    return np.stack([x[..., i * hop : i * hop + n_fft] * window for i in range(count)], -2)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("complex_signal", [False, True])
def test_stft_and_back(complex_signal, normalized) -> None:
    x = signal("fft" if complex_signal else "rfft", 2, 41)
    window = np.hanning(8)[1:-1]
    full = np.pad(window, (1, 1))
    options = {"hop_length": 2, "win_length": 6, "window": torch.from_numpy(window), "normalized": normalized}
    norm = "ortho" if normalized else None
    made = torch.stft(torch.from_numpy(x), 8, return_complex=True, **options)
    padded = np.pad(x, ((0, 0), (4, 4)), mode="reflect")
    transform = scipy.fft.fft if complex_signal else scipy.fft.rfft
    close(made, transform(frames(padded, full, 8, 2), norm=norm).swapaxes(-1, -2))
    back = torch.istft(made, 8, return_complex=complex_signal, length=41, **options)
    close(back[..., :40], x[..., :40])
    whole = torch.stft(torch.from_numpy(x), 8, center=False, onesided=False, return_complex=True, **options)
    close(whole, scipy.fft.fft(frames(x, full, 8, 2), norm=norm).swapaxes(-1, -2))


def test_stft_parts_and_alignment() -> None:
    x, window = torch.randn(20, dtype=torch.float64), torch.rand(5, dtype=torch.float64)
    made = torch.stft(x, 8, 3, 5, window, center=False, align_to_window=True, return_complex=True)
    pieces = np.pad(frames(x.numpy(), window.numpy(), 5, 3), ((0, 0), (1, 2)))
    close(made, np.fft.rfft(pieces).T)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parts = torch.stft(x, 8, 3, 5, window, center=False, align_to_window=True, return_complex=False)
    assert caught and torch.equal(torch.view_as_complex(parts), made)


def test_stft_derivatives() -> None:
    x = torch.randn(2, 12, dtype=torch.float64, requires_grad=True)
    window = torch.rand(4, dtype=torch.float64).add(0.5).requires_grad_()

    def there(x, window):
        return torch.stft(x, 4, window=window, return_complex=True)

    assert gradcheck(there, (x, window))
    assert gradgradcheck(there, (x, window))
    spectra = there(x, window).detach().requires_grad_()
    assert gradcheck(lambda s, w: torch.istft(s, 4, window=w), (spectra, window))


@pytest.mark.filterwarnings("ignore:A window was not provided")
@pytest.mark.parametrize(
    ("error", "call"),
    [
        (RuntimeError, lambda x, s: torch.stft(x, 8)),
        (RuntimeError, lambda x, s: torch.stft(x, 8, hop_length=0, return_complex=True)),
        (RuntimeError, lambda x, s: torch.stft(x, 8, win_length=9, return_complex=True)),
        (RuntimeError, lambda x, s: torch.stft(x, 41, center=False, return_complex=True)),
        (RuntimeError, lambda x, s: torch.stft(x, 8, window=torch.ones(4), return_complex=True)),
        (RuntimeError, lambda x, s: torch.stft(x, 8, align_to_window=True, return_complex=True)),
        (RuntimeError, lambda x, s: torch.stft(x + 0j, 8, onesided=True)),
        (RuntimeError, lambda x, s: torch.stft(x[None], 8, return_complex=True)),
        (RuntimeError, lambda x, s: torch.istft(x, 8)),
        (RuntimeError, lambda x, s: torch.istft(s, 10)),
        (RuntimeError, lambda x, s: torch.istft(s, 8, hop_length=9)),
        (RuntimeError, lambda x, s: torch.istft(s, 8, window=torch.zeros(8))),
        (RuntimeError, lambda x, s: torch.istft(s, 8, length=0)),
        (RuntimeError, lambda x, s: torch.istft(s, 8, onesided=False)),
        (IndexError, lambda x, s: torch.istft(s[0, 0], 8)),
    ],
)
def test_stft_errors(error, call) -> None:
    x = torch.ones(2, 40)
    with pytest.raises(error):
        call(x, torch.stft(x, 8, return_complex=True))


@pytest.mark.parametrize("name", ["rfft2", "rfftn", "rfft", "ihfft"])
def test_real_transforms_refuse_complex_numbers(name):
    with pytest.raises(RuntimeError, match=r"expects a real(-valued)? input tensor, but got ComplexFloat"):
        getattr(torch.fft, name)(torch.ones(2, 2) + 0j)


def test_operators_of_graphs():
    aten, x = torch.ops.aten, torch.randn(2, 3, 8)
    half = aten._fft_r2c(x, [-1], 0, True)
    torch.testing.assert_close(half, torch.fft.rfft(x))
    torch.testing.assert_close(aten._fft_c2r(half, [2], 2, 8), x)
    torch.testing.assert_close(aten._fft_c2c(half, [0, 1], 1, False), torch.fft.ifftn(half, dim=(0, 1), norm="ortho"))
