"""Reductions and running folds: layouts, sizes on both sides of the splitting limits, accuracy, edges, gradients."""

import math

import numpy as np
import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck

INF, NAN = math.inf, math.nan
SHAPES = [(), (5,), (3, 4), (2, 3, 4, 5), (1, 3, 1), (600, 700), (2, 300, 400), (300000,), (60000, 3), (3, 60000)]


def array(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def layouts(shape):
    """The same values in row-major, reversed and strided memory."""
    x = array(shape)
    yield x
    if x.ndim:
        yield np.asfortranarray(x)
        yield np.repeat(x, 2, -1)[..., ::2]


def choices(ndim):
    yield from ((d,) for d in range(ndim))
    yield tuple(range(ndim))
    if ndim == 4:
        yield from ((0, 2, 3), (1, 3), (0, 1), (0, 3))


def double(*shape, seed=0):
    values = np.random.default_rng(seed).standard_normal(shape)
    return torch.from_numpy(values).requires_grad_()


# -- values ------------------------------------------------------------------------------------------------------

REFERENCES = {
    "sum": lambda x, d: x.sum(d), "mean": lambda x, d: x.mean(d), "amax": lambda x, d: x.max(d),
    "amin": lambda x, d: x.min(d), "nansum": lambda x, d: x.sum(d),
    "std": lambda x, d: x.std(d, ddof=1 if math.prod(x.shape[i] for i in d) > 1 else 0),
    "logsumexp": lambda x, d: np.log(np.exp(x).sum(d)),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", REFERENCES)
def test_against_double_precision(name, shape):
    for x in layouts(shape):
        for dims in choices(x.ndim):
            if name == "std" and math.prod(x.shape[i] for i in dims) < 2:
                continue
            expected = REFERENCES[name](x.astype(np.float64), dims)
            scale = np.abs(x.astype(np.float64)).sum(dims) if name in ("sum", "nansum") else 1 + np.abs(expected)
            for keepdim in (False, True):
                made = getattr(torch, name)(torch.from_numpy(x), dim=dims, keepdim=keepdim)
                shape_now = np.zeros(x.shape).sum(dims, keepdims=keepdim).shape
                assert made.shape == shape_now
                error = np.abs(made.numpy().reshape(expected.shape).astype(np.float64) - expected)
                assert (error <= 4e-7 * scale + 1e-7).all()


@pytest.mark.parametrize("shape", [s for s in SHAPES if s])
@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_extrema_and_their_places(name, shape):
    for x in layouts(shape):
        for dim in range(x.ndim):
            made = getattr(torch, name)(torch.from_numpy(x), dim)
            kind = name[-3:]
            expected = getattr(np, "arg" + kind)(x, dim)
            assert np.array_equal((made if name.startswith("arg") else made.indices).numpy(), expected)
            if not name.startswith("arg"):
                assert np.array_equal(made.values.numpy(), getattr(np, kind)(x, dim))
        assert int(torch.argmax(torch.from_numpy(x))) == int(x.argmax())


def test_long_sums_keep_their_precision():
    x = np.full(10_000_000, 0.1, np.float32)
    total = float(torch.sum(torch.from_numpy(x)))
    # PyTorch is off by 0.64 to 0.89, as threads cut the row; its order of additions differs between processors
    assert abs(total - 10_000_000 * float(np.float32(0.1))) < 0.64
    offset = array((100_000,)).astype(np.float32) + np.float32(10_000.0)
    assert abs(float(torch.var(torch.from_numpy(offset))) - offset.astype(np.float64).var(ddof=1)) < 1e-5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_summed_wide(dtype):
    x = torch.full((4096,), 1.0, dtype=dtype)
    assert float(x.sum()) == 4096.0
    assert x.sum().dtype is dtype
    assert float(x.reshape(64, 64).mean(0)[0]) == 1.0


def test_integers_are_summed_as_int64():
    x = torch.full((3, 100), 100, dtype=torch.uint8)
    assert x.sum().dtype is torch.int64
    assert int(x.sum()) == 30000
    assert torch.ones(3, dtype=torch.bool).sum().item() == 3
    assert torch.prod(torch.tensor([2, 3], dtype=torch.int32)).dtype is torch.int64
    assert x.sum(dtype=torch.float32).dtype is torch.float32


def test_complex():
    x = (array((20, 30)) + 1j * array((20, 30), 1)).astype(np.complex64)
    t = torch.from_numpy(x)
    for dim in (0, 1):
        assert np.allclose(t.sum(dim).numpy(), x.sum(dim), atol=1e-5)
        assert np.allclose(t.mean(dim).numpy(), x.mean(dim), atol=1e-5)
        assert np.allclose(t.var(dim).numpy(), x.var(dim, ddof=1), atol=1e-5)


# -- NaN, infinities, emptiness -----------------------------------------------------------------------------------


def test_nan_wins_in_extrema():
    x = torch.tensor([[1.0, NAN, 3.0], [4.0, 5.0, 6.0]])
    assert torch.isnan(x.max()) and torch.isnan(x.amin())
    assert x.argmax(1).tolist() == [1, 2]
    assert x.min(1).indices.tolist() == [1, 0]
    assert torch.isnan(x.cummax(1).values[0, 1:]).all()


def test_nan_is_left_out_where_asked():
    x = torch.tensor([1.0, NAN, 3.0])
    assert float(torch.nansum(x)) == 4.0
    assert float(torch.nanmean(x)) == 2.0
    assert torch.isnan(torch.sum(x))


def test_sums_without_nan_in_other_dtypes():
    x = torch.tensor([1.5, NAN, 2.0])
    total = torch.nansum(x[::2], dtype=torch.int64)
    assert total.item() == 3 and total.dtype is torch.int64  # each is cast before it is added: NaN to what the CPU says
    assert torch.nansum(x, dtype=torch.float64).item() == 3.5
    assert torch.nansum(torch.tensor([1, 2]), dtype=torch.int32).dtype is torch.int32


def test_means_without_nan_are_floating():
    with pytest.raises(RuntimeError, match=r"must be either a floating point or complex dtype\. Got: Long"):
        torch.nanmean(torch.tensor([1.5, NAN]), dtype=torch.int64)
    with pytest.raises(RuntimeError, match="expected input to have floating point or complex dtype but got Long"):
        torch.nanmean(torch.tensor([1, 2]), dtype=torch.float32)
    assert torch.nanmean(torch.tensor([1.5, NAN]), dtype=torch.float64).dtype is torch.float64


def test_infinities_in_logsumexp():
    assert float(torch.logsumexp(torch.tensor([-INF, -INF]), 0)) == -INF
    assert float(torch.logsumexp(torch.tensor([INF, 1.0]), 0)) == INF
    assert float(torch.logsumexp(torch.tensor([1000.0, 1000.0]), 0)) == pytest.approx(1000 + math.log(2))
    wide = torch.full((3, 20), -INF)
    assert torch.logsumexp(wide, 0).tolist() == [-INF] * 20


def test_empty_reductions():
    empty = torch.zeros(0, 3)
    assert empty.sum(0).tolist() == [0, 0, 0]
    assert empty.prod(0).tolist() == [1, 1, 1]
    assert torch.isnan(empty.mean())
    assert empty.sum(1).shape == (0,)
    assert bool(empty.all()) and not bool(empty.any())
    assert empty.max(1).values.shape == (0,)
    assert torch.logsumexp(empty, 0).tolist() == [-INF] * 3


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: torch.max(torch.zeros(0)), RuntimeError),
        (lambda: torch.max(torch.zeros(0, 3), 0), IndexError),
        (lambda: torch.amax(torch.zeros(0, 3), 0), IndexError),
        (lambda: torch.argmax(torch.zeros(0)), IndexError),
        (lambda: torch.sum(torch.zeros(2), 1), IndexError),
        (lambda: torch.sum(torch.zeros(2, 2), (0, 0)), RuntimeError),
        (lambda: torch.mean(torch.arange(3)), RuntimeError),
        (lambda: torch.var(torch.arange(3)), RuntimeError),
        (lambda: torch.var(torch.zeros(3), 0, unbiased=True, correction=1), TypeError),
        (lambda: torch.argmax(torch.tensor([True])), RuntimeError),
        (lambda: torch.max(torch.tensor([1j])), NotImplementedError),
        (lambda: torch.prod(torch.zeros(2, 2), (0, 1)), TypeError),
        (lambda: torch.sum([1.0]), TypeError),
        (lambda: torch.softmax(torch.arange(3), 0), RuntimeError),
        (lambda: torch.zeros(2, 3).sum_to_size(3, 3), RuntimeError),
        (lambda: torch.norm(torch.arange(3)), RuntimeError),
        (lambda: torch.cumsum(torch.zeros(3), 1), IndexError),
    ],
)
def test_refusals(call, error):
    with pytest.raises(error):
        call()


