"""Convolutions by Winograd's tiles: against the same sums in double precision, which never take that way."""

import pytest

import flambeau as torch
from flambeau._ops import conv_winograd

F = torch.nn.functional
CASES = [  # images, inputs, outputs, height, width, padding
    (2, 16, 32, 29, 27, 1), (3, 33, 17, 20, 31, 0), (1, 20, 40, 31, 64, 2), (16, 16, 16, 8, 9, 1), (8, 24, 16, 14, 14, 1),
    (2, 130, 16, 28, 20, (0, 1)),
]  # fmt: skip


@pytest.fixture
def taken(monkeypatch):
    """Counts how often the tiles are used."""
    calls, plain = [], conv_winograd.convolve
    monkeypatch.setattr(conv_winograd, "convolve", lambda *a: calls.append(1) or plain(*a))
    return calls


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
    assert len(taken) == 2  # forward and the gradient by the images
    for short, long in zip(*results):
        assert (short.double() - long).abs().max() <= 4e-6 * long.abs().max()


def test_subnormal_leftovers_in_memory_do_not_matter():
    x, w = torch.ones(4, 16, 14, 14), torch.ones(16, 16, 3, 3)
    for value in (1e-40, float("nan"), float("inf")):
        junk = [torch.full((1 << 20,), value) for _ in range(4)]
        del junk
        y = F.conv2d(x, w, padding=1)
        assert y[:, :, 1:-1, 1:-1].eq(144).all() and y[:, :, 0, 0].eq(64).all()


def test_transposed_convolution_takes_the_same_way(taken):
    torch.manual_seed(1)
    x, w = torch.randn(4, 20, 15, 17), torch.randn(20, 24, 3, 3)
    made = F.conv_transpose2d(x, w, padding=1)
    exact = F.conv_transpose2d(x.double(), w.double(), padding=1)
    assert taken and (made.double() - exact).abs().max() <= 4e-6 * exact.abs().max()
