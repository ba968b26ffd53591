"""Pooling against windows cut out one by one; places, gradients, arguments and errors."""

import contextlib
import math

import numpy as np
import pytest

import flambeau as torch
from flambeau._kernel.native import site
from flambeau._ops.plans import sites
from flambeau.autograd import gradcheck, gradgradcheck

F = torch.nn.functional
MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVG = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def windows(x, kernel, stride, padding, dilation, counts, fill):
    """For each position the padded window, as an array (N, C, *counts, elements)."""
    rank = len(kernel)
    around = [(0, 0), (0, 0)] + [(p, p + 64) for p in padding]
    wide = np.pad(x, around, constant_values=fill)
    out = np.empty((*x.shape[:2], *counts, int(np.prod(kernel))), x.dtype)
    for place in np.ndindex(*counts):
        cut = tuple(slice(i * s, i * s + d * (k - 1) + 1, d) for i, s, k, d in zip(place, stride, kernel, dilation))
        out[(slice(None), slice(None), *place)] = wide[(slice(None), slice(None), *cut)].reshape(*x.shape[:2], -1)
    assert rank == x.ndim - 2
    return out


CASES = [
    # x, kernel, stride, padding, dilation, ceil_mode, counts
    ((2, 3, 10), (3,), (2,), (1,), (1,), False, (5,)),
    ((2, 3, 10), (3,), (2,), (1,), (2,), True, (5,)),
    ((2, 2, 8, 9), (2, 3), (2, 3), (0, 0), (1, 1), False, (4, 3)),
    ((2, 2, 7, 8), (3, 3), (2, 2), (1, 1), (1, 1), False, (4, 4)),
    ((2, 2, 8, 8), (3, 2), (3, 2), (1, 0), (1, 1), True, (3, 4)),
    ((1, 2, 4, 5, 6), (2, 2, 2), (1, 2, 2), (1, 0, 1), (1, 1, 1), False, (5, 2, 4)),
]


@pytest.mark.parametrize("d", [torch.float32, torch.float64, torch.bfloat16, torch.int64], ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[1]}-s{c[2]}-p{c[3]}-d{c[4]}")
def test_max_pool(case, d):
    shape, kernel, stride, padding, dilation, ceil_mode, counts = case
    values = np.random.default_rng(0).permutation(int(np.prod(shape))).reshape(shape) % 128
    x = torch.from_numpy(values).to(d)
    out, index = MAX[len(kernel)](x, kernel, stride, padding, dilation, ceil_mode, True)
    expected = windows(values.astype(float), kernel, stride, padding, dilation, counts, -np.inf).max(-1)
    np.testing.assert_array_equal(out.double().numpy(), expected)
    flat = values.reshape(*shape[:2], -1)
    picked = np.take_along_axis(flat, index.numpy().reshape(*shape[:2], -1), -1)
    np.testing.assert_array_equal(picked.reshape(expected.shape), expected)


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("case", [c for c in CASES if set(c[4]) == {1} and not c[5]], ids=lambda c: str(c[0]))
def test_avg_pool(case, include):
    shape, kernel, stride, padding, _, _, counts = case
    x = np.random.default_rng(0).standard_normal(shape)
    out = AVG[len(kernel)](torch.from_numpy(x), kernel, stride, padding, False, include)
    cut = windows(x, kernel, stride, padding, (1,) * len(kernel), counts, np.nan)
    expected = np.nansum(cut, -1) / (cut.shape[-1] if include else (~np.isnan(cut)).sum(-1))
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-12)
    if len(kernel) > 1:
        seven = AVG[len(kernel)](torch.from_numpy(x), kernel, stride, padding, divisor_override=7)
        np.testing.assert_allclose(seven.numpy(), np.nansum(cut, -1) / 7, rtol=1e-12)


