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


@pytest.mark.parametrize("rows", [1, 3, 7])
@pytest.mark.parametrize("channels", [1, 5, 16])
@pytest.mark.parametrize("window", [(1, 1), (2, 3), (3, 1)])
@pytest.mark.parametrize("step", [1, 2])
def test_window_products(step, window, channels, rows):
    columns, (down, across), (height, width) = lanes.columns("f32"), window, (3, 7)
    random = np.random.default_rng(channels)
    x = random.standard_normal((2, step * height + 2 * down, step * width + 2 * across, channels)).astype(np.float32)
    weights = random.standard_normal((2, 3, down * across * channels + 1, columns)).astype(np.float32)
    grid, shape = np.empty((height, width), np.int8), np.empty(window, np.int8)
    for dilation in (1, 2):
        numbers = np.array([step, step, dilation, dilation, channels])
        out = np.empty((2, height * width, 3 * columns), np.float32)
        made = lanes.window_products("f32", rows)(x, grid, shape, numbers, weights, out)
        laid = np.stack([
            x[:, a * dilation : a * dilation + step * height : step, b * dilation : b * dilation + step * width : step]
            for a in range(down) for b in range(across)
        ], 3)  # fmt: skip
        laid = laid.reshape(2, height * width, -1).astype(np.float64)
        wanted = np.einsum("btk,bqko->btqo", laid, weights[:, :, :-1].astype(np.float64)) + weights[:, None, :, -1]
        np.testing.assert_allclose(made, wanted.reshape(made.shape), rtol=1e-4, atol=1e-5)
