"""Fourier transforms by our own kernels: all kinds, lengths and layouts against NumPy in double precision."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau._backend import fourier
from flambeau._backend.fourier import COMPLEX, HALF, REAL, REAL_PART, WHOLE

SHAPES = [(64, 128), (17, 420), (9, 2100), (3, 40, 256), (33, 250), (129, 96), (1000, 8), (2, 3, 24, 48)]
TYPES = [(np.float32, np.complex64, 2e-6), (np.float64, np.complex128, 4e-15)]


@pytest.fixture(params=[1, 2])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def check(made, wanted, tolerance: float) -> None:
    assert made is not None and made.shape == wanted.shape
    np.testing.assert_allclose(made, wanted, rtol=0, atol=tolerance * np.abs(wanted).max())


@pytest.mark.parametrize(("real", "whole", "tolerance"), TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_rows(shape, real, whole, tolerance, threads):
    rng = np.random.default_rng(0)
    n, dim = shape[-1], len(shape) - 1
    x = rng.standard_normal(shape).astype(real)
    z = (x + 1j * rng.standard_normal(shape)).astype(whole)
    half = z[..., : n // 2 + 1]
    double, wide = x.astype(np.float64), z.astype(np.complex128)
    check(fourier.transform(COMPLEX, z, dim, n, False, 1.0), np.fft.fft(wide), tolerance)
    check(fourier.transform(COMPLEX, z, dim, n, True, 1 / n), np.fft.ifft(wide), tolerance)
    check(fourier.transform(REAL_PART, z, dim, n, True, 1 / n), np.fft.ifft(wide).real, tolerance)
    check(fourier.transform(HALF, x, dim, n, False, 1.0), np.fft.rfft(double), tolerance)
    check(fourier.transform(WHOLE, x, dim, n, False, 0.5), np.fft.fft(double) / 2, tolerance)
    if half.size >= fourier.LEAST:
        check(fourier.transform(REAL, half, dim, n, True, 1 / n), np.fft.irfft(wide[..., : n // 2 + 1], n), tolerance)


@pytest.mark.parametrize(("real", "whole", "tolerance"), TYPES)
@pytest.mark.parametrize("shape", [(96, 70), (3, 128, 33), (2, 5, 30, 16), (250, 40)])
def test_columns(shape, real, whole, tolerance, threads):
    rng = np.random.default_rng(0)
    z = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(whole)
    dim = len(shape) - 2
    wide = z.astype(np.complex128)
    check(fourier.transform(COMPLEX, z, dim, shape[dim], False, 1.0), np.fft.fft(wide, axis=dim), tolerance)
    check(
        fourier.transform(COMPLEX, z, dim, shape[dim], True, 1.0), np.fft.ifft(wide, axis=dim) * shape[dim], tolerance
    )


def test_layouts(threads):
    """Rows that overlap, lie apart, or whose elements do."""
    x = np.random.default_rng(0).standard_normal((4, 4096))
    pieces = np.lib.stride_tricks.sliding_window_view(x, 256, axis=-1)[:, ::64]
    check(fourier.transform(HALF, pieces, 2, 256, False, 1.0), np.fft.rfft(pieces), 1e-14)
    apart = np.random.default_rng(0).standard_normal((100, 300))[::2, 7:263]
    check(fourier.transform(HALF, apart, 1, 256, False, 1.0), np.fft.rfft(apart), 1e-14)
    check(fourier.transform(HALF, x.reshape(128, 128).T, 1, 128, False, 1.0), np.fft.rfft(x.reshape(128, 128).T), 1e-14)


@pytest.mark.parametrize("shape", [(64, 11 * 8), (1, 4096), (3, 1 << 16)])
def test_left_to_numpy(shape):
    """Lengths with large prime factors, single rows, rows too long for the caches."""
    x = np.zeros(shape, np.float32)  # of these, one row fills no vector on any CPU
    assert fourier.transform(HALF, x, 1, shape[1], False, 1.0) is None


def test_imaginary_parts_that_cannot_be():
    z = np.random.default_rng(0).standard_normal((64, 65)) + 1j
    check(fourier.transform(REAL, z, 1, 128, True, 1 / 128), np.fft.irfft(z, 128), 1e-14)


def test_gradient_of_whole_spectrum():
    x = torch.randn(16, 256, dtype=torch.float64, requires_grad=True)
    g = torch.randn(16, 256, dtype=torch.complex128)
    torch.fft.fft(x).backward(g)
    np.testing.assert_allclose(x.grad.numpy(), np.fft.ifft(g.numpy()).real * 256, atol=1e-11)
    y = torch.fft.fft(x)
    (first,) = torch.autograd.grad(y, x, y.detach().requires_grad_(), create_graph=True)
    assert first.requires_grad