def test_large_pools_are_split_over_threads():
    x = np.random.default_rng(0).standard_normal((4, 16, 56, 56)).astype(np.float32)
    out = F.max_pool2d(torch.from_numpy(x), 3, 2, 1)
    np.testing.assert_array_equal(out.numpy(), windows(x, (3, 3), (2, 2), (1, 1), (1, 1), (28, 28), -np.inf).max(-1))
    mean = F.avg_pool2d(torch.from_numpy(x), 2)
    np.testing.assert_allclose(mean.numpy(), x.reshape(4, 16, 28, 2, 28, 2).mean((3, 5)), rtol=1e-4, atol=1e-6)
    given = torch.from_numpy(x).requires_grad_()
    F.avg_pool2d(given, 2).backward(mean)
    np.testing.assert_allclose(given.grad.numpy(), np.kron(mean.numpy(), np.full((2, 2), 0.25)), rtol=1e-6)
    given.grad = None
    F.adaptive_avg_pool2d(given, 1).backward(mean[..., :1, :1])
    np.testing.assert_allclose(given.grad.numpy(), mean[..., :1, :1].expand(x.shape).numpy() / 56**2, rtol=1e-6)


def test_nan_wins_and_ties_take_the_first():
    out, index = F.max_pool1d(torch.tensor([[1.0, float("nan"), 3.0, 2.0, 2.0, 2.0]]), 3, return_indices=True)
    assert np.isnan(out[0, 0].item()) and index.tolist() == [[1, 3]]
    out, index = F.max_pool1d(torch.full((1, 4), -float("inf")), 2, return_indices=True)
    assert index.tolist() == [[0, 2]]


def test_adaptive_pools():
    x = torch.arange(7.0).reshape(1, 7)
    assert F.adaptive_avg_pool1d(x, 3).tolist() == [[1.0, 3.0, 5.0]]
    out, index = F.adaptive_max_pool1d(x, 3, return_indices=True)
    assert out.tolist() == [[2.0, 4.0, 6.0]] and index.tolist() == [[2, 4, 6]]
    y = torch.randn(2, 3, 5, 6)
    np.testing.assert_allclose(F.adaptive_avg_pool2d(y, 1)[..., 0, 0].numpy(), y.numpy().mean((2, 3)), atol=1e-6)
    assert F.adaptive_avg_pool2d(y, (None, 2)).shape == (2, 3, 5, 2)
    assert F.adaptive_max_pool3d(torch.randn(1, 4, 5, 6), (2, 1, 3)).shape == (1, 2, 1, 3)


