"""Attention: the tiled kernels against the plain formula, masks, shared heads, derivatives."""

import math
import tracemalloc

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


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_derivatives_with_masks_of_any_rank(rank):
    q, k, v = (torch.randn(2, 3, 4, 2, dtype=torch.float64)[(0,) * (4 - rank)].requires_grad_() for _ in range(3))
    mask = torch.ones(4, 4).tril().bool()
    for given in (mask, mask[None], mask * 0.5) if rank > 2 else (mask, mask * 0.5):
        given = given.double() if given.is_floating_point() else given

        def call(q, k, v, given=given):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, given)

        assert gradcheck(call, (q, k, v), check_forward_ad=True)
        assert gradgradcheck(call, (q, k, v))


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


@pytest.mark.sweep
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 2e-5), (torch.float64, 1e-11)])
@pytest.mark.parametrize("length, keys", [(1, 300), (4, 33), (7, 140), (70, 90), (300, 140)])
def test_gradients_for_every_kernel(length, keys, dtype, tolerance):
    """Few queries, narrow and wide tiles, blocks of keys that are not whole; padded widths."""
    inputs = [rand(2, 2, n, w, seed=w, grad=True, dtype=dtype) for n, w in ((length, 20), (keys, 20), (keys, 9))]
    g = rand(2, 2, length, 9, seed=5, dtype=dtype)
    for causal in (False, True):
        made = attention(*inputs, is_causal=causal)
        scores = inputs[0] @ inputs[1].transpose(-1, -2) / math.sqrt(20)
        if causal:
            scores = scores.masked_fill(~torch.ones(length, keys, dtype=torch.bool).tril(), -math.inf)
        expected = torch.softmax(scores, -1) @ inputs[2]
        pairs = [(made, expected)]
        pairs += zip(torch.autograd.grad(made, inputs, g), torch.autograd.grad(expected, inputs, g))
        for a, b in pairs:
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=0, atol=tolerance)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (2, 0, 1, 3)])
def test_views_are_read_where_they_lie(order):
    q, k, v = (rand(2, 3, 40, 16, seed=s) for s in range(3))
    expected = attention(q, k, v)
    back = [order.index(i) for i in range(4)]
    moved = [t.permute(order).contiguous().permute(back) for t in (q, k, v)]
    made = attention(*moved)
    np.testing.assert_array_equal(made.numpy(), expected.numpy())
    assert made.stride() == moved[0].stride()


def test_rows_far_apart_and_expanded_gradients():
    x = rand(1, 130, 3, 40, 16, grad=True)
    q, k, v = (t.transpose(1, 2) for t in x.unbind(2))
    (found,) = torch.autograd.grad(attention(q, k, v).sum(), x)
    q, k, v = (t.transpose(1, 2).contiguous() for t in x.unbind(2))
    (expected,) = torch.autograd.grad((torch.softmax(q @ k.transpose(-1, -2) / 4, -1) @ v).sum(), x)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=0, atol=1e-11)


@pytest.mark.parametrize("length", [3, 40])
@pytest.mark.parametrize("shape", [(1, 1, 1, 50), (2, 1, 1, 50), (1, 2, -1, 1), (2, 2, -1, 50)])
def test_masks_of_any_shape_in_gradients(length, shape):
    inputs = [rand(2, 2, n, 8, seed=s, grad=True) for s, n in enumerate((length, 50, 50))]
    mask = rand(*[length if n < 0 else n for n in shape], seed=7)
    made = torch.autograd.grad(attention(*inputs, mask).sum(), inputs)
    scores = inputs[0] @ inputs[1].transpose(-1, -2) / math.sqrt(8) + mask
    expected = torch.autograd.grad((torch.softmax(scores, -1) @ inputs[2]).sum(), inputs)
    for a, b in zip(made, expected):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("length", [2, 40])
def test_shared_heads_in_gradients(length):
    q = rand(2, 6, length, 8, grad=True)
    k, v = (rand(2, 2, 37, 8, seed=s, grad=True) for s in (1, 2))
    g = rand(2, 6, length, 8, seed=3)
    found = torch.autograd.grad(attention(q, k, v, enable_gqa=True), (q, k, v), g)
    whole = attention(q, *[t.repeat_interleave(3, 1) for t in (k, v)])
    for a, b in zip(found, torch.autograd.grad(whole, (q, k, v), g)):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=0, atol=1e-12)


def test_dropout_draws_what_dropout_of_the_shares_would():
    inputs = [rand(2, 3, n, 8, seed=s, grad=True) for s, n in enumerate((30, 41, 41))]
    torch.manual_seed(3)
    made = attention(*inputs, dropout_p=0.3)
    torch.manual_seed(3)
    shares = torch.softmax(inputs[0] @ inputs[1].transpose(-1, -2) / math.sqrt(8), -1)
    expected = F.dropout(shares, 0.3) @ inputs[2]
    np.testing.assert_allclose(made.detach().numpy(), expected.detach().numpy(), rtol=0, atol=1e-12)
    for a, b in zip(torch.autograd.grad(made.sum(), inputs), torch.autograd.grad(expected.sum(), inputs)):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=0, atol=1e-12)


def test_derivatives_with_dropout_and_shared_heads():
    inputs = rand(1, 2, 3, 2, grad=True), rand(1, 1, 4, 2, seed=1, grad=True), rand(1, 1, 4, 2, seed=2, grad=True)

    def call(q, k, v):
        torch.manual_seed(0)
        return attention(q, k, v, dropout_p=0.4, enable_gqa=True)

    assert gradcheck(call, inputs) and gradgradcheck(call, inputs, check_fwd_over_rev=True)


