"""Layers and their functional forms."""

import math

import pytest

import flambeau as torch
from flambeau import nn

F = nn.functional


def test_linear():
    layer = nn.Linear(4, 8)
    assert layer.weight.shape == (8, 4) and layer.bias.shape == (8,)
    x = torch.randn(2, 3, 4)
    assert torch.allclose(layer(x), x @ layer.weight.T + layer.bias, atol=1e-6)
    assert torch.equal(F.linear(x, layer.weight, layer.bias), layer(x))


def test_conv2d():
    conv = nn.Conv2d(in_channels=3, out_channels=32, kernel_size=3, stride=1, padding=1)
    x = torch.randn(8, 3, 32, 32)
    assert conv(x).shape == (8, 32, 32, 32)
    assert nn.Conv2d(3, 4, 3, stride=2)(x).shape == (8, 4, 15, 15)
    assert nn.Conv2d(3, 4, 5, padding="same")(x).shape == (8, 4, 32, 32)
    assert nn.Conv2d(3, 4, 3, dilation=2)(x).shape == (8, 4, 28, 28)
    assert nn.Conv2d(3, 6, 3, groups=3).weight.shape == (6, 1, 3, 3)
    assert conv(x[0]).shape == (32, 32, 32)  # one image without a batch
    assert torch.equal(F.conv2d(x, conv.weight, conv.bias, padding=1), conv(x))
    assert nn.Conv1d(128, 64, kernel_size=3)(torch.randn(2, 128, 10)).shape == (2, 64, 8)


@pytest.mark.parametrize("layers, dilation, width, taps", [(2, 1, 5, 25), (1, 2, 5, 9)])
def test_receptive_field(layers, dilation, width, taps):
    x = torch.zeros(1, 1, 11, 11, requires_grad=True)
    y = x
    for _ in range(layers):
        y = F.conv2d(y, torch.ones(1, 1, 3, 3), padding=dilation, dilation=dilation)
    y[0, 0, 5, 5].backward()
    touched = x.grad[0, 0].nonzero()
    extent = touched.max(0).values - touched.min(0).values + 1
    assert extent.tolist() == [width, width] and len(touched) == taps


def test_max_pooling():
    x = torch.arange(16.0).reshape(1, 1, 4, 4).requires_grad_()
    y = nn.MaxPool2d(2)(x)
    assert y.flatten().tolist() == [5, 7, 13, 15] and torch.equal(F.max_pool2d(x, 2), y)
    y.sum().backward()
    assert x.grad.sum() == 4 and x.grad[0, 0, 3, 3] == 1 and x.grad[0, 0, 0, 0] == 0


def test_adaptive_pooling_and_flatten():
    pool = nn.AdaptiveAvgPool2d((4, 4))
    for size in (8, 13):
        assert nn.Flatten()(pool(torch.randn(2, 3, size, size + 2))).shape == (2, 48)
    assert torch.allclose(nn.AdaptiveAvgPool2d(1)(torch.ones(1, 2, 5, 5)), torch.ones(1, 2, 1, 1))


def test_batch_norm():
    torch.manual_seed(0)
    norm, x = nn.BatchNorm1d(4), torch.randn(100, 4) * 3 + 5
    y = norm(x)
    assert torch.allclose(y.mean(0), torch.zeros(4), atol=1e-5) and torch.allclose(y.var(0), torch.ones(4), atol=0.05)
    assert torch.allclose(norm.running_mean, 0.1 * x.mean(0))
    norm.eval()
    assert torch.allclose(norm(x), (x - norm.running_mean) / (norm.running_var + norm.eps).sqrt(), atol=1e-5)
    assert nn.BatchNorm2d(3)(torch.randn(2, 3, 4, 4)).shape == (2, 3, 4, 4)
    with pytest.raises(ValueError):
        norm.train()(x[:1])