@pytest.mark.parametrize(
    "size, counts", [((16, 12), (6, 9)), ((20, 40), (5, 7)), ((9, 30), (1, 4)), ((24, 20), (8, 10))]
)
def test_adaptive_windows_lie_where_they_should(size, counts):
    """Evenly and unevenly, overlapping or side by side; places of ties, NaN, and gradients."""
    values = np.round(np.random.default_rng(0).standard_normal((2, 3, *size)) * 2).astype(np.float32)
    values[0, 0, 1, 2] = values[0, 0, 3, 1] = np.nan
    x = torch.from_numpy(values).requires_grad_()
    means, (maxima, places) = F.adaptive_avg_pool2d(x, counts), F.adaptive_max_pool2d(x, counts, True)
    shares, numbers = np.zeros(values.shape), np.arange(size[0] * size[1]).reshape(size)
    for i, j in np.ndindex(*counts):
        (top, bottom), (left, right) = ((k * n // c, -(-(k + 1) * n // c)) for k, n, c in zip((i, j), size, counts))
        cut = values[:, :, top:bottom, left:right].reshape(2, 3, -1)
        shares[:, :, top:bottom, left:right] += 1 / cut.shape[2]
        np.testing.assert_allclose(means[..., i, j].detach().numpy(), cut.mean(-1), rtol=1e-4, atol=1e-6)
        nan = np.isnan(cut)
        last = cut.shape[2] - 1 - nan[..., ::-1].argmax(-1)
        where = np.where(nan.any(-1), last, np.where(nan, -np.inf, cut).argmax(-1))
        assert (places[..., i, j].numpy() == numbers[top:bottom, left:right].reshape(-1)[where]).all()
        np.testing.assert_array_equal(maxima[..., i, j].detach().numpy(), np.max(cut, -1))
    means.backward(torch.ones(means.shape))
    np.testing.assert_allclose(x.grad.numpy(), shares, rtol=1e-5)


def test_lp_and_fractional_pools():
    x = torch.tensor([[3.0, 4.0, 6.0, 8.0]])
    assert F.lp_pool1d(x, 2, 2).tolist() == [[5.0, 10.0]]
    y = torch.randn(2, 3, 9, 8)
    out, index = F.fractional_max_pool2d(y, (2, 3), output_size=(4, 3), return_indices=True)
    assert out.shape == (2, 3, 4, 3)
    picked = np.take_along_axis(y.numpy().reshape(2, 3, -1), index.numpy().reshape(2, 3, -1), -1)
    np.testing.assert_array_equal(picked.reshape(2, 3, 4, 3), out.numpy())
    assert F.fractional_max_pool3d(torch.randn(1, 6, 6, 6), 2, output_ratio=0.5).shape == (1, 3, 3, 3)


def test_unpool_undoes_pool():
    x = torch.randn(2, 3, 6, 7)
    out, index = F.max_pool2d(x, 2, return_indices=True)
    back = F.max_unpool2d(out, index, 2, output_size=(6, 7))
    assert back.shape == x.shape
    np.testing.assert_array_equal(F.max_pool2d(back.abs(), 2).numpy(), out.abs().numpy())
    with pytest.raises(RuntimeError):
        F.max_unpool2d(out, index + 1000, 2)
    with pytest.raises(ValueError):
        F.max_unpool2d(out, index, 2, output_size=(60, 70))


FUNCTIONS = {
    "max1": (lambda x: F.max_pool1d(x, 3, 2, 1), (2, 2, 7)),
    "max2": (lambda x: F.max_pool2d(x, 3, 1, 1), (1, 2, 4, 5)),
    "max3": (lambda x: F.max_pool3d(x, 2), (1, 1, 4, 4, 4)),
    "avg1": (lambda x: F.avg_pool1d(x, 3, 2, 1), (2, 2, 7)),
    "avg2": (lambda x: F.avg_pool2d(x, 3, 2, 1, True, False), (1, 2, 5, 6)),
    "avg3": (lambda x: F.avg_pool3d(x, 2, 1, divisor_override=3), (1, 1, 3, 3, 4)),
    "avg2 with a negative divisor": (lambda x: F.avg_pool2d(x, 2, divisor_override=-3), (1, 2, 4, 4)),
    "adaptive avg": (lambda x: F.adaptive_avg_pool2d(x, (3, 2)), (1, 2, 5, 5)),
    "adaptive max": (lambda x: F.adaptive_max_pool2d(x, (3, 2)), (1, 2, 5, 5)),
    "lp": (lambda x: F.lp_pool2d(x.abs() + 0.1, 3, 2), (1, 2, 4, 4)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives(name):
    function, shape = FUNCTIONS[name]
    values = np.random.default_rng(0).permutation(int(np.prod(shape))).reshape(shape) / 10.0 + 0.1
    x = torch.from_numpy(values).requires_grad_()
    assert gradcheck(function, (x,))
    assert gradgradcheck(lambda t: function(t) ** 2, (x,))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: F.max_pool2d(x, 0), RuntimeError),
        (lambda x: F.max_pool2d(x, 2, 0), RuntimeError),
        (lambda x: F.max_pool2d(x, 2, padding=2), RuntimeError),
        (lambda x: F.max_pool2d(x, 9), RuntimeError),
        (lambda x: F.max_pool2d(x, 2.5), TypeError),
        (lambda x: F.max_pool2d(x.bool(), 2), NotImplementedError),
        (lambda x: F.max_pool1d(x, 2), RuntimeError),
        (lambda x: F.avg_pool2d(x, 2, divisor_override=0), RuntimeError),
        (lambda x: F.avg_pool2d(x.int(), 2), NotImplementedError),
        (lambda x: F.adaptive_avg_pool2d(x, (2,)), RuntimeError),
        (lambda x: F.adaptive_avg_pool2d(x, -1), RuntimeError),
        (lambda x: F.fractional_max_pool2d(x, 2), ValueError),
        (lambda x: F.fractional_max_pool2d(x, 2, 8), RuntimeError),
    ],
)  # fmt: skip
def test_errors(call, error):
    with pytest.raises(error):
        call(torch.randn(2, 4, 8, 8))


def test_arguments_are_checked_after_equal_ones_were_right():
    x = torch.ones(1, 1, 4, 4)
    F.max_pool2d(x, 2), F.avg_pool2d(x, 2)
    for pool in (F.max_pool2d, F.avg_pool2d):
        with pytest.raises(TypeError):
            pool(x, 2.0)


def test_windows_of_one_size_serve_any_batch_and_dtype():
    for d, shape in ((torch.float32, (1, 1, 4, 4)), (torch.float64, (3, 2, 4, 4)), (torch.float32, (2, 4, 4))):
        x = torch.arange(float(np.prod(shape)), dtype=d).reshape(shape)
        assert torch.equal(F.max_pool2d(x, 2), x[..., 1::2, 1::2])
        assert torch.equal(F.avg_pool2d(x, 2), x[..., ::2, ::2] + 2.5)


# -- plans ---------------------------------------------------------------------------------------------------------

PLANNED = {
    "max_pool1d": lambda x: F.max_pool1d(x[0], 2),
    "max_pool2d": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max_pool2d dilated": lambda x: F.max_pool2d(x, 2, 1, 0, 2, True),
    "max_pool3d": lambda x: F.max_pool3d(x, 2),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 2),
    "avg_pool2d padded": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "avg_pool2d divided": lambda x: F.avg_pool2d(x, 3, 1, divisor_override=5),
    "avg_pool3d": lambda x: F.avg_pool3d(x, (1, 2, 2)),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, 3),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
    "lp_pool2d": lambda x: F.lp_pool2d(x.abs(), 2, 2),
    "unfold": lambda x: F.unfold(x, 3, padding=1),
}


