"""Rules for batches, where only some operands differ between the samples: values, gradients and 16-bit results."""

import itertools

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.func import grad, vmap

A = torch.arange(24.0).view(2, 3, 4).sin()
B = torch.arange(24.0, 48.0).view(2, 3, 4).cos()
V = torch.tensor([[0.3, -1.0, 2.0, 0.5], [1.5, 0.25, -0.5, 1.0]])
W = V[:, :3] + 0.125
I = torch.tensor([[0, 2, 1], [1, 1, 0]])
C = torch.arange(2 * 2 * 3 * 4 * 4.0).view(2, 2, 3, 4, 4).sin()  # 2 samples of 2 images
FILTERS = torch.arange(2 * 6 * 3 * 2 * 2.0).view(2, 6, 3, 2, 2).cos()
N = torch.tensor([3.0, -2.0])
CALLS = {
    "conv": (lambda x, w, b: F.conv2d(x, w, b, padding=1), (C, FILTERS, FILTERS[:, :, 0, 0, 0])),
    "conv in groups": (lambda x, w, b: F.conv2d(x, w, b, stride=2, groups=3), (C, FILTERS[:, :, :1], FILTERS[:, :, 0, 0, 1])),
    "conv_transpose": (lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2), (C, FILTERS.transpose(1, 2)[:, :, :2], V[:, :2])),
    "conv_transpose in groups": (lambda x, w: F.conv_transpose2d(x, w, groups=3), (C, FILTERS[:, :3, :2])),
    "conv1d": (lambda x, w: F.conv1d(x, w), (A, FILTERS[:, :, :, 0])),
    "linear": (F.linear, (A, B, W)),
    "linear of images": (F.linear, (C, B, W)),
    "linear of a vector": (F.linear, (V, B, W)),
    "linear without bias": (F.linear, (C, B)),
    "bilinear": (lambda x, y, w, b: F.bilinear(x, y, w, b), (A, B[:, :, :3], torch.arange(48.0).view(2, 2, 4, 3).cos(), V[:, :2])),
    "addmm": (lambda c, x, y: torch.addmm(c, x, y, beta=2, alpha=3), (W, A, B.mT)),
    "addmv": (lambda c, x, y: torch.addmv(c, x, y, beta=2), (W, A, V)),
    "addr": (lambda c, x, y: torch.addr(c, x, y, alpha=3), (A, W, V)),
    "baddbmm": (torch.baddbmm, (V, C[:, :, 0], C[:, :, 1])),
    "addbmm": (torch.addbmm, (V, C[:, :, 0], C[:, :, 1])),
    "matmul": (torch.matmul, (A, B.mT)),
    "matrix and vector": (torch.matmul, (A, V)),
    "vector and matrix": (torch.matmul, (W, A)),
    "vectors": (torch.matmul, (V, V * 2)),
    "many matrices and one": (torch.matmul, (C, A.mT)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (4,), w, b), (A, V, V - 1)),
    "group_norm": (lambda x, w, b: F.group_norm(x, 3, w, b), (C, W, W - 1)),
    "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), (C, W, W - 1)),
    "instance_norm": (lambda x, w, b: F.instance_norm(x, None, None, w, b), (C, W, W - 1)),
    "rms_norm": (lambda x, w: F.rms_norm(x, (4,), w), (A, V)),
    "embedding": (lambda w, i: F.embedding(i, w, padding_idx=1), (A, I)),
    "embedding_bag": (lambda w, i: F.embedding_bag(i[None], w, mode="sum"), (A, I)),
    "index_add": (lambda x, i, s: x.index_add(0, i, s), (A, I, B)),
    "index_add with alpha": (lambda x, i, s: x.index_add(1, i, s, alpha=2), (A, I, A[:, :, :3])),
    "index_copy": (lambda x, i, s: x.index_copy(1, i, s), (A, torch.tensor([[0, 2, 1], [3, 1, 0]]), A[:, :, :3] * 2)),
    "index_fill": (lambda x, i, v: x.index_fill(1, i, v), (A, I, N)),
    "index_fill with a number": (lambda x, i: x.index_fill(0, i, 2.5), (A, I)),
    "index_select": (lambda x, i: x.index_select(1, i), (A, I)),
    "index_select of rows": (lambda x, i: x.index_select(0, i), (A, I)),
    "take": (lambda x, i: x.take(i - 2), (A, I)),
    "put": (lambda x, i, s: x.put(i, s), (A, torch.tensor([[5, 2, 1], [0, 3, -1]]), W)),
    "put, adding": (lambda x, i, s: x.put(i, s, accumulate=True), (A, torch.tensor([[5, 2, 5], [0, 3, -1]]), W)),
    "gather": (lambda x, i: x.gather(1, i[:, None].repeat(1, 2)), (A, I)),
    "scatter": (lambda x, i, s: x.scatter(0, i[None], s[None]), (A, I, W)),
    "scatter_add": (lambda x, i, s: x.scatter_add(1, i[None], s[None]), (A, I, W)),
    "scatter_reduce": (lambda x, i, s: x.scatter_reduce(1, i[None], s[None], "amax"), (A, I, W)),
    "index": (lambda x, i: x[:, i], (A, I)),
    "index_put": (lambda x, i, v: x.index_put((torch.tensor([0, 1, 2]), i), v), (A, I, W)),
    "index_put, adding": (lambda x, i, v: x.index_put((i,), v, accumulate=True), (A, I, V)),
    "masked_scatter": (lambda x, m, s: x.masked_scatter(m, s), (A, B > 0, B * 10)),
    "masked_scatter of a row": (lambda x, m, s: x.masked_scatter(m, s), (A, V > 0.4, B * 10)),
    "masked_fill": (lambda x, m, v: x.masked_fill(m, v), (A, V > 0.4, N)),
    "fill": (torch.fill, (A, N)),
    "searchsorted": (lambda b, v: torch.searchsorted(b, v), (V.sort().values, A)),
    "searchsorted in rows": (lambda b, v: torch.searchsorted(b, v, right=True), (A.sort().values, B)),
    "bucketize": (lambda v, b: torch.bucketize(v, b), (A, V.sort().values)),
    "isin": (lambda a, b: torch.isin(a, b), (I, I[:, :2] + 1)),
    "not isin": (lambda a, b: torch.isin(a, b, invert=True), (I, I[:, :2] + 1)),
    "renorm": (lambda x: x.renorm(2, 1, 0.5), (A,)),
    "attention": (F.scaled_dot_product_attention, (C, C * 2, C.cos())),
    "attention of three dimensions": (F.scaled_dot_product_attention, (A, B, A * 2)),
    "attention with a mask": (lambda q, k, m: F.scaled_dot_product_attention(q, k, k, m), (C, C * 2, C[:, 0, 0])),
    "attention with masks for heads": (lambda q, k, m: F.scaled_dot_product_attention(q, k, k, m), (C, C * 2, C[:, 0])),
    "cross_entropy": (lambda x, y: F.cross_entropy(x, y, ignore_index=1), (A, I)),
    "nll with weights": (lambda x, y, w: F.nll_loss(x, y, w), (A, I, V.abs())),
    "cat": (lambda x, y: torch.cat([x, y], 1), (A, B[:, :, :1])),
    "stack": (lambda x, y: torch.stack([x, y], 2), (A, B)),
    "block_diag": (lambda x, y: torch.block_diag(x, y), (A, V)),
    "where": (torch.where, (A > 0, A, V)),
    "lerp": (torch.lerp, (A, V, N)),
    "solve": (lambda a, b: torch.linalg.solve(a + 3 * torch.eye(3), b), (A[:, :, :3], B)),
    "solve with a vector": (lambda a, b: torch.linalg.solve(a + 3 * torch.eye(3), b), (A[:, :, :3], W)),
    "triangular": (lambda a, b: torch.linalg.solve_triangular(a + 3 * torch.eye(3), b, upper=True), (A[:, :, :3], B)),
    "grid_sample": (lambda x, g: F.grid_sample(x, g.view(2, 1, 3, 2), align_corners=True), (C, A)),
    "cdist": (torch.cdist, (A, B)),
    "cosine": (lambda x, y: F.cosine_similarity(x, y, dim=0), (A, B)),
    "cross": (lambda x, y: torch.linalg.cross(x, y, dim=0), (A, B)),
    "prelu": (F.prelu, (C, W)),
    "gru cell": (lambda x, w: torch.gru_cell(x, x[:, :2], w, w[:, :2] * 2), (A, C[:, 0, :2, 0].repeat(1, 3, 1))),
}  # fmt: skip


