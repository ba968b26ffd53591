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
