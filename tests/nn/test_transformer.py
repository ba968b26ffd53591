"""Multi-head attention and transformers as modules; the choice of kernels, causal masks and `flex_attention`."""

import copy
import math
import pickle
import warnings

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn.attention import SDPBackend, sdpa_kernel
from flambeau.nn.attention.bias import causal_lower_right, causal_upper_left
from flambeau.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    or_masks,
)
from flambeau.nn.modules.transformer import _detect_is_causal_mask

F = nn.functional


def close(a, b, tolerance=1e-5):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=0, atol=tolerance)


def rand(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape), dtype=torch.float32)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="enable_nested_tensor")
        yield


# -- multi-head attention --------------------------------------------------------------------------------------------


def by_hand(layer, query, key, value, mask=None):
    """One head after the other, for (N, L, E)."""
    parts = [t @ w.T + b for t, w, b in zip(
        (query, key, value), layer.in_proj_weight.chunk(3), layer.in_proj_bias.chunk(3), strict=True
    )]  # fmt: skip
    made, shares = [], []
    for q, k, v in zip(*[p.chunk(layer.num_heads, -1) for p in parts]):
        scores = q @ k.transpose(1, 2) / math.sqrt(layer.head_dim)
        shares.append(torch.softmax(scores if mask is None else scores + mask, -1))
        made.append(shares[-1] @ v)
    return layer.out_proj(torch.cat(made, -1)), sum(shares) / len(shares)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("need_weights", [False, True])
def test_attention_in_heads(batch_first, need_weights):
    layer = nn.MultiheadAttention(12, 3, batch_first=batch_first)
    query, key = rand(2, 5, 12), rand(2, 7, 12, seed=1)
    expected, shares = by_hand(layer, query, key, key)
    given = (query, key, key) if batch_first else [t.transpose(0, 1) for t in (query, key, key)]
    out, found = layer(*given, need_weights=need_weights)
    close(out if batch_first else out.transpose(0, 1), expected)
    if need_weights:
        close(found, shares)
        assert layer(*given, average_attn_weights=False)[1].shape == (2, 3, 5, 7)
    else:
        assert found is None


@pytest.mark.parametrize("need_weights", [False, True])
def test_masks_are_joined(need_weights):
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    x = rand(2, 4, 8)
    hidden = torch.ones(4, 4, dtype=torch.bool).triu(1)
    padding = torch.tensor([[False] * 4, [False, False, True, True]])
    added = torch.zeros(2, 4, 4).masked_fill(hidden | padding[:, None], -math.inf)
    expected, _ = by_hand(layer, x, x, x, added)
    out, shares = layer(x, x, x, attn_mask=hidden, key_padding_mask=padding, need_weights=need_weights)
    close(out, expected)
    by_head = hidden.expand(4, 4, 4)
    close(layer(x, x, x, attn_mask=by_head, key_padding_mask=padding, need_weights=need_weights)[0], expected)
    if need_weights:
        assert not shares[1, :, 2:].any()


def test_separate_widths_extra_keys_and_no_batch():
    layer = nn.MultiheadAttention(8, 2, kdim=5, vdim=3, add_bias_kv=True, add_zero_attn=True)
    assert [n for n, _ in layer.named_parameters()] == [
        "q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias", "bias_k", "bias_v", "out_proj.weight",
        "out_proj.bias",
    ]  # fmt: skip
    query, key, value = rand(4, 2, 8), rand(6, 2, 5), rand(6, 2, 3)
    padding = torch.zeros(2, 6, dtype=torch.bool)
    out, shares = layer(query, key, value, key_padding_mask=padding)
    assert out.shape == (4, 2, 8) and shares.shape == (2, 4, 8)
    close(shares.sum(-1), torch.ones(2, 4))
    one, share = layer(query[:, 0], key[:, 0], value[:, 0], key_padding_mask=padding[0])
    close(one, out[:, 0])
    close(share, shares[0])
    close(layer(query, key, value, need_weights=False)[0], out)


