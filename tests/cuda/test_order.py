"""Extrema with their places, orders, running folds and counts on a GPU, by kernels that the CPU runs."""

import pytest

import flambeau as torch
from flambeau._backend import cuda_orders, cuda_scans

from .emulated import Kernel
from .fake_gpu import back, on_gpu

pytestmark = pytest.mark.sweep


def same(made, expected):
    """Results that are equal to the bit, and lie in memory in the same order."""
    if isinstance(expected, torch.Tensor):
        made, expected = (made,), (expected,)
    for a, b in zip(made, expected, strict=True):
        assert a.dtype is b.dtype and a.stride() == b.stride()
        a = back(a)
        assert ((a == b) | ((a != a) & (b != b))).all(), (a, b)
        if b.is_floating_point():
            assert a.signbit().logical_or(a != a).equal(b.signbit().logical_or(b != b))


def planned(function, x, agree=same):
    """The same as on the CPU; the last times that a call comes, by a plan."""
    expected, there = function(x), on_gpu(x, x.requires_grad)
    for turn in range(4):
        before = Kernel.natively
        made = function(there)
        assert turn < 2 or Kernel.natively > before or not x.numel()
    agree(made, expected)
    return made, expected, there


def some(shape, d):
    """Numbers many of which are equal; among floats there are both zeros and NaN."""
    x = torch.randint(0, 7, shape) - (0 if d in (torch.uint8, torch.bool) else 3)
    x = (x + (1 << 31) if d is torch.uint32 else x).to(d)
    if d.is_floating_point:
        x = x * torch.where(torch.rand(shape) < 0.5, 1.0, -1.0).to(d)
        x = torch.where(torch.rand(shape) < 0.05, float("nan"), x).to(d)
    return x


@pytest.mark.parametrize(
    "shape, dim, d",
    [
        ((3, 5), 1, torch.float32),
        ((2, 300), 1, torch.bfloat16),  # a row in registers
        ((4, 33), 0, torch.int64),  # columns
        ((2, 3, 4), 1, torch.float64),
        ((7,), 0, torch.bool),
        ((0, 3), 1, torch.float32),
        ((1, 4200), 1, torch.uint8),  # in pieces
        ((300, 3), 0, torch.float32),
    ],
)
def test_extrema_and_where_they_are(gpu, shape, dim, d):
    torch.manual_seed(0)
    x = some(shape, d)
    planned(lambda x: x.max(dim), x)
    planned(lambda x: x.min(dim, keepdim=True), x)
    if d is not torch.bool:
        planned(lambda x: x.argmax(dim), x)
        planned(lambda x: x.argmin(dim, keepdim=True), x)
        planned(lambda x: x.argmax(), x) if x.numel() else None


def test_extrema_of_strided_rows(gpu):
    torch.manual_seed(0)
    x = some((6, 20), torch.float32)
    for view in (lambda x: x[::2, ::3], lambda x: x.t(), lambda x: x[:, None].expand(6, 2, 20)):
        planned(lambda x: view(x).max(-1), x)


# -- running folds -------------------------------------------------------------------------------------------------


def close(made, expected):
    a, b = back(made), expected.detach()
    assert a.dtype is b.dtype and a.shape == b.shape
    assert ((a == b) | ((a - b).abs() <= (1e-2 if b.itemsize == 2 else 1e-5) * (1 + b.abs()))).all(), (a, b)


def scanned(function, x):
    """A running fold and its gradient, as on the CPU."""
    x = x.requires_grad_(x.is_floating_point() or x.is_complex())
    made, expected, there = planned(function, x, close)
    if x.requires_grad:
        g = torch.arange(expected.numel()).reshape(expected.shape).cos().to(expected.dtype)
        close(torch.autograd.grad(made, there, on_gpu(g))[0], torch.autograd.grad(expected, x, g)[0])


@pytest.mark.parametrize(
    "shape, dim, d",
    [
        ((3, 5), 1, torch.float32),  # several rows in a warp
        ((2, 300), 1, torch.bfloat16),  # several warps
        ((1, 1100), 1, torch.int32),  # several times round
        ((4, 33), 0, torch.complex64),  # columns
        ((2, 3, 4), 1, torch.bool),
        ((0, 3), 1, torch.float32),
        ((), 0, torch.float64),
        ((2, 310), 1, torch.float32),  # in pieces
        ((2, 8200), 1, torch.bfloat16),
        ((100, 3), 0, torch.int64),
    ],
)
def test_running_sums(gpu, monkeypatch, shape, dim, d):
    monkeypatch.setattr(cuda_scans, "_PIECE", 128 if shape == (2, 310) else 8192)
    torch.manual_seed(0)
    x = (torch.randn(shape) * 3).to(d)
    scanned(lambda x: x.cumsum(dim), x)
    planned(lambda x: x.t().cumsum(0), x.detach(), close) if x.ndim == 2 else None