def test_named_results_print_as_in_pytorch():
    made = torch.max(torch.tensor([[1.0, 2.0]]), 1)
    assert repr(made) == "torch.return_types.max(\nvalues=tensor([2.]),\nindices=tensor([1]))"
    values, indices = made
    assert values is made.values and indices is made[1]


def test_out_and_axis_names():
    out = torch.empty(0)
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert torch.sum(x, 0, out=out) is out
    assert out.tolist() == [4.0, 6.0]
    assert torch.sum(x, axis=1, keepdims=True).tolist() == [[3.0], [7.0]]
    values, indices = torch.empty(2), torch.empty(2, dtype=torch.int64)
    torch.max(x, 1, out=(values, indices))
    assert values.tolist() == [2.0, 4.0] and indices.tolist() == [1, 1]


@pytest.mark.parametrize("correction", [0, 1, 2.5])
def test_variance_corrections(correction):
    x = array((4, 50))
    made = torch.var(torch.from_numpy(x), 1, correction=correction).numpy()
    expected = ((x - x.mean(1, keepdims=True)) ** 2).sum(1) / (50 - correction)
    assert np.allclose(made, expected, rtol=1e-5)


def test_variance_without_freedom_warns():
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert torch.isnan(torch.var(torch.tensor([1.0])))


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 3, INF, -INF])
def test_norms(p):
    x = array((30, 40))
    made = torch.linalg.vector_norm(torch.from_numpy(x), p, dim=1).numpy()
    assert np.allclose(made, np.linalg.norm(x.astype(np.float64), p, axis=1), rtol=1e-5)


