"""Pooling on a GPU, by kernels that the CPU runs."""

import pytest

import flambeau as torch

from .emulated import Kernel
from .fake_gpu import back, on_gpu

pytestmark = pytest.mark.sweep

F = torch.nn.functional


def agree(function, *tensors):
    """Results and gradients as on the CPU, to the last bit and in the same order of memory; from the third call on by plans."""
    there = [on_gpu(t.detach(), t.requires_grad) for t in tensors]
    expected = function(*tensors)
    g = torch.randn(expected[0].shape).to(expected[0].dtype)
    wanted = [i for i, t in enumerate(tensors) if t.requires_grad]
    theirs = torch.autograd.grad(expected[0], [tensors[i] for i in wanted], g) if wanted else ()
    for call in range(4):
        before = Kernel.natively
        got = function(*there)
        forward = Kernel.natively - before
        ours = torch.autograd.grad(got[0], [there[i] for i in wanted], on_gpu(g)) if wanted else ()
        backward = Kernel.natively - before - forward
        assert call < 3 or (forward and (backward or not wanted)), (forward, backward)
        for a, b in zip((*got, *ours), (*expected, *theirs), strict=True):
            assert a.stride() == b.stride()
            assert back(a.detach()).equal(b.detach())


def picture(shape, d, last=False):
    torch.manual_seed(0)
    x = (torch.randn(shape) * 3).round().to(d)  # there are ties
    if last:
        x = x.to(memory_format=torch.channels_last if x.ndim == 4 else torch.channels_last_3d)
    return x.requires_grad_(d.is_floating_point)


MAXIMA = {
    "max1": (lambda x: F.max_pool1d(x, 3, 2, 1, return_indices=True), (2, 3, 9)),
    "max2": (lambda x: F.max_pool2d(x, 2, return_indices=True), (2, 3, 6, 4)),
    "overlapping": (lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), (2, 3, 7, 8)),
    "gaps": (lambda x: F.max_pool2d(x, 3, 1, 1, dilation=2, return_indices=True), (1, 2, 7, 6)),
    "unbatched": (lambda x: F.max_pool2d(x, 3, 1, return_indices=True), (3, 5, 6)),
    "max3": (lambda x: F.max_pool3d(x, 2, 1, 1, return_indices=True), (1, 2, 3, 4, 5)),
    "adaptive": (lambda x: F.adaptive_max_pool2d(x, (3, 2), return_indices=True), (2, 2, 7, 5)),
}


@pytest.mark.parametrize("d", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", MAXIMA)
def test_maxima(gpu, name, d):
    function, shape = MAXIMA[name]
    agree(function, picture(shape, d))


def test_maxima_of_integers_and_nan(gpu):
    function, shape = MAXIMA["overlapping"]
    agree(function, picture(shape, torch.int32))
    x = picture(shape, torch.float32).detach()
    x[0, 0, 2:4, 3] = torch.nan
    there = function(on_gpu(x))
    for a, b in zip(there, function(x)):
        assert torch.allclose(back(a), b, equal_nan=True)


MEANS = {
    "avg1": (lambda x: [F.avg_pool1d(x, 3, 2, 1)], (2, 3, 9)),
    "avg2": (lambda x: [F.avg_pool2d(x, 2)], (2, 3, 6, 4)),
    "overlapping": (lambda x: [F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)], (2, 3, 6, 8)),
    "inside": (lambda x: [F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)], (1, 2, 5, 6)),
    "divisor": (lambda x: [F.avg_pool2d(x, (1, 3), 2, divisor_override=5)], (3, 5, 6)),
    "avg3": (lambda x: [F.avg_pool3d(x, 2, 1, 1)], (1, 2, 3, 4, 5)),
    "adaptive": (lambda x: [F.adaptive_avg_pool2d(x, (3, 2))], (2, 2, 7, 5)),
    "adaptive3": (lambda x: [F.adaptive_avg_pool3d(x, (2, 1, 3))], (2, 2, 3, 4, 5)),
}


# The CPU has no 3-d means of 16-bit floats to compare with, as PyTorch has none.
FLOATS = torch.float32, torch.float64, torch.bfloat16
EACH = [(name, d) for name in MEANS for d in FLOATS if (name, d) != ("avg3", torch.bfloat16)]


@pytest.mark.parametrize("name, d", EACH, ids=str)
def test_means(gpu, name, d):
    function, shape = MEANS[name]
    x = picture(shape, d)
    there, expected = on_gpu(x.detach(), True), function(x)[0]
    g = torch.randn(expected.shape).to(d)
    theirs = torch.autograd.grad(expected, x, g)[0]
    rtol = 1e-2 if d is torch.bfloat16 else 1e-6  # sums of the CPU's come in another order
    for call in range(4):
        before = Kernel.natively
        got = function(there)[0]
        forward = Kernel.natively - before
        ours = torch.autograd.grad(got, there, on_gpu(g))[0]
        assert call < 3 or (forward and Kernel.natively > before + forward)
        assert got.stride() == expected.stride() and ours.stride() == theirs.stride()
        assert torch.allclose(back(got.detach()), expected.detach(), rtol, rtol)
        assert torch.allclose(back(ours), theirs, rtol, rtol)


@pytest.mark.parametrize(
    "name, shape",
    [("max2", (2, 3, 6, 4)), ("max2", (2, 1, 6, 4)), ("adaptive", (2, 3, 6, 5)), ("max3", (2, 3, 3, 4, 5))],
)
def test_channels_stay_last(gpu, name, shape):
    agree(MAXIMA[name][0], picture(shape, torch.float32, last=True))
    if name in MEANS:
        agree(MEANS[name][0], picture(shape, torch.float32, last=True))


def test_parts_of_memory_are_pooled_where_they_lie(gpu):
    x = torch.randn(2, 4, 9, 8)
    parts = lambda x: (x[:, 1:3, 2:, ::2], x.transpose(2, 3), x[:, :, :, :1].expand(2, 4, 9, 6))
    for here, there in zip(parts(x), parts(on_gpu(x))):
        assert back(F.max_pool2d(there, 2)).equal(F.max_pool2d(here, 2))
        assert torch.allclose(back(F.avg_pool2d(there, 2)), F.avg_pool2d(here, 2))


def test_windows_of_nothing_but_padding(gpu):
    x = torch.randn(1, 1, 5, 5)
    function = lambda x: F.max_pool2d(x, 2, 2, 1, dilation=2, ceil_mode=True, return_indices=True)
    for a, b in zip(function(on_gpu(x)), function(x)):
        assert back(a).equal(b)


def test_no_pictures(gpu):
    x = on_gpu(torch.zeros(0, 3, 4, 4))
    assert F.max_pool2d(x, 2).shape == F.avg_pool2d(x, 2).shape == (0, 3, 2, 2)
