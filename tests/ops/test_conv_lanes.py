"""Convolutions with channels side by side: against the same sums in double precision, which never take that way."""

import functools
import threading

import pytest

import flambeau as torch
from flambeau._kernel.native import site
from flambeau._ops.layers.convolution import description, lanes

F = torch.nn.functional
CASES = [  # images, inputs, outputs, size, kernel, stride, padding, dilation
    (8, 32, 64, (17, 16), (3, 3), 2, 1, 1), (3, 32, 32, (14, 15), (1, 1), 2, 0, 1), (2, 64, 64, (12, 9), (5, 2), 1, 2, 1),
    (5, 64, 32, (11, 30), (3, 3), (1, 3), (0, 2), 2), (9, 31, 63, (7, 7), (3, 3), 3, 1, (1, 2)),
    (4, 18, 16, (14, 14), (5, 5), 1, 0, 1), (1, 32, 96, (6, 40), (4, 4), 4, 0, 1), (2, 30, 29, (20, 20), (2, 2), 1, 1, 3),
]  # fmt: skip


@pytest.fixture
def taken(monkeypatch):
    """Counts how often this way is taken; a thread may rehearse it."""
    calls = []

    def counted(plain, *a):
        if threading.current_thread() is threading.main_thread():
            calls.append(1)
        return plain(*a)

    for name in ("products", "adjoint", "sums"):
        monkeypatch.setattr(lanes, name, functools.partial(counted, getattr(lanes, name)))
    description.way.cache_clear()
    with site.switched_off():  # where calls are planned they run once more
        yield calls
    description.way.cache_clear()


def _results(case, d):
    images, inputs, outputs, size, kernel, stride, padding, dilation = case
    torch.manual_seed(0)
    given = torch.randn(images, inputs, *size), torch.randn(outputs, inputs, *kernel), torch.randn(outputs)
    given = [t.to(d).requires_grad_() for t in given]
    y = F.conv2d(*given, stride=stride, padding=padding, dilation=dilation)
    y.backward(torch.linspace(-1, 1, y.numel(), dtype=d).view(y.shape))
    return [y.detach(), *[t.grad for t in given]]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case, threads, taken):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        short, long = _results(case, torch.float32), _results(case, torch.float64)
    finally:
        torch.set_num_threads(before)
    assert len(taken) == 3
    for a, b in zip(short, long):
        assert (a.double() - b).abs().max() <= 4e-6 * b.abs().max()


def test_many_images_take_several_plans(monkeypatch, taken):
    monkeypatch.setattr("flambeau._ops.layers.convolution.schedule._MOST_BLOCKS", 4)
    short, long = _results(CASES[0], torch.float32), _results(CASES[0], torch.float64)
    assert taken
    for a, b in zip(short, long):
        assert (a.double() - b).abs().max() <= 4e-6 * b.abs().max()


def test_infinite_elements_stay_where_they_are(taken):
    x, w = torch.ones(4, 33, 16, 16), torch.ones(32, 33, 3, 3)
    x[0, 32, 4, 5] = float("inf")
    y = F.conv2d(x, w, stride=2, padding=1)
    assert taken and y[0, :, 2].isinf().any() and not y.isnan().any()
    assert not y[1:].isinf().any() and not y[0, :, 4:].isinf().any()


def test_strided_inputs_and_transposed_convolutions(taken):
    torch.manual_seed(1)
    x, w = torch.randn(4, 16, 15, 40).transpose(1, 3)[:, 8:], torch.randn(32, 32, 3, 3)
    made = F.conv_transpose2d(x, w, torch.ones(32), stride=2, padding=1, output_padding=1)
    exact = F.conv_transpose2d(x.double(), w.double(), torch.ones(32).double(), stride=2, padding=1, output_padding=1)
    assert taken and (made.double() - exact).abs().max() <= 4e-6 * exact.abs().max()


@pytest.mark.parametrize("channels", [32, 33])
def test_channels_last(channels, taken):
    torch.manual_seed(2)
    x, w = torch.randn(3, channels, 9, 11), torch.randn(32, channels, 3, 3)
    exact = F.conv2d(x.double(), w.double(), stride=2)
    made = F.conv2d(x.contiguous(memory_format=torch.channels_last), w, stride=2)
    assert taken and made.is_contiguous(memory_format=torch.channels_last)
    assert (made.double() - exact).abs().max() <= 4e-6 * exact.abs().max()