def test_large_values_do_not_overflow_in_a_norm():
    assert float(torch.norm(torch.tensor([3e30, 4e30]))) == pytest.approx(5e30)


def test_renorm_only_shrinks():
    x = torch.tensor([[3.0, 4.0], [0.3, 0.4]])
    made = torch.renorm(x, 2, 0, 1.0)
    assert np.allclose(made.numpy(), [[0.6, 0.8], [0.3, 0.4]], atol=1e-6)


# -- softmax -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 9, 17), (64, 3000), (3000, 64), (2, 40, 50, 60)])
def test_softmax_along_every_dimension(shape):
    for x in layouts(shape):
        wide = x.astype(np.float64)
        for dim in range(x.ndim):
            powers = np.exp(wide - wide.max(dim, keepdims=True))
            expected = powers / powers.sum(dim, keepdims=True)
            t = torch.from_numpy(x)
            assert np.allclose(torch.softmax(t, dim).numpy(), expected, rtol=1e-5, atol=1e-9)
            assert np.allclose(torch.log_softmax(t, dim).numpy(), np.log(expected), rtol=1e-5, atol=1e-5)


def test_softmax_of_infinities():
    assert torch.softmax(torch.tensor([0.0, -INF]), 0).tolist() == [1.0, 0.0]
    assert torch.isnan(torch.softmax(torch.tensor([-INF, -INF]), 0)).all()
    assert torch.softmax(torch.tensor([1e4, 1e4]), 0).tolist() == [0.5, 0.5]