def test_layer_norm_and_group_norm():
    x = torch.randn(6, 64) * 3 + 5
    norm = nn.LayerNorm(64)
    assert torch.allclose(norm(x).mean(1), torch.zeros(6), atol=1e-5)
    assert torch.equal(norm.eval()(x), norm.train()(x))
    assert torch.allclose(norm(x[:1]), norm(x)[:1])
    group, images = nn.GroupNorm(8, 64), torch.randn(2, 64, 5, 5)
    assert torch.allclose(group(images).reshape(2, 8, -1).mean(-1), torch.zeros(2, 8), atol=1e-5)
    assert torch.allclose(group(images[:1]), group(images)[:1], atol=1e-6)


def test_dropout():
    torch.manual_seed(0)
    x, layer = torch.ones(100, 100), nn.Dropout(p=0.25)
    y = layer(x)
    assert sorted(y.unique().tolist()) == pytest.approx([0, 1 / 0.75])
    assert 0.2 < (y == 0).float().mean() < 0.3
    assert layer.eval()(x) is x or torch.equal(layer(x), x)
    assert torch.equal(F.dropout(x, training=False), x) and (F.dropout(x, 0.5) == 0).any()


def test_embedding():
    table = nn.Embedding(num_embeddings=10, embedding_dim=4, padding_idx=0)
    tokens = torch.tensor([1, 0, 7])
    out = table(tokens)
    assert out.shape == (3, 4) and torch.equal(out[2], table.weight[7]) and not out[1].any()
    out.sum().backward()
    assert not table.weight.grad[0].any() and table.weight.grad[7].tolist() == [1] * 4
    with pytest.raises(IndexError):
        table(torch.tensor([10]))


@pytest.mark.slow
def test_recurrent_layers():
    torch.manual_seed(0)
    x = torch.randn(7, 3, 4)
    lstm = nn.LSTM(input_size=4, hidden_size=5, num_layers=2, bidirectional=True, dropout=0.1)
    out, (h, c) = lstm(x)
    assert out.shape == (7, 3, 10) and h.shape == c.shape == (4, 3, 5)
    assert torch.equal(out[-1, :, :5], h[2]) and torch.equal(out[0, :, 5:], h[3])
    for kind in (nn.RNN, nn.GRU, nn.LSTM):
        layer = kind(4, 5, batch_first=True)
        assert layer(x.transpose(0, 1))[0].shape == (3, 7, 5)


def test_gate_equations():
    torch.manual_seed(0)
    x, h, c = torch.randn(1, 3, 4), torch.randn(1, 3, 5), torch.randn(1, 3, 5)
    lstm = nn.LSTM(4, 5)
    gates = x[0] @ lstm.weight_ih_l0.T + lstm.bias_ih_l0 + h[0] @ lstm.weight_hh_l0.T + lstm.bias_hh_l0
    i, f, g, o = gates.chunk(4, 1)
    cell = f.sigmoid() * c[0] + i.sigmoid() * g.tanh()
    out, (_, last) = lstm(x, (h, c))
    assert torch.allclose(last[0], cell, atol=1e-6) and torch.allclose(out[0], o.sigmoid() * cell.tanh(), atol=1e-6)
    cell = nn.RNNCell(4, 5)
    expected = torch.tanh(F.linear(x[0], cell.weight_ih, cell.bias_ih) + F.linear(h[0], cell.weight_hh, cell.bias_hh))
    assert torch.allclose(cell(x[0], h[0]), expected, atol=1e-6)
    gru = nn.GRU(4, 5)
    r, z, n = (x[0] @ gru.weight_ih_l0.T + gru.bias_ih_l0).chunk(3, 1)
    hr, hz, hn = (h[0] @ gru.weight_hh_l0.T + gru.bias_hh_l0).chunk(3, 1)
    r, z = (r + hr).sigmoid(), (z + hz).sigmoid()
    assert torch.allclose(gru(x, h)[1][0], (1 - z) * (n + r * hn).tanh() + z * h[0], atol=1e-6)


