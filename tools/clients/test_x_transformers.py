"""x-transformers: the variants of its description, small; loss, gradients and text that is made."""

import random

import pytest
import torch
from x_transformers import (
    AutoregressiveWrapper,
    ContinuousTransformerWrapper,
    CrossAttender,
    Decoder,
    Encoder,
    NonAutoregressiveWrapper,
    TransformerWrapper,
    ViTransformerWrapper,
    XLAutoregressiveWrapper,
    XTransformer,
)

LAYERS = [
    {}, {"attn_flash": True}, {"attn_num_mem_kv": 4}, {"use_scalenorm": True}, {"use_rmsnorm": True},
    {"use_simple_rmsnorm": True}, {"ff_glu": True}, {"ff_swish": True, "ff_glu": True}, {"ff_no_bias": True},
    {"ff_relu_squared": True}, {"attn_sparse_topk": 4}, {"attn_sparse_topk": 4, "attn_sparse_topk_straight_through": True},
    {"attn_hard": True}, {"attn_pre_talking_heads": True, "attn_post_talking_heads": True}, {"attn_one_kv_head": True},
    {"attn_kv_heads": 2}, {"attn_on_attn": True}, {"attn_gate_values": True}, {"sandwich_coef": 1}, {"weight_tie_layers": True},
    {"macaron": True}, {"rel_pos_bias": True}, {"dynamic_pos_bias": True, "dynamic_pos_bias_log_distance": False},
    {"alibi_pos_bias": True, "alibi_num_heads": 2}, {"rotary_pos_emb": True}, {"rotary_xpos": True}, {"gate_residual": True},
    {"residual_attn": True}, {"pre_norm": False}, {"sandwich_norm": True}, {"shift_tokens": 1},
    {"attn_qk_norm": True}, {"attn_qk_norm": True, "attn_qk_norm_dim_scale": True}, {"attn_qk_norm": True, "attn_flash": True},
    {"attn_head_scale": True}, {"add_value_residual": True, "learned_value_residual_mix": True},
    {"layer_dropout": 0.1, "attn_dropout": 0.1, "ff_dropout": 0.1}, {"attn_laser": True}, {"attn_use_cope": True},
    {"attn_data_dependent_alibi": True}, {"num_residual_streams": 2}, {"polar_pos_emb": True}, {"attn_selective": True},
    {"attn_softclamp_logits": True}, {"use_dynamic_tanh": True}, {"attn_orthog_projected_values": True},
]  # fmt: skip
WRAPPERS = [
    {"num_memory_tokens": 4}, {"l2norm_embed": True}, {"post_emb_norm": True}, {"emb_dropout": 0.1},
    {"use_abs_pos_emb": False}, {"scaled_sinu_pos_emb": True}, {"tie_embedding": True}, {"num_output_heads": 2},
    {"emb_frac_gradient": 0.1}, {"average_pool_embed": True}, {"use_cls_token": True}, {"attn_z_loss_weight": 1e-4},
]  # fmt: skip


def tokens(*shape):
    return torch.randint(0, 50, shape)


def learn(record_property, model, *arguments, **named):
    """Records loss and gradients of one step."""
    out = model(*arguments, **named)
    for part in out if isinstance(out, (tuple, list)) else [out]:
        loss = part if part.ndim == 0 else part.float().pow(2).mean()
        loss.backward(retain_graph=True)
        record_property("loss", loss.item())
    record_property("gradients", [p.grad.norm().item() for p in model.parameters() if p.grad is not None])


@pytest.fixture(autouse=True)
def seed():
    random.seed(0)
    torch.manual_seed(0)


@pytest.mark.parametrize("options", LAYERS, ids=lambda o: "-".join(o) or "plain")
def test_layers(options, record_property):
    layers = Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, **options)
    model = AutoregressiveWrapper(TransformerWrapper(num_tokens=50, max_seq_len=24, attn_layers=layers))
    learn(record_property, model, tokens(2, 16))


