"""Dimensions moved for folds: views, and copies in tiles."""

import numpy as np
import pytest

import flambeau as torch
from flambeau._ops.folds import folding


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_dimension_to_the_front_and_back(axis):
    x = np.arange(24).reshape(2, 3, 4)
    np.testing.assert_array_equal(folding.to_first(x, axis), np.moveaxis(x, axis, 0))
    np.testing.assert_array_equal(folding.to_last(x, axis), np.moveaxis(x, axis, -1))
    np.testing.assert_array_equal(folding.from_last(folding.to_last(x, axis), axis), x)


@pytest.mark.parametrize("shape", [(1, 3, 5), (2, 64, 64), (2, 200, 333), (3, 1000, 7)])
def test_transposed_in_tiles(shape):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    np.testing.assert_array_equal(folding._transposed(x), x.transpose(0, 2, 1))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_sums_down_columns(dtype):
    """Real and imaginary parts are added up side by side, whatever dimensions go and however the rows lie."""
    real = torch.arange(4 * 6 * 5 * 7, dtype=torch.float64).reshape(4, 6, 5, 7).sin()
    x = torch.complex(real, real.flip(0) * 2).to(dtype)
    views = [x, x[::2], x[:, 1:, ::2], x.transpose(0, 1), x[..., 1:], x[..., ::2], x[..., :1], x.transpose(1, 3)]
    for y in views:
        for dims in ((0,), (1,), (0, 1), (0, 2), (1, 2), (0, 1, 2), (3,), (1, 3)):
            for keepdim in (False, True):
                made = y.sum(dims, keepdim=keepdim)
                parts = torch.complex(y.real.contiguous().sum(dims, keepdim), y.imag.contiguous().sum(dims, keepdim))
                assert made.dtype is dtype and made.shape == parts.shape
                torch.testing.assert_close(made, parts)
                torch.testing.assert_close(y.mean(dims, keepdim=keepdim), made / (y.numel() // made.numel()))


@pytest.mark.parametrize("base", [(1, 1, 1), (4, 1, 1), (1, 5, 1), (1, 1, 6), (4, 5, 1), (1, 5, 6), (4, 1, 6)])
@pytest.mark.parametrize("name", ["sum", "mean", "amax", "prod"])
def test_what_is_repeated_is_folded_once(base, name):
    whole = torch.arange(1.0, 1.0 + np.prod(base)).view(base).expand(4, 5, 6)
    for dim in range(3):
        for keep in (False, True):
            made = getattr(whole, name)(dim, keep)
            exact = getattr(whole.clone().numpy().astype("f8"), {"amax": "max"}.get(name, name))(dim, keepdims=keep)
            np.testing.assert_allclose(made.numpy(), exact, rtol=1e-6)
            assert made.is_contiguous()
            made += 1  # memory of its own
