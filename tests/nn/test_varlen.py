"""Attention over sequences of different lengths: each as if it stood alone."""

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.nn.attention.varlen import AuxRequest, varlen_attn, varlen_attn_out


@pytest.mark.parametrize("causal", [False, True])
def test_sequences_stand_alone(causal):
    torch.manual_seed(0)
    q, k, v = torch.randn(6, 4, 8), torch.randn(6, 2, 8), torch.randn(6, 2, 8)
    places = torch.tensor([0, 2, 6], dtype=torch.int32)
    window = (-1, 0) if causal else (-1, -1)
    out = varlen_attn(q, k, v, places, places, 4, 4, window_size=window, enable_gqa=True)
    for a, b in ((0, 2), (2, 6)):
        parts = [t[a:b].transpose(0, 1) for t in (q, k, v)]
        alone = F.scaled_dot_product_attention(*parts, is_causal=causal, enable_gqa=True)
        torch.testing.assert_close(out[a:b], alone.transpose(0, 1))


def test_sums_gradients_and_out():
    x = torch.randn(4, 1, 2, requires_grad=True)
    places = torch.tensor([0, 4])
    out, lse = varlen_attn(x, x, x, places, places, 4, 4, return_aux=AuxRequest(lse=True))
    torch.testing.assert_close(lse[0], torch.logsumexp(x[:, 0] @ x[:, 0].T * 2**-0.5, -1))
    out.sum().backward()
    assert x.grad.abs().sum() > 0
    room = torch.empty(4, 1, 2)
    assert varlen_attn_out(room, x.detach(), x.detach(), x.detach(), places, places, 4, 4) is room
    torch.testing.assert_close(room, out.detach())
    with pytest.raises(ValueError, match="enable_gqa"):
        varlen_attn(torch.ones(4, 2, 2), x, x, places, places, 4, 4)