# -- running folds -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(6,), (4, 5), (2, 30, 40), (500, 600)])
def test_running_folds(shape):
    for x in layouts(shape):
        for dim in range(x.ndim):
            t, wide = torch.from_numpy(x), x.astype(np.float64)
            assert np.allclose(torch.cumsum(t, dim).numpy(), wide.cumsum(dim), atol=1e-4)
            assert np.allclose(torch.cumprod(t, dim).numpy(), wide.cumprod(dim), rtol=1e-4, atol=1e-30)
            made = torch.cummax(t, dim)
            assert np.array_equal(made.values.numpy(), np.maximum.accumulate(x, dim))
            assert np.array_equal(np.take_along_axis(x, made.indices.numpy(), dim), made.values.numpy())
            expected = np.logaddexp.accumulate(wide, dim)
            assert np.allclose(torch.logcumsumexp(t, dim).numpy(), expected, rtol=1e-5, atol=1e-5)


def test_the_last_of_equal_extrema_is_kept():
    assert torch.cummax(torch.tensor([1, 3, 3, 2]), 0).indices.tolist() == [0, 1, 2, 2]
    assert torch.cummin(torch.tensor([2, 1, 1]), 0).indices.tolist() == [0, 1, 2]


def test_differences_and_trapezoids():
    x = array((3, 10))
    t = torch.from_numpy(x)
    assert np.allclose(torch.diff(t, n=2).numpy(), np.diff(x, 2), atol=1e-6)
    assert torch.diff(torch.tensor([True, False, False])).tolist() == [True, False]
    points = np.sort(array((10,)))
    made = torch.trapezoid(t, torch.from_numpy(points)).numpy()
    assert np.allclose(made, np.trapezoid(x, points), atol=1e-5)
    for order in (1, 2):
        made = torch.gradient(t, spacing=(torch.from_numpy(points),), dim=1, edge_order=order)[0].numpy()
        assert np.allclose(made, np.gradient(x, points, axis=1, edge_order=order), rtol=1e-3, atol=1e-3)


# -- statistics --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles(interpolation):
    x = array((4, 21))
    q = np.array([0.0, 0.11, 0.5, 1.0], np.float32)
    made = torch.quantile(torch.from_numpy(x), torch.from_numpy(q), dim=1, interpolation=interpolation)
    expected = np.quantile(x, q, axis=1, method=interpolation)
    assert np.allclose(made.numpy(), expected, atol=1e-5)
    assert torch.isnan(torch.quantile(torch.tensor([1.0, NAN]), 0.2))
    assert float(torch.nanquantile(torch.tensor([1.0, NAN, 2.0]), 0.5)) == 1.5


def test_quantiles_and_complex_logsumexp_lie_in_rows():
    x = torch.from_numpy(array((3, 4, 5))).permute(2, 0, 1)
    assert torch.quantile(x, 0.5, dim=1).stride() == torch.logsumexp(x + 0j, 1).stride() == (4, 1)
    assert torch.quantile(x, torch.tensor([0.1, 0.5]), keepdim=True).stride() == (1, 2, 2, 2)


def test_softmax_of_no_integers():
    x = torch.empty((0, 3), dtype=torch.int64)
    assert torch.softmax(x, 1).shape == (0, 3) and torch.log_softmax(x, 1).dtype == torch.int64
    with pytest.raises(NotImplementedError, match="Long"):
        torch.softmax(torch.ones(3, dtype=torch.int64), 0)


