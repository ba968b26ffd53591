"""Operators of ONNX as functions, against the plain way of computing them."""

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.onnx import ops
from flambeau.onnx.verification import VerificationInfo


def test_attention_with_past_keys_and_groups():
    torch.manual_seed(0)
    q, k, v, past = torch.randn(1, 4, 3, 4), torch.randn(1, 2, 5, 4), torch.randn(1, 2, 5, 4), torch.randn(1, 2, 2, 4)
    out, keys, values, scores = ops.attention(q, k, v, None, past, past, is_causal=True, qk_matmul_output_mode=3)
    seen = torch.ones(3, 7, dtype=torch.bool).tril()
    full = F.scaled_dot_product_attention(q, keys.repeat_interleave(2, 1), values.repeat_interleave(2, 1), seen)
    torch.testing.assert_close(out, full)
    assert torch.equal(keys, torch.cat([past, k], 2))
    torch.testing.assert_close(scores.sum(-1), torch.ones(1, 4, 3))
    with pytest.raises(RuntimeError, match="both is_causal and attn_mask"):
        ops.attention(q, k, v, torch.zeros(3, 5), is_causal=True)


def test_soft_cap_comes_after_the_mask():
    q = torch.ones(1, 1, 1, 4)
    mask = torch.tensor([[3.0]])
    assert ops.attention(q, q, q, mask, softcap=2.0)[3].item() == pytest.approx(2.0)
    assert ops.attention(q, q, q, mask, softcap=2.0, qk_matmul_output_mode=1)[3].item() == pytest.approx(5.0)
    assert ops.attention(q, q, q, mask, softcap=2.0, qk_matmul_output_mode=2)[3].item() == pytest.approx(
        1.97322, abs=1e-4
    )


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotation_keeps_lengths(interleaved):
    torch.manual_seed(0)
    angles = torch.rand(10, 4)
    x, places = torch.randn(2, 3, 16), torch.tensor([[0, 1, 2], [3, 4, 5]])
    made = ops.rotary_embedding(x, angles.cos(), angles.sin(), places, num_heads=2, interleaved=interleaved)
    torch.testing.assert_close(made.norm(dim=-1), x.norm(dim=-1))
    first = made[1, 2, 0]
    partner = x[1, 2, 1 if interleaved else 4]
    torch.testing.assert_close(first, x[1, 2, 0] * angles[5, 0].cos() - partner * angles[5, 0].sin())


def test_nodes_of_ones_own_are_zeros():
    first, second = ops.symbolic_multi_out("my::Op", (), dtypes=(torch.float64, 7), shapes=((2,), (1, 1)))
    assert (first.dtype, second.dtype, second.tolist()) == (torch.float64, torch.int64, [[0]])
    with pytest.raises(ValueError, match="must match"):
        ops.symbolic_multi_out("my::Op", (), dtypes=(1,), shapes=())


def test_differences():
    info = VerificationInfo.from_tensors("y", torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5]))
    assert (info.max_abs_diff, info.max_rel_diff) == (0.5, 0.25)
    assert info.abs_diff_hist[0].sum().item() == 2.0
