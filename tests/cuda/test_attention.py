"""Attention of 16-bit floats on a GPU: cuDNN and our kernels give what the formula gives in double precision, gradients too."""

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau._backend.cuda_attention import Attention
from flambeau._backend.cudnn_attention import CudnnAttention
from flambeau.nn.attention import SDPBackend, sdpa_kernel

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


@pytest.fixture(params=["cudnn", "own"])
def kind(request):
    """By cuDNN, where it is there, and by kernels of our own."""
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION if request.param == "cudnn" else SDPBackend.FLASH_ATTENTION):
        yield request.param


@pytest.fixture
def by_library(monkeypatch):
    """What cuDNN was asked for, and whether it could."""
    if not torch.backends.cudnn.is_available():
        pytest.skip("no cuDNN")
    seen = []
    for name in ("forward", "backward"):
        before = getattr(CudnnAttention, name)

        def call(self, *args, name=name, before=before):
            seen.append((name, before(self, *args)))
            return seen[-1][1]

        monkeypatch.setattr(CudnnAttention, name, call)
    return seen


def operands(shapes, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return [torch.from_numpy(rng.normal(size=s)).to(dtype) for s in shapes]


def expected(q, k, v, g, causal, group, mask=None):
    q, k, v = (t.double().requires_grad_() for t in (q, k, v))
    keys, values = (t.repeat_interleave(group, -3) if group > 1 else t for t in (k, v))
    scores = q @ keys.transpose(-1, -2) / q.shape[-1] ** 0.5
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(~seen, -torch.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype is torch.bool else scores + mask.double()
    out = scores.softmax(-1).nan_to_num(0.0) @ values  # rows that see nothing
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
def test_values_and_gradients(lead, length, keys, width, causal, dtype, kind, launches):
    q, k, v, g = operands([(*lead, n, width) for n in (length, keys, keys, length)], dtype)
    there = [t.cuda().requires_grad_() for t in (q, k, v)]
    out = F.scaled_dot_product_attention(*there, is_causal=causal)
    got = [out, *torch.autograd.grad(out, there, g.cuda())]
    assert "forward" in launches and "backward" in launches
    for a, b in zip(got, expected(q, k, v, g, causal, 1)):
        close(a, b, dtype)


@pytest.mark.parametrize("causal", [False, True])
def test_heads_that_share_keys(causal, kind, launches):
    q, k, v, g = operands([(2, 6, 70, 64), (2, 2, 90, 64), (2, 2, 90, 64), (2, 6, 70, 64)], torch.bfloat16)
    there = [t.cuda().requires_grad_() for t in (q, k, v)]
    out = F.scaled_dot_product_attention(*there, is_causal=causal, enable_gqa=True)
    got = [out, *torch.autograd.grad(out, there, g.cuda())]
    assert launches
    for a, b in zip(got, expected(q, k, v, g, causal, 3)):
        close(a, b, torch.bfloat16)


def test_operands_lie_anywhere(kind, launches):
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


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(2, 1, 65, 90), (65, 90), (2, 3, 65, 90), (2, 1, 1, 90)], ids=str)
@pytest.mark.parametrize("what", ["seen", "numbers", "single"])
def test_masks_by_the_library(shape, what, dtype, by_library):
    """What takes part, or numbers to add; a row that sees nothing is zero and moves nothing. From the third call on by a plan."""
    q, k, v, g = operands([(2, 3, n, 64) for n in (65, 90, 90, 65)], dtype)
    rng = np.random.default_rng(3)
    if what == "seen":
        mask = torch.from_numpy(rng.random(shape) > 0.4)
        if shape[-2] > 1:
            mask[..., 7, :] = False
    else:
        mask = torch.from_numpy(rng.normal(size=shape)).to(torch.float32 if what == "single" else dtype)
    there, own = [t.cuda().requires_grad_() for t in (q, k, v)], mask.cuda()
    for _ in range(4):
        out = F.scaled_dot_product_attention(*there, attn_mask=own)
        got = [out, *torch.autograd.grad(out, there, g.cuda())]
        for a, b in zip(got, expected(q, k, v, g, False, 1, mask)):
            close(a, b, dtype)
    assert by_library and all(could for _, could in by_library)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize(("length", "keys"), [(1, 1), (1, 16), (1, 90), (2, 1), (65, 1), (2, 3), (65, 90)])
@pytest.mark.parametrize("lead", [(1, 1), (2, 3)])  # with one head of one query cuDNN differs
@pytest.mark.parametrize("kind", ["seen", "numbers", "broad", "dropout"])
def test_rows_that_see_nothing(kind, lead, length, keys, dtype):
    """The first query, or with `broad` all those of the first batch; the result and all gradients are zero there, without NaN."""
    q, k, v, g = operands([(*lead, n, 16) for n in (length, keys, keys, length)], dtype)
    mask = torch.ones((lead[0], 1, 1, keys) if kind == "broad" else (length, keys), dtype=torch.bool)
    mask[0] = False
    here = expected(q, k, v, g, False, 1, mask)
    if kind in ("numbers", "dropout"):
        mask = torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, -torch.inf)
    there, own = [t.cuda().requires_grad_() for t in (q, k, v)], mask.cuda()
    for _ in range(4):
        out = F.scaled_dot_product_attention(*there, attn_mask=own, dropout_p=0.5 * (kind == "dropout"))
        got = [out, *torch.autograd.grad(out, there, g.cuda())]
        for a, b in zip(got, here):
            if kind == "dropout":
                assert not a.isnan().any()
            else:
                assert float((a.detach().cpu().double() - b.detach()).abs().max()) <= 3e-2 * max(
                    1.0, float(b.detach().abs().max())
                )


def test_wide_heads_by_the_library(by_library):
    q, k, v, g = operands([(1, 2, 40, 256)] * 4, torch.bfloat16)
    there = [t.cuda().requires_grad_() for t in (q, k, v)]
    out = F.scaled_dot_product_attention(*there, is_causal=True)
    for a, b in zip([out, *torch.autograd.grad(out, there, g.cuda())], expected(q, k, v, g, True, 1)):
        close(a, b, torch.bfloat16)
    assert by_library == [("forward", True), ("backward", True)]


def test_switches(by_library):
    q = operands([(1, 2, 40, 64)], torch.float16)[0].cuda().requires_grad_()

    def kinds():
        by_library.clear()
        for _ in range(4):  # the last of them by plans
            torch.autograd.grad(F.scaled_dot_product_attention(q, q, q).sum(), q)
        return {name for name, _ in by_library}

    assert kinds() == {"forward", "backward"}
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        assert kinds() == set()
    with torch.backends.cudnn.flags(enabled=False):
        assert kinds() == set()
    torch.use_deterministic_algorithms(True)
    try:
        kinds()
        assert ("backward", True) not in by_library  # sums of gradients would come in another order each time
    finally:
        torch.use_deterministic_algorithms(False)
    params = torch.backends.cuda.SDPAParams(q, q, q, None, 0.0, False, False)
    assert torch.backends.cuda.can_use_cudnn_attention(params)


def test_heads_that_are_one_in_memory(launches):
    """Keys of one head, expanded: no element may have several places in cuDNN."""
    q, k, g = operands([(2, 4, 30, 64), (2, 1, 30, 64), (2, 4, 30, 64)], torch.bfloat16)
    whole = k.expand(2, 4, 30, 64)
    out = F.scaled_dot_product_attention(q.cuda(), k.cuda().expand(2, 4, 30, 64), whole.cuda())
    close(out, expected(q, whole, whole, g, False, 1)[0], torch.bfloat16)
