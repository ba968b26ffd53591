"""Calls of kernels past NumPy's preparations give what the ufunc gives, whatever the operands look like."""

import sys

import numpy as np
import pytest

from flambeau._backend.cpu import cpu
from flambeau._kernel.folds.reduce import extremum_rows, fold_rows
from flambeau._kernel.folds.rows import row_kernel
from flambeau._kernel.native.direct import address_function
from flambeau._ops.folds.softmax import _forward

TYPES = ("f32", "f32")
SOFTMAX = row_kernel("softmax", _forward(False, "f32"), ("n", "n"), 1)
CUBE = np.arange(6 * 4 * 8, dtype=np.float32).reshape(6, 4, 8) / 100


@pytest.fixture(scope="module")
def pair():
    return cpu.kernel(SOFTMAX, TYPES, stream=False), cpu.small(SOFTMAX, TYPES, stream=False)


VIEWS = [
    CUBE, CUBE[0], CUBE[0, 0], CUBE[:, 0], CUBE[:, :, 0], CUBE[0].T, CUBE[::2], CUBE[0, :, ::2], CUBE[0, 0, ::-1],
    CUBE.transpose(2, 0, 1), np.broadcast_to(CUBE[0, 0], (3, 8)), CUBE[:0], CUBE[0, :, :0], CUBE[:1, :1, :1],
]  # fmt: skip


@pytest.mark.parametrize("x", VIEWS, ids=lambda x: f"{x.shape}{x.strides}")
def test_equals_the_ufunc(pair, x):
    slow, quick = pair
    for order in "CF":
        wanted, made = (np.full(x.shape, 9, np.float32, order=order) for _ in range(2))
        slow(x, wanted)
        assert quick(x, made) is made
        np.testing.assert_array_equal(made, wanted)


def test_folds_and_broadcasts():
    slow, quick = (get(fold_rows, TYPES, fold="sum", how=None) for get in (cpu.kernel, cpu.small))
    for shape in [(4, 6), (3, 4, 6)]:  # the second result is larger than the loop
        wanted, made = np.empty(shape[:-1], np.float32), np.empty((2, *shape[:-1]), np.float32)
        x = CUBE.reshape(-1)[: np.prod(shape)].reshape(shape)
        slow(x, wanted)
        quick(x, made)
        np.testing.assert_array_equal(made, np.broadcast_to(wanted, made.shape))


def test_operands_without_loop_dimensions_and_two_results():
    types = ("f32", "f32", "i64")
    results = []
    for get in (cpu.kernel, cpu.small):
        outs = [np.empty(4, d) for d in (np.float32, np.int64)]
        get(extremum_rows, types, sign=1)(CUBE[0], *outs)
        results.append(outs)
    np.testing.assert_array_equal(results[0], results[1])


def test_operands_that_do_not_fit(pair):
    x = np.ones((4, 8), np.float32)
    for out in (np.empty((3, 8), np.float32), np.empty((4, 9), np.float32)):
        with pytest.raises(ValueError):
            pair[1](x, out)
    for operands in ((), (x, 3), (x, x, x)):
        with pytest.raises(TypeError):
            pair[1](*operands)
    fixed = np.empty((4, 8), np.float32)
    fixed.flags.writeable = False
    with pytest.raises(ValueError):
        pair[1](x, fixed)


def test_other_dtypes_go_through_the_ufunc(pair):
    made = np.empty((4, 8), np.float64)
    pair[1](np.ones((4, 8), np.float16), made)
    np.testing.assert_allclose(made, 0.125)


def test_references_are_balanced(pair):
    x, out = np.ones((4, 8), np.float32), np.empty((4, 8), np.float32)
    before = sys.getrefcount(x), sys.getrefcount(out)
    for _ in range(100):
        pair[1](x, out)
    assert (sys.getrefcount(x), sys.getrefcount(out)) == before


def test_address():
    address = address_function()
    assert address(CUBE[1:, 2]) == CUBE[1:, 2].ctypes.data
    assert address(CUBE.view(np.recarray)) == CUBE.ctypes.data
    with pytest.raises(AttributeError):
        address(3)