def test_only_a_causal_mask_makes_use_of_the_hint():
    layer = nn.MultiheadAttention(8, 2)
    x = rand(5, 2, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    out, _ = layer(x, x, x, attn_mask=mask, is_causal=True, need_weights=False)
    close(out, layer(x, x, x, attn_mask=mask)[0])
    with pytest.raises(RuntimeError, match="is_causal"):
        layer(x, x, x, is_causal=True)


def test_wrong_arguments_of_attention():
    for error, arguments in ((ValueError, (0, 1)), (ValueError, (8, 0)), (AssertionError, (8, 3))):
        with pytest.raises(error):
            nn.MultiheadAttention(*arguments)
    layer, x = nn.MultiheadAttention(8, 2), rand(5, 3, 8)
    for error, arguments in (
        (AssertionError, {"attn_mask": torch.zeros(5, 5, dtype=torch.int64)}),
        (AssertionError, {"key_padding_mask": torch.zeros(3, 4, dtype=torch.bool)}),
        (RuntimeError, {"attn_mask": torch.zeros(5, 4)}),
        (RuntimeError, {"attn_mask": torch.zeros(3, 5, 5)}),
        (AssertionError, {"attn_mask": torch.zeros(1, 3, 5, 5)}),
    ):
        with pytest.raises(error):
            layer(x, x, x, **arguments)
    for arguments in ((x[0, 0], x, x), (x, x[0], x), (rand(5, 3, 6), x, x), (x, x[:4], x)):
        with pytest.raises(AssertionError):
            layer(*arguments)
    with pytest.warns(UserWarning, match="mismatched"):
        layer(x, x, x, attn_mask=torch.zeros(5, 5), key_padding_mask=torch.zeros(3, 5, dtype=torch.bool))


def test_merged_masks():
    layer, x = nn.MultiheadAttention(8, 2, batch_first=True), rand(3, 5, 8)
    mask, padding = torch.zeros(5, 5, dtype=torch.bool), torch.ones(3, 5, dtype=torch.bool)
    assert layer.merge_masks(None, None, x) == (None, None)
    assert layer.merge_masks(None, padding, x)[1] == 1
    both, kind = layer.merge_masks(mask, padding, x)
    assert both.shape == (3, 2, 5, 5) and both.all() and kind == 2


# -- transformers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_layer(norm_first):
    layer = nn.TransformerEncoderLayer(
        8, 2, 16, dropout=0.0, activation="gelu", batch_first=True, norm_first=norm_first
    )
    x = rand(3, 5, 8)

    def attend(x):
        return by_hand(layer.self_attn, x, x, x)[0]

    def forward(x):
        return layer.linear2(F.gelu(layer.linear1(x)))

    if norm_first:
        y = x + attend(layer.norm1(x))
        expected = y + forward(layer.norm2(y))
    else:
        y = layer.norm1(x + attend(x))
        expected = layer.norm2(y + forward(y))
    close(layer(x), expected)


@pytest.mark.parametrize("norm_first", [False, True])
def test_decoder_layer(norm_first):
    layer = nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, activation=torch.tanh, norm_first=norm_first)
    x, memory = rand(5, 3, 8), rand(6, 3, 8, seed=1)

    def forward(x):
        return layer.linear2(torch.tanh(layer.linear1(x)))

    if norm_first:
        n = layer.norm1(x)
        y = x + layer.self_attn(n, n, n)[0]
        y = y + layer.multihead_attn(layer.norm2(y), memory, memory)[0]
        expected = y + forward(layer.norm3(y))
    else:
        y = layer.norm1(x + layer.self_attn(x, x, x)[0])
        y = layer.norm2(y + layer.multihead_attn(y, memory, memory)[0])
        expected = layer.norm3(y + forward(y))
    close(layer(x, memory), expected)


def test_a_causal_encoder_does_not_look_ahead():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(8))
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    x = rand(2, 5, 8)
    changed = x.clone()
    changed[:, 3:] += 1
    for options in ({}, {"is_causal": True}, {"is_causal": False}):
        a, b = model(x, mask, **options), model(changed, mask, **options)
        close(a[:, :3], b[:, :3])
        assert (a[:, 3:] - b[:, 3:]).abs().max() > 1e-3
    assert not any(p is q for p, q in zip(model.layers[0].parameters(), model.layers[1].parameters()))


def test_padding_does_not_change_the_rest():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), 2)
    x = rand(2, 5, 8)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    out = model(x, src_key_padding_mask=padding)
    close(out[1, :3], model(x[1:, :3])[0])
    with torch.no_grad():
        out = model.eval()(x, src_key_padding_mask=padding)
    assert not out[1, 3:].any()  # as if the padded positions were not there


