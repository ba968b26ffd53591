"""Several kernels in one call: operands, extents and strides reach each of them as they should."""

import numpy as np
import pytest

from flambeau._backend.affine import plan
from flambeau._backend.cpu import cpu
from flambeau._core.dtypes import float32, float64
from flambeau._kernel.compose import composed
from flambeau._kernel.sums import sum_columns


@pytest.fixture(scope="module")
def both_sums():
    """Sums of the rows and of the columns of a matrix."""
    sums = cpu.kernel(sum_columns, ("f32", "f32"), how=None)
    calls = [(sums, [(0, "mn"), (1, "n")]), (sums, [(0, "nm"), (2, "m")])]
    return composed("both_sums", "(m,n)->(n),(m)", ("f32",), ("f32", "f32"), calls)


GRID = np.arange(12 * 20, dtype=np.float32).reshape(12, 20) % 17


@pytest.mark.parametrize("x", [GRID, GRID.T, GRID[::2, ::-3], GRID[:1], GRID[:, :1]], ids=lambda x: str(x.shape))
def test_operands_with_strides(both_sums, x):
    below, beside = np.empty(x.shape[1], np.float32), np.empty(x.shape[0], np.float32)
    both_sums(x, below, beside)
    np.testing.assert_array_equal(below, x.sum(0))
    np.testing.assert_array_equal(beside, x.sum(1))


def test_batches_go_through_the_ufunc(both_sums):
    x = np.stack([GRID, GRID + 1, GRID * 2])[:, None]
    below, beside = np.empty((3, 2, 20), np.float32), np.empty((3, 2, 12), np.float32)
    both_sums(np.broadcast_to(x, (3, 2, 12, 20)), below, beside)
    np.testing.assert_array_equal(below, np.broadcast_to(x.sum(2), (3, 2, 20)))
    np.testing.assert_array_equal(beside, np.broadcast_to(x.sum(3), (3, 2, 12)))


def test_results_of_another_size(both_sums):
    with pytest.raises(ValueError, match="mismatch"):
        both_sums(GRID, np.empty(19, np.float32), np.empty(12, np.float32))


@pytest.mark.parametrize("d", [float32, float64])
@pytest.mark.parametrize(
    "m, k, n", [(2, 2, 8), (5, 7, 9), (33, 16, 31), (40, 300, 17), (1, 5, 9), (4, 1, 8), (4, 9, 3)]
)
@pytest.mark.parametrize("layout", ["plain", "turned", "sparse"])
def test_affine_maps(d, m, k, n, layout):
    """Forward and backward in one call each against NumPy's products."""
    generator = np.random.default_rng(m * n)
    x, weight, bias, g = (generator.standard_normal(s).astype(d.numpy) for s in ((m, k), (n, k), (n,), (m, n)))
    if layout == "turned":
        x, weight = np.asfortranarray(x), np.asfortranarray(weight)
    elif layout == "sparse":
        x, bias = np.repeat(x, 2, 1)[:, ::2], np.repeat(bias, 3)[::3]
    tolerance = {"rtol": 1e-4 if d is float32 else 1e-12, "atol": 1e-4 if d is float32 else 1e-12}
    affine = plan((m, k), (n, k), d, True)
    np.testing.assert_allclose(affine.forward(x, weight, bias), x @ weight.T + bias, **tolerance)
    with pytest.raises(ValueError):
        affine.forward(x, weight, np.zeros(n + 1, d.numpy))
    if m > 1 and n > 1:
        made = plan((m, k), (n, k), d, False).forward(x, weight, None)
        np.testing.assert_allclose(made, x @ weight.T, **tolerance)
    suits = m > 1 and k > 1 and n >= 8  # other gradients are those of vectors, or have few columns to add up
    wanted = g @ weight, g.sum(0), g.T @ x
    for left, right, biased in ((x, weight, True), (x, None, True), (None, weight, False), (None, None, True)):
        made = affine.backward(g, left, right, biased)
        assert (made is not None) == suits
        for have, value, asked in zip(made or (), wanted, (right is not None, biased, left is not None)):
            assert (have is not None) == asked
            if asked:
                np.testing.assert_allclose(have, value, **tolerance)


def test_operands_that_affine_maps_are_not_for():
    assert plan((2, 3), (4, 5), float32, True) is None and plan((2, 3, 4), (5, 4), float32, True) is None
    assert plan((0, 3), (4, 3), float32, True) is None and plan((2, 0), (4, 0), float32, True) is None
    assert plan((512, 512), (512, 512), float32, True) is None
