"""Edges of single operations: the last argument that is still right, the first that is wrong, rarely used forms."""

import math
import warnings

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F

INF, NAN = float("inf"), float("nan")


# -- pointwise ---------------------------------------------------------------------------------------------------------


def test_complex_exponentials_near_the_ends():
    angle = 0.785  # exp(710) is too large, but neither of its parts here is
    z = torch.tensor([complex(710, angle), complex(-744, angle)], dtype=torch.complex128)
    large, small = torch.exp(z).tolist()
    expected = complex(math.e * math.cos(angle), math.e * math.sin(angle)) * math.exp(709)
    assert abs(large.real / expected.real - 1) < 1e-12 and abs(large.imag / expected.imag - 1) < 1e-12
    assert 0 < abs(small) < 1e-300
    single = torch.exp(torch.tensor([complex(88.9, 0.785)], dtype=torch.complex64))
    np.testing.assert_allclose(single.numpy(), np.exp(np.complex128(88.9 + 0.785j)), rtol=1e-5)


def test_complex_cosh_at_infinity():
    far = torch.cosh(torch.tensor([complex(INF, INF), complex(-INF, INF), complex(3.0, INF)]))
    assert far.real[0].item() == INF and far.real[1].item() == INF and math.isnan(far.real[2].item())


def test_signbit_of_whole_numbers():
    assert torch.signbit(torch.tensor([-3, 0, 3])).tolist() == [True, False, False]
    assert torch.signbit(torch.tensor([0, 255], dtype=torch.uint8)).tolist() == [False, False]
    assert torch.signbit(torch.tensor([-0.0, 0.0])).tolist() == [True, False]


def test_atanh_at_its_poles():
    assert torch.atanh(torch.tensor([1.0, -1.0, 1.5, 0.0])).tolist()[:2] == [INF, -INF]


def test_incomplete_gamma_at_its_edges():
    a, x = torch.tensor([2.0, 0.0, 0.0, 2.0, INF]), torch.tensor([0.0, 0.0, 1.0, INF, 1.0])
    lower, upper = torch.special.gammainc(a, x).tolist(), torch.special.gammaincc(a, x).tolist()
    assert lower[0] == 0 and math.isnan(lower[1]) and lower[2:] == [1, 1, 0]
    assert upper[0] == 1 and math.isnan(upper[1]) and upper[2:] == [0, 0, 1]


def test_sine_of_large_numbers_is_exact_to_an_ulp():
    x = np.float32(np.linspace(1e6, 1e8, 20001))
    made, exact = torch.sin(torch.from_numpy(x)).numpy().astype(np.float64), np.sin(x.astype(np.float64))
    assert np.max(np.abs(made - exact) / np.spacing(np.abs(exact).astype(np.float32))) < 1.5


def test_gradient_at_the_ends_of_hardtanh():
    x = torch.tensor([-1.0, -0.999, 0.999, 1.0], requires_grad=True)
    F.hardtanh(x).sum().backward()
    assert x.grad.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("function", [F.elu, F.selu, F.celu, F.leaky_relu])
def test_gradients_of_activations_in_place(function):
    x = torch.linspace(-3, 3, 25, dtype=torch.float64, requires_grad=True)
    g = torch.linspace(1, 2, 25, dtype=torch.float64)
    (expected,) = torch.autograd.grad(function(x), x, g)
    (made,) = torch.autograd.grad(function(x * 1, inplace=True), x, g)
    torch.testing.assert_close(made, expected)


# -- reductions and scans -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [0, 1, None])
def test_products_of_complex_numbers(dim):
    x = np.random.default_rng(0).standard_normal((5, 20, 2)) @ np.array([1, 1j])
    made = torch.from_numpy(x).prod() if dim is None else torch.from_numpy(x).prod(dim)
    np.testing.assert_allclose(made.numpy(), x.prod(dim), rtol=1e-12)