def test_quantiles_of_other_tensors_than_plain_ones():
    """A number as quantile has a way of its own for plain tensors."""
    x = torch.from_numpy(array((4, 21)))
    expected = torch.quantile(x, torch.tensor([0.3]), dim=1)[0]
    assert torch.equal(torch.quantile(x, 0.3, dim=1), expected)
    made = torch.func.vmap(lambda row: torch.quantile(row, 0.3))(x)
    torch.testing.assert_close(made, expected)
    for q, shape in ((0.3, (4,)), (torch.tensor([0.3, 0.5], device="meta"), (2, 4))):
        assert torch.quantile(x.to("meta"), q, dim=1).shape == shape
    _, tangent = torch.func.jvp(lambda t: torch.quantile(t, 0.3, dim=1), (x,), (torch.ones_like(x),))
    torch.testing.assert_close(tangent, torch.ones(4))
    g = x.clone().requires_grad_()
    torch.quantile(g, 0.3, dim=1).sum().backward()
    torch.testing.assert_close(g.grad.sum(1), torch.ones(4))
    for wrong in (-0.1, 1.1):
        with pytest.raises(RuntimeError, match="range"):
            torch.quantile(x, wrong)
        with pytest.raises(RuntimeError, match="range"):
            torch.quantile(x, torch.tensor([0.5, wrong]))


def test_covariance_and_correlation():
    x = array((4, 50))
    assert np.allclose(torch.cov(torch.from_numpy(x)).numpy(), np.cov(x), atol=1e-5)
    assert np.allclose(torch.corrcoef(torch.from_numpy(x)).numpy(), np.corrcoef(x), atol=1e-5)
    weights = np.arange(50)
    made = torch.cov(torch.from_numpy(x), fweights=torch.from_numpy(weights)).numpy()
    assert np.allclose(made, np.cov(x, fweights=weights), atol=1e-5)


def test_histograms():
    x = array((1000,))
    made = torch.histogram(torch.from_numpy(x), 10)
    counts, edges = np.histogram(x, 10)
    assert made.hist.tolist() == counts.tolist()
    assert np.allclose(made.bin_edges.numpy(), edges, atol=1e-5)
    assert torch.histc(torch.tensor([1.0, 2.0, 1.0]), 4, 0, 3).tolist() == [0, 2, 1, 0]
    assert torch.bincount(torch.tensor([1, 1, 3]), minlength=6).tolist() == [0, 2, 0, 1, 0, 0]
    with pytest.raises(RuntimeError):
        torch.bincount(torch.tensor([-1]))


# -- gradients ---------------------------------------------------------------------------------------------------

DIFFERENTIABLE = {
    "sum": lambda x: x.sum((0, 2)), "mean": lambda x: x.mean(1, keepdim=True), "prod": lambda x: x.prod(1),
    "prod_all": lambda x: x.prod(), "var": lambda x: x.var(1), "std": lambda x: x.std((0, 1)),
    "var_mean": lambda x: torch.var_mean(x, 2), "std_mean": lambda x: torch.std_mean(x, (1, 2)),
    "logsumexp": lambda x: x.logsumexp((0, 1)), "amax": lambda x: x.amax((0, 2)), "max": lambda x: x.max(1)[0],
    "min_all": lambda x: x.min(), "softmax": lambda x: x.softmax(1), "log_softmax": lambda x: x.log_softmax(2),
    "norm2": lambda x: x.norm(dim=1), "norm1.5": lambda x: x.norm(1.5), "norm3": lambda x: x.norm(3, (0, 1)),
    "norminf": lambda x: x.norm(INF, 0), "cumsum": lambda x: x.cumsum(1), "cumprod": lambda x: x.cumprod(1),
    "cummax": lambda x: x.cummax(1)[0], "logcumsumexp": lambda x: x.logcumsumexp(2),
    "sort": lambda x: x.sort(1)[0], "topk": lambda x: x.topk(2, 1)[0], "median": lambda x: x.median(1)[0],
    "kthvalue": lambda x: x.kthvalue(2, 2)[0], "renorm": lambda x: x.renorm(2, 0, 1.0),
    "quantile": lambda x: x.quantile(0.3, 1), "cov": lambda x: torch.cov(x[0]), "diff": lambda x: x.diff(dim=1),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients(name):
    x = double(2, 3, 4)
    assert gradcheck(DIFFERENTIABLE[name], (x,))
    assert gradgradcheck(DIFFERENTIABLE[name], (x,))


@pytest.mark.parametrize("zeros", [1, 2])
def test_products_with_zeros(zeros):
    values = np.random.default_rng(0).standard_normal(5)
    values[:zeros] = 0
    x = torch.from_numpy(values).requires_grad_()
    assert gradcheck(lambda x: x.prod(0), (x,))
    assert gradcheck(lambda x: x.cumprod(0), (x,))
    assert gradgradcheck(lambda x: x.cumprod(0), (x,))


def test_equal_extrema_share_the_gradient():
    x = torch.tensor([1.0, 2.0, 2.0], requires_grad=True)
    x.amax(0).backward()
    assert x.grad.tolist() == [0.0, 0.5, 0.5]
    x.grad = None
    x.max(0).values.backward()
    assert x.grad.tolist() == [0.0, 1.0, 0.0]


def test_gradients_where_there_is_a_corner():
    x = torch.zeros(3, requires_grad=True)
    x.norm().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]
    y = torch.ones(3, requires_grad=True)
    y.std().backward()
    assert y.grad.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_deviations_of_numbers_whose_squares_overflow(dtype):
    x = torch.tensor([[1e38, 2e38, 3e38]] * 3, dtype=dtype)
    assert torch.std(x, 1).tolist() == pytest.approx([1e38] * 3, rel=1e-2)
    assert torch.std(x * torch.tensor([[1.0], [-1.0], [0.5]], dtype=dtype), 0)[2].item() == pytest.approx(
        3.1225e38, rel=1e-2
    )
    deviation, mean = torch.std_mean(torch.full((2, 700), 3e38, dtype=dtype), 1)
    assert deviation.tolist() == [0.0, 0.0] and mean.tolist() == pytest.approx([3e38] * 2, rel=1e-2)
    assert torch.isinf(torch.var(x, 1)).all()