@pytest.mark.parametrize("options", WRAPPERS, ids="-".join)
def test_wrappers(options, record_property):
    layers = Encoder(dim=32, depth=2, heads=4)
    model = TransformerWrapper(num_tokens=50, max_seq_len=24, attn_layers=layers, **options)
    learn(record_property, model, tokens(2, 16), mask=torch.arange(16) < torch.tensor([[16], [10]]))


def test_encoder_and_decoder(record_property):
    model = XTransformer(
        dim=32, enc_num_tokens=50, enc_depth=2, enc_heads=4, enc_max_seq_len=16, dec_num_tokens=50, dec_depth=2,
        dec_heads=4, dec_max_seq_len=24, tie_token_emb=True,
    )  # fmt: skip
    source = tokens(2, 16)
    learn(record_property, model, source, tokens(2, 16), mask=torch.ones_like(source).bool())
    record_property("made", model.eval().generate(source, tokens(2, 1), 6, temperature=0.0).tolist())


def test_pictures_and_captions(record_property):
    encoder = ViTransformerWrapper(
        image_size=32, patch_size=8, num_classes=10, attn_layers=Encoder(dim=32, depth=2, heads=4)
    )
    pictures = torch.randn(2, 3, 32, 32)
    learn(record_property, encoder, pictures)
    layers = Decoder(dim=32, depth=2, heads=4, cross_attend=True)
    decoder = TransformerWrapper(num_tokens=50, max_seq_len=16, attn_layers=layers)
    learn(record_property, decoder, tokens(2, 12), context=encoder(pictures, return_embeddings=True).detach())


@pytest.mark.parametrize(
    "options",
    [{"temperature": 0.0}, {"temperature": 0.8}, {"filter_logits_fn": "top_p"}, {"cache_kv": False}],
    ids=repr,
)
def test_generation(options, record_property):
    layers = Decoder(dim=32, depth=2, heads=4, rotary_pos_emb=True, attn_flash=True)
    model = AutoregressiveWrapper(TransformerWrapper(num_tokens=50, max_seq_len=24, attn_layers=layers)).eval()
    record_property("made", model.generate(tokens(2, 4), 12, **options).tolist())


def test_recurrent_memory(record_property):
    layers = Decoder(dim=32, depth=2, heads=4, rel_pos_bias=True)
    model = XLAutoregressiveWrapper(
        TransformerWrapper(num_tokens=50, max_seq_len=8, max_mem_len=16, attn_layers=layers)
    )
    learn(record_property, model, tokens(2, 25))
    record_property("made", model.eval().generate(tokens(2, 10), 6, temperature=0.0).tolist())


def test_masked_tokens(record_property):
    net = TransformerWrapper(num_tokens=51, max_seq_len=16, attn_layers=Encoder(dim=32, depth=2, heads=4))
    model = NonAutoregressiveWrapper(net, mask_id=50, steps=4)
    record_property("loss", model(tokens(2, 16)).loss.item())
    record_property("made", model.generate(batch_size=2).tolist())


def test_continuous_and_cross(record_property):
    model = ContinuousTransformerWrapper(
        dim_in=6, dim_out=3, max_seq_len=16, attn_layers=Encoder(dim=32, depth=2, heads=4)
    )
    learn(record_property, model, torch.randn(2, 9, 6), mask=torch.ones(2, 9).bool())
    learn(record_property, CrossAttender(dim=32, depth=2), torch.randn(2, 5, 32), context=torch.randn(2, 7, 32))


def test_three_steps(record_property):
    model = AutoregressiveWrapper(
        TransformerWrapper(num_tokens=50, max_seq_len=24, attn_layers=Decoder(dim=32, depth=2, heads=4))
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    text, losses = tokens(4, 17), []
    for _ in range(3):
        loss = model(text)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    record_property("losses", losses)
    assert losses[-1] < losses[0]
