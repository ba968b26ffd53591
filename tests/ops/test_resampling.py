"""Images of bytes and rows of many taps: the ways of resizing that have kernels of their own."""

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau._ops.layers import interpolation


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_bytes_are_sums_of_whole_weights(mode, antialias):
    """Dimension by dimension, rounded half up and held to bytes each time, in both memory orders and for every edge."""
    x = torch.randint(0, 256, (2, 3, 37, 51), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    x[0, :, :9] = 255
    x[1, :, 9:] = 0
    for size in ((20, 70), (37, 9), (1, 1), (300, 51)):
        expected = x.numpy()
        for axis, n in ((3, size[1]), (2, size[0])):
            if n != expected.shape[axis]:
                index, weights, bits = interpolation._byte_taps(mode, expected.shape[axis], n, False, None, antialias)
                taken = np.take(expected, index, axis).astype(np.int64)
                weights = weights.reshape((*weights.shape, *(1,) * (3 - axis)))
                sums = (taken * weights).sum(axis + 1) + ((1 << int(bits)) >> 1)
                expected = np.clip(sums >> int(bits), 0, 255).astype(np.uint8)
        for given in (
            x,
            x.contiguous(memory_format=torch.channels_last),
            x.transpose(0, 1).contiguous().transpose(0, 1),
        ):
            made = F.interpolate(given, size=size, mode=mode, antialias=antialias, align_corners=False)
            assert made.dtype is torch.uint8 and np.array_equal(made.numpy(), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_that_are_turned_give_the_same(dtype, monkeypatch):
    x = torch.randn(4, 16, 7, 90, dtype=dtype, generator=torch.Generator().manual_seed(1)).requires_grad_()
    g = torch.randn(4, 16, 7, 40, dtype=dtype, generator=torch.Generator().manual_seed(2))

    def both():
        made = F.interpolate(x, size=(7, 40), mode="bicubic", antialias=True, align_corners=False)
        return made, *torch.autograd.grad(made, x, g)

    turned = both()
    monkeypatch.setattr(interpolation, "_MANY_TAPS", 1000)
    for a, b in zip(turned, both(), strict=True):
        assert a.stride() == b.stride()
        torch.testing.assert_close(a, b)
