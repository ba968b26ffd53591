"""Attention of 16-bit floats on a GPU: the kernels give what the formula gives in double precision, gradients too."""

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau._backend.cuda_attention import Attention

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]

LIMIT = {torch.bfloat16: 2e-2, torch.float16: 3e-3}


@pytest.fixture
def launches(monkeypatch):
    seen = []
    for name in ("forward", "backward"):
        before = getattr(Attention, name)

        def call(self, *args, name=name, before=before):
            seen.append(name)
            return before(self, *args)

        monkeypatch.setattr(Attention, name, call)
    return seen


def operands(shapes, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return [torch.from_numpy(rng.normal(size=s)).to(dtype) for s in shapes]


def expected(q, k, v, g, causal, group):
    q, k, v = (t.double().requires_grad_() for t in (q, k, v))
    keys, values = (t.repeat_interleave(group, -3) if group > 1 else t for t in (k, v))
    scores = q @ keys.transpose(-1, -2) / q.shape[-1] ** 0.5
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(~seen, -torch.inf)
    out = scores.softmax(-1) @ values
    return [out, *torch.autograd.grad(out, (q, k, v), g.double())]


def close(there, here, dtype):
    assert there.is_cuda and there.dtype is dtype and there.shape == here.shape
    there, here = there.detach().cpu().double(), here.detach()
    assert float((there - here).abs().max()) <= LIMIT[dtype] * max(1.0, float(here.abs().max()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("lead", "length", "keys", "width"),
    [
        ((2, 3), 64, 64, 64),
        ((1, 2), 1, 1, 16),
        ((2, 1), 130, 70, 32),
        ((1, 2), 63, 200, 128),
        ((3,), 257, 257, 80),
        ((), 40, 33, 64),
    ],
)
def test_values_and_gradients(lead, length, keys, width, causal, dtype, launches):
    q, k, v, g = operands([(*lead, n, width) for n in (length, keys, keys, length)], dtype)
    there = [t.cuda().requires_grad_() for t in (q, k, v)]
    out = F.scaled_dot_product_attention(*there, is_causal=causal)
    got = [out, *torch.autograd.grad(out, there, g.cuda())]
    assert "forward" in launches and "backward" in launches
    for a, b in zip(got, expected(q, k, v, g, causal, 1)):
        close(a, b, dtype)


@pytest.mark.parametrize("causal", [False, True])
def test_heads_that_share_keys(causal, launches):
    q, k, v, g = operands([(2, 6, 70, 64), (2, 2, 90, 64), (2, 2, 90, 64), (2, 6, 70, 64)], torch.bfloat16)
    there = [t.cuda().requires_grad_() for t in (q, k, v)]
    out = F.scaled_dot_product_attention(*there, is_causal=causal, enable_gqa=True)
    got = [out, *torch.autograd.grad(out, there, g.cuda())]
    assert launches
    for a, b in zip(got, expected(q, k, v, g, causal, 3)):
        close(a, b, torch.bfloat16)


def test_operands_lie_anywhere(launches):
    """Heads side by side in one projection, memory that begins at odd places, again and again by a plan."""
    whole = operands([(2, 50, 3, 4, 64)], torch.float16)[0].cuda()
    q, k, v = (t.transpose(1, 2) for t in whole.unbind(2))
    here = expected(*(t.cpu() for t in (q, k, v)), torch.zeros(2, 4, 50, 64), True, 1)[0]
    for _ in range(4):
        close(F.scaled_dot_product_attention(q, k, v, is_causal=True), here, torch.float16)
    odd = [
        torch.empty(2 * 4 * 50 * 64 + 1, dtype=torch.float16, device="cuda")[1:].view(2, 4, 50, 64) for _ in range(3)
    ]
    for t, source in zip(odd, (q, k, v)):
        t.copy_(source)
    even = [t.clone() for t in odd]
    for _ in range(4):
        for given in (even, odd):
            close(F.scaled_dot_product_attention(*given, is_causal=True), here, torch.float16)
    assert launches


def test_what_the_kernels_leave_out():
    """Masks, other widths and other floats: by products, and a program along rows between them."""
    q, k, v = (t.cuda() for t in operands([(1, 2, 9, 20)] * 3, torch.bfloat16))
    mask = torch.ones(9, 9, dtype=torch.bool, device="cuda").tril()
    one = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    other = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-2)
    second = [t.float().requires_grad_() for t in (q, k, v)]
    assert F.scaled_dot_product_attention(*second).dtype is torch.float32