def _some(operands):
    """Which operands are mapped: all choices of at least one."""
    return [c for c in itertools.product([0, None], repeat=len(operands)) if 0 in c]


def _samples(function, operands, mapped):
    return [function(*[t[i if d == 0 else 0] for t, d in zip(operands, mapped)]) for i in range(2)]


def _given(operands, mapped):
    return [t if d == 0 else t[0] for t, d in zip(operands, mapped)]


@pytest.mark.parametrize("name", CALLS)
def test_some_operands_of_each_sample(name):
    function, operands = CALLS[name]
    for mapped in _some(operands):
        given, expected = _given(operands, mapped), torch.stack(_samples(function, operands, mapped))
        torch.testing.assert_close(vmap(function, mapped)(*given), expected, rtol=1e-4, atol=1e-5, msg=str(mapped))
        if not expected.is_floating_point():
            continue
        weights = torch.linspace(-1, 2, expected[0].numel()).view(expected[0].shape)
        for i, t in enumerate(operands):
            if not t.is_floating_point():
                continue
            for loss in (lambda *a: (function(*a) * weights).sum(), lambda *a: (function(*a) ** 2).sum()):
                slope = grad(loss, argnums=i)
                wanted = torch.stack(_samples(slope, operands, mapped))
                found = vmap(slope, mapped)(*given)
                torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3, msg=f"{mapped}, by {i}")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["layer_norm", "group_norm", "rms_norm", "index_fill", "fill"])