@pytest.mark.parametrize("columns", [1, 3, 40])
@pytest.mark.parametrize("dtype", ["complex64", "complex128", "float32"])
def test_scans_over_columns(columns, dtype):
    x = np.random.default_rng(0).standard_normal((6, columns, 2)) @ np.array([1, 1j])
    x = x.astype(dtype) if dtype[0] == "c" else x.real.astype(dtype)
    np.testing.assert_allclose(torch.from_numpy(x).cumsum(0).numpy(), x.cumsum(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(torch.from_numpy(x).cumprod(0).numpy(), x.cumprod(0), rtol=1e-4)
    exact = np.log(np.cumsum(np.exp(x.astype("c16")), 0))
    made = torch.logcumsumexp(torch.from_numpy(x), 0).numpy()
    np.testing.assert_allclose(np.exp(made), np.exp(exact if dtype[0] == "c" else exact.real), rtol=1e-4)


def test_equal_terms_of_a_complex_logcumsumexp():
    x = torch.tensor([complex(1, 2), complex(1, 2), complex(-INF, 0), complex(1, 2)], dtype=torch.complex128)
    made = torch.logcumsumexp(x, 0)
    np.testing.assert_allclose(made.real.numpy(), 1 + np.log([1, 2, 2, 3]), rtol=1e-12)
    np.testing.assert_allclose(made.imag.numpy(), [2, 2, 2, 2], rtol=1e-12)


def test_scans_in_another_dtype():
    whole = torch.tensor([1, 2, 3])
    assert whole.cumsum(0, dtype=torch.float64).tolist() == [1.0, 3.0, 6.0]
    assert whole.cumsum(0, dtype=torch.float64).dtype is torch.float64
    assert torch.tensor([True, True]).cumsum(0, dtype=torch.float32).tolist() == [1.0, 2.0]
    assert torch.tensor([1.9, 1.9]).cumsum(0, dtype=torch.int32).tolist() == [1, 2]
    tiny = torch.full((1000,), 0.1)
    assert abs(tiny.cumsum(0, dtype=torch.float64)[-1].item() - 1000 * float(np.float32(0.1))) < 1e-9


def test_the_longest_run_is_the_mode():
    assert torch.tensor([3.0, 1.0, 1.0, 2.0, 2.0, 2.0, 4.0, 4.0]).mode().values.item() == 2
    assert torch.tensor([1, 1, 2, 2]).mode().values.item() == 1
    assert torch.tensor([1, 1, 2, 2, 2]).mode().indices.item() == 4


def test_a_trapezoid_of_nothing():
    assert torch.trapezoid(torch.zeros(2, 0, 3), dim=1).shape == (2, 3)
    assert torch.trapezoid(torch.zeros(2, 0, 3, dtype=torch.int64), dim=1).dtype is torch.float32


def test_weights_of_a_covariance_have_their_kinds():
    x = torch.arange(8.0).reshape(2, 4)
    for weights in (torch.ones(4), torch.ones(4, dtype=torch.bool)):
        with pytest.raises(RuntimeError, match="expected fweights to have integral dtype"):
            torch.cov(x, fweights=weights)
    for weights in (torch.ones(4, dtype=torch.int64), torch.ones(4, dtype=torch.bool)):
        with pytest.raises(RuntimeError, match="expected aweights to have floating point dtype"):
            torch.cov(x, aweights=weights)
    expected = np.cov(x.numpy(), fweights=[1, 2, 3, 4])
    made = torch.cov(x, fweights=torch.tensor([1, 2, 3, 4]))
    np.testing.assert_allclose(made.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("correction", [0, 1, 2, 1.5])
def test_corrections_of_a_variance(correction):
    x = np.random.default_rng(0).standard_normal((4, 9))
    expected = ((x - x.mean(1, keepdims=True)) ** 2).sum(1) / (9 - correction)
    np.testing.assert_allclose(torch.from_numpy(x).var(1, correction=correction).numpy(), expected, rtol=1e-12)


# -- shapes and indices -------------------------------------------------------------------------------------------------


def test_an_ellipsis_alone_is_a_view_of_everything():
    x = torch.arange(6).reshape(2, 3)
    for key in (..., (...,), (..., slice(None)), (0, ...)):
        assert torch.equal(x[key], torch.from_numpy(x.numpy()[key]))
    assert x[...].data_ptr() == x.data_ptr()


def test_one_hot_knows_its_classes():
    assert F.one_hot(torch.tensor([0, 2]), 3).tolist() == [[1, 0, 0], [0, 0, 1]]
    with pytest.raises(RuntimeError, match="Class values must be smaller than num_classes"):
        F.one_hot(torch.tensor([0, 3]), 3)


def test_a_block_as_large_as_the_image():
    x = torch.arange(12.0).reshape(1, 1, 3, 4)
    assert torch.equal(F.unfold(x, (3, 4)), x.reshape(1, 12, 1))
    assert F.unfold(x, (3, 2)).shape == (1, 6, 3)
    with pytest.raises(RuntimeError, match="calculated shape of the array of sliding blocks"):
        F.unfold(x, (4, 4))


def test_ranges_that_end_where_they_begin():
    assert torch.arange(3, 3, -1).tolist() == [] and torch.arange(3, 3).tolist() == []
    with pytest.warns(UserWarning, match="torch.range is deprecated"):
        assert torch.range(3, 3, -1).tolist() == [3.0]
    with pytest.raises(RuntimeError, match="inconsistent with step sign"):
        torch.arange(3, 4, -1)
    with pytest.raises(RuntimeError, match="inconsistent with step sign"):
        torch.arange(3, 2, 1)


def test_all_arguments_of_to_by_position():
    x = torch.ones(2)
    assert x.to("cpu", torch.float64, False, True).dtype is torch.float64
    same = x.to(torch.float32, False, True)
    assert same is not x and same.data_ptr() != x.data_ptr() and x.to(torch.float32, False, False) is x
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        x.to(torch.float32, False, True, True)


@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("source", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_what_is_too_large_for_e4m3_is_its_largest_number(source, count):
    x = torch.tensor([500.0, -1e30, float("inf"), 465.0, 1.06] * count).to(source)
    assert x.to(torch.float8_e4m3fn).float().tolist() == [448.0, -448.0, 448.0, 448.0, 1.0] * count
    assert torch.empty(5 * count, dtype=torch.float8_e4m3fn).copy_(x)[:2].float().tolist() == [448.0, -448.0]
    assert torch.tensor([float("nan")], dtype=source).to(torch.float8_e4m3fn).isnan().all()
    assert torch.tensor([1000]).to(torch.float8_e4m3fn).item() == 448.0


def test_float8_is_cast_to_and_from():
    x = torch.tensor([1.0, -2.5, 300.0]).to(torch.float8_e4m3fn)
    assert x.dtype is torch.float8_e4m3fn and x.to(torch.float32).tolist() == [1.0, -2.5, 288.0]


def test_detach_in_place():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    assert y.detach_() is y and not y.requires_grad and y.grad_fn is None
    for view in (torch.ones(3)[1:], (x * 2)[1:]):
        with pytest.raises(RuntimeError, match="Can't detach views in-place"):
            view.detach_()


def test_meta_tensors_of_zeros():
    x = torch.zeros(3, device="meta")
    assert x.device.type == "meta" and (x + 1).shape == (3,)


def test_gradients_lie_as_their_leaves():
    x = torch.randn(4, 5, 6).permute(2, 0, 1).requires_grad_()
    (x * 2).sum().backward()
    assert x.grad.stride() == x.stride()


# -- linear algebra -----------------------------------------------------------------------------------------------------


def test_condition_numbers():
    a = torch.tensor([[4.0, 1.0, 0.0], [2.0, 3.0, 1.0], [0.0, 1.0, 5.0]])
    made = [torch.linalg.cond(a, p).item() for p in (1, -1, INF, "fro", "nuc")]
    np.testing.assert_allclose(made, [3.7826085, 1.6304349, 4.4347820, 4.8075438, 11.6443043], rtol=1e-5)
    assert torch.linalg.cond(torch.zeros(2, 2), 1).item() == INF


@pytest.mark.parametrize("dims", [(-2, -1), (0, 1), (1, 0), (2, 0)])
@pytest.mark.parametrize("order", [1, -1, INF, -INF, 2, "fro", "nuc"])
@pytest.mark.parametrize("keepdim", [False, True])
def test_norms_of_matrices(dims, order, keepdim):
    x = np.random.default_rng(0).standard_normal((3, 4, 5))
    expected = np.linalg.norm(x, order if isinstance(order, str) else float(order), dims, keepdim)
    np.testing.assert_allclose(torch.linalg.matrix_norm(torch.from_numpy(x), order, dims, keepdim).numpy(), expected)


def test_tensorsolve_with_dims():
    a = np.random.default_rng(0).standard_normal((6, 2, 3)) + 3 * np.eye(6).reshape(6, 2, 3)
    b = np.random.default_rng(1).standard_normal((2, 3))
    made = torch.linalg.tensorsolve(torch.from_numpy(a), torch.from_numpy(b), dims=(0,)).numpy()
    np.testing.assert_allclose(made, np.linalg.tensorsolve(a, b, axes=(0,)), rtol=1e-10)


def test_the_cheapest_order_of_a_chain():
    from flambeau._ops.linear.einsum import _best_split

    assert _best_split([10, 100, 5, 50])[0][2] == 1  # (AB)C: 7,500 multiplications, A(BC): 75,000
    assert _best_split([100, 5, 50, 4])[0][2] == 0
    assert _best_split([2, 3, 50, 1])[0][2] == 0 and _best_split([3, 2, 1, 40])[0][2] == 1
    parts = [np.random.default_rng(i).standard_normal(s) for i, s in enumerate([(10, 100), (100, 5), (5, 50), (50, 2)])]
    made = torch.linalg.multi_dot([torch.from_numpy(p) for p in parts]).numpy()
    np.testing.assert_allclose(made, np.linalg.multi_dot(parts), rtol=1e-10)


@pytest.mark.parametrize(
    "equation", ["ij,jk->ik", "ij,jk->ki", "bij,bjk->bik", "ij,kj->ik", "ii,ij->j", "ij,jk->", "i,j->ij"]
)
def test_two_operands_of_einsum(equation):
    first, second = equation.partition("->")[0].split(",")
    sizes = {"b": 2, "i": 3, "j": 4, "k": 5} if first != "ii" else {"i": 3, "j": 4}
    x, y = (
        np.random.default_rng(n).standard_normal([sizes[k] for k in names]) for n, names in enumerate((first, second))
    )
    np.testing.assert_allclose(
        torch.einsum(equation, torch.from_numpy(x), torch.from_numpy(y)).numpy(), np.einsum(equation, x, y)
    )


@pytest.mark.parametrize("count,word", [(1, "fewer"), (3, "more")])
def test_operands_that_einsum_lacks(count, word):
    with pytest.raises(RuntimeError, match=f"{word} operands were provided"):
        torch.einsum("ij,jk->ik", *[torch.ones(2, 2)] * count)


# -- layers -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_batch_norm_of_strided_16_bit_images(dtype):
    x = torch.randn(4, 6, 5, 3, generator=torch.Generator().manual_seed(0)).transpose(2, 3)
    g = torch.randn(4, 6, 3, 5, generator=torch.Generator().manual_seed(1))
    weight = torch.linspace(0.5, 2, 6)

    def gradients(d):
        a, w = x.to(d).requires_grad_(), weight.to(d).requires_grad_()
        F.batch_norm(a, None, None, w, torch.zeros(6, dtype=d), True).backward(g.to(d))
        return a.grad.float(), w.grad.float()

    for made, exact in zip(gradients(dtype), gradients(torch.float32)):
        torch.testing.assert_close(made, exact, atol=0.08, rtol=0.05)


def test_instance_norm_keeps_statistics():
    x = torch.randn(3, 4, 50)
    mean, variance = torch.zeros(4), torch.ones(4)
    out = F.instance_norm(x, mean, variance, momentum=0.5)
    torch.testing.assert_close(mean, x.mean(2).mean(0) * 0.5)
    torch.testing.assert_close(variance, 0.5 + x.var(2).mean(0) * 0.5)
    torch.testing.assert_close(out, F.instance_norm(x))


def test_losses_of_one_linear_row():
    x, weight = torch.tensor([1.0, 2.0]), torch.arange(6.0).reshape(3, 2)
    made = F.linear_cross_entropy(x, weight, torch.tensor(1))
    torch.testing.assert_close(made, F.cross_entropy(weight @ x, torch.tensor(1)))
    with pytest.raises(RuntimeError, match="requires batched input"):
        F.linear_cross_entropy(x, weight.reshape(3, 1, 2), torch.tensor([1]))


def test_hinge_embedding_loss_is_the_same_in_every_mode():
    x, y = torch.tensor([0.2, 1.5, -0.3]), torch.tensor([1, -1, -1])
    plain = F.hinge_embedding_loss(x, y, reduction="none")
    assert plain.tolist() == pytest.approx([0.2, 0.0, 1.3])
    batched = torch.vmap(lambda a, b: F.hinge_embedding_loss(a, b, reduction="none"))(x[None], y[None])
    assert torch.equal(batched[0], plain)


def test_classes_out_of_range_and_ignored():
    x = torch.zeros(4, 3)
    for wrong in (-1, 3):
        with pytest.raises((IndexError, RuntimeError), match=r"out of bounds|out of range"):
            F.cross_entropy(x, torch.tensor([0, 1, wrong, 2]))
    made = F.cross_entropy(torch.arange(12.0).reshape(4, 3), torch.tensor([0, 1, -100, 2]), reduction="sum")
    rows = [
        F.cross_entropy(torch.arange(12.0).reshape(4, 3)[i : i + 1], torch.tensor([t]))
        for i, t in ((0, 0), (1, 1), (3, 2))
    ]
    torch.testing.assert_close(made, sum(rows))


def test_bags_may_name_the_first_row():
    table = torch.arange(6.0).reshape(3, 2)
    assert F.embedding_bag(torch.tensor([[0, 0], [0, 2]]), table, mode="sum").tolist() == [[0, 2], [4, 6]]
    with pytest.raises((IndexError, RuntimeError)):
        F.embedding_bag(torch.tensor([[0, 3]]), table)


def test_ctc_of_an_empty_target():
    logs = torch.log_softmax(torch.arange(12.0).reshape(4, 1, 3), 2)
    made = F.ctc_loss(
        logs, torch.zeros(1, 0, dtype=torch.int64), torch.tensor([4]), torch.tensor([0]), reduction="none"
    )
    torch.testing.assert_close(made, -logs[:, 0, 0].sum()[None])


def test_parameters_for_quantizing_embeddings():
    low, high = torch.choose_qparams_optimized(torch.linspace(-3, 5, 64) ** 3, 64, 200, 0.16, 8)
    assert (low.item(), high.item()) == (125.0, -27.0)


def test_norm_takes_out_by_place_as_a_function():
    x, out = torch.arange(6.0).reshape(2, 3), torch.empty(2, dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.norm(x, 2, 1, False, out, torch.float64) is out
        assert torch.norm(x, 1, None, False, None).item() == 15
    assert out.tolist() == pytest.approx([5**0.5, 50**0.5])


@pytest.mark.parametrize(
    "dtype, number",
    [(torch.uint8, 256), (torch.uint8, -(2**63)), (torch.int8, -512), (torch.int16, 65536), (torch.int32, 2**40)],
)
def test_what_is_zero_in_the_dtype_of_integers_does_not_divide_them(dtype, number):
    x = torch.tensor([7, 9]).to(dtype)
    for divisor in (number, torch.tensor(number)):
        for divide in (lambda x, n: x // n, lambda x, n: x % n, torch.fmod, lambda x, n: x.floor_divide_(n)):
            with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                divide(x, divisor)
    assert (x // (number + 1)).tolist() == [7, 9] and (x.bool() // number).tolist() == [0 if number > 0 else -1] * 2
    if number != -(2**63):
        assert x[0].floor_divide(torch.tensor(abs(number))).item() == 0  # int64, as neither has dimensions


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_powers_0_and_1_are_exact(dtype):
    z = torch.tensor([0j, 1j, 2 + 1j, complex("inf")], dtype=dtype, requires_grad=True)
    made = z**0
    assert made.tolist() == [1] * 4 and made.grad_fn.name() == "PowBackward0"
    made.abs().sum().backward()
    assert z.grad.tolist() == [0] * 4
    assert (z**1.0).tolist() == (z**True).tolist() == z.tolist() and (z**0j).tolist() == [1] * 4
    assert z.detach().clone().pow_(0).tolist() == [1] * 4 and torch.float_power(z, 0).tolist() == [1] * 4


def test_equal_largest_differences_have_the_whole_gradient_of_a_distance():
    x = torch.tensor([[1.0, 3.0, -2.0], [0.0, 1.0, 0.0], [1.0, 3.0, -2.0]], requires_grad=True)
    torch.pdist(x, math.inf).sum().backward()
    assert x.grad.tolist() == [[0, 1, -1], [0, -2, 2], [0, 1, -1]]
    x.grad = None
    made = torch.cdist(x[:1], x.detach()[1:], p=math.inf)
    made.sum().backward()
    assert made.tolist() == [[2, 0]] and x.grad.tolist() == [[0, 1, -1], [0, 0, 0], [0, 0, 0]]
    y = torch.tensor([[1.0, 2.0]], dtype=torch.float64, requires_grad=True)
    far = torch.tensor([[0.3, 5.0]], dtype=torch.float64)
    assert torch.autograd.gradgradcheck(lambda y: torch.cdist(y, far, p=math.inf) ** 2, (y,))