def test_differences_with_booleans_are_refused():
    x = torch.ones(2)
    for function in (
        lambda: x - True, lambda: True - x, lambda: x.sub_(False), lambda: torch.rsub(x, True),
        lambda: torch.sub(x, True, alpha=2), lambda: x - torch.tensor(True),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="Subtraction, the `-` operator, with a bool tensor is not supported"):
            function()
    assert (x + True).tolist() == (x * True + 1).tolist() == [2.0, 2.0]


def test_derivatives_of_log_sums_beside_a_large_number():
    x = torch.tensor([[0.5, 10000.0, 1.0], [2.0, 3.0, -10000.0]], dtype=torch.float64)
    y = x.clone().requires_grad_()
    torch.logcumsumexp(y, 1).sum().backward()
    direction = torch.ones_like(x)
    _, tangent = torch.func.jvp(lambda t: torch.logcumsumexp(t, 1), (x,), (direction,))
    assert np.isfinite(y.grad.numpy()).all() and np.allclose(tangent.numpy(), 1.0)
    np.testing.assert_allclose(y.grad.sum(1).numpy(), [3.0, 3.0], rtol=1e-6)


@pytest.mark.parametrize("length", [1, 63, 64, 65, 512, 513, 5000])
@pytest.mark.parametrize("size", [1e-44, 1e-30, 1e-19, 1.0, 3e18, 1e20, 1e35])
def test_norms_of_rows_of_any_size(length, size):
    """Squares that single precision does not hold are added in double."""
    rows = np.random.default_rng(0).standard_normal((3, length)).astype(np.float32) * np.float32(size)
    expected = np.sqrt((rows.astype(np.float64) ** 2).sum(1))
    made = torch.from_numpy(rows).norm(dim=1).double().numpy()
    assert np.allclose(made, np.float32(expected), rtol=1e-6, atol=1e-45)


def test_norms_of_rows_with_one_that_is_not_finite():
    x = torch.ones(3, 700)
    x[0, 650], x[1, 3] = math.nan, -math.inf
    made = x.norm(dim=1)
    assert made[0].isnan() and made[1] == math.inf and made[2] == pytest.approx(math.sqrt(700))


