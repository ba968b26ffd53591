"""Products over channels that lie side by side."""

import numpy as np
import pytest

from flambeau._kernel.images import lanes


@pytest.mark.parametrize("depth", [1, 3, 4, 7, 18, 33])
@pytest.mark.parametrize("positions", [1, 5, 13, 30])
def test_position_products(positions, depth):
    columns, rows = lanes.columns("f32"), lanes.position_rows(positions)
    random = np.random.default_rng(depth)
    a = random.standard_normal((2, positions, depth + 5)).astype(np.float32)
    weights = random.standard_normal((2, 3, depth, columns)).astype(np.float32)
    made = lanes.position_products("f32", rows)(a, weights, np.empty((2, positions, 3 * columns), np.float32))
    wanted = np.einsum("bpk,bqko->bpqo", a[..., :depth].astype(np.float64), weights.astype(np.float64))
    np.testing.assert_allclose(made, wanted.reshape(made.shape), rtol=1e-4, atol=1e-5)


def images_and_windows(step, window, channels, grid):
    """Two images, and for each dilation the numbers that kernels are given and the windows laid out."""
    (down, across), (height, width), random = window, grid, np.random.default_rng(channels)
    x = random.standard_normal((2, step * height + 2 * down, step * width + 2 * across, channels)).astype(np.float32)
    found = []
    for dilation in (1, 2):
        laid = np.stack([
            x[:, a * dilation : a * dilation + step * height : step, b * dilation : b * dilation + step * width : step]
            for a in range(down) for b in range(across)
        ], 3)  # fmt: skip
        numbers = np.array([step, step, dilation, dilation, channels])
        found.append((numbers, laid.reshape(2, height * width, -1).astype(np.float64)))
    return x, found


@pytest.mark.parametrize("rows", [1, 3, 7])
@pytest.mark.parametrize("channels", [1, 5, 16])
@pytest.mark.parametrize("window", [(1, 1), (2, 3), (3, 1)])
@pytest.mark.parametrize("step", [1, 2])
def test_window_products(step, window, channels, rows):
    columns, (down, across), (height, width) = lanes.columns("f32"), window, (3, 7)
    x, found = images_and_windows(step, window, channels, (height, width))
    weights = np.random.default_rng(0).standard_normal((2, 3, down * across * channels + 1, columns)).astype(np.float32)
    grid, shape = np.empty((height, width), np.int8), np.empty(window, np.int8)
    for numbers, laid in found:
        out = np.empty((2, height * width, 3 * columns), np.float32)
        made = lanes.window_products("f32", rows)(x, grid, shape, numbers, weights, out)
        wanted = np.einsum("btk,bqko->btqo", laid, weights[:, :, :-1].astype(np.float64)) + weights[:, None, :, -1]
        np.testing.assert_allclose(made, wanted.reshape(made.shape), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("window", [(1, 1), (2, 3)])
@pytest.mark.parametrize("step", [1, 2])
def test_window_sums(step, window):
    columns, (down, across), (height, width), rows = lanes.columns("f32"), window, (3, 7), 5
    x, found = images_and_windows(step, window, 2 * columns, (height, width))
    a = np.random.default_rng(0).standard_normal((2, height * width, 2 * rows + columns)).astype(np.float32)
    grid, shape = np.empty((height, width), np.int8), np.empty(window, np.int8)
    for numbers, laid in found:
        out = np.ones((2 * rows, down * across * 2 * columns), np.float32)
        wanted = np.einsum("bto,btk->ok", a[..., : 2 * rows].astype(np.float64), laid)
        for adds in (0, 1):
            lanes.window_sums("f32", rows)(a, x, grid, shape, numbers, np.array(adds), out)
            np.testing.assert_allclose(out, (1 + adds) * wanted, rtol=1e-4, atol=1e-4)