@pytest.mark.slow
def test_multihead_attention():
    torch.manual_seed(0)
    attention, x = nn.MultiheadAttention(embed_dim=8, num_heads=2, batch_first=True), torch.randn(3, 5, 8)
    out, weights = attention(x, x, x)
    q, k, v = (
        p.reshape(3, 5, 2, 4).transpose(1, 2)
        for p in F.linear(x, attention.in_proj_weight, attention.in_proj_bias).chunk(3, -1)
    )
    each = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(4), -1)
    expected = attention.out_proj((each @ v).transpose(1, 2).reshape(3, 5, 8))
    assert torch.allclose(out, expected, atol=1e-6) and torch.allclose(weights, each.mean(1), atol=1e-6)
    padding = torch.tensor([[False] * 4 + [True]] * 3)
    assert not attention(x, x, x, key_padding_mask=padding)[1][:, :, 4].any()


def test_scaled_dot_product_attention():
    q, k, v = (torch.randn(2, 4, 6) for _ in range(3))
    scores = q @ k.transpose(1, 2) / math.sqrt(6)
    assert torch.allclose(F.scaled_dot_product_attention(q, k, v), scores.softmax(-1) @ v, atol=1e-6)
    allowed = torch.ones(4, 4).tril().bool()
    expected = scores.masked_fill(~allowed, -math.inf).softmax(-1) @ v
    assert torch.allclose(F.scaled_dot_product_attention(q, k, v, is_causal=True), expected, atol=1e-6)
    assert torch.allclose(F.scaled_dot_product_attention(q, k, v, attn_mask=allowed), expected, atol=1e-6)


@pytest.mark.parametrize("training", [True, False])
def test_masked_tokens_have_no_influence(training):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(
        d_model=8, nhead=2, dim_feedforward=16, dropout=0.0, activation="gelu", batch_first=True
    )
    encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False).train(training)
    x = torch.randn(2, 5, 8)
    padding = torch.tensor([[False] * 3 + [True] * 2] * 2)
    changed = x.clone()
    changed[:, 3:] += 1
    one, two = (encoder(v, src_key_padding_mask=padding)[:, :3] for v in (x, changed))
    assert torch.allclose(one, two, atol=1e-5) and one.shape == (2, 3, 8)


def test_modules_and_functions_agree():
    x = torch.randn(2, 3, 8, 8)
    for module, function in (
        (nn.ReLU(), F.relu), (nn.GELU(), F.gelu), (nn.Sigmoid(), F.sigmoid), (nn.MaxPool2d(2), lambda v: F.max_pool2d(v, 2)),
        (nn.Softmax(dim=1), lambda v: F.softmax(v, dim=1)), (nn.LeakyReLU(0.2), lambda v: F.leaky_relu(v, 0.2)),
    ):  # fmt: skip
        assert torch.equal(module(x), function(x))
    with pytest.raises(TypeError):
        nn.Sequential(nn.Linear(2, 2), F.relu)


def test_generated_weights():
    generator = nn.Linear(3, 4 * 1 * 3 * 3)
    weight = generator(torch.ones(3)).reshape(4, 1, 3, 3)
    F.conv2d(torch.randn(1, 1, 6, 6), weight).square().sum().backward()
    assert generator.weight.grad.any()


def test_one_hot():
    assert F.one_hot(torch.tensor([3]), 5).tolist() == [[0, 0, 0, 1, 0]]
    with pytest.raises(RuntimeError):
        F.one_hot(torch.tensor([5]), 5)


def test_gumbel_softmax():
    torch.manual_seed(0)
    logits = torch.randn(6, 4, requires_grad=True)
    hard = F.gumbel_softmax(logits, hard=True)
    assert hard.sum(1).tolist() == pytest.approx([1] * 6) and hard.max(1).values.tolist() == pytest.approx([1] * 6)
    (hard * torch.randn(4)).sum().backward()
    assert logits.grad.any()


def test_pairwise_distance():
    a, b = torch.tensor([[0.0, 0.0], [1.0, 1.0]]), torch.tensor([[3.0, 4.0], [1.0, 1.0]])
    assert F.pairwise_distance(a, b).tolist() == pytest.approx([5, 0], abs=1e-4)