def test_the_whole_model_trains_and_copies():
    model = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
    source, target = rand(2, 4, 8), rand(2, 3, 8, seed=1)
    mask = model.generate_square_subsequent_mask(3)
    out = model(source, target, tgt_mask=mask)
    assert out.shape == (2, 3, 8)
    out.square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    model.eval()
    expected = model(source, target, tgt_mask=mask)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        close(other(source, target, tgt_mask=mask), expected, 0)
    assert model(source[0], target[0]).shape == (3, 8)
    for arguments in ((source, target[:1]), (rand(2, 4, 6), target), (source, target[0])):
        with pytest.raises(RuntimeError):
            model(*arguments)


def test_dropout_follows_the_seed():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True), 2)
    results = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        results.append(model(rand(2, 5, 8)))
    close(results[0], results[1], 0)
    assert (results[0] - results[2]).abs().max() > 1e-3


def test_warnings_and_errors_of_transformers():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, batch_first=True), 1)
    for options in ({}, {"batch_first": True, "norm_first": True}, {"batch_first": True, "bias": False}):
        with pytest.warns(UserWarning, match="use_nested_tensor is False"):
            nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, **options), 1)
    for kind in (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer):
        with pytest.raises(RuntimeError, match="relu/gelu"):
            kind(8, 2, activation="sine")
    assert nn.TransformerEncoderLayer(8, 2, activation=nn.GELU()).activation_relu_or_gelu == 2


# -- kinds of attention, causal biases, flex_attention -----------------------------------------------------------------


def test_a_kind_can_be_chosen():
    q = rand(1, 2, 9, 8)
    expected = F.scaled_dot_product_attention(q, q, q)
    for kind in (SDPBackend.MATH, [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        with sdpa_kernel(kind):
            close(F.scaled_dot_product_attention(q, q, q), expected)
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION), pytest.raises(RuntimeError):
        F.scaled_dot_product_attention(q, q, q)
    with pytest.raises(AssertionError), sdpa_kernel("math"):
        pass
    close(F.scaled_dot_product_attention(q, q, q), expected, 0)


@pytest.mark.parametrize("queries, keys", [(4, 4), (3, 5)])
@pytest.mark.parametrize("make, corner", [(causal_upper_left, 0), (causal_lower_right, 1)])
def test_causal_biases(queries, keys, make, corner):
    q, k = rand(1, 2, queries, 8), rand(1, 2, keys, 8, seed=1)
    mask = torch.ones(queries, keys, dtype=torch.bool).tril(corner * (keys - queries))
    bias = make(queries, keys)
    assert (bias._materialize() == mask).all()
    close(F.scaled_dot_product_attention(q, k, k, attn_mask=bias), F.scaled_dot_product_attention(q, k, k, mask))
    with pytest.raises(ValueError):
        F.scaled_dot_product_attention(q, k, k, attn_mask=bias, is_causal=True)


def causal(b, h, i, j):
    return i >= j


def test_flexible_scores():
    q, k, v = (rand(2, 4, n, 8, seed=n).requires_grad_() for n in (5, 6, 6))
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0])
    out, extra = flex_attention(
        q, k, v, score_mod=lambda s, b, h, i, j: s + slopes[h] * (j - i), return_aux=AuxRequest(lse=True)
    )
    distance = torch.arange(6) - torch.arange(5)[:, None]
    scores = q @ k.transpose(-1, -2) / math.sqrt(8) + slopes[:, None, None] * distance
    close(out, torch.softmax(scores, -1) @ v)
    close(extra.lse, torch.logsumexp(scores, -1))
    assert all(g.isfinite().all() for g in torch.autograd.grad(out.sum(), (q, k, v)))