@pytest.mark.slow
def test_running_products_and_logarithms_of_sums(gpu):
    torch.manual_seed(0)
    for shape, dim in (((3, 5), 1), ((4, 33), 0)):
        x = torch.randn(shape)
        scanned(lambda x: x.cumprod(dim), x.clone())
        scanned(lambda x: x.logcumsumexp(dim), x.clone())


@pytest.mark.parametrize(
    "shape, dim, d",
    [
        ((3, 5), 1, torch.float32),
        ((2, 300), 1, torch.bfloat16),
        ((4, 33), 0, torch.int64),
        ((2, 310), 1, torch.uint8),
        ((100, 3), 0, torch.float64),
    ],
)
def test_running_extrema(gpu, monkeypatch, shape, dim, d):
    monkeypatch.setattr(cuda_scans, "_PIECE", 128 if shape == (2, 310) else 8192)
    torch.manual_seed(0)
    x = some(shape, d)
    planned(lambda x: x.cummax(dim), x)
    planned(lambda x: x.cummin(dim), x)


# -- orders --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape, dim, d",
    [
        ((3, 5), 1, torch.float32),  # several rows of a block
        ((2, 70), 1, torch.float64),  # runs that are merged
        ((70, 2), 0, torch.bfloat16),
        ((2, 3, 4), 1, torch.int64),
        ((33,), 0, torch.uint8),
        ((33,), 0, torch.uint32),
        ((40,), 0, torch.float16),
        ((7,), 0, torch.bool),
        ((0, 3), 1, torch.float32),
        ((3, 0), 1, torch.float32),
    ],
)
def test_sorts(gpu, monkeypatch, shape, dim, d):
    monkeypatch.setattr(cuda_orders, "BYTES", 128)
    monkeypatch.setattr(cuda_orders, "_COUNT", 32)
    monkeypatch.setattr(cuda_orders, "_RUNS", 16)
    torch.manual_seed(0)
    x = some(shape, d)
    planned(lambda x: x.sort(dim), x)
    planned(lambda x: x.sort(dim, descending=True), x)
    planned(lambda x: x.t().sort(0), x) if x.ndim == 2 and d is torch.float64 else None


@pytest.mark.parametrize(
    "shape, dim, d",
    [
        ((2, 700), 1, torch.float32),  # the second of two pieces is not full
        ((300,), 0, torch.int64),  # all but one of eight digits are the same
        pytest.param((300, 2), 0, torch.float64, marks=pytest.mark.slow),
        pytest.param((300,), 0, torch.float16, marks=pytest.mark.slow),
        pytest.param((300,), 0, torch.bfloat16, marks=pytest.mark.slow),
        pytest.param((300,), 0, torch.uint8, marks=pytest.mark.slow),
        pytest.param((300,), 0, torch.bool, marks=pytest.mark.slow),
        pytest.param((300,), 0, torch.int32, marks=pytest.mark.slow),
    ],
)
def test_long_rows_are_sorted_digit_by_digit(gpu, monkeypatch, shape, dim, d):
    monkeypatch.setattr(cuda_orders, "BYTES", 128)
    monkeypatch.setattr(cuda_orders, "_RUNS", 1)
    monkeypatch.setattr(cuda_orders, "_EACH", 16)
    torch.manual_seed(0)
    x = some(shape, d)
    x = torch.where(torch.rand(shape) < 0.5, x, torch.randn(shape).to(d)) if d.is_floating_point else x
    x = torch.randint(-(1 << 31), 1 << 31, shape).to(d) if d is torch.int32 else x
    planned(lambda x: x.sort(dim), x)
    planned(lambda x: x.sort(dim, descending=True), x)
    planned(lambda x: x.topk(400, dim), x) if d is torch.float32 else None
    planned(lambda x: torch.zeros_like(x).sort(dim), x) if d is torch.bfloat16 else None


@pytest.mark.parametrize(
    "shape, dim, d",
    [
        ((2, 40), 1, torch.float32),
        ((40, 3), 0, torch.float64),
        ((2, 300), 1, torch.bfloat16),  # in pieces
        ((1, 300), 1, torch.int64),
        ((2, 40), 1, torch.uint8),
        ((0, 40), 1, torch.float32),
    ],
)
def test_the_first_of_an_order(gpu, monkeypatch, shape, dim, d):
    monkeypatch.setattr(cuda_orders, "_SHORT", 16)
    monkeypatch.setattr(cuda_orders, "_PIECE", 64)
    torch.manual_seed(0)
    x = some(shape, d)
    planned(lambda x: x.topk(7, dim), x)
    planned(lambda x: x.topk(6, dim, largest=False), x)


@pytest.mark.parametrize("d", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8], ids=str)
def test_what_is_at_one_place_of_an_order(gpu, d):
    torch.manual_seed(0)
    for shape, dim in (((4, 40), 1), ((31, 3), 0)):
        x = some(shape, d)
        planned(lambda x: x.kthvalue(3, dim, keepdim=True), x)
        planned(lambda x: x.median(dim), x)
        planned(lambda x: x.nanmedian(dim), x)


