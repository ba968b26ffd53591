"""Convolutions by Winograd's tiles: against the same sums in double precision, which never take that way."""

import numpy as np
import pytest

import flambeau as torch
from flambeau._kernel.native import site
from flambeau._ops.layers.convolution import description, winograd

F = torch.nn.functional
CASES = [  # images, inputs, outputs, height, width, padding
    (2, 16, 32, 29, 27, 1), (3, 33, 17, 20, 31, 0), (1, 20, 40, 31, 64, 2), (16, 16, 16, 8, 9, 1), (8, 24, 16, 14, 14, 1),
    (2, 130, 16, 28, 20, (0, 1)), (3, 40, 300, 7, 5, 1), (2, 600, 100, 6, 7, 1), (9, 17, 33, 2, 9, 2), (1, 600, 100, 14, 14, 1),
]  # fmt: skip


@pytest.fixture
def taken(monkeypatch):
    """Counts how often the tiles are used."""
    calls = []
    for name in ("products", "adjoint", "sums"):
        plain = getattr(winograd, name)
        monkeypatch.setattr(winograd, name, lambda *a, plain=plain: calls.append(1) or plain(*a))
    description.way.cache_clear()
    with site.switched_off():  # where calls are planned they run once more
        yield calls
    description.way.cache_clear()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case, threads, taken):
    images, inputs, outputs, height, width, padding = case
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        torch.manual_seed(0)
        x, w, b = torch.randn(images, inputs, height, width), torch.randn(outputs, inputs, 3, 3), torch.randn(outputs)
        results = []
        for d in (torch.float32, torch.float64):
            given = [t.detach().to(d).requires_grad_() for t in (x, w, b)]
            y = F.conv2d(*given, padding=padding)
            y.backward(torch.linspace(-1, 1, y.numel(), dtype=d).view(y.shape))
            results.append([y.detach(), *[t.grad for t in given]])
    finally:
        torch.set_num_threads(before)
    assert len(taken) == 3  # forward and both gradients
    for short, long in zip(*results):
        assert (short.double() - long).abs().max() <= 4e-6 * long.abs().max()


def test_coordinates_of_all_tiles_are_kept_only_for_several_slices_of_outputs(monkeypatch):
    """A thread that has one slice alone deals with some tiles at a time, which stay in its second cache."""
    found, plain = [], winograd.products
    monkeypatch.setattr(winograd, "products", lambda conv, *a: found.append(conv) or plain(conv, *a))
    description.way.cache_clear()
    with site.switched_off():
        F.conv2d(torch.ones(8, 64, 32, 32), torch.ones(64, 64, 3, 3), padding=1)
    description.way.cache_clear()

    def schedule(cores):
        conv = found[0]._replace(threads=cores)
        operands = [np.empty(shape, "f4") for shape in winograd._LargeProducts.shapes(conv)]
        return winograd._LargeProducts(conv, operands)

    for cores in (1, 2, 4):
        made = schedule(cores)
        assert (len(made.blocks) == 1) == (made.jobs > cores)


def test_subnormal_leftovers_in_memory_do_not_matter():
    x, w = torch.ones(4, 16, 14, 14), torch.ones(16, 16, 3, 3)
    for value in (1e-40, float("nan"), float("inf")):
        junk = [torch.full((1 << 20,), value) for _ in range(4)]
        del junk
        y = F.conv2d(x, w, padding=1)
        expected = F.conv2d(x.double(), w.double(), padding=1)
        torch.testing.assert_close(y.double(), expected, rtol=2e-6, atol=0)
        del y
        (g,) = torch.autograd.grad(F.conv2d(x, w.requires_grad_(), padding=1).sum(), w)
        torch.testing.assert_close(g[:, :, 1, 1], torch.full((16, 16), 4.0 * 196), rtol=2e-6, atol=0)
        torch.testing.assert_close(g[:, :, 0, 2], torch.full((16, 16), 4.0 * 169), rtol=2e-6, atol=0)


@pytest.mark.parametrize("size", [2, 4])
def test_errors_stay_near_those_of_direct_sums(size, monkeypatch):
    monkeypatch.setattr(winograd, "size_of", lambda conv, least: size)
    torch.manual_seed(4)
    x, w, g = torch.randn(2, 128, 12, 12).relu(), torch.randn(32, 128, 3, 3), torch.randn(2, 32, 12, 12)
    results = []
    for d in (torch.float32, torch.float64):
        a, b = x.to(d).requires_grad_(), w.to(d).requires_grad_()
        y = F.conv2d(a, b, padding=1)
        results.append([y.detach(), *torch.autograd.grad(y, (a, b), g.to(d))])
    for short, long in zip(*results):
        assert (short.double() - long).std() <= {2: 0.7e-6, 4: 2e-6}[size] * long.std()


def test_tiles_are_large_where_that_spares_work():
    def size(images, height, width, least=8):
        one, extent = (1, 1), (height, width)
        conv = description.Conv(None, None, images, 16, 16, 1, extent, (3, 3), one, one, one, extent, 1)
        return winograd.size_of(conv, least)

    assert size(8, 32, 32) == size(4, 14, 14) == size(8, 4, 4) == size(2, 7, 7) == 4
    assert size(8, 4, 4, 16) == size(4, 6, 6) == size(1, 8, 4) == size(8, 2, 32) == 2


def test_transposed_convolution_takes_the_same_way(taken):
    torch.manual_seed(1)
    x, w = torch.randn(4, 20, 15, 17), torch.randn(20, 24, 3, 3)
    made = F.conv_transpose2d(x, w, padding=1)
    exact = F.conv_transpose2d(x.double(), w.double(), padding=1)
    assert taken and (made.double() - exact).abs().max() <= 4e-6 * exact.abs().max()


def test_many_images_take_several_plans(monkeypatch):
    monkeypatch.setattr("flambeau._ops.layers.convolution.schedule._MOST_BLOCKS", 2)
    torch.manual_seed(2)
    x, w = torch.randn(7, 16, 18, 18), torch.randn(24, 16, 3, 3)
    results = []
    for d in (torch.float32, torch.float64):
        a, b = x.to(d).requires_grad_(), w.to(d).requires_grad_()
        y = F.conv2d(a, b, padding=1)
        results.append([y.detach(), *torch.autograd.grad(y.square().sum(), (a, b))])
    for short, long in zip(*results):
        assert (short.double() - long).abs().max() <= 1e-5 * long.abs().max()


def test_second_derivatives():
    torch.manual_seed(3)
    x, w = torch.randn(4, 16, 9, 8), torch.randn(16, 16, 3, 3)
    results = []
    for d in (torch.float32, torch.float64):
        a, b = x.to(d).requires_grad_(), w.to(d).requires_grad_()
        first = torch.autograd.grad(F.conv2d(a, b, padding=1).square().sum(), (a, b), create_graph=True)
        results.append(torch.autograd.grad(sum(g.square().sum() for g in first), (a, b)))
    for short, long in zip(*results):
        assert (short.double() - long).abs().max() <= 1e-5 * long.abs().max()
