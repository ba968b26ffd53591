"""Resizing and padding on a GPU, by kernels that the CPU runs."""

import pytest

import flambeau as torch

from .emulated import Kernel
from .fake_gpu import back, on_gpu

pytestmark = pytest.mark.sweep

F = torch.nn.functional


def agree(function, x, limit=0.0):
    """Results and gradients as on the CPU, in the same order of memory; from the third call on by plans."""
    there, expected = on_gpu(x.detach(), x.requires_grad), function(x)
    g = torch.randn(expected.shape).to(expected.dtype)
    theirs = torch.autograd.grad(expected, x, g) if x.requires_grad else ()
    for call in range(4):
        before = Kernel.natively
        got = function(there)
        forward = Kernel.natively - before
        ours = torch.autograd.grad(got, there, on_gpu(g)) if x.requires_grad else ()
        backward = Kernel.natively - before - forward
        assert call < 3 or (forward and (backward or not ours)), (forward, backward)
        for a, b in zip((got, *ours), (expected, *theirs), strict=True):
            assert a.stride() == b.stride() and a.dtype is b.dtype
            wide = torch.complex128 if b.is_complex() else torch.float64
            assert torch.allclose(back(a.detach()).to(wide), b.detach().to(wide), limit, limit)


def picture(shape, d=torch.float32, last=False):
    torch.manual_seed(0)
    x = (torch.randn(shape) * 3).to(d)
    if last:
        x = x.to(memory_format=torch.channels_last if x.ndim == 4 else torch.channels_last_3d)
    return x.requires_grad_(d.is_floating_point)


MODES = [
    ((2, 3, 5), "nearest", {}), ((2, 3, 5), "linear", {}), ((2, 3, 5, 4), "nearest", {}), ((2, 3, 5, 4), "nearest-exact", {}),
    ((2, 3, 5, 4), "bilinear", {"align_corners": True}), ((2, 3, 5, 4), "bilinear", {}), ((1, 2, 6, 5), "bicubic", {}),
    ((1, 2, 9, 8), "bilinear", {"antialias": True}), ((1, 2, 3, 4, 2), "trilinear", {}), ((1, 2, 3, 4, 2), "nearest", {}),
]  # fmt: skip


@pytest.mark.parametrize("d", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape, mode, more", MODES)
def test_sizes(gpu, shape, mode, more, d):
    for factor in (2, 0.6):
        agree(lambda x: F.interpolate(x, scale_factor=factor, mode=mode, **more), picture(shape, d), 1e-6)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_channels_stay_last(gpu, mode):
    agree(lambda x: F.interpolate(x, (7, 3), mode=mode), picture((2, 3, 5, 4), last=True), 1e-6)
    agree(lambda x: F.interpolate(x, (7, 3), mode=mode), picture((2, 1, 5, 4), last=True), 1e-6)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_bytes(gpu, mode):
    x = torch.arange(70, dtype=torch.uint8).mul(3).view(1, 2, 5, 7)
    for size in ((3, 4), (8, 9)):
        agree(lambda x: F.interpolate(x, size, mode=mode), x)


def test_parts_of_memory(gpu):
    x = torch.randn(2, 4, 9, 8)
    parts = lambda x: (x[:, 1:3, 2:, ::2], x.transpose(2, 3), x[:, :, :, :1].expand(2, 4, 9, 6))
    for mode in ("nearest", "bilinear"):
        for here, there in zip(parts(x), parts(on_gpu(x))):
            got, expected = (F.interpolate(t, (5, 7), mode=mode) for t in (there, here))
            assert torch.allclose(back(got), expected, 1e-6, 1e-6)


@pytest.mark.parametrize("d", [torch.float32, torch.bfloat16, torch.complex128], ids=str)
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding(gpu, mode, d):
    x = picture((2, 3, 5, 4), d)
    agree(lambda x: F.pad(x, (2, 1, 0, 3), mode=mode), x.requires_grad_(), 1e-6)
    agree(lambda x: F.pad(x, (1, 2), mode=mode), picture((2, 3, 4), d).requires_grad_(), 1e-6)


@pytest.mark.parametrize("d", [torch.float32, torch.bfloat16, torch.int64], ids=str)
@pytest.mark.parametrize("value", [0, 3])
def test_padding_with_numbers(gpu, value, d):
    agree(lambda x: F.pad(x, (2, 1, 0, 3), value=value), picture((2, 3, 5, 4), d).detach())
    agree(lambda x: F.pad(x, (-1, 1), value=value), picture((3, 4), d).detach())


def test_no_pictures(gpu):
    x = on_gpu(torch.zeros(0, 3, 4, 4))
    assert F.interpolate(x, scale_factor=2).shape == F.interpolate(x, (8, 8), mode="bilinear").shape == (0, 3, 8, 8)