def test_long_sequences_need_no_matrix_of_scores():
    tracemalloc.start()
    q = torch.zeros(1, 1, 4000, 8)
    attention(q, q, q)
    tracemalloc.reset_peak()
    attention(q, q, q)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4e6  # the matrix would have 64 MB


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_give_the_same(threads):
    q = rand(3, 5, 200, 16, grad=True, dtype=torch.float32)
    before = torch.get_num_threads()
    try:
        results = []
        for count in (1, threads):
            torch.set_num_threads(count)
            out = attention(q, q, q, is_causal=True)
            results.append([out.detach().numpy(), *[t.numpy() for t in torch.autograd.grad(out.sum(), q)]])
    finally:
        torch.set_num_threads(before)
    for a, b in zip(*results):
        np.testing.assert_array_equal(a, b)


def test_not_a_number_and_infinity_come_through():
    q, k = rand(1, 3, 4), rand(1, 40, 4, seed=1)
    v = rand(1, 40, 4, seed=2)
    k[0, 7, 0] = math.nan
    assert attention(q, k, v).isnan().all()
    seen = torch.ones(3, 40, dtype=torch.bool)
    seen[1] = False
    assert not attention(q, rand(1, 40, 4, seed=1), v, seen)[0, 1].any()


@pytest.mark.parametrize("dtype, tolerance", [(torch.bfloat16, 3e-2), (torch.float16, 4e-3)])
def test_short_floats(dtype, tolerance):
    q, k, v = (rand(2, 2, n, 16, seed=n) for n in (30, 31, 31))
    expected = plain(q, k, torch.as_tensor(v))
    made = attention(*[t.to(dtype) for t in (q, k, rand(2, 2, 31, 16, seed=31))])
    assert made.dtype is dtype
    np.testing.assert_allclose(made.double().numpy(), expected, rtol=0, atol=tolerance)


def test_inference_mode_and_a_choice_of_kinds():
    q = rand(1, 2, 40, 8)
    expected = attention(q, q, q).numpy()
    with torch.inference_mode():
        np.testing.assert_array_equal(attention(q, q, q).numpy(), expected)
    torch.backends.cuda.enable_flash_sdp(False)
    try:
        np.testing.assert_allclose(attention(q, q, q).numpy(), expected, rtol=1e-12)
        torch.backends.cuda.enable_math_sdp(False)
        with pytest.raises(RuntimeError, match="No viable backend"):
            attention(q, q, q)
    finally:
        torch.backends.cuda.enable_flash_sdp(True)
        torch.backends.cuda.enable_math_sdp(True)


@pytest.mark.parametrize("laid", ["by heads", "side by side"])
@pytest.mark.parametrize("recorded", [False, True])
def test_planned_attention(laid, recorded):
    """From the third call on a call is carried out without Python; strides, history and values are those of the first."""
    made = []
    for seed in (0, 1, 2, 3, 0):
        torch.manual_seed(seed)
        q, k, v = (torch.randn(2, 5, 3, 16) if laid == "side by side" else torch.randn(2, 3, 5, 16) for _ in range(3))
        q, k, v = (t.transpose(1, 2) if laid == "side by side" else t for t in (q, k, v))
        q.requires_grad_(recorded)
        out = F.scaled_dot_product_attention(q, k, v)
        assert out.requires_grad is recorded
        grad = None
        if recorded:
            out.square().sum().backward()
            grad = q.grad
        made.append((out.detach(), grad))
    (first, first_grad), (last, last_grad) = made[0], made[-1]
    assert torch.equal(first, last) and first.stride() == last.stride()
    assert not recorded or torch.equal(first_grad, last_grad)
    assert not torch.equal(made[2][0], made[3][0])


def test_planned_attention_follows_the_choice_of_kinds():
    q = torch.randn(1, 2, 5, 8)
    for _ in range(4):
        expected = F.scaled_dot_product_attention(q, q, q)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        for _ in range(4):
            assert torch.allclose(F.scaled_dot_product_attention(q, q, q), expected, atol=1e-6)
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_math_sdp(False)
    try:
        for _ in range(3):
            with pytest.raises(RuntimeError, match="No viable backend"):
                F.scaled_dot_product_attention(q, q, q)
    finally:
        torch.backends.cuda.enable_flash_sdp(True)
        torch.backends.cuda.enable_math_sdp(True)
    assert torch.equal(F.scaled_dot_product_attention(q, q, q), expected)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("wanted", [False, True])
def test_queries_that_see_nothing_have_no_gradients(wanted, dropout):
    """Masks of numbers too, whose own gradient wants all shares."""
    q, k, v = (rand(2, n, 8, seed=n, grad=True) for n in (3, 4, 4))
    mask = torch.zeros(3, 4, dtype=q.dtype)
    mask[0] = -math.inf
    mask.requires_grad_(wanted)
    out = attention(q, k, v, mask, dropout)
    found = torch.autograd.grad(out.square().sum(), [q, k, v, *[mask] * wanted])
    assert not any(g.isnan().any() for g in found) and found[0][:, 1:].any()
    assert not out[:, 0].any() and not found[0][:, 0].any() and not (wanted and found[3][0].any())


@pytest.mark.parametrize("width", [4, 16])
def test_results_lie_as_the_queries(width):
    """Heads of a width that is no whole number of vectors too: what joins them copies nothing."""
    q = torch.randn(2, 5, 3, width).transpose(1, 2)
    assert F.scaled_dot_product_attention(q, q, q).stride() == q.stride()