@pytest.mark.parametrize("name", PLANNED)
def test_planned_calls_give_the_same(name, monkeypatch):
    planned = []
    plain = sites.watched_plan

    def watched(function, *rest):
        made = plain(function, *rest)
        planned.append((function.__name__, made is not None))
        return made

    monkeypatch.setattr(sites, "watched_plan", watched)
    torch.manual_seed(0)
    x, results = torch.randn(2, 3, 7, 8, requires_grad=True), []
    for turn in range(6):
        with site.switched_off() if turn == 5 else contextlib.nullcontext():
            out = PLANNED[name](x)
            results.append((out.detach(), *torch.autograd.grad(out, x, out.detach()), out.grad_fn.name()))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0][:2], other)) and other[2] == results[0][2]
    assert all(worked for _, worked in planned), planned


@pytest.mark.parametrize("function", [F.max_pool2d, F.adaptive_max_pool2d])
def test_both_results_come_in_a_tuple(function):
    for x in (torch.randn(2, 3, 4, 4), torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)):
        for _ in range(4):
            both = function(x, 2, return_indices=True)
            assert type(both) is tuple and both[0].stride() == both[1].stride()


def test_places_of_planned_maxima():
    for i in range(6):
        x = torch.zeros(1, 1, 4, 4)
        x[0, 0, i % 4, 1] = 1.0
        values, places = F.max_pool2d(x, 4, return_indices=True)
        assert values.item() == 1.0 and places.item() == 4 * (i % 4) + 1


