"""Dimensions moved for folds: views, and copies in tiles."""

import numpy as np
import pytest

from flambeau._ops import folding


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
