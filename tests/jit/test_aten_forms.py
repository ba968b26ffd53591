"""Operators that programs call by other names or with other arguments than Python does: the same results as the layers."""

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.jit._operators import find

F = nn.functional
X = torch.arange(2 * 4 * 6 * 6.0).sin().view(2, 4, 6, 6)
W = torch.arange(6 * 2 * 3 * 3.0).cos().view(6, 2, 3, 3)


def aten(name, *args, **named):
    return find("aten", name)(*args, **named)


def test_convolutions():
    b = torch.arange(6.0)
    flags = (False, False, True, True)
    for stride, padding, dilation in (([1, 1], [0, 0], [1, 1]), ([2, 1], [1, 2], [1, 2])):
        made = aten("_convolution", X, W, b, stride, padding, dilation, False, [0, 0], 2, *flags)
        assert torch.equal(made, F.conv2d(X, W, b, stride, padding, dilation, 2))
        made = aten("_convolution", X, W[:4], None, stride, padding, dilation, True, [0, 0], 2, *flags)
        assert torch.equal(made, F.conv_transpose2d(X, W[:4], None, stride, padding, 0, 2, dilation))
    line = aten("_convolution", X[:, :, 0], W[:, :, 0], b, [1], [1], [1], False, [0], 2, *flags)
    assert torch.equal(line, F.conv1d(X[:, :, 0], W[:, :, 0], b, 1, 1, 1, 2))
    for padding in ("same", "valid"):
        made = aten("_convolution_mode", X, W, b, [1, 1], padding, [1, 1], 2)
        assert torch.equal(made, F.conv2d(X, W, b, 1, padding, 1, 2))


def test_pools_with_places():
    for name, rank, x in (
        ("max_pool2d_with_indices", 2, X),
        ("max_pool3d_with_indices", 3, X[None]),
        ("max_pool1d_with_indices", 1, X[0]),
    ):
        function = getattr(F, f"max_pool{rank}d")
        for stride in ([], [1] * rank):
            made, places = aten(name, x, [2] * rank, stride, [0] * rank, [1] * rank, False)
            expected = function(x, 2, stride or None, return_indices=True)
            assert torch.equal(made, expected[0]) and torch.equal(places, expected[1])
    made, places = aten("adaptive_max_pool2d", X, [2, 3])
    expected = F.adaptive_max_pool2d(X, (2, 3), return_indices=True)
    assert torch.equal(made, expected[0]) and torch.equal(places, expected[1])


def test_sums_with_a_factor():
    x, y = X[0, 0], X[1, 0]
    assert torch.equal(aten("add", x, y), x + y)
    torch.testing.assert_close(aten("add", x, y, alpha=3), x + 3 * y)
    torch.testing.assert_close(aten("sub", x, y, alpha=2), x - 2 * y)


def _layer(norm_first, activation):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, activation, batch_first=True, norm_first=norm_first).eval()
    for norm in (layer.norm1, layer.norm2):
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    return layer


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("kind", [None, 0, 1, 2])
def test_a_whole_encoder_layer(norm_first, activation, kind):
    layer, x = _layer(norm_first, activation), torch.randn(3, 5, 8)
    later = torch.ones(5, 5).triu(1).bool()
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2, [False] * 4 + [True]])
    mask = {None: None, 0: later, 1: padding, 2: (later | padding[:, None, None]).expand(3, 2, 5, 5)}[kind]
    attention = layer.self_attn
    made = aten(
        "_transformer_encoder_layer_fwd", x, 8, 2, attention.in_proj_weight, attention.in_proj_bias, attention.out_proj.weight,
        attention.out_proj.bias, activation == "gelu", norm_first, layer.norm1.eps, layer.norm1.weight, layer.norm1.bias,
        layer.norm2.weight, layer.norm2.bias, layer.linear1.weight, layer.linear1.bias, layer.linear2.weight, layer.linear2.bias,
        mask, kind,
    )  # fmt: skip
    with torch.enable_grad():  # not the fused way
        expected = layer(
            x.clone().requires_grad_(), later if kind in (0, 2) else None, padding if kind in (1, 2) else None
        ).detach()
    torch.testing.assert_close(made.detach(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("boolean", [False, True])
def test_attention_with_weights(averaged, boolean):
    torch.manual_seed(0)
    attention, x = nn.MultiheadAttention(8, 2, batch_first=True).eval(), torch.randn(3, 5, 8)
    mask = torch.ones(5, 5).triu(1).bool()
    given = mask if boolean else torch.zeros(5, 5).masked_fill(mask, float("-inf"))
    parameters = (attention.in_proj_weight, attention.in_proj_bias, attention.out_proj.weight, attention.out_proj.bias)
    for needed in (True, False):
        made, weights = aten("_native_multi_head_attention", x, x, x, 8, 2, *parameters, given, needed, averaged, 0)
        expected, shown = attention(x, x, x, attn_mask=mask, average_attn_weights=averaged)
        torch.testing.assert_close(made.detach(), expected.detach(), rtol=1e-4, atol=1e-5)
        if needed:
            torch.testing.assert_close(weights.detach(), shown.detach(), rtol=1e-4, atol=1e-5)
        else:
            assert weights is None


def test_operators_with_other_arguments_than_functions():
    """`torch.ops.aten` takes what schemas say, though functions of the same name take more or in another order."""
    ops = torch.ops.aten
    value, place = F.max_pool2d(X, 2, return_indices=True)
    assert torch.equal(ops.max_unpool2d(value, place, [6, 6]), F.max_unpool2d(value, place, 2))
    value, place = F.max_pool3d(X, 2, return_indices=True)
    assert torch.equal(ops.max_unpool3d(value, place, [4, 6, 6], [2] * 3, [0] * 3), F.max_unpool3d(value, place, 2))
    for rank in (2, 3):
        samples = torch.full((2, 4, 2) if rank == 2 else (1, 2, 3), 0.3)
        made = getattr(ops, f"fractional_max_pool{rank}d")(X, [2] * rank, [2] * rank, samples)
        pool = getattr(F, f"fractional_max_pool{rank}d")
        assert all(map(torch.equal, made, pool(X, 2, 2, return_indices=True, _random_samples=samples)))
    wanted = torch.where(X > 0, X, (X * 0.5).exp() - 1) * 2
    torch.testing.assert_close(ops.elu(X, 1.0, 2.0, 0.5), wanted)
    torch.testing.assert_close(ops.elu_(X.clone(), 1.0, 2.0, 0.5), wanted)
    assert torch.equal(ops.tensordot(X, X, [1, 2], [1, 2]), torch.tensordot(X, X, ([1, 2], [1, 2])))
    signal, window = X.reshape(-1), torch.hann_window(8)
    wanted = torch.stft(signal, 8, 4, window=window, center=False, normalized=True, return_complex=True)
    assert torch.equal(ops.stft(signal, 8, 4, 8, window, True, True, True), wanted)
    wanted = torch.stft(signal, 8, 4, window=window, return_complex=True)
    assert torch.equal(ops.stft.center(signal, 8, 4, 8, window, True, "reflect", False, True, True), wanted)
