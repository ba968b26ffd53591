"""Helpers of nn: clipping, spectral norm, sequences of unequal length."""

import pytest

import flambeau as torch
from flambeau import nn

rnn = nn.utils.rnn


def parameters():
    a, b = (nn.Parameter(torch.zeros(1)) for _ in range(2))
    a.grad, b.grad = torch.tensor([3.0]), torch.tensor([-4.0])
    return a, b


def test_clip_by_norm():
    a, b = parameters()
    assert nn.utils.clip_grad_norm_([a, b], max_norm=1.0) == 5
    assert a.grad.item() == pytest.approx(0.6, rel=1e-4) and b.grad.item() == pytest.approx(-0.8, rel=1e-4)
    assert nn.utils.clip_grad_norm_([a, b], max_norm=10.0).item() == pytest.approx(1, rel=1e-4)
    assert a.grad.item() == pytest.approx(0.6, rel=1e-4)  # short ones stay


def test_clip_by_value():
    a, b = parameters()
    nn.utils.clip_grad_value_([a, b], 3.5)
    assert a.grad == 3 and b.grad == -3.5


def test_spectral_norm():
    torch.manual_seed(0)
    layer = nn.utils.spectral_norm(nn.Linear(6, 4), n_power_iterations=50)
    assert "weight_orig" in dict(layer.named_parameters()) and "weight" not in dict(layer.named_parameters())
    layer(torch.ones(1, 6))
    assert torch.linalg.matrix_norm(layer.weight, 2).item() == pytest.approx(1, abs=1e-3)
    before = layer.weight.clone()
    layer.weight_orig.data += torch.randn(4, 6)
    assert torch.equal(layer.weight, before)
    layer(torch.ones(1, 6))  # renewed before the forward pass
    assert not torch.equal(layer.weight, before)


def test_padding():
    long, short = torch.ones(5, 2), torch.ones(2, 2)
    padded = rnn.pad_sequence([long, short], batch_first=True)
    assert padded.shape == (2, 5, 2) and not padded[1, 2:].any()
    assert (rnn.pad_sequence([long, short], padding_value=-1.0)[2:, 1] == -1).all()


def test_packing():
    torch.manual_seed(0)
    x = torch.randn(2, 5, 3)
    packed = rnn.pack_padded_sequence(x, torch.tensor([5, 2]), batch_first=True)
    assert packed.batch_sizes.tolist() == [2, 2, 1, 1, 1]
    lstm = nn.LSTM(3, 4, batch_first=True)
    out, (h, _) = lstm(packed)
    padded, lengths = rnn.pad_packed_sequence(out, batch_first=True)
    assert lengths.tolist() == [5, 2] and not padded[1, 2:].any()
    assert torch.allclose(h[0, 1], padded[1, 1]) and torch.allclose(h[0, 1], lstm(x[1:, :2])[1][0][0, 0], atol=1e-6)
    with pytest.raises(RuntimeError):
        rnn.pack_padded_sequence(x, torch.tensor([2, 5]), batch_first=True)
    loose = rnn.pack_padded_sequence(x.flip(0), torch.tensor([2, 5]), batch_first=True, enforce_sorted=False)
    back, lengths = rnn.pad_packed_sequence(loose, batch_first=True)
    assert lengths.tolist() == [2, 5] and torch.equal(back[1], x[0])
