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
