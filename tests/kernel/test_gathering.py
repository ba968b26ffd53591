"""A long body is written once: operands that lie apart, single values and dense ones give the same bits."""

import itertools

import numpy as np
import pytest

from flambeau._kernel.loops.pointwise import pointwise_ufunc, survey


def polynomial(m, x, y):
    for k in range(1, 12):
        x = x * y + float(k)
    return x


def laid(values, how):
    """The same values, dense, with gaps, backwards or as a single one."""
    if how == "single":
        return np.broadcast_to(values[:1], values.shape)
    if how == "backwards":
        return values[::-1].copy()[::-1]
    apart = np.empty((len(values), 3), values.dtype)
    apart[:, 1] = values
    return apart[:, 1] if how == "apart" else values.copy()


@pytest.mark.parametrize(
    "type, dtype", [("f32", np.float32), ("f64", np.float64), ("c64", np.complex64), ("i64", np.int64)]
)
def test_every_layout_gives_the_same_bits(type, dtype):
    assert survey(polynomial, (type, type))[2] >= 16
    ufunc = pointwise_ufunc("polynomial", polynomial, (type, type), (type,), (type, type))
    for n, (one, other) in itertools.product(
        (1, 7, 256, 257, 600), itertools.product(("dense", "apart", "backwards", "single"), repeat=2)
    ):
        x, y = (laid((np.arange(n) % 7 - shift).astype(dtype), how) for shift, how in ((3, one), (2, other)))
        want = ufunc(x.copy(), y.copy())
        for result in (
            ufunc(x, y),
            ufunc(x, y, out=laid(want * 0, "apart")),
            ufunc(x, y, out=laid(want * 0, "backwards")),
        ):
            np.testing.assert_array_equal(result, want)


def test_results_may_lie_where_operands_do():
    ufunc = pointwise_ufunc("polynomial", polynomial, ("f32", "f32"), ("f32",), ("f32", "f32"))
    for how in ("dense", "apart", "backwards"):
        x = laid(np.linspace(-1, 1, 700, dtype=np.float32), how)
        want = ufunc(x.copy(), np.float32(0.5))
        np.testing.assert_array_equal(ufunc(x, np.float32(0.5), out=x), want)


def test_rare_elements_are_found_in_every_layout():
    ufunc = pointwise_ufunc("sine", lambda m, x: m.sin(x), ("f32",), ("f32",), ("f32",))
    x = np.linspace(-3, 3, 1100, dtype=np.float32)
    x[[0, 300, 1099]] = 1e9, -4e7, 1e30
    want = np.sin(x.astype(np.float64)).astype(np.float32)
    for how in ("dense", "apart", "backwards"):
        np.testing.assert_allclose(ufunc(laid(x, how)), want, atol=2e-7)