def test_results_of_16_bits_are_rounded_as_those_of_samples(name, dtype):
    function, operands = CALLS[name]
    operands = [t.to(dtype) if t.is_floating_point() else t for t in operands]
    for mapped in _some(operands):
        expected = torch.stack(_samples(function, operands, mapped))
        found = vmap(function, mapped)(*_given(operands, mapped))
        assert found.dtype is dtype
        assert found.tolist() == expected.tolist(), mapped


@pytest.mark.parametrize("name", CALLS)
def test_cotangents_of_each_sample(name):
    """One recorded call, differentiated for several cotangents at once."""
    function, operands = CALLS[name]
    floating = [i for i, t in enumerate(operands) if t.is_floating_point()]

    out = function(*[t[0] for t in operands])
    if not out.is_floating_point():
        return
    leaves = [operands[i][0].clone().requires_grad_() for i in floating]
    made = function(*[leaves[floating.index(i)] if i in floating else t[0] for i, t in enumerate(operands)])
    cotangents = torch.linspace(-1, 2, 2 * out.numel()).view(2, *out.shape)
    several = torch.autograd.grad(made, leaves, cotangents, retain_graph=True, is_grads_batched=True)
    for k in range(2):
        alone = torch.autograd.grad(made, leaves, cotangents[k], retain_graph=True)
        for found, wanted in zip(several, alone):
            torch.testing.assert_close(found[k], wanted, rtol=1e-3, atol=1e-4)


def test_marks_of_all_samples_and_places_of_nothing():
    mask = torch.tensor([True, False, True, True])
    assert torch.equal(vmap(lambda x: x.masked_select(mask))(V), V[:, mask])
    assert torch.equal(grad(lambda x: vmap(lambda x: x.masked_select(mask))(x).sum())(V), mask.expand(2, 4).float())
    with pytest.raises(RuntimeError, match="dynamic shape"):
        vmap(lambda x, mask: x.masked_select(mask))(V, mask.expand(2, 4))
    nothing = torch.zeros(0, dtype=torch.int64)
    assert vmap(lambda x: x.put(nothing, torch.zeros(0)))(torch.zeros(3, 0)).shape == (3, 0)