def test_second_derivatives_of_planned_means():
    x = torch.arange(4.0).reshape(1, 1, 4).requires_grad_()
    for _ in range(5):
        (g,) = torch.autograd.grad(F.avg_pool1d(x, 3, 1, 1).square().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(g.sum(), x)
    assert torch.allclose(9 * g, torch.tensor([8.0, 20.0, 28.0, 22.0]))
    assert torch.allclose(9 * second, torch.tensor([10.0, 16.0, 16.0, 10.0]))


@pytest.mark.parametrize("size", [(0, 4), (2, 4), (4, 6), (6, 4)])
def test_unpooling_to_a_size_that_no_pooling_had(size):
    values, places = torch.nn.functional.max_pool2d(torch.arange(16.0).reshape(1, 1, 4, 4), 2, return_indices=True)
    with pytest.raises(ValueError, match="invalid output_size"):
        torch.nn.functional.max_unpool2d(values, places, 2, output_size=size)
    assert torch.nn.functional.max_unpool2d(values, places, 2, output_size=(5, 5)).shape == (1, 1, 5, 5)


@pytest.mark.parametrize("size", [(6, 8), (6, 200)])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [(2, 1, 0), (3, 2, 1), (2, 2, 0), ((3, 2), (1, 3), (1, 0)), (3, 1, 1)]
)
def test_windows_without_a_largest_element_give_their_first_place(size, kernel, stride, padding):
    places = torch.arange(float(size[0] * size[1])).view(1, 1, *size)
    _, first = F.max_pool2d(-places, kernel, stride, padding, return_indices=True)  # the first is the largest there
    for value in (-np.inf, np.finfo(np.float32).min):
        made, index = F.max_pool2d(
            torch.full((1, 1, *size), float(value)), kernel, stride, padding, return_indices=True
        )
        assert (made == value).all() and index.tolist() == first.tolist()
    volume = torch.full((1, 1, 4, 5, 6), -np.inf)
    _, index = F.max_pool3d(volume, 2, 1, return_indices=True)
    assert index.tolist() == torch.arange(120).view(1, 1, 4, 5, 6)[:, :, :-1, :-1, :-1].tolist()


@pytest.mark.parametrize("size, kernel, stride, padding, dilation", [
    ((9, 20), 3, 2, 1, 1), ((3, 33), 3, 1, 1, 1), ((12, 17), (3, 4), (1, 3), (1, 2), (2, 1)), ((1, 16), (1, 5), 1, (0, 2), 1),
    ((20, 2), 3, 1, 1, 1), ((4, 5, 19), 2, (2, 1, 2), 1, 1),
])  # fmt: skip
def test_maxima_of_padded_windows(size, kernel, stride, padding, dilation):
    """Whole windows and those that the border cuts: the same as those of a plane with padding around it, first places included."""
    rank = len(size)
    around = (padding,) * rank if isinstance(padding, int) else padding
    torch.manual_seed(0)
    x = torch.randint(-2, 3, (2, 3, *size)).float()
    pool = getattr(torch.nn.functional, f"max_pool{rank}d")
    out, places = pool(x, kernel, stride, padding, dilation, return_indices=True)
    wide = torch.nn.functional.pad(x, [p for n in reversed(around) for p in (n, n)], value=float("-inf"))
    inside, found = pool(wide, kernel, stride, 0, dilation, return_indices=True)
    assert torch.equal(out, inside)
    number, rest, factor = torch.zeros_like(found), found, 1
    for n, p in zip(reversed(size), reversed(around)):
        number, rest, factor = number + (rest % (n + 2 * p) - p) * factor, rest // (n + 2 * p), factor * n
    assert torch.equal(places, number)


@pytest.mark.parametrize("shape", [(3, 2, 6, 6), (2, 6, 6)])
def test_gradients_of_maxima_for_several_cotangents(shape):
    x = torch.arange(float(math.prod(shape))).view(shape).sin().requires_grad_()
    out = F.max_pool2d(x, 2)
    cotangents = torch.arange(3.0 * out.numel()).view(3, *out.shape).cos()
    several = torch.autograd.grad(out, x, cotangents, retain_graph=True, is_grads_batched=True)[0]
    for found, cotangent in zip(several, cotangents):
        assert torch.equal(found, torch.autograd.grad(out, x, cotangent, retain_graph=True)[0])
