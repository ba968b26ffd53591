"""Image operations give channels last where their input has them so, with the same values."""

import pytest

import flambeau as torch

F = torch.nn.functional
LAST = torch.channels_last
CALLS = {
    "conv2d": lambda x: F.conv2d(x, W),
    "conv1x1": lambda x: F.conv2d(x, W[:, :, :1, :1]),
    "conv_transpose2d": lambda x: F.conv_transpose2d(x, W.transpose(0, 1)),
    "max_pool2d": lambda x: F.max_pool2d(x, 2),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 2),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, 3),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "pad": lambda x: F.pad(x, (1, 1, 1, 1)),
    "relu": F.relu,
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
}
torch.manual_seed(0)
W = torch.randn(4, 8, 3, 3)


@pytest.mark.parametrize("name", CALLS)
def test_channels_last_in_and_out(name):
    x = torch.randn(2, 8, 6, 6)
    plain, last = (t.clone().requires_grad_() for t in (x, x.to(memory_format=LAST)))
    wanted, found = CALLS[name](plain), CALLS[name](last)
    assert wanted.is_contiguous() and found.is_contiguous(memory_format=LAST) and not found.is_contiguous()
    torch.testing.assert_close(found, wanted)
    factor = torch.randn(wanted.shape)
    for t in (wanted, found):
        (t * factor).sum().backward()
    torch.testing.assert_close(last.grad, plain.grad)


def test_the_weight_decides_too():
    x = torch.randn(2, 8, 6, 6)
    assert F.conv2d(x, W.to(memory_format=LAST)).is_contiguous(memory_format=LAST)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: F.max_pool2d(x, 2),
        lambda x: F.max_pool2d(x, 3, 2, 1, 2),
        lambda x: F.max_pool2d(x, 5, 3, ceil_mode=True),
        lambda x: F.adaptive_max_pool2d(x, (5, 4)),
        lambda x: F.avg_pool2d(x, 3, 2, 1),
        lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False),
        lambda x: F.adaptive_avg_pool2d(x, (5, 4)),
        lambda x: F.interpolate(x, size=(5, 17), mode="bilinear"),
        lambda x: F.interpolate(x, size=(5, 17), mode="bicubic"),
        lambda x: F.interpolate(x, size=(5, 30), mode="nearest"),
    ],
)
@pytest.mark.parametrize("channels", [3, 16, 40])
def test_channels_side_by_side_are_columns_of_the_same_kernels(call, channels):
    """Where the largest elements lie shows in the gradients."""
    x = torch.randint(-4, 4, (2, channels, 9, 13)).double()
    plain, last = (t.clone().requires_grad_() for t in (x, x.to(memory_format=LAST)))
    wanted, found = call(plain), call(last)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-14)
    g = torch.randn(wanted.shape, dtype=torch.float64)
    wanted.backward(g)
    found.backward(g.to(memory_format=LAST))
    torch.testing.assert_close(last.grad, plain.grad, rtol=0, atol=1e-13)


@pytest.mark.parametrize("rest", [(2,), (3, 2, 1), (3, 1, 1, 2)])
def test_places_of_maxima_count_elements_of_planes(rest):
    x = torch.randn(2, 16, 9, 11)
    wanted, found = (F.max_pool2d(t, *rest, return_indices=True)[1] for t in (x, x.to(memory_format=LAST)))
    assert found.equal(wanted) and found.is_contiguous(memory_format=LAST)
