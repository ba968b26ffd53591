"""Views, strides and memory formats."""

import time

import pytest

import flambeau as torch

F = torch.nn.functional


def shares(a, b):
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def test_strides_count_elements():
    x = torch.zeros(3, 4, dtype=torch.float64)
    assert x.stride() == (4, 1) and x.stride(0) == 4


def test_transposed_views():
    x = torch.arange(12).reshape(3, 4)
    for y in (x.t(), x.T, x.transpose(0, 1), x.permute(1, 0)):
        assert y.shape == (4, 3) and y.stride() == (1, 4) and y.data_ptr() == x.data_ptr()
        assert not y.is_contiguous() and y[1, 2] == x[2, 1]
    t = torch.rand(2, 3, 4)
    assert torch.equal(t.permute(0, 2, 1), t.transpose(1, 2))


def test_view_shares_or_raises():
    x = torch.arange(12).reshape(3, 4)
    y = x.view(4, 3)
    y[0, 0] = 100
    assert x[0, 0] == 100
    with pytest.raises(RuntimeError, match="view size is not compatible with input tensor's size and stride"):
        x.t().view(12)
    assert torch.zeros(4, 6, 2)[:, :3].view(4, 3, 2, 1).shape == (4, 3, 2, 1)
    assert torch.zeros(2, 6).t().view(2, 3, 2).shape == (2, 3, 2)  # strides that fit


def test_reshape_copies_only_when_it_must():
    x = torch.arange(12).reshape(3, 4)
    assert shares(x.reshape(2, 6), x) and not shares(x.t().reshape(12), x)
    assert shares(x.flatten(), x) and x.flatten().shape == (12,)
    assert torch.zeros(5, 3, 2).flatten(1).shape == (5, 6)


def test_contiguous():
    x = torch.arange(6).reshape(2, 3)
    assert x.contiguous() is x
    made = x.t().contiguous()
    assert made.is_contiguous() and made.flatten().tolist() == [0, 3, 1, 4, 2, 5]
    assert made.view(6).shape == (6,)


def test_squeeze_and_unsqueeze():
    x = torch.zeros(4, 6)
    assert x.unsqueeze(0).shape == (1, 4, 6) and x.unsqueeze(-1).shape == (4, 6, 1)
    assert x.unsqueeze(0).squeeze(0).shape == x.squeeze(0).shape == x.squeeze().shape == (4, 6)


def test_expand_and_repeat():
    x = torch.rand(1, 4)
    e, r = x.expand(3, 4), x.repeat(3, 1)
    assert e.stride() == (0, 1) and shares(e, x) and not shares(r, x)
    assert torch.equal(e, r)
    with pytest.raises(RuntimeError):
        r.expand(6, 4)
    a, b = torch.broadcast_tensors(torch.zeros(3, 1), torch.zeros(1, 2))
    assert a.shape == b.shape == (3, 2) and a.stride() == (1, 0)


def test_slices_are_views():
    x = torch.zeros(3, 4)
    half = x[:, ::2]
    assert half.stride() == (4, 2)
    half.fill_(1)
    assert x.tolist() == [[1, 0, 1, 0]] * 3


def test_clone_has_its_own_memory_and_stays_in_the_graph():
    x = torch.ones(2, requires_grad=True)
    y = x.clone()
    assert not shares(x, y) and y.grad_fn is not None
    y.sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_parts_are_views():
    x = torch.arange(10)
    assert [p.tolist() for p in x.split(4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    parts = x.chunk(2)
    parts[1][0] = 50
    assert x[5] == 50 and len(parts) == 2


def test_overlapping_windows():
    x = torch.arange(5)
    windows = x.as_strided((3, 3), (1, 1))
    assert windows.tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4]] and shares(windows, x)
    assert torch.equal(x.unfold(0, 3, 1), windows)
    with pytest.raises(RuntimeError):
        x.as_strided((4, 3), (1, 1))


def test_channels_last():
    x = torch.rand(2, 3, 4, 5)
    y = x.to(memory_format=torch.channels_last)
    assert y.shape == x.shape and y.stride() == (60, 1, 15, 3)
    assert y.is_contiguous(memory_format=torch.channels_last) and not y.is_contiguous()
    assert x.contiguous(memory_format=torch.channels_last).stride() == y.stride()
    weight = torch.rand(6, 3, 3, 3)
    assert torch.allclose(F.conv2d(y, weight), F.conv2d(x, weight), atol=1e-5)


def test_images_from_other_libraries():
    nhwc = torch.rand(2, 4, 5, 3)
    nchw = nhwc.permute(0, 3, 1, 2)
    assert nchw.shape == (2, 3, 4, 5) and shares(nhwc, nchw)


def test_views_cost_nothing():
    x = torch.zeros(2000, 2000)

    def best(action):
        times = []
        for _ in range(5):
            start = time.perf_counter()
            action()
            times.append(time.perf_counter() - start)
        return min(times)

    assert best(lambda: x.view(-1)) * 10 < best(x.clone)
