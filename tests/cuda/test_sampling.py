"""Sampling at the points of a grid on a GPU, by kernels that the CPU runs."""

import os

import pytest

import flambeau as torch

from .emulated import Kernel
from .fake_gpu import back, on_gpu

F = torch.nn.functional
NATIVE = os.environ.get("FLAMBEAU_NATIVE_ENTRY") != "0"


def operands(rank, d, points=(3, 5, 2)):
    torch.manual_seed(0)
    x, grid = torch.randn(2, 3, *(5, 4, 3)[:rank]), torch.randn(2, *points[:rank], rank) * 0.9
    return x.to(d), grid.to(d)


def agree(x, grid, *how, strided=lambda t: t):
    """Values and gradients as on the CPU, from the third call on each by one plan."""
    limit = 1e-5 if x.element_size() > 2 else 0.1
    here, there = ([strided(t) for t in make] for make in ((x, grid), (on_gpu(x), on_gpu(grid))))
    for t in (*here, *there):
        t.requires_grad_()
    expected = F.grid_sample(*here, *how)
    g = torch.randn(expected.shape).to(x.dtype)
    theirs = torch.autograd.grad(expected, here, g)
    for call in range(4):
        start = Kernel.natively
        got = F.grid_sample(*there, *how)
        forward = Kernel.natively - start
        ours = torch.autograd.grad(got, there, on_gpu(g))
        backward = Kernel.natively - start - forward
        assert call < 3 or not NATIVE or (forward == 1 and backward == 2), (forward, backward)
        for a, b in zip((got, *ours), (expected, *theirs), strict=True):
            assert a.dtype is b.dtype and a.shape == b.shape and a.stride() == b.stride()
            assert torch.allclose(back(a.detach()).double(), b.detach().double(), limit, limit), (a, b)


PADDED = [("zeros", True), ("reflection", False)]  # each mode with both; the others are the same parts again
REST = [(p, align) for p in ("zeros", "border", "reflection") for align in (False, True) if (p, align) not in PADDED]


@pytest.mark.parametrize(
    ("padding", "align"), [*PADDED, *[pytest.param(*rest, marks=pytest.mark.slow) for rest in REST]]
)
@pytest.mark.parametrize(
    "rank, mode", [(2, "bilinear"), (2, "nearest"), (2, "bicubic"), (3, "bilinear"), (3, "nearest")]
)
def test_grids(gpu, rank, mode, padding, align):
    agree(*operands(rank, torch.float32), mode, padding, align)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("d", [torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_other_floats(gpu, d, mode):
    agree(*operands(2, d), mode, "border", False)
    x, grid = (on_gpu(t) for t in operands(2, d))
    assert back(F.grid_sample(x, grid, mode, "zeros", True)).equal(F.grid_sample(*operands(2, d), mode, "zeros", True))


def test_parts_of_memory(gpu):
    x, grid = operands(2, torch.float32)
    for part in (lambda t: t.transpose(1, 2).contiguous().transpose(1, 2), lambda t: t[:, :, 1:]):
        here, there = (
            F.grid_sample(part(x), part(grid), align_corners=False),
            F.grid_sample(part(on_gpu(x)), part(on_gpu(grid)), align_corners=False),
        )
        assert torch.allclose(back(there), here, 1e-6, 1e-6)


def test_only_what_requires_gradients_gets_them(gpu):
    x, grid = operands(2, torch.float32)
    for wanted in (0, 1):
        made = []
        for move in (lambda t: t.clone(), on_gpu):
            both = move(x), move(grid)
            both[wanted].requires_grad_()
            F.grid_sample(*both, align_corners=False).sum().backward()
            assert both[1 - wanted].grad is None
            made.append(both[wanted].grad)
        assert torch.allclose(back(made[1]), made[0], 1e-5, 1e-5)


def test_gradients_are_added_in_order_if_asked(gpu):
    x, grid = operands(2, torch.bfloat16)
    torch.use_deterministic_algorithms(True)
    try:
        found = []
        for leaf, points in ((x.clone().requires_grad_(), grid), (on_gpu(x, True), on_gpu(grid))):
            F.grid_sample(leaf, points, padding_mode="border", align_corners=False).sum().backward()
            found.append(leaf.grad)
        assert back(found[1]).equal(found[0])
    finally:
        torch.use_deterministic_algorithms(False)


def test_nothing_to_sample(gpu):
    x, grid = operands(2, torch.float32)
    assert F.grid_sample(on_gpu(x), on_gpu(grid[:, :0]), align_corners=False).shape == (2, 3, 0, 5)
    assert F.grid_sample(on_gpu(x[:, :0]), on_gpu(grid), align_corners=False).shape == (2, 0, 3, 5)
    with pytest.raises(RuntimeError, match="device"):
        F.grid_sample(on_gpu(x), grid, align_corners=False)


@pytest.mark.slow
def test_second_derivatives(gpu):
    found = []
    for move in (lambda t: t.clone().requires_grad_(), lambda t: on_gpu(t, True)):
        x, grid = (move(t) for t in operands(2, torch.float64))
        by_x, by_grid = torch.autograd.grad(
            F.grid_sample(x, grid, align_corners=False).square().sum(), (x, grid), create_graph=True
        )
        found.append(torch.autograd.grad(by_x.square().sum() + by_grid.square().sum(), (x, grid)))
    for a, b in zip(*found):
        assert torch.allclose(back(b), a, 1e-6, 1e-6)