def test_block_masks():
    mask = create_block_mask(causal, None, None, 256, 256)
    assert mask.shape == (1, 1, 256, 256) and mask.sparsity() == 25.0
    assert mask.kv_num_blocks.tolist() == [[[1, 1]]] and mask.full_kv_num_blocks.tolist() == [[[0, 1]]]
    assert mask.to_dense().tolist() == [[[[1, 0], [1, 1]]]]
    q = rand(1, 2, 256, 8)
    expected = F.scaled_dot_product_attention(q, q, q, is_causal=True)
    close(flex_attention(q, q, q, block_mask=mask), expected)
    close(flex_attention(q, q, q, block_mask=mask, score_mod=lambda s, b, h, i, j: s), expected)
    part = mask._adjust(200, 128)
    close(
        flex_attention(q[:, :, :200], q[:, :, :128], q[:, :, :128], block_mask=part)[:, :, :128], expected[:, :, :128]
    )
    assert "25.00%" in repr(mask) and "██" in str(mask)
    only = BlockMask.from_kv_blocks(torch.tensor([[[1, 1]]]), torch.tensor([[[[0, 1], [1, 0]]]]))
    close(flex_attention(q, q, q, block_mask=only)[:, :, 128:], F.scaled_dot_product_attention(*[q[:, :, 128:]] * 3))


def test_masks_of_functions():
    def window(b, h, i, j):
        return i - j <= 1

    both = create_mask(and_masks(causal, window), 2, 3, 3, 3)
    assert both.shape == (2, 3, 3, 3)
    assert both[0, 0].tolist() == [[True, False, False], [True, True, False], [False, True, True]]
    assert create_mask(or_masks(causal, window), None, None, 3, 3).all(-1).tolist() == [[[True, True, True]]]
    with pytest.raises(RuntimeError):
        and_masks(3)


def test_wrong_arguments_of_flex_attention():
    q = rand(1, 2, 4, 8)
    mask = create_block_mask(causal, None, None, 8, 8)
    for error, arguments, options in (
        (NotImplementedError, (q[0],) * 3, {}), (ValueError, (q, q[:, :1], q[:, :1]), {}),
        (ValueError, (q, q, q), {"block_mask": mask}), (ValueError, (q, q.double(), q), {}),
    ):  # fmt: skip
        with pytest.raises(error):
            flex_attention(*arguments, **options)
    assert flex_attention(q, q[:, :1], q[:, :1], enable_gqa=True).shape == q.shape


def test_padding_is_left_out_only_where_nothing_is_differentiated():
    layer = nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 1).eval()
    x, padding = torch.randn(2, 3, 4), torch.tensor([[False, False, True], [False, False, False]])

    def padded(x=x):
        return encoder(x, src_key_padding_mask=padding)[0, 2]

    assert padded().abs().min() > 0
    with torch.no_grad():
        assert padded().tolist() == [0] * 4
    encoder.requires_grad_(False)
    assert padded().tolist() == [0] * 4
    assert padded(x.clone().requires_grad_()).abs().min() > 0
    assert encoder.train()(x, src_key_padding_mask=padding)[0, 2].abs().min() > 0


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_whether_nested_tensors_are_used(enabled, batch_first):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=batch_first)
    encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=enabled)
    assert encoder.use_nested_tensor is (enabled and batch_first) and encoder.enable_nested_tensor is enabled


def test_causal_masks_are_recognised():
    causal = nn.Transformer.generate_square_subsequent_mask
    mask, none = causal(4), torch.zeros(4, 4)
    for given, told, size, expected in (
        (mask, None, 4, True), (mask, None, None, True), (mask, None, 3, False), (none, None, 4, False), (mask[:3], None, None, False),
        (mask[:3], None, 4, False), (None, None, 4, False), (None, True, 4, True), (none, True, 4, True), (mask, False, 4, False),
        (mask.expand(2, 4, 4), None, 4, False),
    ):  # fmt: skip
        assert _detect_is_causal_mask(given, told, size) is expected


def test_layers_are_told_whether_their_mask_is_causal():
    seen = []

    class Layer(nn.TransformerEncoderLayer):
        def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
            seen.append(is_causal)
            return super().forward(src, src_mask, src_key_padding_mask, is_causal)

    causal = nn.Transformer.generate_square_subsequent_mask(3)
    encoder = nn.TransformerEncoder(Layer(4, 2, 8, batch_first=True), 2, enable_nested_tensor=False).eval()
    for mask in (None, causal, causal.T, causal.expand(4, 3, 3)):
        encoder(torch.ones(2, 3, 4), mask)
    assert seen == [False, False, True, True, False, False, False, False]
