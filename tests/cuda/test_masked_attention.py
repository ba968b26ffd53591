"""Attention on a GPU by products of matrices, with NumPy in the place of cuBLAS: masks, any floats and widths."""

import pytest

import flambeau as torch

from .fake_gpu import back, on_gpu
from .test_device_entry import in_python

pytestmark = pytest.mark.sweep

attention = torch.nn.functional.scaled_dot_product_attention
MASKS = {
    "none": lambda: {},
    "keys": lambda: {"attn_mask": torch.tensor([[True] * 7, [True, False] * 3 + [True]])[:, None, None]},
    "all": lambda: {"attn_mask": (torch.rand(2, 3, 5, 7) > 0.3).index_fill(2, torch.tensor([1]), False)},
    "matrix": lambda: {"attn_mask": torch.rand(5, 7) > 0.5},
    "numbers": lambda: {"attn_mask": torch.randn(1, 3, 5, 7).masked_fill(torch.rand(5, 7) > 0.7, -torch.inf)},
    "causal": lambda: {"is_causal": True},
}


def operands(d, beside=False, rank=4):
    torch.manual_seed(0)
    shapes = [(2, 3, n, w) for n, w in ((5, 4), (7, 4), (7, 6))]
    made = [torch.randn(s).to(d) for s in shapes]
    if beside:  # heads of a position side by side
        made = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in made]
    return [t[(0,) * (4 - rank)] if rank < 4 else t for t in made]


def agree(here, named, limit):
    """Results and gradients as on the CPU, from the third call on without Python."""
    own = {k: on_gpu(v) if isinstance(v, torch.Tensor) else v for k, v in named.items()}
    there = [on_gpu(t, True) for t in here]
    here = [t.requires_grad_() for t in here]
    expected = attention(*here, **named)
    g = torch.randn(expected.shape).to(expected.dtype)
    theirs = torch.autograd.grad(expected, here, g)
    for _ in range(4):
        got, calls = in_python(lambda: attention(*there, **own))
        ours = torch.autograd.grad(got, there, on_gpu(g))
        for a, b in zip((got, *ours), (expected, *theirs), strict=True):
            assert a.dtype is b.dtype
            assert a.stride() == b.stride() or a.dtype is torch.bfloat16  # the CPU's is one of float32, filled up
            assert torch.allclose(back(a.detach()).double(), b.detach().double(), limit, limit)
    return calls


@pytest.mark.parametrize("d", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", MASKS)
def test_masks(gpu, name, d):
    calls = agree(operands(d), MASKS[name](), 6e-2 if d is torch.bfloat16 else 1e-5)
    assert calls == 0 or name == "matrix"  # which is made one of four dimensions


@pytest.mark.parametrize("name", ["none", "causal", "keys"])
def test_heads_side_by_side(gpu, name):
    assert agree(operands(torch.float32, beside=True), MASKS[name](), 1e-5) == 0


@pytest.mark.parametrize("rank", [2, 3])
def test_fewer_dimensions(gpu, rank):
    agree(operands(torch.float32, rank=rank), {}, 1e-5)
    agree(operands(torch.float32, rank=rank), {"attn_mask": torch.rand(5, 7) > 0.5}, 1e-5)


def test_heads_that_share_keys(gpu):
    q, k, v = operands(torch.float32)
    q = torch.randn(2, 6, 5, 4)
    expected = attention(q, k, v, enable_gqa=True)
    assert torch.allclose(back(attention(*map(on_gpu, (q, k, v)), enable_gqa=True)), expected, 1e-5, 1e-5)


def test_nan_stays(gpu):
    q, k, v = operands(torch.float32)
    q[0, 0, 0, 0] = torch.nan
    mask = MASKS["keys"]()["attn_mask"]
    got, expected = back(attention(*map(on_gpu, (q, k, v, mask)))), attention(q, k, v, mask)
    assert torch.allclose(got, expected, 1e-5, 1e-5, equal_nan=True) and got.isnan().any()


def test_a_mask_may_require_gradients(gpu):
    torch.manual_seed(0)
    q, mask, found = torch.randn(1, 2, 5, 8), torch.randn(5, 5), []
    for move in (lambda t: t.clone().requires_grad_(), lambda t: on_gpu(t, requires_grad=True)):
        leaves = move(q), move(mask)
        attention(*[leaves[0]] * 3, attn_mask=leaves[1]).sum().backward()
        found.append([t.grad for t in leaves])
    for here, there in zip(*found):
        torch.testing.assert_close(back(there), here)


@pytest.mark.parametrize("masked", [True, False])
def test_totals_that_the_library_reads(gpu, monkeypatch, masked):
    """cuDNN makes shares from totals: those of queries that see nothing, -inf forwards, are such that nothing is left; NaN stays."""
    library, seen = gpu.attention.library, []
    monkeypatch.setattr(library, "_run", lambda role, mask, operands, *rest: seen.append(operands) or True)
    rows = [on_gpu(torch.zeros(1, 1, 3, 8))._array for _ in range(8)]
    totals = on_gpu(torch.tensor([[[-torch.inf, 1.5, torch.nan]]]))
    mask = on_gpu(torch.zeros(1, 1, 3, 3))._array if masked else None
    assert library.backward(*rows[:4], mask, rows[4], totals._array, rows[5:], 1.0, False)
    assert str(seen[0][5].numpy().ravel().tolist()) == ("[inf, 1.5, nan]" if masked else "[-inf, 1.5, nan]")
    assert str(back(totals).ravel().tolist()) == "[-inf, 1.5, nan]"
