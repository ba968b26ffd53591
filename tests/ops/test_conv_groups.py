"""Convolutions of small groups: against a convolution of all channels whose other weights are zero."""

import math

import pytest

import flambeau as torch
from flambeau._kernel.native import site
from flambeau._ops.layers.convolution import description, groups

F = torch.nn.functional
CASES = [  # images, groups, inputs, outputs (of each group), size, kernel, stride, padding, dilation
    (2, 8, 1, 1, (9, 28), (3, 3), 1, 1, 1), (3, 5, 1, 1, (17, 33), (3, 3), 2, 1, 1), (2, 6, 1, 2, (14, 14), (5, 5), 1, 2, 1),
    (1, 4, 1, 1, (31, 16), (7, 7), 2, 3, 1), (2, 3, 1, 3, (13, 40), (3, 2), (3, 1), (0, 2), (1, 3)),
    (8, 8, 4, 4, (7, 7), (3, 3), 1, 1, 1), (2, 4, 3, 5, (20, 19), (3, 3), 2, 1, 2), (2, 2, 9, 13, (3, 50), (2, 4), (1, 4), 1, 1),
    (2, 4, 2, 8, (2, 3), (1, 2), 1, 0, 1), (1, 16, 1, 1, (4, 4), (3, 3), (2, 3), (1, 2), 1), (2, 4, 1, 1, (5, 60), (1, 9), (1, 3), 0, 2),
    (2, 3, 1, 1, (13, 20), (9, 9), 1, 4, 1), (1, 2, 3, 6, (30, 21), (11, 7), (2, 1), (5, 2), (1, 2)),
]  # fmt: skip


@pytest.fixture
def taken(monkeypatch):
    """Counts how often this way is taken, also for little work."""
    monkeypatch.setattr("flambeau._ops.layers.convolution.description.SMALL", 0)
    monkeypatch.setattr("flambeau._backend.threads.WORTHWHILE", 500)
    calls = []
    for name in ("products", "adjoint", "sums"):
        plain = getattr(groups, name)
        monkeypatch.setattr(groups, name, lambda *a, plain=plain: calls.append(1) or plain(*a))
    description.way.cache_clear()
    with site.switched_off():  # where calls are planned they run once more
        yield calls
    description.way.cache_clear()


def _results(case, d, dense=False, one=False):
    images, groups, inputs, outputs, size, kernel, stride, padding, dilation = case
    torch.manual_seed(0)
    x, bias = torch.randn(images, groups * inputs, *size).to(d), torch.randn(groups * outputs).to(d)
    weight = torch.randn(groups * outputs, inputs, *kernel).to(d)
    given = [t.requires_grad_() for t in (x, weight, bias)]
    used = given[1]
    if dense:
        full = torch.zeros(groups * outputs, groups * inputs, *kernel, dtype=d)
        rows = []
        for g in range(groups):
            part = F.pad(used[g * outputs : (g + 1) * outputs].flatten(2).transpose(1, 2),
                         (g * inputs, (groups - 1 - g) * inputs))  # fmt: skip
            rows.append(part.transpose(1, 2).reshape(outputs, groups * inputs, *kernel))
        used = full + torch.cat(rows)
    y = F.conv2d(x, used, bias, stride, padding, dilation, 1 if dense else groups)
    y.backward(torch.linspace(-1, 1, y.numel(), dtype=d).view(y.shape))
    return [y.detach(), *[t.grad for t in given]]


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_and_gradients(case, threads, taken):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        short, double = _results(case, torch.float32), _results(case, torch.float64)
        assert len(taken) == 6
        wanted = _results(case, torch.float64, dense=True)
    finally:
        torch.set_num_threads(before)
    for a, b, c in zip(short, double, wanted):
        assert (a.double() - c).abs().max() <= 4e-6 * c.abs().max()
        assert (b - c).abs().max() <= 1e-13 * c.abs().max()


def test_large_windows(taken):
    """Their columns are a loop of the kernels."""
    for made, expected in zip(_results(CASES[-2], torch.float32), _results(CASES[-2], torch.float32, dense=True)):
        torch.testing.assert_close(made, expected, rtol=1e-4, atol=1e-4)
    assert len(taken) >= 3


def test_one_dimension(taken):
    x, w = torch.randn(2, 6, 41, dtype=torch.float64), torch.randn(12, 2, 5, dtype=torch.float64)
    for stride, padding, dilation in ((1, 0, 1), (2, 3, 1), (3, 0, 2), (1, 2, 4)):
        made = F.conv1d(x, w, None, stride, padding, dilation, 3)
        windows = F.pad(x, (padding, padding)).unfold(2, 4 * dilation + 1, stride)[..., ::dilation]
        wanted = torch.einsum("ngipk,goik->ngop", windows.unflatten(1, (3, 2)), w.unflatten(0, (3, 4)))
        assert torch.allclose(made, wanted.flatten(1, 2), atol=1e-13)
    assert len(taken) == 4


def test_infinite_elements_stay_where_they_are(taken):
    x, w = torch.ones(1, 2, 6, 21, requires_grad=True), torch.ones(2, 1, 3, 3, requires_grad=True)
    with torch.no_grad():
        x[0, 0, 5, 20] = math.inf
        x[0, 1, 0, 0] = -math.inf
    y = F.conv2d(x, w, groups=2)
    assert y.isinf().sum() == 2 and not y.isnan().any()
    g = torch.zeros_like(y)
    g[0, :, 1, 3] = 1
    y.backward(g)
    assert w.grad.isnan().sum() == 2 and w.grad.nansum() == 16  # 0 * inf, where a window ends at the element
    assert x.grad.sum() == 18
    assert taken


def test_transposed_with_more_rows_than_windows_reach(taken):
    x, w = torch.randn(2, 6, 5, 7, dtype=torch.float64), torch.randn(6, 1, 3, 3, dtype=torch.float64)
    made = F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1, groups=6)
    parts = [F.conv_transpose2d(a, b, stride=2, padding=1, output_padding=1) for a, b in zip(x.split(1, 1), w.split(1))]
    assert made.shape == (2, 6, 10, 14) and torch.allclose(made, torch.cat(parts, 1), atol=1e-13)
    assert taken


@pytest.mark.parametrize("images, size, stride, padding", [(1, (33, 9), 2, 3), (3, (37, 8), 2, 0), (2, (9, 40), 1, 2)])
def test_rows_of_few_images_are_shared(images, size, stride, padding, taken):
    """By many threads as by one: rows end anywhere, and some lie in the padding."""
    x = torch.arange(images * 3.0 * math.prod(size)).view(images, 3, *size).sin()
    w = torch.arange(7 * 3 * 25.0).view(7, 3, 5, 5).cos()
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 8):
            torch.set_num_threads(threads)
            description.way.cache_clear()
            given = x.clone().requires_grad_(stride == 1), w.clone().requires_grad_()
            y = F.conv2d(*given, None, stride, padding)
            y.backward(torch.arange(float(y.numel())).view(y.shape).cos())
            found.append((y.detach(), given[1].grad, given[0].grad))
    finally:
        torch.set_num_threads(before)
    (y, by_w, by_x), (alone, alone_w, alone_x) = found
    assert len(taken) >= 4 and torch.equal(y, alone)
    torch.testing.assert_close(by_w, alone_w, atol=1e-3, rtol=1e-4)
    if stride == 1:
        assert torch.equal(by_x, alone_x)