def test_medians_of_few_long_rows_are_sorted_for(gpu, monkeypatch):
    monkeypatch.setattr(cuda_orders, "_LONG", 10)
    x = some((2, 40), torch.float32)
    planned(lambda x: x.kthvalue(3), x)
    planned(lambda x: x.median(1), x)
    planned(lambda x: x.nanmedian(1), x)
    planned(lambda x: x.mode(1), x)


# -- counts --------------------------------------------------------------------------------------------------------


def test_integers_are_counted(gpu):
    torch.manual_seed(0)
    for d, length in ((torch.int64, 0), (torch.uint8, 5000)):  # the longer counts lie in the memory of all blocks
        x, w = torch.randint(0, 9, (300,)).to(d), torch.randn(300)
        made = torch.bincount(on_gpu(x), minlength=length)
        same(made, torch.bincount(x, minlength=length))
        close(torch.bincount(on_gpu(x), on_gpu(w), length), torch.bincount(x, w, length))
    same(torch.bincount(on_gpu(x[::3])), torch.bincount(x[::3]))
    same(torch.bincount(on_gpu(x[:0]), minlength=3), torch.bincount(x[:0], minlength=3))
    with pytest.raises(RuntimeError, match="non-negative"):
        torch.bincount(on_gpu(torch.tensor([3, -1])))


@pytest.mark.parametrize("d", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_elements_are_counted_in_bins(gpu, d):
    torch.manual_seed(0)
    x = (torch.randn(6, 50) * 3).to(d)
    same(
        torch.histc(on_gpu(x), 10, -3, 2), torch.histc(x, 10, -3, 2)
    )  # whether its record has plans depends on the GPU that was there first
    same(torch.histc(on_gpu(x), 7), torch.histc(x, 7))
    same(torch.histc(on_gpu(x.t()[::3]), 7), torch.histc(x.t()[::3], 7))


@pytest.mark.parametrize("d", [torch.int64, torch.uint8, torch.float32, torch.bfloat16], ids=str)
def test_extents_are_told_by_lists_of_launches(gpu, monkeypatch, d):
    """Numbers between the least and the greatest, which are others each time; long vectors are searched in pieces."""
    torch.manual_seed(0)
    count = torch.histc if d.is_floating_point else torch.bincount
    pieces = gpu.along._pieces
    monkeypatch.setattr(gpu.along, "_pieces", lambda *about: 400 if about[2] == 5100 else pieces(*about))
    for length in (7, 5000, 5100, 33_000):  # of many pieces the last ones have no elements
        for turn in range(4):
            x, before = (torch.rand(length) * 100 + 20 * turn).to(d), Kernel.natively
            same(count(on_gpu(x)), count(x))
            assert turn < 2 or Kernel.natively > before
    if d.is_floating_point:
        with pytest.raises(RuntimeError, match="not finite"):
            torch.histc(on_gpu(torch.tensor([1.0, float("nan")], dtype=d)))


# -- distinct elements, and gradients ------------------------------------------------------------------------------


def test_distinct_elements(gpu):
    torch.manual_seed(0)
    for x in (torch.randint(-4, 9, (3, 40)), some((30,), torch.float32), torch.tensor([5])):
        same(
            torch.unique(on_gpu(x), return_inverse=True, return_counts=True),
            torch.unique(x, return_inverse=True, return_counts=True),
        )
    same(torch.unique(on_gpu(x)), torch.unique(x))


@pytest.mark.parametrize("dim", [0, 1])
def test_gradients_go_where_elements_were(gpu, dim):
    torch.manual_seed(0)
    x = torch.randn(6, 9, requires_grad=True)
    there = on_gpu(x, True)
    for function in (
        lambda x: x.max(dim)[0],
        lambda x: x.topk(3, dim)[0],
        lambda x: x.sort(dim)[0],
        lambda x: x.median(dim, True)[0],
    ):
        for turn in range(4):
            expected, made = function(x), function(there)
            g = torch.randn(expected.shape)
            on = on_gpu(g)
            before = Kernel.natively
            ours = torch.autograd.grad(made, there, on)[0]
            assert turn < 3 or Kernel.natively > before
            same(ours, torch.autograd.grad(expected, x, g)[0])


@pytest.mark.parametrize(
    "function", [lambda x: x.prod(1), lambda x: x.amax(1), lambda x: x.max()], ids=["prod", "amax", "max"]
)
def test_gradients_of_folds_wait_for_nothing(gpu, function):
    torch.manual_seed(0)
    x = torch.randint(-2, 3, (6, 4)).float().requires_grad_()
    there = on_gpu(x, True)
    for turn in range(4):
        expected, made = function(x), function(there)
        g = torch.randn(expected.shape)
        on = on_gpu(g)
        before = Kernel.natively
        ours = torch.autograd.grad(made, there, on)[0]
        assert turn < 3 or Kernel.natively == before + 1
        close(ours, torch.autograd.grad(expected, x, g)[0])