def test_trapezoids_have_the_history_that_pytorch_gives_them():
    y, x = torch.randn(3, 5, requires_grad=True), torch.randn(3, 5, requires_grad=True)
    for _ in range(4):  # planned, too
        chains = []
        for made in (
            torch.trapezoid(y, dx=0.3),
            torch.trapezoid(y, x),
            torch.cumulative_trapezoid(y),
            torch.cumulative_trapezoid(y, x),
        ):
            first = made.grad_fn
            chains.append([first.name(), first.next_functions[0][0].name()])
        assert chains == [
            ["MulBackward1", "SubBackward0"], ["DivBackward1", "SumBackward1"], ["CumsumBackward0", "MulBackward1"],
            ["DivBackward1", "CumsumBackward0"],
        ]  # fmt: skip
    assert torch.trapezoid(torch.tensor([1, 2, 4]), dx=2).item() == 9.0
    assert torch.trapezoid(torch.tensor([3])).item() == 0.0


@pytest.mark.parametrize("threads", [1, 2])
def test_the_norm_of_many_elements(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        x = np.random.default_rng(0).standard_normal(1_200_007).astype(np.float32)
        assert torch.from_numpy(x).norm().item() == pytest.approx(np.sqrt((x.astype(np.float64) ** 2).sum()), rel=1e-6)
        assert torch.full((1 << 20,), 1e30).norm().item() == pytest.approx(1e30 * 1024, rel=1e-6)
    finally:
        torch.set_num_threads(before)


def test_names_of_derivatives_say_what_was_reduced():
    x = torch.ones(2, 3, requires_grad=True)
    for name, function in (("Sum", torch.sum), ("Mean", torch.mean), ("Prod", torch.prod)):
        assert function(x).grad_fn.name() == function(x, dtype=torch.float64).grad_fn.name() == f"{name}Backward0"
        assert function(x[0, 0]).grad_fn.name() == f"{name}Backward0"
        for made in (
            function(x, 1), function(x, 0, keepdim=True), function(x[0], 0), function(x[0], 0, keepdim=True),
            function(x[0, 0], 0), function(x[0, 0], 0, keepdim=True),
        ):  # fmt: skip
            assert made.grad_fn.name() == f"{name}Backward1"
    for function in (torch.sum, torch.mean):
        for dims in ((0, 1), (1,), None, []):
            assert function(x, dims, keepdim=True).grad_fn.name().endswith("Backward1")
        assert function(x, (0, 1)).grad_fn.name().endswith("Backward1")


def test_softmax_of_16_bit_columns_rounds_where_pytorch_does():
    """Along another dimension than the last, exponentials are kept in 16 bits before they are divided."""
    x = torch.tensor([[0.5, -2.0], [1.25, 3.0], [-0.75, 0.3]]).bfloat16()
    columns = [[0.294921875, 0.00628662109375], [0.62109375, 0.9296875], [0.08447265625, 0.0625]]
    rows = [[0.29296875, 0.00628662109375], [0.62109375, 0.9296875], [0.083984375, 0.0625]]
    assert torch.softmax(x, 0).tolist() == columns
    assert torch.softmax(x.T.contiguous(), 1).T.tolist() == rows


def test_logarithmic_sums_down_columns_are_those_along_rows():
    torch.manual_seed(0)
    x = torch.randn(9, 40)
    x[0, :5] = x[:, 9] = -torch.inf
    x[3, 2] = x[2:4, 11] = torch.inf
    x[4, 7] = torch.nan
    for d in (torch.float32, torch.float64, torch.bfloat16):
        held = x.to(d)
        down, along = torch.logcumsumexp(held, 0), torch.logcumsumexp(held.T.contiguous(), 1).T
        torch.testing.assert_close(down, along, equal_nan=True)
        assert down[0].equal(held[0])
        assert down[:, 9].isneginf().all()
        assert down[3:, 2].isposinf().all()
        assert down[4:, 7].isnan().all()


@pytest.mark.parametrize(
    "shape, dims",
    [((3, 1500), (1,)), ((1500, 20), (0,)), ((2, 5, 3, 4), (0, 2, 3)), ((300000,), (0,)), ((2, 3, 4, 5), (0, 2))],
)
def test_deviations_and_means_of_any_dimensions(shape, dims):
    torch.manual_seed(0)
    x = torch.randn(shape)
    wanted = x.numpy().astype(float)
    for factor in (1.0, 1e30):  # whose squares only double precision holds
        deviation, mean = torch.std_mean(x * factor, dims)
        np.testing.assert_allclose(deviation.numpy() / factor, wanted.std(dims, ddof=1), rtol=1e-5)
        np.testing.assert_allclose(mean.numpy() / factor, wanted.mean(dims), rtol=1e-4, atol=1e-6)
    x.flatten()[0] = float("inf")
    assert torch.std_mean(x)[1].isnan()


@pytest.mark.parametrize("shape, dim", [((300,), 0), ((3, 300), 1), ((300, 20), 0), ((300, 3), 0)])
def test_places_of_extrema(shape, dim):
    """The first NaN, or the first of equal numbers (both zeros are); running extrema have the last one so far."""
    torch.manual_seed(0)
    x = torch.randint(-3, 4, shape).float()
    x[x == 0] = -0.0
    x.flatten()[0] = 0.0
    rows = x.movedim(dim, -1).reshape(-1, shape[dim]).tolist()
    for function, running, best in ((torch.argmax, torch.cummax, max), (torch.argmin, torch.cummin, min)):
        assert function(x, dim).flatten().tolist() == [row.index(best(row)) for row in rows]
        values, places = (t.movedim(dim, -1).reshape(len(rows), -1) for t in running(x, dim))
        for row, value, place in zip(rows, values.tolist(), places.tolist(), strict=True):
            assert value == [best(row[: i + 1]) for i in range(len(row))]
            assert place == [max(j for j in range(i + 1) if row[j] == v) for i, v in enumerate(value)]
    x.select(dim, 150).fill_(math.nan)
    assert (torch.argmin(x, dim) == 150).all()
    assert (torch.cummax(x, dim).indices.select(dim, -1) == 150).all()
    assert torch.max(x, dim).values.isnan().all()


@pytest.mark.parametrize("shape", [(9, 20), (20, 3), (2, 300, 300)])
@pytest.mark.parametrize("call", [torch.cumsum, torch.logcumsumexp, torch.cumprod])
def test_gradients_of_running_folds_in_one_pass_and_by_operations(call, shape):
    x, g = torch.randn(shape, dtype=torch.float64, requires_grad=True), torch.randn(shape, dtype=torch.float64)
    for dim in range(len(shape)):
        (made,) = torch.autograd.grad(call(x, dim), x, g)
        (wanted,) = torch.autograd.grad(call(x, dim), x, g.clone().requires_grad_(), create_graph=True)
        torch.testing.assert_close(made, wanted.detach(), rtol=0, atol=0)


@pytest.mark.parametrize("name", ["max", "min"])
def test_complex_numbers_have_no_largest(name):
    with pytest.raises(RuntimeError, match=f"{name}.*does not support complex input"):
        getattr(torch, name)(torch.ones(2, dtype=torch.complex64), 0)


def test_histc_of_numbers_whose_range_has_no_width_or_no_number():
    info = torch.finfo(torch.float32)
    for value in (info.min, info.max):
        assert torch.histc(torch.full((3,), value), bins=4).sum() == 3
        assert torch.histc(torch.full((20000,), value), bins=4).sum() == 20000
    assert torch.histc(torch.tensor([info.min, 1.0, info.max]), bins=4).tolist() == [1, 0, 1, 1]
    with pytest.raises(RuntimeError, match="max must be larger than min"):
        torch.histc(torch.ones(3, dtype=torch.int64), min=5, max=1)


def test_hash_of_nothing_along_a_dimension():
    with pytest.raises(IndexError, match="Expected reduction dim 1 to have non-zero size"):
        torch.hash_tensor(torch.empty(3, 0), -1)
    assert torch.hash_tensor(torch.empty(3, 0), 0).shape == (0,)
