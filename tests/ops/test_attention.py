"""Attention: the tiled kernels against the plain formula, masks, shared heads, derivatives."""

import math

import numpy as np
import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck

F = torch.nn.functional
attention = F.scaled_dot_product_attention


def rand(*shape, seed=0, grad=False, dtype=torch.float64):
    values = np.random.default_rng(seed).standard_normal(shape)
    return torch.tensor(values, dtype=dtype, requires_grad=grad)


def plain(q, k, v, mask=None, causal=False, scale=None):
    q, k, v = (t.detach().numpy().astype(np.float64) for t in (q, k, v))
    scores = q @ np.swapaxes(k, -1, -2) * (scale or 1 / math.sqrt(q.shape[-1]))
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    if mask is not None:
        scores = scores + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


@pytest.mark.parametrize("length, keys", [(3, 5), (5, 3), (300, 200), (130, 300)])
@pytest.mark.parametrize("causal", [False, True])
def test_values(length, keys, causal):
    q, k, v = rand(2, 3, length, 8), rand(2, 3, keys, 8, seed=1), rand(2, 3, keys, 4, seed=2)
    np.testing.assert_allclose(
        attention(q, k, v, is_causal=causal).numpy(), plain(q, k, v, causal=causal), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("causal", [False, True])
def test_large_gradients_agree_with_the_composed_formula(causal):
    inputs = [rand(2, 200, 16, seed=s, grad=True) for s in range(3)]
    g = rand(2, 200, 16, seed=9)
    found = torch.autograd.grad(attention(*inputs, is_causal=causal), inputs, g)
    q, k, v = inputs
    scores = q @ k.transpose(1, 2) / 4
    if causal:
        scores = scores.masked_fill(~torch.ones(200, 200, dtype=torch.bool).tril(), -math.inf)
    expected = torch.autograd.grad(torch.softmax(scores, -1) @ v, inputs, g)
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}])
def test_derivatives(options):
    inputs = rand(2, 4, 3, grad=True), rand(2, 5, 3, seed=1, grad=True), rand(2, 5, 2, seed=2, grad=True)
    assert gradcheck(lambda *t: attention(*t, **options), inputs)
    assert gradgradcheck(lambda *t: attention(*t, **options), inputs)


def test_one_tensor_as_query_key_and_value():
    x = rand(1, 4, 3, grad=True)
    assert gradcheck(lambda x: attention(x, x, x), (x,)) and gradgradcheck(lambda x: attention(x, x, x), (x,))


@pytest.mark.parametrize("shape", [(4, 5), (1, 4, 5), (2, 1, 4, 5), (2, 3, 4, 5)])
def test_masks(shape):
    q, k, v = rand(2, 3, 4, 8), rand(2, 3, 5, 8, seed=1), rand(2, 3, 5, 8, seed=2)
    seen = np.random.default_rng(5).random(shape) < 0.7
    seen[..., 0] = True
    expected = plain(q, k, v, np.where(seen, 0.0, -np.inf))
    np.testing.assert_allclose(attention(q, k, v, torch.tensor(seen)).numpy(), expected, rtol=1e-9)
    added = rand(*shape, seed=6)
    np.testing.assert_allclose(attention(q, k, v, added).numpy(), plain(q, k, v, added.numpy()), rtol=1e-9)


def test_a_mask_may_have_a_gradient():
    q, mask = rand(2, 4, 3, grad=True), rand(4, 4, seed=1, grad=True)
    assert gradcheck(lambda q, mask: attention(q, q, q, mask), (q, mask))


def test_a_query_that_sees_nothing_gives_zero():
    q = rand(1, 2, 3, grad=True)
    out = attention(q, q, q, torch.tensor([[True, True], [False, False]]))
    assert not out[0, 1].any() and out[0, 0].any()
    out.sum().backward()
    assert not q.grad.isnan().any()


def test_shared_heads():
    q, k, v = rand(2, 6, 4, 8), rand(2, 2, 5, 8, seed=1), rand(2, 2, 5, 8, seed=2)
    made = attention(q, k, v, enable_gqa=True)
    whole = attention(q, k.repeat_interleave(3, 1), v.repeat_interleave(3, 1))
    np.testing.assert_allclose(made.numpy(), whole.numpy())


def test_dropout_keeps_the_mean():
    torch.manual_seed(0)
    q, v = torch.zeros(1, 400, 8), torch.ones(1, 400, 8)
    made = attention(q, q, v, dropout_p=0.5)
    assert abs(made.mean().item() - 1) < 0.02 and made.std().item() > 0.01


def test_wrong_arguments():
    q = rand(2, 4, 8)
    with pytest.raises(RuntimeError):
        attention(q, q, q, torch.ones(4, 4, dtype=torch.bool), is_causal=True)
    with pytest.raises(RuntimeError):
        attention(q, q.float(), q)
    with pytest.raises(RuntimeError):
        attention(rand(4), rand(4), rand(4))


def test_multi_head_attention_averages_its_weights():
    x = rand(5, 2, 8, grad=True)
    stacked, bias = rand(24, 8, seed=1, grad=True), rand(24, seed=2)
    out_weight, out_bias = rand(8, 8, seed=3), rand(8, seed=4)

    def forward(x, **options):
        return F.multi_head_attention_forward(
            x, x, x, 8, 2, stacked, bias, None, None, False, 0.0, out_weight, out_bias, **options
        )

    out, weights = forward(x)
    assert out.shape == (5, 2, 8) and weights.shape == (2, 5, 5)
    np.testing.assert_allclose(weights.sum(-1).detach().numpy(), 1)
    without, nothing = forward(x, need_weights=False)
    assert nothing is None
    np.testing.assert_allclose(out.detach().numpy(), without.detach().numpy(), rtol=1e-9)
    padding = torch.tensor([[False] * 5, [False, False, True, True, True]])
    _, weights = forward(x, key_padding_mask=padding)
    assert not weights[1, :, 2:].any()
    single, _ = forward(x[:, 0])
    np.testing.assert_allclose(single.detach().numpy(), out[:, 0].detach().numpy(), rtol=1e-9)
